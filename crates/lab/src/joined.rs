//! Runs joined: the ratios that each has in common with the first, divided by the first's.
//!
//! Releases, boots, MMU modes and mitigations cannot share a run. What they can share is the base: a ratio to native on its
//! own boot survives what slows both of its arms. Where each side is one run, the interval is that of the two estimates by
//! their blocks (Welch), and how much runs of one setup differ is not in it; of three runs and more a side it is made of
//! the spread between runs. Of several sides all intervals are judged together. Everything is worked out from result documents, as in [`crate::comparison`].

use crate::analysis::{EMULATED, RATE, in_document, in_statistics, subject};
use crate::comparison::{Chosen, facts, label, missing, together, without};
use baremark_model::distinct::distinct;
use baremark_model::document::{Document, Outcome, RatioRow};
use baremark_model::joined::{FORMAT, Joined, JoinedRow, JoinedSide, SideRatio, Spread, Unmatched, Which};
use baremark_model::metric::Better;
use baremark_model::plan::{Contrast, Treatment};
use baremark_model::tables::WORKLOAD;
use baremark_model::units::Share;
use baremark_stats::estimate::mean;
use baremark_stats::interim::rate;
use baremark_stats::outcome::Verdict;
use baremark_stats::runs::{self, FEWEST, Run, Shift};
use baremark_stats::{Interval, outcome};
use std::collections::BTreeSet;

/// Treatments of a side that a message names; more are counted.
const NAMED: usize = 4;

/// Sides that are joined at most, the base among them: a table of more has no room on a screen.
pub const MOST_SIDES: usize = 8;

/// Why sides cannot be joined.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unjoinable {
    /// The same run twice.
    #[error(
        "run {0} is named twice; name different runs, or compare levels of one run: `baremark compare {0}:FACTOR=LEVEL {0}:FACTOR=LEVEL`"
    )]
    Twice(String),
    /// Too few sides, or too many.
    #[error("{0} sides are named; join 2 to {MOST_SIDES}: RUN1 RUN2 ...")]
    Sides(usize),
    /// Too few runs for a spread between them, and too many for none.
    #[error("the sides have {} runs; name one run a side, or at least {FEWEST}: RUN,RUN,RUN", listed(.0))]
    Runs(Vec<usize>),
    /// No ratio in common.
    #[error(
        "the runs have no ratio in common: {base} and {other}; join runs of one study, or of studies with the same workload, metric \
         and treatments"
    )]
    Nothing {
        /// What the base has.
        base: String,
        /// What the other side has.
        other: String,
    },
}

/// A run's row of a ratio.
type Part<'d> = (&'d Document, &'d RatioRow);

/// What both runs must have alike for a ratio to be the same one.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Key {
    workload: String,
    metric: String,
    treatment: Treatment,
    relative_to: Treatment,
}

/// Joins sides to the first, the base: the ratios of each divided by those of the base.
///
/// # Errors
/// For fewer than two sides or more than [`MOST_SIDES`], when a run is named twice, for two runs of a side, and when a side has no ratio in
/// common with the base.
pub fn join(sides: &[Chosen]) -> Result<Joined, Unjoinable> {
    let (Some((base, others)), 2..=MOST_SIDES) = (sides.split_first(), sides.len()) else {
        return Err(Unjoinable::Sides(sides.len()));
    };
    let spread = spread(sides)?;
    let of_base = keys(base);
    let of_others: Vec<Vec<Key>> = others.iter().map(keys).collect();
    let (mut asked, mut lone) = (Vec::new(), Vec::new());
    for (at, (other, of_other)) in others.iter().zip(&of_others).enumerate() {
        if !of_base.iter().any(|key| of_other.contains(key)) {
            return Err(Unjoinable::Nothing { base: has(base, &of_base), other: has(other, of_other) });
        }
        let alone = |keys: &[Key], there: &[Key], lacking: &Chosen, only_in: Which| -> Vec<Unmatched> {
            let own = keys.iter().filter(|key| !there.contains(key));
            own.map(|key| unmatched(key, lacking, (at, only_in))).collect()
        };
        lone.extend(alone(&of_base, of_other, other, Which::Base));
        lone.extend(alone(of_other, &of_base, base, Which::Other));
    }
    for key in &of_base {
        let with = of_others.iter().enumerate().filter(|(_, keys)| keys.contains(key));
        asked.extend(with.map(|(at, _)| Asked {
            key,
            side: at,
            below: found(base, key),
            above: found(&others[at], key),
        }));
    }
    let runs = || sides.iter().flat_map(|side| &side.documents).map(|document| &document.run);
    let delta = Share(runs().map(|run| run.design.delta.0).fold(0.0, f64::max));
    let rate = match spread {
        // Blocks are the units: a run that was extended has a smaller error rate here, as in its own report.
        Spread::WithinRuns => rate(runs().map(|run| run.extensions.len()).max().unwrap_or(0)),
        Spread::BetweenRuns => RATE,
    };
    let (rows, confidence) = rows(&asked, spread, (delta, rate));
    let documents: Vec<&[Document]> = sides.iter().map(|side| side.documents.as_slice()).collect();
    let (factors, mixed) = facts::among(&documents);
    Ok(Joined {
        format: FORMAT.to_owned(),
        base: side(base),
        others: others.iter().map(side).collect(),
        spread,
        delta,
        confidence,
        rows,
        unmatched: lone,
        factors,
        mixed,
    })
}

