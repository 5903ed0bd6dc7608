//! What workloads on databases report: the server and its data, what was checked, failures, and latency by operation.

use super::says::{Says, Summary, number, text};
use crate::grid::Cell;
use crate::text::clean;
use baremark_model::units::Bytes;
use serde::Deserialize;
use std::collections::BTreeMap;

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Detail {
    database: String,
    version: String,
    data_bytes: u64,
    checks: Vec<String>,
    failures: BTreeMap<String, u64>,
    reconnects: u64,
    unserved: u64,
    operations: Vec<Transaction>,
    cpu: Option<Cpu>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Transaction {
    name: String,
    committed: u64,
    rolled_back: u64,
    latency: Option<Summary>,
}

/// CPUs in use on average over the measured time.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Cpu {
    driver: f64,
    server: Option<f64>,
}

impl Detail {
    fn setting(&self) -> String {
        let counted = |(count, what): (u64, &str)| (count > 0).then(|| format!("; {count} {what}"));
        let failures = self.failures.iter().map(|(class, count)| (*count, class.as_str()));
        let rest = [(self.reconnects, "connections opened again"), (self.unserved, "arrivals not started")];
        let failed: String = failures.chain(rest).filter_map(counted).collect();
        let failed = if failed.is_empty() { "; no failure".to_owned() } else { failed };
        let cpu = self.cpu.as_ref().map(|cpu| {
            let server = cpu.server.map(|server| format!(", server {}", number(server))).unwrap_or_default();
            format!("; CPUs used: driver {}{server}", number(cpu.driver))
        });
        let cpu = cpu.unwrap_or_default();
        format!("{} {}, {:.0} of data{cpu}{failed}", self.database, self.version, Bytes(self.data_bytes))
    }
}

impl Says for Detail {
    const CAPTION: &'static str = "Latency by operation";
    const COLUMNS: &'static [&'static str] = &["committed", "rolled back"];

    fn facts(&self) -> Vec<String> {
        let checks =
            if self.checks.is_empty() { String::new() } else { format!("checked: {}", self.checks.join("; ")) };
        vec![self.setting(), checks]
    }

    fn rows(&self) -> Vec<(String, Vec<Cell>)> {
        let of = |operation: &Transaction| {
            let mut cells = vec![text(operation.committed.to_string()), text(operation.rolled_back.to_string())];
            cells.extend(operation.latency.as_ref().unwrap_or(&Summary::default()).cells());
            (clean(&operation.name), cells)
        };
        self.operations.iter().map(of).collect()
    }
}
