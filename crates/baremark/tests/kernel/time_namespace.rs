//! In a time namespace, whose monotonic clock is another than the machine's, runs and starts of servers are measured as elsewhere.

use crate::common::bench::{Bench, SMALL, text};
use serde_json::Value;
use std::process::Command;
use std::time::Instant;

/// A server reports by its own reading of the clock when it began.
const STARTS: &str = r#"
[study]
title = "starts"
[workload]
kind = "start-up"
[factors]
environment = "native"
server_environment = "process"
[design]
phase = "100 ms"
least_blocks = 4
most_blocks = 4
budget = "60 s"
"#;

/// Seconds by which the clocks of a namespace may be behind the machine's.
fn behind() -> i64 {
    let uptime = std::fs::read_to_string("/proc/uptime").unwrap();
    let seconds: f64 = uptime.split(' ').next().unwrap().parse().unwrap();
    (seconds / 2.0) as i64
}

fn estimates(document: &Value, metric: &str) -> Vec<f64> {
    let rows = document["estimates"].as_array().unwrap().iter();
    rows.filter(|row| row["metric"] == metric).map(|row| row["estimate"].as_f64().unwrap()).collect()
}

#[test]
fn runs_in_a_time_namespace_are_measured() {
    let offset_of = |seconds: i64| [format!("--monotonic={seconds}"), format!("--boottime={seconds}")];
    let namespace = |seconds: i64| {
        let mut command = Command::new("unshare");
        command.args(["--time", "--fork"]).args(offset_of(seconds));
        command
    };
    if !namespace(1).arg("true").output().is_ok_and(|output| output.status.success()) {
        println!("skipped: runs in a time namespace: no right to make one");
        return;
    }
    for seconds in [100_000, -behind()] {
        let bench = Bench::new();
        bench.write("small.toml", SMALL);
        bench.write("starts.toml", STARTS);
        for (study, metrics) in [("small.toml", &["update_ns"][..]), ("starts.toml", &["began_ms", "answered_ms"][..])]
        {
            let inner = bench.command(&["run", study, "--json"]);
            let mut command = namespace(seconds);
            command.arg(inner.get_program()).args(inner.get_args()).current_dir(bench.folder.path());
            command.envs(inner.get_envs().filter_map(|(name, value)| Some((name, value?))));
            let begun = Instant::now();
            let output = command.output().unwrap();
            let took_ms = begun.elapsed().as_secs_f64() * 1e3;
            assert_eq!(output.status.code(), Some(0), "{seconds} s, {study}: {}", text(&output.stderr));
            let document: Value = serde_json::from_slice(&output.stdout).unwrap();
            for metric in metrics {
                let values = estimates(&document, metric);
                assert!(!values.is_empty(), "{seconds} s, {study}: no {metric}: {document:#}");
                assert!(values.iter().all(|value| (0.0..took_ms * 1e6).contains(value)), "{metric}: {values:?}");
            }
            let [began, answered] = ["began_ms", "answered_ms"].map(|metric| estimates(&document, metric));
            assert!(began.iter().zip(&answered).all(|(began, answered)| began <= answered && *answered <= took_ms));
        }
    }
}
