//! Two sides compared: levels of one run block by block, runs with runs by the spread between them.
//!
//! What is compared are result documents, so that runs of another store, another host or another year can be brought as
//! files. Beside each metric's own value the ratios within the runs are compared: a ratio to native on its own host
//! survives a change of host that a value does not.

mod around;
mod facts;

use crate::analysis::{RATE, words};
use baremark_model::comparison::{Change, Comparison, ComparisonRow, FORMAT, Method, Side};
use baremark_model::descriptor::Better;
use baremark_model::document::{Document, Outcome};
use baremark_model::event::TrialStatus;
use baremark_model::plan::{Contrast, Treatment};
use baremark_model::units::Share;
use baremark_stats::estimate::mean;
use baremark_stats::family::discoveries;
use baremark_stats::unpaired::{FEWEST_RUNS, Unpaired, unpaired};
use baremark_stats::{Family, Interval, PairedRatio, judge};
use std::collections::BTreeMap;

/// Documents that form a side, and the levels picked from them.
#[derive(Clone, Debug, Default)]
pub struct Chosen {
    /// The runs.
    pub documents: Vec<Document>,
    /// The levels; empty for all.
    pub levels: Treatment,
}

/// Why two sides cannot be set side by side at all.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Incomparable {
    /// A side without a run.
    #[error("the {0} has no run; name at least one")]
    Empty(&'static str),
    /// They did not do the same work.
    #[error("the sides did not do the same work: {what} is {base} in {of_base} and {other} in {of_other}")]
    Work {
        /// What differs.
        what: String,
        /// The base's.
        base: String,
        /// In which run.
        of_base: String,
        /// The other's.
        other: String,
        /// In which run.
        of_other: String,
    },
    /// One run on both sides.
    #[error("run {0} is on both sides; to compare two of its levels write {0}:FACTOR=LEVEL for each side")]
    Itself(String),
    /// Levels of different factors.
    #[error("one side picks levels of [{base}] and the other of [{other}]; pick the same factors on both")]
    Factors {
        /// The base's factors.
        base: String,
        /// The other's.
        other: String,
    },
    /// Nothing is there on both sides.
    #[error("no treatment was measured on both sides; the base has {base}, the other {other}")]
    Nothing {
        /// The base's treatments.
        base: String,
        /// The other's.
        other: String,
    },
}

/// Compares `other` with `base`. `delta` is the difference that matters; without it the largest that the runs were
/// measured for. `declared` are the facts that were varied on purpose.
///
/// # Errors
/// When the sides have nothing in common that could be compared.
pub fn compare(
    base: &Chosen,
    other: &Chosen,
    delta: Option<Share>,
    declared: &[String],
) -> Result<Comparison, Incomparable> {
    let method = method(base, other)?;
    let head = &base.documents[0].run;
    let delta = delta.unwrap_or_else(|| {
        let all = base.documents.iter().chain(&other.documents).map(|document| document.run.design.delta.0);
        Share(all.fold(0.0, f64::max))
    });
    let quantities = quantities(base, other);
    if quantities.is_empty() {
        let of = |side: &Chosen| {
            let mut names: Vec<String> = treatments(side).iter().map(label).collect();
            names.dedup();
            names.join("; ")
        };
        return Err(Incomparable::Nothing { base: of(base), other: of(other) });
    }
    let (confidence, rows) = match method {
        Method::Paired => paired(&quantities, delta),
        Method::Unpaired => by_runs(&quantities, delta),
    };
    let found = facts::between(&base.documents, &other.documents);
    let (declared, confounded) =
        found.differing.into_iter().partition(|difference| declared.contains(&difference.fact));
    Ok(Comparison {
        format: FORMAT.to_owned(),
        study: head.study.clone(),
        workload: head.workload.clone(),
        base: side(base),
        other: side(other),
        method,
        delta,
        confidence,
        rows,
        observed: around::observed(base, other, method, delta),
        declared,
        confounded,
        mixed: found.mixed,
    })
}

fn side(chosen: &Chosen) -> Side {
    let mut machines: Vec<String> = chosen.documents.iter().map(|document| facts::machine(&document.run)).collect();
    machines.sort();
    machines.dedup();
    Side {
        runs: chosen.documents.iter().map(|document| document.run.id.clone()).collect(),
        levels: chosen.levels.clone(),
        machines,
    }
}

