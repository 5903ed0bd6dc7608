//! A pod of a Kubernetes cluster.

use super::kind::{
    EnvironmentKind, FRESH, Given, INSTEAD_OF, ON_OTHER_MACHINES, START_LIMIT, Setting, Short, WHOLE_RUN, identifying,
    setting,
};
use crate::knob::{Default, Kind};
use crate::units::{HOUR, SECOND};
use crate::value::Value;

/// Its row.
pub(super) const KIND: EnvironmentKind = EnvironmentKind {
    name: "kubernetes",
    help: "a pod of a Kubernetes cluster, by kubectl",
    needs: "kubectl, and the right to create pods",
    grant: "kubectl create rolebinding baremark --clusterrole=edit --user=USER",
    can: ON_OTHER_MACHINES,
    settings: SETTINGS,
    elsewhere_by: &[],
    short: Some(Short {
        form: "[:CONTEXT/NAMESPACE]",
        needs: "",
        image: Some("docker.io/library/busybox:stable"),
        named_by: None,
        settings: named,
    }),
};

const SETTINGS: &[Setting] = &[
    identifying("image", Kind::Text, Default::Required)
        .help("image of the pod's container; it must have a shell (sh) and the usual small programs, as busybox has"),
    identifying("context", Kind::Text, Default::Derived("kubectl's current context"))
        .help("context of kubectl's configuration"),
    identifying("namespace", Kind::Text, Default::Derived("the context's namespace"))
        .help("namespace in which pods are created"),
    identifying("runtime_class", Kind::Text, Default::Derived("the cluster's default"))
        .help("runtime class of the pods, such as gvisor or kata"),
    identifying("node", Kind::Words, Default::Derived("any")).help("labels that a node must have, as \"KEY=VALUE\""),
    setting("cpus", Kind::Count { min: 1, max: 4096 }, Default::Derived("no request and no limit"))
        .help("CPUs that a pod requests, and its limit"),
    setting("memory", Kind::Size { min: 16 << 20, max: 1 << 46 }, Default::Derived("no request and no limit"))
        .help("memory that a pod requests, and its limit"),
    setting("time", Kind::Time { min: 60 * SECOND, max: 8784 * HOUR }, Default::Typed("1 h"))
        .help("deadline of a pod, after which the cluster ends it; it must cover the whole run with fresh = \"run\""),
    setting("start_limit", START_LIMIT, Default::Typed("2 min"))
        .help("how long a pod may take until it is ready: scheduling, pulling the image, starting"),
    INSTEAD_OF,
    FRESH,
];

/// The settings of `CONTEXT/NAMESPACE`, of which one may be empty. A context may have slashes in its name, as those of EKS do; a namespace has
/// none. A pod serves the whole run.
fn named(target: Option<&str>) -> Result<Given, String> {
    let (context, namespace) = match target {
        None => ("", ""),
        Some(target) => target.rsplit_once('/').ok_or_else(|| {
            format!(
                "'{target}' names no namespace; write kubernetes:{target}/NAMESPACE, or /NAMESPACE for the current context"
            )
        })?,
    };
    let named = [("context", context), ("namespace", namespace)].into_iter().filter(|(_, name)| !name.is_empty());
    let named = named.map(|(key, name)| (key, Value::Text(name.to_owned())));
    Ok(named.chain([(FRESH.key, Value::Choice(WHOLE_RUN.to_owned()))]).collect())
}
