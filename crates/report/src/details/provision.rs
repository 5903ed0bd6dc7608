//! What the workload `provision` reports: how the LUNs are made, their latencies, and how evenly they fared.

use super::says::{Says, Summary, measured, number, seconds};
use crate::grid::Cell;
use baremark_model::units::Bytes;
use serde::Deserialize;

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Detail {
    engine: String,
    layout: String,
    luns: u64,
    lun_bytes: u64,
    devices: u64,
    direct: bool,
    depth: u64,
    elapsed_s: f64,
    lun_iops: Vec<f64>,
    read: Option<Summary>,
    write: Option<Summary>,
}

impl Detail {
    fn setting(&self) -> String {
        let direct = if self.direct { "direct" } else { "buffered" };
        let (least, most) =
            self.lun_iops.iter().fold((f64::INFINITY, 0.0_f64), |(low, high), one| (low.min(*one), high.max(*one)));
        let each = match self.lun_iops.len() {
            0 => String::new(),
            _ => format!("; {} to {} IOPS a LUN", number(least.round()), number(most.round())),
        };
        format!(
            "layout {}, {} LUNs of {:.0} on {} devices; engine {}, {direct}, queue depth {}; {}{each}",
            self.layout,
            self.luns,
            Bytes(self.lun_bytes),
            self.devices,
            self.engine,
            self.depth,
            seconds(self.elapsed_s)
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
        measured(&[("reads", &self.read), ("writes", &self.write)])
    }
}
