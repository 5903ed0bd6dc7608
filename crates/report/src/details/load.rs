//! What the workload `load` reports: what was requested and done, whether the generator kept up, failures, limits, and latency by operation.

use super::says::{Says, Summary, number, seconds, text, time};
use crate::grid::Cell;
use crate::number::{count, percent};
use crate::text::clean;
use baremark_model::units::Nanos;
use serde::Deserialize;
use std::collections::BTreeMap;

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Detail {
    asked: Requested,
    elapsed_s: f64,
    achieved: Achieved,
    operations: Vec<LoadOperation>,
    failures: BTreeMap<String, u64>,
    generator: Generator,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Requested {
    drive: String,
    operations_per_s: Option<f64>,
    connections: u64,
    threads: u64,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Achieved {
    requests_per_s: f64,
    operations_per_s: f64,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct LoadOperation {
    name: String,
    succeeded: u64,
    failed: u64,
    limit_ns: Option<u64>,
    corrected: Option<Summary>,
    raw: Option<Summary>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Generator {
    reasons: Vec<String>,
    send_lag: Option<Summary>,
    busiest_cpu_share: f64,
}

impl Detail {
    fn setting(&self) -> String {
        let asked = match (self.asked.drive.as_str(), self.asked.operations_per_s) {
            ("closed", _) => format!("closed loop of {}", count(self.asked.connections, "connection")),
            (drive, Some(rate)) => format!(
                "{drive} loop, {} operations/s requested, at most {} connections",
                number(rate.round()),
                self.asked.connections
            ),
            (drive, None) => format!("{drive}, at most {} connections", self.asked.connections),
        };
        format!(
            "{asked}, {}; {} operations/s and {} requests/s done in {}",
            count(self.asked.threads, "thread"),
            number(self.achieved.operations_per_s.round()),
            number(self.achieved.requests_per_s.round()),
            seconds(self.elapsed_s)
        )
    }

    fn generator(&self) -> String {
        let lag = self.generator.send_lag.as_ref().and_then(|lag| lag.p99_ns);
        let lag = lag.map(|ns| format!(", send lag p99 {:.2}", Nanos(ns))).unwrap_or_default();
        let reasons = match self.generator.reasons.is_empty() {
            true => ": not the limit".to_owned(),
            false => format!(": {}", self.generator.reasons.join("; ")),
        };
        format!(
            "generator: {} of one CPU in its busiest thread{lag}{reasons}",
            percent(self.generator.busiest_cpu_share)
        )
    }

    fn failed(&self) -> String {
        let each: Vec<String> = self.failures.iter().map(|(kind, many)| format!("{many} {}", clean(kind))).collect();
        if each.is_empty() { "no failure".to_owned() } else { format!("failed: {}", each.join(", ")) }
    }
}

impl Says for Detail {
    const CAPTION: &'static str = "Latency by operation, from the intended start where there is one";
    const COLUMNS: &'static [&'static str] = &["done", "failed", "limit"];

    fn facts(&self) -> Vec<String> {
        vec![self.setting(), self.generator(), self.failed()]
    }

    fn rows(&self) -> Vec<(String, Vec<Cell>)> {
        let of = |operation: &LoadOperation| {
            let counts = [operation.succeeded, operation.failed].map(|count| text(count.to_string()));
            let latency = operation.corrected.as_ref().or(operation.raw.as_ref());
            let mut cells = counts.to_vec();
            cells.push(time(operation.limit_ns));
            cells.extend(latency.unwrap_or(&Summary::default()).cells());
            (clean(&operation.name), cells)
        };
        self.operations.iter().map(of).collect()
    }
}
