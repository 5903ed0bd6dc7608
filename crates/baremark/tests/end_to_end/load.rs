//! `baremark load` as its users meet it, against a small server on 127.0.0.1.

use crate::bench::{Bench, text};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::process::Stdio;
use std::thread;
use std::time::Duration;

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
    assert!(!bench.store().exists(), "a load is no run of a study");
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
