//! What a plan's precision will cost on this machine, from the noise of runs that are stored.
//!
//! The best source is a self-check of the same arms: arms that are equal show the noise alone. Failing that, the spread of
//! an ordinary run's log ratios from block to block serves, in which an effect that varies would count as noise; failing
//! that, other arms of the same workload. Which it was is said. A price is a plan and not a promise: the noise of
//! tomorrow may be another.

use crate::analysis::Run;
use crate::tally;
use baremark_model::arm::ResolvedArm;
use baremark_model::plan::{Cell, Plan};
use baremark_stats::interim::Rule;
use baremark_stats::{Estimate, precision};
use serde::Serialize;

/// The fewest blocks whose spread is taken for the noise.
const FEWEST_BLOCKS: usize = 8;
/// The confidence of a study's intervals.
const CONFIDENCE: f64 = 0.95;
/// What "in a minute" is.
const MINUTE: f64 = 60.0;

/// The price of a plan's precision.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Price {
    /// The precision requested, relative.
    pub precision: f64,
    /// Blocks after which the widest interval is expected to be short enough; `null` where no number of blocks is.
    pub blocks: Option<u32>,
    /// Blocks with what the stopping rule adds: the smallest study at least, and the confirmation.
    pub blocks_with_confirmation: Option<u32>,
    /// How long these last.
    pub seconds: Option<f64>,
    /// The precision that a minute gives; `null` where a minute has too few blocks.
    pub in_a_minute: Option<f64>,
    /// The precision that the budget gives.
    pub in_the_budget: Option<f64>,
    /// The spread of the log ratio from block to block.
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

/// From what the noise was taken, the best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// A self-check of the plan's own arms.
    SelfCheck,
    /// An ordinary run of the plan's own pairs.
    SamePairs,
    /// A self-check of other arms of the workload.
    OtherSelfCheck,
    /// An ordinary run of other arms of the workload.
    OtherPairs,
}

/// The price by the best of `runs`, which are of this machine and of the plan's workload, the latest first. `None` where
/// no run tells, or the plan asks for no ratio.
#[must_use]
pub fn price(plan: &Plan, runs: &[Run]) -> Option<Price> {
    if !plan.pairs.iter().any(|pair| pair.asked) {
        return None;
    }
    let found = runs.iter().filter_map(|run| noise_of(plan, run));
    let best = found.reduce(|best, next| if next.source < best.source { next } else { best })?;
    let (noise, seconds_per_block) = (best.noise, best.seconds_per_block);
    let whole = |blocks| u32::try_from(blocks).unwrap_or(u32::MAX);
    let wanted = plan.design.precision.0;
    let rule = Rule::new(wanted, whole(plan.design.least_blocks), whole(plan.design.most_blocks));
    let price = precision::price(noise, seconds_per_block, CONFIDENCE, &rule);
    let within = |seconds| precision::half_width_within(noise, seconds_per_block, CONFIDENCE, seconds).map(f64::exp_m1);
    Some(Price {
        precision: wanted,
        blocks: price.map(|price| price.blocks),
        blocks_with_confirmation: price.map(|price| price.blocks_with_confirmation),
        seconds: price.map(|price| price.seconds),
        in_a_minute: within(MINUTE),
        in_the_budget: within(plan.design.budget.seconds()),
        noise,
        seconds_per_block,
        source: best.source,
        run: best.run,
        of_blocks: best.blocks,
    })
}

struct Found {
    noise: f64,
    seconds_per_block: f64,
    source: Source,
    run: String,
    blocks: usize,
}

/// The noise that a run reports a plan: that of its noisiest pair, because every ratio must reach the precision.
fn noise_of(plan: &Plan, run: &Run) -> Option<Found> {
    let arm = |of: &Plan, index: usize| -> ResolvedArm { of.arms[index].arm.clone() };
    let wanted: Vec<(ResolvedArm, ResolvedArm)> = plan
        .pairs
        .iter()
        .filter(|pair| pair.asked)
        .map(|pair| (arm(plan, pair.numerator), arm(plan, pair.denominator)))
        .collect();
    let matches = |index: usize| {
        let pair = &run.plan.pairs[index];
        let (above, below) = (arm(&run.plan, pair.numerator), arm(&run.plan, pair.denominator));
        match run.plan.mode.self_check {
            true => wanted.iter().any(|(one, two)| *one == above || *two == above),
            false => wanted.iter().any(|(one, two)| *one == above && *two == below),
        }
    };
    let spreads = |keep: &dyn Fn(usize) -> bool| -> Vec<(f64, usize)> {
        let pairs = (0..run.plan.pairs.len()).filter(|&index| run.plan.pairs[index].asked && keep(index));
        let logs = pairs.map(|index| tally::log_ratios(&run.plan, &run.trials, index));
        let enough = logs.filter(|logs| logs.len() >= FEWEST_BLOCKS);
        enough
            .filter_map(|logs| Some((Estimate::of(&logs)?.noise(), logs.len())))
            .filter(|(noise, _)| *noise > 0.0)
            .collect()
    };
    let own = spreads(&matches);
    let (found, source) = match (own.is_empty(), run.plan.mode.self_check) {
        (false, true) => (own, Source::SelfCheck),
        (false, false) => (own, Source::SamePairs),
        (true, true) => (spreads(&|_| true), Source::OtherSelfCheck),
        (true, false) => (spreads(&|_| true), Source::OtherPairs),
    };
    let (noise, blocks) = found.into_iter().max_by(|one, two| one.0.total_cmp(&two.0))?;
    Some(Found { noise, seconds_per_block: seconds_per_block(plan, run)?, source, run: run.id.clone(), blocks })
}

/// How long a block of `plan` will last, from the trials of `run`: their time alongside the phases, and this plan's phases.
fn seconds_per_block(plan: &Plan, run: &Run) -> Option<f64> {
    #[expect(clippy::cast_precision_loss, reason = "phases and trials are few")]
    let measured = |of: &Plan, cell: Cell| of.phases_of(cell) as f64 * of.design.phase.seconds();
    let beside = |trial: &tally::Finished| {
        #[expect(clippy::cast_precision_loss, reason = "seconds")]
        let lasted = trial.elapsed_ns as f64 / 1e9;
        (lasted - measured(&run.plan, run.plan.cells[trial.cell])).max(0.0)
    };
    let others: Vec<f64> = run.trials.iter().filter(|trial| trial.counted().is_some()).map(beside).collect();
    let beside = baremark_stats::estimate::mean(&others)?;
    Some(plan.cells.iter().map(|&cell| beside + measured(plan, cell)).sum())
}
