//! The result of a search for the largest load that keeps its limits: the maximum with its interval, what limited it, and
//! the knee curve.
//!
//! One JSON object, format [`FORMAT`]; keys are only ever added within a version. What is not known is `null`, never 0.

use crate::qos::{Limit, Qos, Reading};
use serde::{Deserialize, Serialize};

/// The name and version of the format.
pub const FORMAT: &str = "baremark-maximum/1";

/// The result of a search.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Document {
    /// [`FORMAT`].
    pub format: String,
    /// What was loaded.
    pub title: String,
    /// What was varied, in words: `operations/s`, `users`.
    pub factor: String,
    /// What had to be kept.
    pub qos: Qos,
    /// How it was searched.
    pub plan: Plan,
    /// How it ended.
    pub ended: Ended,
    /// The largest level that keeps every limit; `None` where none was found.
    pub maximum: Option<Maximum>,
    /// The largest level at which every limit was shown to be kept: one-sided, at the plan's error rate.
    pub shown_level: Option<f64>,
    /// What broke at levels above, the most frequent first.
    pub limited_by: Vec<Limiting>,
    /// Whether the generator was among the reasons: the maximum is then at least what is given.
    pub generator_was_the_limit: bool,
    /// The logarithm of the maximum reached from above over that from below; below 0 the system remembers its overload.
    pub hysteresis: Option<f64>,
    /// One row for each level that was measured, ascending.
    pub knee: Vec<KneeRow>,
    /// What was measured at [`Document::maximum`] itself, after all trials; absent where nothing was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_answer: Option<KneeRow>,
    /// The searches from a fresh start.
    pub trials: Vec<Trial>,
}

/// How it is searched.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// Below this nothing is tried.
    pub lowest: f64,
    /// Where the search begins; at the lowest level when it lies below that.
    #[serde(default)]
    pub first: f64,
    /// Beyond this nothing is tried.
    pub highest: f64,
    /// The step at which a trial ends, as a share of the level.
    pub finest: f64,
    /// One window, in seconds; the unit of the analysis.
    pub window_s: f64,
    /// Waited after each change of the level, in seconds.
    pub settle_s: f64,
    /// Visits at the finest step in each trial.
    pub visits: usize,
    /// Windows that one visit may take until it has enough samples.
    pub windows_per_visit: usize,
    /// Searches from a fresh start.
    pub trials: usize,
    /// Confidence of intervals.
    pub confidence: f64,
    /// What must have enough samples before a visit passes.
    #[serde(default)]
    pub samples: Samples,
    /// Visits somewhat below the maximum of a trial, which show that the limits are kept there. Where there are some, the answer of all trials has one, too.
    #[serde(default = "three")]
    pub confirming: usize,
}

/// What must have enough samples before a visit passes. Every limit is judged in either case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Samples {
    /// Each limit on its own.
    #[default]
    Each,
    /// Some limit: one with fewer samples fails a visit where it is broken, and does not hold it up where it is not.
    Some,
}

fn three() -> usize {
    3
}

impl Plan {
    /// The defaults: windows of 10 s after 2 s of settling, a finest step of 2.5 %, 12 visits there, 3 trials, 95 %.
    #[must_use]
    pub fn between(lowest: f64, highest: f64) -> Plan {
        Plan {
            lowest,
            first: lowest,
            highest,
            finest: 0.025,
            window_s: 10.0,
            settle_s: 2.0,
            visits: 12,
            windows_per_visit: 6,
            trials: 3,
            confidence: 0.95,
            samples: Samples::Each,
            confirming: three(),
        }
    }
}

