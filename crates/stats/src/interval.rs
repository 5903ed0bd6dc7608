//! An interval and what it is an interval for.
//!
//! Ratios are handled as logarithms throughout the crate, where a factor of two up and down are equally far from one;
//! [`Interval::exp`] brings them back for people.

/// What an interval is an interval for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Estimator {
    /// The mean, with Student's t.
    Mean,
    /// The median, between two order statistics.
    Median,
    /// The pseudo-median (Hodges and Lehmann), from Wilcoxon's signed ranks.
    HodgesLehmann,
}

/// An estimate with its two-sided interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// The estimate.
    pub centre: f64,
    /// Lower end.
    pub lo: f64,
    /// Upper end.
    pub hi: f64,
    /// The confidence asked for, 0..1.
    pub confidence: f64,
    /// The coverage the method guarantees under its assumptions for a number of units fixed beforehand; above
    /// `confidence` where order statistics are discrete.
    pub coverage: f64,
    /// Independent units behind it (blocks, batches of blocks, trials).
    pub units: usize,
    /// What is estimated.
    pub estimator: Estimator,
}

impl Interval {
    /// Half the distance between the ends.
    pub fn half_width(&self) -> f64 {
        0.5 * (self.hi - self.lo)
    }

    /// Whether `value` lies inside, ends included.
    pub fn contains(&self, value: f64) -> bool {
        self.lo <= value && value <= self.hi
    }

    /// The interval of the ratio, from an interval of its logarithm.
    #[must_use]
    pub fn exp(&self) -> Self {
        Self { centre: self.centre.exp(), lo: self.lo.exp(), hi: self.hi.exp(), ..*self }
    }

    /// The same centre with both arms `factor` times as long.
    #[must_use]
    pub fn widened(&self, factor: f64) -> Self {
        let (down, up) = (self.centre - self.lo, self.hi - self.centre);
        Self { lo: self.centre - factor * down, hi: self.centre + factor * up, ..*self }
    }
}
