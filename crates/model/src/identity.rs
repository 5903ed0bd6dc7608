//! What holds between metrics of one phase by what they are: sums of parts.
//!
//! Whoever checks a result asks here which metrics belong together. A test compares the keys with the descriptors of all workloads.

/// A metric that is the sum of others.
#[derive(Clone, Copy, Debug)]
pub struct Sum {
    /// The whole.
    pub whole: &'static str,
    /// All of its parts, in its unit.
    pub parts: &'static [&'static str],
    /// By which share both may differ: what is counted at other moments differs a little.
    pub slack: f64,
}

/// Every sum of what programs and several workloads report.
pub const SUMS: &[Sum] = &[
    Sum { whole: "cpu_s", parts: &["user_s", "system_s"], slack: 1e-6 },
    Sum { whole: "iops", parts: &["read_iops", "write_iops"], slack: 1e-6 },
];

/// The CPU time of a transaction, where the server's is known.
pub const OF_TRANSACTIONS: Sum =
    Sum { whole: "cpu_us_per_tx", parts: &["driver_cpu_us_per_tx", "server_cpu_us_per_tx"], slack: 1e-6 };
