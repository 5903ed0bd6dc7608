//! From finished trials to the numbers that statistics works on: one value for each trial and arm, one log ratio for each
//! trial of a pair.

use baremark_model::event::TrialStatus;
use baremark_model::plan::{Cell, Pair, Plan};
use baremark_model::wire::{TrialResult, TrialSpec};
use baremark_stats::estimate::median;
use std::collections::BTreeMap;

/// Trials of one cell that may fail or be void in a row before it is given up.
pub(crate) const PATIENCE: usize = 3;

/// Blocks that are complete: those in which every one of the `cells` has its trial, but for cells that had been given up by
/// then. `trials` are blocks and cells, each with whether it counts. Log, report and history all show this number.
#[must_use]
pub fn complete_blocks(cells: usize, trials: impl IntoIterator<Item = (u64, usize, bool)>) -> u64 {
    let mut by_block: BTreeMap<u64, BTreeMap<usize, bool>> = BTreeMap::new();
    for (block, cell, counts) in trials {
        by_block.entry(block).or_default().insert(cell, counts);
    }
    let mut setbacks = vec![0; cells];
    let mut complete = 0;
    for block in by_block.values() {
        let has = |cell: usize| block.contains_key(&cell) || setbacks[cell] >= PATIENCE;
        complete += u64::from((0..cells).all(has));
        for (&cell, &counts) in block.iter().filter(|(cell, _)| **cell < cells) {
            setbacks[cell] = if counts { 0 } else { setbacks[cell] + 1 };
        }
    }
    complete
}

/// The blocks of a run that are complete.
#[must_use]
pub fn blocks_of(plan: &Plan, trials: &[Finished]) -> u64 {
    let done = |trial: &Finished| (trial.block, trial.cell, trial.status == TrialStatus::Ok);
    complete_blocks(plan.cells.len(), trials.iter().map(done))
}

/// A trial as the store gives it back.
#[derive(Clone, Debug)]
pub struct Finished {
    /// Its block, from 0.
    pub block: u64,
    /// Its cell in the plan.
    pub cell: usize,
    /// Its place among all trials of the run, from 0.
    pub place: u64,
    /// What was asked.
    pub spec: TrialSpec,
    /// How it ended.
    pub status: TrialStatus,
    /// What came of it, unless it failed.
    pub result: Option<TrialResult>,
    /// How long it took, start of the agent included.
    pub elapsed_ns: u64,
}

impl Finished {
    /// The result, if the trial counts.
    pub fn counted(&self) -> Option<&TrialResult> {
        match self.status {
            TrialStatus::Ok => self.result.as_ref(),
            _ => None,
        }
    }

    /// The values of `metric` in the phases of `arm`, in the order measured; empty unless the trial counts.
    pub fn phases(&self, arm: usize, metric: &str) -> Vec<f64> {
        let Some(result) = self.counted() else { return Vec::new() };
        let of_arm = result.phases.iter().filter(|phase| phase.arm == arm);
        of_arm.filter_map(|phase| value(&phase.samples, metric)).collect()
    }

    /// First and second half of each phase of `arm`.
    pub fn halves(&self, arm: usize, metric: &str) -> Vec<(f64, f64)> {
        let Some(result) = self.counted() else { return Vec::new() };
        let of_arm = result.phases.iter().filter(|phase| phase.arm == arm);
        of_arm
            .filter_map(|phase| match phase.halves.as_slice() {
                [first, second] => value(&first.samples, metric).zip(value(&second.samples, metric)),
                _ => None,
            })
            .collect()
    }

    /// The trial's value of `metric` for `arm`: the median over the halves of its phases, or over the phases where they were
    /// not run as halves. With two phases an arm a median over phases would be their mean, which one stall of a few
    /// milliseconds, somebody else's, moves at will; one half of four it does not. `None` unless the trial counts.
    pub fn median(&self, arm: usize, metric: &str) -> Option<f64> {
        let halves: Vec<f64> = self.halves(arm, metric).into_iter().flat_map(<[f64; 2]>::from).collect();
        if halves.is_empty() { median(&self.phases(arm, metric)) } else { median(&halves) }
    }

    /// Whether this trial was measured before `other`, as the plan orders the trials of a block.
    fn started_before(&self, other: &Finished) -> bool {
        (self.block, self.place) < (other.block, other.place)
    }
}

fn value(samples: &[baremark_model::seam::Sample], metric: &str) -> Option<f64> {
    samples.iter().find(|sample| sample.metric == metric).map(|sample| sample.value)
}

