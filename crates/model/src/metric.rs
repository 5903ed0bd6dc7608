//! Metrics: rows of a workload's table, and what a figure of one means.

use serde::{Deserialize, Serialize};

/// Which way a metric is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Better {
    /// Throughputs.
    Higher,
    /// Times and costs.
    Lower,
}

/// How the members of an ensemble join in a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Aggregate {
    /// Their values are added: rates of separate work, each at its own best moment.
    Sum,
    /// The mean of their values: costs, and rates that are per process by definition.
    Mean,
    /// The largest of their values: worst cases.
    Most,
    /// What all did over the time from the first start to the last end. For rates of one member that are defined so
    /// too: an amount / the time from the member's first start to its last end.
    Window,
}

impl Aggregate {
    /// The rule in words, shown next to the members' own figures.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Aggregate::Sum => "sum",
            Aggregate::Mean => "mean",
            Aggregate::Most => "largest",
            Aggregate::Window => "at the same time",
        }
    }
}

/// One row of a workload's metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metric {
    /// The key in samples and studies.
    pub key: &'static str,
    /// The unit, as printed.
    pub unit: &'static str,
    /// Which way is better.
    pub better: Better,
    /// How the members of an ensemble join in it.
    pub together: Aggregate,
    /// One sentence for people: formula and source.
    pub help: &'static str,
}
