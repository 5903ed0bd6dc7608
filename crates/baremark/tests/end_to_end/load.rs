//! `baremark load` as its users meet it, against a small server on 127.0.0.1.

use crate::bench::{Bench, text};
use baremark_model::maximum::{Basis, Document as Maximum, Ended};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// A server that answers everything with five bytes.
fn server() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for mut stream in listener.incoming().take(64).flatten() {
            thread::spawn(move || {
                let mut request = [0; 4096];
                while stream.read(&mut request).is_ok_and(|count| count > 0) {
                    if stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello").is_err() {
                        return;
                    }
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
        for mut stream in listener.incoming().take(5000).flatten() {
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
    let bench = Bench::new();
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
    assert_eq!(maximum.basis, Basis::FreshTrials);
    // Covered, but for the one time in twenty that an interval of 95 % may miss it; then not by much.
    assert!((0.97 * low..=1.03 * high).contains(&555.6) && (500.0..=620.0).contains(&maximum.level), "{maximum:?}");
    assert_eq!(document.limited_by[0].what, "failures<10 %");
    assert!(document.shown_level.is_some_and(|level| level < 560.0), "{:?}", document.shown_level);
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
        (&["--limit", "p99<1s"], "--find-max"),
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
        (Some(0), Some(1))
    );
    assert_eq!(
        (&history["loads"][0]["state"], &history["loads"][0]["stop_reason"]),
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
    for part in ["requests/s for 1.0 s", "latency from the intended start", "uncorrected, all", "send lag", "asked 200"]
    {
        assert!(told.contains(part), "{part}: {told}");
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
        (&["load", "http://127.0.0.1:9/", "--header", "accept"], "is no header"),
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
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let output = bench.run(&["load", &format!("http://{address}/"), "--duration", "300 ms"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stdout).contains("refused"), "{}", text(&output.stdout));
}

#[test]
fn an_interrupt_leaves_a_partial_result() {
    let bench = Bench::new();
    let url = format!("http://{}/", server());
    let mut command = bench.command(&["load", &url, "--rate", "100", "--duration", "60 s", "--json"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    thread::sleep(Duration::from_millis(700));
    // SAFETY: the process is our child and has not been waited for.
    unsafe { libc::kill(i32::try_from(child.id()).unwrap(), libc::SIGINT) };
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", text(&output.stderr));
    let document = json(&output.stdout);
    assert_eq!(document["ended"], "interrupted");
    assert!(document["elapsed_s"].as_f64().is_some_and(|elapsed| (0.1..10.0).contains(&elapsed)));
}

/// What `report` makes of a stored load: text with pictures, a page, seconds.
#[test]
fn a_stored_load_is_shown_again() {
    let bench = Bench::new();
    let url = format!("http://{}/secret?token=hidden", server());
    let output = bench.run(&["load", &url, "--rate", "300", "--duration", "4s", "--header", "authorization: hidden"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let shown = text(&bench.run(&["report"]).stdout);
    for part in ["requests/s for 4.0 s", "p99 by second", "latency by percentile"] {
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
    assert_eq!(history["loads"][0]["state"], "killed");
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
    assert!(told.contains("SITE LOST") && told.contains("Nothing that it measured is in the figures"), "{told}");
    let history = json(&bench.run(&["history", "--json"]).stdout);
    assert_eq!(history["loads"][0]["stop_reason"], "a site was lost");
    let document = json(&bench.run(&["report", "--json"]).stdout);
    assert_eq!((&document["ended"], &document["counts"]["intended"]), (&"site-lost".into(), &400.into()));
}
