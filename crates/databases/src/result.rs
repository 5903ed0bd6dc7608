//! From the outcome of a load to what a trial records: samples, parts of time and operations, and the detail.

use crate::database::Class;
use crate::engine::{Drive, Load, Outcome};
use crate::kind::Kind;
use crate::server::{Network, Setup};
use baremark_load::latency::{Latencies, Summary};
use baremark_load::parts::stretches;
use baremark_load::reached::missed;
use baremark_model::seam::Sample;
use baremark_model::wire::{Detail, Point};
use serde::Serialize;
use std::collections::BTreeMap;

/// The detail's format.
const FORMAT: &str = "baremark-databases/1";
/// Percentiles of an operation's latencies.
const PERCENTILES: [(&str, f64); 4] =
    [("latency_p50_ms", 0.5), ("latency_p90_ms", 0.9), ("latency_p95_ms", 0.95), ("latency_p99_ms", 0.99)];

/// Metrics that every workload on databases has.
pub(crate) fn samples(outcome: &Outcome) -> Vec<Sample> {
    let ended = outcome.ended_in_time.max(1) as f64;
    let mut all = Latencies::default();
    outcome.operations.iter().for_each(|operation| all.merge(&operation.latencies));
    let mut samples = vec![
        Sample::new("tx_per_s", outcome.per_s()),
        Sample::new("cpu_us_per_tx", (outcome.driver_cpu_ns + outcome.metered) as f64 / ended / 1e3),
        Sample::new("driver_cpu_us_per_tx", outcome.driver_cpu_ns as f64 / ended / 1e3),
        Sample::new("retries", 100.0 * outcome.retried_in_time as f64 / ended),
    ];
    if outcome.metered > 0 {
        samples.push(Sample::new("server_cpu_us_per_tx", outcome.metered as f64 / ended / 1e3));
    }
    samples.extend(all.percentiles_ms(&[("latency_p50_ms", 0.5), ("latency_p95_ms", 0.95), ("latency_p99_ms", 0.99)]));
    samples.extend(outcome.lag.percentiles_ms(&[("lag_p99_ms", 0.99)]));
    samples
}

/// Each second, then each operation and each step over the measured time; `before_ns` passed before the load was called.
pub(crate) fn points(outcome: &Outcome, names: &[&str], steps: &[&str], before_ns: u64) -> Vec<Point> {
    let begin = before_ns + outcome.begin_ns;
    let whole = (begin, begin + outcome.elapsed_ns);
    let times = stretches(&outcome.seconds, (begin, outcome.elapsed_ns), |counts, length_s| {
        let rate = counts.iter().sum::<u64>() as f64 / length_s.max(1e-9);
        Some((vec![Sample::new("tx_per_s", rate)], None))
    });
    let operations = names.iter().zip(&outcome.operations).map(|(name, operation)| {
        let latencies = &operation.latencies;
        let mut samples = vec![
            Sample::new("committed", operation.committed as f64),
            Sample::new("rolled_back", operation.rolled_back as f64),
        ];
        samples.extend(latencies.percentiles_ms(&PERCENTILES));
        Point::new(name, whole, samples, latencies.encoded()).of(&["latency_ms", &distribution(name)])
    });
    let steps = steps.iter().zip(&outcome.steps).map(|(name, latencies)| {
        let mut samples = vec![Sample::new("ended", latencies.count() as f64)];
        samples.extend(latencies.percentiles_ms(&PERCENTILES));
        Point::new(name, whole, samples, latencies.encoded()).of(&[&distribution(name)])
    });
    let lag = outcome.lag.encoded();
    let lag = lag.map(|histogram| Point::new("lag", whole, Vec::new(), Some(histogram)).of(&["lag_ms"]));
    times.into_iter().chain(operations).chain(steps).chain(lag).collect()
}

