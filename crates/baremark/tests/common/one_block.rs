//! A shipped study to the end of its first block.

use crate::common::bench::{Bench, text};
use crate::common::outcome::{rows, sound};
use serde_json::Value;
use std::fs;
use std::path::Path;

/// Runs a shipped study, with some of its text changed, to the end of its first block: every treatment that is planned was
/// measured, or is absent with its reason.
pub fn one_block(study: &str, changes: &[(&str, &str)]) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../studies/{study}.toml"));
    let own = changes.iter().fold(fs::read_to_string(path).unwrap(), |text, (from, to)| {
        assert!(text.contains(from), "{study} has no {from}");
        text.replace(from, to)
    });
    let lines = own.lines().filter(|line| !line.starts_with("phase = ") && !line.starts_with("quads = "));
    let small = lines.collect::<Vec<_>>().join("\n").replace("[design]", "[design]\nphase = \"20 ms\"\nquads = 1");
    let bench = Bench::new();
    bench.write("study.toml", &small);
    let planned = bench.run(&["plan", "study.toml"]);
    if planned.status.code() == Some(3) {
        println!("skipped: study {study}: {}", text(&planned.stderr).replace('\n', " "));
        return;
    }
    let (document, said) = bench.first_block(&small);
    let plan = bench.json(&["plan", "study.toml", "--json"]);
    let (estimates, absent) = (rows(&document, "estimates"), rows(&document, "absent"));
    let trials = rows(&document, "trials");
    sound(&document);
    // A trial in which the host moved a page is void, and its two arms have nothing to show; none fails.
    assert!(trials.iter().all(|trial| trial["status"] != "failed"), "{study}: {said:#?}");
    let is_void = |treatment: &Value| {
        let of = |trial: &&Value| rows(trial, "arms").iter().any(|arm| arm["treatment"] == *treatment);
        trials.iter().filter(of).any(|trial| trial["status"] == "void")
    };
    let mut missing = Vec::new();
    for arm in rows(&plan, "arms") {
        let of = |row: &&Value| row["treatment"] == arm["treatment"];
        let told = |row: &Value| row["reason"].as_str().is_some_and(|why| !why.is_empty());
        let measured = estimates.iter().filter(of).any(|row| row["estimate"].as_f64().is_some_and(|value| value > 0.0));
        if !measured && !absent.iter().filter(of).any(told) && !is_void(&arm["treatment"]) {
            missing.push(&arm["treatment"]);
        }
    }
    assert!(missing.is_empty(), "{study}: {missing:?}: {said:#?}");
    // A place that has nothing to show is not there.
    for place in ["microvm", "container", "qemu"] {
        let of = |row: &&Value| row["treatment"]["environment"] == place;
        if let Some(row) = absent.iter().find(of).filter(|_| !estimates.iter().any(|row| of(&row))) {
            println!("skipped: study {study} in {place}: {}", row["reason"]);
        }
    }
}

pub const SMALL_STREAM: (&str, &str) = ("kind = \"stream\"", "kind = \"stream\"\narray = \"16 MiB\"\nsmall = true");
