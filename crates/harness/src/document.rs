//! What a phase of the auction shows alongside its metrics, as programs read it: the detail of its series.
//!
//! One JSON object, format [`FORMAT`]; keys are only ever added within a version, carry their units, and are `null` where
//! nothing is known.

use crate::elastic::{Adaptation, ElasticityMetrics};
use crate::mix::Mix;
use baremark_load::document::{Generator, OperationRow};
use baremark_load::latency::Summary;
use baremark_model::maximum;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The name and version of the format.
pub const FORMAT: &str = "baremark-auction/2";

/// What a phase of the auction shows alongside its metrics.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Document {
    /// What a reader should know alongside the numbers.
    pub remarks: Vec<String>,
    /// The most users of all applications together, with the sum of the intervals' ends; absent for a fixed load, and where no
    /// level was verified.
    pub users: Option<Users>,
    /// One for each application.
    pub applications: Vec<ApplicationRow>,
    /// How long the phase took, in s.
    pub elapsed_s: f64,
    /// The time budget of a search, in s; absent without one.
    #[serde(default)]
    pub budget_s: Option<f64>,
}

impl ApplicationRow {
    /// Whether users were searched and every level that was verified exceeded a limit: the lowest level of the search, or all
    /// levels that were kept for a while.
    #[must_use]
    pub fn no_level_verified(&self) -> bool {
        let Some(search) = &self.search else { return false };
        let refuted = !self.attempts.is_empty() && self.attempts.iter().all(|attempt| !attempt.kept);
        search.ended == maximum::Ended::FailsAll || refuted
    }
}

/// A number of users with its interval.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Users {
    /// The most: where it is verified, the most that were seen to keep every limit; else where a search puts the maximum, for want
    /// of time to verify it.
    pub most: f64,
    /// Whether so many users were kept for a while, all together, and kept every limit.
    #[serde(default)]
    pub verified: bool,
    /// Lower end of the interval.
    pub low: Option<f64>,
    /// Upper end.
    pub high: Option<f64>,
    /// Confidence.
    pub confidence: f64,
    /// What the interval knows of: `fresh-trials`, `within-run`, or `bracket`, which is no confidence interval.
    pub basis: String,
}

/// One application.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ApplicationRow {
    /// Its name.
    pub name: String,
    /// As it was configured: tier, and for each what serves it, how many, where, with which settings.
    pub tiers: BTreeMap<String, TierRow>,
    /// What keeps the data, and whether confirmed transactions survive a crash, in the database's own words.
    pub database: String,
    /// How app servers tell each other.
    pub bus: String,
    /// Whether users came by TLS.
    #[serde(default)]
    pub tls: bool,
    /// Users for which data was loaded.
    pub max_users: u64,
    /// A user's cycle.
    pub cycle_s: f64,
    /// The search for the most users.
    pub search: Option<maximum::Document>,
    /// Loads that were kept after a search to see whether every limit is kept, in order.
    #[serde(default)]
    pub attempts: Vec<Attempt>,
    /// A load that was kept and measured; after a search that of the last attempt.
    pub load: Option<LoadRow>,
    /// Whether no bid was lost, nothing sold twice, and the money adds up; absent when it could not be looked at.
    pub invariants: Option<Invariants>,
    /// Which tier and resource was used up where limits were exceeded, with the evidence.
    #[serde(default)]
    pub saturated: Option<String>,
    /// What each instance told and used.
    pub instances: Vec<InstanceRow>,
}

/// Users that were kept after a search.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Attempt {
    /// How many.
    pub users: f64,
    /// How long.
    pub elapsed_s: f64,
    /// Whether every limit was kept.
    pub kept: bool,
    /// Those that were broken.
    pub broken: Vec<String>,
}

/// A tier as configured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TierRow {
    /// The service.
    pub service: String,
    /// Instances at the start.
    pub count: u64,
    /// Where.
    pub on: String,
    /// Settings as typed.
    pub settings: BTreeMap<String, String>,
    /// Lines passed through.
    pub extra: Vec<String>,
    /// CPUs that each may use; empty: all.
    pub cpus: Vec<usize>,
    /// The most memory of each.
    pub memory_bytes: Option<u64>,
}

impl TierRow {
    /// Whether its instances share the CPUs of this machine.
    #[must_use]
    pub fn is_here(&self) -> bool {
        self.on == "native" || self.on == "container"
    }

    /// CPUs that the tier has for itself: on this machine its instances share those that are named, elsewhere each has its own.
    #[must_use]
    pub fn own_cpus(&self) -> usize {
        let times = if self.is_here() { 1 } else { usize::try_from(self.count).unwrap_or(1) };
        self.cpus.len() * times
    }
}

