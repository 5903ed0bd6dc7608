//! Quantities as people type them and as the program holds them.
//!
//! A person types a quantity with its unit ("1 GiB", "50 ms", "1 %"); a machine reads a suffixed key (`_ns`, `_bytes`).
//! The newtypes here are the one place where the two meet. A bare number is refused wherever a unit changes its meaning.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// A second in nanoseconds.
pub const SECOND: u64 = 1_000_000_000;
/// An hour in nanoseconds.
pub const HOUR: u64 = 3600 * SECOND;

/// A size in bytes. Typed with `B`, decimal (`kB`, `MB`, `GB`) or binary (`KiB`, `MiB`, `GiB`) units; IEC 80000-13.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Bytes(pub u64);

/// A duration in nanoseconds. Typed with `ns`, `us`, `ms`, `s`, `min` or `h`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct Nanos(pub u64);

impl From<Duration> for Nanos {
    /// The most that fits, of one that is longer.
    fn from(duration: Duration) -> Nanos {
        Nanos(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
    }
}

/// A share of one, typed as a percentage ("1 %"); held as a fraction (0.01).
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct Share(pub f64);

/// Why a typed quantity was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnitError {
    /// No number stands at the start.
    #[error("'{0}' does not start with a number; write a number and a unit, such as {1}")]
    NoNumber(String, &'static str),
    /// The unit is missing or unknown.
    #[error("'{text}' has {found}; {expected}")]
    Unit {
        /// What was typed.
        text: String,
        /// What is wrong with its unit, as a phrase.
        found: String,
        /// The units that would do, as a phrase.
        expected: &'static str,
    },
    /// The quantity cannot be held.
    #[error("'{0}' is out of range; {1}")]
    Range(String, &'static str),
}

const BYTE_UNITS: &[(&str, u64)] = &[
    ("B", 1),
    ("kB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
];
const TIME_UNITS: &[(&str, u64)] = &[
    ("ns", 1),
    ("us", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("min", 60_000_000_000),
    ("h", 3_600_000_000_000),
];
const MOST: u64 = 9_000_000_000_000_000_000;

/// Splits "1.5 GiB" into its number, which reads as a float, and the unit's text.
fn split<'t>(text: &'t str, example: &'static str) -> Result<(String, &'t str), UnitError> {
    let trimmed = text.trim();
    let end = trimmed.find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '_')).unwrap_or(trimmed.len());
    let (number, unit) = trimmed.split_at(end);
    let number = number.replace('_', "");
    if number.parse::<f64>().is_err() {
        return Err(UnitError::NoNumber(text.to_owned(), example));
    }
    Ok((number, unit.trim()))
}

/// `number` times `factor`, the whole part exactly and the fraction to the nearest; `None` beyond [`MOST`].
fn times(number: &str, factor: u64) -> Option<u64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let fraction: f64 = format!("0.{fraction}0").parse().ok()?;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "a fraction of a factor below 2^53, and no sign is parsed"
    )]
    let part = (fraction * factor as f64).round() as u64;
    whole.checked_mul(factor)?.checked_add(part).filter(|value| *value <= MOST)
}

fn scaled(text: &str, units: &[(&str, u64)], expected: &'static str, example: &'static str) -> Result<u64, UnitError> {
    let (number, unit) = split(text, example)?;
    let Some((_, factor)) = units.iter().find(|(name, _)| *name == unit) else {
        let found = if unit.is_empty() { "no unit".to_owned() } else { format!("the unknown unit '{unit}'") };
        return Err(UnitError::Unit { text: text.to_owned(), found, expected });
    };
    let beyond = || UnitError::Range(text.to_owned(), "at most 9 x 10^18 of the base unit can be held");
    times(&number, *factor).ok_or_else(beyond)
}

impl FromStr for Bytes {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        scaled(text, BYTE_UNITS, "the units are B, kB, MB, GB, TB, KiB, MiB, GiB and TiB", "\"512 MiB\"").map(Bytes)
    }
}

impl FromStr for Nanos {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        scaled(text, TIME_UNITS, "the units are ns, us, ms, s, min and h", "\"50 ms\"").map(Nanos)
    }
}

impl FromStr for Share {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        let (number, unit) = split(text, "\"1 %\"")?;
        if unit == "%" {
            let Ok(percent) = number.parse::<f64>() else {
                return Err(UnitError::NoNumber(text.to_owned(), "\"1 %\""));
            };
            return Ok(Share(percent / 100.0));
        }
        let found = if unit.is_empty() { "no unit".to_owned() } else { format!("the unknown unit '{unit}'") };
        Err(UnitError::Unit { text: text.to_owned(), found, expected: "the unit is %" })
    }
}

/// Exact; with a precision (`{:.1}`) rounded to so many decimals of the largest unit that fits.
impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (unit, shift) in [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)] {
            if let Some(decimals) = f.precision().filter(|_| self.0 >= 1 << shift) {
                #[expect(clippy::cast_precision_loss, reason = "it is rounded anyway")]
                return write!(f, "{:.decimals$} {unit}", self.0 as f64 / (1_u64 << shift) as f64);
            }
            if self.0 >= 1 << shift && self.0.is_multiple_of(1 << shift) {
                return write!(f, "{} {unit}", self.0 >> shift);
            }
        }
        write!(f, "{} B", self.0)
    }
}

