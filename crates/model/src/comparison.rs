//! The comparison document: two sides, what differs between them in what was measured, and what else differs.
//!
//! Two levels of one run are compared block by block. Runs share no block, so that between them the run is the unit: at
//! least three a side, or the answer is that they are not comparable. Whatever fact differs between the sides and was not
//! declared a factor could be the cause as well, and is named.

use crate::document::Outcome;
use crate::metric::Better;
use crate::plan::Treatment;
use crate::units::Share;
use serde::{Deserialize, Serialize};

/// The name and version of the format, in every document.
pub const FORMAT: &str = "baremark-comparison/2";

/// Two sides compared.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Comparison {
    /// [`FORMAT`].
    pub format: String,
    /// The question of the runs.
    pub study: String,
    /// The workload's kind.
    pub workload: String,
    /// What the other side is compared with.
    pub base: Side,
    /// The side that is looked at.
    pub other: Side,
    /// How they are compared.
    pub method: Method,
    /// The difference that matters.
    pub delta: Share,
    /// The confidence of the widest interval, adjusted over the rows.
    pub confidence: f64,
    /// What was compared: other / base.
    pub rows: Vec<ComparisonRow>,
    /// Whether something has become slower, where that was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gate: Option<Gate>,
    /// What observers saw on both sides.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub observed: Vec<ObservedComparison>,
    /// Facts that differ between the sides and were declared to be what is varied.
    pub declared: Vec<Difference>,
    /// Facts that differ between the sides as well: each may be the cause.
    pub confounded: Vec<Difference>,
    /// Facts that differ among the runs of one side.
    pub mixed: Vec<Difference>,
}

/// One side.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Side {
    /// Its runs.
    pub runs: Vec<String>,
    /// The levels that were picked from them; empty for all.
    pub levels: Treatment,
    /// Its machines, each in one line.
    pub machines: Vec<String>,
}

/// How two sides are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// Block by block within one run.
    Paired,
    /// Run by run, with the spread between runs (Welch).
    Unpaired,
}

/// One quantity on both sides.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ComparisonRow {
    /// The metric's key.
    pub metric: String,
    /// Its unit.
    pub unit: String,
    /// Which way is better.
    pub better: Better,
    /// The treatment, without the levels that were picked.
    pub treatment: Treatment,
    /// For a ratio within each run: the treatment below its line. `null` for the metric's own value.
    pub relative_to: Option<Treatment>,
    /// Runs of the base that have it; when paired, blocks.
    pub base_units: usize,
    /// Runs of the other side that have it; when paired, blocks.
    pub other_units: usize,
    /// The base's geometric mean.
    pub base_value: Option<f64>,
    /// The other side's.
    pub other_value: Option<f64>,
    /// Other / base; `null` when they are not comparable.
    pub ratio: Option<f64>,
    /// Lower limit of its interval; with a gate that of the one-sided test that decides, and likewise the upper limit.
    pub lo: Option<f64>,
    /// Upper limit of its interval.
    pub hi: Option<f64>,
    /// The outcome.
    pub outcome: Outcome,
    /// The outcome in words; with a gate its answer in words.
    pub words: String,
}

/// A gate for continuous integration: has something become slower?
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Gate {
    /// The loss that must not go unnoticed.
    pub margin: Share,
    /// The answer: a loss in any row; passed if every row has passed.
    pub answer: Answer,
    /// One row for each of the comparison.
    pub rows: Vec<GateRow>,
}

/// The answer to a gate, or to one of its rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// A loss is shown, at a family-wise error rate of 5 %.
    Loss,
    /// No loss is shown, and one of the margin would have been with a power of 80 %.
    Passed,
    /// Neither.
    Undecided,
}

/// One row of a gate.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct GateRow {
    /// The answer.
    pub answer: Answer,
    /// The smallest loss that the one-sided test shows, relative; `null` where no loss is shown.
    #[serde(default)]
    pub at_least: Option<f64>,
    /// The power with which a loss of the margin would have been found; `null` without an interval.
    pub power: Option<f64>,
    /// The smallest loss that would have been found with a power of 80 %, relative; `null` where none would.
    pub smallest_detectable: Option<f64>,
    /// Of an undecided row: runs a side, or blocks, in all, with which it can pass; `null` where no such number is known.
    pub needed: Option<u32>,
    /// How long the missing runs or blocks take, in seconds.
    pub seconds: Option<f64>,
}

/// One quantity that observers saw on both sides.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ObservedComparison {
    /// The treatment, without the levels that were picked.
    pub treatment: Treatment,
    /// Where it was seen on the other side; on the base's, where its work ran or alongside it likewise.
    pub place: String,
    /// What, by its key (see [`crate::view`]).
    pub quantity: String,
    /// The unit of every value.
    pub unit: String,
    /// Runs of the base that saw it; within one run, trials.
    pub base_units: usize,
    /// Runs of the other side that saw it; within one run, trials.
    pub other_units: usize,
    /// The base's mean.
    pub base_value: f64,
    /// The other side's.
    pub other_value: f64,
    /// Other less base.
    pub difference: f64,
    /// Lower limit of its interval, adjusted over all quantities; `null` where there are fewer than three units a side.
    pub lo: Option<f64>,
    /// Upper limit.
    pub hi: Option<f64>,
    /// Whether the interval leaves out 0 and the difference is more than delta of the larger value.
    pub differs: bool,
}

/// A fact that differs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Difference {
    /// Which, as `machine.kernel.release`.
    pub fact: String,
    /// What it is on the base's side; several where its runs differ.
    pub base: String,
    /// What it is on the other side.
    pub other: String,
}
