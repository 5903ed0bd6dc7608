//! What was counted while a program was protected with failover.

use serde::{Deserialize, Serialize};

/// One failover.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Failover {
    /// The process that was lost.
    pub lost: u32,
    /// The epoch from whose end the program continued.
    pub epoch: u64,
    /// How long a process that did not end had been silent, in milliseconds; `None` for one that ended.
    pub silent_ms: Option<f64>,
    /// From the loss, or the last sign of life, until the program ran again, in milliseconds.
    pub continued_ms: f64,
    /// From the same moment until output was released again; `None` where none was.
    pub served_ms: Option<f64>,
}

/// All of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FailoverReport {
    /// Epochs whose checkpoint was acknowledged.
    pub epochs: u64,
    /// Pages that were sent.
    pub pages: u64,
    /// Bytes of all checkpoints.
    pub link_bytes: u64,
    /// How long the program stood for them, in nanoseconds.
    pub paused_ns: u64,
    /// From the start to the end, in nanoseconds.
    pub wall_ns: u64,
    /// Bytes of output that were released.
    pub released_bytes: u64,
    /// The most threads at a checkpoint.
    pub threads: u64,
    /// Calls that were refused, each kind once.
    pub refused: Vec<String>,
    /// Failovers in their order.
    pub failovers: Vec<Failover>,
}
