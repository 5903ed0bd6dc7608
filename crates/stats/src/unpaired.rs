//! Unpaired comparison: two runs days apart, two hosts, two clouds.
//!
//! Nothing pairs the trials, so whatever differs between runs (placement, temperature, neighbours) is in the
//! difference. It can only be judged against the spread *between* runs, which needs several runs a side; trials inside
//! a run, however many, say nothing about it. Below 3 runs a side the answer is "not comparable".

use crate::estimate::{mean, sd};
use crate::interval::{Estimator, Interval};
use crate::special::{student_sf, student_two_sided};

/// Fewest runs a side.
pub const FEWEST_RUNS: usize = 3;

/// An unpaired log ratio.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Unpaired {
    /// ln(a / b), or a - b of what are no logarithms, with its interval; `units` counts the units of both sides.
    pub log_ratio: Interval,
    /// Degrees of freedom of the t interval (Welch & Satterthwaite).
    pub freedom: f64,
    /// Standard deviation between runs on side a, freed from the spread of trials; 0 when trials explain all of it, and where
    /// summaries tell of no trials.
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
    let summary = |side: &Side| Summary { mean: side.centre, error: side.variance.sqrt(), units: side.runs as usize };
    let found = of_summaries(summary(&a), summary(&b), confidence)?;
    Some(Unpaired { between_runs_a: a.between, between_runs_b: b.between, ..found })
}

/// A mean of independent units of which no more is known.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Summary {
    /// The mean.
    pub mean: f64,
    /// Its standard error.
    pub error: f64,
    /// How many units.
    pub units: usize,
}

impl Summary {
    /// From a t interval of the mean at `confidence`. `None` below 2 units.
    pub fn of_interval(mean: f64, (lo, hi): (f64, f64), units: usize, confidence: f64) -> Option<Self> {
        (units >= 2).then(|| {
            let factor = student_two_sided(confidence, units as f64 - 1.0);
            Summary { mean, error: 0.5 * (hi - lo) / factor, units }
        })
    }
}

/// Compares two means by Welch's t interval of their difference a - b, whatever they are means of. `None` below
/// [`FEWEST_RUNS`] units on either side, or for a number that is not finite.
pub fn of_summaries(a: Summary, b: Summary, confidence: f64) -> Option<Unpaired> {
    let finite = |side: Summary| side.mean.is_finite() && side.error.is_finite();
    if a.units.min(b.units) < FEWEST_RUNS || !finite(a) || !finite(b) {
        return None;
    }
    let part = |side: Summary| (side.error.powi(2), side.units as f64 - 1.0);
    let ((of_a, free_a), (of_b, free_b)) = (part(a), part(b));
    let variance = of_a + of_b;
    let freedom = match variance > 0.0 {
        true => variance.powi(2) / (of_a.powi(2) / free_a + of_b.powi(2) / free_b),
        false => free_a.min(free_b),
    };
    let centre = a.mean - b.mean;
    let half = student_two_sided(confidence, freedom) * variance.sqrt();
    let log_ratio = Interval {
        centre,
        lo: centre - half,
        hi: centre + half,
        confidence,
        coverage: confidence,
        units: a.units + b.units,
        estimator: Estimator::Mean,
    };
    Some(Unpaired { log_ratio, freedom, between_runs_a: 0.0, between_runs_b: 0.0 })
}

impl Unpaired {
    /// Two-sided p value of no difference.
    pub fn p_value(&self) -> f64 {
        let error = self.log_ratio.half_width() / student_two_sided(self.log_ratio.confidence, self.freedom);
        match self.log_ratio.centre.abs() {
            centre if error > 0.0 => 2.0 * student_sf(centre / error, self.freedom),
            centre if centre > 0.0 => 0.0,
            _ => 1.0,
        }
    }
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
