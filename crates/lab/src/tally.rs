//! From finished trials to the numbers that statistics works on: one value for each trial and arm, one log ratio for each
//! trial of a pair.

use baremark_model::event::TrialStatus;
use baremark_model::plan::{Cell, Plan};
use baremark_model::wire::{TrialResult, TrialSpec};
use baremark_stats::estimate::median;

/// A trial as the store gives it back.
#[derive(Clone, Debug)]
pub struct Finished {
    /// Its block, from 0.
    pub block: u64,
    /// Its cell in the plan.
    pub cell: usize,
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

    /// ln(numerator / denominator) of the medians over the phases; arm 0 is the denominator. `None` unless the trial
    /// counts and both are positive.
    pub fn log_ratio(&self, metric: &str) -> Option<f64> {
        let below = median(&self.phases(0, metric))?;
        let above = median(&self.phases(1, metric))?;
        (below > 0.0 && above > 0.0).then(|| (above / below).ln())
    }

    /// Which arm ran first.
    pub fn began_with(&self) -> Option<usize> {
        self.spec.schedule.first().copied()
    }
}

fn value(samples: &[baremark_model::seam::Sample], metric: &str) -> Option<f64> {
    samples.iter().find(|sample| sample.metric == metric).map(|sample| sample.value)
}

/// The trials of the cell that measures `pair`, in order of blocks.
pub(crate) fn of_pair<'t>(plan: &Plan, trials: &'t [Finished], pair: usize) -> Vec<&'t Finished> {
    let cell = plan.cells.iter().position(|&cell| cell == Cell::Pair(pair));
    let mut found: Vec<&Finished> = trials.iter().filter(|trial| Some(trial.cell) == cell).collect();
    found.sort_by_key(|trial| trial.block);
    found
}

/// The log ratios of `pair`, one for each trial that counts, in order of blocks.
pub(crate) fn log_ratios(plan: &Plan, trials: &[Finished], pair: usize) -> Vec<f64> {
    of_pair(plan, trials, pair).iter().filter_map(|trial| trial.log_ratio(&plan.metric)).collect()
}
