//! What the workload `guest-operations` reports: each operation on a guest with its times.

use super::says::{Says, number, text};
use crate::grid::Cell;
use crate::number::count;
use crate::text::clean;
use baremark_model::units::Bytes;
use serde::Deserialize;

/// Operations of a treatment that are listed.
const MOST: usize = 20;

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Detail {
    operation: String,
    emulated: bool,
    operations: Vec<GuestOperation>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct GuestOperation {
    begin_s: f64,
    counted: bool,
    seconds: f64,
    down_ms: Option<f64>,
    migration_ms: Option<f64>,
    silent_ms: Option<f64>,
    moved_bytes: Option<u64>,
}

impl GuestOperation {
    fn row(&self) -> (String, Vec<Cell>) {
        let with = |value: Option<f64>, unit: &str| {
            value.map_or_else(String::new, |value| format!("{} {unit}", number(value)))
        };
        let counted = if self.counted { "" } else { " (not counted)" };
        let cells = [
            with(Some(self.seconds), "s"),
            with(self.down_ms, "ms"),
            with(self.migration_ms, "ms"),
            with(self.silent_ms, "ms"),
            self.moved_bytes.map(|bytes| format!("{:.1}", Bytes(bytes))).unwrap_or_default(),
        ];
        (format!("at {} s{counted}", number(self.begin_s)), cells.map(text).to_vec())
    }
}

impl Says for Detail {
    const CAPTION: &'static str = "Operations";
    const COLUMNS: &'static [&'static str] = &["took", "down", "migration", "silent", "moved"];
    const LATENCIES: bool = false;

    fn facts(&self) -> Vec<String> {
        let all = self.operations.len();
        let shown = if all > MOST { format!(", of which {MOST} are listed") } else { String::new() };
        let emulated = if self.emulated { "; the guests were emulated" } else { "" };
        vec![format!("{} of {}{shown}{emulated}", count(all as u64, "operation"), clean(&self.operation))]
    }

    fn rows(&self) -> Vec<(String, Vec<Cell>)> {
        self.operations.iter().take(MOST).map(GuestOperation::row).collect()
    }
}
