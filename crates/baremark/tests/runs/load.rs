//! `baremark load` as its users meet it, against a small server on 127.0.0.1 that fails no request.

use crate::common::bench::{Bench, signal, text};
use crate::common::http::{Server, answering, server};
use crate::common::points::{kill, stopped_at};
use crate::common::sites::wait_for;
use baremark_model::observation::THIS_MACHINE;
use std::process::Stdio;
use std::sync::atomic::{AtomicUsize, Ordering};

fn json(output: &[u8]) -> serde_json::Value {
    serde_json::from_slice(output).unwrap_or_else(|why| panic!("{why}: {}", text(output)))
}

#[test]
fn a_load_by_connections_is_counted_and_told() {
    let bench = Bench::new();
    let server = Server::start();
    let url = format!("http://{}/", server.address);
    let output = bench.run(&["load", &url, "--connections", "4", "--count", "500", "--timeout", "5 min", "--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let document = json(&output.stdout);
    assert_eq!(document["format"], "baremark-load/1");
    assert_eq!(server.answered(), 500, "the server has counted the same");
    assert_eq!((&document["failures"], &document["counts"]["intended"]), (&serde_json::json!({}), &500.into()));
    assert_eq!((document["counts"]["answered"].as_u64(), document["statuses"]["200"].as_u64()), (Some(500), Some(500)));
    assert!(document["latency"]["corrected"].is_null() && document["latency"]["raw"]["p99_ns"].is_u64());
    assert!(document["latency"]["raw"]["p999_ns"].is_null(), "500 samples are too few");
    let output = bench.run(&["history", "--json"]);
    let history = json(&output.stdout);
    assert_eq!(
        (history["runs"].as_array().map(Vec::len), history["loads"].as_array().map(Vec::len)),
        (Some(1), Some(0))
    );
    assert_eq!(
        (&history["runs"][0]["state"], &history["runs"][0]["stop_reason"]),
        (&"finished".into(), &"complete".into())
    );
    // What is stored is what was printed.
    let output = bench.run(&["report", "--json"]);
    assert_eq!(json(&output.stdout), document, "{}", text(&output.stderr));
    let store = baremark_store::Store::open_read_only(bench.store()).unwrap();
    let stored = store.load(&store.latest().unwrap().unwrap().id).unwrap();
    let result = stored.trials[0].result.as_ref().unwrap();
    let found = result.disturbance.as_ref();
    assert!(
        found.is_some_and(|found| found.work_of_others && found.phases.len() == 1),
        "who else used the CPUs: {found:?}"
    );
    // It is observed as any other run, and shown so where that is asked for.
    let places: Vec<&str> = result.observations.iter().map(|seen| seen.place.as_str()).collect();
    assert_eq!(places, [THIS_MACHINE]);
    let details = text(&bench.run(&["report", "--details"]).stdout);
    assert!(details.contains("observing took"), "{details}");
    let bare = Bench::new();
    let few = ["load", &url, "--connections", "4", "--count", "5", "--timeout", "5 min", "--no-record", "--quiet"];
    let silent = bare.run(&few);
    assert_eq!(silent.status.code(), Some(0), "{}", text(&silent.stderr));
    assert!(!text(&silent.stderr).contains(" answered "), "{}", text(&silent.stderr));
    assert!(!bare.store().exists(), "no record was wanted");
}

#[test]
fn a_rate_is_told_in_words_with_its_verdict() {
    let bench = Bench::new();
    let url = format!("http://{}/", server());
    let rate = ["load", &url, "--rate", "200", "--arrival", "poisson", "--count", "200", "--timeout", "5 min"];
    let output = bench.run(&rate);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let told = text(&output.stdout);
    let headline = told.lines().next().unwrap();
    assert!(headline.contains(" requests succeeded in ") && headline.contains("; 200/s requested, "), "{told}");
    for part in
        ["latency from the intended start  p50 ", "latency from the send            p50 ", "% of one CPU, send lag "]
    {
        assert!(told.contains(part), "{part}: {told}");
    }
    assert!(told.lines().all(|line| line.chars().count() <= 80), "{told}");
}

/// Limits without a search: the report shows each of them, and the exit code says whether all were met.
#[test]
fn limits_are_checked_against_the_result() {
    let bench = Bench::new();
    let url = format!("http://{}/", server());
    let load = |arguments: &[&str]| {
        let output = bench
            .run(&[&["load", &url, "--count", "1000", "--connections", "4", "--timeout", "9 min"], arguments].concat());
        (output.status.code(), text(&output.stdout))
    };
    let (code, told) = load(&["--limit", "p99<5min", "--limit", "failures<5%"]);
    assert_eq!(code, Some(0), "{told}");
    assert!(told.contains("  limit p99 < 5 min                met ("), "{told}");
    assert!(told.contains("  limit failures < 5 %             met (0.00 %)"), "{told}");
    let (code, told) = load(&["--limit", "p99<1us", "--limit", "p50<5min"]);
    assert_eq!(code, Some(4), "{told}");
    assert!(told.contains("  limit p99 < 1 us                 exceeded ("), "{told}");
    assert!(told.contains("1,000 of 1,000 broke it") && told.contains("limit p50 < 5 min"), "{told}");
    // What is stored says the same.
    let shown = text(&bench.run(&["report"]).stdout);
    assert!(shown.contains("limit p99 < 1 us                 exceeded (") && shown.starts_with(&url), "{shown}");
    let page = bench.path("load.html");
    bench.run(&["report", "--html", page.to_str().unwrap()]);
    let page = std::fs::read_to_string(page).unwrap();
    assert!(page.contains("limit p99 &lt; 1 us: exceeded ("), "{page}");
    let (code, told) = load(&["--limit", "p99<1us", "--json"]);
    let document = crate::common::schemas::assert_fits(told.as_bytes(), "baremark-load/1");
    assert_eq!((code, &document["limits"][0]["verdict"]), (Some(4), &"exceeded".into()));
    assert_eq!(document["limits"][0]["broken"], serde_json::json!({ "bad": 1000, "all": 1000 }));
    // Five requests have no p99.
    let few = ["load", &url, "--count", "5", "--connections", "1", "--timeout", "9 min", "--limit", "p99<5min"];
    let output = bench.run(&few);
    let told = text(&output.stdout);
    assert_eq!(output.status.code(), Some(5), "{told}");
    assert!(told.contains("undecided (5 samples; at least 368 are") && told.contains(" of one CPU: "), "{told}");
}

/// Limits that a scenario states are checked as well; a run that is too short for them is not refused for it.
#[test]
fn the_limits_of_a_scenario_are_checked() {
    let bench = Bench::new();
    let url = format!("http://{}/", server());
    let scenario = |limit: &str| {
        let text = format!("[operations.look]\nlimit = \"{limit}\"\n[[operations.look.requests]]\nget = \"/\"\n");
        bench.write("look.toml", &text);
    };
    let load = |count: &str| {
        let output = bench.run(&[
            "load",
            &url,
            "--scenario",
            "look.toml",
            "--count",
            count,
            "--connections",
            "2",
            "--timeout",
            "9 min",
        ]);
        (output.status.code(), text(&output.stdout))
    };
    scenario("5 min");
    let (code, told) = load("1000");
    assert_eq!(code, Some(0), "{told}");
    assert!(told.contains("limit look:p99 < 5 min           met ("), "{told}");
    let (code, told) = load("5");
    assert_eq!(code, Some(0), "{told}");
    assert!(told.contains("undecided (5 samples"), "{told}");
    scenario("1 us");
    let (code, told) = load("1000");
    assert_eq!(code, Some(4), "{told}");
    assert!(told.contains("limit look:p99 < 1 us            exceeded ("), "{told}");
}

#[test]
fn failures_lead_the_report_where_there_are_more_than_may_be() {
    let bench = Bench::new();
    let load = |status: fn(usize) -> &'static str, arguments: &[&str]| {
        let url = format!("http://{}/nope", answering(status));
        let output = bench
            .run(&[&["load", &url, "--count", "1000", "--connections", "1", "--timeout", "5 min"], arguments].concat());
        // Lines are broken to fit a terminal.
        let told = text(&output.stdout);
        (output.status.code(), if arguments.contains(&"--json") { told } else { told.replace("\n", " ") })
    };
    let (code, told) = load(|_| "404 Not Found", &[]);
    assert_eq!(code, Some(1), "{told}");
    assert!(told.starts_with("FAILED: 1,000 of 1,000 responses were HTTP 404 (exit 1) "), "{told}");
    let shown = text(&bench.run(&["report"]).stdout);
    assert!(shown.contains("\nFAILED: 1,000 of 1,000 responses were HTTP 404 (exit 1)\n"), "{shown}");
    let some: fn(usize) -> &'static str = |asked| match asked % 10 {
        3 => "503 Service Unavailable",
        4 => "500 Internal Server Error",
        _ => "200 OK",
    };
    let (code, told) = load(some, &[]);
    assert_eq!(code, Some(1), "{told}");
    assert!(
        told.starts_with("FAILED: 200 of 1,000 requests failed (20.0 %, error limit 1 %, exit 1): 100 HTTP"),
        "{told}"
    );
    assert!(told.contains("100 HTTP 500") && told.contains("100 HTTP 503") && told.contains(" 800 of 1,000"), "{told}");
    // What may fail is up to the user: by its own option, or as a limit among others, with the limit's exit code.
    let (code, told) = load(some, &["--error-limit", "25%"]);
    assert_eq!(code, Some(0), "{told}");
    assert!(told.starts_with("800 of 1,000 requests succeeded in ") && told.contains("; 100 HTTP 500"), "{told}");
    let (code, told) = load(some, &["--limit", "failures<25%"]);
    assert_eq!(code, Some(0), "{told}");
    let (code, told) = load(some, &["--limit", "failures<15%"]);
    assert_eq!(code, Some(4), "{told}");
    assert!(told.contains("limit failures < 15 %            exceeded (20.00 %; 200 of 1,000 broke it)"), "{told}");
    let (code, told) = load(|_| "404 Not Found", &["--error-limit", "100%", "--json"]);
    assert_eq!((code, &json(told.as_bytes())["failed_statuses"]["404"]), (Some(0), &1000.into()), "{told}");
    let output = bench.run(&["load", "http://127.0.0.1:9/", "--error-limit", "101%"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("write 0 % to 100 %"), "{}", text(&output.stderr));
}

#[test]
fn an_interrupt_leaves_a_partial_result() {
    let bench = Bench::new();
    static ASKED: AtomicUsize = AtomicUsize::new(0);
    let counting = |_: usize| {
        ASKED.fetch_add(1, Ordering::Relaxed);
        "200 OK"
    };
    let url = format!("http://{}/", answering(counting));
    let mut command = bench.command(&["load", &url, "--rate", "100", "--duration", "600 s", "--json"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // So many are intended in 190 ms.
    wait_for(|| (ASKED.load(Ordering::Relaxed) >= 20).then_some(()));
    signal(child.id(), libc::SIGINT);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", text(&output.stderr));
    let document = json(&output.stdout);
    assert_eq!(document["ended"], "interrupted");
    assert!(document["elapsed_s"].as_f64().is_some_and(|elapsed| (0.1..600.0).contains(&elapsed)));
    let counts = &document["counts"];
    assert!(
        counts["intended"].as_u64() >= Some(20) && counts["answered"].as_u64() <= counts["intended"].as_u64(),
        "{counts}"
    );
}

/// What `report` makes of a stored load: text with pictures, a page, seconds.
#[test]
fn a_stored_load_is_shown_again() {
    let bench = Bench::new();
    let url = format!("http://{}/secret?token=hidden", server());
    let output = bench.run(&[
        "load",
        &url,
        "--rate",
        "300",
        "--duration",
        "4s",
        "--timeout",
        "5 min",
        "--header",
        "authorization: hidden",
    ]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let shown = text(&bench.run(&["report"]).stdout);
    // A generator that was late at the end has taken longer.
    let document = bench.json(&["report", "--json"]);
    let succeeded = format!(" requests succeeded in {:.1} s", document["elapsed_s"].as_f64().unwrap());
    for part in [succeeded.as_str(), "latency distribution (percentile)"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    // A curve has three points at least, and a second over which the generator slept none.
    let seconds = document["series"].as_array().unwrap().iter();
    let is_drawn = seconds.filter(|second| second["latency"]["p50_ns"].is_u64()).count() >= 3;
    assert_eq!(shown.contains("p99 by second"), is_drawn, "{shown}");
    let page = bench.path("load.html");
    let output = bench.run(&["report", "--html", page.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let page = std::fs::read_to_string(page).unwrap();
    let curves = if is_drawn { 4 } else { 2 };
    assert!(page.matches("<polyline").count() >= curves && page.contains("Latency by percentile"), "{page}");
    assert!(page.contains("p99.9"), "{page}");
    let csv = text(&bench.run(&["report", "--csv"]).stdout);
    assert!(csv.starts_with("at_s,intended,answered") && csv.lines().count() == 5, "{csv}");
    // Neither a header nor a query reaches the store.
    let store = std::fs::read(bench.store()).unwrap();
    assert!(!store.windows(6).any(|bytes| bytes == b"hidden"));
}

/// What a killed load leaves: every second that had passed.
#[test]
fn a_killed_load_keeps_its_seconds() {
    let bench = Bench::new();
    let url = format!("http://{}/", server());
    let mut command = bench.command(&["load", &url, "--rate", "100", "--duration", "600 s"]);
    let mut child = stopped_at(command.stdout(Stdio::null()).stderr(Stdio::null()), "progress-stored:2");
    kill(&mut child);
    let history = json(&bench.run(&["history", "--json"]).stdout);
    assert_eq!(history["runs"][0]["state"], "killed");
    let partial = json(&bench.run(&["report", "--json"]).stdout);
    assert_eq!(partial["format"], "baremark-load-partial/1");
    assert!(partial["seconds"].as_array().is_some_and(|seconds| seconds.len() == 2), "{partial}");
    assert!(text(&bench.run(&["report"]).stdout).contains("killed: it has no result"));
    // One that is resumed begins again, and has no second twice.
    let mut command = bench.command(&["resume", &ids(&bench)[0]]);
    kill(&mut stopped_at(command.stdout(Stdio::null()).stderr(Stdio::null()), "progress-stored:1"));
    let seconds = json(&bench.run(&["report", "--json"]).stdout)["seconds"].clone();
    assert!(seconds.as_array().is_some_and(|seconds| seconds.len() == 1) && seconds[0]["at_s"] == 0, "{seconds}");
}

/// Runs a load until its first second is stored, and kills it; its name.
fn killed(bench: &Bench, arguments: &[&str]) -> String {
    let mut command = bench.command(&[&["load"][..], arguments].concat());
    kill(&mut stopped_at(command.stdout(Stdio::null()).stderr(Stdio::null()), "progress-stored:1"));
    ids(bench).swap_remove(0)
}

/// A killed load is made again as its command line said, unless something of that is not stored.
#[test]
fn a_killed_load_is_resumed() {
    let bench = Bench::new();
    let url = format!("http://{}/", server());
    let load = [url.as_str(), "--connections", "2", "--count", "300", "--timeout", "5 min", "--seed", "7"];
    let id = killed(&bench, &load);
    let unnamed = bench.run(&["resume"]);
    assert_eq!(unnamed.status.code(), Some(2), "its server has to be meant: {}", text(&unnamed.stderr));
    assert!(text(&unnamed.stderr).contains(&format!("`baremark resume {id}`")), "{}", text(&unnamed.stderr));
    let output = bench.run(&["resume", &id, "--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let document = json(&output.stdout);
    assert_eq!((&document["format"], &document["counts"]["intended"]), (&"baremark-load/1".into(), &300.into()));
    assert_eq!((&document["asked"]["seed"], &document["asked"]["connections"]), (&7.into(), &2.into()));
    assert_eq!(json(&bench.run(&["report", "--json"]).stdout), document, "what is stored is what was printed");
    let csv = text(&bench.run(&["report", "--csv"]).stdout);
    let seconds = document["series"].as_array().unwrap().len();
    assert!(seconds > 0 && csv.lines().count() == seconds + 1, "{csv}");
    let history = bench.json(&["history", "--json"]);
    assert_eq!((ids(&bench).len(), &history["runs"][0]["state"]), (1, &"finished".into()));
    let id = killed(&bench, &[&load[..], &["--header", "accept: text/html"]].concat());
    let refused = bench.run(&["resume", &id]);
    assert_eq!(refused.status.code(), Some(2), "{}", text(&refused.stderr));
    assert!(text(&refused.stderr).contains("run the load again"), "{}", text(&refused.stderr));
}

/// A load that fails when it is resumed is made once, and stored and judged as by the command: with its document, and by what may fail.
#[test]
fn a_load_that_fails_when_it_is_resumed_is_judged_as_by_its_command() {
    let bench = Bench::new();
    let url = format!("http://{}/", answering(|_| "404 Not Found"));
    for (may_fail, code) in [("1%", 1), ("100%", 0)] {
        let load =
            [url.as_str(), "--connections", "1", "--count", "300", "--timeout", "5 min", "--error-limit", may_fail];
        let id = killed(&bench, &load);
        let output = bench.run(&["resume", &id, "--json"]);
        assert_eq!(output.status.code(), Some(code), "{may_fail}: {}", text(&output.stderr));
        let document = json(&output.stdout);
        assert_eq!(document["failed_statuses"]["404"], 300, "{document:#}");
        assert_eq!(json(&bench.run(&["report", "--json"]).stdout), document, "what is stored is what was printed");
        let again = bench.run(&[&["load", "--json"][..], &load].concat());
        assert_eq!(again.status.code(), Some(code), "the command ends so, too: {}", text(&again.stderr));
        let store = baremark_store::Store::open_read_only(bench.store()).unwrap();
        for id in &ids(&bench)[..2] {
            let trials = store.load(&id.parse().unwrap()).unwrap().trials;
            let void = matches!(&trials[0].status, baremark_model::event::TrialStatus::Void { .. });
            assert_eq!((trials.len(), void), (1, code == 1), "{id} of {may_fail} is made once");
        }
    }
}

/// The result of a load that was killed after it had been stored is not measured again.
#[test]
fn a_load_that_was_killed_at_its_end_has_its_result() {
    let bench = Bench::new();
    let server = Server::start();
    let url = format!("http://{}/", server.address);
    let mut command = bench.command(&["load", &url, "--connections", "2", "--count", "300", "--timeout", "5 min"]);
    kill(&mut stopped_at(command.stdout(Stdio::null()).stderr(Stdio::null()), "run-ends"));
    let document = json(&bench.run(&["report", "--json"]).stdout);
    let output = bench.run(&["resume", &ids(&bench)[0], "--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert_eq!((json(&output.stdout), server.answered()), (document, 300));
    assert_eq!(bench.json(&["history", "--json"])["runs"][0]["state"], "finished");
}

/// With other contents of its files it would be another load.
#[test]
fn a_load_whose_files_have_changed_is_not_resumed() {
    let bench = Bench::new();
    let url = format!("http://{}/", server());
    let look = "[operations.look]\n[[operations.look.requests]]\nget = \"/\"\n";
    let files = [("--scenario", look, "scenario"), ("--trace", "0,300\n600,300\n", "arrivals")];
    for (option, held, told) in files {
        bench.write("file", held);
        let id = killed(
            &bench,
            &[url.as_str(), option, "file", "--count", "300", "--connections", "2", "--timeout", "5 min"],
        );
        bench.write("file", held.replace("300", "200").replace("look", "see"));
        let refused = bench.run(&["resume", &id]);
        let said = text(&refused.stderr);
        assert_eq!(refused.status.code(), Some(2), "{option}: {said}");
        assert!(said.contains(&format!("{told}; run the load again")), "{option}: {said}");
        bench.write("file", held);
        let resumed = bench.run(&["resume", &id]);
        assert_eq!(resumed.status.code(), Some(0), "{option}: {}", text(&resumed.stderr));
    }
}

/// The names of the stored runs, the latest first.
fn ids(bench: &Bench) -> Vec<String> {
    let history = bench.json(&["history", "--json"]);
    history["runs"].as_array().unwrap().iter().map(|run| run["id"].as_str().unwrap().to_owned()).collect()
}

/// A load is a run like any other: runs of it are compared and checked by their names.
#[test]
fn loads_are_runs_that_are_compared_and_checked() {
    let bench = Bench::new();
    let url = format!("http://{}/", server());
    for _ in 0..6 {
        let ran = bench.run(&[
            "load",
            &url,
            "--rate",
            "200",
            // It ends when all have been answered, however late.
            "--count",
            "100",
            "--connections",
            "4",
            "--timeout",
            "5 min",
        ]);
        assert_eq!(ran.status.code(), Some(0), "{}", text(&ran.stderr));
    }
    let ids = ids(&bench);
    let (after, before) = (ids[..3].join(","), ids[3..].join(","));
    let comparison = bench.json(&["compare", &before, &after, "--json"]);
    let row = comparison["rows"].as_array().unwrap().iter().find(|row| row["metric"] == "requests_per_s");
    // All were asked for the same rate; what each had is what it reports itself, on a busy machine less.
    let ratio = row.and_then(|row| row["ratio"].as_f64()).unwrap_or_else(|| panic!("{comparison:#}"));
    let rate = |id: &String| bench.json(&["report", id, "--json"])["achieved"]["requests_per_s"].as_f64().unwrap();
    let range = |ids: &[String]| {
        let rates: Vec<f64> = ids.iter().map(rate).collect();
        (rates.iter().copied().fold(f64::INFINITY, f64::min), rates.iter().copied().fold(0.0, f64::max))
    };
    let ((least_after, most_after), (least_before, most_before)) = (range(&ids[..3]), range(&ids[3..]));
    let possible = 0.999 * least_after / most_before..=1.001 * most_after / least_before;
    assert!(possible.contains(&ratio), "{possible:?}: {comparison:#}");
    let checked = bench.run(&["check", "--against", &before, &after]);
    assert!(matches!(checked.status.code(), Some(0 | 4 | 5)), "{}", text(&checked.stderr));
    assert!(text(&checked.stdout).contains("requests"), "{}", text(&checked.stdout));
    let csv = text(&bench.run(&["report", &ids[0], "--csv=trials"]).stdout);
    assert!(csv.contains("requests_per_s") && csv.lines().count() > 5, "{csv}");
    // It has its secrets no more, and is over.
    let resumed = bench.run(&["resume", &ids[0]]);
    assert_eq!(resumed.status.code(), Some(2), "{}", text(&resumed.stderr));
}

/// The study that a command line describes runs as any other and asks for the same.
#[test]
fn the_study_of_a_load_is_printed_and_runs() {
    let bench = Bench::new();
    let url = format!("http://{}/?token=own", server());
    let typed = [
        "load",
        &url,
        "--rate",
        "ramp from=50 to=150 over=1s",
        "--arrival",
        "poisson",
        "--duration",
        "200ms",
        "--connections",
        "3",
        "--limit",
        "p99<5min",
        "--header",
        "accept: text/html",
        "--seed",
        "7",
        "--print-study",
    ];
    let printed = text(&bench.run(&typed).stdout);
    assert!(!bench.store().exists() && printed.starts_with("# --seed is left out"), "{printed}");
    for line in [
        format!("url = \"{url}\""),
        "rate = \"ramp from=50 to=150 over=1s\"".to_owned(),
        "arrival = \"poisson\"".to_owned(),
        "limit = [\"p99<5 min\"]".to_owned(),
        "header = [\"accept: text/html\"]".to_owned(),
    ] {
        assert!(printed.contains(&line), "{line}: {printed}");
    }
    bench.write("load.toml", &printed);
    let document = bench.json(&["run", "load.toml", "--quick", "--json"]);
    let trials = document["trials"].as_array().unwrap();
    let explained = |trial: &&serde_json::Value| trial["status"] == "ok" || trial["reason"].is_string();
    assert!(trials.len() >= 4 && trials.iter().filter(explained).count() == trials.len(), "{document:#}");
}
