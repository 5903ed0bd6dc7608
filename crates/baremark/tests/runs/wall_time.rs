//! A wall clock that steps by an hour in both directions while the program measures, and between its runs: no duration moves, nor the order
//! of trials, of runs, or of what a report draws over time.

use crate::common::bench::{Bench, small_of_four_blocks, text};
use crate::common::http::server;
use crate::common::points::{kill, stopped_at};
use baremark_sys::wall::STEPS;
use serde_json::Value;
use std::process::Stdio;
use std::time::Instant;

/// Each process reads the clock in turn as it is, an hour ahead and an hour behind.
const ALL_THE_TIME: &str = "0,3600,-3600";

/// Runs the program while its clock steps; how long it took, in ns, by this process's clock.
fn stepped(bench: &Bench, steps: &str, arguments: &[&str]) -> (Value, i64) {
    let begun = Instant::now();
    let output = bench.command(arguments).env(STEPS, steps).output().unwrap();
    let took = i64::try_from(begun.elapsed().as_nanos()).unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    (serde_json::from_slice(&output.stdout).unwrap(), took)
}

/// When a run began and ended, and each of its trials with its time, in the order in which they were stored.
type Times = ((i64, i64), Vec<(i64, i64)>);

fn times(bench: &Bench, run: &str) -> Times {
    let store = rusqlite::Connection::open(bench.store()).unwrap();
    let ends = "SELECT started_ns, ended_ns FROM run WHERE id = ?1";
    let ends = store.query_row(ends, [run], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    let mut trials = store.prepare("SELECT started_ns, elapsed_ns FROM trial WHERE run = ?1 ORDER BY seq").unwrap();
    let trials = trials.query_map([run], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    (ends, trials.map(Result::unwrap).collect())
}

/// A run of one process lasts no longer than that, and its trials follow each other within it.
fn is_sound(((started, ended), trials): &Times, took: i64) {
    assert!((0..=took).contains(&(ended - started)), "{started} to {ended} within {took} ns");
    assert!(!trials.is_empty() && trials.is_sorted_by_key(|(started, _)| *started), "{trials:?}");
    for (began, elapsed) in trials {
        assert!((1..=took).contains(elapsed), "{elapsed} of {took} ns");
        assert!(began >= started && began + elapsed <= *ended, "{began} + {elapsed} within {started} to {ended}");
    }
}

fn latest(bench: &Bench) -> String {
    bench.json(&["history", "--json"])["runs"][0]["id"].as_str().unwrap().to_owned()
}

#[test]
fn steps_of_the_clock_move_no_duration_and_no_order_of_runs() {
    let bench = Bench::new();
    bench.write("small.toml", small_of_four_blocks());
    let (document, took) = stepped(&bench, ALL_THE_TIME, &["run", "small.toml", "--json"]);
    let first = document["run"]["id"].as_str().unwrap();
    is_sound(&times(&bench, first), took);
    let mut seen = 0;
    for point in
        document["observed"]["series"].as_array().into_iter().flatten().flat_map(|of| of["points"].as_array().unwrap())
    {
        let at_s = point[0].as_f64().unwrap();
        // A stamp of an observation is in whole nanoseconds.
        assert!((0.0..=took as f64 / 1e9 + 1e-6).contains(&at_s), "{at_s} s of {took} ns");
        seen += 1;
    }
    assert!(seen > 0, "nothing was observed: {document:#}");

    // The clock is set back by an hour, and then it is right again.
    for steps in ["-3600", "0"] {
        let before = latest(&bench);
        let (document, took) = stepped(&bench, steps, &["run", "small.toml", "--json"]);
        let id = document["run"]["id"].as_str().unwrap();
        is_sound(&times(&bench, id), took);
        assert_eq!(latest(&bench), id, "the history has it first");
        assert_eq!(bench.json(&["report", "--json"])["run"]["id"], id, "it is what is reported");
        assert!(times(&bench, &before).0.1 < times(&bench, id).0.0, "it began after the one before had ended");
    }
}

#[test]
fn a_run_that_is_resumed_after_the_clock_was_set_back_continues_in_order() {
    let bench = Bench::new();
    bench.write("small.toml", small_of_four_blocks());
    let mut command = bench.command(&["run", "small.toml"]);
    let streams = command.env(STEPS, "3600").stdout(Stdio::null()).stderr(Stdio::null());
    kill(&mut stopped_at(streams, "trial-stored:3"));
    let begun = Instant::now();
    let output = bench.command(&["resume"]).env(STEPS, "0").output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let took = i64::try_from(begun.elapsed().as_nanos()).unwrap();
    let ((started, ended), trials) = times(&bench, &latest(&bench));
    assert!(started <= trials[0].0 && trials.is_sorted_by_key(|(started, _)| *started), "{started}: {trials:?}");
    assert!(trials.len() > 3 && trials.iter().all(|(began, elapsed)| began + elapsed <= ended), "{trials:?}, {ended}");
    // What the second process did took no longer than itself.
    assert!(trials[3..].iter().all(|(_, elapsed)| (1..=took).contains(elapsed)), "{trials:?} within {took} ns");
    assert!((0..=took).contains(&(ended - trials[3].0)), "{trials:?} to {ended} within {took} ns");
}

#[test]
fn a_load_under_a_clock_that_steps_took_as_long_as_it_took() {
    let bench = Bench::new();
    let url = format!("http://{}/", server());
    let (_, took) = stepped(&bench, ALL_THE_TIME, &["load", &url, "--count", "50", "--timeout", "5 min", "--json"]);
    let of = times(&bench, &latest(&bench));
    assert_eq!(of.1.len(), 1);
    is_sound(&of, took);
}
