//! Quantities as people type them and as the program holds them.
//!
//! A person types a quantity with its unit ("1 GiB", "50 ms", "1 %"); a machine reads a suffixed key (`_ns`, `_bytes`).
//! The newtypes here are the one place where the two meet. A bare number is refused wherever a unit changes its meaning.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A size in bytes. Typed with `B`, decimal (`kB`, `MB`, `GB`) or binary (`KiB`, `MiB`, `GiB`) units; IEC 80000-13.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Bytes(pub u64);

/// A duration in nanoseconds. Typed with `ns`, `us`, `ms`, `s`, `min` or `h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Nanos(pub u64);

/// A share of one, typed as a percentage ("1 %"); held as a fraction (0.01).
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Share(pub f64);

/// Why a typed quantity was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnitError {
    /// No number stands at the start.
    #[error("'{0}' does not start with a number; write a number and a unit, such as {1}")]
    NoNumber(String, &'static str),
    /// The unit is missing or unknown.
    #[error("'{text}' has {found}; the units are {expected}")]
    Unit {
        /// What was typed.
        text: String,
        /// What is wrong with its unit, as a phrase.
        found: String,
        /// The units that would do.
        expected: &'static str,
    },
    /// The quantity cannot be held.
    #[error("'{0}' is out of range; {1}")]
    Range(String, &'static str),
}

const BYTE_UNITS: &[(&str, f64)] = &[
    ("B", 1.0),
    ("kB", 1e3),
    ("MB", 1e6),
    ("GB", 1e9),
    ("TB", 1e12),
    ("KiB", 1024.0),
    ("MiB", 1_048_576.0),
    ("GiB", 1_073_741_824.0),
    ("TiB", 1_099_511_627_776.0),
];
const TIME_UNITS: &[(&str, f64)] =
    &[("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9), ("min", 60e9), ("h", 3600e9)];

/// Splits "1.5 GiB" into its number and the unit's text.
fn split<'t>(text: &'t str, example: &'static str) -> Result<(f64, &'t str), UnitError> {
    let trimmed = text.trim();
    let end = trimmed.find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '_')).unwrap_or(trimmed.len());
    let (number, unit) = trimmed.split_at(end);
    match number.replace('_', "").parse::<f64>() {
        Ok(value) => Ok((value, unit.trim())),
        Err(_) => Err(UnitError::NoNumber(text.to_owned(), example)),
    }
}

fn scaled(text: &str, units: &[(&str, f64)], expected: &'static str, example: &'static str) -> Result<u64, UnitError> {
    let (number, unit) = split(text, example)?;
    let Some((_, factor)) = units.iter().find(|(name, _)| *name == unit) else {
        let found = if unit.is_empty() { "no unit".to_owned() } else { format!("the unknown unit '{unit}'") };
        return Err(UnitError::Unit { text: text.to_owned(), found, expected });
    };
    let value = (number * factor).round();
    if value > 9.0e18 {
        return Err(UnitError::Range(text.to_owned(), "at most 9 x 10^18 of the base unit can be held"));
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked above; no sign is parsed")]
    Ok(value as u64)
}

impl FromStr for Bytes {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        scaled(text, BYTE_UNITS, "B, kB, MB, GB, TB, KiB, MiB, GiB and TiB", "\"512 MiB\"").map(Bytes)
    }
}

impl FromStr for Nanos {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        scaled(text, TIME_UNITS, "ns, us, ms, s, min and h", "\"50 ms\"").map(Nanos)
    }
}

impl FromStr for Share {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        let (number, unit) = split(text, "\"1 %\"")?;
        if unit == "%" {
            return Ok(Share(number / 100.0));
        }
        let found = if unit.is_empty() { "no unit".to_owned() } else { format!("the unknown unit '{unit}'") };
        Err(UnitError::Unit { text: text.to_owned(), found, expected: "%" })
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (unit, shift) in [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)] {
            if self.0 >= 1 << shift && self.0.is_multiple_of(1 << shift) {
                return write!(f, "{} {unit}", self.0 >> shift);
            }
        }
        write!(f, "{} B", self.0)
    }
}

impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (unit, size) in [("h", 3_600_000_000_000_u64), ("min", 60_000_000_000), ("s", 1_000_000_000)] {
            if self.0 >= size && self.0.is_multiple_of(size) {
                return write!(f, "{} {unit}", self.0 / size);
            }
        }
        #[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
        let value = self.0 as f64;
        match self.0 {
            0..1_000 => write!(f, "{value} ns"),
            1_000..1_000_000 => write!(f, "{} us", value / 1e3),
            1_000_000..1_000_000_000 => write!(f, "{} ms", value / 1e6),
            _ => write!(f, "{:.1} s", value / 1e9),
        }
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = (self.0 * 1e6).round() / 1e4;
        write!(f, "{percent} %")
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
