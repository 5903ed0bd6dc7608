//! Two sides compared: levels of one run block by block, runs with runs by the spread between them.
//!
//! What is compared are result documents, so that runs of another store, another host or another year can be brought as
//! files. In addition to each metric's own value the ratios within the runs are compared: a ratio to native on its own host
//! survives a change of host that a value does not.

mod around;
pub(crate) mod facts;
mod sides;

pub use sides::Chosen;
pub(crate) use sides::{together, without};

use crate::analysis::{RATE, in_document, in_statistics, subject};
use crate::gates;
use baremark_model::comparison::{Comparison, ComparisonRow, FORMAT, Gate, Method, Side};
use baremark_model::document::{Document, EstimateRow, Outcome, TrialRow};
use baremark_model::event::TrialStatus;
use baremark_model::imported::PLACE;
use baremark_model::metric::Better;
use baremark_model::plan::{Contrast, Treatment};
use baremark_model::tables::WORKLOAD;
use baremark_model::unit::conversion;
use baremark_model::units::Share;
use baremark_stats::estimate::mean;
use baremark_stats::gate::{ALPHA, Evidence};
use baremark_stats::interim::rate;
use baremark_stats::location::{SMALLEST, centre};
use baremark_stats::multiplicity::{Claim, judge_study};
use baremark_stats::outcome::Verdict;
use baremark_stats::quads;
use baremark_stats::runs::{self, Run, Shift};
use baremark_stats::{Interval, outcome};
use sides::{matched, treatments};
use std::collections::{BTreeMap, BTreeSet};

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
    /// One run several times on a side: between runs the run is the unit, and copies do not differ.
    #[error("run {0} is named twice on one side; a run counts once, name it once")]
    Twice(String),
    /// Levels of one run that was imported.
    #[error(
        "run {0} was imported: another program measured it, and its values are not paired; import three files or more a side, each \
         side with --as NAME, and compare the names"
    )]
    Imported(String),
    /// A metric that is not the same one in both runs, as columns of tables may be.
    #[error(
        "{metric} has {base} in run {of_base} and {other} in run {of_other}: such values have no ratio; import them with one unit and \
         direction"
    )]
    Metric {
        /// Its key.
        metric: String,
        /// Unit and direction of the first.
        base: String,
        /// In which run.
        of_base: String,
        /// Those of the other.
        other: String,
        /// In which run.
        of_other: String,
    },
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

/// What is asked of a comparison.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// The difference that matters; without it the largest that the runs were measured for.
    pub delta: Option<Share>,
    /// The facts that were varied on purpose.
    pub declared: Vec<String>,
    /// The loss that a gate must not miss; without it no gate is requested.
    pub margin: Option<Share>,
    /// The error rate of the gate; 5 % without it.
    pub level: Option<f64>,
}

