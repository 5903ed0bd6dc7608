//! The comparison document: two sides, what differs between them in what was measured, and what else differs.
//!
//! Two levels of one run are compared block by block. Runs share no block, so that between them the run is the unit: at
//! least three a side, or the answer is that they are not comparable. Whatever fact differs between the sides and was not
//! declared a factor could be the cause as well, and is named.

use crate::descriptor::Better;
use crate::document::Outcome;
use crate::plan::Treatment;
use crate::units::Share;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The name and version of the format, in every document.
pub const FORMAT: &str = "baremark-comparison/1";

/// Two sides compared.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
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
    /// The confidence of every interval, adjusted over the rows.
    pub confidence: f64,
    /// What was compared: other / base.
    pub rows: Vec<ComparisonRow>,
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
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Side {
    /// Its runs.
    pub runs: Vec<String>,
    /// The levels that were picked from them; empty for all.
    pub levels: Treatment,
    /// Its machines, each in one line.
    pub machines: Vec<String>,
}

/// How two sides are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// Block by block within one run.
    Paired,
    /// Run by run, with the spread between runs (Welch).
    Unpaired,
}

/// One quantity on both sides.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
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
    /// Lower limit of its interval.
    pub lo: Option<f64>,
    /// Upper limit of its interval.
    pub hi: Option<f64>,
    /// The verdict.
    pub verdict: Outcome,
    /// The verdict in words.
    pub words: String,
    /// What it means for whoever guards against getting worse.
    pub change: Change,
}

/// One quantity that observers saw on both sides.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ObservedComparison {
    /// The treatment, without the levels that were picked.
    pub treatment: Treatment,
    /// Where it was seen on the other side; on the base's, where its work ran or beside it likewise.
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

/// A verdict read in the direction in which the metric is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// Worse by more than delta: the whole interval says so.
    Worse,
    /// Better by more than delta.
    Better,
    /// Not worse by more than delta, as far as the interval reaches.
    NotWorse,
    /// Cannot be told yet.
    Unknown,
}

/// A fact that differs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Difference {
    /// Which, as `machine.kernel.release`.
    pub fact: String,
    /// What it is on the base's side; several where its runs differ.
    pub base: String,
    /// What it is on the other side.
    pub other: String,
}
