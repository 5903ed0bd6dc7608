//! Every format with a file of its program, whole and damaged.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::float_cmp,
    clippy::allow_attributes,
    missing_docs,
    reason = "a test crate"
)]

mod damaged;
mod limits;
mod whole;

use baremark_import::{Column, ImportError, Imported, Options};
use std::fs;
use std::path::Path;

/// Every fixture with its format. The program's name is where the file says which wrote it.
const FIXTURES: &[(&str, &str)] = &[
    ("hyperfine.json", "hyperfine"),
    ("fio.json", "fio"),
    ("google-benchmark.json", "google-benchmark"),
    ("criterion-messages.json", "criterion"),
    ("criterion-sample.json", "criterion"),
    ("criterion-estimates.json", "criterion"),
    ("criterion-raw.csv", "criterion"),
    ("pgbench.txt", "pgbench"),
    ("pgbench.log", "pgbench"),
    ("pgbench-aggregate.log", "pgbench"),
    ("sysbench-cpu.txt", "sysbench"),
    ("sysbench-memory.txt", "sysbench"),
    ("sysbench-fileio.txt", "sysbench"),
    ("wrk.txt", "wrk"),
    ("k6-summary.json", "k6"),
    ("k6-handle.json", "k6"),
    ("iperf3.json", "iperf3"),
    ("iperf3-udp.json", "iperf3"),
    ("hpcc.txt", "hpcc"),
    ("phoronix.xml", "phoronix"),
    ("phoronix.csv", "phoronix"),
    ("stress-ng.yaml", "stress-ng"),
];

fn fixture(name: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)).unwrap()
}

/// Later than all fixtures.
const NOW: u64 = 1_800_000_000;

fn read(bytes: &[u8], format: Option<&str>, columns: &[Column]) -> Result<Imported, ImportError> {
    baremark_import::read(&mut &*bytes, &Options { format, columns, now_unix_s: NOW })
}

fn columns(text: &str) -> Vec<Column> {
    text.split(',').map(|column| column.parse().unwrap()).collect()
}

fn of(text: &str) -> Imported {
    read(text.as_bytes(), None, &[]).unwrap_or_else(|why| panic!("{why}"))
}

fn why(text: &str) -> String {
    read(text.as_bytes(), None, &[]).expect_err("damaged").to_string()
}

fn csv(text: &str, columns: &str) -> Result<Imported, ImportError> {
    read(text.as_bytes(), None, &self::columns(columns))
}

/// The values of a metric of a benchmark.
#[track_caller]
fn values<'i>(imported: &'i Imported, benchmark: &str, metric: &str) -> &'i [f64] {
    let found = imported.measured.iter().find(|of| of.benchmark == benchmark && of.metric.key == metric);
    let have = || imported.measured.iter().map(|of| format!("{}:{}", of.benchmark, of.metric.key)).collect::<Vec<_>>();
    &found.unwrap_or_else(|| panic!("no {metric} of '{benchmark}' among {:?}", have())).values
}
