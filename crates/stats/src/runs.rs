//! Runs against runs: two days, two hosts, two builds, without blocks in common.
//!
//! Whatever differs between runs (placement, temperature, neighbours, address layout) is in the difference, so it is judged
//! against the spread *between* runs. A run is one unit, however many blocks it has; three runs a side are the least. The
//! comparison knows nothing of what differs between the two *sides* besides the thing compared: runs of one side that were
//! all made on one day carry that day with them.

use crate::estimate::{mean, sd};
use crate::interval::Interval;
use crate::location::{self, Estimate, centre};
use crate::special::{student_sf, student_two_sided};

/// Fewest runs a side.
pub const FEWEST: usize = 3;

/// One run of a side.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Run {
    /// Natural log of its value: the Hodges-Lehmann estimate over its blocks.
    pub centre: f64,
    /// Standard error of that from inside the run; 0 where it is not known.
    pub error: f64,
}

impl Run {
    /// From one natural log a block, in the order measured. With fewer blocks than an [`Estimate`] needs it has no error of
    /// its own. `None` without a block or for a value that is not finite.
    pub fn of(blocks: &[f64]) -> Option<Self> {
        let error = Estimate::of(blocks).map_or(0.0, |found| found.noise() / (found.units as f64).sqrt());
        centre(blocks).map(|centre| Self { centre, error })
    }

    /// From the interval of an estimate over blocks ([`Estimate::interval`]), whose `units` are the blocks. `None` below
    /// [`location::SMALLEST`] blocks, or for an interval that is not finite.
    pub fn of_interval(interval: &Interval) -> Option<Self> {
        let freedom = location::freedom(interval.units);
        let error = interval.half_width() / student_two_sided(interval.confidence, freedom);
        let usable = interval.units >= location::SMALLEST && interval.centre.is_finite() && error.is_finite();
        usable.then_some(Self { centre: interval.centre, error })
    }
}

/// ln(other / base) between runs, with its two components of variance.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Shift {
    /// The mean of the other runs less the mean of the base's runs.
    pub centre: f64,
    /// Its standard error.
    pub error: f64,
    /// Degrees of freedom (Welch 1947, Satterthwaite 1946).
    pub freedom: f64,
    /// Runs of the base.
    pub base_runs: usize,
    /// Runs of the other side.
    pub other_runs: usize,
    /// Standard deviation between runs, beyond what their blocks explain; pooled over the sides.
    pub between: f64,
    /// Root mean square of the errors inside runs.
    pub within: f64,
}

/// Compares `other` with `base`: Welch's t interval of the difference of the means over runs. The variance of a side's mean
/// is s²/R, which holds both components; it is not taken to be less than the runs' own errors give, because three runs may
/// agree by chance. Assumes about normal runs that are independent given their side. `None` below [`FEWEST`] runs on either
/// side.
pub fn compare(base: &[Run], other: &[Run]) -> Option<Shift> {
    let (below, above) = (Side::of(base)?, Side::of(other)?);
    let variance = below.variance + above.variance;
    let freedom = match variance > 0.0 {
        true => variance.powi(2) / (below.variance.powi(2) / below.freedom + above.variance.powi(2) / above.freedom),
        false => below.freedom.min(above.freedom),
    };
    let pooled = |of: fn(&Side) -> f64| {
        ((of(&below) * below.freedom + of(&above) * above.freedom) / (below.freedom + above.freedom)).sqrt()
    };
    Some(Shift {
        centre: above.centre - below.centre,
        error: variance.sqrt(),
        freedom,
        base_runs: base.len(),
        other_runs: other.len(),
        between: pooled(|side| side.between),
        within: pooled(|side| side.within),
    })
}

/// The difference of two estimates of which only the intervals are known ([`Estimate::interval`]), by Welch's method. `None`
/// below [`location::SMALLEST`] units on either side, or for an interval that is not finite.
pub fn of_intervals(base: &Interval, other: &Interval) -> Option<Shift> {
    let part = |of: &Interval| Some((Run::of_interval(of)?.error.powi(2), location::freedom(of.units)));
    let ((below, few), (above, many)) = (part(base)?, part(other)?);
    let variance = below + above;
    let freedom = match variance > 0.0 {
        true => variance.powi(2) / (below.powi(2) / few + above.powi(2) / many),
        false => few.min(many),
    };
    Some(Shift {
        centre: other.centre - base.centre,
        error: variance.sqrt(),
        freedom,
        base_runs: base.units,
        other_runs: other.units,
        between: 0.0,
        within: (0.5 * variance).sqrt(),
    })
}

impl Shift {
    /// The two-sided interval at this confidence.
    pub fn interval(&self, confidence: f64) -> Interval {
        let half = student_two_sided(confidence, self.freedom) * self.error;
        Interval {
            centre: self.centre,
            lo: self.centre - half,
            hi: self.centre + half,
            confidence,
            units: self.base_runs + self.other_runs,
        }
    }

    /// Two-sided p value of no difference.
    pub fn p_value(&self) -> f64 {
        match self.centre.abs() {
            0.0 => 1.0,
            centre if self.error > 0.0 => 2.0 * student_sf(centre / self.error, self.freedom),
            _ => 0.0,
        }
    }
}

struct Side {
    centre: f64,
    /// Of the centre.
    variance: f64,
    freedom: f64,
    /// Variance between runs, beyond their own errors.
    between: f64,
    /// Mean square of the runs' errors.
    within: f64,
}

impl Side {
    fn of(runs: &[Run]) -> Option<Self> {
        if runs.len() < FEWEST || runs.iter().any(|run| !(run.centre.is_finite() && run.error.is_finite())) {
            return None;
        }
        let centres: Vec<f64> = runs.iter().map(|run| run.centre).collect();
        let within = mean(&runs.iter().map(|run| run.error.powi(2)).collect::<Vec<_>>())?;
        let total = sd(&centres)?.powi(2);
        Some(Self {
            centre: mean(&centres)?,
            variance: total.max(within) / runs.len() as f64,
            freedom: runs.len() as f64 - 1.0,
            between: (total - within).max(0.0),
            within,
        })
    }
}
