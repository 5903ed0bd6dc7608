//! What a study may set about pods.

use std::collections::BTreeMap;
use std::time::Duration;

/// Which cluster, and what its pods are like; `None` or empty leaves the choice to kubectl or the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The context of kubectl's configuration.
    pub context: Option<String>,
    /// The namespace of the pods.
    pub namespace: Option<String>,
    /// The container's image.
    pub image: String,
    /// The runtime class of the pods.
    pub runtime_class: Option<String>,
    /// Labels that a node must have.
    pub node: BTreeMap<String, String>,
    /// CPUs, requested and as the limit.
    pub cpus: Option<usize>,
    /// Memory in bytes, requested and as the limit.
    pub memory_bytes: Option<u64>,
    /// How long a pod may exist.
    pub time: Duration,
    /// How long a pod may take until it is ready.
    pub start_limit: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            context: None,
            namespace: None,
            image: String::new(),
            runtime_class: None,
            node: BTreeMap::new(),
            cpus: None,
            memory_bytes: None,
            time: Duration::from_secs(3600),
            start_limit: Duration::from_secs(120),
        }
    }
}
