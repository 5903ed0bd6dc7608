//! Names of runs: ordered by time, short, and easy to type, such as `20261121-0405-3fa9`.
//!
//! The first two parts are the minute in UTC in which the run began; the last distinguishes what began in one minute. A
//! name becomes part of a file's name, so it is checked where it enters.

use baremark_model::units::UnixTime;
use std::collections::hash_map::RandomState;
use std::fmt;
use std::hash::{BuildHasher, Hasher};
use std::str::FromStr;

const LONGEST: usize = 64;

/// The name of a run.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunId(String);

/// A text that cannot be the name of a run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' cannot name a run; a name such as 20261121-0405-3fa9 has lower-case letters, digits and '-' only")]
pub struct BadRunId(String);

impl RunId {
    /// A new name for a run that begins at `started`.
    #[must_use]
    pub fn generate(started: UnixTime) -> Self {
        let [year, month, day, hour, minute, _] = started.civil();
        let drawn = RandomState::new().build_hasher().finish() & 0xffff;
        RunId(format!("{year:04}{month:02}{day:02}-{hour:02}{minute:02}-{drawn:04x}"))
    }

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The last part, which is mostly enough to distinguish runs.
    #[must_use]
    pub fn tail(&self) -> &str {
        self.0.rsplit('-').next().unwrap_or(&self.0)
    }
}

impl FromStr for RunId {
    type Err = BadRunId;
    fn from_str(text: &str) -> Result<Self, BadRunId> {
        let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        if text.is_empty() || text.len() > LONGEST || text.starts_with('-') || !text.chars().all(fits) {
            return Err(BadRunId(text.to_owned()));
        }
        Ok(RunId(text.to_owned()))
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_says_when_the_run_began() {
        let id = RunId::generate(UnixTime(1_763_696_157_999_999_999));
        assert!(id.as_str().starts_with("20251121-0335-"), "{id}");
        assert_eq!(id.as_str().len(), 18, "{id}");
        assert_eq!(id.as_str().parse(), Ok(id.clone()));
        assert_eq!(id.tail().len(), 4);
    }

    #[test]
    fn what_could_leave_the_folder_is_no_name() {
        for text in ["", "../x", "a/b", "A", "-x", "a b", "a.b", "é"] {
            assert!(text.parse::<RunId>().is_err(), "{text}");
        }
        assert!("a".repeat(65).parse::<RunId>().is_err());
    }
}
