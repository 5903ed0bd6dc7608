//! The users of the auction: a scenario for the load engine, and what they must be given.

use crate::demand::Demand;
use baremark_load::load::{Drive, Pin, Pool, Protocol, Stop};
use baremark_load::order::Order;
use baremark_load::profile::Profile;
use baremark_load::scenario::{Scenario, file};
use baremark_load::transport::Trust;
use baremark_model::config::{Reader, Section};
use baremark_model::problem::Problems;
use baremark_model::qos::{Bound, Limit, Qos};
use baremark_model::units::Nanos;
use std::path::Path;

const USERS: &str = include_str!("users.toml");

/// Operations that run alongside the user, for each auction that is attended.
pub const BESIDE: [&str; 2] = ["current-item", "next-bid"];
/// The operation that bids.
pub const BID: &str = "place-bid";
/// The operation whose answers show pushed bids.
pub const PUSHED: &str = "next-bid";
/// The longest limit of an operation that a user waits for.
const LONGEST_LIMIT: Nanos = Nanos(5_000_000_000);

/// The scenario for an application that listens at `front`, such as `http://127.0.0.1:8080`: the model's, or that of a file, by its
/// name and text.
///
/// # Errors
/// Every mistake in the file.
pub fn scenario(front: &str, password: &str, own: Option<&(String, String)>) -> Result<Scenario, Problems> {
    let (name, text) = text(password, own);
    let folder = Path::new(&name).parent().unwrap_or(Path::new("."));
    file::parse(&name, text.as_bytes(), Some(front), folder)
}

/// The name and text of the model's scenario, or of a file's, with the password of all accounts.
fn text(password: &str, own: Option<&(String, String)>) -> (String, String) {
    let (name, text) = own.map_or(("users.toml", USERS), |(name, text)| (name, text));
    (name.to_owned(), text.replace("PASSWORD", password))
}

/// A load of at most `highest` users of an application that listens at `front`, made here or at sites.
///
/// # Errors
/// As [`scenario`].
pub fn order(front: &str, password: &str, demand: &Demand, highest: u64, seed: u64) -> Result<Order, Problems> {
    let own = demand.scenario.as_ref();
    let has_cycle = scenario(front, password, own)?.cycle().is_some();
    let text = text(password, own);
    Ok(Order {
        url: Some(front.to_owned()),
        folder: Path::new(&text.0).parent().map(Path::to_owned).unwrap_or_default(),
        scenario: Some(text),
        headers: Vec::new(),
        cycle_ns: has_cycle.then(|| Nanos(nanos(demand.cycle_s))),
        drive: Drive::Users { profile: Profile::steady(highest as f64) },
        points: None,
        stop: Stop::Count(u64::MAX),
        threads: demand.threads,
        // A connection for the user and one for each auction that is followed, and some that are being replaced.
        connections: usize::try_from(highest).unwrap_or(usize::MAX / 8).saturating_mul(4).max(64),
        pool: Pool::Own,
        protocol: Protocol::Http1,
        timeout_ns: Nanos(15_000_000_000),
        grace_ns: Some(Nanos(6_000_000_000)),
        seed,
        trust: Trust::System,
        addresses: Vec::new(),
        sources: Vec::new(),
        pin: if demand.cpus.is_empty() { Pin::Spread } else { Pin::On(demand.cpus.clone()) },
        site: (0, 1),
    })
}

/// What must be kept, in the windows of a search as in a load that is kept: each operation its own limit or the one for all, that on the
/// propagation delay, and that on failures.
#[must_use]
pub fn qos(scenario: &Scenario, demand: &Demand) -> Qos {
    let mut limits: Vec<Limit> =
        scenario.limits().into_iter().filter(|limit| matches!(limit.bound, Bound::Latency { .. })).collect();
    for limit in &mut limits {
        if let Bound::Latency { beyond, within } = &mut limit.bound {
            *beyond = demand.beyond;
            *within = demand.latency_s.map_or(*within, |seconds| Nanos(nanos(seconds)));
        }
    }
    if scenario.operation_names().iter().any(|name| name == PUSHED) {
        limits.push(Limit {
            operation: Some(PUSHED.to_owned()),
            bound: Bound::Delay { beyond: demand.beyond, within: Nanos(nanos(demand.delay_s)) },
        });
    }
    limits.extend(demand.utilization.iter().map(|(tier, ceiling)| Limit {
        operation: None,
        bound: Bound::Utilization { resource: Some(tier.label().to_owned()), most: ceiling.most },
    }));
    limits.push(Limit { operation: None, bound: Bound::Failures { most: demand.failures } });
    Qos { limits, mix: std::collections::BTreeMap::new() }
}

/// The limit on the latency of every operation, where there is one for all.
pub(crate) fn latency_limit(reader: &mut Reader, limits: &Section<'_>) -> Option<f64> {
    let seconds = reader.seconds(limits, "latency");
    let longest = LONGEST_LIMIT;
    if seconds > longest.seconds() {
        let what = format!("a limit of {seconds} s is longer than users wait for an answer");
        reader.wrong(limits, "latency", what, format!("write at most \"{longest}\""));
    }
    Some(seconds).filter(|seconds| *seconds > 0.0)
}

/// How long what began in a window is waited for.
#[must_use]
pub fn patience() -> Nanos {
    Nanos(LONGEST_LIMIT.0 / 10 * 11)
}

/// Seconds as nanoseconds.
#[must_use]
pub fn nanos(seconds: f64) -> u64 {
    u64::try_from(std::time::Duration::from_secs_f64(seconds.clamp(0.0, 1e9)).as_nanos()).unwrap_or(u64::MAX)
}

/// Open files alongside the connections of users.
const SPARE_FILES: u64 = 512;

/// Raises the limit on open files as far as it goes for so many users; returns how many can have their connections.
#[must_use]
pub fn most_with_connections(users: u64) -> u64 {
    let allowed = baremark_load::raise_descriptor_limit(users.saturating_mul(4) + SPARE_FILES).unwrap_or(1024);
    users.min(allowed.saturating_sub(SPARE_FILES) / 4).max(1)
}
