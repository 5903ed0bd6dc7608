//! Where the noise comes from.
//!
//! Nested analysis of variance by the method of moments, balanced or not (Searle, Casella & McCulloch 1992, ch. 5), of quads
//! in trials in runs. Reported, so that a study spends its time at the level that varies; never used to pretend that quads
//! are units.

use crate::estimate::mean;

/// Variances at the three levels; the variance of one quad is their sum.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Components {
    /// Between runs; `None` with fewer than two runs.
    pub run: Option<f64>,
    /// Between trials of one run, each a process start of its own; `None` if no run has two.
    pub trial: Option<f64>,
    /// Between quads of one trial; `None` if no trial has two.
    pub quad: Option<f64>,
}

/// Components of the log ratios `values[run][trial][quad]`. Estimates below 0, which moments can give, are reported as 0; a
/// level that was not replicated is `None` and its variance is contained in the level above. `None` if there are fewer than
/// two values or one is not finite.
pub fn components(values: &[Vec<Vec<f64>>]) -> Option<Components> {
    let tree = Tree::new(values);
    if tree.total < 2.0 || values.iter().flatten().flatten().any(|v| !v.is_finite()) {
        return None;
    }
    let quad = per_degree(tree.within_trials, tree.total - tree.trials);
    let noise = quad.unwrap_or(0.0);
    let freedom = tree.trials - tree.runs;
    let trial = per_degree(tree.within_runs, freedom).map(|square| {
        let size = (tree.total - tree.sum_squares_per_run) / freedom;
        ((square - noise) / size).max(0.0)
    });
    let run = per_degree(tree.between_runs, tree.runs - 1.0).map(|square| {
        let below = (tree.sum_squares_per_run - tree.sum_squares / tree.total) / (tree.runs - 1.0);
        let size = (tree.total - tree.run_squares / tree.total) / (tree.runs - 1.0);
        ((square - noise - below * trial.unwrap_or(0.0)) / size).max(0.0)
    });
    Some(Components { run, trial, quad })
}

fn per_degree(sum_of_squares: f64, freedom: f64) -> Option<f64> {
    (freedom > 0.0).then(|| sum_of_squares / freedom)
}

/// Counts and sums of squares of a nested layout.
#[derive(Default)]
struct Tree {
    runs: f64,
    trials: f64,
    total: f64,
    /// Σ over trials of n(trial)²
    sum_squares: f64,
    /// Σ over runs of (Σ n(trial)²) / n(run)
    sum_squares_per_run: f64,
    /// Σ over runs of n(run)²
    run_squares: f64,
    within_trials: f64,
    within_runs: f64,
    between_runs: f64,
}

impl Tree {
    fn new(values: &[Vec<Vec<f64>>]) -> Self {
        let mut tree = Self::default();
        let grand = mean(&values.iter().flatten().flatten().copied().collect::<Vec<_>>()).unwrap_or(0.0);
        for run in values {
            tree.add_run(run, grand);
        }
        tree
    }

    fn add_run(&mut self, run: &[Vec<f64>], grand: f64) {
        let Some(centre) = mean(&run.iter().flatten().copied().collect::<Vec<_>>()) else { return };
        let (mut size, mut squares) = (0.0, 0.0);
        for trial in run {
            let Some(own) = mean(trial) else { continue };
            let n = trial.len() as f64;
            size += n;
            squares += n * n;
            self.trials += 1.0;
            self.within_trials += trial.iter().map(|v| (v - own).powi(2)).sum::<f64>();
            self.within_runs += n * (own - centre).powi(2);
        }
        self.runs += 1.0;
        self.total += size;
        self.sum_squares += squares;
        self.sum_squares_per_run += squares / size;
        self.run_squares += size * size;
        self.between_runs += size * (centre - grand).powi(2);
    }
}
