//! The document of joined runs: ratios that several runs have, each divided by the same ratio of the first.
//!
//! Two releases of a database, two boots of a host, two MMU modes or sets of mitigations cannot be interleaved in one run.
//! Each is compared with its own base in a run of its own, and the ratios of the runs are compared here. Whatever else
//! differs between the runs is listed, for it may be the cause as well.

use crate::document::Outcome;
use crate::metric::Better;
use crate::plan::Treatment;
use crate::units::Share;
use serde::{Deserialize, Serialize};

/// The name and version of the format, in every document.
pub const FORMAT: &str = "baremark-joined/2";

/// Two to eight runs, or groups of runs, joined.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Joined {
    /// [`FORMAT`].
    pub format: String,
    /// What the other sides are compared with.
    pub base: JoinedSide,
    /// The sides that are compared, in the order in which they were named.
    pub others: Vec<JoinedSide>,
    /// Of what the intervals are made.
    pub spread: Spread,
    /// The relative difference that matters: the larger one of the runs' studies.
    pub delta: Share,
    /// The confidence of the widest interval, adjusted over the rows.
    pub confidence: f64,
    /// Ratios that the base and another side have: one row for each such side, those of one ratio in succession.
    pub rows: Vec<JoinedRow>,
    /// Ratios that the base or another side has and the other of the two has not.
    pub unmatched: Vec<Unmatched>,
    /// Facts that differ between the sides: each is a possible cause of a difference.
    pub factors: Vec<JoinedFact>,
    /// Facts that differ among the runs of one side, and not between the sides.
    pub mixed: Vec<JoinedFact>,
}

/// A fact that is not the same in all runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct JoinedFact {
    /// The fact, such as "machine.kernel.release".
    pub fact: String,
    /// What it is in each side, the base's first; several values of a side are separated by "|".
    pub values: Vec<String>,
}

/// One side.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct JoinedSide {
    /// The question of its runs.
    pub study: String,
    /// Its runs.
    pub runs: Vec<String>,
    /// The levels that were picked from them; empty for all.
    pub levels: Treatment,
    /// Its machines, each in one line.
    pub machines: Vec<String>,
}

/// Of what the intervals of joined runs are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Spread {
    /// Of the spread of blocks within the one run of each side. How much runs of one setup differ is not in them.
    WithinRuns,
    /// Of the spread between three runs or more of each side, which has the spread within them in it.
    BetweenRuns,
}

/// A ratio that the base and another side have.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct JoinedRow {
    /// Which of the other sides it is of, from 0.
    pub side: usize,
    /// The metric's key.
    pub metric: String,
    /// Its unit.
    pub unit: String,
    /// Which way it is better; `null` where no run has a value of it.
    pub better: Option<Better>,
    /// The workload's kind.
    pub workload: String,
    /// The treatment above the line of both ratios, without the levels that were picked.
    pub treatment: Treatment,
    /// The treatment below the line of both ratios.
    pub relative_to: Treatment,
    /// The ratio in the base.
    pub base: SideRatio,
    /// The ratio in the other side.
    pub other: SideRatio,
    /// The other side's ratio divided by the base's; `null` where one is unknown.
    pub ratio: Option<f64>,
    /// Lower limit of its interval.
    pub lo: Option<f64>,
    /// Upper limit of its interval.
    pub hi: Option<f64>,
    /// Standard deviation between runs of one side, of the logarithm, beyond what their blocks explain; `null` where each side
    /// has one run.
    pub between: Option<f64>,
    /// Standard error of a run's own log ratio: the root mean square over the runs; `null` where it is unknown.
    pub within: Option<f64>,
    /// The outcome, read off the interval: slower means that the treatment keeps less of its base than in the base run.
    pub outcome: Outcome,
    /// The outcome in words.
    pub words: String,
}

/// One side's ratio.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct SideRatio {
    /// The estimate, of several runs their geometric mean; `null` where none counts.
    pub ratio: Option<f64>,
    /// Lower limit of the interval in the run's own report; `null` of several runs.
    pub lo: Option<f64>,
    /// Upper limit.
    pub hi: Option<f64>,
    /// Runs that have it.
    pub runs: usize,
    /// Blocks of these runs.
    pub blocks: usize,
}

/// A ratio that the base or another side has and the other of the two has not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Unmatched {
    /// Which of the other sides is compared with the base here, from 0.
    pub side: usize,
    /// The metric's key.
    pub metric: String,
    /// The workload's kind.
    pub workload: String,
    /// The treatment above the line.
    pub treatment: Treatment,
    /// The treatment below the line.
    pub relative_to: Treatment,
    /// Which side has it.
    pub only_in: Which,
    /// Why the other side has not.
    pub reason: String,
}

/// One of two sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Which {
    /// What the other side is compared with.
    Base,
    /// The side that is compared.
    Other,
}
