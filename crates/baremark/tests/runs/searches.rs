//! Searches of `baremark load` for the largest load: what they read, store and report. What they find is judged by `measured`.

use crate::common::bench::{Bench, text};
use crate::common::http::{bucket, server};
use crate::common::news::{DELAY_NS, SCENARIO, news};
use crate::common::points::{interrupt, kill, stopped_at};
use crate::common::schemas::assert_fits;
use baremark_model::maximum::{Document as Maximum, Ended, Said, Window};
use std::process::Stdio;

const SEARCH: [&str; 16] = [
    "--find-max",
    // What else runs decides nothing here.
    "--count-disturbed",
    "--limit",
    "failures<10%",
    "--between",
    "100..2000",
    "--trials",
    "1",
    "--window",
    "200 ms",
    "--settle",
    "50 ms",
    "--connections",
    "32",
    // Few levels.
    "--step",
    "30%",
];

/// The rows of a search's windows as comma-separated values.
fn rows(bench: &Bench) -> Vec<String> {
    let csv = text(&bench.run(&["report", "--csv"]).stdout);
    let mut lines = csv.lines();
    assert_eq!(lines.next(), Some("trial,level,said,achieved_per_s,failed,p50_ns,p99_ns"));
    lines.map(str::to_owned).collect()
}

/// The exit code of a search that ended so.
fn code(ended: Ended) -> i32 {
    match ended {
        Ended::Found => 0,
        Ended::FailsAll => 4,
        Ended::Insufficient | Ended::TimeOver | Ended::PassesAll => 5,
        Ended::Interrupted => 130,
        Ended::Broken => 1,
    }
}

fn stored(bench: &Bench) -> Maximum {
    serde_json::from_slice(&bench.run(&["report", "--json"]).stdout).unwrap()
}

/// What a search has found is a run of its own as well, with its windows as comma-separated values.
#[test]
fn a_search_is_a_run_whose_windows_are_reported() {
    let bench = Bench::new();
    let url = format!("http://{}/", bucket(500.0, 30.0));
    let ran = bench.run(&[&["load", &url][..], &SEARCH, &["--visits", "6"]].concat());
    let (rows, document) = (rows(&bench), stored(&bench));
    assert_eq!(ran.status.code(), Some(code(document.ended)), "{:?}: {}", document.ended, text(&ran.stderr));
    let windows = &document.trials[0].windows;
    assert!(!windows.is_empty() && rows.len() == windows.len(), "{rows:?}");
    for (row, window) in rows.iter().zip(windows) {
        let fields: Vec<&str> = row.split(',').collect();
        assert!(fields.len() == 7 && fields[0] == "1", "{row}");
        assert_eq!(
            (fields[1].parse::<f64>().unwrap(), fields[4].parse::<u64>().unwrap()),
            (window.level, window.reading.failed)
        );
    }
    assert!(text(&bench.run(&["report"]).stdout).contains("Levels"));
    assert_fits(&serde_json::to_vec(&document).unwrap(), "baremark-maximum/1");
    // As many windows as there were, each in one row of the knee, and percentiles in their order.
    assert_eq!(document.knee.iter().map(|row| row.windows).sum::<usize>(), windows.len());
    assert!(document.knee.is_sorted_by(|left, right| left.level < right.level), "{:?}", document.knee);
    for row in &document.knee {
        let known: Vec<u64> = [row.p50_ns, row.p95_ns, row.p99_ns].into_iter().flatten().collect();
        assert!(known.is_sorted(), "{row:?}");
    }
    // An interval contains its own estimate.
    let contains = |maximum: &baremark_model::maximum::Maximum| {
        maximum.low.is_none_or(|low| low <= maximum.level) && maximum.high.is_none_or(|high| maximum.level <= high)
    };
    assert!(document.maximum.as_ref().is_none_or(contains), "{:?}", document.maximum);
    // Each search from a fresh start is observed on its own.
    let store = baremark_store::Store::open_read_only(bench.store()).unwrap();
    let stored = store.load(&store.latest().unwrap().unwrap().id).unwrap();
    let observed: Vec<usize> =
        stored.trials.iter().map(|trial| trial.result.as_ref().map_or(0, |result| result.observations.len())).collect();
    assert_eq!(observed, vec![1; document.trials.len()]);
    // What a search is resumed with is of no use to whoever gets the run, and its limits are texts that somebody typed.
    let bundled = bench.run(&["bundle", "-o", "run.tar.gz"]);
    assert!(bundled.status.success(), "{}", text(&bundled.stderr));
    let bundle = baremark_bundle::unpack(std::fs::read(bench.path("run.tar.gz")).unwrap().as_slice()).unwrap();
    let run: serde_json::Value = serde_json::from_slice(&bundle.run).unwrap();
    assert!(run["plan"]["metric"] == "maximum_per_s" && run["plan"].get("search").is_none(), "{:#}", run["plan"]);
}

