//! Studies of what a place costs before work runs.

use super::bench::{Bench, lives, text};
use super::outcome::sound;
use super::trials::{accounted, all};
use serde_json::Value;
use std::path::Path;
use std::process::Output;

/// A study of these lines, over in seconds.
pub fn study(kind: &str, factors: &str, report: &str) -> String {
    format!(
        "[study]\ntitle = \"small\"\n[workload]\nkind = {kind}\n[factors]\n{factors}\nranks = 1\n[design]\nphase = \"60 ms\"\nquads = 1\n\
         least_blocks = 4\nmost_blocks = 4\nbudget = \"60 s\"\n[report]\n{report}\n"
    )
}

/// The same in one block: what is measured has an estimate where its trial counts ([`counted`]), and a ratio no interval.
pub fn in_one_block(study: &str) -> String {
    study.replace("least_blocks = 4\nmost_blocks = 4", "least_blocks = 1\nmost_blocks = 1")
}

/// The document of a study in one block, where all its trials count. One that was disturbed does not and has a reason, and no other takes its place:
/// then there is nothing to look at.
pub fn counted(ran: &Output) -> Option<Value> {
    let errors = text(&ran.stderr);
    let document: Value = serde_json::from_slice(&ran.stdout).unwrap_or_else(|why| panic!("{why}: {errors}"));
    sound(&document);
    let trials = all(&document);
    if accounted(&trials, trials.len()) < trials.len() {
        eprintln!("not every trial counts: {errors}");
        return None;
    }
    assert!(ran.status.success(), "{errors}");
    Some(document)
}

/// The estimates of a metric, each with its treatment's level of `factor`.
pub fn estimates(document: &Value, metric: &str, factor: &str) -> Vec<(String, f64)> {
    let rows = document["estimates"].as_array().unwrap().iter().filter(|row| row["metric"] == metric);
    let level = |row: &Value| row["treatment"][factor].as_str().unwrap_or_default().to_owned();
    rows.map(|row| (level(row), row["estimate"].as_f64().unwrap())).collect()
}

pub fn nothing_is_left_in(folder: &Path) {
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let pid = name.strip_prefix("baremark-start-").and_then(|rest| rest.split('-').next()?.parse::<u32>().ok());
        // Since the folder was read a process of another test may have removed its own, and ended.
        assert!(pid.is_none_or(lives) || !entry.path().exists(), "{name}");
    }
}

/// Runs one trial of a server in a place that has a clock and a loopback of its own; the document, where the place can be had and the trial counts.
pub fn apart(kind: &str, settings: &str) -> Option<Value> {
    let bench = Bench::new();
    let text_of = study(&format!("\"{kind}\"\n{settings}"), "", "").replace("quads = 1", "quads = 0");
    bench.write("s.toml", in_one_block(&text_of));
    let ran = bench.run(&["run", "s.toml", "--json"]);
    let errors = text(&ran.stderr);
    if errors.contains("OCI runtime \"runsc\" not found") || errors.contains("starting podman: ") {
        eprintln!("skipped: a server in gVisor: no podman, or no runsc");
        return None;
    }
    nothing_is_left_in(&std::env::temp_dir());
    counted(&ran)
}

pub fn one(document: &Value, metric: &str) -> f64 {
    let found = estimates(document, metric, "ranks");
    assert_eq!(found.len(), 1, "{metric}: {document:#}");
    found[0].1
}

/// Until its first instruction a guest has booted a kernel, which no process has.
pub fn starts_and_answers(document: &Value) {
    let [began, listening, answered] = ["began_ms", "listening_ms", "answered_ms"].map(|metric| one(document, metric));
    assert!(10.0 < began && began <= listening && listening <= answered, "{began} {listening} {answered}");
    let flags = document["flags"].to_string();
    assert!(flags.contains("no network but its own loopback"), "{flags}");
}
