//! What a run says.

use crate::bench::{Bench, SMALL, kvm, text};
use serde_json::Value;

fn array<'v>(value: &'v Value, key: &str) -> &'v Vec<Value> {
    value[key].as_array().unwrap_or_else(|| panic!("{key} is not an array: {value}"))
}

/// At least four in five trials count. One may be void on a machine that is not ours alone: the kernel may move a page in
/// the middle of a phase, and voiding that trial is what the program is for.
fn mostly_ok(document: &Value) -> bool {
    let trials = array(document, "trials");
    let odd: Vec<&Value> = trials.iter().filter(|trial| trial["status"] != "ok").collect();
    odd.iter().for_each(|trial| eprintln!("a trial that does not count: {trial:#}"));
    odd.len() * 5 <= trials.len()
}

#[test]
fn a_run_gives_one_document_with_everything_a_program_needs() {
    let bench = Bench::new();
    let study = bench.write("small.toml", SMALL);
    let document = bench.json(&["run", study.to_str().unwrap(), "--json"]);
    assert_eq!(document["format"], "baremark-result/2");
    let run = &document["run"];
    for key in ["id", "study", "machine", "started", "ended", "stop_reason"] {
        assert!(!run[key].is_null(), "run.{key}: {run}");
    }
    let estimates = array(&document, "estimates");
    let native = estimates.iter().find(|row| row["metric"] == "gups").expect("an estimate of GUP/s");
    assert_eq!(native["unit"], "GUP/s");
    assert_eq!(native["better"], "higher");
    assert_eq!(native["treatment"]["environment"], "native");
    let (lo, value, hi) = (&native["lo"], &native["estimate"], &native["hi"]);
    assert!(lo.as_f64() <= value.as_f64() && value.as_f64() <= hi.as_f64() && value.as_f64() > Some(0.0), "{native}");
    let empty = estimates.iter().find(|row| row["metric"] == "empty_region_ns").expect("the null executor's floor");
    assert_eq!(empty["treatment"]["environment"], "null");
    assert!(empty["estimate"].as_f64().unwrap() < 1e6, "an empty region of a millisecond: {empty}");
    let frame = estimates.iter().find(|row| row["metric"] == "frame_round_trip_ns").expect("a frame to and fro");
    assert_eq!(frame["treatment"]["environment"], "null");
    assert!(frame["estimate"].as_f64().is_some_and(|ns| ns > 500.0 && ns < 1e9), "a pipe there and back: {frame}");
    assert!(array(&document, "ratios").is_empty(), "the null executor is never part of a ratio");
    assert!(mostly_ok(&document));
}

#[test]
fn a_self_check_compares_every_treatment_with_itself() {
    let bench = Bench::new();
    let study = bench.write("small.toml", SMALL.replace("[\"native\", \"null\"]", "\"native\""));
    let document = bench.json(&["run", study.to_str().unwrap(), "--aa", "--json"]);
    let price = &bench.json(&["plan", study.to_str().unwrap(), "--aa", "--json"])["price"];
    assert_eq!((&price["source"], &price["run"]), (&"self_check".into(), &document["run"]["id"]), "{price:#}");
    assert!(price["noise"].as_f64() > Some(0.0) && price["seconds_per_block"].as_f64() > Some(0.08), "{price:#}");
    let plan = text(&bench.run(&["plan", study.to_str().unwrap(), "--aa"]).stdout);
    assert!(plan.contains("by the self-check") && plan.contains("requested"), "{plan}");
    // Where a busy machine does not fit enough blocks into a pilot, that says so, and how long it may take instead.
    let pilot = |time| bench.run(&["plan", study.to_str().unwrap(), "--aa", "--pilot", time, "--json"]);
    let short = pilot("8 s");
    let too_short = text(&short.stderr).contains("blocks fit 8 s; give it more time, such as --pilot '1 min'");
    let piloted = if too_short { pilot("1 min") } else { short };
    assert!(piloted.status.success(), "{}", text(&piloted.stderr));
    let piloted: Value = serde_json::from_slice(&piloted.stdout).unwrap();
    let price = &piloted["price"];
    assert!(price["source"] == "pilot" && price["of_blocks"].as_u64() >= Some(4), "{price:#}");
    let history = bench.json(&["history", "--json"]);
    assert_eq!(history["runs"][0]["id"], price["run"], "a pilot is a run: {history:#}");
    for level in array(price, "levels") {
        let of = |key: &str| level[key].as_f64();
        assert!(of("seconds_low") <= of("seconds") && of("seconds") <= of("seconds_high"), "{level}");
    }
    let ratios = array(&document, "ratios");
    assert_eq!(ratios.len(), 1, "{ratios:?}");
    let ratio = &ratios[0];
    assert_eq!(ratio["contrast"], "self_check");
    assert_eq!(ratio["treatment"], ratio["relative_to"]);
    assert!(mostly_ok(&document) && ratio["blocks"].as_u64() >= Some(5), "{ratio}");
    // Noise on a shared machine may leave a wide bound; what it must not do is to find a large difference.
    let value = ratio["ratio"].as_f64().expect("a ratio");
    assert!((0.4..2.5).contains(&value), "{ratio}");
}

