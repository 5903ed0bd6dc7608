//! The detail of an application under load, as far as it is shown. What a version does not have is blank; so is a number
//! that is none, which JSON has as `null`.

use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// A phase of all applications.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Phase {
    pub(super) users: Option<UsersFound>,
    pub(super) applications: Vec<Application>,
}

impl Phase {
    /// Reads a detail; `None` of one that is of another form.
    pub(super) fn of(detail: &Value) -> Option<Phase> {
        Phase::deserialize(detail).ok()
    }
}

/// The most users of all applications together.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct UsersFound {
    pub(super) most: Option<f64>,
    pub(super) verified: bool,
    pub(super) low: Option<f64>,
    pub(super) high: Option<f64>,
    pub(super) confidence: Option<f64>,
    pub(super) basis: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Application {
    pub(super) name: String,
    pub(super) tiers: BTreeMap<String, AppTier>,
    pub(super) database: String,
    pub(super) bus: String,
    pub(super) tls: bool,
    pub(super) max_users: Option<f64>,
    pub(super) cycle_s: Option<f64>,
    pub(super) search: Option<SearchOfUsers>,
    pub(super) attempts: Vec<UserAttempt>,
    pub(super) load: Option<AppLoad>,
    pub(super) invariants: Option<DataHeld>,
    pub(super) saturated: Option<String>,
    pub(super) instances: Vec<AppInstance>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct AppTier {
    pub(super) service: String,
    pub(super) count: u64,
    pub(super) on: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct DataHeld {
    pub(super) held: bool,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct AppInstance {
    pub(super) name: String,
    pub(super) service: String,
    pub(super) on: String,
    pub(super) cpu_s: Option<f64>,
    pub(super) resident_bytes: Option<f64>,
    pub(super) emulated: bool,
}

/// Users that were kept after a search.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct UserAttempt {
    pub(super) users: Option<f64>,
    pub(super) elapsed_s: Option<f64>,
    pub(super) kept: bool,
    pub(super) broken: Vec<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct SearchOfUsers {
    pub(super) plan: SearchPlan,
    pub(super) limited_by: Vec<LimitedBy>,
    pub(super) knee: Vec<SearchedLevel>,
    pub(super) trials: Vec<SearchTrial>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct SearchPlan {
    pub(super) finest: f64,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct LimitedBy {
    pub(super) what: String,
    pub(super) share: Option<f64>,
}

/// All windows of one level.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct SearchedLevel {
    pub(super) level: f64,
    pub(super) windows: u64,
    pub(super) verdict: String,
    pub(super) achieved_per_s: Option<f64>,
    pub(super) failed_share: Option<f64>,
    pub(super) p50_ns: Option<u64>,
    pub(super) p99_ns: Option<u64>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct SearchTrial {
    pub(super) windows: Vec<SearchWindow>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct SearchWindow {
    pub(super) level: f64,
    pub(super) said: String,
}

/// A load that was kept and measured.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct AppLoad {
    pub(super) users: Option<f64>,
    pub(super) elapsed_s: Option<f64>,
    pub(super) broken: Vec<String>,
    pub(super) operations_per_s: Option<f64>,
    pub(super) operations: Vec<AppOperation>,
    pub(super) propagation: Option<Percentiles>,
    pub(super) cpus_used: BTreeMap<String, Option<f64>>,
    pub(super) waits: BTreeMap<String, Option<f64>>,
    pub(super) generator_cpus_used: Option<f64>,
    pub(super) elasticity: Option<Elasticity>,
    pub(super) sites: Vec<LoadSite>,
    pub(super) series: Vec<AppSecond>,
}

/// A second of a load.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct AppSecond {
    /// When it ended, from the begin of measuring.
    pub(super) at_s: Option<f64>,
    pub(super) failed: u64,
    pub(super) p99_ns: Option<u64>,
    /// By tier and what it waited for, such as `app.cpu_stall`, the share of the second.
    pub(super) waits: BTreeMap<String, Option<f64>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct AppOperation {
    pub(super) name: String,
    pub(super) succeeded: u64,
    pub(super) failed: u64,
    pub(super) limit_ns: Option<u64>,
    /// Latency from the intended start.
    pub(super) corrected: Option<Percentiles>,
    /// Latency from the sending, where there is no intended start.
    pub(super) raw: Option<Percentiles>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Percentiles {
    pub(super) p50_ns: Option<u64>,
    pub(super) p95_ns: Option<u64>,
    pub(super) p99_ns: Option<u64>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct LoadSite {
    pub(super) name: String,
    pub(super) succeeded: u64,
    pub(super) failed: u64,
    pub(super) generator: SiteGenerator,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct SiteGenerator {
    pub(super) send_lag: Option<Percentiles>,
}

/// Counts of servers that changed.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Elasticity {
    pub(super) adaptations: Vec<ServerChange>,
    pub(super) failed_operations: u64,
    pub(super) metrics: BTreeMap<String, SupplyFit>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct ServerChange {
    pub(super) at_s: Option<f64>,
    pub(super) tier: String,
    pub(super) from: u64,
    pub(super) to: u64,
    pub(super) took_s: Option<f64>,
}

/// How well the supply of servers followed the demand.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct SupplyFit {
    pub(super) accuracy_under: Option<f64>,
    pub(super) accuracy_over: Option<f64>,
    pub(super) timeshare_under: Option<f64>,
    pub(super) timeshare_over: Option<f64>,
    pub(super) jitter_per_min: Option<f64>,
}
