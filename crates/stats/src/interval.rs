//! An estimate with its interval.
//!
//! Ratios are handled as logarithms throughout the crate, where a factor of two up and down are equally far from one;
//! [`Interval::exp`] brings them back for people.

/// An estimate with its two-sided interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// The estimate.
    pub centre: f64,
    /// Lower end.
    pub lo: f64,
    /// Upper end.
    pub hi: f64,
    /// The confidence requested, 0..1.
    pub confidence: f64,
    /// Independent units behind it (blocks, batches of blocks, trials).
    pub units: usize,
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
}
