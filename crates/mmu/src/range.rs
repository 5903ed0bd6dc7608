//! A number of which only its limits are known.

use crate::random::Random;
use baremark_model::config::{Reader, Section, all_of, number};

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

    /// From a file: one number, or the least and the most that it may be, from `least` to `most`.
    pub(crate) fn read(reader: &mut Reader, section: &Section<'_>, key: &str, least: f64, most: f64) -> Option<Self> {
        let takes = format!("a number from {least} to {most}, or [low, high] of such");
        let range = |value| match all_of(value, number)?[..] {
            [one] => Some(Range::exactly(one)),
            [low, high] if low <= high => Some(Range { low, high }),
            _ => None,
        };
        reader
            .typed(section, key, &takes, |value| range(value).filter(|range| range.low >= least && range.high <= most))
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
