//! Percentiles of one distribution are in order, in every row, trial and member.

use super::violation::{Found, ROUNDING, place};
use baremark_model::document::Document;
use baremark_model::percentile::Percentile;
use baremark_model::plan::Treatment;
use std::collections::BTreeMap;

pub(super) fn check(document: &Document, found: &mut Found) {
    let mut estimates: BTreeMap<&Treatment, Vec<(&str, f64)>> = BTreeMap::new();
    for row in &document.estimates {
        estimates.entry(&row.treatment).or_default().push((&row.metric, row.estimate));
    }
    for (treatment, values) in estimates {
        ordered(&values, &|metric| place(document, "estimate", metric, treatment), found);
    }
    for trial in &document.trials {
        for arm in &trial.arms {
            let kind = format!("block {}, cell {}: value", trial.block, trial.cell);
            let all = std::iter::once(&arm.medians).chain(&arm.members);
            for samples in all {
                let values: Vec<(&str, f64)> = samples.iter().map(|of| (of.metric.as_str(), of.value)).collect();
                ordered(&values, &|metric| place(document, &kind, metric, &arm.treatment), found);
            }
        }
    }
}

/// Checks values by metric.
pub(super) fn ordered(values: &[(&str, f64)], place: &dyn Fn(&str) -> String, found: &mut Found) {
    let mut families: BTreeMap<String, Vec<(f64, &str, f64)>> = BTreeMap::new();
    for (metric, value) in values {
        if let Some(percentile) = Percentile::of_key(metric) {
            families.entry(percentile.of).or_default().push((percentile.share, metric, *value));
        }
    }
    for mut family in families.into_values() {
        family.sort_by(|one, two| one.0.total_cmp(&two.0));
        for pair in family.windows(2) {
            let ((_, below, less), (_, above, more)) = (pair[0], pair[1]);
            let holds = less <= more + ROUNDING * more.abs();
            let what = || format!("{less} is above {above}, {more}");
            found.unless(holds, || place(below), what, "percentiles of one distribution are in order");
        }
    }
}
