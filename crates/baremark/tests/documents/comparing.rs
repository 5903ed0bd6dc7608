//! Comparing runs: what is said, and the exit codes that scripts read. Every document is made of one stored run.

use crate::common::bench::{Bench, text};
use crate::common::many_runs::{document, golden};
use crate::common::schemas::assert_fits;
use crate::common::stored::{self, SMALL_RUN};
use baremark_model::renamed;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;

/// A bench with the store of that run, and the run's document.
fn bench() -> (Bench, Value) {
    let bench = stored::bench("small.db");
    let run = stored::document(&bench, SMALL_RUN);
    (bench, run)
}

/// Files made of a run: three a side, the second side's values multiplied by `factor`.
fn sides(bench: &Bench, run: &Value, factor: f64) {
    for (side, factor) in [("base", 1.0), ("other", factor)] {
        fs::create_dir_all(bench.path(side)).unwrap();
        for (index, wander) in [1.0, 1.002, 0.998].iter().enumerate() {
            let mut document = run.clone();
            document["run"]["id"] = format!("{side}{index}").into();
            for (at, trial) in document["trials"].as_array_mut().unwrap().iter_mut().enumerate() {
                let value = 0.5 * factor * wander * (1.0 + 0.001 * (at % 3) as f64);
                trial["arms"][0]["medians"] = serde_json::json!([{ "metric": "gups", "value": value }]);
            }
            bench.write(&format!("{side}/{index}.json"), document.to_string());
        }
    }
}

/// The exit code, and what was printed as one line, however it was wrapped.
fn check(bench: &Bench, arguments: &[&str]) -> (Option<i32>, String) {
    let output = bench.run(&[&["check", "--against", "base"], arguments].concat());
    let said = text(&output.stdout) + &text(&output.stderr);
    (output.status.code(), said.split_whitespace().collect::<Vec<_>>().join(" "))
}

#[test]
fn check_says_by_its_exit_code_what_came_out() {
    let (bench, run) = bench();
    sides(&bench, &run, 0.9);
    let (code, said) = check(&bench, &["other"]);
    assert_eq!(code, Some(4), "{said}");
    assert!(said.contains("FAIL: slower by at least 9.7 %") && said.contains("1 of 1 comparison is worse"), "{said}");
    sides(&bench, &run, 1.0);
    let (code, said) = check(&bench, &["other"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("ok; a loss of 5 % would have been found (power 100 %"), "{said}");
    let (code, said) = check(&bench, &["other", "--margin", "0.1 %"]);
    assert_eq!(code, Some(5), "{said}");
    assert!(
        said.contains("a loss of 0.1 % could have been missed") && said.contains("runs a side in all would"),
        "{said}"
    );
    sides(&bench, &run, 0.9);
    let (code, said) = check(&bench, &["other/0.json,other/1.json"]);
    assert_eq!(code, Some(5), "{said}");
    assert!(said.contains("not enough data: 3 runs a side are needed (1 more run of the other side)"), "{said}");
    let (code, said) = check(&bench, &["base"]);
    assert_eq!(code, Some(2), "{said}");
    let output = bench.run(&["check", "--against", "other", "base", "--json"]);
    assert_eq!(output.status.code(), Some(0), "faster is not a regression");
    let comparison: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(comparison["format"], "baremark-comparison/2");
    assert_eq!(comparison["rows"][0]["outcome"], "faster_by_more", "{comparison:#}");
    assert_eq!(comparison["gate"]["answer"], "passed", "{comparison:#}");
}

#[test]
fn runs_since_the_baseline_are_found_in_the_store() {
    let (bench, run) = bench();
    sides(&bench, &run, 1.0);
    let (code, said) = check(&bench, &[]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("was finished after the baseline"), "{said}");
    for file in 0..3 {
        let path = bench.path(&format!("base/{file}.json"));
        let old = fs::read_to_string(&path).unwrap();
        let mut document: Value = serde_json::from_str(&old).unwrap();
        document["run"]["started"] = "2020-01-01T00:00:00Z".into();
        fs::write(path, document.to_string()).unwrap();
    }
    let (code, said) = check(&bench, &[]);
    assert_eq!(code, Some(5), "one run was measured since: {said}");
    assert!(said.contains("2 more runs of the other side"), "{said}");
}

#[test]
fn what_is_no_side_is_refused() {
    let (bench, run) = bench();
    sides(&bench, &run, 1.0);
    bench.write("odd.json", "{}");
    fs::create_dir(bench.path("empty")).unwrap();
    for (side, says) in [
        ("odd.json", "is neither a result document"),
        ("empty", "no file that ends in .json"),
        ("nobody", "no run is called 'nobody'"),
        (",", "names no run"),
        ("base:page=4k", "pick the same factors"),
        ("base:page=", "is not a FACTOR=LEVEL"),
        ("base,./base/0.json", "./base/0.json: the same as base/0.json; a run counts once"),
    ] {
        let output = bench.run(&["compare", side, "other"]);
        assert_eq!(output.status.code(), Some(2), "{side}: {}", text(&output.stderr));
        assert!(text(&output.stderr).contains(says), "{side}: {}", text(&output.stderr));
    }
    let output = bench.run(&["compare", "base", "other", "--delta", "0 %"]);
    assert_eq!(output.status.code(), Some(2));
}

/// Three boots whose guest keeps 90, 80 and 90 % of native.
#[test]
fn runs_of_several_boots_are_joined_into_one_table_with_what_differs() {
    let (bench, run) = bench();
    for (name, ratio, kernel) in [("a", 0.9, "6.1"), ("b", 0.8, "6.2"), ("c", 0.9, "6.8")] {
        let mut document = run.clone();
        document["run"]["id"] = name.into();
        document["run"]["machine"]["kernel"]["release"] = kernel.into();
        document["ratios"] = serde_json::json!([{
            "metric": run["run"]["metric"], "contrast": "environment", "confidence": 0.95, "blocks": 12,
            "treatment": { "environment": "container" }, "relative_to": { "environment": "native" },
            "ratio": ratio, "lo": ratio * 0.99, "hi": ratio / 0.99, "words": "", "more_blocks": null, "sensitivity": [],
        }]);
        bench.write(&format!("{name}.json"), document.to_string());
    }
    let output = bench.run(&["compare", "--join", "a.json", "b.json", "c.json", "--json"]);
    let joined = assert_fits(&output.stdout, "baremark-joined/2");
    let rows = joined["rows"].as_array().unwrap();
    let found: Vec<(u64, &str)> =
        rows.iter().map(|row| (row["side"].as_u64().unwrap(), row["outcome"].as_str().unwrap())).collect();
    assert_eq!((found.len(), found[0]), (2, (0, "slower_by_more")), "{joined:#}");
    for (row, expected) in rows.iter().zip([0.8 / 0.9, 1.0]) {
        assert!((row["ratio"].as_f64().unwrap() / expected - 1.0).abs() < 1e-9, "{joined:#}");
    }
    let output = bench.run(&["compare", "--join", "a.json", "b.json", "c.json"]);
    let said = text(&output.stdout).split_whitespace().collect::<Vec<_>>().join(" ");
    for part in ["other 1 b on ", "other 2 c on ", "machine.kernel.release 6.1 -> 6.2 -> 6.8"] {
        assert!(said.contains(part), "no {part} in {said}");
    }
    for (arguments, says) in [
        (&["compare", "--join", "a.json", "a.json"][..], "is named twice"),
        (&[&["compare", "--join"][..], &["a.json"; 9][..]].concat(), "9 sides are named; join 2 to 8"),
        (&["compare", "a.json", "b.json", "c.json"], "--join"),
        (&["compare", "a.json"], "<BASE> <OTHER> baremark compare --join <BASE> <OTHER> [MORE]..."),
    ] {
        let output = bench.run(arguments);
        let said = text(&output.stderr).split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(says), "{said}");
    }
}

