//! Stores that tests start from, in `tests/golden`: what is said of stored runs follows from them, on any machine.

use crate::common::bench::{Bench, text};
use serde_json::Value;
use std::fs;
use std::path::Path;

/// Runs of `small.db`, which `tests/golden/make-small` made.
pub const SMALL_RUN: &str = "a small study";

/// A bench whose store is a copy of this one in `tests/golden`.
pub fn bench(name: &str) -> Bench {
    let bench = Bench::new();
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    fs::create_dir(bench.path("store")).unwrap();
    fs::copy(golden, bench.store()).unwrap();
    bench
}

/// The name of the run of a study.
pub fn named(bench: &Bench, study: &str) -> String {
    let history = bench.json(&["history", "--json"]);
    let run = history["runs"].as_array().unwrap().iter().find(|run| run["study"] == study);
    run.unwrap_or_else(|| panic!("no run of {study}: {history:#}"))["id"].as_str().unwrap().to_owned()
}

/// The document of the run of a study.
pub fn document(bench: &Bench, study: &str) -> Value {
    bench.json(&["report", &named(bench, study), "--json"])
}

/// What a command that succeeds prints.
pub fn shown(bench: &Bench, arguments: &[&str]) -> String {
    let output = bench.run(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
    text(&output.stdout)
}
