//! The two sides of a comparison: which treatments meet, and intervals of differences that are judged together.

use baremark_model::distinct::distinct;
use baremark_model::document::Document;
use baremark_model::plan::Treatment;
use baremark_stats::Interval;
use baremark_stats::multiplicity::discoveries;
use baremark_stats::runs::Shift;

/// Documents that form a side, and the levels picked from them.
#[derive(Clone, Debug, Default)]
pub struct Chosen {
    /// The runs.
    pub documents: Vec<Document>,
    /// The levels; empty for all.
    pub levels: Treatment,
}

/// The treatments of a side that have its levels and an estimate of the headline's metric.
pub(super) fn treatments(side: &Chosen) -> Vec<Treatment> {
    let headline = side.documents.iter().flat_map(|document| {
        document.estimates.iter().filter(move |row| row.metric == document.run.metric_of(&row.treatment))
    });
    let picked = |treatment: &&Treatment| side.levels.iter().all(|(key, label)| treatment.get(key) == Some(label));
    distinct(headline.map(|row| &row.treatment).filter(picked).cloned())
}

/// The treatments of the base, each with that of the other side with which it is compared.
pub(super) fn matched(base: &Chosen, other: &Chosen) -> Vec<(Treatment, Treatment)> {
    let there = treatments(other);
    let meeting = |of_base: Treatment| {
        let of_other = there.iter().find(|of| meets(base, &of_base, of))?.clone();
        Some((of_base, of_other))
    };
    treatments(base).into_iter().filter_map(meeting).collect()
}

/// Whether two treatments are to be compared: alike but for the levels that were picked. What was picked may bring factors
/// with it that the other does not have (native has no host backing).
fn meets(base: &Chosen, one: &Treatment, two: &Treatment) -> bool {
    if base.levels.is_empty() {
        return one == two;
    }
    let rest = without(one, &base.levels);
    rest.iter().all(|(key, label)| two.get(key).is_none_or(|other| other == label))
}

/// A treatment without the levels that were picked.
pub(crate) fn without(treatment: &Treatment, levels: &Treatment) -> Treatment {
    treatment.iter().filter(|(key, _)| !levels.contains_key(*key)).map(|(k, v)| (k.clone(), v.clone())).collect()
}

/// The intervals of differences judged together at an error rate, as those of a study's ratios: an interval that leaves out 0 is as long as the
/// false discovery rate demands.
pub(crate) fn together(shifts: &[Option<Shift>], rate: f64) -> Vec<Option<Interval>> {
    let p_values: Vec<f64> = shifts.iter().flatten().map(Shift::p_value).collect();
    #[expect(clippy::cast_precision_loss, reason = "some dozens of rows")]
    let share = discoveries(&p_values, rate).max(1) as f64 / p_values.len().max(1) as f64;
    let interval = |shift: &Shift| match shift.interval(1.0 - rate) {
        plain if plain.contains(0.0) => plain,
        _ => shift.interval(1.0 - rate * share),
    };
    shifts.iter().map(|shift| shift.as_ref().map(interval)).collect()
}
