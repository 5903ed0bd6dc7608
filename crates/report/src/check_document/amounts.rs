//! No time, rate or size is negative, and shares are within 0 to 100 %.

use super::violation::{Found, place};
use baremark_model::document::Document;
use baremark_model::unit::{Dimension, Unit};

/// What counters that are read one after the other add to a share, in percent.
const READ_APART: f64 = 1.0;

pub(super) fn check(document: &Document, found: &mut Found) {
    for row in &document.estimates {
        let at = || place(document, "estimate", &row.metric, &row.treatment);
        amount(&row.unit, [Some(row.estimate), row.lo, row.hi], 0.0, &at, found);
    }
    for row in &document.members {
        let at = || place(document, "member's estimate", &row.metric, &row.treatment);
        amount(&row.unit, [Some(row.estimate), row.lo, row.hi], 0.0, &at, found);
    }
    for row in document.observed.iter().flat_map(|observed| &observed.rows) {
        let at = || place(document, "observation", &row.quantity, &row.treatment);
        amount(&row.unit, [Some(row.value), row.lo, row.hi], READ_APART, &at, found);
    }
    for row in &document.fairness {
        let at = || place(document, "fairness", &row.metric, &row.treatment);
        share([Some(row.estimate), row.lo, row.hi], 1.0, &at, found);
    }
    for row in &document.time {
        let at = || {
            format!("time of {}, {}", if row.workload.is_empty() { "all workloads" } else { &row.workload }, row.part)
        };
        share([Some(row.share), None, None], 1.0, &at, found);
        found.unless(row.seconds >= 0.0, at, || format!("{} s", row.seconds), "no time is negative");
    }
}

fn amount(unit: &str, values: [Option<f64>; 3], beyond: f64, place: &dyn Fn() -> String, found: &mut Found) {
    let Ok(unit) = Unit::of(unit) else { return };
    if unit.dimension == Dimension::Share {
        share(values, 100.0 + beyond, place, found);
        return;
    }
    let negative = values.iter().flatten().find(|value| **value < 0.0);
    if let (true, Some(value)) = (unit.is_magnitude(), negative) {
        found.unless(false, place, || format!("{value}"), "no time, rate or size is negative");
    }
}

fn share(values: [Option<f64>; 3], whole: f64, place: &dyn Fn() -> String, found: &mut Found) {
    let outside =
        values.iter().flatten().find(|value| !(0.0..=whole * (1.0 + super::violation::ROUNDING)).contains(*value));
    if let Some(value) = outside {
        found.unless(false, place, || format!("{value}"), "a share is within 0 and the whole");
    }
}
