//! Loads and applications as workloads of ordinary studies: stored, killed, resumed, listed, compared, checked, compared with
//! themselves, drawn, and nothing left of them.

use crate::bench::{Bench, signal, text};
use crate::tiers::{all_gone, offspring};
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Output, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// One app server on SQLite under few users; its arms differ in one key.
const AUCTION: &str = r#"
[study]
title = "what durability costs the auction"
[workload]
kind = "auction"
users = 20
duration = "400 ms"
warm_up = "100 ms"
size = "quick"
[topology]
max_users = 75
[topology.load]
cycle = "100 ms"
[topology.app.settings]
drain = "10 ms"
[factors]
"app.settings.durable" = ["on", "off"]
[design]
quads = 1
least_blocks = 4
most_blocks = 4
budget = "10 min"
[report]
columns = "app.settings.durable"
ratio_to = { "app.settings.durable" = "on" }
"#;

const LOAD: &str = r#"
[study]
title = "what more connections bring"
[workload]
kind = "load"
url = "http://ADDRESS/"
duration = "100 ms"
warm_up = "10 ms"
[factors]
connections = [1, 2]
[design]
quads = 1
least_blocks = 4
most_blocks = 4
[report]
columns = "connections"
ratio_to = { connections = 1 }
"#;

/// A server that answers every request with five bytes, until it is shut.
struct Server {
    address: SocketAddr,
    answered: Arc<AtomicU64>,
    shut: Arc<AtomicBool>,
    streams: Arc<Mutex<Vec<TcpStream>>>,
}

impl Server {
    fn start() -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = Server { address, answered: Arc::default(), shut: Arc::default(), streams: Arc::default() };
        let (answered, shut, streams) =
            (Arc::clone(&server.answered), Arc::clone(&server.shut), Arc::clone(&server.streams));
        thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                if shut.load(Ordering::Acquire) {
                    return;
                }
                streams.lock().unwrap().push(stream.try_clone().unwrap());
                let answered = Arc::clone(&answered);
                thread::spawn(move || {
                    let mut request = [0; 4096];
                    while stream.read(&mut request).is_ok_and(|count| count > 0) {
                        answered.fetch_add(1, Ordering::Relaxed);
                        if stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello").is_err() {
                            return;
                        }
                    }
                });
            }
        });
        server
    }

    fn study(&self) -> String {
        LOAD.replace("ADDRESS", &self.address.to_string())
    }

    fn answered(&self) -> u64 {
        self.answered.load(Ordering::Relaxed)
    }

    /// Closes every connection, and refuses new ones.
    fn shut(&self) {
        self.shut.store(true, Ordering::Release);
        drop(TcpStream::connect(self.address));
        for stream in self.streams.lock().unwrap().drain(..) {
            drop(stream.shutdown(std::net::Shutdown::Both));
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shut();
    }
}

/// A bench of a study, whose agents put their folders into one of its own.
struct Studied {
    bench: Bench,
}

impl Studied {
    fn new(study: &str) -> Studied {
        let bench = Bench::new();
        bench.write("study.toml", study);
        fs::create_dir(bench.path("tmp")).unwrap();
        Studied { bench }
    }

    fn start(&self, arguments: &[&str]) -> Running {
        let mut command = self.bench.command(arguments);
        command.env("TMPDIR", self.bench.path("tmp")).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let log = BufReader::new(child.stderr.take().unwrap());
        Running { child, log, said: String::new() }
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.bench.command(arguments).env("TMPDIR", self.bench.path("tmp")).output().unwrap()
    }

    fn text(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
        text(&output.stdout)
    }

    fn json(&self, arguments: &[&str]) -> Value {
        let text = self.text(arguments);
        serde_json::from_str(&text).unwrap_or_else(|why| panic!("{arguments:?}: {why}: {text}"))
    }

    /// What agents have left in their folder.
    fn folders(&self) -> Vec<String> {
        let listed = fs::read_dir(self.bench.path("tmp")).unwrap().flatten();
        listed.map(|entry| entry.file_name().into_string().unwrap()).collect()
    }

