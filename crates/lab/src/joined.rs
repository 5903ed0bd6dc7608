//! Two runs joined: the ratios that both have, divided by each other.
//!
//! Releases, boots, MMU modes and mitigations cannot share a run. What they can share is the base: a ratio to native on its
//! own boot survives what slows both of its arms. Where each side is one run, the interval is that of the two estimates by
//! their blocks (Welch), and how much runs of one setup differ is not in it; of three runs and more a side it is made of
//! the spread between runs. Everything is worked out from result documents, as in [`crate::comparison`].

use crate::analysis::{EMULATED, RATE, in_document, in_statistics, subject};
use crate::comparison::{Chosen, facts, label, missing, together, without};
use baremark_model::descriptor::Better;
use baremark_model::document::{Document, Outcome, RatioRow, TrialStatus};
use baremark_model::joined::{FORMAT, Joined, JoinedRow, JoinedSide, SideRatio, Spread, Unmatched, Which};
use baremark_model::plan::{Contrast, Treatment};
use baremark_model::tables::WORKLOAD;
use baremark_model::units::Share;
use baremark_stats::estimate::mean;
use baremark_stats::outcome::Verdict;
use baremark_stats::runs::{self, FEWEST, Run, Shift};
use baremark_stats::{Interval, outcome};
use std::collections::BTreeSet;

/// Treatments of a side that a message names; more are counted.
const NAMED: usize = 4;

/// Why two sides cannot be joined.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unjoinable {
    /// The same run twice.
    #[error(
        "run {0} is named twice; name two runs, or compare levels of one run: `baremark compare {0}:FACTOR=LEVEL {0}:FACTOR=LEVEL`"
    )]
    Twice(String),
    /// Too few runs for a spread between them, and too many for none.
    #[error(
        "the base has {base} and the other side {other} runs; name one run a side, or at least {FEWEST}: RUN,RUN,RUN"
    )]
    Runs {
        /// Runs of the base.
        base: usize,
        /// Runs of the other side.
        other: usize,
    },
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

/// Joins `other` to `base`: the ratios of `other` divided by those of `base`.
///
/// # Errors
/// When a run is named twice, for two runs of a side, and when no ratio is in both.
pub fn join(base: &Chosen, other: &Chosen) -> Result<Joined, Unjoinable> {
    let spread = spread(base, other)?;
    let (of_base, of_other) = (keys(base), keys(other));
    let common: Vec<Key> = of_base.iter().filter(|key| of_other.contains(key)).cloned().collect();
    if common.is_empty() {
        return Err(Unjoinable::Nothing { base: has(base, &of_base), other: has(other, &of_other) });
    }
    let documents = || base.documents.iter().chain(&other.documents);
    let delta = Share(documents().map(|document| document.run.design.delta.0).fold(0.0, f64::max));
    let (rows, confidence) = rows(&common, base, other, spread, delta);
    let alone = |keys: &[Key], lacking: &Chosen, only_in: Which| -> Vec<Unmatched> {
        let own = keys.iter().filter(|key| !common.contains(key));
        own.map(|key| unmatched(key, lacking, only_in)).collect()
    };
    let mut lone = alone(&of_base, other, Which::Base);
    lone.extend(alone(&of_other, base, Which::Other));
    let found = facts::between(&base.documents, &other.documents);
    Ok(Joined {
        format: FORMAT.to_owned(),
        base: side(base),
        other: side(other),
        spread,
        delta,
        confidence,
        rows,
        unmatched: lone,
        factors: found.differing,
        mixed: found.mixed,
    })
}

fn spread(base: &Chosen, other: &Chosen) -> Result<Spread, Unjoinable> {
    let mut seen = BTreeSet::new();
    let mut runs = base.documents.iter().chain(&other.documents).map(|document| &document.run.id);
    if let Some(twice) = runs.find(|run| !seen.insert(*run)) {
        return Err(Unjoinable::Twice(twice.clone()));
    }
    match (base.documents.len(), other.documents.len()) {
        (1, 1) => Ok(Spread::WithinRuns),
        (one, two) if one >= FEWEST && two >= FEWEST => Ok(Spread::BetweenRuns),
        (base, other) => Err(Unjoinable::Runs { base, other }),
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
    let mut keys: Vec<Key> = Vec::new();
    for (key, _) in side.documents.iter().flat_map(|document| ratios(document, &side.levels)) {
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    keys
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

/// The rows, and the confidence of the widest interval. Those of emulated machines are estimated and give no outcome.
fn rows(keys: &[Key], base: &Chosen, other: &Chosen, spread: Spread, delta: Share) -> (Vec<JoinedRow>, f64) {
    let parts: Vec<_> = keys.iter().map(|key| (found(base, key), found(other, key))).collect();
    let shifts: Vec<Option<Shift>> = parts.iter().map(|(below, above)| shift(below, above, spread)).collect();
    let emulated = |part: usize| parts[part].0.iter().chain(&parts[part].1).any(|(_, row)| row.emulated);
    let judged: Vec<Option<Shift>> =
        shifts.iter().enumerate().map(|(part, shift)| shift.filter(|_| !emulated(part))).collect();
    let mut confidence: f64 = 1.0 - RATE;
    let mut rows = Vec::new();
    for (part, (key, interval)) in keys.iter().zip(together(&judged, RATE)).enumerate() {
        let ((below, above), shift) = (&parts[part], &shifts[part]);
        let mut row = bare(key, below, above, shift.as_ref(), spread);
        let interval = interval.or_else(|| shift.as_ref().map(|shift| shift.interval(1.0 - RATE)));
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
            _ => row.words = lacking(key, below, above, spread),
        }
        rows.push(row);
    }
    (rows, confidence)
}

fn bare(key: &Key, below: &[Part<'_>], above: &[Part<'_>], shift: Option<&Shift>, spread: Spread) -> JoinedRow {
    let (unit, better) = unit_of(below.iter().chain(above)).unzip();
    let (base, other) = (side_ratio(below), side_ratio(above));
    let ratio = base.ratio.zip(other.ratio).map(|(base, other)| other / base);
    JoinedRow {
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

fn side_ratio(rows: &[Part<'_>]) -> SideRatio {
    let known: Vec<f64> =
        rows.iter().filter_map(|(_, row)| row.ratio).filter(|ratio| *ratio > 0.0).map(f64::ln).collect();
    let limits = match rows {
        [(_, row)] => row.lo.zip(row.hi),
        _ => None,
    };
    SideRatio {
        ratio: mean(&known).map(f64::exp),
        lo: limits.map(|(lo, _)| lo),
        hi: limits.map(|(_, hi)| hi),
        runs: known.len(),
        blocks: rows.iter().map(|(_, row)| row.blocks).sum(),
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
fn lacking(key: &Key, below: &[Part<'_>], above: &[Part<'_>], spread: Spread) -> String {
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
    trials.find_map(|trial| match &trial.status {
        TrialStatus::Ok => None,
        TrialStatus::Void { reasons } => Some(reasons.join("; ")),
        TrialStatus::Failed { reason } => Some(reason.clone()),
    })
}

fn unmatched(key: &Key, lacking: &Chosen, only_in: Which) -> Unmatched {
    Unmatched {
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
