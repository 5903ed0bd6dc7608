//! Percentiles of one distribution are in order, in every row, trial and member. One of several trials' samples together is among those of
//! the trials, and rests on as many samples as it needs.

use super::violation::{Found, ROUNDING, place};
use baremark_model::document::{Document, EstimateRow};
use baremark_model::event::TrialStatus;
use baremark_model::percentile::Percentile;
use baremark_model::plan::Treatment;
use std::collections::BTreeMap;

pub(super) fn check(document: &Document, found: &mut Found) {
    let mut estimates: BTreeMap<&Treatment, Vec<(&str, f64)>> = BTreeMap::new();
    for row in &document.estimates {
        estimates.entry(&row.treatment).or_default().push((&row.metric, row.estimate));
    }
    document.estimates.iter().for_each(|row| together(document, row, found));
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

/// A percentile of all samples lies within the percentiles of their parts, whatever their sizes.
fn together(document: &Document, row: &EstimateRow, found: &mut Found) {
    /// The chance that all samples are below a percentile, from which on it is refused.
    const UNKNOWN: f64 = 0.025;
    let Some(samples) = row.samples else { return };
    let at = || place(document, "estimate", &row.metric, &row.treatment);
    let Some(Percentile { of, share }) = Percentile::of_key(&row.metric) else {
        found.unless(false, at, || format!("{samples} samples"), "only percentiles are of samples together");
        return;
    };
    #[expect(clippy::cast_precision_loss, reason = "a number of samples, of which thousands decide")]
    let unknown = share.max(1.0 - share).powf(samples as f64);
    let enough = share <= 0.0 || share >= 1.0 || unknown <= UNKNOWN * (1.0 + ROUNDING);
    found.unless(enough, at, || format!("of {samples} samples"), "a percentile has the samples that it needs");
    let largest = document.estimates.iter().find(|other| {
        let is_largest = |found: Percentile| found.of == of && found.share >= 1.0;
        other.treatment == row.treatment && Percentile::of_key(&other.metric).is_some_and(is_largest)
    });
    let (mean, sd) = (row.mean.unwrap_or(0.0), row.sd.unwrap_or(0.0));
    let most = largest.map_or(f64::INFINITY, |largest| largest.estimate * (1.0 + ROUNDING));
    let possible = (0.0..=most).contains(&mean) && (0.0..=most).contains(&sd);
    let what = || format!("mean {:?}, standard deviation {:?}", row.mean, row.sd);
    found.unless(possible, at, what, "mean and standard deviation of times are not beyond the largest of them");
    let counting = document.trials.iter().filter(|trial| trial.status == TrialStatus::Ok);
    let arms = counting.flat_map(|trial| &trial.arms).filter(|arm| arm.treatment == row.treatment);
    let samples = arms.flat_map(|arm| &arm.medians).filter(|sample| sample.metric == row.metric);
    let mut own: Vec<f64> = samples.map(|sample| sample.value).collect();
    own.sort_by(f64::total_cmp);
    let (Some(least), Some(most)) = (own.first(), own.last()) else { return };
    let within = |value: f64| *least - ROUNDING * least.abs() <= value && value <= *most + ROUNDING * most.abs();
    // Where some trials have too few samples for a percentile of their own, it is among those of the others no more.
    let among = own.len() != row.n || within(row.estimate);
    let what = || format!("{}, and the trials' own are {least} to {most}", row.estimate);
    found.unless(among, at, what, "a percentile of all samples is among those of the trials");
    let median = f64::midpoint(own[(own.len() - 1) / 2], own[own.len() / 2]);
    // A trial whose phases are too short for a percentile, and not all of them together, has none in its row.
    let is_median =
        own.len() != row.n || row.median.is_some_and(|said| (said - median).abs() <= ROUNDING * median.abs());
    let what = || format!("{:?}, and that of the trials is {median}", row.median);
    found.unless(is_median, at, what, "the median next to a percentile is that of the trials");
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
        baremark_model::order::by(&mut family, |one, two| one.0.total_cmp(&two.0));
        for pair in family.windows(2) {
            let ((_, below, less), (_, above, more)) = (pair[0], pair[1]);
            let holds = less <= more + ROUNDING * more.abs();
            let what = || format!("{less} is above {above}, {more}");
            found.unless(holds, || place(below), what, "percentiles of one distribution are in order");
        }
    }
}