/// Compares `other` with `base`.
///
/// # Errors
/// When the sides have nothing in common that could be compared.
pub fn compare(base: &Chosen, other: &Chosen, request: &Request) -> Result<Comparison, Incomparable> {
    let method = method(base, other)?;
    same_metrics(base, other)?;
    let head = &base.documents[0].run;
    let delta = request.delta.unwrap_or_else(|| {
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
    let judged = match method {
        Method::Paired => paired(&quantities, delta, rate(head.extensions.len())),
        Method::Unpaired => by_runs(&quantities, delta),
    };
    let confidence = judged.iter().map(|row| row.confidence).fold(1.0 - RATE, f64::max);
    let mut judged = judged;
    let level = request.level.unwrap_or(ALPHA);
    let gate =
        request.margin.map(|margin| gated(&mut judged, (margin, level), delta, seconds_of_a_unit(other, method)));
    let found = facts::between(&base.documents, &other.documents);
    let (declared, confounded) =
        found.differing.into_iter().partition(|difference| request.declared.contains(&difference.fact));
    Ok(Comparison {
        format: FORMAT.to_owned(),
        study: head.study.clone(),
        workload: head.workload.clone(),
        base: side(base),
        other: side(other),
        method,
        delta,
        confidence,
        rows: judged.into_iter().map(|judged| judged.row).collect(),
        gate,
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

/// How the sides can be compared; refuses what is not a comparison.
fn method(base: &Chosen, other: &Chosen) -> Result<Method, Incomparable> {
    for (side, name) in [(base, "base"), (other, "other side")] {
        if side.documents.is_empty() {
            return Err(Incomparable::Empty(name));
        }
        let mut seen = BTreeSet::new();
        let mut runs = side.documents.iter().map(|document| &document.run.id);
        if let Some(twice) = runs.find(|run| !seen.insert(*run)) {
            return Err(Incomparable::Twice(twice.clone()));
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
        (Some(document), 2) if document.run.environments.iter().any(|of| of.name == PLACE) => {
            Err(Incomparable::Imported(document.run.id.clone()))
        }
        (Some(_), 2) if base.levels != other.levels => Ok(Method::Paired),
        (Some(document), _) => Err(Incomparable::Itself(document.run.id.clone())),
    }
}

/// Refuses a headline's metric that has another unit in one run than in another, or is better the other way.
fn same_metrics(base: &Chosen, other: &Chosen) -> Result<(), Incomparable> {
    let mut known: BTreeMap<(&str, Option<&String>), (&EstimateRow, &str)> = BTreeMap::new();
    for document in base.documents.iter().chain(&other.documents) {
        let headline = |row: &&EstimateRow| row.metric == document.run.metric_of(&row.treatment);
        for row in document.estimates.iter().filter(headline) {
            let key = (row.metric.as_str(), row.treatment.get(WORKLOAD));
            let (first, of_base) = *known.entry(key).or_insert((row, document.run.id.as_str()));
            let is_one = |factor: f64| (factor - 1.0).abs() < 1e-9;
            let same = first.unit == row.unit || conversion(&first.unit, &row.unit).is_some_and(is_one);
            if !same || first.better != row.better {
                let said = |row: &EstimateRow| {
                    let better = if row.better == Better::Higher { "higher" } else { "lower" };
                    format!("the unit '{}' ({better} is better)", row.unit)
                };
                return Err(Incomparable::Metric {
                    metric: row.metric.clone(),
                    base: said(first),
                    of_base: of_base.to_owned(),
                    other: said(row),
                    of_other: document.run.id.clone(),
                });
            }
        }
    }
    Ok(())
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
        // Runs of earlier versions have no distributions: the percentile of all samples would be compared with a mean of percentiles.
        let together = base.documents.iter().all(|document| has_samples(document, &of_base))
            && other.documents.iter().all(|document| has_samples(document, &of_other));
        found.push(Quantity {
            metric: row.0,
            unit: row.1,
            better: row.2,
            treatment: without(&of_base, &base.levels),
            relative_to: None,
            base: series(base, |document| values(document, &of_base, together)),
            other: series(other, |document| values(document, &of_other, together)),
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
        let rows = rows.filter(|row| row.contrast != Contrast::SelfCheck && !row.contrast.explains());
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

/// The values of a side's runs. Where another program measured and there are too few runs to know how they differ, each value is a unit:
/// the files of one invocation each have their repetitions.
fn series(side: &Chosen, of: impl Fn(&Document) -> Vec<f64>) -> Vec<Vec<f64>> {
    let runs: Vec<Vec<f64>> = side.documents.iter().map(of).filter(|values| !values.is_empty()).collect();
    let imported = side.documents.iter().all(|document| document.run.environments.iter().any(|of| of.name == PLACE));
    match imported && runs.len() < runs::FEWEST {
        true => runs.into_iter().flatten().map(|value| vec![value]).collect(),
        false => runs,
    }
}

/// A treatment in a message.
pub(crate) fn label(treatment: &Treatment) -> String {
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
fn values(document: &Document, treatment: &Treatment, together: bool) -> Vec<f64> {
    let trials = document.trials.iter().filter(|trial| trial.status == TrialStatus::Ok);
    let values: Vec<f64> = trials
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
        .collect();
    if together { around_all_samples(document, treatment, values) } else { values }
}

/// Whether the headline is a percentile of all samples of the run.
fn has_samples(document: &Document, treatment: &Treatment) -> bool {
    let metric = document.run.metric_of(treatment);
    let mut rows = document.estimates.iter().filter(|row| row.metric == metric && row.treatment == *treatment);
    rows.any(|row| row.samples.is_some())
}

/// A run's percentile is that of all its samples, as its own report has it; how its trials differ around it stays as it is.
fn around_all_samples(document: &Document, treatment: &Treatment, values: Vec<f64>) -> Vec<f64> {
    let is_headline = |row: &&EstimateRow| {
        row.metric == document.run.metric_of(treatment) && row.treatment == *treatment && row.samples.is_some()
    };
    let shift = document.estimates.iter().find(is_headline).zip(centre(&values));
    match shift.map(|(row, centre)| row.estimate.ln() - centre).filter(|shift| shift.is_finite()) {
        Some(shift) => values.into_iter().map(|value| value + shift).collect(),
        None => values,
    }
}

/// ln(above / below), one for each block: from the quads of the trials in which both took turns, else from the values of the trials that hold
/// both, else from the trials that the block has of each. The same as the run's own ratios are made of.
fn block_ratios(document: &Document, above: &Treatment, below: &Treatment) -> Vec<f64> {
    let mut blocks: BTreeMap<u64, Vec<&TrialRow>> = BTreeMap::new();
    for trial in document.trials.iter().filter(|trial| trial.status == TrialStatus::Ok) {
        blocks.entry(trial.block).or_default().push(trial);
    }
    let value = |trial: &TrialRow, treatment: &Treatment| -> Option<f64> {
        let arm = trial.arms.iter().find(|arm| arm.treatment == *treatment)?;
        let sample = arm.medians.iter().find(|sample| sample.metric == document.run.metric_of(treatment))?;
        (sample.value > 0.0).then(|| sample.value.ln())
    };
    let interleaved = |trial: &TrialRow| {
        let place = |treatment: &Treatment| trial.arms.iter().position(|arm| arm.treatment == *treatment);
        quads::summary(&quads_of(trial, place(below)?, place(above)?))
    };
    let of_block = |trials: Vec<&TrialRow>| {
        let together: Vec<f64> = trials
            .iter()
            .filter_map(|trial| interleaved(trial).or_else(|| Some(value(trial, above)? - value(trial, below)?)))
            .collect();
        mean(&together).or_else(|| {
            let all = |of| trials.iter().filter_map(|trial| value(trial, of)).collect::<Vec<f64>>();
            Some(mean(&all(above))? - mean(&all(below))?)
        })
    };
    blocks.into_values().filter_map(of_block).collect()
}

/// ln(above / below) of each quad of a trial that counts: of four phases in which each of both arms ran twice. None where an arm lacks the
/// value of a phase, so that its phases are not those of the schedule, or has one that is not positive.
fn quads_of(trial: &TrialRow, below: usize, above: usize) -> Vec<f64> {
    let whole = |arm: usize| trial.schedule.iter().filter(|of| **of == arm).count() == trial.arms[arm].phases.len();
    if !whole(below) || !whole(above) {
        return Vec::new();
    }
    let mut phases = [below, above].map(|arm| trial.arms[arm].phases.iter().copied());
    let mut all = Vec::new();
    for (quad, arms) in trial.schedule.chunks_exact(4).enumerate() {
        let mut of = |side: usize, arm: usize| -> Vec<f64> {
            let count = arms.iter().filter(|of| **of == arm).count();
            phases[side].by_ref().take(count).collect()
        };
        let (under, over) = (of(0, below), of(1, above));
        if under.len() == 2 && over.len() == 2 && !trial.discarded.contains(&quad) {
            let Some(log_ratio) = quads::log_ratio(&under, &over) else { return Vec::new() };
            all.push(log_ratio);
        }
    }
    all
}

/// How long a run of a side lasts on average, or a block of its one run, in seconds.
#[expect(clippy::cast_precision_loss, reason = "seconds of runs")]
fn seconds_of_a_unit(side: &Chosen, method: Method) -> Option<f64> {
    let measured = |document: &Document| document.trials.iter().map(|trial| trial.elapsed_ns).sum::<u64>() as f64 / 1e9;
    let blocks = |document: &Document| document.trials.iter().map(|trial| trial.block + 1).max().unwrap_or(0);
    let all: f64 = side.documents.iter().map(measured).sum();
    let units = match method {
        Method::Unpaired => side.documents.len() as f64,
        Method::Paired => side.documents.iter().map(blocks).sum::<u64>() as f64,
    };
    // What another program measured has no time here.
    (units > 0.0 && all > 0.0).then(|| all / units)
}

/// A row with what a gate needs of it.
struct JudgedRow {
    row: ComparisonRow,
    confidence: f64,
    evidence: Option<Evidence>,
}

/// The gate of rows, which then have the limits of its one-sided tests and its answers in words: no other test's words next to them.
fn gated(judged: &mut [JudgedRow], (margin, level): (Share, f64), delta: Share, seconds: Option<f64>) -> Gate {
    let evidence: Vec<Option<Evidence>> = judged.iter().map(|row| row.evidence).collect();
    let units: Vec<usize> = judged.iter().map(|row| row.row.base_units.min(row.row.other_units)).collect();
    let gates::Gated { gate, limits } = gates::gate(&evidence, &units, (margin, level), seconds);
    for ((judged, answer), limits) in judged.iter_mut().zip(&gate.rows).zip(limits) {
        let (Some((least, most)), row) = (limits, &mut judged.row) else { continue };
        let better = in_statistics(row.better);
        let (lo, hi) = if better == outcome::Better::Higher { (-most, -least) } else { (least, most) };
        let centre = row.ratio.map_or(0.5 * (lo + hi), f64::ln);
        let interval = Interval { centre, lo, hi, confidence: judged.confidence, units: row.base_units };
        fill(row, &interval);
        row.outcome = in_document(&outcome::Outcome::of(&interval, delta.0, better));
        row.words = gates::words(answer, (least, most), (row.better, subject(&row.unit, row.better)));
    }
    gate
}

/// Levels of one run, whose error rate is smaller where it was extended.
fn paired(quantities: &[Quantity], delta: Share, rate: f64) -> Vec<JudgedRow> {
    let claim = |of: &Quantity| Claim::of(&of.paired, SMALLEST, delta.0, in_statistics(of.better));
    let claims: Vec<Claim> = quantities.iter().map(claim).collect();
    let rows = quantities.iter().zip(judge_study(&claims, rate)).map(|(quantity, judged)| {
        let mut row = bare(quantity);
        (row.base_units, row.other_units) = (quantity.paired.len(), quantity.paired.len());
        let verdict = verdict(quantity, &judged.outcome, judged.interval.as_ref(), delta);
        (row.outcome, row.words) = (in_document(&judged.outcome), verdict.words);
        judged.interval.iter().for_each(|interval| fill(&mut row, interval));
        JudgedRow {
            row,
            confidence: judged.interval.map_or(1.0 - rate, |interval| interval.confidence),
            evidence: Evidence::of_blocks(&quantity.paired, in_statistics(quantity.better), rate),
        }
    });
    rows.collect()
}

fn verdict(quantity: &Quantity, outcome: &outcome::Outcome, interval: Option<&Interval>, delta: Share) -> Verdict {
    let subject = subject(&quantity.unit, quantity.better);
    Verdict::of(outcome, interval, delta.0, in_statistics(quantity.better), subject)
}

fn by_runs(quantities: &[Quantity], delta: Share) -> Vec<JudgedRow> {
    let of_side = |runs: &[Vec<f64>]| runs.iter().filter_map(|run| Run::of(run)).collect::<Vec<Run>>();
    let shift = |of: &Quantity| runs::compare(&of_side(&of.base), &of_side(&of.other));
    let shifts: Vec<Option<Shift>> = quantities.iter().map(shift).collect();
    let intervals = together(&shifts, RATE);
    let rows = quantities.iter().zip(shifts).zip(intervals).map(|((quantity, shift), interval)| {
        let mut row = bare(quantity);
        let better = in_statistics(quantity.better);
        match &interval {
            None => row.words = missing(row.base_units, row.other_units),
            Some(interval) => {
                fill(&mut row, interval);
                let found = outcome::Outcome::of(interval, delta.0, better);
                (row.outcome, row.words) =
                    (in_document(&found), verdict(quantity, &found, Some(interval), delta).words);
            }
        }
        JudgedRow {
            row,
            confidence: interval.map_or(1.0 - RATE, |interval| interval.confidence),
            evidence: shift.map(|shift| Evidence::of_runs(&shift, better)),
        }
    });
    rows.collect()
}

/// What is missing where a side has fewer runs than a comparison of runs needs.
pub(crate) fn missing(base: usize, other: usize) -> String {
    let need = |runs: usize, of: &str| match runs::FEWEST.saturating_sub(runs) {
        0 => None,
        1 => Some(format!("1 more run of the {of}")),
        more => Some(format!("{more} more runs of the {of}")),
    };
    let wanted: Vec<String> = [need(base, "base"), need(other, "other side")].into_iter().flatten().collect();
    format!("not enough data: {} runs a side are needed ({})", runs::FEWEST, wanted.join(" and "))
}

fn bare(quantity: &Quantity) -> ComparisonRow {
    let value = |runs: &[Vec<f64>]| {
        let centres: Vec<f64> = runs.iter().filter_map(|run| centre(run)).collect();
        mean(&centres).map(f64::exp)
    };
    ComparisonRow {
        metric: quantity.metric.clone(),
        unit: quantity.unit.clone(),
        better: quantity.better,
        treatment: quantity.treatment.clone(),
        relative_to: quantity.relative_to.clone(),
        base_units: quantity.base.len(),
        other_units: quantity.other.len(),
        base_value: value(&quantity.base),
        other_value: value(&quantity.other),
        ratio: None,
        lo: None,
        hi: None,
        outcome: Outcome::NotEnough,
        words: String::new(),
    }
}

fn fill(row: &mut ComparisonRow, interval: &Interval) {
    (row.ratio, row.lo, row.hi) = (Some(interval.centre.exp()), Some(interval.lo.exp()), Some(interval.hi.exp()));
}

#[cfg(test)]
mod tests;
