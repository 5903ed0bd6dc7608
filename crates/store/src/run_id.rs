//! Names of runs: ordered by time, short, and easy to type, such as `20261121-0405-3fa9c21b`.
//!
//! The first two parts are the minute in UTC in which the run began; the last distinguishes what began in one minute by 32 random
//! bits, and who draws a name that is taken draws again. Earlier versions drew 16 bits; their names are names still. A beginning of
//! the last part is enough to name a run. A name becomes part of a file's name, so it is checked where it enters.

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
#[error("'{0}' cannot name a run; a name such as 20261121-0405-3fa9c21b has lower-case letters, digits and '-' only")]
pub struct BadRunId(String);

impl RunId {
    /// A new name for a run that begins at `started`.
    #[must_use]
    pub fn generate(started: UnixTime) -> Self {
        let [year, month, day, hour, minute, _] = started.civil();
        let drawn = RandomState::new().build_hasher().finish() & 0xffff_ffff;
        RunId(format!("{year:04}{month:02}{day:02}-{hour:02}{minute:02}-{drawn:08x}"))
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

    /// Those of `all` that `name` may mean: the name begins so, or, where none does, its last part begins so.
    pub(crate) fn meant<'r>(all: impl Iterator<Item = &'r RunId> + Clone, name: &str) -> Vec<&'r RunId> {
        if name.is_empty() {
            return Vec::new();
        }
        let begin: Vec<&RunId> = all.clone().filter(|id| id.0.starts_with(name)).collect();
        if begin.is_empty() { all.filter(|id| id.tail().starts_with(name)).collect() } else { begin }
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
        assert_eq!(id.as_str().len(), 22, "{id}");
        assert_eq!(id.as_str().parse(), Ok(id.clone()));
        assert_eq!(id.tail().len(), 8);
    }

    #[test]
    fn a_name_is_meant_by_its_beginning_or_that_of_its_last_part() {
        let ids = ["20261121-0405-3fa9c21b", "20261121-0405-3fb0", "20261122-0000-20261121"];
        let ids = ids.map(|id| id.parse::<RunId>().expect(id));
        let meant = |name: &str| RunId::meant(ids.iter(), name).into_iter().map(RunId::as_str).collect::<Vec<_>>();
        assert_eq!(meant("3fa"), ["20261121-0405-3fa9c21b"]);
        assert_eq!(meant("3fb0"), ["20261121-0405-3fb0"], "a name of an earlier version");
        assert_eq!(meant("3f").len(), 2);
        assert_eq!(meant("20261121").len(), 2, "a day first, then a last part");
        assert_eq!((meant("").len(), meant("0405").len()), (0, 0));
    }

    #[test]
    fn what_could_leave_the_folder_is_no_name() {
        for text in ["", "../x", "a/b", "A", "-x", "a b", "a.b", "é"] {
            assert!(text.parse::<RunId>().is_err(), "{text}");
        }
        assert!("a".repeat(65).parse::<RunId>().is_err());
    }
}