/// A ratio of the base and another side.
struct Asked<'k, 's> {
    key: &'k Key,
    /// Which of the other sides.
    side: usize,
    below: Vec<Part<'s>>,
    above: Vec<Part<'s>>,
}

fn listed(runs: &[usize]) -> String {
    runs.iter().map(usize::to_string).collect::<Vec<_>>().join(", ")
}

fn spread(sides: &[Chosen]) -> Result<Spread, Unjoinable> {
    let mut seen = BTreeSet::new();
    let mut runs = sides.iter().flat_map(|side| &side.documents).map(|document| &document.run.id);
    if let Some(twice) = runs.find(|run| !seen.insert(*run)) {
        return Err(Unjoinable::Twice(twice.clone()));
    }
    let runs: Vec<usize> = sides.iter().map(|side| side.documents.len()).collect();
    match (runs.iter().all(|runs| *runs == 1), runs.iter().all(|runs| *runs >= FEWEST)) {
        (true, _) => Ok(Spread::WithinRuns),
        (false, true) => Ok(Spread::BetweenRuns),
        (false, false) => Err(Unjoinable::Runs(runs)),
    }
}

fn side(chosen: &Chosen) -> JoinedSide {
    let machines: BTreeSet<String> = chosen.documents.iter().map(|document| facts::machine(&document.run)).collect();
    JoinedSide {
        study: chosen.documents.first().map(|document| document.run.study.clone()).unwrap_or_default(),
        runs: chosen.documents.iter().map(|document| document.run.id.clone()).collect(),
        levels: chosen.levels.clone(),
        machines: machines.into_iter().collect(),
    }
}

/// The ratios of a document that have the side's levels, each with what it must share with another to be the same.
fn ratios<'d>(document: &'d Document, levels: &'d Treatment) -> impl Iterator<Item = (Key, &'d RatioRow)> {
    let picked = move |row: &&RatioRow| {
        let explains = row.contrast == Contrast::SelfCheck || row.contrast.explains();
        !explains && levels.iter().all(|(key, label)| row.treatment.get(key) == Some(label))
    };
    let keyed = move |row: &'d RatioRow| {
        let rest = |treatment: &Treatment| {
            let mut rest = without(treatment, levels);
            rest.remove(WORKLOAD);
            rest
        };
        let workload = row.treatment.get(WORKLOAD).unwrap_or(&document.run.workload).clone();
        let (treatment, relative_to) = (rest(&row.treatment), rest(&row.relative_to));
        (Key { workload, metric: row.metric.clone(), treatment, relative_to }, row)
    };
    // A ratio between the levels that were picked is one within its own run.
    document.ratios.iter().filter(picked).map(keyed).filter(|(key, _)| key.treatment != key.relative_to)
}

fn keys(side: &Chosen) -> Vec<Key> {
    let ratios = side.documents.iter().flat_map(|document| ratios(document, &side.levels));
    distinct(ratios.map(|(key, _)| key))
}

/// The ratios of a side in a message.
fn has(side: &Chosen, keys: &[Key]) -> String {
    let Some(run) = side.documents.first().map(|document| &document.run) else { return "no run".to_owned() };
    let one = |key: &Key| {
        format!("{} of {}, {} to {}", key.metric, key.workload, label(&key.treatment), label(&key.relative_to))
    };
    let mut named: Vec<String> = keys.iter().take(NAMED).map(one).collect();
    match keys.len() {
        0 => named.push("no ratio".to_owned()),
        all if all > NAMED => named.push(format!("{} more", all - NAMED)),
        _ => {}
    }
    format!("{} ('{}') has {}", run.id, run.study, named.join("; "))
}

