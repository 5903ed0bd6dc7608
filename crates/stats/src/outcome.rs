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
    /// The interval holds 1 and reaches out of the band: inconclusive, and no difference larger than `hi`.
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
}

/// What is compared, as far as words go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject {
    /// Times and rates: slower, faster.
    Speed,
    /// Anything else: lower, higher, whichever is better.
    Amount,
}

/// How large a difference is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Size {
    /// None that matters.
    Equivalent,
    /// Some percent.
    Percent,
    /// A factor of [`LARGE`] or more.
    Factor,
    /// The interval leaves open which side is ahead.
    Inconclusive,
    /// No interval.
    Unknown,
}

/// From this factor on a difference is said as a factor.
pub const LARGE: f64 = 1.8;

/// An outcome in words: the one place that decides how large a difference is called.
#[derive(Debug, Clone, PartialEq)]
pub struct Verdict {
    /// The size.
    pub size: Size,
    /// With the interval: `slower by 1.9 to 3.1 %`, `2.4 times as slow (1.5 to 3.5)`.
    pub words: String,
    /// In a few words: `2.5 % slower`, `half as fast`.
    pub short: String,
}

impl Verdict {
    /// Of an outcome that was read off this interval of the log ratio, with `delta` and `better` as in [`Outcome::of`]. Digits follow from
    /// the length of the interval.
    pub fn of(outcome: &Outcome, interval: Option<&Interval>, delta: f64, better: Better, subject: Subject) -> Self {
        let interval = match (outcome, interval) {
            (Outcome::NotEnough(Lack::Blocks { have, need }), _) => {
                return Verdict::unknown(&format!("{have} of {need} blocks"));
            }
            (Outcome::NotEnough(Lack::Unusable), _) | (_, None) => return Verdict::unknown("unusable values"),
            (_, Some(interval)) => interval,
        };
        let words = Words { interval, subject, better };
        let (size, long, short) = match outcome {
            Outcome::Equivalent { .. } => {
                let long = format!("equivalent within {} %", percent(delta, delta));
                (Size::Equivalent, long, "equivalent".to_owned())
            }
            Outcome::NoLarger { .. } => {
                (Size::Inconclusive, format!("inconclusive: {}", words.either_way()), "inconclusive".to_owned())
            }
            _ if interval.centre.abs() >= LARGE.ln() => (Size::Factor, words.factor(), words.short_factor()),
            _ => (Size::Percent, words.percents(), words.short_percent()),
        };
        Verdict { size, words: long, short }
    }

    fn unknown(lacks: &str) -> Self {
        let short = "not enough data".to_owned();
        Verdict { size: Size::Unknown, words: format!("{short}: {lacks}"), short }
    }
}

/// An interval on the way to words.
struct Words<'i> {
    interval: &'i Interval,
    subject: Subject,
    better: Better,
}

