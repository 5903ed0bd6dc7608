//! A store that an earlier version wrote is read as well as ever; `resume` goes on with a run of the same format alone.
//!
//! The stores in `tests/golden` were made by `scripts/make-golden-store` with the version that introduced their schema.

use crate::bench::{Bench, text};
use serde_json::Value;
use std::fs;
use std::path::Path;

const PAIR: &str = "what a microVM keeps of random access";
const COMMAND: &str = "counting lines";
const INTERRUPTED: &str = "interrupted";

/// A bench whose store is a copy of the golden one of schema 3.
fn bench() -> Bench {
    let bench = Bench::new();
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/schema-3.db");
    fs::create_dir(bench.path("store")).unwrap();
    fs::copy(golden, bench.store()).unwrap();
    bench
}

/// The name of the run of a study.
fn named(bench: &Bench, study: &str) -> String {
    let history = bench.json(&["history", "--json"]);
    let run = history["runs"].as_array().unwrap().iter().find(|run| run["study"] == study);
    run.unwrap_or_else(|| panic!("no run of {study}: {history:#}"))["id"].as_str().unwrap().to_owned()
}

fn shown(bench: &Bench, arguments: &[&str]) -> String {
    let output = bench.run(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

#[test]
fn history_lists_everything_in_the_golden_store() {
    let bench = bench();
    let history = bench.json(&["history", "--json"]);
    let runs: Vec<(&str, u64, u64, bool)> = history["runs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|run| {
            let count = |key: &str| run[key].as_u64().unwrap();
            (run["study"].as_str().unwrap(), count("trials"), count("blocks"), run["state"] == "finished")
        })
        .collect();
    assert_eq!(runs, [(INTERRUPTED, 4, 2, false), (COMMAND, 10, 10, true), (PAIR, 10, 10, true)], "{history:#}");
    let load = &history["loads"][0];
    assert_eq!((load["kind"].as_str(), load["state"].as_str()), (Some("baremark-load/1"), Some("finished")));
    let table = shown(&bench, &["history"]);
    for name in [INTERRUPTED, COMMAND, "what a microVM", "http://127.0.0.1"] {
        assert!(table.contains(name), "{name} in {table}");
    }
}

#[test]
fn runs_of_the_golden_store_are_reported_as_text_json_and_csv() {
    let bench = bench();
    let (pair, command, interrupted) = (named(&bench, PAIR), named(&bench, COMMAND), named(&bench, INTERRUPTED));
    // Numbers that a program prints are exact: their estimates are the same in every version.
    let document = bench.json(&["report", &command, "--json"]);
    let estimate = |numbers: &str| -> Option<f64> {
        let rows = document["estimates"].as_array().unwrap();
        let row = rows.iter().find(|row| row["metric"] == "lines" && row["treatment"]["numbers"] == numbers);
        row?["estimate"].as_f64()
    };
    assert_eq!((estimate("1000"), estimate("2000")), (Some(1000.0), Some(2000.0)), "{document:#}");
    assert_eq!(document["ratios"][0]["ratio"].as_f64().map(|ratio| (ratio * 1e9).round()), Some(2e9), "{document:#}");
    assert!(!document["observed"].is_null(), "what was observed is still there");
    for (run, study, cell) in [(&pair, PAIR, "gups"), (&command, COMMAND, "lines"), (&interrupted, INTERRUPTED, "gups")]
    {
        let page = shown(&bench, &["report", run]);
        assert!(page.contains(study) && page.contains(run.as_str()), "{page}");
        let csv = shown(&bench, &["report", run, "--csv"]);
        assert!(csv.contains(&format!("\r\nestimate,{cell},")), "{csv}");
        assert!(shown(&bench, &["report", run, "--csv=trials"]).lines().count() > 2);
    }
    let document = bench.json(&["report", &pair, "--json"]);
    let (ratio, counted) = (document["ratios"][0]["ratio"].as_f64().unwrap(), &document["ratios"][0]["blocks"]);
    assert!((0.95..1.0).contains(&ratio) && *counted == 10, "{document:#}");
    assert_eq!(document["run"]["machine"]["hostname"], "golden");
}

#[test]
fn the_load_of_the_golden_store_is_reported_as_text_json_and_csv() {
    let bench = bench();
    let load = bench.json(&["history", "--json"])["loads"][0]["id"].as_str().unwrap().to_owned();
    let document = bench.json(&["report", &load, "--json"]);
    assert_eq!((&document["format"], &document["counts"]["answered"]), (&"baremark-load/1".into(), &150.into()));
    assert!(shown(&bench, &["report", &load]).contains("50 requests/s for 3.0 s"));
    let csv = shown(&bench, &["report", &load, "--csv"]);
    assert!(csv.starts_with("at_s,") && csv.lines().count() == 4, "{csv}");
}

#[test]
fn levels_of_a_golden_run_are_compared() {
    let bench = bench();
    let run = named(&bench, COMMAND);
    let side = |numbers: &str| format!("{run}:numbers={numbers}");
    let comparison = bench.json(&["compare", &side("1000"), &side("2000"), "--json"]);
    let row = &comparison["rows"][0];
    assert_eq!((&row["change"], row["ratio"].as_f64()), (&"better".into(), Some(2.0)), "{comparison:#}");
    let text = shown(&bench, &["compare", &side("1000"), &side("2000")]);
    assert!(text.contains("2.00 times"), "{text}");
}

/// Makes the golden runs look as if they had been begun on this machine, which is what `resume` asks for.
fn move_here(bench: &Bench) {
    let doctor = bench.json(&["doctor", "--json"]);
    let store = rusqlite::Connection::open(bench.store()).unwrap();
    let changed = store.execute("UPDATE run SET machine = ?1", [doctor["machine"].to_string()]).unwrap();
    assert_eq!(changed, 3);
}

#[test]
fn the_interrupted_golden_run_is_resumed_or_refused_with_both_formats() {
    let bench = bench();
    move_here(&bench);
    let resumed = bench.run(&["resume", "--json"]);
    let said = text(&resumed.stderr);
    if resumed.status.success() {
        let document: Value = serde_json::from_slice(&resumed.stdout).unwrap();
        assert!(document["run"]["ended"].is_string(), "{document:#}");
        let trials = document["trials"].as_array().unwrap();
        assert!(trials.len() >= 20, "{} trials", trials.len());
        assert_eq!(bench.json(&["history", "--json"])["runs"].as_array().unwrap().len(), 3, "no new run was begun");
        return;
    }
    assert_eq!(resumed.status.code(), Some(2), "{said}");
    assert_eq!(said.trim_end().lines().count(), 1, "a refusal is one line: {said}");
    assert!(said.contains("has format 1") && said.contains("this baremark"), "both formats are named: {said}");
    assert_eq!(bench.json(&["history", "--json"])["runs"][0]["trials"], 4, "nothing was added");
}

#[test]
fn a_store_of_a_newer_version_is_refused_by_every_command_and_not_touched() {
    let bench = bench();
    let run = named(&bench, COMMAND);
    let mut bytes = fs::read(bench.store()).unwrap();
    // SQLite's user_version, big-endian, at byte 60 of the header.
    bytes[60..64].copy_from_slice(&99_u32.to_be_bytes());
    fs::write(bench.store(), &bytes).unwrap();
    bench.write("small.toml", crate::bench::SMALL);
    for arguments in [
        &["history"][..],
        &["report"],
        &["report", &run, "--json"],
        &["compare", &run, &run],
        &["resume"],
        &["run", "small.toml"],
        &["plan", "small.toml"],
    ] {
        let output = bench.run(arguments);
        let said = text(&output.stderr);
        assert!(matches!(output.status.code(), Some(1 | 2)), "{arguments:?}: {said}");
        assert!(said.contains("has schema 99, this baremark knows up to "), "{arguments:?}: {said}");
        assert!(output.stdout.is_empty(), "{arguments:?}");
    }
    assert_eq!(fs::read(bench.store()).unwrap(), bytes);
}