/// A killed search goes on after its last stored window: none of them is measured again.
#[test]
fn a_killed_search_is_resumed_without_its_finished_windows() {
    let bench = Bench::new();
    let url = format!("http://{}/", bucket(500.0, 30.0));
    let mut command = bench.command(&[&["load", &url][..], &SEARCH, &["--visits", "6"]].concat());
    let mut child = stopped_at(command.stdout(Stdio::null()).stderr(Stdio::null()), "progress-stored:3");
    kill(&mut child);
    let before = rows(&bench);
    assert_eq!(before.len(), 3, "{before:?}");
    let id = bench.json(&["history", "--json"])["runs"][0]["id"].as_str().unwrap().to_owned();
    let study = text(&bench.run(&["show", &id]).stdout);
    assert!(study.contains("maximum_per_s") && !study.contains('#'), "its request is not a comment: {study}");
    assert_eq!(bench.run(&["resume"]).status.code(), Some(2), "its server has to be meant");
    let resumed = bench.run(&["resume", &id]);
    let ended = stored(&bench).ended;
    assert_eq!(resumed.status.code(), Some(code(ended)), "{ended:?}: {}", text(&resumed.stderr));
    assert!(text(&resumed.stderr).contains("3 windows of run "), "{}", text(&resumed.stderr));
    let after = rows(&bench);
    assert!(after.len() >= before.len() && after.starts_with(&before), "{before:?} {after:?}");
    assert_eq!(stored(&bench).trials[0].windows.len(), after.len(), "each window counts once");
    assert_eq!(bench.run(&["resume", &id]).status.code(), Some(2), "it is finished");
    // Of a URL with a query only the rest is stored: it cannot be resumed.
    let secret = format!("{url}?token=own");
    let mut command = bench.command(&[
        "load",
        &secret,
        "--find-max",
        "--count-disturbed",
        "--limit",
        "p99<10s",
        "--window",
        "300 ms",
    ]);
    let mut child = stopped_at(command.stdout(Stdio::null()).stderr(Stdio::null()), "progress-stored:1");
    kill(&mut child);
    let id = bench.json(&["history", "--json"])["runs"][0]["id"].as_str().unwrap().to_owned();
    let refused = bench.run(&["resume", &id]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).contains("run the load again"), "{}", text(&refused.stderr));
}

#[test]
fn a_search_that_is_interrupted_says_so() {
    let bench = Bench::new();
    let url = format!("http://{}/", server());
    let mut command =
        bench.command(&["load", &url, "--find-max", "--count-disturbed", "--limit", "p99<10s", "--window", "1 s"]);
    let child = stopped_at(command.stdout(Stdio::piped()).stderr(Stdio::piped()), "progress-stored:1");
    interrupt(&child);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("Interrupted; partial result"), "{}", text(&output.stdout));
}

/// Every kind of limit is counted at a real server: percentiles and failures by operation, the mix, the delay of what an
/// answer reports, and the processor. Which of them are met follows from the counts; how quick this machine is decides only how many there are.
#[test]
fn every_kind_of_limit_is_counted_in_a_search() {
    let bench = Bench::new();
    bench.write("two.toml", SCENARIO);
    let url = format!("http://{}", news());
    let search = |what: &str, between: &str, last: &str| {
        let mut arguments = vec!["load", &url, "--scenario", "two.toml", what, "--between", between, "--trials", "1"];
        arguments.push("--count-disturbed");
        let limits = ["look:p90<9s", "hear:failures<50%", "mix<80%", "hear:delay.p50<9s", last];
        limits.into_iter().for_each(|limit| arguments.extend(["--limit", limit]));
        arguments.extend(["--window", "300 ms", "--settle", "50 ms", "--visits", "6", "--step", "30%"]);
        arguments.extend(["--timeout", "5 min", "--json"]);
        let output = bench.run(&arguments);
        assert_fits(&output.stdout, "baremark-maximum/1");
        let found = serde_json::from_slice::<Maximum>(&output.stdout).unwrap();
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code(found.ended)), "{:?}: {said}", found.ended);
        found
    };
    // News is 30 ms old: a limit below that is broken by each.
    let below = format!("hear:delay.p50<{}ms", DELAY_NS / 1_500_000);
    for (what, between) in [("--find-max=rate", "400..600"), ("--find-max=users", "40..60")] {
        let document = search(what, between, &below);
        assert!((document.qos.mix["look"] - 0.75).abs() < 1e-6, "{:?}", document.qos.mix);
        assert_eq!(document.qos.limits.len(), 5);
        let mut heard = 0;
        for window in &document.trials[0].windows {
            let reading = &window.reading;
            assert!(reading.broken[1].is_some_and(|failed| failed.bad <= reading.failed), "{reading:?}");
            assert!(reading.broken[2].is_none(), "the mix has no count of its own");
            let [look, hear, met, broken] = [0, 1, 3, 4].map(|at| reading.broken[at].unwrap());
            assert_eq!((met.all, broken.bad), (broken.all, broken.all), "every one is late: {reading:?}");
            let ended = |name: &str| reading.ended.get(name).copied().unwrap_or(0);
            assert!(look.all >= ended("look") && hear.all >= ended("hear"), "{reading:?}");
            heard += broken.all;
        }
        assert!(heard > 0, "{:?}", document.trials[0]);
        // The limit is named where a visit had samples of it: then that visit failed.
        let judged = document.trials[0].windows.iter().any(|window| window.reading.broken[4].unwrap().all > 20);
        let failed = document.trials[0].windows.iter().any(|window| window.said == Said::Fail);
        let named = document.limited_by.iter().any(|limiting| limiting.what == "hear:delay.p50<20 ms");
        assert!(!judged || failed && named, "{:?}", document.limited_by);
    }
    // A processor that may do nothing limits where the clock's ticks saw it at work, and only there.
    let document = search("--find-max=rate", "400..600", "utilization.cpu<0.01%");
    let windows = &document.trials[0].windows;
    let worked = |window: &Window| window.reading.utilization.get("cpu").is_some_and(|share| *share > 1e-4);
    let named = document.limited_by.iter().any(|limiting| limiting.what == "utilization.cpu<0.01 %");
    assert!(if named { windows.iter().any(worked) } else { !windows.iter().all(worked) }, "{:?}", document.limited_by);
    assert!(
        windows
            .iter()
            .all(|window| window.said != Said::Pass || window.reading.failed < window.reading.ended.values().sum()),
        "{windows:?}"
    );
}