/// Exact, so that it reads back as the same and two that differ never look alike; with a precision (`{:.1}`) rounded to
/// so many decimals, for people who wait.
impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (unit, size) in [("h", 3_600_000_000_000_u64), ("min", 60_000_000_000), ("s", 1_000_000_000)] {
            if self.0 >= size && self.0.is_multiple_of(size) {
                return write!(f, "{} {unit}", self.0 / size);
            }
        }
        let (unit, digits) = match self.0 {
            0..1_000 => ("ns", 0),
            1_000..1_000_000 => ("us", 3),
            1_000_000..1_000_000_000 => ("ms", 6),
            _ => ("s", 9),
        };
        let size = 10_u64.pow(digits);
        if let Some(decimals) = f.precision() {
            #[expect(
                clippy::cast_precision_loss,
                reason = "the size is at most 10^9, and the value is rounded anyway"
            )]
            return write!(f, "{:.decimals$} {unit}", self.0 as f64 / size as f64);
        }
        let fraction = format!("{:0width$}", self.0 % size, width = digits as usize);
        match fraction.trim_end_matches('0') {
            "" => write!(f, "{} {unit}", self.0 / size),
            fraction => write!(f, "{}.{fraction} {unit}", self.0 / size),
        }
    }
}

/// With the fewest decimals that read back as the same; with a precision (`{:.1}`) rounded to so many.
impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = self.0 * 100.0;
        if let Some(decimals) = f.precision() {
            return write!(f, "{percent:.decimals$} %");
        }
        let reads_back =
            |text: &String| text.parse::<f64>().is_ok_and(|read| (read / 100.0).to_bits() == self.0.to_bits());
        let shortest = (0..18).map(|decimals| format!("{percent:.decimals$}")).find(reads_back);
        write!(f, "{} %", shortest.unwrap_or_else(|| percent.to_string()))
    }
}

/// A moment, in nanoseconds since 1970-01-01 UTC; shown as RFC 3339 to the second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct UnixTime(pub u64);

impl UnixTime {
    /// Year, month, day, hour, minute and second in UTC (Hinnant's civil-from-days).
    #[must_use]
    pub fn civil(self) -> [u64; 6] {
        let seconds = self.0 / 1_000_000_000;
        let (days, of_day) = (seconds / 86_400 + 719_468, seconds % 86_400);
        let (era, of_era) = (days / 146_097, days % 146_097);
        let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
        let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let shifted = (5 * of_year + 2) / 153;
        let (day, month) =
            (of_year - (153 * shifted + 2) / 5 + 1, if shifted < 10 { shifted + 3 } else { shifted - 9 });
        let year = year_of_era + era * 400 + u64::from(month <= 2);
        [year, month, day, of_day / 3600, of_day / 60 % 60, of_day % 60]
    }
}

impl fmt::Display for UnixTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [year, month, day, hour, minute, second] = self.civil();
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
    }
}

impl Nanos {
    /// The duration in seconds.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a duration of 104 days is still exact to the nanosecond")]
    pub fn seconds(self) -> f64 {
        self.0 as f64 / 1e9
    }
}

impl Bytes {
    /// The size as a count in memory of this machine.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "64-bit targets only")]
    pub fn count(self) -> usize {
        self.0 as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_reads_back_as_what_was_typed() {
        for text in ["512 MiB", "3 KiB", "100 B", "1 TiB"] {
            assert_eq!(text.parse::<Bytes>().map(|size| size.to_string()), Ok(text.to_owned()));
        }
        for text in ["3 min", "50 ms", "1 h", "90 s", "250 us", "7 ns"] {
            let time = text.parse::<Nanos>().expect("a duration");
            assert_eq!(time.to_string().parse(), Ok(time), "{text}");
        }
        assert_eq!("1 %".parse::<Share>().map(|share| share.to_string()), Ok("1 %".to_owned()));
        assert_eq!("1.5GiB".parse(), Ok(Bytes(1_610_612_736)));
    }

    #[test]
    fn a_bare_number_is_refused_with_the_units_that_would_do() {
        let why = "50".parse::<Nanos>().expect_err("no unit").to_string();
        assert_eq!(why, "'50' has no unit; the units are ns, us, ms, s, min and h");
        let why = "1.2.3 s".parse::<Nanos>().expect_err("no number").to_string();
        assert!(why.contains("does not start with a number"), "{why}");
        assert!("99999999999 TiB".parse::<Bytes>().is_err());
    }

    #[test]
    fn moments_are_shown_in_utc() {
        assert_eq!(UnixTime(0).to_string(), "1970-01-01T00:00:00Z");
        assert_eq!(UnixTime(951_782_400_000_000_000).to_string(), "2000-02-29T00:00:00Z");
        assert_eq!(UnixTime(1_763_696_157_999_999_999).to_string(), "2025-11-21T03:35:57Z");
    }
}