/// A load that was kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoadRow {
    /// Users at most.
    pub users: f64,
    /// How long.
    pub elapsed_s: f64,
    /// Whether all limits were kept.
    pub kept: bool,
    /// Limits that were broken, as typed.
    pub broken: Vec<String>,
    /// Operations that ended well, per second.
    pub operations_per_s: f64,
    /// One for each operation.
    pub operations: Vec<OperationRow>,
    /// Operations that failed, by kind.
    pub failures: BTreeMap<String, u64>,
    /// The first failures in words.
    pub failure_examples: Vec<String>,
    /// From the sending of a bid until each attendee saw it, by the generator's own clock.
    pub propagation: Option<Summary>,
    /// Share of pushed bids that were seen within the limit.
    pub propagation_within_limit_share: Option<f64>,
    /// Whether users did what they were meant to.
    pub mix: Mix,
    /// Processor time over time, by tier; 1 is one CPU.
    pub cpus_used: BTreeMap<String, f64>,
    /// What threads waited for, by tier: `TIER.waiting` how many waited for a CPU on average, `TIER.disk` bytes per second of disks,
    /// `TIER.cpu_stall`, `TIER.memory_stall` and `TIER.io_stall` the share of the time in which some stalled (PSI).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub waits: BTreeMap<String, f64>,
    /// The generator's processor time over time, in the window.
    pub generator_cpus_used: f64,
    /// The generator on itself.
    pub generator: Generator,
    /// Processor time of the app tier for checking passwords over time, a part of `app.cpus` in [`LoadRow::cpus_used`]; absent where a
    /// server did not tell it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password_cpus_used: Option<f64>,
    /// Operations that ended well for each second of processor time of the app tier, that for checking passwords apart: absent where
    /// that is not known.
    pub operations_per_app_cpu_second: Option<f64>,
    /// Counts of servers that changed meanwhile.
    pub elasticity: Option<ElasticityRow>,
    /// One for each second.
    pub series: Vec<SecondRow>,
    /// What each site of load generators contributed; empty where the load was made by the agent itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sites: Vec<SiteRow>,
}

impl LoadRow {
    /// CPUs of this machine that load generators used in the window.
    #[must_use]
    pub fn generator_cpus_used_here(&self) -> f64 {
        if self.sites.is_empty() {
            return self.generator_cpus_used;
        }
        self.sites.iter().filter(|site| site.here).map(|site| site.cpus_used).sum()
    }
}

/// A site of load generators in a window.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SiteRow {
    /// Its place among them and where it is, such as `2 (container)`.
    pub name: String,
    /// Whether it uses the CPUs of this machine; documents of earlier versions do not say so.
    #[serde(default)]
    pub here: bool,
    /// Operations of its users that succeeded.
    pub succeeded: u64,
    /// Those that failed.
    pub failed: u64,
    /// Those that failed, by kind.
    pub failures: BTreeMap<String, u64>,
    /// CPUs that its load generator used.
    pub cpus_used: f64,
    /// The generator on itself: how late it sent, and whether it kept up.
    pub generator: Generator,
    /// By how much its clock may have been off when windows and changes of the number of users began, in ns.
    pub clock_error_ns: u64,
}

/// Counts of servers that changed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ElasticityRow {
    /// Each change.
    pub adaptations: Vec<Adaptation>,
    /// Operations that failed in the whole of it.
    pub failed_operations: u64,
    /// By tier, how well supply followed demand; absent without the capacity of a server.
    pub metrics: BTreeMap<String, ElasticityMetrics>,
}

/// A second of the load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SecondRow {
    /// From the begin of measuring.
    pub at_s: f64,
    /// Users.
    pub users: f64,
    /// App servers.
    pub apps: u64,
    /// Web servers.
    pub webs: u64,
    /// Requests answered.
    pub answered: u64,
    /// Operations that failed.
    pub failed: u64,
    /// The 99th percentile of all latencies, below its sample floor the largest.
    pub p99_ns: Option<u64>,
    /// Processor time by tier; 1 is one CPU.
    pub cpus_used: BTreeMap<String, f64>,
    /// As in [`LoadRow::waits`].
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub waits: BTreeMap<String, f64>,
}

/// What the check said.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Invariants {
    /// Whether all held.
    pub held: bool,
    /// The check's own words.
    pub report: serde_json::Value,
}

/// One instance.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct InstanceRow {
    /// Its name.
    pub name: String,
    /// Its service.
    pub service: String,
    /// Processor time in all.
    pub cpu_s: f64,
    /// Memory at the end.
    pub resident_bytes: u64,
    /// Processes at the end.
    pub processes: usize,
    /// What holds its memory: `none`, `control group`, `address space`, `guest`.
    pub memory_limit: String,
    /// Where it ran.
    #[serde(default)]
    pub on: String,
    /// Whether its processor was emulated there, so that its figures measure nothing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub emulated: bool,
    /// Numbers by its own names.
    pub statistics: BTreeMap<String, f64>,
    /// Why there are none.
    pub silent: Option<String>,
    /// The last lines of its log.
    pub log: Vec<String>,
}
