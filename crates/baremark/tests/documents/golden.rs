//! Stores that this and earlier versions wrote are read as well as ever; `resume` continues with a run of the same format alone,
//! and what is damaged is refused by name.
//!
//! The stores in `tests/golden` were made by `scripts/make-golden-store` with the version that introduced their schema.

use crate::common::bench::{Bench, SMALL, text};
use crate::common::stored::{self, named, shown};
use baremark_stats::Rng;
use serde_json::Value;
use std::fs;

const PAIR: &str = "what a microVM keeps of random access";
const COMMAND: &str = "counting lines";
const INTERRUPTED: &str = "interrupted";

/// Of the golden stores: the schema, and whether its rows have checksums.
const GOLDEN: [(u32, bool); 2] = [(3, false), (4, true)];

/// A bench whose store is a copy of the golden one of this schema.
fn bench(schema: u32) -> Bench {
    stored::bench(&format!("schema-{schema}.db"))
}

#[test]
fn history_lists_everything_in_the_golden_stores() {
    GOLDEN.iter().for_each(|(schema, _)| is_listed(&bench(*schema)));
}

fn is_listed(bench: &Bench) {
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
    let table = shown(bench, &["history"]);
    for name in [INTERRUPTED, COMMAND, "what a microVM", "load: http://"] {
        assert!(table.contains(name), "{name} in {table}");
    }
}

#[test]
fn runs_of_the_golden_stores_are_reported_as_text_json_and_csv() {
    GOLDEN.iter().for_each(|(schema, checksummed)| are_reported(&bench(*schema), *checksummed));
}

fn are_reported(bench: &Bench, checksummed: bool) {
    let (pair, command, interrupted) = (named(bench, PAIR), named(bench, COMMAND), named(bench, INTERRUPTED));
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
        let page = shown(bench, &["report", run]);
        assert!(page.contains(study) && page.contains(run.as_str()), "{page}");
        let csv = shown(bench, &["report", run, "--csv"]);
        assert!(csv.contains(&format!("\r\nestimate,{cell},")), "{csv}");
        assert!(shown(bench, &["report", run, "--csv=trials"]).lines().count() > 2);
    }
    let document = bench.json(&["report", &pair, "--json"]);
    let (ratio, counted) = (document["ratios"][0]["ratio"].as_f64().unwrap(), &document["ratios"][0]["blocks"]);
    assert!((0.5..2.0).contains(&ratio) && *counted == 10, "{document:#}");
    let unverified = document["flags"].as_array().unwrap().iter().any(|flag| {
        flag["trials"] == 10 && flag["text"].as_str().is_some_and(|text| text.contains("without checksums"))
    });
    assert_eq!(unverified, !checksummed, "what is not verified is labelled: {:#}", document["flags"]);
    assert_eq!(document["run"]["machine"]["hostname"], "golden");
}

#[test]
fn loads_of_the_golden_stores_are_reported_as_text_json_and_csv() {
    GOLDEN.iter().for_each(|(schema, _)| is_reported(&bench(*schema)));
}

fn is_reported(bench: &Bench) {
    let load = bench.json(&["history", "--json"])["loads"][0]["id"].as_str().unwrap().to_owned();
    let document = bench.json(&["report", &load, "--json"]);
    assert_eq!((&document["format"], &document["counts"]["answered"]), (&"baremark-load/1".into(), &150.into()));
    assert!(shown(bench, &["report", &load]).contains("150 of 150 requests succeeded in 3.0 s"));
    let csv = shown(bench, &["report", &load, "--csv"]);
    assert!(csv.starts_with("at_s,") && csv.lines().count() == 4, "{csv}");
}

#[test]
fn levels_of_golden_runs_are_compared() {
    GOLDEN.iter().for_each(|(schema, _)| are_compared(&bench(*schema)));
}

fn are_compared(bench: &Bench) {
    let run = named(bench, COMMAND);
    let side = |numbers: &str| format!("{run}:numbers={numbers}");
    let comparison = bench.json(&["compare", &side("1000"), &side("2000"), "--json"]);
    let row = &comparison["rows"][0];
    assert_eq!((&row["outcome"], row["ratio"].as_f64()), (&"faster_by_more".into(), Some(2.0)), "{comparison:#}");
    let text = shown(bench, &["compare", &side("1000"), &side("2000")]);
    assert!(text.contains("2.00 times"), "{text}");
}

/// Makes the golden runs look as if they had been begun on this machine, which is what `resume` asks for.
fn move_here(bench: &Bench) {
    let doctor = bench.json(&["doctor", "--json"]);
    let store = rusqlite::Connection::open(bench.store()).unwrap();
    assert_eq!(store.execute("UPDATE run SET machine = ?1", [doctor["machine"].to_string()]).unwrap(), 3);
}

#[test]
fn the_interrupted_golden_run_of_another_format_is_refused_with_both_formats() {
    let bench = bench(3);
    move_here(&bench);
    let resumed = bench.run(&["resume", "--json"]);
    let said = text(&resumed.stderr);
    assert_eq!(resumed.status.code(), Some(2), "{said}");
    assert_eq!(said.trim_end().lines().count(), 1, "a refusal is one line: {said}");
    let both = format!("has format 1, this baremark writes format {}", baremark_store::FORMAT);
    assert!(said.contains(&both), "both formats are named: {said}");
    assert_eq!(bench.json(&["history", "--json"])["runs"][0]["trials"], 4, "nothing was added");
}

