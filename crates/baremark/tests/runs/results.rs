//! What a run says.

use crate::common::bench::{Bench, SMALL, kvm, small_of_four_blocks, text, unbroken};
use crate::common::outcome::{counted, measured, rows, sound};
use crate::common::played::{PLAYED, noisy, noisy_level};
use serde_json::{Value, json};

#[test]
fn a_run_gives_one_document_with_everything_a_program_needs() {
    let bench = Bench::new();
    let study = bench.write("small.toml", small_of_four_blocks());
    let (document, _) = measured(&bench, &["run", study.to_str().unwrap(), "--json"]);
    assert_eq!(document["format"], "baremark-result/2");
    let run = &document["run"];
    for key in ["id", "study", "machine", "started", "ended", "stop_reason"] {
        assert!(!run[key].is_null(), "run.{key}: {run}");
    }
    let row = |metric: &str, environment: &str, unit: &str, better: &str| {
        let treatment = json!({ "environment": environment, "page": "4k", "ranks": "1" });
        let found = rows(&document, "estimates").iter().find(|row| row["metric"] == metric);
        assert_eq!(found.is_some(), counted(&document, &treatment) > 0, "{metric}: {document:#}");
        if let Some(row) = found {
            assert_eq!((&row["unit"], &row["better"]), (&unit.into(), &better.into()), "{row}");
            assert_eq!(row["treatment"], treatment);
            assert!(row["estimate"].as_f64() > Some(0.0), "{row}");
        }
    };
    row("gups", "native", "GUP/s", "higher");
    // The null executor's floor, and a frame to and fro.
    row("empty_region_ns", "null", "ns", "lower");
    row("frame_round_trip_ns", "null", "ns", "lower");
    assert!(rows(&document, "ratios").is_empty(), "the null executor is never part of a ratio");
}

#[test]
fn a_self_check_compares_every_treatment_with_itself() {
    let bench = Bench::new();
    let study = bench.write("noisy.toml", noisy(&bench));
    let study = study.to_str().unwrap();
    let document = bench.json(&["run", study, "--aa", "--json"]);
    sound(&document);
    let price = &bench.json(&["plan", study, "--aa", "--json"])["price"];
    assert_eq!((&price["source"], &price["run"]), (&"self_check".into(), &document["run"]["id"]), "{price:#}");
    assert!(price["noise"].as_f64() > Some(0.0) && price["seconds_per_block"].as_f64() > Some(0.0), "{price:#}");
    let plan = unbroken(&bench.run(&["plan", study, "--aa"]).stdout);
    assert!(plan.contains("by the self-check") && plan.contains("requested"), "{plan}");
    let ratios: Vec<&Value> = rows(&document, "ratios").iter().filter(|row| row["metric"] == "rate").collect();
    assert_eq!(ratios.len(), 2, "{ratios:?}");
    for ratio in ratios {
        assert_eq!((&ratio["contrast"], &ratio["blocks"]), (&"self_check".into(), &10.into()), "{ratio}");
        assert_eq!(ratio["treatment"], ratio["relative_to"]);
        // Every printed rate of a level is one of seven.
        let value = ratio["ratio"].as_f64().unwrap();
        assert!((1000.0 / 1006.0..=1006.0 / 1000.0).contains(&value), "{ratio}");
    }
}

/// A report said `baremark run 'noisy.toml (changed)'`, a study that is not there.
#[test]
fn the_study_of_a_run_that_the_command_line_has_changed_is_shown_and_runs_again() {
    let bench = Bench::new();
    let study = bench.write("played.toml", PLAYED);
    let few = ["--set", "design.least_blocks=4", "--set", "design.most_blocks=4"];
    let first = bench.json(&[&["run", study.to_str().unwrap(), "--json"], &few[..]].concat());
    let id = first["run"]["id"].as_str().unwrap();
    let report = bench.run(&["report", id, "--details"]);
    let line = format!("baremark show {id} >study.toml && baremark run study.toml");
    assert!(
        text(&report.stdout).replace('\n', " ").split_whitespace().collect::<Vec<_>>().join(" ").contains(&line),
        "{}",
        text(&report.stdout)
    );
    let shown = bench.run(&["show", id]);
    assert!(shown.status.success(), "{}", text(&shown.stderr));
    let again = bench.write("again.toml", text(&shown.stdout));
    let second = bench.json(&["run", again.to_str().unwrap(), "--json"]);
    let blocks =
        |document: &Value| document["trials"].as_array().unwrap().iter().map(|trial| trial["block"].as_u64()).max();
    assert_eq!((blocks(&first), blocks(&second)), (Some(Some(3)), Some(Some(3))));
    let unknown = bench.run(&["show", "nothing-of-that-name"]);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(text(&unknown.stderr).contains("no shipped study 'nothing-of-that-name'"), "{}", text(&unknown.stderr));
}