/// A side's rows of one ratio: one for each run that has it, with its document.
fn found<'s>(side: &'s Chosen, key: &Key) -> Vec<Part<'s>> {
    let of = |document: &'s Document| {
        let (_, row) = ratios(document, &side.levels).find(|(own, _)| own == key)?;
        Some((document, row))
    };
    side.documents.iter().filter_map(of).collect()
}

/// A ratio's interval, of its logarithm.
fn interval(row: &RatioRow) -> Option<Interval> {
    let (ratio, (lo, hi)) = (row.ratio?, row.lo.zip(row.hi)?);
    let usable = lo > 0.0 && ratio.is_finite() && hi.is_finite();
    usable.then(|| Interval {
        centre: ratio.ln(),
        lo: lo.ln(),
        hi: hi.ln(),
        confidence: row.confidence,
        units: row.blocks,
    })
}

/// ln of the ratio of ratios.
fn shift(base: &[Part<'_>], other: &[Part<'_>], spread: Spread) -> Option<Shift> {
    match (spread, base, other) {
        (Spread::WithinRuns, [(_, below)], [(_, above)]) => runs::of_intervals(&interval(below)?, &interval(above)?),
        (Spread::WithinRuns, ..) => None,
        (Spread::BetweenRuns, ..) => {
            let of_run = |(_, row): &Part<'_>| Run::of_interval(&interval(row)?);
            let side = |rows: &[Part<'_>]| rows.iter().filter_map(of_run).collect::<Vec<Run>>();
            runs::compare(&side(base), &side(other))
        }
    }
}

/// The rows at an error rate, and the confidence of the widest interval. Those of emulated machines are estimated and give no outcome.
fn rows(asked: &[Asked<'_, '_>], spread: Spread, (delta, rate): (Share, f64)) -> (Vec<JoinedRow>, f64) {
    let shifts: Vec<Option<Shift>> = asked.iter().map(|of| shift(&of.below, &of.above, spread)).collect();
    let emulated = |part: usize| asked[part].below.iter().chain(&asked[part].above).any(|(_, row)| row.emulated);
    let judged: Vec<Option<Shift>> =
        shifts.iter().enumerate().map(|(part, shift)| shift.filter(|_| !emulated(part))).collect();
    let mut confidence: f64 = 1.0 - rate;
    let mut rows = Vec::new();
    for (part, (of, interval)) in asked.iter().zip(together(&judged, rate)).enumerate() {
        let shift = &shifts[part];
        let mut row = bare(of, shift.as_ref(), spread);
        let interval = interval.or_else(|| shift.as_ref().map(|shift| shift.interval(1.0 - rate)));
        if let Some(interval) = &interval {
            confidence = confidence.max(interval.confidence);
            (row.ratio, row.lo, row.hi) =
                (Some(interval.centre.exp()), Some(interval.lo.exp()), Some(interval.hi.exp()));
        }
        match (interval, row.better) {
            _ if emulated(part) => (row.outcome, row.words) = (Outcome::Emulated, EMULATED.to_owned()),
            (Some(interval), Some(better)) => {
                let found = outcome::Outcome::of(&interval, delta.0, in_statistics(better));
                let subject = subject(&row.unit, better);
                let verdict = Verdict::of(&found, Some(&interval), delta.0, in_statistics(better), subject);
                (row.outcome, row.words) = (in_document(&found), verdict.words);
            }
            _ => row.words = lacking(of, spread),
        }
        rows.push(row);
    }
    (rows, confidence)
}

fn bare(of: &Asked<'_, '_>, shift: Option<&Shift>, spread: Spread) -> JoinedRow {
    let Asked { key, side, below, above } = of;
    let (unit, better) = unit_of(below.iter().chain(above)).unzip();
    let [base, other] = [below, above].map(|rows| side_ratio(rows, shift.is_some()));
    let ratio = base.ratio.zip(other.ratio).map(|(base, other)| other / base);
    JoinedRow {
        side: *side,
        metric: key.metric.clone(),
        unit: unit.unwrap_or_default(),
        better,
        workload: key.workload.clone(),
        treatment: key.treatment.clone(),
        relative_to: key.relative_to.clone(),
        base,
        other,
        ratio,
        lo: None,
        hi: None,
        between: shift.filter(|_| spread == Spread::BetweenRuns).map(|shift| shift.between),
        within: shift.map(|shift| shift.within),
        outcome: Outcome::NotEnough,
        words: String::new(),
    }
}

/// One side's ratio: where there is a ratio of ratios, of the runs alone that are in it.
fn side_ratio(rows: &[Part<'_>], is_compared: bool) -> SideRatio {
    let rows: Vec<&RatioRow> =
        rows.iter().map(|(_, row)| *row).filter(|row| !is_compared || interval(row).is_some()).collect();
    let known: Vec<f64> = rows.iter().filter_map(|row| row.ratio).filter(|ratio| *ratio > 0.0).map(f64::ln).collect();
    let limits = match rows.as_slice() {
        [row] => row.lo.zip(row.hi),
        _ => None,
    };
    SideRatio {
        ratio: mean(&known).map(f64::exp),
        lo: limits.map(|(lo, _)| lo),
        hi: limits.map(|(_, hi)| hi),
        runs: known.len(),
        blocks: rows.iter().map(|row| row.blocks).sum(),
    }
}

/// Unit and direction of a metric, from a run that has a value of it.
fn unit_of<'r>(mut rows: impl Iterator<Item = &'r Part<'r>>) -> Option<(String, Better)> {
    rows.find_map(|(document, row)| {
        let estimate = document.estimates.iter().find(|estimate| estimate.metric == row.metric)?;
        Some((estimate.unit.clone(), estimate.better))
    })
}

/// Why a ratio that both sides have has no interval.
fn lacking(Asked { key, below, above, .. }: &Asked<'_, '_>, spread: Spread) -> String {
    if spread == Spread::BetweenRuns {
        let usable = |rows: &[Part<'_>]| rows.iter().filter(|(_, row)| interval(row).is_some()).count();
        return missing(usable(below), usable(above));
    }
    let of = |(document, row): &Part<'_>| {
        let words = row.words.trim_start_matches("not enough data: ");
        let failed = last_failure(document, row).map(|why| format!("; last failed trial: {why}")).unwrap_or_default();
        interval(row).is_none().then(|| format!("{words} in {}{failed}", document.run.id))
    };
    let lacking: Vec<String> = below.iter().chain(above).filter_map(of).collect();
    match lacking.is_empty() {
        true => format!("not enough data: no value of {}", key.metric),
        false => format!("not enough data: {}", lacking.join(" and ")),
    }
}

/// Why the last trial of a ratio's arms does not count.
fn last_failure(document: &Document, row: &RatioRow) -> Option<String> {
    let of_row = |treatment: &Treatment| *treatment == row.treatment || *treatment == row.relative_to;
    let mut trials = document.trials.iter().rev().filter(|trial| trial.arms.iter().any(|arm| of_row(&arm.treatment)));
    trials.find_map(|trial| trial.status.reason())
}

fn unmatched(key: &Key, lacking: &Chosen, (side, only_in): (usize, Which)) -> Unmatched {
    Unmatched {
        side,
        metric: key.metric.clone(),
        workload: key.workload.clone(),
        treatment: key.treatment.clone(),
        relative_to: key.relative_to.clone(),
        only_in,
        reason: why_not(key, lacking),
    }
}

/// Why a side has no such ratio.
fn why_not(key: &Key, side: &Chosen) -> String {
    let runs = || side.documents.iter().map(|document| &document.run);
    let of_run = |kind: &str| runs().any(|run| run.workload == kind || run.workloads.iter().any(|of| of.kind == kind));
    if !of_run(&key.workload) {
        return format!("its study has no workload {}", key.workload);
    }
    for treatment in [&key.treatment, &key.relative_to] {
        let absent = side.documents.iter().flat_map(|document| &document.absent);
        let same = |of: &Treatment| {
            let rest = without(of, &side.levels);
            rest.iter()
                .filter(|(factor, _)| *factor != WORKLOAD)
                .all(|(factor, level)| treatment.get(factor) == Some(level))
        };
        if let Some(absent) = absent.into_iter().find(|absent| same(&absent.treatment)) {
            return format!("not available there: {}", absent.reason);
        }
        for (factor, level) in treatment {
            let mut known = runs().flat_map(|run| &run.factors).filter(|(name, _)| name == factor).peekable();
            if known.peek().is_some() && !known.any(|(_, levels)| levels.contains(level)) {
                return format!("its study has no level {level} of {factor}");
            }
        }
    }
    let asked = |key: &Key| {
        side.documents
            .iter()
            .flat_map(|document| ratios(document, &side.levels))
            .any(|(own, _)| own.metric == key.metric)
    };
    match asked(key) {
        true => format!("its study requests no ratio of {} to {}", label(&key.treatment), label(&key.relative_to)),
        false => format!("its study requests no ratio of the metric {}", key.metric),
    }
}

#[cfg(test)]
mod tests;
