//! From an interval to one of five outcomes, and what would make it sharper.
//!
//! Everything is read off the printed interval of the log ratio and cannot contradict it. The band of practical
//! equivalence is ±ln(1 + delta), the same when the two sides are exchanged.

use crate::interval::Interval;
use std::fmt;

/// Which way a metric is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Better {
    /// Rates: more is better.
    Higher,
    /// Times: less is better.
    Lower,
}

/// Which way the numerator of a ratio differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// Worse: a lower rate, a longer time.
    Slower,
    /// Better.
    Faster,
}

/// The outcome of a comparison. Changes are relative and positive: |ratio - 1|.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Outcome {
    /// The interval lies inside the band.
    Equivalent {
        /// The direction of a difference that is shown although it does not matter: the interval excludes 1.
        shown: Option<Direction>,
    },
    /// The interval lies outside the band: slower or faster by more than delta.
    Beyond {
        /// Which way.
        direction: Direction,
    },
    /// The interval excludes 1 and crosses an edge of the band: slower or faster by `lo` to `hi`.
    Between {
        /// Which way.
        direction: Direction,
        /// The smallest change in the interval.
        lo: f64,
        /// The largest.
        hi: f64,
    },
    /// The interval holds 1 and reaches out of the band: no difference larger than `hi`.
    NoLarger {
        /// The largest change in the interval, either way.
        hi: f64,
    },
    /// No interval.
    NotEnough(Lack),
}

/// Why there is no interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lack {
    /// Fewer blocks than the study's smallest number.
    Blocks {
        /// Blocks there are.
        have: usize,
        /// Blocks needed.
        need: usize,
    },
    /// Values that are not positive or not finite.
    Unusable,
}

impl Outcome {
    /// Reads an interval of ln(numerator / denominator).
    pub fn of(interval: &Interval, delta: f64, better: Better) -> Self {
        let band = delta.ln_1p();
        let upward = if better == Better::Higher { Direction::Faster } else { Direction::Slower };
        let downward = if better == Better::Higher { Direction::Slower } else { Direction::Faster };
        let change = |log: f64| log.exp_m1().abs();
        let shown = match () {
            () if interval.lo > 0.0 => Some(upward),
            () if interval.hi < 0.0 => Some(downward),
            () => None,
        };
        match shown {
            _ if -band <= interval.lo && interval.hi <= band => Outcome::Equivalent { shown },
            Some(direction) if interval.lo > band || interval.hi < -band => Outcome::Beyond { direction },
            Some(direction) => {
                let (one, two) = (change(interval.lo), change(interval.hi));
                Outcome::Between { direction, lo: one.min(two), hi: one.max(two) }
            }
            None => Outcome::NoLarger { hi: change(interval.lo).max(change(interval.hi)) },
        }
    }

    /// Which way a difference is shown, if one is: the interval excludes 1.
    pub fn direction(&self) -> Option<Direction> {
        match *self {
            Outcome::Equivalent { shown } => shown,
            Outcome::Beyond { direction } | Outcome::Between { direction, .. } => Some(direction),
            Outcome::NoLarger { .. } | Outcome::NotEnough(_) => None,
        }
    }

    /// The outcome in words, with `delta` as in [`Outcome::of`]. Digits follow from the length of the interval.
    pub fn words(&self, delta: f64) -> String {
        match *self {
            Outcome::Equivalent { .. } => format!("equivalent within {} %", percent(delta, delta)),
            Outcome::Beyond { direction } => format!("{direction} by more than {} %", percent(delta, delta)),
            Outcome::Between { direction, lo, hi } => {
                format!("{direction} by {} to {} %", percent(lo, hi - lo), percent(hi, hi - lo))
            }
            Outcome::NoLarger { hi } => format!("no difference larger than {} %", percent(hi, hi)),
            Outcome::NotEnough(Lack::Blocks { have, need }) => format!("not enough data: {have} of {need} blocks"),
            Outcome::NotEnough(Lack::Unusable) => "not enough data: unusable values".to_owned(),
        }
    }
}

/// A share in percent with as many decimals (0 to 4) as show two digits of `resolution`; trailing zeros of whole numbers
/// are left out.
fn percent(share: f64, resolution: f64) -> String {
    let decimals = (1.0 - (100.0 * resolution).log10().floor()).clamp(0.0, 4.0);
    let text = format!("{:.*}", decimals as usize, 100.0 * share);
    match text.split_once('.') {
        Some((whole, rest)) if rest.bytes().all(|digit| digit == b'0') => whole.to_owned(),
        _ => text,
    }
}

/// The half-width at which an interval about the same centre would be inside the band, outside it, or exclude 1: what makes
/// an open outcome sharper. For "no difference larger than hi" the nearer of both to reach; for "by lo to hi" the distance
/// to the nearer edge of the band. `None` where the outcome is sharp, or the centre lies on the edge.
pub fn sharper_at(interval: &Interval, delta: f64) -> Option<f64> {
    let band = delta.ln_1p();
    let centre = interval.centre.abs();
    let edge = (centre - band).abs();
    let half_width = match Outcome::of(interval, delta, Better::Higher) {
        Outcome::NoLarger { .. } => edge.max(centre),
        Outcome::Between { .. } => edge,
        _ => return None,
    };
    (half_width > 0.0).then_some(half_width)
}

impl fmt::Display for Direction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Direction::Slower => "slower",
            Direction::Faster => "faster",
        })
    }
}