impl Words<'_> {
    /// Which way a change of the log ratio goes. `up` is the side of larger ratios.
    fn side(&self, up: bool) -> &'static str {
        match (self.subject, up == (self.better == Better::Higher)) {
            (Subject::Amount, _) if up => "higher",
            (Subject::Amount, _) => "lower",
            (Subject::Speed, true) => "faster",
            (Subject::Speed, false) => "slower",
        }
    }

    /// Whether the ratio is above 1.
    fn up(&self) -> bool {
        self.interval.centre > 0.0
    }

    /// "slower by 1.9 to 3.1 %"
    fn percents(&self) -> String {
        let change = |log: f64| log.exp_m1().abs();
        let (one, two) = (change(self.interval.lo), change(self.interval.hi));
        let (lo, hi) = (one.min(two), one.max(two));
        let (side, resolution) = (self.side(self.up()), hi - lo);
        // The interval excludes 1, so that its nearer end is not zero.
        let is_hidden = whole(&digits(lo, resolution)) == Some("0");
        let (lo, hi) = (digits(lo, if is_hidden { 10.0 * lo } else { resolution }), digits(hi, resolution));
        // Both without their zeros, or both with them: 5 to 10 %, 40.64 to 41.00 %.
        match (whole(&lo), whole(&hi)) {
            (Some(lo), Some(hi)) => format!("{side} by {lo} to {hi} %"),
            _ => format!("{side} by {lo} to {hi} %"),
        }
    }

    /// "2.5 % slower"
    fn short_percent(&self) -> String {
        let change = self.interval.centre.exp_m1().abs();
        let half = 0.5 * (self.interval.hi.exp() - self.interval.lo.exp());
        format!("{} % {}", percent(change, 10.0 * half), self.side(self.up()))
    }

    /// "2.4 times as slow"
    fn times(&self, factor: &str) -> String {
        match (self.subject, self.side(self.up())) {
            (Subject::Amount, _) if self.up() => format!("{factor} times as much"),
            (Subject::Amount, _) => format!("{factor} times less"),
            (_, "slower") => format!("{factor} times as slow"),
            _ => format!("{factor} times as fast"),
        }
    }

    /// The factor, 1 or more, with the smallest and the largest in the interval.
    fn factors(&self) -> (f64, f64, f64) {
        let Interval { centre, lo, hi, .. } = *self.interval;
        let (near, far) = if centre > 0.0 { (lo, hi) } else { (-hi, -lo) };
        (centre.abs().exp(), near.exp(), far.exp())
    }

    /// "2.4 times as slow (95 %: 1.5 to 3.5)"
    fn factor(&self) -> String {
        let (factor, least, most) = self.factors();
        let resolution = DIGIT * (most - least);
        let shown = |of: f64| number(of, resolution);
        let level = number(100.0 * self.interval.confidence, 10.0);
        format!("{} ({level} %: {} to {})", self.times(&shown(factor)), shown(least), shown(most))
    }

    /// "half as fast"
    fn short_factor(&self) -> String {
        let (factor, least, most) = self.factors();
        let two = (1.9..2.1).contains(&factor);
        match (self.subject, self.side(self.up())) {
            (Subject::Speed, "slower") if two => "half as fast".to_owned(),
            (Subject::Speed, _) if two => "twice as fast".to_owned(),
            (Subject::Amount, "higher") if two => "twice as much".to_owned(),
            (Subject::Amount, _) if two => "half as much".to_owned(),
            _ => self.times(&number(factor, DIGIT * (most - least))),
        }
    }

    /// "from 90 % slower to 170 % faster", of an interval that holds 1.
    fn either_way(&self) -> String {
        let end = |log: f64, up: bool| {
            let change = log.exp_m1().abs();
            format!("{} % {}", percent(change, change), self.side(up))
        };
        let (down, up) = (end(self.interval.lo, false), end(self.interval.hi, true));
        let worse_first = self.subject == Subject::Amount || self.better == Better::Higher;
        if worse_first { format!("from {down} to {up}") } else { format!("from {up} to {down}") }
    }
}

/// What a digit of a factor may be worth, as a share of its interval's length.
const DIGIT: f64 = 1.0 / 6.0;

/// A number to the digit that `resolution` supports, at most three after the point.
fn number(value: f64, resolution: f64) -> String {
    let decimals = (-resolution.max(1e-9).log10().floor()).clamp(0.0, 3.0);
    format!("{value:.*}", decimals as usize)
}

/// A share in percent with as many decimals (0 to 4) as show two digits of `resolution`.
fn digits(share: f64, resolution: f64) -> String {
    let decimals = (1.0 - (100.0 * resolution).log10().floor()).clamp(0.0, 4.0);
    format!("{:.*}", decimals as usize, 100.0 * share)
}

/// A whole number without its point and zeros.
fn whole(text: &str) -> Option<&str> {
    let (whole, rest) = text.split_once('.').unwrap_or((text, ""));
    rest.bytes().all(|digit| digit == b'0').then_some(whole)
}

/// As [`digits`]; trailing zeros of whole numbers are left out.
fn percent(share: f64, resolution: f64) -> String {
    let text = digits(share, resolution);
    whole(&text).map_or_else(|| text.clone(), str::to_owned)
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
