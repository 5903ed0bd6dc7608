//! Shipped studies of programs with their numbers made small.

use crate::common::bench::Bench;
use crate::common::outcome::sound;
use serde_json::Value;
use std::path::Path;

/// The text of a shipped study with its numbers made small.
pub fn shrunk(study: &str, changes: &[(&str, &str)]) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../studies/{study}.toml"));
    let text = std::fs::read_to_string(path).unwrap();
    // One treatment, and of it one trial: a budget this small has room for no more.
    let text: String =
        text.lines().filter(|line| !line.starts_with("ratio_to")).map(|line| format!("{line}\n")).collect();
    let changes = changes.iter().chain(&[("budget", "\"1 s\"")]);
    changes.fold(text, |text, (key, value)| {
        let of_key = |line: &str| line.starts_with(&format!("{key} = "));
        assert!(text.lines().any(of_key), "{study} has no {key}");
        let lines = text.lines().map(|line| if of_key(line) { format!("{key} = {value}") } else { line.to_owned() });
        lines.collect::<Vec<_>>().join("\n")
    })
}

/// Runs a study; its document.
pub fn document(text: &str) -> Value {
    let bench = Bench::new();
    bench.write("study.toml", text);
    let ran = bench.command(&["--json", "run", "study.toml"]).output().unwrap();
    let complaints = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{complaints}");
    let document: Value = serde_json::from_slice(&ran.stdout).unwrap();
    sound(&document);
    let counted = document["trials"].as_array().unwrap().iter().filter(|trial| trial["status"] == "ok");
    assert!(counted.count() >= 1, "{complaints}\n{document:#}");
    document
}

/// The estimate of a metric in the first treatment that has it.
pub fn estimate(document: &Value, metric: &str) -> f64 {
    let rows = document["estimates"].as_array().unwrap();
    let row = rows.iter().find(|row| row["metric"] == metric);
    let row = row.unwrap_or_else(|| panic!("no {metric} in {:#}", document["estimates"]));
    row["estimate"].as_f64().unwrap_or_else(|| panic!("{row:#}"))
}

pub fn all_positive(document: &Value, metrics: &[&str]) {
    for metric in metrics {
        assert!(estimate(document, metric) > 0.0, "{metric}");
    }
}

pub const NATIVE: [(&str, &str); 2] = [("environment", "\"native\""), ("ranks", "1")];
pub const SMALL_HEAP: [(&str, &str); 3] = [("heap", "\"128 MiB\""), ("duration", "\"1 s\""), ("gc", "\"parallel\"")];
pub const FEW_USERS: [(&str, &str); 5] =
    [("most", "2"), ("each", "\"2 MiB\""), ("pace", "\"20 ms\""), ("limit", "\"1 min\""), ("duration", "\"200 ms\"")];