#[test]
fn a_pilot_is_a_run_of_its_own_from_which_a_plan_is_priced() {
    let bench = Bench::new();
    let study = bench.write("noisy.toml", noisy_level(&bench));
    let command = ["plan", study.to_str().unwrap(), "--aa", "--json"];
    let pilot = |time| bench.run(&[&command[..], &["--pilot", time]].concat());
    let short = pilot("1 ns");
    let said = text(&short.stderr);
    assert_eq!(short.status.code(), Some(1), "{said}");
    assert!(said.contains("fewer than 4 blocks after 1 ns; give it more time, such as --pilot '1 min'"), "{said}");
    // It ends with its blocks.
    let piloted = pilot("24 h");
    assert!(piloted.status.success(), "{}", text(&piloted.stderr));
    let piloted: Value = serde_json::from_slice(&piloted.stdout).unwrap();
    let price = &piloted["price"];
    assert!(price["source"] == "pilot" && price["of_blocks"] == 40, "{price:#}");
    let history = bench.json(&["history", "--json"]);
    assert_eq!(history["runs"][0]["id"], price["run"], "a pilot is a run: {history:#}");
    // The plan of a pilot follows from its study, whether or not that is shortened.
    let quick = bench.run(&[&command[..], &["--quick", "--pilot", "24 h"]].concat());
    assert!(quick.status.success(), "{}", text(&quick.stderr));
    let history = bench.json(&["history", "--json"]);
    for run in rows(&history, "runs") {
        let run = run["id"].as_str().unwrap();
        let bundled = bench.run(&["bundle", run, "-o", &format!("{run}.tar.gz")]);
        assert!(bundled.status.success(), "{}", text(&bundled.stderr));
        let verified = bench.run(&["verify", &format!("{run}.tar.gz")]);
        let said = text(&verified.stdout) + &text(&verified.stderr);
        assert!(verified.status.success() && said.contains("the plan from the study's text"), "{run}: {said}");
    }
    for level in rows(price, "levels") {
        let of = |key: &str| level[key].as_f64();
        assert!(of("seconds_low") <= of("seconds") && of("seconds") <= of("seconds_high"), "{level}");
    }
}

/// A second pilot was refused for the file that the first had filled, and left a run without a trial, which `resume` took for the latest unfinished one.
#[test]
fn a_pilot_that_may_not_begin_leaves_no_run() {
    let bench = Bench::new();
    let file = bench.write("disk", "mine");
    let study = format!(
        "[study]\ntitle = \"t\"\n[workload]\nkind = \"block\"\nfile = {file:?}\nsize = \"1 MiB\"\ncache = \"buffered\"\n[factors]\nenvironment = \"native\"\nranks = 1\n"
    );
    bench.write("study.toml", study);
    let pilot = bench.run(&["plan", "study.toml", "--aa", "--pilot", "1 s"]);
    let said = unbroken(&pilot.stderr);
    assert_eq!(pilot.status.code(), Some(2), "{said}");
    assert!(said.contains("--pilot: the study may not be run unasked ("), "{said}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "mine");
    assert!(!bench.store().exists(), "nothing was begun");
}

#[test]
fn native_and_microvm_are_compared_in_one_process() {
    if !kvm() {
        return;
    }
    let bench = Bench::new();
    let study =
        SMALL.replace("[\"native\", \"null\"]", "[\"native\", \"microvm\"]").replace("\"4k\"", "[\"4k\", \"2m\"]");
    let study = study.replace("\"2m\"]", "\"2m\"]\nhost_backing = \"2m\"").replace("20 ms", "5 ms");
    let study = bench.write("small.toml", study);
    let (document, _) = measured(&bench, &["run", study.to_str().unwrap(), "--quick", "--json"]);
    let (asked, contrasts): (Vec<&Value>, Vec<&Value>) =
        rows(&document, "ratios").iter().partition(|ratio| ratio["contrast"] == "environment");
    assert_eq!((asked.len(), contrasts.len()), (2, 2), "{document:#}");
    for contrast in contrasts {
        assert_eq!(contrast["contrast"], "page_size", "{contrast}");
        assert_eq!(contrast["treatment"]["environment"], contrast["relative_to"]["environment"]);
    }
    for ratio in asked {
        assert_eq!(
            ratio["treatment"]["page"], ratio["relative_to"]["page"],
            "a page-size contrast is not a cost of a VM"
        );
        // An interval takes as many blocks as the smallest study has.
        assert_eq!(ratio["lo"].is_null(), ratio["blocks"].as_u64() < Some(6), "{ratio}");
    }
    for trial in rows(&document, "trials").iter().filter(|trial| trial["status"] != "failed") {
        assert!(trial["arms"][1]["mmu"].is_string(), "the MMU virtualization is stated: {trial:#}");
        assert!(trial["arms"][0]["mmu"].is_null());
    }
}

#[test]
fn history_and_report_show_what_was_run() {
    let bench = Bench::new();
    let study = bench.write("played.toml", PLAYED);
    let first = bench.json(&["run", study.to_str().unwrap(), "--quick", "--json"]);
    let history = bench.json(&["history", "--json"]);
    assert_eq!(history["runs"][0]["id"], first["run"]["id"]);
    assert_eq!(history["runs"][0]["state"], "finished");
    let again = bench.json(&["report", first["run"]["id"].as_str().unwrap(), "--json"]);
    assert_eq!(again, first, "a report is worked out anew from the trials and must be the same");
    let csv = text(&bench.run(&["report", "--csv"]).stdout);
    assert!(csv.starts_with("kind,metric,unit,rate,"), "{csv}");
    assert!(csv.contains("\r\nestimate,rate,1/s,130,"), "{csv}");
    let trials = text(&bench.run(&["report", "--csv=trials"]).stdout);
    assert!(trials.lines().count() > rows(&first, "trials").len() && trials.contains("\r\n0,"), "{trials}");
    let both = bench.run(&["report", "--csv", "--html", "page.html"]);
    assert_eq!(both.status.code(), Some(2), "{}", text(&both.stderr));
    let page_and_document = bench.json(&["report", "--html", bench.path("page.html").to_str().unwrap(), "--json"]);
    assert_eq!(page_and_document, first);
    assert!(std::fs::read_to_string(bench.path("page.html")).unwrap().contains("a played study"));
    let shown = bench.run(&["report"]);
    assert!(text(&shown.stdout).contains("a played study"), "{}", text(&shown.stdout));
    assert!(text(&shown.stdout).contains(first["run"]["id"].as_str().unwrap()));
}