/// The distribution of an operation's or a step's latencies, as the keys of its percentiles name it: `new_order_ms`.
fn distribution(name: &str) -> String {
    format!("{}_ms", name.replace(['-', ' '], "_"))
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
    if let Drive::Open { rate, poisson } = load.drive {
        flags.extend(missed("transactions", (rate, poisson), outcome.ended_in_time, outcome.elapsed_ns));
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
    operations: Vec<OperationRow<'d>>,
    cpu: Cpu,
}

/// One operation of the measured time.
#[derive(Serialize)]
struct OperationRow<'d> {
    name: &'d str,
    committed: u64,
    rolled_back: u64,
    /// From the intended start where arrivals are open; `null` where none ended.
    latency: Option<Summary>,
}

/// CPUs in use on average over the measured time.
#[derive(Serialize)]
struct Cpu {
    driver: f64,
    /// `null` where the server's are not known, or are the driver's.
    server: Option<f64>,
}

/// The detail of a run: what ran, what was checked, failures by class, latency by operation, of which `names` has the names.
pub(crate) fn detail(
    outcome: &Outcome,
    names: &[&str],
    setup: &Setup,
    version: &str,
    data_bytes: u64,
    checks: Vec<String>,
) -> Detail {
    let cpus = |ns: u64| ns as f64 / outcome.elapsed_ns.max(1) as f64;
    let operations = names.iter().zip(&outcome.operations).map(|(name, operation)| OperationRow {
        name,
        committed: operation.committed,
        rolled_back: operation.rolled_back,
        latency: operation.latencies.summary(),
    });
    let document = Document {
        database: setup.kind.word(),
        version,
        setup: format!("{setup:?}"),
        data_bytes,
        checks,
        failures: outcome.failures.iter().map(|(class, count)| (class.label(), *count)).collect(),
        reconnects: outcome.reconnects,
        unserved: outcome.unserved,
        operations: operations.collect(),
        cpu: Cpu { driver: cpus(outcome.driver_cpu_ns), server: (outcome.metered > 0).then(|| cpus(outcome.metered)) },
    };
    Detail { format: FORMAT.to_owned(), document: serde_json::to_value(document).unwrap_or_default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn open(rate: f64, poisson: bool) -> Load {
        let drive = Drive::Open { rate, poisson };
        let (warm_up, duration, ramp_down) = (Duration::ZERO, Duration::from_secs(1), Duration::ZERO);
        Load { drive, warm_up, duration, ramp_down, seed: 1, cpus: Vec::new() }
    }

    fn outcome(ended_in_time: u64) -> Outcome {
        Outcome { ended_in_time, elapsed_ns: 1_000_000_000, ..Outcome::default() }
    }

    /// 80 of 100 random arrivals are two standard deviations below their mean, and 60 are four.
    #[test]
    fn random_arrivals_that_are_few_by_chance_are_no_reason_for_a_flag() {
        let flagged = |ended: u64, poisson: bool| !flags(&outcome(ended), &open(100.0, poisson), false).is_empty();
        assert_eq!(
            [flagged(80, true), flagged(80, false), flagged(60, true), flagged(96, false)],
            [false, true, true, false]
        );
    }

    /// Conflicts of a warm-up were divided by the transactions of the measured time.
    #[test]
    fn retries_and_cpu_time_are_of_the_measured_time() {
        let mut outcome = Outcome { retried_in_time: 2, driver_cpu_ns: 100_000, ..outcome(100) };
        outcome.failures.insert(Class::Deadlock, 300);
        // Arrivals of the measured time that ended after it have latencies, and no part in rates.
        outcome.operations = vec![crate::engine::Operation { committed: 150, ..Default::default() }];
        let samples = samples(&outcome);
        let of = |metric: &str| samples.iter().find(|sample| sample.metric == metric).map(|sample| sample.value);
        assert_eq!(["tx_per_s", "retries", "driver_cpu_us_per_tx"].map(of), [100.0, 2.0, 1.0].map(Some));
    }
}