/// One observation of a pair: where its denominator and its numerator were measured, and what came out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Observation<'t> {
    /// The trial of the denominator.
    pub below: &'t Finished,
    /// The trial of the numerator; the same one when they were interleaved.
    pub above: &'t Finished,
    /// ln(numerator / denominator) of the trials' values.
    pub log_ratio: f64,
}

impl Observation<'_> {
    /// Whether the denominator ran first.
    pub fn began_below(&self) -> bool {
        if std::ptr::eq(self.below, self.above) {
            return self.below.spec.schedule.first() == Some(&0);
        }
        self.below.started_before(self.above)
    }

    /// Whether neither trial was flagged.
    pub fn unflagged(&self) -> bool {
        [self.below, self.above].iter().all(|trial| trial.counted().is_some_and(|result| result.flags.is_empty()))
    }
}

/// The observations of `pair`, one for each block in which both arms count, in order of blocks.
pub(crate) fn observations<'t>(plan: &Plan, trials: &'t [Finished], pair: usize) -> Vec<Observation<'t>> {
    observations_of(plan, trials, pair, plan.metric_of(plan.pairs[pair].denominator))
}

/// As [`observations`], of any metric.
pub(crate) fn observations_of<'t>(
    plan: &Plan,
    trials: &'t [Finished],
    pair: usize,
    metric: &str,
) -> Vec<Observation<'t>> {
    let of = |[below, above]: [Side<'t>; 2]| {
        let (under, over) = (below.trial.median(below.arm, metric)?, above.trial.median(above.arm, metric)?);
        let log_ratio = (under > 0.0 && over > 0.0).then(|| (over / under).ln())?;
        Some(Observation { below: below.trial, above: above.trial, log_ratio })
    };
    sides(plan, trials, pair).into_iter().filter_map(of).collect()
}

/// One arm of a trial.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Side<'t> {
    /// The trial.
    pub trial: &'t Finished,
    /// The arm's place in it.
    pub arm: usize,
}

/// Where the denominator and the numerator of `pair` were measured, for each block in which both trials count, in order of
/// blocks.
pub(crate) fn sides<'t>(plan: &Plan, trials: &'t [Finished], pair: usize) -> Vec<[Side<'t>; 2]> {
    let Pair { numerator, denominator, interleaved, .. } = plan.pairs[pair];
    let places = match interleaved {
        true => plan.cells.iter().position(|&cell| cell == Cell::Pair(pair)).map(|cell| ((cell, 0), (cell, 1))),
        false => place_of(plan, denominator).zip(place_of(plan, numerator)),
    };
    let Some((below, above)) = places else { return Vec::new() };
    let by_block = |(cell, arm): (usize, usize)| -> BTreeMap<u64, Side<'t>> {
        let of_cell = trials.iter().filter(|trial| trial.cell == cell && trial.counted().is_some());
        of_cell.map(|trial| (trial.block, Side { trial, arm })).collect()
    };
    let (below, above) = (by_block(below), by_block(above));
    below.into_iter().filter_map(|(block, below)| Some([below, *above.get(&block)?])).collect()
}

/// The cell in which `arm` is measured, and its place among the cell's arms: the cell that it has alone, else the first
/// that it shares.
fn place_of(plan: &Plan, arm: usize) -> Option<(usize, usize)> {
    let alone = plan.cells.iter().position(|&cell| cell == Cell::Single(arm)).map(|cell| (cell, 0));
    alone.or_else(|| {
        let mut shared = plan.cells.iter().enumerate();
        shared.find_map(|(cell, &of)| Some((cell, plan.arms_of(of).iter().position(|&found| found == arm)?)))
    })
}

/// The log ratios of `pair`, one for each block in which both arms count, in order of blocks.
pub(crate) fn log_ratios(plan: &Plan, trials: &[Finished], pair: usize) -> Vec<f64> {
    observations(plan, trials, pair).iter().map(|observation| observation.log_ratio).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_counted_alike_whatever_ended_a_run() {
        let counts = |cells, trials: &[(u64, usize, bool)]| complete_blocks(cells, trials.iter().copied());
        assert_eq!(counts(2, &[]), 0);
        assert_eq!(counts(2, &[(0, 1, true), (0, 0, true), (1, 0, true)]), 1, "the budget ended the second block");
        assert_eq!(counts(1, &[(0, 0, false), (1, 0, false)]), 2, "void trials are measured, too");
        // Cell 1 failed three times and was given up; cell 0 went on.
        let mut trials: Vec<(u64, usize, bool)> = (0..10).map(|block| (block, 0, true)).collect();
        trials.extend((0..3).map(|block| (block, 1, false)));
        assert_eq!(counts(2, &trials), 10);
        trials.pop();
        assert_eq!(counts(2, &trials), 2, "it was not given up yet");
    }
}
