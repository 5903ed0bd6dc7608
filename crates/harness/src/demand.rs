//! The load on a topology, and its limits.

use baremark_model::maximum::Plan;
use baremark_services::card::Tier;
use std::collections::BTreeMap;

/// What load is asked.
#[derive(Clone, Debug, PartialEq)]
pub struct Demand {
    /// Users, `None` to find the most.
    pub users: Option<u64>,
    /// How users vary over the run, as shares of `users`; empty keeps them.
    pub profile: String,
    /// A user's cycle, in s.
    pub cycle_s: f64,
    /// How long a fixed load is measured, in s.
    pub duration_s: f64,
    /// How long users come before that, in s.
    pub warm_s: f64,
    /// How long they stay after it, in s.
    pub ramp_down_s: f64,
    /// Where load generators run: `native`, `container`, `ssh:HOST[:PORT]`; empty for one in this process.
    pub on: Vec<String>,
    /// Event loops of the generator, at each site.
    pub threads: usize,
    /// CPUs of the generator; empty lets it spread.
    pub cpus: Vec<usize>,
    /// How the most users are searched.
    pub search: Plan,
    /// How long the users that were found are kept to see that they keep every limit, in s.
    pub verify_s: f64,
    /// How long a search may take in all, from the start of the tiers to their end, in s.
    pub budget_s: Option<f64>,
    /// The limit on the latency of every operation, in s; `None` leaves each the one that its scenario has.
    pub latency_s: Option<f64>,
    /// The share of operations that may break their limit.
    pub beyond: f64,
    /// The limit on the propagation delay, in s.
    pub delay_s: f64,
    /// The share that may fail.
    pub failures: f64,
    /// The tolerance of the mix.
    pub mix: f64,
    /// What users do, as text of a scenario with the name of its file; `None` for the model's users.
    pub scenario: Option<(String, String)>,
    /// How much of its CPUs a tier may use.
    pub utilization: BTreeMap<Tier, Ceiling>,
}

/// A limit on the CPU time of a tier.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ceiling {
    /// The share of its CPUs.
    pub most: f64,
    /// How many it has.
    pub cpus: usize,
}
