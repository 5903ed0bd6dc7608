//! What the workload `block` reports: the engine, the target, and the latencies of reads, writes and syncs.

use super::says::{Says, Summary, measured, seconds};
use crate::grid::Cell;
use crate::number::{count, percent};
use baremark_model::units::Bytes;
use serde::Deserialize;

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Detail {
    engine: String,
    registered: Option<bool>,
    cache: String,
    place: String,
    size_bytes: u64,
    depth: u64,
    jobs: u64,
    elapsed_s: f64,
    ramp_s: f64,
    steady: Option<Steady>,
    read: Option<Summary>,
    write: Option<Summary>,
    sync: Option<Summary>,
    /// Reads under load whose data was checked.
    reads_checked: u64,
    /// Blocks that were read back and checked after it.
    #[serde(alias = "blocks_checked")]
    blocks_read_back: u64,
    /// Of these, what the page cache still held.
    read_back_from_memory_bytes: u64,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Steady {
    reached: bool,
    range: f64,
}

impl Detail {
    fn setting(&self) -> String {
        let buffers = match self.registered {
            Some(true) => ", buffers registered",
            _ => "",
        };
        let steady = self.steady.as_ref().map(|of| {
            let reached = if of.reached { "steady" } else { "not steady" };
            format!("; {reached}, IOPS ranged over {} of their mean", percent(of.range))
        });
        let memory = match self.read_back_from_memory_bytes {
            0 => String::new(),
            bytes => format!(", {:.0} of them from memory", Bytes(bytes)),
        };
        let checked = match (self.reads_checked, self.blocks_read_back) {
            (0, 0) => String::new(),
            (reads, blocks) => format!("; {reads} reads and {blocks} blocks read back{memory} are right"),
        };
        format!(
            "engine {}{buffers}; cache {}; {}, {:.0}; queue depth {}, {}; {} after a ramp of {}{}{checked}",
            self.engine,
            self.cache,
            self.place,
            Bytes(self.size_bytes),
            self.depth,
            count(self.jobs, "job"),
            seconds(self.elapsed_s),
            seconds(self.ramp_s),
            steady.unwrap_or_default()
        )
    }
}

impl Says for Detail {
    const CAPTION: &'static str = "Latency by operation";
    const COLUMNS: &'static [&'static str] = &["I/Os"];

    fn facts(&self) -> Vec<String> {
        vec![self.setting()]
    }

    fn rows(&self) -> Vec<(String, Vec<Cell>)> {
        measured(&[("reads", &self.read), ("writes", &self.write), ("fdatasync", &self.sync)])
    }
}
