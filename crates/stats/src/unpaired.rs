//! Unpaired comparison: two runs days apart, two hosts, two clouds.
//!
//! Nothing pairs the trials, so whatever differs between runs (placement, temperature, neighbours) is in the
//! difference. It can only be judged against the spread *between* runs, which needs several runs a side; trials inside
//! a run, however many, say nothing about it. Below 3 runs a side the answer is "not comparable".

use crate::estimate::{mean, sd};
use crate::interval::{Estimator, Interval};
use crate::special::student_two_sided;

/// Fewest runs a side.
pub const FEWEST_RUNS: usize = 3;

/// An unpaired log ratio.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Unpaired {
    /// ln(a / b) with its interval; `units` counts the runs of both sides.
    pub log_ratio: Interval,
    /// Degrees of freedom of the t interval (Welch & Satterthwaite).
    pub freedom: f64,
    /// Standard deviation between runs on side a, freed from the spread of trials; 0 when trials explain all of it.
    pub between_runs_a: f64,
    /// The same on side b.
    pub between_runs_b: f64,
}

/// Compares two sides, each `[run][trial]` of ln(value). The mean of the runs' means is the estimate of a side; its
/// variance is s²/R over R runs, which contains both components. Welch's t interval (1947) with Satterthwaite's degrees
/// of freedom. `None` ("not comparable") below [`FEWEST_RUNS`] runs with a trial on either side, or for a value that is
/// not finite.
pub fn unpaired(a: &[Vec<f64>], b: &[Vec<f64>], confidence: f64) -> Option<Unpaired> {
    let (a, b) = (Side::new(a)?, Side::new(b)?);
    let variance = a.variance + b.variance;
    let freedom = if variance > 0.0 {
        variance.powi(2) / (a.variance.powi(2) / (a.runs - 1.0) + b.variance.powi(2) / (b.runs - 1.0))
    } else {
        a.runs.min(b.runs) - 1.0
    };
    let centre = a.centre - b.centre;
    let half = student_two_sided(confidence, freedom) * variance.sqrt();
    let log_ratio = Interval {
        centre,
        lo: centre - half,
        hi: centre + half,
        confidence,
        coverage: confidence,
        units: (a.runs + b.runs) as usize,
        estimator: Estimator::Mean,
    };
    Some(Unpaired { log_ratio, freedom, between_runs_a: a.between, between_runs_b: b.between })
}

struct Side {
    runs: f64,
    centre: f64,
    /// Of the centre.
    variance: f64,
    /// Standard deviation between runs.
    between: f64,
}

impl Side {
    fn new(runs: &[Vec<f64>]) -> Option<Self> {
        if runs.iter().flatten().any(|v| !v.is_finite()) {
            return None;
        }
        let means: Vec<f64> = runs.iter().filter_map(|run| mean(run)).collect();
        if means.len() < FEWEST_RUNS {
            return None;
        }
        let trial_part: Vec<f64> = runs.iter().filter_map(|run| Some(sd(run)?.powi(2) / run.len() as f64)).collect();
        let total = sd(&means)?.powi(2);
        Some(Self {
            runs: means.len() as f64,
            centre: mean(&means)?,
            variance: total / means.len() as f64,
            between: (total - mean(&trial_part).unwrap_or(0.0)).max(0.0).sqrt(),
        })
    }
}