#[test]
fn a_store_of_a_newer_version_is_refused_by_every_command_and_not_touched() {
    let bench = bench(4);
    let run = named(&bench, COMMAND);
    let mut bytes = fs::read(bench.store()).unwrap();
    // SQLite's user_version, big-endian, at byte 60 of the header.
    bytes[60..64].copy_from_slice(&99_u32.to_be_bytes());
    fs::write(bench.store(), &bytes).unwrap();
    bench.write("small.toml", SMALL);
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

/// What a command prints, if it succeeds.
fn printed(bench: &Bench, arguments: &[&str]) -> Option<String> {
    let output = bench.run(arguments);
    output.status.success().then(|| text(&output.stdout))
}

#[test]
fn a_flipped_byte_never_changes_what_a_command_prints() {
    let bench = bench(4);
    let load = bench.json(&["history", "--json"])["loads"][0]["id"].as_str().unwrap().to_owned();
    let (run, interrupted) = (named(&bench, COMMAND), named(&bench, INTERRUPTED));
    let [base, other] = ["1000", "2000"].map(|numbers| format!("{run}:numbers={numbers}"));
    let commands = [
        &["history"][..],
        &["report", &run, "--json"],
        &["report", &interrupted],
        &["report", &load],
        &["compare", &base, &other],
    ];
    let whole = fs::read(bench.store()).unwrap();
    let before: Vec<Option<String>> = commands.iter().map(|command| printed(&bench, command)).collect();
    let mut rng = Rng::new(20_261_122);
    let (mut refused, mut spared) = (0, 0);
    for round in 0..48 {
        // Half of them in the first pages, where the structure is.
        let within = if round % 2 == 0 { whole.len() } else { 12 * 4096 };
        let at = usize::try_from(rng.below(within as u64)).unwrap();
        let mut bytes = whole.clone();
        bytes[at] ^= u8::try_from(1 + rng.below(255)).unwrap();
        fs::write(bench.store(), &bytes).unwrap();
        let mut any = [false; 2];
        for (command, before) in commands.iter().zip(&before) {
            let after = printed(&bench, command);
            assert!(
                after.is_none() || after == *before,
                "byte {at} is {:#x}: {command:?} printed {after:?}",
                bytes[at]
            );
            any[usize::from(after.is_some())] = true;
        }
        refused += u32::from(any[0]);
        spared += u32::from(any == [true, true]);
    }
    // A seventh is 7, with a standard error of 2.4.
    assert!(refused >= 5 && spared > refused / 4, "{refused} of 48 were noticed, {spared} left something to read");
}

#[test]
fn a_damaged_trial_is_refused_by_name_and_other_runs_stay_usable() {
    let bench = bench(4);
    let (run, other) = (named(&bench, COMMAND), named(&bench, PAIR));
    let store = rusqlite::Connection::open(bench.store()).unwrap();
    let sql = "UPDATE trial SET result = replace(result, 'wall_s', 'wall_t') WHERE run = ?1 AND block = 3";
    assert_eq!(store.execute(sql, [&run]).unwrap(), 1);
    drop(store);
    let side = |numbers: &str| format!("{run}:numbers={numbers}");
    for arguments in [&["report", &run][..], &["report", &run, "--csv"], &["compare", &side("1000"), &side("2000")]] {
        let output = bench.run(arguments);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {said}");
        let named = said.starts_with(&format!("error: run {run}, trial block 3 cell 0: checksum mismatch (stored "));
        assert!(named && said.contains(&format!("`baremark report {run} --without-damaged`")), "{said}");
        assert!(output.stdout.is_empty());
    }
    let left = bench.json(&["report", &run, "--without-damaged", "--json"]);
    assert_eq!(left["trials"].as_array().unwrap().len(), 9, "{left:#}");
    let named = |flag: &Value| {
        flag["text"].as_str().is_some_and(|text| text.contains("damaged: trial block 3 cell 0: checksum mismatch"))
    };
    assert!(left["flags"].as_array().unwrap().iter().any(named), "{:#}", left["flags"]);
    shown(&bench, &["report", &other]);
    shown(&bench, &["history"]);
    // Series of changes are of the other runs, and noise is learnt from them.
    let changes = bench.run(&["history", "--changes", "--json"]);
    let said = text(&changes.stderr);
    assert!(
        changes.status.code() == Some(1) && said.starts_with(&format!("error: run {run}, trial block 3")),
        "{said}"
    );
    let changes: Value = serde_json::from_slice(&changes.stdout).unwrap();
    assert!(!changes["series"].as_array().unwrap().is_empty(), "{changes:#}");
}

#[test]
fn a_damaged_run_is_named_beside_the_list_of_the_others() {
    let bench = bench(4);
    let run = named(&bench, COMMAND);
    let store = rusqlite::Connection::open(bench.store()).unwrap();
    assert_eq!(store.execute("UPDATE run SET title = 'counting sheep' WHERE id = ?1", [&run]).unwrap(), 1);
    drop(store);
    let output = bench.run(&["history"]);
    let (list, said) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.starts_with(&format!("error: run {run}: checksum mismatch")), "{said}");
    assert!(list.contains(INTERRUPTED) && !list.contains(&run), "{list}");
    for (arguments, exit) in [(&["history", "--changes"][..], 1), (&["site", "--metrics"], 4), (&["site", "pages"], 4)]
    {
        let output = bench.run(arguments);
        let said = text(&output.stderr);
        assert!(
            output.status.code() == Some(exit) && said.starts_with(&format!("error: run {run}: checksum")),
            "{arguments:?}: {said}"
        );
        assert!(!output.stdout.is_empty(), "{arguments:?}");
    }
}
