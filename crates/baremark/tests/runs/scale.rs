//! Known costs on blinded arms, through the whole program.

use crate::common::bench::{Bench, text};
use crate::common::points::{kill, stopped_at};
use crate::common::schemas::assert_fits;
use serde_json::Value;
use std::process::Stdio;

/// Work that is counted in cycles; how well its costs are found is not judged here.
const STUDY: &str = r#"
[study]
title = "multiply and add"
[workload]
kind = "fma"
[factors]
environment = "native"
ranks = 1
[design]
phase = "2 ms"
quads = 1
"#;

#[test]
fn known_costs_are_looked_for_and_nothing_stored_tells_them_before() {
    let bench = Bench::new();
    bench.write("fma.toml", STUDY);
    let output = bench.run(&["verify-scale", "fma.toml", "--quick", "--json"]);
    let found = assert_fits(&output.stdout, "baremark-scale/1");
    // A shared machine may spoil a comparison, and then the program says so by its exit code.
    let expected = match (found["intervals"].as_u64().unwrap(), found["chance"].as_f64().unwrap()) {
        (0, _) => 5,
        (_, chance) if chance < 0.01 => 1,
        _ => 0,
    };
    assert_eq!(output.status.code(), Some(expected), "{}", text(&output.stderr));
    let rows = found["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 8, "{found:#}");
    for row in rows {
        let (asked, injected) = (row["asked"].as_f64().unwrap(), row["injected"].as_f64().unwrap());
        assert!((asked - injected).abs() < 1e-9, "whole repetitions: {row:#}");
    }
    // How well costs are recovered is the machine's to say, and the command's to print: here the figures agree with each other.
    let mut counts = [0, 0];
    for row in rows {
        let interval = row["lo"].as_f64().zip(row["hi"].as_f64()).map(|(lo, hi)| lo..=hi);
        let covers = interval.map(|interval| interval.contains(&row["injected"].as_f64().unwrap()));
        assert_eq!(row["covers"].as_bool(), covers, "{row:#}");
        counts = [counts[0] + u64::from(covers.is_some()), counts[1] + u64::from(covers == Some(true))];
    }
    assert_eq!((&found["intervals"], &found["covered"]), (&counts[0].into(), &counts[1].into()), "{found:#}");

    let again = bench.run(&["verify-scale", "--run", found["run"].as_str().unwrap(), "--json"]);
    assert_eq!(serde_json::from_slice::<Value>(&again.stdout).unwrap(), found);
    let labels: Vec<&str> = rows.iter().map(|row| row["label"].as_str().unwrap()).collect();
    let blinded = text(&bench.run(&["report", "--details"]).stdout);
    assert!(labels.iter().all(|label| blinded.contains(label)), "{blinded}");
    let output = bench.run(&["verify-scale", "--run", "nothing"]);
    assert_eq!(output.status.code(), Some(2));
}

/// Of one trial nothing is known: that is no success.
#[test]
fn without_an_interval_nothing_is_decided() {
    let bench = Bench::new();
    bench.write("fma.toml", STUDY);
    let mut command = bench.command(&["verify-scale", "fma.toml", "--quick"]);
    let mut child = stopped_at(command.stdout(Stdio::null()).stderr(Stdio::null()), "trial-stored");
    kill(&mut child);
    let id = bench.json(&["history", "--json"])["runs"][0]["id"].as_str().unwrap().to_owned();
    let output = bench.run(&["verify-scale", "--run", &id]);
    assert_eq!(output.status.code(), Some(5), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("no arm has an interval"), "{}", text(&output.stdout));
}