/// What of a search for the highest load its study does not hold, stored with the run's plan, so that the search can be resumed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SearchRequest {
    /// How it is searched.
    pub plan: Plan,
    /// The limits as typed; none where those of the scenario are meant.
    pub limits: Vec<Limit>,
    /// The seed of the load.
    pub seed: u64,
    /// The CPUs of the generator; none where it may use all.
    pub cpus: Vec<usize>,
    /// Whether the study has everything of the command line: neither headers nor a query were left out.
    pub complete: bool,
    /// The digest of what is in the scenario's file.
    #[serde(default)]
    pub scenario: Option<String>,
    /// The level about which the search begins, by the first load.
    #[serde(default)]
    pub around: Option<f64>,
    /// Whether windows count in which other programs used the CPUs.
    #[serde(default)]
    pub count_disturbed: bool,
}

/// How a search ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ended {
    /// The maximum was found.
    Found,
    /// Even the highest level keeps the limits.
    PassesAll,
    /// Even the lowest level breaks a limit.
    FailsAll,
    /// The windows hold too few samples for the limits.
    Insufficient,
    /// The user ended it: this is what was known until then.
    Interrupted,
    /// Its time was over: this is what was known until then.
    TimeOver,
    /// What was loaded could not be loaded any more: this is what was known until then.
    Broken,
}

/// The maximum.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Maximum {
    /// The level.
    pub level: f64,
    /// Lower end of its interval.
    pub low: Option<f64>,
    /// Upper end.
    pub high: Option<f64>,
    /// Confidence of that interval.
    pub confidence: f64,
    /// What the interval knows of.
    pub basis: Basis,
    /// The level by isotonic regression instead of a logistic curve: far off, and the curve does not fit.
    pub isotonic_level: Option<f64>,
}

/// What an interval knows of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Basis {
    /// At least three searches from a fresh start.
    FreshTrials,
    /// The windows of one search alone: what differs between starts is not in it.
    WithinRun,
    /// No curve and no confidence: from the highest level that was kept, below the lowest that was not, to that.
    Bracket,
}

/// A reason why higher levels failed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Limiting {
    /// The limit as typed, `mix`, or the generator's own reason.
    pub what: String,
    /// The share of failed visits in which it was broken.
    pub share: f64,
}

/// One level of the knee curve; every figure is of all its windows together: rates and shares over their whole time,
/// percentiles from their merged histogram.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KneeRow {
    /// The level requested.
    pub level: f64,
    /// Windows measured at it.
    pub windows: usize,
    /// What all of them together say, one-sided with Holm's correction: `pass`, `fail`, `undecided`, `insufficient`.
    pub verdict: String,
    /// Operations per second that ended well, loops alongside users apart.
    pub achieved_per_s: f64,
    /// Share of operations that failed or never ended.
    pub failed_share: f64,
    /// Median latency from the intended start.
    pub p50_ns: Option<u64>,
    /// Its 95th percentile.
    pub p95_ns: Option<u64>,
    /// Its 99th percentile.
    pub p99_ns: Option<u64>,
    /// Shares of resources used, by name.
    pub utilization: std::collections::BTreeMap<String, f64>,
    /// Processor share of the generator's busiest thread.
    pub generator_cpu_share: Option<f64>,
}

/// One search from a fresh start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// How it ended.
    pub ended: Ended,
    /// Its maximum, with an interval within the run.
    pub maximum: Option<Maximum>,
    /// The limit that gave it, as typed.
    pub limiting: Option<String>,
    /// [`Document::hysteresis`] of this trial.
    pub hysteresis: Option<f64>,
    /// Every window, in order.
    pub windows: Vec<Window>,
}

/// What one visit said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Said {
    /// Every limit was kept.
    Pass,
    /// Some limit was broken.
    Fail,
    /// Too few samples, and never a pass.
    Insufficient,
}

/// One window.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Window {
    /// The level requested.
    pub level: f64,
    /// Whether it was reached from a higher one.
    pub from_above: bool,
    /// Whether it belongs to those at the finest step, to which the curve is fitted.
    pub fitted: bool,
    /// What the visit to which it belongs said.
    pub said: Said,
    /// What it showed.
    pub reading: Reading,
}
