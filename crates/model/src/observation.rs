//! What was observed: as an agent sends it, and as a document shows it.

use crate::observer::Absence;
use crate::plan::Treatment;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The name of the lab's own machine as a place. Other places have the name of their environment.
pub const THIS_MACHINE: &str = "this machine";

/// Values by key (see [`crate::quantity`]): what a counter grew by, a level's mean. An instance in which nothing happened
/// is left out; a machine's own value is there whenever it was read.
pub type Values = BTreeMap<String, f64>;

/// What was observed at one place during one trial.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Observation {
    /// Where: [`THIS_MACHINE`] or the name of an environment. The lab fills it in.
    #[serde(default)]
    pub place: String,
    /// When it began, nanoseconds since 1970 by the lab's clock. The lab fills it in.
    #[serde(default)]
    pub began_unix_ns: u64,
    /// How long it lasted.
    pub seconds: f64,
    /// Over all of it.
    pub whole: Values,
    /// Per arm of the trial, over its phases.
    #[serde(default)]
    pub arms: Vec<ArmValues>,
    /// Over time, where it lasted for longer than one interval.
    #[serde(default)]
    pub series: Series,
    /// What could not be observed.
    #[serde(default)]
    pub absent: Vec<Absence>,
    /// What happened to what was observed: a device that went, a counter that went back.
    #[serde(default)]
    pub notes: Vec<String>,
    /// What observing cost.
    pub cost: Cost,
}

/// What was observed while one arm ran.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ArmValues {
    /// Which arm of the trial.
    pub arm: usize,
    /// How long it ran, over those of its phases that were observed.
    pub seconds: f64,
    /// How many of its phases were observed: all, unless they are so short that readings between them would take long.
    pub phases: u32,
    /// Its values.
    pub values: Values,
}

/// Points over time: rates of counters per second, levels as they stood.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// The time between two points: as asked, or doubled until the points are few enough to keep.
    pub interval_ns: u64,
    /// When each point ends, in seconds since the observation began.
    pub at_s: Vec<f64>,
    /// Per key one value for each point; `null` where it was not read for that point.
    pub values: BTreeMap<String, Vec<Option<f64>>>,
}

/// What observing cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// Times that something was read.
    pub readings: u64,
    /// Processor time of all of it.
    pub cpu_ns: u64,
}

/// System activity, in a document.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Observed {
    /// The time between two points of a series, as asked.
    pub interval_ns: u64,
    /// One row for each treatment, place and quantity.
    pub rows: Vec<ObservedRow>,
    /// Over the time of the run.
    pub series: Vec<ObservedSeries>,
    /// What could not be observed, and where.
    pub absent: Vec<ObservedAbsence>,
    /// What a reader should know of all this.
    pub notes: Vec<String>,
    /// What observing cost, by place.
    pub cost: Vec<ObservedCost>,
}

/// One quantity while one treatment ran.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ObservedRow {
    /// The treatment.
    pub treatment: Treatment,
    /// Where it was observed.
    pub place: String,
    /// What, by its key (see [`crate::view`]).
    pub quantity: String,
    /// Of which of many; empty for the machine as a whole.
    pub instance: String,
    /// The unit.
    pub unit: String,
    /// Trials that count.
    pub n: usize,
    /// The mean over trials.
    pub value: f64,
    /// Lower limit of its 95 % interval; `null` where there are too few trials.
    pub lo: Option<f64>,
    /// Upper limit.
    pub hi: Option<f64>,
}

/// One quantity over the time of the run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ObservedSeries {
    /// Where it was observed.
    pub place: String,
    /// What, by its key.
    pub quantity: String,
    /// Of which of many; empty for the machine as a whole.
    pub instance: String,
    /// The unit.
    pub unit: String,
    /// Pairs of seconds since the run began and value. Where there were more than a document holds, each is a mean.
    pub points: Vec<[f64; 2]>,
}

/// Something that could not be observed at a place.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ObservedAbsence {
    /// Where.
    pub place: String,
    /// What, and why.
    #[serde(flatten)]
    pub absence: Absence,
}

/// What observing cost at a place.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ObservedCost {
    /// Where.
    pub place: String,
    /// Readings in all trials.
    pub readings: u64,
    /// The share of one CPU that it took, of the time observed.
    pub share: f64,
    /// Processor time of one reading, mean over trials, in nanoseconds.
    pub reading_ns: f64,
}
