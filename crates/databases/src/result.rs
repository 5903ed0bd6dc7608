//! From the outcome of a load to what a trial records: samples, parts of time and operations, and the detail.

use crate::database::Class;
use crate::engine::{Drive, Load, Outcome};
use crate::kind::Kind;
use crate::server::{Network, Setup};
use baremark_load::latency::Latencies;
use baremark_model::seam::Sample;
use baremark_model::wire::{Detail, Point};
use serde::Serialize;
use std::collections::BTreeMap;

/// The detail's format.
const FORMAT: &str = "baremark-databases/1";
const SECOND: u64 = 1_000_000_000;
/// The most parts of time that a phase has.
const MOST_PARTS: usize = 3600;

/// A named value.
pub(crate) fn sample(metric: impl Into<String>, value: f64) -> Sample {
    Sample { metric: metric.into(), value }
}

fn ms(ns: u64) -> f64 {
    ns as f64 / 1e6
}

/// Metrics that every workload on databases has.
pub(crate) fn samples(outcome: &Outcome) -> Vec<Sample> {
    let ended = outcome.ended().max(1) as f64;
    let retried = outcome.failed(Class::Serialization) + outcome.failed(Class::Deadlock);
    let mut all = Latencies::default();
    outcome.operations.iter().for_each(|operation| all.merge(&operation.latencies));
    let mut samples = vec![
        sample("tx_per_s", outcome.per_s()),
        sample("cpu_us_per_tx", (outcome.driver_cpu_ns + outcome.metered) as f64 / ended / 1e3),
        sample("driver_cpu_us_per_tx", outcome.driver_cpu_ns as f64 / ended / 1e3),
        sample("retries", 100.0 * retried as f64 / ended),
    ];
    if outcome.metered > 0 {
        samples.push(sample("server_cpu_us_per_tx", outcome.metered as f64 / ended / 1e3));
    }
    for (metric, p) in [("latency_p50_ms", 0.5), ("latency_p95_ms", 0.95), ("latency_p99_ms", 0.99)] {
        samples.extend(all.percentile(p).map(|ns| sample(metric, ms(ns))));
    }
    samples.extend(outcome.lag.percentile(0.99).map(|ns| sample("lag_p99_ms", ms(ns))));
    samples
}

/// Each second, then each operation and each step over the measured time; `before_ns` passed before the load was called.
pub(crate) fn points(outcome: &Outcome, names: &[&str], steps: &[&str], before_ns: u64) -> Vec<Point> {
    let begin = before_ns + outcome.begin_ns;
    let each = outcome.seconds.len().div_ceil(MOST_PARTS).max(1);
    let times = outcome.seconds.chunks(each).enumerate().map(|(at, counts)| {
        let from = (at * each) as u64 * SECOND;
        let to = (from + each as u64 * SECOND).min(outcome.elapsed_ns).max(from + 1);
        let rate = counts.iter().sum::<u64>() as f64 * SECOND as f64 / (to - from) as f64;
        point("all", (begin + from, begin + to), vec![sample("tx_per_s", rate)], None)
    });
    let operations = names.iter().zip(&outcome.operations).map(|(name, operation)| {
        let latencies = &operation.latencies;
        let mut samples =
            vec![sample("committed", operation.committed as f64), sample("rolled_back", operation.rolled_back as f64)];
        samples.extend(percentiles(latencies));
        point(name, (begin, begin + outcome.elapsed_ns), samples, histogram(latencies))
    });
    let steps = steps.iter().zip(&outcome.steps).map(|(name, latencies)| {
        let samples = [sample("ended", latencies.count() as f64)].into_iter().chain(percentiles(latencies)).collect();
        point(name, (begin, begin + outcome.elapsed_ns), samples, histogram(latencies))
    });
    times.chain(operations).chain(steps).collect()
}

fn percentiles(latencies: &Latencies) -> Vec<Sample> {
    let all = [("latency_p50_ms", 0.5), ("latency_p90_ms", 0.9), ("latency_p95_ms", 0.95), ("latency_p99_ms", 0.99)];
    all.iter().filter_map(|(metric, p)| Some(sample(*metric, ms(latencies.percentile(*p)?)))).collect()
}

fn point(name: &str, (begin_ns, end_ns): (u64, u64), samples: Vec<Sample>, histogram: Option<String>) -> Point {
    Point { name: name.to_owned(), begin_ns, end_ns, samples, histogram }
}

/// In base64, as the load engine writes histograms.
fn histogram(latencies: &Latencies) -> Option<String> {
    if latencies.count() == 0 {
        return None;
    }
    serde_json::to_value(latencies).ok()?.as_str().map(str::to_owned)
}

/// What a reader should know of a load that counts.
pub(crate) fn flags(outcome: &Outcome, load: &Load, in_memory: bool) -> Vec<String> {
    let mut flags = Vec::new();
    if outcome.unserved > 0 {
        flags.push(format!("{} open arrivals were not started: the connections were all busy", outcome.unserved));
    }
    if outcome.failed(Class::Ambiguous) > 0 {
        let count = outcome.failed(Class::Ambiguous);
        flags.push(format!("{count} transactions have an unknown outcome: the connection was lost during the commit"));
    }
    if in_memory {
        flags.push("the data is on a file system in memory: commits wait for no disk".to_owned());
    }
    if let Drive::Open { rate, .. } = load.drive
        && outcome.per_s() < 0.95 * rate
    {
        flags.push(format!("{:.0} of {rate:.0} transactions/s were reached", outcome.per_s()));
    }
    flags
}

/// Where clients and server are to each other; `None` where the database is in the clients' process.
pub(crate) fn placement(setup: &Setup, load: &Load) -> Option<String> {
    if setup.kind == Kind::Sqlite && setup.front.is_none() {
        return None;
    }
    if setup.external.is_some() {
        let what = "the server is an external one, whose settings, CPU time and place are not known here";
        return Some(what.to_owned());
    }
    let network = match setup.network {
        Network::Loopback => "loopback",
        Network::Lab => "a veth pair between two network namespaces",
    };
    let shared = setup.cpus.is_empty() || load.cpus.is_empty() || setup.cpus.iter().any(|cpu| load.cpus.contains(cpu));
    let cpus = if shared { "share CPUs" } else { "have CPUs of their own" };
    Some(format!("clients and server are on one machine, {cpus} and talk over {network}"))
}

/// What only these workloads report.
#[derive(Serialize)]
struct Document<'d> {
    database: &'d str,
    version: &'d str,
    setup: String,
    data_bytes: u64,
    checks: Vec<String>,
    failures: BTreeMap<&'static str, u64>,
    reconnects: u64,
    unserved: u64,
}

/// The detail of a run: what ran, what was checked, failures by class.
pub(crate) fn detail(outcome: &Outcome, setup: &Setup, version: &str, data_bytes: u64, checks: Vec<String>) -> Detail {
    let document = Document {
        database: setup.kind.word(),
        version,
        setup: format!("{setup:?}"),
        data_bytes,
        checks,
        failures: outcome.failures.iter().map(|(class, count)| (class.label(), *count)).collect(),
        reconnects: outcome.reconnects,
        unserved: outcome.unserved,
    };
    Detail { format: FORMAT.to_owned(), document: serde_json::to_value(document).unwrap_or_default() }
}
