//! What precision will cost on this machine: how long the study takes, from a pilot or from runs that are stored.
//!
//! The best source is a pilot of the plan itself, just run. Failing that, a self-check of the same arms, which shows the noise
//! alone; an ordinary run of the same pairs, in which an effect that varies from block to block counts as noise; and last
//! other arms of the same workload. Which it was is said. The forecast plays the stopping rule with that noise
//! ([`baremark_stats::forecast`]) and has a range: the noise of tomorrow may be another.

use crate::analysis::Run;
use crate::trials::{self, Finished};
use baremark_model::arm::ResolvedArm;
use baremark_model::order;
use baremark_model::plan::{Cell, Plan};
use baremark_stats::estimate::{mean, median};
use baremark_stats::forecast::{Noise, forecast};
use baremark_stats::interim::Rule;
use baremark_stats::location::SMALLEST;
use baremark_stats::precision;
use serde::Serialize;

/// The confidence of a study's intervals.
const CONFIDENCE: f64 = 0.95;
/// What "in a minute" is.
const MINUTE: f64 = 60.0;
/// Precisions whose time is printed, and the one that the study requests.
const LEVELS: [f64; 5] = [0.05, 0.02, 0.01, 0.005, 0.002];
/// Blocks beyond which a precision is out of reach.
const MOST_BLOCKS: u32 = 20_000;

/// What precisions cost.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Price {
    /// The precision requested, relative.
    pub precision: f64,
    /// Half-widths with the time that they take, from wide to narrow, among them the requested one.
    pub levels: Vec<Level>,
    /// The precision that a minute gives; `null` where a minute has too few blocks.
    pub in_a_minute: Option<f64>,
    /// The precision that the budget gives.
    pub in_the_budget: Option<f64>,
    /// The spread of the noisiest log ratio from block to block.
    pub noise: f64,
    /// How long a block lasts.
    pub seconds_per_block: f64,
    /// What the noise was taken from.
    pub source: Source,
    /// The run that it was taken from.
    pub run: String,
    /// The blocks of that run.
    pub of_blocks: usize,
}

/// What one precision costs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Level {
    /// The half-width of the widest interval, relative.
    pub precision: f64,
    /// Whether it is the one that the study requests.
    pub requested: bool,
    /// Blocks that half of such studies take, their confirmation included; `null` where it is out of reach.
    pub blocks: Option<u32>,
    /// How long these last.
    pub seconds: Option<f64>,
    /// One in ten of such studies is shorter than this.
    pub seconds_low: Option<f64>,
    /// One in ten is longer than this.
    pub seconds_high: Option<f64>,
}

/// From what the noise was taken, the best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// A pilot of the plan.
    Pilot,
    /// A self-check of the plan's own arms.
    SelfCheck,
    /// An ordinary run of the plan's own pairs.
    SamePairs,
    /// A self-check of other arms of the workload.
    OtherSelfCheck,
    /// An ordinary run of other arms of the workload.
    OtherPairs,
}

impl Price {
    /// What the requested precision costs.
    #[must_use]
    pub fn requested(&self) -> Option<&Level> {
        self.levels.iter().find(|level| level.requested)
    }
}

/// The price by `pilot`, a run of this very plan. `None` where one of its ratios has fewer than four blocks, or the plan asks for no ratio.
#[must_use]
pub fn by_pilot(plan: &Plan, pilot: &Run) -> Option<Price> {
    let found = noise_of(plan, pilot)?;
    Some(priced(plan, Found { source: Source::Pilot, ..found }))
}

/// The price by the best of `runs`, which are of this machine and of the plan's workload, the latest first. `None` where
/// no run has the noise of such a plan, or the plan asks for no ratio.
#[must_use]
pub fn price(plan: &Plan, runs: &[Run]) -> Option<Price> {
    let found = runs.iter().filter_map(|run| noise_of(plan, run));
    Some(priced(plan, found.reduce(|best, next| if next.source < best.source { next } else { best })?))
}

fn priced(plan: &Plan, found: Found) -> Price {
    let Found { noises, seconds_per_block, source, run, blocks } = found;
    let noise = noises.iter().map(|noise| noise.deviation).fold(0.0, f64::max);
    let requested = plan.design.precision.0;
    let others = LEVELS.into_iter().filter(|level| (level / requested).ln().abs() > 0.01);
    let mut precisions: Vec<(f64, bool)> = others.map(|level| (level, false)).chain([(requested, true)]).collect();
    order::by(&mut precisions, |one, two| two.0.total_cmp(&one.0));
    let smallest = u32::try_from(plan.design.least_blocks).unwrap_or(u32::MAX);
    let level = |(precision, requested): (f64, bool)| {
        let expected = forecast(&noises, &Rule::new(precision, smallest, MOST_BLOCKS));
        let seconds = |blocks: u32| f64::from(blocks) * seconds_per_block;
        Level {
            precision,
            requested,
            blocks: expected.map(|expected| expected.blocks),
            seconds: expected.map(|expected| seconds(expected.blocks)),
            seconds_low: expected.map(|expected| seconds(expected.low)),
            seconds_high: expected.map(|expected| seconds(expected.high)),
        }
    };
    let within = |seconds| precision::half_width_within(noise, seconds_per_block, CONFIDENCE, seconds).map(f64::exp_m1);
    Price {
        precision: requested,
        levels: precisions.into_iter().map(level).collect(),
        in_a_minute: within(MINUTE),
        in_the_budget: within(plan.design.budget.seconds()),
        noise,
        seconds_per_block,
        source,
        run,
        of_blocks: blocks,
    }
}

