//! Latencies of guests' disks, as the guest measures them and as QEMU counts them below it.

use crate::grid::{Cell, Grid, GridRow};
use crate::number::fixed;
use crate::treatment::Factors;
use baremark_model::distinct::distinct;
use baremark_model::document::{Document, EstimateRow};

/// How the metrics of QEMU's own counts begin.
const QEMU: &str = "qemu_";
const OPERATIONS: [&str; 2] = ["read", "write"];
const STATISTICS: [&str; 3] = ["mean", "p50", "p99"];

/// A row for reads and one for writes of each treatment that has QEMU's counts; `None` where none has.
pub(crate) fn latencies(document: &Document) -> Option<Grid> {
    let factors = Factors::of(&document.run);
    let mut rows = Vec::new();
    let counted = document.estimates.iter().filter(|row| row.metric.starts_with(QEMU));
    for treatment in distinct(counted.map(|row| &row.treatment)) {
        for operation in OPERATIONS {
            let cell = |before: &str, statistic: &str| {
                let metric = format!("{before}{operation}_{statistic}_us");
                let of = |row: &&EstimateRow| row.treatment == *treatment && row.metric == metric;
                let found = document.estimates.iter().find(of);
                found.map_or(Cell::Blank, |row| Cell::Measured { estimate: fixed(row.estimate, 1), ratio: None })
            };
            let cells: Vec<Cell> = ["", QEMU].iter().flat_map(|before| STATISTICS.map(|of| cell(before, of))).collect();
            if !cells.iter().all(|cell| matches!(cell, Cell::Blank)) {
                rows.push(GridRow { label: format!("{}, {operation}s", factors.name(treatment)), cells });
            }
        }
    }
    let columns = ["guest", "QEMU"].iter().flat_map(|by| STATISTICS.map(|of| format!("{by} {of}"))).collect();
    let caption = "Latencies of guests' disks, in us".to_owned();
    (!rows.is_empty()).then(|| Grid { caption, columns, rows, reasons: Vec::new() })
}
