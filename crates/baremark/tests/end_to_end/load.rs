//! `baremark load` as its users meet it, against a small server on 127.0.0.1.

use crate::bench::{Bench, signal, text};
use crate::environments::{self, Program, ssh};
use baremark_environments::container;
use baremark_model::maximum::{Basis, Document as Maximum, Ended};
use baremark_model::qos::Limit;
use baremark_sys::network::HeldPort;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::process::Stdio;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// A server that answers everything with five bytes.
fn server() -> SocketAddr {
    answering(|_| "200 OK")
}

/// A server that answers the requests of each connection, counted from 0, with these statuses.
fn answering(status: fn(usize) -> &'static str) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            thread::spawn(move || {
                let mut request = [0; 4096];
                let mut asked = 0;
                while stream.read(&mut request).is_ok_and(|count| count > 0) {
                    let answer = format!("HTTP/1.1 {}\r\nContent-Length: 5\r\n\r\nhello", status(asked));
                    if stream.write_all(answer.as_bytes()).is_err() {
                        return;
                    }
                    asked += 1;
                }
            });
        }
    });
    address
}

fn json(output: &[u8]) -> serde_json::Value {
    serde_json::from_slice(output).unwrap_or_else(|why| panic!("{why}: {}", text(output)))
}

/// A server with a known limit: a bucket that is refilled by the clock at `rate` a second and holds `depth`; a request that
/// finds it empty is refused with 503. Pauses of the machine up to `depth / rate` refuse nothing.
fn bucket(rate: f64, depth: f64) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let tokens = Arc::new(Mutex::new((depth, Instant::now())));
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let tokens = Arc::clone(&tokens);
            thread::spawn(move || {
                let mut request = [0; 4096];
                while stream.read(&mut request).is_ok_and(|count| count > 0) {
                    let taken = {
                        let mut tokens = tokens.lock().unwrap();
                        let now = Instant::now();
                        tokens.0 = (tokens.0 + rate * (now - tokens.1).as_secs_f64()).min(depth);
                        tokens.1 = now;
                        let taken = tokens.0 >= 1.0;
                        tokens.0 -= f64::from(u8::from(taken));
                        taken
                    };
                    let status = if taken { "200 OK" } else { "503 Service Unavailable" };
                    let text = format!("HTTP/1.1 {status}\r\nContent-Length: 5\r\n\r\nhello");
                    if stream.write_all(text.as_bytes()).is_err() {
                        return;
                    }
                }
            });
        }
    });
    address
}