/// How the sides can be compared; refuses what is no comparison.
fn method(base: &Chosen, other: &Chosen) -> Result<Method, Incomparable> {
    for (side, name) in [(base, "base"), (other, "other side")] {
        if side.documents.is_empty() {
            return Err(Incomparable::Empty(name));
        }
    }
    let keys = |side: &Chosen| side.levels.keys().cloned().collect::<Vec<_>>();
    if keys(base) != keys(other) {
        return Err(Incomparable::Factors { base: keys(base).join(", "), other: keys(other).join(", ") });
    }
    let first = &base.documents[0].run;
    for run in base.documents.iter().chain(&other.documents).map(|document| &document.run) {
        let mut differs =
            vec![("the workload", &first.workload, &run.workload), ("the metric", &first.metric, &run.metric)];
        let own = first.parameters.iter().filter(|(key, _)| !["ranks", "page"].contains(&key.as_str()));
        differs.extend(own.filter_map(|(key, value)| Some((key.as_str(), value, run.parameters.get(key)?))));
        if let Some((what, base, other)) = differs.into_iter().find(|(_, base, other)| base != other) {
            return Err(Incomparable::Work {
                what: what.to_owned(),
                base: base.clone(),
                of_base: first.id.clone(),
                other: other.clone(),
                of_other: run.id.clone(),
            });
        }
    }
    let shared = base.documents.iter().find(|one| other.documents.iter().any(|two| two.run.id == one.run.id));
    match (shared, base.documents.len() + other.documents.len()) {
        (None, _) => Ok(Method::Unpaired),
        (Some(_), 2) if base.levels != other.levels => Ok(Method::Paired),
        (Some(document), _) => Err(Incomparable::Itself(document.run.id.clone())),
    }
}

/// Something that was measured on both sides.
struct Quantity {
    metric: String,
    unit: String,
    better: Better,
    treatment: Treatment,
    relative_to: Option<Treatment>,
    /// For each run the natural logarithms, one for each trial or block.
    base: Vec<Vec<f64>>,
    other: Vec<Vec<f64>>,
    /// Within one run: ln(other / base), block by block.
    paired: Vec<f64>,
}

fn quantities(base: &Chosen, other: &Chosen) -> Vec<Quantity> {
    let mut found: Vec<Quantity> = Vec::new();
    for (of_base, of_other) in matched(base, other) {
        let Some(row) = estimate_of(base, &of_base) else { continue };
        found.push(Quantity {
            metric: row.0,
            unit: row.1,
            better: row.2,
            treatment: without(&of_base, &base.levels),
            relative_to: None,
            base: series(base, |document| values(document, &of_base)),
            other: series(other, |document| values(document, &of_other)),
            paired: block_ratios(&base.documents[0], &of_other, &of_base),
        });
    }
    if base.levels.is_empty() {
        found.extend(ratios_within(base, other));
    }
    found
}

/// The ratios that the runs of both sides have.
fn ratios_within(base: &Chosen, other: &Chosen) -> Vec<Quantity> {
    let pairs = |document: &Document| -> Vec<(Treatment, Treatment)> {
        let rows = document.ratios.iter().filter(|row| row.metric == document.run.metric_of(&row.treatment));
        let rows = rows.filter(|row| !matches!(row.contrast, Contrast::SelfCheck | Contrast::PageSize));
        rows.map(|row| (row.treatment.clone(), row.relative_to.clone())).collect()
    };
    let there = other.documents.iter().flat_map(pairs).collect::<Vec<_>>();
    let mut here: Vec<(Treatment, Treatment)> = Vec::new();
    for pair in base.documents.iter().flat_map(pairs) {
        if there.contains(&pair) && !here.contains(&pair) {
            here.push(pair);
        }
    }
    let quantity = |(above, below): (Treatment, Treatment)| {
        let (metric, unit, better) = estimate_of(base, &above)?;
        Some(Quantity {
            metric,
            unit,
            better,
            base: series(base, |document| block_ratios(document, &above, &below)),
            other: series(other, |document| block_ratios(document, &above, &below)),
            treatment: above,
            relative_to: Some(below),
            paired: Vec::new(),
        })
    };
    here.into_iter().filter_map(quantity).collect()
}

fn series(side: &Chosen, of: impl Fn(&Document) -> Vec<f64>) -> Vec<Vec<f64>> {
    side.documents.iter().map(of).filter(|values| !values.is_empty()).collect()
}

