//! A number of which only its limits are known.

use crate::random::Random;

/// A number that is known to lie between two others; one that is known exactly has both alike.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Range {
    /// The least it may be.
    pub low: f64,
    /// The most it may be.
    pub high: f64,
}

impl Range {
    /// A number known exactly.
    #[must_use]
    pub const fn exactly(value: f64) -> Self {
        Range { low: value, high: value }
    }

    /// One of its values, each as likely.
    pub fn draw(&self, random: &mut Random) -> f64 {
        random.between(self.low, self.high)
    }

    /// Whether `value` may be it.
    #[must_use]
    pub fn contains(&self, value: f64) -> bool {
        (self.low..=self.high).contains(&value)
    }
}