/// Of a rate r above 500 a second a share of 1 - 500/r is refused: 10 % at 555.6. Far below what the machine can do.
#[test]
fn the_largest_rate_of_a_server_with_a_known_limit_is_found() {
    let bench = Bench::idle();
    let url = format!("http://{}/", bucket(500.0, 30.0));
    let arguments =
        ["load", &url, "--find-max", "--limit", "failures<10%", "--limit", "p90<10s", "--between", "20..5000"];
    let brief = ["--window", "600 ms", "--settle", "500 ms", "--visits", "8", "--connections", "64", "--json"];
    let output = bench.run(&[&arguments[..], &brief[..]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let document: Maximum = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((document.ended, document.trials.len()), (Ended::Found, 3), "{}", text(&output.stderr));
    let maximum = document.maximum.unwrap();
    let (low, high) = (maximum.low.unwrap(), maximum.high.unwrap());
    println!("known limit 555.6/s; found {:.1} [{low:.1}, {high:.1}]", maximum.level);
    // On a busy machine a trial may end without a level of its own; the interval is then labelled as what it is.
    let levels = document.trials.iter().filter(|trial| trial.maximum.is_some()).count();
    assert_eq!(maximum.basis == Basis::FreshTrials, levels == 3, "{maximum:?}");
    // Covered, but for the one time in twenty that an interval of 95 % may miss it; then not by much.
    assert!((0.95 * low..=1.05 * high).contains(&555.6) && (500.0..=620.0).contains(&maximum.level), "{maximum:?}");
    assert_eq!(document.limited_by[0].what, "failures<10 %");
    // None where no window of a busy machine lies clearly below the limit.
    assert!(document.shown_level.is_none_or(|level| level < 560.0), "{:?}", document.shown_level);
    let row = document.knee.iter().find(|row| row.level > 300.0).unwrap();
    assert!(row.p50_ns.is_some() && row.utilization.contains_key("cpu") && row.generator_cpu_share.is_some());
}

#[test]
fn a_search_that_cannot_be_is_refused_and_one_that_is_interrupted_says_so() {
    let bench = Bench::new();
    let url = format!("http://{}/", server());
    for (arguments, told) in [
        (&["--find-max"][..], "there is no limit to keep"),
        (&["--find-max", "--limit", "p99<50"], "has no unit"),
        (&["--find-max", "--limit", "login:p99<50ms"], "no operation is 'login'"),
        (&["--find-max", "--limit", "p99<1s", "--between", "9..3"], "such as 10..5000"),
        (&["--find-max=users", "--limit", "p99<1s"], "never rest"),
        (&["--find-max", "--rate", "5"], "cannot be used with"),
        (&["--find-max", "--error-limit", "5%"], "cannot be used with"),
        (&["--find-max", "--limit", "utilization.db<80%"], "unknown resource 'db'; write utilization.cpu"),
    ] {
        let output = bench.run(&[&["load", &url][..], arguments].concat());
        let message = text(&output.stderr);
        assert!(message.contains(told) && output.stdout.is_empty(), "{told}: {message}");
        assert!(matches!(output.status.code(), Some(1 | 2)), "{arguments:?}: {message}");
    }
    let mut command = bench.command(&["load", &url, "--find-max", "--limit", "p99<10s", "--window", "1 s"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // Not before the first window has been told of.
    let mut first = [0; 8];
    child.stderr.as_mut().unwrap().read_exact(&mut first).unwrap();
    // SAFETY: the process is our child and has not been waited for.
    unsafe { libc::kill(i32::try_from(child.id()).unwrap(), libc::SIGINT) };
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("INTERRUPTED"), "{}", text(&output.stdout));
}

#[test]
fn a_load_by_connections_is_counted_and_told() {
    let bench = Bench::new();
    let url = format!("http://{}/", server());
    let output = bench.run(&["load", &url, "--connections", "4", "--count", "500", "--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let document = json(&output.stdout);
    assert_eq!(document["format"], "baremark-load/1");
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
    let bare = Bench::new();
    bare.run(&["load", &url, "--count", "5", "--no-record"]);
    assert!(!bare.store().exists(), "no record was wanted");
}

#[test]
fn a_rate_is_told_in_words_with_its_verdict() {
    let bench = Bench::new();
    let url = format!("http://{}/", server());
    let output = bench.run(&["load", &url, "--rate", "200", "--arrival", "poisson", "--duration", "1s"]);
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
        let output = bench.run(&[&["load", &url, "--count", "1000", "--connections", "4"], arguments].concat());
        (output.status.code(), text(&output.stdout))
    };
    let (code, told) = load(&["--limit", "p99<10s", "--limit", "failures<5%"]);
    assert_eq!(code, Some(0), "{told}");
    assert!(told.contains("  limit p99 < 10 s                 met ("), "{told}");
    assert!(told.contains("  limit failures < 5 %             met (0.00 %)"), "{told}");
    let (code, told) = load(&["--limit", "p99<1us", "--limit", "p50<10s"]);
    assert_eq!(code, Some(4), "{told}");
    assert!(told.contains("  limit p99 < 1 us                 exceeded ("), "{told}");
    assert!(told.contains("1,000 of 1,000 broke it") && told.contains("limit p50 < 10 s"), "{told}");
    // What is stored says the same.
    let shown = text(&bench.run(&["report"]).stdout);
    assert!(shown.contains("limit p99 < 1 us                 exceeded (") && shown.starts_with(&url), "{shown}");
    let page = bench.path("load.html");
    bench.run(&["report", "--html", page.to_str().unwrap()]);
    let page = std::fs::read_to_string(page).unwrap();
    assert!(page.contains("limit p99 &lt; 1 us: exceeded ("), "{page}");
    let (code, told) = load(&["--limit", "p99<1us", "--json"]);
    let document = crate::schemas::assert_fits(told.as_bytes(), "baremark-load/1");
    assert_eq!((code, &document["limits"][0]["verdict"]), (Some(4), &"exceeded".into()));
    assert_eq!(document["limits"][0]["broken"], serde_json::json!({ "bad": 1000, "all": 1000 }));
    // Five requests have no p99.
    let output = bench.run(&["load", &url, "--rate", "5", "--duration", "1s", "--limit", "p99<10s"]);
    let told = text(&output.stdout);
    assert_eq!(output.status.code(), Some(5), "{told}");
    assert!(told.contains("undecided (5 samples; at least 368 are"), "{told}");
    assert!(told.contains("of one CPU: not the limit") && !told.contains("ms late"), "{told}");
    let output = bench.run(&["load", &url, "--limit", "login:p99<1s"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("no operation is 'login'"), "{}", text(&output.stderr));
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
        let output = bench.run(&["load", &url, "--scenario", "look.toml", "--count", count, "--connections", "2"]);
        (output.status.code(), text(&output.stdout))
    };
    scenario("10 s");
    let (code, told) = load("1000");
    assert_eq!(code, Some(0), "{told}");
    assert!(told.contains("limit look:p99 < 10 s            met ("), "{told}");
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
        let output = bench.run(&[&["load", &url, "--count", "1000", "--connections", "1"], arguments].concat());
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

/// Neither a device without end nor a pipe that nobody writes to holds up a load.
#[test]
fn only_regular_files_are_read() {
    let bench = Bench::new();
    let pipe = bench.path("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let pipe = pipe.to_str().unwrap();
    bench.write("upload.toml", format!("[operations.a]\n[[operations.a.requests]]\npost = \"/\"\nmultipart = {{ name = \"a\", file = \"{pipe}\" }}\n"));
    for file in ["/dev/zero", pipe, "/"] {
        for option in ["--scenario", "--trace", "--replay", "--ca"] {
            let begun = Instant::now();
            let output = bench.run(&["load", "http://127.0.0.1:9/", option, file]);
            let message = text(&output.stderr);
            assert_eq!(output.status.code(), Some(2), "{option} {file}: {message}");
            assert!(
                message.contains(&format!("not a regular file: {file}; name a file on disk")),
                "{option}: {message}"
            );
            // It would wait for ever.
            assert!(begun.elapsed() < Duration::from_secs(60), "{option} {file} took {:?}", begun.elapsed());
        }
    }
    let output = bench.run(&["load", "http://127.0.0.1:9/", "--scenario", "upload.toml"]);
    let message = text(&output.stderr);
    assert!(output.status.code() == Some(2) && message.contains("upload.toml:4: not a regular file"), "{message}");
    std::fs::write(bench.path("long.toml"), "#".repeat(5 << 20)).unwrap();
    let output = bench.run(&["load", "http://127.0.0.1:9/", "--scenario", "long.toml"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("long.toml is longer than 4 MiB"), "{}", text(&output.stderr));
}

#[test]
fn the_help_uses_the_terms_of_the_field() {
    let help = text(&Bench::new().run(&["load", "--help"]).stdout);
    for part in [
        "Request timeout",
        "Random seed",
        "Stop after N operations",
        "Test duration",
        "Skip TLS certificate verification",
        "Local source address (repeat for round-robin)",
        "Inter-arrival time distribution",
        "overrides the scenario's base URL",
        "Settling time after each load change",
        "Probes at the final step size",
        "--error-limit <SHARE>",
        "Examples:",
    ] {
        assert!(help.contains(part), "{part}: {help}");
    }
}

#[test]
fn what_cannot_be_done_is_refused_with_a_remedy() {
    let bench = Bench::new();
    bench.write("odd.toml", "[operations.a]\nlimti = \"1 s\"\n[[operations.a.requests]]\nget = \"/\"\n");
    for (arguments, told) in [
        (&["load", "127.0.0.1"][..], "write such as http://"),
        (&["load", "http://nowhere.invalid/"], "'nowhere.invalid' could not be resolved"),
        (&["load", "http://127.0.0.1:9/", "--rate", "ramp from=0 to=5"], "add over=VALUE"),
        (&["load", "http://127.0.0.1:9/", "--users", "5"], "never rest"),
        (&["load", "http://127.0.0.1:9/", "--rate", "5", "--users", "5"], "cannot be used with"),
        (
            &["load", "--scenario", "odd.toml", "http://127.0.0.1:9"],
            "odd.toml:2: the operation has no 'limti'; did you mean 'limit'?",
        ),
        (&["load", "http://127.0.0.1:9/", "--header", "accept"], "must be NAME: VALUE"),
        (&["load", "http://127.0.0.1:9/", "--duration", "5"], "has no unit"),
    ] {
        let output = bench.run(arguments);
        let message = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {message}");
        assert!(message.contains(told) && output.stdout.is_empty(), "{told}: {message}");
    }
}

#[test]
fn nobody_answers_is_a_failure_that_says_why() {
    let bench = Bench::new();
    // It is bound and nobody listens there.
    let held = HeldPort::any().unwrap();
    let url = format!("http://127.0.0.1:{}/", held.number());
    let output = bench.run(&["load", &url, "--duration", "300 ms"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stdout).contains("refused"), "{}", text(&output.stdout));
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
    let mut command = bench.command(&["load", &url, "--rate", "100", "--duration", "60 s", "--json"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // So many are intended in 190 ms.
    environments::wait_for(|| (ASKED.load(Ordering::Relaxed) >= 20).then_some(()));
    // SAFETY: the process is our child and has not been waited for.
    unsafe { libc::kill(i32::try_from(child.id()).unwrap(), libc::SIGINT) };
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", text(&output.stderr));
    let document = json(&output.stdout);
    assert_eq!(document["ended"], "interrupted");
    assert!(document["elapsed_s"].as_f64().is_some_and(|elapsed| (0.1..59.0).contains(&elapsed)));
}

/// What `report` makes of a stored load: text with pictures, a page, seconds.
#[test]
fn a_stored_load_is_shown_again() {
    let bench = Bench::new();
    let url = format!("http://{}/secret?token=hidden", server());
    let output = bench.run(&["load", &url, "--rate", "300", "--duration", "4s", "--header", "authorization: hidden"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let shown = text(&bench.run(&["report"]).stdout);
    // A generator that was late at the end has taken longer.
    let elapsed = bench.json(&["report", "--json"])["elapsed_s"].as_f64().unwrap();
    let succeeded = format!(" requests succeeded in {elapsed:.1} s");
    for part in [succeeded.as_str(), "p99 by second", "latency by percentile"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let page = bench.path("load.html");
    let output = bench.run(&["report", "--html", page.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let page = std::fs::read_to_string(page).unwrap();
    assert!(page.matches("<polyline").count() >= 4 && page.contains("Latency by percentile") && page.contains("p99.9"));
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
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    assert!(lines.next().unwrap().unwrap().contains("answered") && lines.next().unwrap().is_ok());
    child.kill().unwrap();
    child.wait().unwrap();
    let history = json(&bench.run(&["history", "--json"]).stdout);
    assert_eq!(history["runs"][0]["state"], "killed");
    let partial = json(&bench.run(&["report", "--json"]).stdout);
    assert_eq!(partial["format"], "baremark-load-partial/1");
    assert!(partial["seconds"].as_array().is_some_and(|seconds| seconds.len() >= 2), "{partial}");
    assert!(text(&bench.run(&["report"]).stdout).contains("killed: it has no result"));
}

/// Two agents on this machine share one load: what each would have done alone is dealt between them and merged exactly.
#[test]
fn sites_share_a_load_and_begin_together() {
    let bench = Bench::new();
    let url = format!("http://{}/", server());
    let arguments =
        ["load", &url, "--rate", "200", "--duration", "3s", "--site", "native", "--site", "native", "--json"];
    let output = bench.run(&arguments);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let document = json(&output.stdout);
    assert_eq!((&document["counts"]["intended"], &document["asked"]["sites"]), (&600.into(), &2.into()));
    let ended =
        600 - document["counts"]["unfinished"].as_u64().unwrap() - document["counts"]["unsent"].as_u64().unwrap();
    assert_eq!(document["latency"]["corrected"]["samples"], ended, "{}", document["failures"]);
    assert_eq!(document["generator"]["threads"].as_array().map(Vec::len), Some(2));
    let sites = document["sites"].as_array().unwrap();
    assert!(sites.len() == 2 && sites.iter().all(|site| site["lost"].is_null() && site["seconds"].as_u64() >= Some(3)));
    let series: u64 = document["series"].as_array().unwrap().iter().map(|row| row["intended"].as_u64().unwrap()).sum();
    assert_eq!(series, 600, "the seconds are merged as well");
    let output = bench.run(&["load", &url, "--site", "nowhere"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("write native, container or ssh:HOST"), "{}", text(&output.stderr));
    let output = bench.run(&["load", "http://nowhere.invalid/", "--site", "native", "--no-record"]);
    assert!(text(&output.stderr).contains("'nowhere.invalid' could not be resolved"), "{}", text(&output.stderr));
}

/// The agents of a process: its children that were started as such.
fn agents_of(parent: u32) -> Vec<i32> {
    let folders = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = folders.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let is_agent = |pid: &i32| {
        let read = |file: &str| std::fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap_or_default();
        let stat = read("stat");
        let mut after = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
        after.nth(1) == Some(parent.to_string().as_str()) && read("cmdline").contains("agent")
    };
    pids.filter(is_agent).collect()
}

#[test]
fn a_site_that_is_lost_is_told_and_the_others_count() {
    let bench = Bench::new();
    let url = format!("http://{}/", server());
    let arguments = ["load", &url, "--rate", "100", "--duration", "8s", "--site", "native", "--site", "native"];
    let mut command = bench.command(&arguments);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    // Both have told of a second.
    assert!(lines.next().unwrap().unwrap().contains("answered"));
    let agents = agents_of(child.id());
    assert_eq!(agents.len(), 2, "{agents:?}");
    // SAFETY: the process is an agent of our child, which is still running.
    unsafe { libc::kill(agents[0], libc::SIGKILL) };
    let rest: Vec<String> = lines.map_while(Result::ok).collect();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{rest:?}");
    assert!(rest.iter().any(|line| line.contains("is lost")), "{rest:?}");
    let told = text(&output.stdout);
    assert!(told.contains("SITE LOST after ") && told.contains("not in the figures"), "{told}");
    let history = json(&bench.run(&["history", "--json"]).stdout);
    assert_eq!(history["runs"][0]["stop_reason"], "a site was lost");
    let document = json(&bench.run(&["report", "--json"]).stdout);
    assert_eq!((&document["ended"], &document["counts"]["intended"]), (&"site-lost".into(), &400.into()));
}

/// The agents that run the program elsewhere than in this process's own mounts: in containers.
fn agents_in_containers(program: &Program) -> Vec<u32> {
    let mounts = |pid: &str| std::fs::read_link(format!("/proc/{pid}/ns/mnt")).ok();
    let there = |pid: &u32| mounts(&pid.to_string()).is_some_and(|mounted| Some(mounted) != mounts("self"));
    program.pids().into_iter().filter(there).collect()
}

/// Whether containers can be had here.
fn containers() -> bool {
    let program = env!("CARGO_BIN_EXE_baremark").into();
    environments::usable(&container::Container::new(program, container::Settings::default()))
}

/// Runs a load of `rate` from these sites; once all have told of a second, `meanwhile` happens. Status, what was told, the result.
fn from_sites(
    program: &Program,
    sites: &[&str],
    ssh_config: Option<&std::path::Path>,
    (rate, seconds): (&str, &str),
    meanwhile: impl FnOnce(),
) -> (Option<i32>, String, serde_json::Value) {
    let bench = Bench::new();
    let url = format!("http://{}/", server());
    let mut arguments = vec!["load", &url, "--rate", rate, "--duration", seconds];
    sites.iter().for_each(|site| arguments.extend(["--site", site]));
    let config = ssh_config.map(|path| path.display().to_string());
    arguments.extend(config.iter().flat_map(|path| ["--ssh-config", path]));
    let mut command = bench.command_of(&program.path(), &arguments);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let first = lines.next().map(Result::unwrap).unwrap_or_default();
    if first.contains("answered") {
        meanwhile();
    }
    let rest: Vec<String> = lines.map_while(Result::ok).collect();
    let output = child.wait_with_output().unwrap();
    let document = json(&bench.run(&["report", "--json"]).stdout);
    (output.status.code(), format!("{first}\n{}\n{}", rest.join("\n"), text(&output.stdout)), document)
}

/// Agents on this machine, behind a real sshd and in a container share one load, begin together and are merged exactly.
#[test]
fn sites_behind_ssh_and_in_containers_are_merged_exactly() {
    let Some(machine) = ssh::Server::start() else { return };
    let mut sites = vec!["native", "ssh:machine", "ssh:machine"];
    if containers() {
        sites.push("container");
    }
    let program = Program::new();
    let (status, told, document) = from_sites(&program, &sites, Some(&machine.config()), ("200", "3s"), || ());
    assert_eq!(status, Some(0), "{told}");
    assert_eq!((&document["counts"]["intended"], &document["asked"]["sites"]), (&600.into(), &sites.len().into()));
    let ended =
        600 - document["counts"]["unfinished"].as_u64().unwrap() - document["counts"]["unsent"].as_u64().unwrap();
    assert_eq!(document["latency"]["corrected"]["samples"], ended, "{}", document["failures"]);
    let rows = document["sites"].as_array().unwrap();
    assert!(rows.len() == sites.len() && rows.iter().all(|row| row["lost"].is_null()), "{rows:?}");
    // By one clock, as well as the way there lets it be read.
    assert!(rows.iter().all(|row| row["begin_error_ns"].as_u64().unwrap() < 1_000_000_000), "{rows:?}");
    // However lines are wrapped.
    let words = told.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("; began within "), "{told}");
    let series: u64 = document["series"].as_array().unwrap().iter().map(|row| row["intended"].as_u64().unwrap()).sum();
    assert_eq!(series, 600, "the seconds are merged as well");
    environments::wait_for(|| machine.left().is_empty().then_some(()));
}

/// Whoever is cut off is named, nothing of it is counted, and the rest is.
#[test]
fn a_site_that_is_cut_off_elsewhere_is_named() {
    let program = Program::new();
    let lost = |sites: &[&str], config: Option<&std::path::Path>, kill: &dyn Fn()| {
        let (status, told, document) = from_sites(&program, sites, config, ("100", "8s"), kill);
        assert_eq!((status, &document["ended"]), (Some(1), &"site-lost".into()), "{told}");
        assert!(told.contains(&format!("2 ({})", sites[1])) && told.contains("SITE LOST"), "{told}");
        assert_eq!(document["counts"]["intended"], 400, "half of 800: {told}");
        assert!(document["sites"][0]["lost"].is_null() && document["sites"][1]["lost"].is_string(), "{told}");
    };
    let kill = |pids: Vec<u32>| {
        assert!(!pids.is_empty(), "an agent runs there");
        pids.into_iter().for_each(|pid| signal(pid, libc::SIGKILL));
    };
    if let Some(machine) = ssh::Server::start() {
        lost(&["native", "ssh:machine"], Some(&machine.config()), &|| {
            let pids = machine.left().into_iter().filter_map(|left| left.rsplit_once("/proc/")?.1.parse::<u32>().ok());
            kill(pids.collect());
        });
        environments::wait_for(|| machine.left().is_empty().then_some(()));
    }
    if containers() {
        lost(&["native", "container"], None, &|| kill(agents_in_containers(&program)));
        environments::wait_for(|| agents_in_containers(&program).is_empty().then_some(()));
    }
}

/// So many users with a cycle of half a second make twice as many requests a second: of 300 that the bucket grants, 10 % more
/// are requested by 166.7 users.
#[test]
fn the_largest_number_of_users_of_a_server_with_a_known_limit_is_found() {
    let bench = Bench::idle();
    let url = format!("http://{}/", bucket(300.0, 20.0));
    let arguments =
        ["load", &url, "--find-max=users", "--cycle", "500ms", "--limit", "failures<10%", "--between", "20..1000"];
    let brief = ["--window", "700 ms", "--settle", "700 ms", "--visits", "8", "--json"];
    let output = bench.run(&[&arguments[..], &brief[..]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    crate::schemas::assert_fits(&output.stdout, "baremark-maximum/1");
    let document: Maximum = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((document.ended, document.factor.as_str()), (Ended::Found, "users"), "{}", text(&output.stderr));
    let maximum = document.maximum.unwrap();
    let (low, high) = (maximum.low.unwrap(), maximum.high.unwrap());
    println!("known limit 166.7 users; found {:.1} [{low:.1}, {high:.1}]", maximum.level);
    // On a busy machine a trial may end without a level of its own; the interval is then labelled as what it is.
    let levels = document.trials.iter().filter(|trial| trial.maximum.is_some()).count();
    assert_eq!(maximum.basis == Basis::FreshTrials, levels == 3, "{maximum:?}");
    assert!((0.95 * low..=1.05 * high).contains(&166.7) && (145.0..=190.0).contains(&maximum.level), "{maximum:?}");
    assert_eq!(document.limited_by[0].what, "failures<10%".parse::<Limit>().unwrap().to_string());
    // The knee: beyond it, more users get no more done, and each row says what it cost.
    let rows: Vec<_> = document.knee.iter().filter(|row| row.p50_ns.is_some()).collect();
    assert!(rows.len() > 3 && rows.is_sorted_by(|left, right| left.level < right.level), "{rows:?}");
    let past = rows.iter().rfind(|row| row.level > 200.0).unwrap();
    assert!(past.achieved_per_s < 360.0 && past.failed_share > 0.15 && past.verdict != "pass", "{past:?}");
    let before = rows.iter().rfind(|row| row.level < 120.0).unwrap();
    assert!(
        before.failed_share < 0.1 && before.p95_ns >= before.p50_ns && before.utilization["cpu"] > 0.0,
        "{before:?}"
    );
    let shown = text(&bench.run(&["report"]).stdout);
    for part in ["users", "Levels", "done/s", "p95", "CPU", "failures<10 %"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    assert!(!shown.contains("% %"), "{shown}");
}

/// Every kind of limit is counted at a real server: percentiles and failures by operation, the mix, the delay of what an
/// answer tells, and the processor.
#[test]
fn every_kind_of_limit_is_read_in_a_search() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            thread::spawn(move || {
                let mut request = [0; 4096];
                while stream.read(&mut request).is_ok_and(|count| count > 0) {
                    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
                    // It reports what happened a while ago.
                    let body = format!("{{\"at\":{}}}", now.as_nanos() - 30_000_000);
                    let text = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len());
                    if stream.write_all(text.as_bytes()).is_err() {
                        return;
                    }
                }
            });
        }
    });
    let bench = Bench::busy();
    bench.write(
        "two.toml",
        r#"
        [scenario]
        start = "look"
        cycle = "200 ms"
        [operations.look]
        weight = 3
        next = "either"
        [[operations.look.requests]]
        get = "/"
        [operations.hear]
        weight = 1
        next = "either"
        [[operations.hear.requests]]
        get = "/news"
        delay = { json = "at", unit = "ns", limit = "5 s" }
        [choices]
        either = [{ to = "look", weight = 3 }, { to = "hear", weight = 1 }]
        "#,
    );
    let url = format!("http://{address}");
    let search = |what: &str, last: Option<&str>| {
        // So many that the mix of a window is the scenario's, and that the clock's ticks see the processor at work.
        let between = if what == "--find-max=rate" { "400..600" } else { "40..60" };
        let mut arguments = vec!["load", &url, "--scenario", "two.toml", what, "--between", between, "--trials", "1"];
        let limits = ["look:p90<9s", "hear:failures<50%", "mix<80%", "hear:delay.p50<9s"];
        limits.into_iter().chain(last).for_each(|limit| arguments.extend(["--limit", limit]));
        arguments.extend(["--window", "1 s", "--settle", "300 ms", "--visits", "6", "--json"]);
        let output = bench.run(&arguments);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        serde_json::from_slice::<Maximum>(&output.stdout).unwrap()
    };
    for what in ["--find-max=rate", "--find-max=users"] {
        let document = search(what, None);
        assert!((document.qos.mix["look"] - 0.75).abs() < 1e-6, "{:?}", document.qos.mix);
        assert_eq!((document.ended, document.qos.limits.len()), (Ended::PassesAll, 4), "{:?}", document.limited_by);
        let reading = &document.trials[0].windows.last().unwrap().reading;
        let counted = |at: usize| reading.broken[at].unwrap();
        assert!((0..2).chain([3]).all(|at| counted(at).all > 0), "{reading:?}");
        assert!(reading.broken[2].is_none(), "the mix has no count of its own");
        assert!(
            reading.ended["look"] > reading.ended["hear"] && reading.utilization.contains_key("cpu"),
            "{reading:?}"
        );
    }
    // News is 30 ms old: a limit below that is broken at every level, and named.
    let document = search("--find-max=rate", Some("hear:delay.p50<20ms"));
    let delayed = document.limited_by.iter().any(|limiting| limiting.what == "hear:delay.p50<20 ms");
    assert!(document.ended == Ended::FailsAll && delayed, "{:?} {:?}", document.ended, document.limited_by);
    // A processor that may do nothing limits too.
    let document = search("--find-max=rate", Some("utilization.cpu<0.01%"));
    let busy = document.limited_by.iter().any(|limiting| limiting.what == "utilization.cpu<0.01 %");
    assert!(document.ended == Ended::FailsAll && busy, "{:?} {:?}", document.ended, document.limited_by);
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
        let ran = bench.run(&["load", &url, "--rate", "200", "--duration", "500ms", "--connections", "4"]);
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

/// What a search has found is a run of its own as well, with its windows as comma-separated values.
#[test]
fn a_search_is_a_run_whose_windows_are_reported() {
    let bench = Bench::new();
    let url = format!("http://{}/", bucket(500.0, 30.0));
    let search = ["load", &url, "--find-max", "--limit", "failures<10%", "--between", "100..2000", "--trials", "1"];
    let brief = ["--window", "300 ms", "--settle", "200 ms", "--visits", "6", "--connections", "32"];
    let ran = bench.run(&[&search[..], &brief[..]].concat());
    assert_eq!(ran.status.code(), Some(0), "{}", text(&ran.stderr));
    let csv = text(&bench.run(&["report", "--csv"]).stdout);
    let mut lines = csv.lines();
    assert_eq!(lines.next(), Some("trial,level,said,achieved_per_s,failed,p50_ns,p99_ns"));
    let row = lines.next().unwrap();
    assert!(row.starts_with("1,") && row.split(',').count() == 7 && lines.count() > 3, "{csv}");
    assert!(text(&bench.run(&["report"]).stdout).contains("Levels"));
}

/// A killed search goes on after its last stored window: none of them is measured again.
#[test]
fn a_killed_search_is_resumed_without_its_finished_windows() {
    let bench = Bench::new();
    let url = format!("http://{}/", bucket(500.0, 30.0));
    let search = ["load", &url, "--find-max", "--limit", "failures<10%", "--between", "100..2000", "--trials", "1"];
    let brief = ["--window", "300 ms", "--settle", "200 ms", "--visits", "6", "--connections", "32"];
    let mut child = bench.spawn(&[&search[..], &brief[..]].concat());
    // Each window is stored before it is printed.
    let said = BufReader::new(child.stderr.take().unwrap());
    let windows = said.lines().map_while(Result::ok).filter(|line| line.starts_with("trial 1 ")).take(3).count();
    signal(child.id(), libc::SIGKILL);
    child.wait().unwrap();
    assert_eq!(windows, 3);
    let rows = |csv: &str| csv.lines().skip(1).map(str::to_owned).collect::<Vec<_>>();
    let before = rows(&text(&bench.run(&["report", "--csv"]).stdout));
    // Others may have been stored before the signal came; it was not the last, for the search goes on.
    assert!(before.len() >= 3, "{before:?}");
    let resumed = bench.run(&["resume"]);
    assert_eq!(resumed.status.code(), Some(0), "{}", text(&resumed.stderr));
    assert!(text(&resumed.stderr).contains(&format!("{} windows of run ", before.len())), "{}", text(&resumed.stderr));
    let after = rows(&text(&bench.run(&["report", "--csv"]).stdout));
    assert!(after.len() > before.len() && after.starts_with(&before), "{before:?} {after:?}");
    let document: Maximum = serde_json::from_slice(&bench.run(&["report", "--json"]).stdout).unwrap();
    assert_eq!(document.trials[0].windows.len(), after.len(), "each window counts once");
    assert_eq!(bench.run(&["resume"]).status.code(), Some(2), "it is finished");
    // Of a URL with a query only the rest is stored: it cannot be resumed.
    let secret = format!("{url}?token=own");
    let mut child = bench.spawn(&["load", &secret, "--find-max", "--limit", "p99<10s", "--window", "300 ms"]);
    let mut line = String::new();
    BufReader::new(child.stderr.take().unwrap()).read_line(&mut line).unwrap();
    signal(child.id(), libc::SIGKILL);
    child.wait().unwrap();
    let id = bench.json(&["history", "--json"])["runs"][0]["id"].as_str().unwrap().to_owned();
    let refused = bench.run(&["resume", &id]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).contains("run the load again"), "{}", text(&refused.stderr));
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
        "p99<10s",
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
        "limit = [\"p99<10 s\"]".to_owned(),
        "header = [\"accept: text/html\"]".to_owned(),
    ] {
        assert!(printed.contains(&line), "{line}: {printed}");
    }
    bench.write("load.toml", &printed);
    let document = bench.json(&["run", "load.toml", "--quick", "--json"]);
    let counted = document["trials"].as_array().unwrap().iter().filter(|trial| trial["status"] == "ok").count();
    assert!(counted >= 4, "{document:#}");
    for with in [&["--site", "native"][..], &["--find-max", "--limit", "p99<1s"]] {
        let ran = bench.run(&[&["load", &url, "--print-study"][..], with].concat());
        assert_eq!(ran.status.code(), Some(2), "{with:?}: {}", text(&ran.stdout));
    }
}
