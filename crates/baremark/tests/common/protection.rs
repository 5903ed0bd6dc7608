//! `baremark protect`, what it has counted, and studies that have it as a factor.

use super::bench::text;
use baremark_model::protection::Report;
use serde_json::Value;
use std::process::{Command, Output, Stdio};

pub const BAREMARK: &str = env!("CARGO_BIN_EXE_baremark");

/// Runs a program in epochs of so many microseconds, each copy compared; its output and what was counted.
pub fn protected(epoch_us: u64, further: &[&str], program: &[&str]) -> (Output, Report) {
    let folder = tempfile::tempdir().unwrap();
    let stats = folder.path().join("stats.json");
    let mut command = Command::new(BAREMARK);
    command.args(["protect", "--epoch-us", &epoch_us.to_string(), "--compare", "--stats"]).arg(&stats);
    let output = command.args(further).arg("--").args(program).stdin(Stdio::null()).output().unwrap();
    let report = std::fs::read(&stats).unwrap_or_else(|why| panic!("{why}: {output:?}"));
    (output, serde_json::from_slice(&report).unwrap())
}

/// Runs what is there the longer, the larger its number is, until `enough` was seen of it: how long a checkpoint takes is the machine's affair.
pub fn until_seen(
    first: u64,
    enough: impl Fn(&Report) -> bool,
    mut run: impl FnMut(u64) -> (Output, Report),
) -> (Output, Report) {
    let mut times = 1;
    loop {
        let (output, report) = run(first * times);
        if enough(&report) {
            return (output, report);
        }
        assert!(times < 16, "{report:?}");
        times *= 4;
    }
}

pub fn assert_copied(report: &Report, fewest: u64) {
    assert!(report.compared >= fewest && report.different == 0, "{report:?}");
    assert_eq!((report.unreadable, report.untracked), (0, 0), "{report:?}");
}

/// Loads of fixed work and of round trips, with and without protection. `work` tenths of a second are done in each run.
pub fn study_of_loads(loads: &str, work: u64, blocks: u64) -> String {
    format!(
        r#"
[study]
title = "loads under protection"
[workload]
kind = "protection"
work = {work}
[factors]
load = [{loads}]
protect = ["none", "20 ms"]
ranks = 1
[design]
phase = "300 ms"
quads = 0
least_blocks = {blocks}
most_blocks = {blocks}
budget = "20 min"
[report]
also = ["run_s"]
columns = "protect"
ratio_to = {{ protect = "none" }}
"#
    )
}

/// A program that writes pages for a third of a second, with and without protection.
pub const STUDY_OF_A_PROGRAM: &str = r#"
[study]
title = "a program under protection"
[workload]
kind = "command"
[command]
argv = ["{baremark}", "protect", "--write", "64", "--passes", "6000"]
[factors]
protect = ["none", "20 ms"]
ranks = 1
[design]
quads = 0
least_blocks = 1
most_blocks = 1
budget = "10 min"
[report]
columns = "protect"
ratio_to = { protect = "none" }
"#;

/// Whether changed pages can be found here; where not, a line that is counted.
pub fn tracks() -> bool {
    let writer = [BAREMARK, "protect", "--write", "1", "--passes", "1000"];
    let mut command = Command::new(BAREMARK);
    let output = command.args(["protect", "--epoch-us", "5000", "--"]).args(writer).output().unwrap();
    let why = text(&output.stderr);
    let is_able = output.status.success();
    if !is_able {
        assert!(why.contains("dirty pages cannot be tracked"), "{why}");
        eprintln!("skipped: {}", why.trim());
    }
    is_able
}

/// The row of a list of the document with these levels.
pub fn row_of<'d>(document: &'d Value, list: &str, metric: &str, levels: &[(&str, &str)]) -> &'d Value {
    let is_meant = |row: &&Value| {
        row["metric"] == metric && levels.iter().all(|(factor, level)| row["treatment"][*factor] == *level)
    };
    let rows: Vec<&Value> = document[list].as_array().unwrap().iter().filter(is_meant).collect();
    assert_eq!(rows.len(), 1, "{list}, {metric}, {levels:?}: {document:#}");
    rows[0]
}

pub fn estimate(document: &Value, metric: &str, levels: &[(&str, &str)]) -> f64 {
    row_of(document, "estimates", metric, levels)["estimate"].as_f64().unwrap()
}

/// What the prediction under protection is, if there is one: where the machine was so busy that pauses and pages seem to have cost more than the run took,
/// there is none.
pub fn assert_predicted(document: &Value, levels: &[(&str, &str)]) {
    let is_meant = |row: &&Value| {
        row["metric"] == "predicted_ratio"
            && levels.iter().chain(&[("protect", "20 ms")]).all(|(factor, level)| row["treatment"][*factor] == *level)
    };
    let rows: Vec<&Value> = document["estimates"].as_array().unwrap().iter().filter(is_meant).collect();
    assert!(rows.len() <= 1 && rows.iter().all(|row| row["estimate"].as_f64().unwrap() > 1.0), "{document:#}");
}

/// The ratio of a metric under protection to that without it.
pub fn protected_to_none(document: &Value, metric: &str, levels: &[(&str, &str)]) -> f64 {
    let row = row_of(document, "ratios", metric, &[levels, &[("protect", "20 ms")]].concat());
    assert_eq!((&row["relative_to"]["protect"], &row["contrast"]), (&"none".into(), &"factor".into()), "{row:#}");
    row["ratio"].as_f64().unwrap_or_else(|| panic!("{row:#}"))
}

/// Of a treatment under protection what was counted.
pub fn assert_counted(document: &Value, levels: &[(&str, &str)]) {
    let under = [levels, &[("protect", "20 ms")]].concat();
    for metric in ["pages_per_epoch", "mb_per_epoch", "epochs", "pause_us", "paused_percent", "link_mbit_per_s"] {
        assert!(estimate(document, metric, &under) > 0.0, "{metric}, {under:?}: {document:#}");
    }
    // An epoch ends when it is due, or later.
    assert!(estimate(document, "epoch_ms", &under) >= 20.0, "{document:#}");
}