    /// Every value of the first block, parts of phases included.
    fn first_block(&self) -> Vec<String> {
        let csv = self.text(&["report", "--csv=trials"]);
        let lines: Vec<String> = csv.lines().filter(|line| line.starts_with("0,")).map(str::to_owned).collect();
        assert!(lines.len() > 10, "{csv}");
        lines
    }
}

/// A run under way, and what it has said.
struct Running {
    child: Child,
    log: BufReader<std::process::ChildStderr>,
    said: String,
}

impl Running {
    /// Until a line with these words has come.
    fn until(&mut self, words: &str) {
        while !self.said.lines().any(|line| line.contains(words)) {
            assert!(self.log.read_line(&mut self.said).unwrap() > 0, "it ended early: {}", self.said);
        }
    }

    fn end(mut self, with: i32) -> (Option<i32>, String) {
        signal(self.child.id(), with);
        self.log.read_to_string(&mut self.said).unwrap();
        (self.child.wait().unwrap().code(), self.said)
    }
}

fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !done() {
        assert!(Instant::now() < deadline, "waited in vain until {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Kills a run in the middle of its second block, which `busy` says, or of a later one where the signal comes late; its
/// first block is stored, and stays as it is.
fn kill_in_the_second_block(studied: &Studied, busy: &mut dyn FnMut() -> bool) -> Vec<String> {
    let mut running = studied.start(&["run", "study.toml"]);
    running.until("block 1 is stored");
    wait_until("the second block is measured", busy);
    let processes = offspring(running.child.id());
    assert!(!processes.is_empty());
    running.end(libc::SIGKILL);
    all_gone(&processes);
    let run = &studied.json(&["history", "--json"])["runs"][0];
    assert!(run["state"] == "killed" && (1..4).contains(&run["trials"].as_u64().unwrap()), "{run:#}");
    studied.first_block()
}

/// The forms of a report, and a comparison of the two levels.
fn reported(studied: &Studied, metric: &str, unit: &str, factor: &str, [base, other]: [&str; 2]) -> Value {
    let document = studied.json(&["report", "--json"]);
    let ratio = &document["ratios"][0];
    assert_eq!((&ratio["metric"], &ratio["contrast"]), (&metric.into(), &"factor".into()), "{ratio:#}");
    for key in ["ratio", "lo", "hi"] {
        assert!(ratio[key].as_f64().is_some_and(|value| value > 0.0), "{key}: {ratio:#}");
    }
    assert_eq!((&ratio["treatment"][factor], &ratio["relative_to"][factor]), (&other.into(), &base.into()));
    let estimates = document["estimates"].as_array().unwrap();
    let row = estimates.iter().find(|row| row["metric"] == metric && row["treatment"][factor] == base).unwrap();
    assert_eq!(row["unit"], unit);
    assert!(row["lo"].as_f64() <= row["estimate"].as_f64() && row["estimate"].as_f64() <= row["hi"].as_f64(), "{row}");

    let shown = studied.text(&["report", "--details"]);
    assert!(shown.contains(unit) && shown.contains("latency_p50_ms (ms)"), "{shown}");
    let results = studied.text(&["report", "--csv"]);
    assert!(results.contains(&format!("\r\nestimate,{metric},{unit},{base},")), "{results}");
    let trials = studied.text(&["report", "--csv=trials"]);
    let ending = ",metric,value,elapsed_ns,flags,member,phase,part,begin_ns,end_ns";
    assert!(trials.lines().next().unwrap().ends_with(ending), "{trials}");

    let page = studied.bench.path("page.html");
    studied.text(&["report", "--html", page.to_str().unwrap()]);
    let page = fs::read_to_string(page).unwrap();
    assert!(page.contains("<svg") && page.contains("Ratio of ") && page.contains("ratio in each block"), "no plot");
    for dump in ["histogram", "Literal(", "HISTF", "auction_request"] {
        assert!(!page.contains(dump), "the page has {dump}");
    }

    let id = document["run"]["id"].as_str().unwrap();
    let side = |level: &str| format!("{id}:{factor}={level}");
    let compared = studied.json(&["compare", &side(base), &side(other), "--json"]);
    let row = &compared["rows"][0];
    assert_eq!((&row["metric"], row["base_units"].as_u64()), (&metric.into(), Some(blocks(&document))), "{row:#}");
    // Levels are compared by the medians of trials: their ratio lies between those of any two trials, however busy the machine is.
    let values = |level: &str| -> Vec<f64> {
        let arms = document["trials"].as_array().unwrap().iter().flat_map(|trial| trial["arms"].as_array().unwrap());
        let of_level = arms.filter(|arm| arm["treatment"][factor] == level);
        let samples = of_level.flat_map(|arm| arm["medians"].as_array().unwrap());
        samples.filter(|sample| sample["metric"] == metric).map(|sample| sample["value"].as_f64().unwrap()).collect()
    };
    let (ours, theirs) = (values(other), values(base));
    let bound = |values: &[f64], pick: fn(f64, f64) -> f64| values.iter().copied().reduce(pick).unwrap();
    let (least, most) =
        (bound(&ours, f64::min) / bound(&theirs, f64::max), bound(&ours, f64::max) / bound(&theirs, f64::min));
    let found = row["ratio"].as_f64().unwrap();
    assert!((least..=most).contains(&found), "{found} is not in {least} to {most}");
    document
}

fn blocks(document: &Value) -> u64 {
    document["ratios"][0]["blocks"].as_u64().unwrap()
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
        (["base", "other"], &[4][..], "FAIL: slower by more"),
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

/// Every treatment against itself.
fn compared_with_itself(document: &Value) {
    let ratios = document["ratios"].as_array().unwrap();
    let own: Vec<&Value> = ratios.iter().filter(|ratio| ratio["ratio"].is_f64()).collect();
    assert!(!own.is_empty(), "{document:#}");
    for ratio in own {
        assert_eq!((&ratio["contrast"], &ratio["treatment"]), (&"self_check".into(), &ratio["relative_to"]));
        assert!((0.1..10.0).contains(&ratio["ratio"].as_f64().unwrap()), "{ratio}");
    }
}

#[test]
fn a_load_is_an_ordinary_study() {
    let server = Server::start();
    let studied = Studied::new(&server.study());
    let mut before = None;
    let stored =
        kill_in_the_second_block(&studied, &mut || server.answered() > *before.get_or_insert(server.answered()));
    let document = studied.json(&["resume", "--json"]);
    assert!(document["run"]["ended"].is_string() && blocks(&document) == 4, "{document:#}");
    assert_eq!(studied.first_block(), stored, "the trial that was finished is as it was");
    assert_eq!(studied.json(&["history", "--json"])["runs"].as_array().unwrap().len(), 1);
    let document = reported(&studied, "requests_per_s", "requests/s", "connections", ["1", "2"]);
    assert!(stored.iter().any(|line| line.contains(",requests_per_s,") && line.contains(",all,")), "{stored:#?}");
    compared_and_checked(&studied, &document, "requests_per_s");
    compared_with_itself(&studied.json(&["run", "study.toml", "--aa", "--json"]));
    assert_eq!(studied.folders(), [""; 0]);
}

#[test]
fn an_auction_is_an_ordinary_study_and_an_interrupt_leaves_nothing() {
    let studied = Studied::new(AUCTION);
    let stored = kill_in_the_second_block(&studied, &mut || studied.folders().len() == 2);
    assert!(!studied.folders().is_empty(), "nobody was there to remove what the killed run had");

    let mut running = studied.start(&["resume"]);
    running.until("block 2 is stored");
    wait_until("the third block is measured", || studied.folders().len() == 2);
    let processes = offspring(running.child.id());
    let (code, said) = running.end(libc::SIGINT);
    assert_eq!(code, Some(130), "{said}");
    assert_eq!(studied.folders(), [""; 0], "its folders went with it, and those of the killed run before");
    all_gone(&processes);
    assert_eq!(studied.first_block(), stored, "the trial that was finished is as it was");

    let document = studied.json(&["resume", "--json"]);
    assert!(document["run"]["ended"].is_string() && blocks(&document) == 4, "{document:#}");
    assert_eq!(studied.first_block(), stored);
    let factor = "app.settings.durable";
    let document = reported(&studied, "operations_per_s", "operations/s", factor, ["on", "off"]);
    let has = |words: &[&str]| stored.iter().any(|line| words.iter().all(|words| line.contains(words)));
    assert!(has(&[",succeeded,", ",place-bid,"]) && has(&[",latency_p50_ms,"]), "{stored:#?}");
    compared_and_checked(&studied, &document, "operations_per_s");

    let one_arm = AUCTION.replace("[\"on\", \"off\"]", "\"on\"");
    studied.bench.write(
        "study.toml",
        one_arm.lines().filter(|line| !line.starts_with("ratio_to")).collect::<Vec<_>>().join("\n"),
    );
    let mut itself = studied.start(&["run", "study.toml", "--aa"]);
    itself.until("block 3 is stored");
    assert_eq!(itself.end(libc::SIGINT).0, Some(130));
    compared_with_itself(&studied.json(&["report", "--json"]));
    assert_eq!(studied.json(&["history", "--json"])["runs"].as_array().unwrap().len(), 2);
    assert_eq!(studied.folders(), [""; 0]);
}

#[test]
fn a_long_phase_of_a_load_ends_at_an_interrupt() {
    let server = Server::start();
    let studied = Studied::new(&server.study().replace("100 ms", "5 min"));
    let running = studied.start(&["run", "study.toml"]);
    wait_until("the load has begun", || server.answered() > 10);
    let (processes, begun) = (offspring(running.child.id()), Instant::now());
    let (code, said) = running.end(libc::SIGINT);
    assert_eq!(code, Some(130), "{said}");
    assert!(begun.elapsed() < Duration::from_secs(20), "it took {:?}", begun.elapsed());
    all_gone(&processes);
}

/// A trial fails for its own reason; the run continues until so many have in a row, and says why.
#[test]
fn a_server_that_dies_makes_failed_trials_with_its_reason() {
    let server = Server::start();
    let studied = Studied::new(&server.study().replace("most_blocks = 4", "most_blocks = 9"));
    let mut running = studied.start(&["run", "study.toml"]);
    running.until("block 1 is stored");
    server.shut();
    running.log.read_to_string(&mut running.said).unwrap();
    assert_eq!(running.child.wait().unwrap().code(), Some(1), "{}", running.said);
    assert!(running.said.contains("3 trials in a row did not count"), "{}", running.said);
    let document = studied.json(&["report", "--json"]);
    let trials = document["trials"].as_array().unwrap();
    assert_eq!(trials[0]["status"], "ok");
    let last = trials.last().unwrap();
    let reason = last["reason"].as_str().unwrap_or_default();
    assert_eq!(last["status"], "failed", "{last:#}");
    let (failed, rest) = reason.split_once(" operations failed: ").unwrap_or_else(|| panic!("{reason}"));
    assert!(failed.ends_with(|c: char| c.is_ascii_digit()), "{reason}");
    assert!(rest.ends_with("connections refused (no server listens at that address and port)"), "{reason}");
}

/// Mistakes of a study, each with its line and what would be right; nothing is run and nothing is stored.
fn refused(study: &str, code: i32, expected: &[&str]) {
    let studied = Studied::new(study);
    let output = studied.run(&["run", "study.toml"]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{said}");
    let lines: Vec<&str> = said.trim_start_matches("error: ").lines().collect();
    assert_eq!(lines, expected, "{said}");
    assert!(!studied.bench.store().exists() && studied.folders().is_empty());
}

#[test]
fn mistakes_of_loads_and_topologies_are_told_all_at_once_before_anything_runs() {
    let load = LOAD.replace("ADDRESS", "127.0.0.1:1");
    refused(
        &load.replace("http://", ""),
        2,
        &["study.toml:6: url: '127.0.0.1:1/' has no scheme; write such as http://127.0.0.1:8080/path"],
    );
    refused(
        &load.replace("100 ms", "10 min"),
        2,
        &[
            "study.toml:7: duration and warm_up are 600.01 s together, and the timeout is 10 min; write a shorter duration, or a longer timeout",
        ],
    );
    let topology = "[topology]\nmax_users = 75\nimagse = \"memory\"\nhistory = 5\nstudy = 1\n";
    let wrong = AUCTION.replace("[topology]\nmax_users = 75\n", topology);
    let wrong = wrong.replace("cycle = \"100 ms\"", "cycle = \"100 ms\"\nusers = 9");
    refused(
        &wrong.replace("[topology.app.settings]", "[topology.app]\non = \"qeum\"\n[topology.app.settings]"),
        2,
        &[
            "study.toml:12: [topology] has no 'imagse'; did you mean 'images'?",
            "study.toml:13: 'history' must be a string; write text in quotation marks",
            "study.toml:14: [topology] has no 'study' in a study; write what differs as levels in [factors], or as [topology.variants.NAME] with variant in [factors]",
            "study.toml:17: [topology.load] has no 'users' in a study; write users in [workload] or [factors]",
            "study.toml:19: unknown environment 'qeum'; did you mean 'qemu'?",
        ],
    );
    let factors = "[factors]\n\"app.cuont\" = [1]\n\"database.service\" = [\"sqlite\", \"postgers\"]\n";
    let wrong = AUCTION.replace("[factors]\n", factors).replace("\"off\"]", "\"offf\"]");
    refused(
        &wrong.replace("users = 20", "users = 100").replace("400 ms", "20 min"),
        2,
        &[
            "study.toml:7: duration and warm_up are 1200.1 s together, and the timeout is 10 min; write a shorter duration, or a longer timeout",
            "study.toml:17: [app] has no 'cuont'; did you mean 'count'?",
            "study.toml:18: the database tier has no service 'postgers'; did you mean 'postgres'?",
            "study.toml:19: [app.settings]: durable = 'offf' is not known; did you mean 'off'?",
        ],
    );
    refused(
        &AUCTION.replace("users = 20", "users = 100"),
        2,
        &[
            "study.toml:6: 100 users, and data for 75 (max_users); write fewer users, or max_users = 100 or more in [topology]",
        ],
    );
}

#[test]
fn a_tier_that_has_no_place_here_is_absent_with_the_reason() {
    let nowhere = "ssh:nowhere.invalid";
    let study = AUCTION.replace("[factors]\n", "[topology.database]\nservice = \"postgres\"\n[factors]\n");
    let study = study.replace("[\"on\", \"off\"]", &format!("\"on\"\n\"app.on\" = [\"native\", \"{nowhere}\"]"));
    let study = study.replace("columns = \"app.settings.durable\"", "columns = \"app.on\"");
    let study = study.replace("{ \"app.settings.durable\" = \"on\" }", "{ \"app.on\" = \"native\" }");
    if !crate::tiers::have(&["postgres"]) {
        return;
    }
    let studied = Studied::new(&study);
    let plan = studied.json(&["plan", "study.toml", "--json"]);
    let reason = |row: &Value| row["reason"].as_str().unwrap_or_default().to_owned();
    assert_eq!(plan["arms"].as_array().unwrap().len(), 1, "{plan:#}");
    let absent = &plan["absent"][0];
    assert_eq!(absent["treatment"]["app.on"], nowhere);
    let why = "no place ssh:nowhere.invalid for the app tier: nowhere.invalid cannot be reached by ssh";
    assert!(reason(absent).starts_with(why), "{absent}");
    studied.bench.write("study.toml", study.replace("[\"native\", ", "[").replace("ratio_to", "# ratio_to"));
    let output = studied.run(&["run", "study.toml"]);
    assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("nothing in this study can run here; no place ssh:"), "{output:?}");
}
