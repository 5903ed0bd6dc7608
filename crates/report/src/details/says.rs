//! What the details of workloads have in common: facts, rows of a table, and latencies.

use crate::grid::Cell;
use crate::number::{fixed, rounded};
use baremark_model::units::Nanos;
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// What a detail says of its treatment.
pub(super) trait Says: DeserializeOwned {
    /// The table's caption.
    const CAPTION: &'static str;
    /// The heads of its columns before those of a latency.
    const COLUMNS: &'static [&'static str];
    /// Whether its rows end with [`Summary::cells`].
    const LATENCIES: bool = true;
    /// Facts, each of which is said once for all treatments that have it alike; empty for none.
    fn facts(&self) -> Vec<String>;
    /// Rows of the table: what, and the cells.
    fn rows(&self) -> Vec<(String, Vec<Cell>)>;
}

/// What was measured of latencies, as every engine summarizes it.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Summary {
    pub(super) samples: u64,
    mean_ns: f64,
    pub(super) p50_ns: Option<u64>,
    p90_ns: Option<u64>,
    pub(super) p95_ns: Option<u64>,
    pub(super) p99_ns: Option<u64>,
    p999_ns: Option<u64>,
    max_ns: Option<u64>,
}

/// The columns of [`Summary::cells`].
pub(super) const LATENCIES: [&str; 7] = ["mean", "p50", "p90", "p95", "p99", "p99.9", "max"];

impl Summary {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a mean of latencies")]
    pub(super) fn cells(&self) -> Vec<Cell> {
        let mean = (self.mean_ns > 0.0).then_some(self.mean_ns as u64);
        [mean, self.p50_ns, self.p90_ns, self.p95_ns, self.p99_ns, self.p999_ns, self.max_ns].map(time).to_vec()
    }
}

/// A time, or nothing where too few were measured for it.
pub(super) fn time(ns: Option<u64>) -> Cell {
    ns.map_or(Cell::Blank, |ns| text(format!("{:.2}", Nanos(ns))))
}

pub(super) fn text(text: String) -> Cell {
    if text.is_empty() { Cell::Blank } else { Cell::Measured { estimate: text, ratio: None } }
}

/// Seconds that were measured: `0.30 s`.
pub(super) fn seconds(seconds: f64) -> String {
    format!("{seconds:.2} s")
}

pub(super) fn number(value: f64) -> String {
    if value.fract() == 0.0 { fixed(value, 0) } else { rounded(value) }
}

/// The rows of latencies that there are, with how many were measured.
pub(super) fn measured(all: &[(&str, &Option<Summary>)]) -> Vec<(String, Vec<Cell>)> {
    let row = |(what, summary): &(&str, &Option<Summary>)| {
        let summary = summary.as_ref().filter(|of| of.samples > 0)?;
        let cells = std::iter::once(text(summary.samples.to_string())).chain(summary.cells()).collect();
        Some(((*what).to_owned(), cells))
    };
    all.iter().filter_map(row).collect()
}
