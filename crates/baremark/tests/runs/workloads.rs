//! Loads and applications as workloads of ordinary studies: stored, killed, resumed, listed, compared, checked, compared with
//! themselves, drawn, and nothing left of them.

use crate::common::bench::{Bench, children, signal, text};
use crate::common::http::Server;
use crate::common::points::{kill, one_stopped, stopped_at};
use crate::common::sites::wait_for;
use crate::common::studied::{AUCTION, LOAD, Studied};
use crate::common::tiers::{all_gone, offspring, without_pictures};
use baremark_sys::point::STOP_AT;
use serde_json::Value;
use std::fs;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

/// Starts a run whose agents stop after the second of their four phases.
fn starts(studied: &Studied, arguments: &[&str]) -> Child {
    studied.command(arguments).env(STOP_AT, HALF).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

/// The point at which agents have done two phases.
const HALF: &str = "phase-done:2";

/// Kills a run in the middle of a trial, when one that counts is stored: what is stored stays as it is. On a machine so busy that nothing ended in a
/// phase the trial failed, with or without its agent's reaching the point, and the next one is waited for.
fn kill_after_one_that_counts(studied: &Studied) -> (Vec<String>, Vec<String>) {
    let mut lab = starts(studied, &["run", "study.toml"]);
    let (id, mut seen) = (lab.id(), Vec::new());
    let (agent, before) = loop {
        let others = || children(id).into_iter().filter(|pid| !seen.contains(pid)).collect();
        let agent = one_stopped(&mut lab, HALF, others);
        let stored = studied.stored();
        if stored.iter().any(|line| line.contains(",ok,")) {
            break (agent, stored);
        }
        seen.push(agent);
        signal(agent, libc::SIGCONT);
    };
    let processes = offspring(id);
    assert!(processes.contains(&agent));
    kill(&mut lab);
    // It ends when it finds the lab gone.
    signal(agent, libc::SIGCONT);
    all_gone(&processes);
    let left = studied.folders();
    let run = &studied.json(&["history", "--json"])["runs"][0];
    assert_eq!(run["state"], "killed", "{run:#}");
    assert_eq!(studied.stored(), before, "of the trial that was killed nothing is stored");
    (before, left)
}

/// What was stored before, in each block in which something was, is what is stored of it.
fn assert_kept(studied: &Studied, before: &[String]) {
    let blocks: Vec<&str> = before.iter().filter_map(|line| line.split(',').next()).collect();
    let of_then = |line: &String| line.split(',').next().is_some_and(|block| blocks.contains(&block));
    let now: Vec<String> = studied.stored().into_iter().filter(of_then).collect();
    assert_eq!(now, before, "the trials that were finished are as they were");
}

/// The forms of a report, and a comparison of the two levels. On a machine so busy that half of the trials do not count that is said, and there is no more to see.
fn reported(studied: &Studied, metric: &str, unit: &str, factor: &str, [base, other]: [&str; 2]) -> Option<Value> {
    let document = studied.json(&["report", "--json"]);
    let ratio = &document["ratios"][0];
    assert_eq!((&ratio["metric"], &ratio["contrast"]), (&metric.into(), &"factor".into()), "{ratio:#}");
    if blocks(&document) < 4 {
        let words = format!("not enough data: {} of 4 blocks", blocks(&document));
        assert_eq!((&ratio["words"], &ratio["lo"]), (&words.into(), &Value::Null), "{ratio:#}");
        assert!(counted(&document) < 4, "each that counts has a ratio");
        return None;
    }
    for key in ["ratio", "lo", "hi"] {
        assert!(ratio[key].as_f64().is_some_and(|value| value > 0.0), "{key}: {ratio:#}");
    }
    assert_eq!((&ratio["treatment"][factor], &ratio["relative_to"][factor]), (&other.into(), &base.into()));
    let estimates = document["estimates"].as_array().unwrap();
    let row = estimates.iter().find(|row| row["metric"] == metric && row["treatment"][factor] == base).unwrap();
    assert_eq!(row["unit"], unit);
    assert!(row["lo"].as_f64() <= row["estimate"].as_f64() && row["estimate"].as_f64() <= row["hi"].as_f64(), "{row}");

    let shown = studied.text(&["report", "--details"]);
    assert!(shown.contains(unit), "{shown}");
    // In the unit in which they are not all below one.
    assert!(["ms", "us"].iter().any(|time| shown.contains(&format!("latency ({time}), "))), "{shown}");
    let results = studied.text(&["report", "--csv"]);
    assert!(results.contains(&format!("\r\nestimate,{metric},{unit},{base},")), "{results}");
    let trials = studied.text(&["report", "--csv=trials"]);
    let ending = ",metric,value,elapsed_ns,flags,member,phase,part,begin_ns,end_ns";
    assert!(trials.lines().next().unwrap().ends_with(ending), "{trials}");

    let page = studied.bench.path("page.html");
    studied.text(&["report", "--html", page.to_str().unwrap()]);
    let page = fs::read_to_string(page).unwrap();
    assert!(
        page.contains("<svg") && page.contains("class=\"compared\"") && page.contains("ratio in each block"),
        "no plot"
    );
    for dump in ["histogram", "Literal(", "HISTF", "auction_request"] {
        assert!(!page.contains(dump), "the page has {dump}");
    }

    let id = document["run"]["id"].as_str().unwrap();
    let side = |level: &str| format!("{id}:{factor}={level}");
    let compared = studied.json(&["compare", &side(base), &side(other), "--json"]);
    let row = &compared["rows"][0];
    assert_eq!((&row["metric"], row["base_units"].as_u64()), (&metric.into(), Some(blocks(&document))), "{row:#}");
    // Levels of one run are compared as the run itself compares them.
    let [found, own] = [row, ratio].map(|row| row["ratio"].as_f64().unwrap());
    assert!((found / own - 1.0).abs() < 1e-9, "{found} is not the run's own {own}");
    Some(document)
}

fn blocks(document: &Value) -> u64 {
    document["ratios"][0]["blocks"].as_u64().unwrap()
}

/// Trials that count, of the four that are planned; each other one says why it does not.
fn counted(document: &Value) -> u64 {
    let trials = document["trials"].as_array().unwrap();
    let explained =
        |trial: &Value| trial["status"] == "ok" || trial["reason"].is_string() || trial["reasons"].is_array();
    assert!(trials.len() == 4 && trials.iter().all(explained), "{document:#}");
    // What ended after the end of a phase is in no rate; an arm of which no phase has one is in no ratio.
    let has_ratio = |trial: &&Value| {
        let has_rate = |arm: &Value| arm["phases"].as_array().unwrap().iter().any(|phase| phase.as_f64() > Some(0.0));
        trial["status"] == "ok" && trial["arms"].as_array().unwrap().iter().all(has_rate)
    };
    trials.iter().filter(has_ratio).count() as u64
}

/// Files made of a run, three a side, with steady values of `metric`, half as large on the other side: they are compared and checked.
fn compared_and_checked(studied: &Studied, document: &Value, metric: &str) {
    for (side, factor) in [("base", 1.0), ("other", 0.5)] {
        fs::create_dir(studied.bench.path(side)).unwrap();
        for (index, wander) in [1.0, 1.01, 0.99].iter().enumerate() {
            let mut document = document.clone();
            document["run"]["id"] = format!("{side}{index}").into();
            // What was measured may be anything on a busy machine.
            for (trial, shift) in
                document["trials"].as_array_mut().unwrap().iter_mut().zip([1.0, 1.003, 0.998].iter().cycle())
            {
                for sample in trial["arms"].as_array_mut().unwrap().iter_mut().flat_map(medians) {
                    if sample["metric"] == metric {
                        sample["value"] = (1000.0 * shift * wander * factor).into();
                    }
                }
            }
            studied.bench.write(&format!("{side}/{index}.json"), document.to_string());
        }
    }
    let compared = studied.json(&["compare", "base", "other", "--json"]);
    let rows: Vec<&Value> = compared["rows"].as_array().unwrap().iter().filter(|row| row["ratio"].is_f64()).collect();
    assert!(rows.iter().any(|row| row["metric"] == metric && row["outcome"] == "slower_by_more"), "{compared:#}");
    // Other metrics are as they were measured: where the machine was busy the gate may not rule out a loss of 5 % in one (5).
    for (sides, codes, words) in [
        (["base", "other"], &[4][..], "FAIL: slower by at least"),
        (["other", "base"], &[0, 5], "faster by"),
        (["base", "other/0.json,other/1.json"], &[5], "not enough data"),
    ] {
        let output = studied.run(&["check", "--against", sides[0], sides[1]]);
        let said = text(&output.stdout) + &text(&output.stderr);
        assert!(output.status.code().is_some_and(|code| codes.contains(&code)), "{said}");
        assert!(said.split_whitespace().collect::<Vec<_>>().join(" ").contains(words), "{said}");
    }
}

fn medians(arm: &mut Value) -> &mut Vec<Value> {
    arm["medians"].as_array_mut().unwrap()
}

/// Every treatment against itself, where more than half of the trials count.
fn compared_with_itself(document: &Value) {
    let ratios = document["ratios"].as_array().unwrap();
    let own: Vec<&Value> = ratios.iter().filter(|ratio| ratio["ratio"].is_f64()).collect();
    let trials = document["trials"].as_array().unwrap();
    let lost = trials.iter().filter(|trial| trial["status"] != "ok").count();
    assert!(!own.is_empty() || 2 * lost >= trials.len(), "{document:#}");
    for ratio in own {
        assert_eq!((&ratio["contrast"], &ratio["treatment"]), (&"self_check".into(), &ratio["relative_to"]));
        let [lo, estimate, hi] = ["lo", "ratio", "hi"].map(|key| ratio[key].as_f64());
        assert!(estimate > Some(0.0) && lo.is_none_or(|lo| Some(lo) <= estimate), "{ratio}");
        assert!(hi.is_none_or(|hi| Some(hi) >= estimate), "{ratio}");
    }
}

fn study(server: &Server) -> String {
    LOAD.replace("ADDRESS", &server.address.to_string())
}

#[test]
fn a_load_is_an_ordinary_study() {
    let server = Server::start();
    let studied = Studied::new(&study(&server));
    let (stored, _) = kill_after_one_that_counts(&studied);
    let document = studied.json(&["resume", "--json"]);
    assert!(document["run"]["ended"].is_string() && blocks(&document) == counted(&document), "{document:#}");
    assert_kept(&studied, &stored);
    assert_eq!(studied.json(&["history", "--json"])["runs"].as_array().unwrap().len(), 1);
    let document = reported(&studied, "requests_per_s", "requests/s", "connections", ["1", "2"]);
    assert!(stored.iter().any(|line| line.contains(",requests_per_s,") && line.contains(",all,")), "{stored:#?}");
    if let Some(document) = document {
        compared_and_checked(&studied, &document, "requests_per_s");
    }
    compared_with_itself(&studied.json(&["run", "study.toml", "--aa", "--json"]));
    assert_eq!(studied.folders(), [""; 0]);
}

#[test]
fn an_auction_is_an_ordinary_study_and_an_interrupt_leaves_nothing() {
    let studied = Studied::new(AUCTION);
    let own = format!("[topology.load]\nscenario = \"{}\"\n", without_pictures(&studied.bench).display());
    // Whether a commit waits for the disk is not varied: where others write, that may take longer than a phase.
    let study = AUCTION
        .replace("[topology.load]\n", &own)
        .replace("\nusers = 20\nduration = \"200 ms\"", "\nduration = \"600 ms\"")
        .replace("[topology.app.settings]\n", "[topology.app.settings]\ndurable = \"off\"\n")
        .replace("\"app.settings.durable\" = [\"on\", \"off\"]", "users = [10, 20]")
        .replace("\"app.settings.durable\" = \"on\"", "users = 10")
        .replace("columns = \"app.settings.durable\"", "columns = \"users\"");
    assert!(["600 ms", "durable = \"off\"", "[10, 20]"].iter().all(|part| study.contains(part)), "{study}");
    studied.bench.write("study.toml", &study);
    let (stored, left) = kill_after_one_that_counts(&studied);
    assert!(!left.is_empty(), "the killed run has left its folders");
    assert_eq!(studied.folders(), [""; 0], "the next command, which lists runs, removed it");

    let mut lab = starts(&studied, &["resume"]);
    let id = lab.id();
    let agent = one_stopped(&mut lab, HALF, || children(id));
    let processes = offspring(id);
    signal(id, libc::SIGINT);
    signal(agent, libc::SIGCONT);
    assert_eq!(lab.wait().unwrap().code(), Some(130));
    assert_eq!(studied.folders(), [""; 0], "its folders went with it, and those of the killed run before");
    all_gone(&processes);
    assert_kept(&studied, &stored);

    let document = studied.json(&["resume", "--json"]);
    assert!(document["run"]["ended"].is_string() && blocks(&document) == counted(&document), "{document:#}");
    assert_kept(&studied, &stored);
    let document = reported(&studied, "operations_per_s", "operations/s", "users", ["10", "20"]);
    let has = |words: &[&str]| stored.iter().any(|line| words.iter().all(|words| line.contains(words)));
    // Which operations a short phase has is drawn; these are all that there are.
    let of_one = ["login", "home", "auctions", "logout"].iter().any(|name| has(&[",succeeded,", &format!(",{name},")]));
    assert!(of_one && has(&[",latency_p50_ms,"]), "{stored:#?}");
    if let Some(document) = document {
        compared_and_checked(&studied, &document, "operations_per_s");
    }

    let one_arm = study.replace("[10, 20]", "10").replace("_blocks = 4", "_blocks = 2");
    studied.bench.write(
        "study.toml",
        one_arm.lines().filter(|line| !line.starts_with("ratio_to")).collect::<Vec<_>>().join("\n"),
    );
    studied.json(&["run", "study.toml", "--aa", "--json"]);
    compared_with_itself(&studied.json(&["report", "--json"]));
    assert_eq!(studied.json(&["history", "--json"])["runs"].as_array().unwrap().len(), 2);
    assert_eq!(studied.folders(), [""; 0]);
}

#[test]
fn a_long_phase_of_a_load_ends_at_an_interrupt() {
    let server = Server::start();
    let studied = Studied::new(&study(&server).replace("100 ms", "5 min"));
    let running = studied.start(&["run", "study.toml"]);
    wait_for(|| (server.answered() > 10).then_some(()));
    let (processes, begun) = (offspring(running.child.id()), Instant::now());
    let (code, said) = running.end(libc::SIGINT);
    assert_eq!(code, Some(130), "{said}");
    assert!(begun.elapsed() < Duration::from_secs(120), "of five minutes it took {:?}", begun.elapsed());
    all_gone(&processes);
}

/// A trial fails for its own reason; the run continues until so many have in a row, and says why.
#[test]
fn a_server_that_dies_makes_failed_trials_with_its_reason() {
    let server = Server::start();
    let studied = Studied::new(&study(&server).replace("most_blocks = 4", "most_blocks = 9"));
    let mut command = studied.command(&["run", "study.toml"]);
    let log = fs::File::create(studied.bench.path("said")).unwrap();
    let mut lab = stopped_at(command.stdout(Stdio::null()).stderr(log), "trial-stored:1");
    server.shut();
    signal(lab.id(), libc::SIGCONT);
    assert_eq!(lab.wait().unwrap().code(), Some(1));
    let said = fs::read_to_string(studied.bench.path("said")).unwrap();
    assert!(said.contains("3 trials in a row did not count"), "{said}");
    let document = studied.json(&["report", "--json"]);
    let trials = document["trials"].as_array().unwrap();
    assert_eq!(trials.len(), 4, "{document:#}");
    let last = trials.last().unwrap();
    let reason = last["reason"].as_str().unwrap_or_default();
    assert_eq!(last["status"], "failed", "{last:#}");
    let (failed, rest) = reason.split_once(" operations failed: ").unwrap_or_else(|| panic!("{reason}"));
    assert!(failed.ends_with(|c: char| c.is_ascii_digit()), "{reason}");
    assert!(rest.ends_with("connections refused (no server listens at that address and port)"), "{reason}");
}