#[test]
fn native_and_microvm_are_compared_in_one_process() {
    if !kvm() {
        return;
    }
    let bench = Bench::busy();
    let study =
        SMALL.replace("[\"native\", \"null\"]", "[\"native\", \"microvm\"]").replace("\"4k\"", "[\"4k\", \"2m\"]");
    let study = bench.write("small.toml", study.replace("\"2m\"]", "\"2m\"]\nhost_backing = \"2m\""));
    let document = bench.json(&["run", study.to_str().unwrap(), "--quick", "--json"]);
    let (asked, contrasts): (Vec<&Value>, Vec<&Value>) =
        array(&document, "ratios").iter().partition(|ratio| ratio["contrast"] == "environment");
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
        // Six, unless a machine busy with other work ends the budget before: then there is no interval.
        assert!(ratio["blocks"].as_u64() >= Some(3), "{ratio}");
        let (lo, value, hi) = (ratio["lo"].as_f64(), ratio["ratio"].as_f64().unwrap(), ratio["hi"].as_f64());
        let bounded = lo.is_some() && lo <= Some(value) && Some(value) <= hi;
        assert_eq!(bounded, ratio["blocks"].as_u64() >= Some(6), "{ratio}");
        assert!((0.2..3.0).contains(&value), "{ratio}");
    }
    assert!(mostly_ok(&document));
    for trial in array(&document, "trials") {
        assert!(trial["arms"][1]["mmu"].is_string(), "the MMU virtualization is stated: {trial:#}");
        assert!(trial["arms"][0]["mmu"].is_null());
    }
}

#[test]
fn history_and_report_show_what_was_run() {
    let bench = Bench::new();
    let study = bench.write("small.toml", SMALL);
    let first = bench.json(&["run", study.to_str().unwrap(), "--quick", "--json"]);
    let history = bench.json(&["history", "--json"]);
    assert_eq!(history["runs"][0]["id"], first["run"]["id"]);
    assert_eq!(history["runs"][0]["state"], "finished");
    let again = bench.json(&["report", first["run"]["id"].as_str().unwrap(), "--json"]);
    assert_eq!(again, first, "a report is worked out anew from the trials and must be the same");
    let csv = text(&bench.run(&["report", "--csv"]).stdout);
    assert!(csv.starts_with("kind,metric,unit,environment,"), "{csv}");
    assert!(csv.contains("\r\nestimate,gups,GUP/s,native,"), "{csv}");
    let trials = text(&bench.run(&["report", "--csv=trials"]).stdout);
    assert!(trials.lines().count() > 20 && trials.contains("\r\n0,"), "{trials}");
    let both = bench.run(&["report", "--csv", "--html", "page.html"]);
    assert_eq!(both.status.code(), Some(2), "{}", text(&both.stderr));
    let page_and_document = bench.json(&["report", "--html", bench.path("page.html").to_str().unwrap(), "--json"]);
    assert_eq!(page_and_document, first);
    assert!(std::fs::read_to_string(bench.path("page.html")).unwrap().contains("a small study"));
    let shown = bench.run(&["report"]);
    assert!(text(&shown.stdout).contains("a small study"), "{}", text(&shown.stdout));
    assert!(text(&shown.stdout).contains(first["run"]["id"].as_str().unwrap()));
}
