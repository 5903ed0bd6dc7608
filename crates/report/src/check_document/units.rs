//! Units are known, one for each metric, those that a metric's key names, and convert to the published table's.

use super::violation::{Found, place};
use crate::agreement;
use crate::per_workload::parts;
use baremark_model::document::{Document, EstimateRow};
use baremark_model::published::find;
use baremark_model::unit::{Unit, comparable};

/// Ends of keys that name a unit. The first that fits decides.
const NAMED: [(&str, &str); 14] = [
    ("mb_per_s", "MB/s"),
    ("mib_per_s", "MiB/s"),
    ("gbit_per_s", "Gbit/s"),
    ("mbit_per_s", "Mbit/s"),
    ("bytes_per_s", "B/s"),
    ("_ns", "ns"),
    ("_us", "us"),
    ("_ms", "ms"),
    ("_bytes", "B"),
    ("_kib", "KiB"),
    ("_mib", "MiB"),
    ("_gib", "GiB"),
    ("_percent", "%"),
    ("_per_s", "1/s"),
];

pub(super) fn check(document: &Document, found: &mut Found) {
    let at = |row: &EstimateRow| place(document, "estimate", &row.metric, &row.treatment);
    for row in &document.estimates {
        if let Err(why) = Unit::of(&row.unit) {
            found.unless(false, || at(row), || format!("unknown unit '{}'", row.unit), &why.to_string());
        }
        let named = NAMED.iter().find(|(end, _)| row.metric.ends_with(end)).map(|(_, unit)| *unit);
        let holds = named.is_none_or(|named| suits(&row.unit, named));
        let what = || format!("its unit is {}", row.unit);
        found.unless(holds, || at(row), what, &format!("the key says {}", named.unwrap_or_default()));
        let first = document.estimates.iter().find(|other| other.metric == row.metric);
        let one = first.is_none_or(|first| first.unit == row.unit);
        found.unless(one, || at(row), what, "a metric has one unit");
    }
    published(document, found);
}

/// Whether a unit is what a key says, or that by something other than time, such as `us/step`; `_per_s` says only that it is by second.
fn suits(unit: &str, named: &str) -> bool {
    match named {
        "1/s" => unit.ends_with("/s") || unit == "IOPS",
        named => unit.strip_prefix(named).is_some_and(|by| by.is_empty() || by.starts_with('/') && by != "/s"),
    }
}

/// Metrics that a published table's cells are next to are in a unit that converts to the cells'.
fn published(document: &Document, found: &mut Found) {
    for part in parts(document) {
        let document: &Document = &part.document;
        let named = document.run.published.as_deref().and_then(find);
        for table in named.iter().flat_map(|of| &of.publication.table) {
            for (metric, unit) in agreement::units(table, &document.run.workload) {
                for row in document.estimates.iter().filter(|row| row.metric == metric) {
                    let at = || place(document, "estimate", &row.metric, &row.treatment);
                    let what = || format!("{} next to {unit} in the published table '{}'", row.unit, table.title);
                    let converts = comparable(&row.unit, unit).is_some();
                    found.unless(converts, at, what, "units are those of the published table");
                }
            }
        }
    }
}
