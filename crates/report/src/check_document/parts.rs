//! The parts of the trials' time add up to the whole.

use super::violation::{Found, equal};
use baremark_model::document::{Document, TimeRow};
use std::collections::BTreeMap;

/// What the parts of a trial may be short of or beyond it, as a share: they are read one after the other.
const READ_APART: f64 = 1e-3;

pub(super) fn check(document: &Document, found: &mut Found) {
    let mut workloads: BTreeMap<&str, Vec<&TimeRow>> = BTreeMap::new();
    document.time.iter().for_each(|row| workloads.entry(&row.workload).or_default().push(row));
    for (workload, rows) in &workloads {
        times(workload, rows, found);
    }
    together(&workloads, found);
}

/// Seconds are the share of a time that all parts of a workload have in common, and the shares are at most 1 together.
fn times(workload: &str, rows: &[&TimeRow], found: &mut Found) {
    let named = if workload.is_empty() { "all workloads" } else { workload };
    let at = || format!("time of {named}");
    let shares: f64 = rows.iter().map(|row| row.share).sum();
    found.unless(
        shares <= 1.0 + READ_APART,
        at,
        || format!("shares of {shares} in all"),
        "parts add up to at most the whole",
    );
    let whole = rows.iter().filter(|row| row.share > 0.0).map(|row| row.seconds / row.share).reduce(f64::max);
    for row in rows {
        let expected = whole.map_or(0.0, |whole| whole * row.share);
        let holds = equal(row.seconds, expected) || (row.seconds - expected).abs() < 1e-6;
        let what = || format!("{} is {} s and a share of {}", row.part, row.seconds, row.share);
        found.unless(holds, at, what, "a share times the time is its part");
    }
}

/// Each part of all workloads is the sum of theirs.
fn together(workloads: &BTreeMap<&str, Vec<&TimeRow>>, found: &mut Found) {
    let Some(all) = workloads.get("").filter(|_| workloads.len() > 1) else { return };
    for row in all {
        let own = workloads.iter().filter(|(workload, _)| !workload.is_empty()).flat_map(|(_, rows)| rows);
        let sum: f64 = own.filter(|own| own.part == row.part).map(|own| own.seconds).sum();
        let holds = equal(sum, row.seconds) || (sum - row.seconds).abs() < 1e-6;
        let what = || format!("{} is {} s, and {sum} s in all workloads", row.part, row.seconds);
        found.unless(holds, || "time of all workloads".to_owned(), what, "parts add up to the whole");
    }
}
