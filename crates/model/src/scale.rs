//! Known costs that are put on the scale: how an arm carries one without anybody who analyses it knowing.
//!
//! A blinded arm has the parameter [`PARAMETER`] with a random label. What the label represents is in an [`InjectedCosts`], which
//! goes to the agent alongside the trial and not in it: arms, trials and estimates hold the label alone. It is stored with the plan
//! (`Plan::injected`), which loses it before an analysis is given it. The agent then runs a
//! share more repetitions inside the timed region than it counts: more of the same work, whose cost is known exactly.

use crate::units::Share;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

/// The parameter of an arm that carries a blinded cost; its value is the label.
pub const PARAMETER: &str = "blinded";
/// The environment variable by which an agent is given the injected costs.
pub const VARIABLE: &str = "BAREMARK_INJECTED_COSTS";
/// The name and version of the format, in every document.
pub const FORMAT: &str = "baremark-scale/1";

/// Repetitions that are run and not counted, for `reps` that are counted.
#[must_use]
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "saturates, and a share of repetitions is far from 2^53"
)]
pub fn extra(reps: u64, share: Share) -> u64 {
    (reps as f64 * share.0.max(0.0)).round() as u64
}

/// What each label represents; written `label=1 %,label=0 %`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct InjectedCosts(pub BTreeMap<String, Share>);

impl fmt::Display for InjectedCosts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (label, share)) in self.0.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            write!(f, "{comma}{label}={share}")?;
        }
        Ok(())
    }
}

impl FromStr for InjectedCosts {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let pair = |part: &str| {
            let (label, share) = part.split_once('=').ok_or_else(|| format!("'{part}' is not a label=share"))?;
            let share: Share = share.parse().map_err(|why| format!("{part}: {why}"))?;
            Ok((label.to_owned(), share))
        };
        text.split(',').filter(|part| !part.is_empty()).map(pair).collect::<Result<_, _>>().map(InjectedCosts)
    }
}

/// What came of putting known costs on the scale.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ScaleDocument {
    /// [`FORMAT`].
    pub format: String,
    /// The run that holds the trials.
    pub run: String,
    /// The workload's kind.
    pub workload: String,
    /// Of what the native arm is native.
    pub native_means: String,
    /// Blocks measured.
    pub blocks: u64,
    /// The confidence of every interval.
    pub confidence: f64,
    /// One row for each blinded arm, by what was injected.
    pub rows: Vec<ScaleRow>,
    /// Intervals that cover what was injected.
    pub covered: usize,
    /// Intervals that there are.
    pub intervals: usize,
    /// How likely a true scale covers as few as that, or fewer.
    pub chance: f64,
}

/// One blinded arm, opened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ScaleRow {
    /// Its label.
    pub label: String,
    /// The cost that was requested.
    pub asked: f64,
    /// The cost that was injected, in whole repetitions.
    pub injected: f64,
    /// Blocks that count.
    pub blocks: usize,
    /// The cost that was found; `null` below four blocks.
    pub recovered: Option<f64>,
    /// Lower limit of its interval.
    pub lo: Option<f64>,
    /// Upper limit of its interval.
    pub hi: Option<f64>,
    /// Whether the interval covers what was injected.
    pub covers: Option<bool>,
    /// Whether the interval leaves out no cost at all.
    pub told_from_none: Option<bool>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn injected_costs_read_back() {
        let injected = InjectedCosts(BTreeMap::from([("a1".to_owned(), Share(0.01)), ("b2".to_owned(), Share(0.0))]));
        assert_eq!(injected.to_string(), "a1=1 %,b2=0 %");
        assert_eq!(injected.to_string().parse(), Ok(injected));
        assert_eq!("".parse(), Ok(InjectedCosts::default()));
        assert!("a1".parse::<InjectedCosts>().is_err_and(|why| why.contains("'a1' is not a label=share")));
        assert!("a1=1".parse::<InjectedCosts>().is_err());
    }

    #[test]
    fn what_is_injected_is_whole_repetitions() {
        assert_eq!([0.0, 0.01, 0.05, -1.0].map(|share| extra(250, Share(share))), [0, 3, 13, 0]);
        assert_eq!(extra(u64::MAX, Share(2.0)), u64::MAX);
    }
}