/// The treatments of a side that have its levels and an estimate of the headline's metric.
fn treatments(side: &Chosen) -> Vec<Treatment> {
    let mut found: Vec<Treatment> = Vec::new();
    for document in &side.documents {
        for row in document.estimates.iter().filter(|row| row.metric == document.run.metric_of(&row.treatment)) {
            let picked = side.levels.iter().all(|(key, label)| row.treatment.get(key) == Some(label));
            if picked && !found.contains(&row.treatment) {
                found.push(row.treatment.clone());
            }
        }
    }
    found
}

/// The treatments of the base, each with that of the other side with which it is compared.
fn matched(base: &Chosen, other: &Chosen) -> Vec<(Treatment, Treatment)> {
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

fn without(treatment: &Treatment, levels: &Treatment) -> Treatment {
    treatment.iter().filter(|(key, _)| !levels.contains_key(*key)).map(|(k, v)| (k.clone(), v.clone())).collect()
}

fn label(treatment: &Treatment) -> String {
    let levels: Vec<String> = treatment.iter().map(|(key, label)| format!("{key} {label}")).collect();
    if levels.is_empty() { "the only treatment".to_owned() } else { levels.join(", ") }
}

fn estimate_of(side: &Chosen, treatment: &Treatment) -> Option<(String, String, Better)> {
    let mut rows = side.documents.iter().flat_map(|document| {
        let metric = document.run.metric_of(treatment);
        document.estimates.iter().filter(move |row| row.metric == metric && row.treatment == *treatment)
    });
    rows.next().map(|row| (row.metric.clone(), row.unit.clone(), row.better))
}

/// ln of the headline's metric under `treatment`, one for each trial that counts.
fn values(document: &Document, treatment: &Treatment) -> Vec<f64> {
    let trials = document.trials.iter().filter(|trial| trial.status == TrialStatus::Ok);
    trials
        .filter_map(|trial| {
            let of_arms: Vec<f64> = trial
                .arms
                .iter()
                .filter(|arm| arm.treatment == *treatment)
                .flat_map(|arm| &arm.medians)
                .filter(|sample| sample.metric == document.run.metric_of(treatment) && sample.value > 0.0)
                .map(|sample| sample.value.ln())
                .collect();
            mean(&of_arms)
        })
        .collect()
}

/// ln(above / below), one for each block: from the trials that hold both, else from the trials that the block has of each.
fn block_ratios(document: &Document, above: &Treatment, below: &Treatment) -> Vec<f64> {
    let mut blocks: BTreeMap<u64, Vec<&baremark_model::document::TrialRow>> = BTreeMap::new();
    for trial in document.trials.iter().filter(|trial| trial.status == TrialStatus::Ok) {
        blocks.entry(trial.block).or_default().push(trial);
    }
    let value = |trial: &baremark_model::document::TrialRow, treatment: &Treatment| -> Option<f64> {
        let arm = trial.arms.iter().find(|arm| arm.treatment == *treatment)?;
        let sample = arm.medians.iter().find(|sample| sample.metric == document.run.metric_of(treatment))?;
        (sample.value > 0.0).then(|| sample.value.ln())
    };
    let of_block = |trials: Vec<&baremark_model::document::TrialRow>| {
        let together: Vec<f64> =
            trials.iter().filter_map(|trial| Some(value(trial, above)? - value(trial, below)?)).collect();
        mean(&together).or_else(|| {
            let all = |of| trials.iter().filter_map(|trial| value(trial, of)).collect::<Vec<f64>>();
            Some(mean(&all(above))? - mean(&all(below))?)
        })
    };
    blocks.into_values().filter_map(of_block).collect()
}

fn paired(quantities: &[Quantity], delta: Share) -> (f64, Vec<ComparisonRow>) {
    let ratios: Vec<Option<PairedRatio>> = quantities.iter().map(|of| PairedRatio::new(&of.paired)).collect();
    let family: Vec<(&PairedRatio, f64)> = ratios.iter().flatten().map(|ratio| (ratio, delta.0)).collect();
    let Family { confidence, judged } = judge(&family, RATE);
    let mut judged = judged.into_iter();
    let rows = quantities.iter().zip(&ratios).map(|(quantity, ratio)| {
        let mut row = bare(quantity);
        (row.base_units, row.other_units) = (quantity.paired.len(), quantity.paired.len());
        row.words = "undecided: too few blocks".to_owned();
        if let Some(judged) = ratio.as_ref().and_then(|_| judged.next()) {
            (row.verdict, row.words) = words(&judged.verdict, delta, Contrast::Factor);
            if let Some(interval) = judged.interval {
                fill(&mut row, &interval, delta);
            }
            if row.verdict == Outcome::Undecided && row.change != Change::NotWorse {
                row.change = Change::Unknown;
            }
        }
        row
    });
    (confidence, rows.collect())
}

fn by_runs(quantities: &[Quantity], delta: Share) -> (f64, Vec<ComparisonRow>) {
    let at = |confidence: f64| move |of: &Quantity| unpaired(&of.other, &of.base, confidence);
    let plain: Vec<Unpaired> = quantities.iter().filter_map(at(1.0 - RATE)).collect();
    let p_values: Vec<f64> = plain.iter().map(Unpaired::p_value).collect();
    #[expect(clippy::cast_precision_loss, reason = "a handful of rows")]
    let share = discoveries(&p_values, RATE).max(1) as f64 / plain.len().max(1) as f64;
    let confidence = 1.0 - RATE * share;
    let rows = quantities.iter().map(|quantity| {
        let mut row = bare(quantity);
        match at(confidence)(quantity) {
            None => row.words = missing(row.base_units, row.other_units),
            Some(found) => {
                fill(&mut row, &found.log_ratio, delta);
                (row.verdict, row.words) = read(&found.log_ratio, delta, row.base_units.min(row.other_units));
            }
        }
        row
    });
    (confidence, rows.collect())
}

fn missing(base: usize, other: usize) -> String {
    let need = |runs: usize, of: &str| match FEWEST_RUNS.saturating_sub(runs) {
        0 => None,
        1 => Some(format!("1 more run of the {of}")),
        more => Some(format!("{more} more runs of the {of}")),
    };
    let wanted: Vec<String> = [need(base, "base"), need(other, "other side")].into_iter().flatten().collect();
    format!("not comparable below {FEWEST_RUNS} runs a side: {}", wanted.join(" and "))
}

/// The outcome that an interval of a log ratio shows, and how many more runs would help where it shows none.
fn read(interval: &Interval, delta: Share, runs: usize) -> (Outcome, String) {
    let band = delta.0.ln_1p();
    let inside = -band <= interval.lo && interval.hi <= band;
    match (interval.contains(0.0), inside) {
        (true, true) => (Outcome::Equivalent, format!("equivalent within {delta}")),
        (false, true) => (Outcome::DiffersByLess, format!("differs, by less than {delta}")),
        (false, false) if interval.lo > band || interval.hi < -band => {
            (Outcome::DiffersByMore, format!("differs by more than {delta}"))
        }
        (holds_none, _) => {
            let why = match holds_none {
                true => "the spread between runs is too large",
                false => "it differs, but it may be by more or by less than delta",
            };
            let distance = (interval.centre.abs() - band).abs();
            #[expect(clippy::cast_precision_loss, reason = "a handful of runs")]
            let needed = (runs as f64 * (interval.half_width() / distance).powi(2)).ceil();
            #[expect(clippy::cast_precision_loss, reason = "a handful of runs")]
            let more = needed - runs as f64;
            let more =
                if (1.0..=100.0).contains(&more) { format!("; about {more} more runs a side") } else { String::new() };
            (Outcome::Undecided, format!("undecided: {why}{more}"))
        }
    }
}

fn bare(quantity: &Quantity) -> ComparisonRow {
    let centre = |runs: &[Vec<f64>]| {
        let means: Vec<f64> = runs.iter().filter_map(|run| mean(run)).collect();
        mean(&means).map(f64::exp)
    };
    ComparisonRow {
        metric: quantity.metric.clone(),
        unit: quantity.unit.clone(),
        better: quantity.better,
        treatment: quantity.treatment.clone(),
        relative_to: quantity.relative_to.clone(),
        base_units: quantity.base.len(),
        other_units: quantity.other.len(),
        base_value: centre(&quantity.base),
        other_value: centre(&quantity.other),
        ratio: None,
        lo: None,
        hi: None,
        verdict: Outcome::Undecided,
        words: String::new(),
        change: Change::Unknown,
    }
}

fn fill(row: &mut ComparisonRow, interval: &Interval, delta: Share) {
    (row.ratio, row.lo, row.hi) = (Some(interval.centre.exp()), Some(interval.lo.exp()), Some(interval.hi.exp()));
    let band = delta.0.ln_1p();
    let (worst, best) = match row.better {
        Better::Higher => (-interval.lo, -interval.hi),
        Better::Lower => (interval.hi, interval.lo),
    };
    row.change = match () {
        () if best > band => Change::Worse,
        () if worst < -band => Change::Better,
        () if worst <= band => Change::NotWorse,
        () => Change::Unknown,
    };
}

#[cfg(test)]
mod tests;
