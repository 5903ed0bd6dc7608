//! Every interval is finite, has both ends in order, and contains its estimate.

use super::violation::{Found, ROUNDING, place};
use baremark_model::document::Document;

/// An estimate with its ends, and where it is.
struct Row {
    place: String,
    value: Option<f64>,
    lo: Option<f64>,
    hi: Option<f64>,
}

pub(super) fn check(document: &Document, found: &mut Found) {
    for row in rows(document) {
        let shown = || format!("{:?} in {:?} to {:?}", row.value, row.lo, row.hi);
        let at = || row.place.clone();
        let numbers = [row.value, row.lo, row.hi];
        let finite = numbers.iter().flatten().all(|value| value.is_finite());
        found.unless(finite, at, shown, "every number is finite");
        found.unless(row.lo.is_some() == row.hi.is_some(), at, shown, "an interval has two ends");
        let (Some(lo), Some(hi)) = (row.lo, row.hi) else { continue };
        found.unless(lo <= hi, at, shown, "the ends of an interval are in order");
        let value = row.value;
        // The mean of a constant may differ from it in the last digit.
        let slack = ROUNDING * lo.abs().max(hi.abs());
        let holds = value.is_some_and(|value| (lo - slack..=hi + slack).contains(&value));
        found.unless(holds || !finite || lo > hi, at, shown, "an interval contains its estimate");
    }
}

fn rows(document: &Document) -> Vec<Row> {
    let at = |kind: &str, what: &str, treatment| place(document, kind, what, treatment);
    let mut rows = Vec::new();
    let mut add = |place: String, value: Option<f64>, lo: Option<f64>, hi: Option<f64>| {
        rows.push(Row { place, value, lo, hi });
    };
    for row in &document.estimates {
        add(at("estimate", &row.metric, &row.treatment), Some(row.estimate), row.lo, row.hi);
    }
    for row in &document.members {
        add(at(&format!("member {}", row.member + 1), &row.metric, &row.treatment), Some(row.estimate), row.lo, row.hi);
    }
    for row in &document.fairness {
        add(at("fairness", &row.metric, &row.treatment), Some(row.estimate), row.lo, row.hi);
    }
    for row in &document.slopes {
        add(at("slope", &row.metric, &row.treatment), Some(row.slope), row.lo, row.hi);
    }
    for row in &document.ratios {
        add(at("ratio", &row.metric, &row.treatment), row.ratio, row.lo, row.hi);
    }
    for row in &document.references {
        add(at("reference", &row.metric, &row.treatment), Some(row.ratio), row.lo, row.hi);
    }
    for row in &document.explanations {
        add(at("explanation", &row.what, &row.treatment), Some(row.value), Some(row.lo), Some(row.hi));
    }
    for row in &document.predictions {
        add(at("prediction", &row.metric, &row.treatment), Some(row.ratio), Some(row.lo), Some(row.hi));
    }
    for row in document.observed.iter().flat_map(|observed| &observed.rows) {
        add(at("observation", &row.quantity, &row.treatment), Some(row.value), row.lo, row.hi);
    }
    rows
}