struct Found {
    noises: Vec<Noise>,
    seconds_per_block: f64,
    source: Source,
    run: String,
    blocks: usize,
}

/// The noise of each ratio of a plan, as a run shows it: every ratio must reach the precision. `None` also where one of these ratios has too few blocks there.
fn noise_of(plan: &Plan, run: &Run) -> Option<Found> {
    let arm = |of: &Plan, index: usize| -> ResolvedArm { of.arms[index].arm.clone() };
    let wanted: Vec<(ResolvedArm, ResolvedArm)> = plan
        .pairs
        .iter()
        .filter(|pair| pair.asked)
        .map(|pair| (arm(plan, pair.numerator), arm(plan, pair.denominator)))
        .collect();
    if wanted.is_empty() {
        return None;
    }
    let matches = |index: usize| {
        let pair = &run.plan.pairs[index];
        let (above, below) = (arm(&run.plan, pair.numerator), arm(&run.plan, pair.denominator));
        match run.plan.mode.self_check {
            true => wanted.iter().any(|(one, two)| *one == above || *two == above),
            false => wanted.iter().any(|(one, two)| *one == above && *two == below),
        }
    };
    let asked = |keep: &dyn Fn(usize) -> bool| -> Vec<usize> {
        (0..run.plan.pairs.len()).filter(|&index| run.plan.pairs[index].asked && keep(index)).collect()
    };
    // It may be the one that takes longest, of which the others say nothing: where a budget was short, those that take least have had it.
    let is_short = |index: &usize| trials::log_ratios(&run.plan, &run.trials, *index).len() < SMALLEST;
    if asked(&matches).iter().any(is_short) {
        return None;
    }
    let noises = |keep: &dyn Fn(usize) -> bool| -> Vec<(Noise, usize)> {
        let of = |index: usize| {
            let logs = trials::log_ratios(&run.plan, &run.trials, index);
            Some((Noise::of(&logs, &trials::quads_of(&run.plan, &run.trials, index))?, logs.len()))
        };
        asked(keep).into_iter().filter_map(of).collect()
    };
    let own = noises(&matches);
    let (found, source) = match (own.is_empty(), run.plan.mode.self_check) {
        (false, true) => (own, Source::SelfCheck),
        (false, false) => (own, Source::SamePairs),
        (true, true) => (noises(&|_| true), Source::OtherSelfCheck),
        (true, false) => (noises(&|_| true), Source::OtherPairs),
    };
    let blocks = found.iter().map(|(_, blocks)| *blocks).min()?;
    let noises = found.into_iter().map(|(noise, _)| noise).collect();
    Some(Found { noises, seconds_per_block: seconds_per_block(plan, run)?, source, run: run.id.clone(), blocks })
}

/// How long a block of `plan` will last, from the trials of `run`. Of the same cells: what these lasted. Of others: what trials
/// took in addition to their phases, and this plan's phases.
fn seconds_per_block(plan: &Plan, run: &Run) -> Option<f64> {
    let counted: Vec<&Finished> = run.trials.iter().filter(|trial| trial.counted().is_some()).collect();
    #[expect(clippy::cast_precision_loss, reason = "seconds")]
    let lasted = |trial: &Finished| trial.elapsed_ns as f64 / 1e9;
    let arms = |of: &Plan, cell: Cell| -> Vec<ResolvedArm> {
        of.arms_of(cell).iter().map(|&arm| of.arms[arm].arm.clone()).collect()
    };
    let design = (plan.design.phase, plan.design.quads);
    let same = |cell: Cell| {
        let known = run.plan.cells.iter().position(|&other| arms(&run.plan, other) == arms(plan, cell))?;
        let of: Vec<f64> = counted.iter().filter(|trial| trial.cell == known).map(|trial| lasted(trial)).collect();
        median(&of).filter(|_| design == (run.plan.design.phase, run.plan.design.quads))
    };
    if let Some(seconds) = plan.cells.iter().map(|&cell| same(cell)).sum() {
        return Some(seconds);
    }
    #[expect(clippy::cast_precision_loss, reason = "phases and trials are few")]
    let measured = |of: &Plan, cell: Cell| of.phases_of(cell) as f64 * of.design.phase.seconds();
    let others = counted.iter().map(|trial| (lasted(trial) - measured(&run.plan, run.plan.cells[trial.cell])).max(0.0));
    let others = mean(&others.collect::<Vec<_>>())?;
    Some(plan.cells.iter().map(|&cell| others + measured(plan, cell)).sum())
}