/// A document of an earlier version has the names that its factors had then; today's are enough for it.
#[test]
fn a_document_with_a_former_name_of_a_factor_is_compared_by_the_name_of_today() {
    let bench = Bench::new();
    let document = golden("start-up");
    assert!(document.contains("\"place\"") && !document.contains("server_environment"));
    bench.write("then.json", document);
    let output = bench.run(&["compare", "then.json:place=process", "then.json:server_environment=microvm", "--json"]);
    let said = text(&output.stderr).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(output.status.success(), "{said}");
    assert_eq!(said.matches("'place' is called 'server_environment' now").count(), 1, "{said}");
    let comparison = assert_fits(&output.stdout, "baremark-comparison/2");
    let rows = comparison["rows"].as_array().unwrap();
    // At once 1 and 4, from a warm and a cold cache.
    assert_eq!(rows.len(), 4, "{comparison:#}");
    for row in rows {
        let factors: Vec<&String> = row["treatment"].as_object().unwrap().keys().collect();
        assert_eq!(factors, ["at_once", "cache", "ranks"], "{row:#}");
    }
    assert_eq!(comparison["other"]["levels"]["server_environment"], "microvm", "{comparison:#}");
}

/// What a command calls `place` is its own, also next to a workload that has another name for it today.
#[test]
fn a_document_of_several_workloads_has_the_names_of_each() {
    let mut then = document("start-up");
    "command, start-up".clone_into(&mut then.run.workload);
    let parameters = [("command.place", "here"), ("start-up.place", "there")];
    then.run.parameters = BTreeMap::from(parameters.map(|(key, value)| (key.to_owned(), value.to_owned())));
    for row in &mut then.estimates {
        row.treatment.insert("workload".to_owned(), "start-up".to_owned());
    }
    let mut of_both = then.clone();
    renamed::document(&mut then);
    assert!(then.estimates.iter().all(|row| row.treatment.contains_key("server_environment")));
    assert_eq!(then.run.factors[0].0, "server_environment");
    assert_eq!(then.run.parameters.keys().collect::<Vec<_>>(), ["command.place", "start-up.server_environment"]);
    of_both.estimates[0].treatment.insert("workload".to_owned(), "command".to_owned());
    renamed::document(&mut of_both);
    assert!(of_both.estimates.iter().all(|row| row.treatment.contains_key("place")));
    assert_eq!(of_both.run.factors[0].0, "place");
}
