//! Counts in details add up: what became of operations, and how many latencies they have.

use super::violation::{Found, ROUNDING};
use serde::Deserialize;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

const ADDS_UP: &str = "parts add up to the whole";

/// A distribution of latencies.
#[derive(Deserialize)]
struct Samples {
    samples: u64,
}

fn count(latencies: Option<&Samples>) -> u64 {
    latencies.map_or(0, |latencies| latencies.samples)
}

/// An operation, or all of a site, of a load.
#[derive(Deserialize)]
struct FailuresByKind {
    failed: u64,
    failures: BTreeMap<String, u64>,
}

/// An operation of a load. `raw` has the latencies of those that succeeded.
#[derive(Deserialize)]
struct OperationCounts {
    succeeded: u64,
    failed: u64,
    mix_share: Option<f64>,
    raw: Option<Samples>,
}

/// All operations of a load, and their failures by kind.
#[derive(Deserialize)]
struct Operations {
    operations: Vec<OperationCounts>,
    failures: BTreeMap<String, u64>,
}

/// An operation on a database.
#[derive(Deserialize)]
struct Transactions {
    committed: u64,
    rolled_back: u64,
    latency: Option<Samples>,
}

/// Commands to a key-value server, by name; those that failed are in neither.
#[derive(Deserialize)]
struct Reads {
    hits: u64,
    misses: u64,
    commands: Vec<KeyCommand>,
}

#[derive(Deserialize)]
struct KeyCommand {
    name: String,
    latency: Option<Samples>,
}

/// Everything of an object that says what it is.
pub(super) fn of(place: &str, object: &Map<String, Value>, detail: &Value, found: &mut Found) {
    let has = |key: &str| object.contains_key(key);
    let mut equal = |part: &str, whole: u64, parts: u64| {
        found.unless(
            whole == parts,
            || format!("{place}: {part}"),
            || format!("{whole}, and {parts} in parts"),
            ADDS_UP,
        );
    };
    if let Ok(one) = FailuresByKind::deserialize(detail) {
        equal("failed", one.failed, one.failures.values().sum());
    }
    if let (true, Ok(one)) = (has("raw"), OperationCounts::deserialize(detail)) {
        equal("succeeded", one.succeeded, count(one.raw.as_ref()));
    }
    if let (true, Ok(one)) = (has("latency"), Transactions::deserialize(detail)) {
        equal("latency", count(one.latency.as_ref()), one.committed + one.rolled_back);
    }
    if let Ok(one) = Reads::deserialize(detail) {
        let get = one.commands.iter().find(|command| command.name == "GET");
        equal("GET", count(get.and_then(|get| get.latency.as_ref())), one.hits + one.misses);
    }
    let Ok(all) = Operations::deserialize(detail) else { return };
    equal("failures", all.failures.values().sum(), all.operations.iter().map(|one| one.failed).sum());
    let shares: Vec<f64> = all.operations.iter().filter_map(|one| one.mix_share).collect();
    let sum: f64 = shares.iter().sum();
    let holds = shares.is_empty() || (sum - 1.0).abs() <= ROUNDING;
    found.unless(holds, || format!("{place}: mix_share"), || format!("{sum} in all"), ADDS_UP);
}
