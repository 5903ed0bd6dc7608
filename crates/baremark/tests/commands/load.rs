//! `baremark load`: what is refused, with its remedy, before anything is sent.

use crate::common::bench::{Bench, text};
use crate::common::http::Server;
use baremark_sys::network::HeldPort;
use std::time::{Duration, Instant};

/// An address at which nobody is asked.
const URL: &str = "http://127.0.0.1:9/";

/// More than 63 letters without a dot are no name: no server is asked for it.
const NOWHERE: &str = "http://nowherenowherenowherenowherenowherenowherenowherenowherenowherenowhere/";

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
    // Lines are wrapped.
    let help = text(&Bench::new().run(&["load", "--help"]).stdout);
    let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
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
        // The user does not see the lines of the study that the command line becomes.
        (&["load", "http://"], "error: baremark load: url: 'http://' has no host; write such as http://"),
        (&["load", NOWHERE], "nowhere' could not be resolved"),
        (&["load", "http://127.0.0.1:9/", "--rate", "ramp from=0 to=5"], "add over=VALUE"),
        (&["load", "http://127.0.0.1:9/", "--rate", "0"], "'--rate <PROFILE>': profile never sends a request"),
        (&["load", "http://127.0.0.1:9/", "--rate", "5 foo"], "profile '5' is not known"),
        (&["load", "http://127.0.0.1:9/", "--users", "5"], "never rest"),
        (&["load", "http://127.0.0.1:9/", "--rate", "5", "--users", "5"], "cannot be used with"),
        (
            &["load", "--scenario", "odd.toml", "http://127.0.0.1:9"],
            "odd.toml:2: unknown key 'limti' in [operations.a]; did you mean 'limit'?",
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
fn a_search_that_cannot_be_is_refused() {
    let bench = Bench::new();
    for (arguments, told) in [
        (&["--find-max"][..], "there is no limit to keep"),
        (&["--find-max", "--limit", "p99<50"], "has no unit"),
        (&["--find-max", "--limit", "login:p99<50ms"], "no operation is 'login'"),
        (&["--find-max", "--limit", "p99<1s", "--between", "9..3"], "such as 10..5000"),
        (&["--find-max=users", "--limit", "p99<1s"], "never rest"),
        (&["--find-max", "--rate", "5"], "cannot be used with"),
        (&["--find-max", "--error-limit", "5%"], "cannot be used with"),
        (&["--find-max", "--limit", "p99<1s", "--site", "native"], "cannot be used with"),
        (&["--find-max", "--limit", "p99<1s", "--trials", "0"], "0 is not in 1..=1000"),
        (&["--find-max", "--limit", "p99<1s", "--trials", "1001"], "1001 is not in 1..=1000"),
        (&["--find-max", "--limit", "p99<1s", "--trials", "18446744073709551615"], "is not in 1..=1000"),
        (&["--find-max", "--limit", "utilization.db<80%"], "unknown resource 'db'; write utilization.cpu"),
    ] {
        let output = bench.run(&[&["load", URL][..], arguments].concat());
        let message = text(&output.stderr);
        assert!(message.contains(told) && output.stdout.is_empty(), "{told}: {message}");
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {message}");
    }
    assert!(!bench.store().exists(), "a request that is refused stores nothing");
}

/// A wrong search sends nothing: whoever listens is not asked.
#[test]
fn a_search_that_cannot_be_sends_nothing() {
    let bench = Bench::new();
    let server = Server::start();
    let url = format!("http://{}/", server.address);
    for arguments in [&["--find-max"][..], &["--find-max", "--limit", "p99<1s", "--visits", "3"]] {
        let output = bench.run(&[&["load", &url][..], arguments].concat());
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", text(&output.stderr));
    }
    assert_eq!((server.answered(), bench.store().exists()), (0, false));
}

#[test]
fn a_limit_on_an_operation_that_is_not_there_is_refused() {
    let output = Bench::new().run(&["load", URL, "--limit", "login:p99<1s"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("no operation is 'login'"), "{}", text(&output.stderr));
}

#[test]
fn a_site_that_is_none_is_refused() {
    let bench = Bench::new();
    let output = bench.run(&["load", URL, "--site", "nowhere"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("write native, container or ssh:HOST"), "{}", text(&output.stderr));
    assert!(!bench.store().exists(), "a request that is refused stores nothing");
    let output = bench.run(&["load", NOWHERE, "--site", "native", "--no-record"]);
    assert!(text(&output.stderr).contains("nowhere' could not be resolved"), "{}", text(&output.stderr));
}

/// What a site says may name hosts.
#[test]
fn why_a_load_failed_is_stored_by_its_kind() {
    let bench = Bench::new();
    let output = bench.run(&["load", NOWHERE, "--site", "native"]);
    assert!(text(&output.stderr).contains("nowhere' could not be resolved"), "{}", text(&output.stderr));
    let history = bench.json(&["history", "--json"]);
    let run = &history["runs"][0];
    let reason = run["stop_reason"].as_str().unwrap();
    assert!(run["state"] == "failed" && reason.starts_with("nothing could be measured: "), "{run:#}");
    assert!(!reason.contains("nowhere"), "{reason}");
}

#[test]
fn a_study_is_printed_neither_of_sites_nor_of_a_search() {
    for with in [&["--site", "native"][..], &["--find-max", "--limit", "p99<1s"]] {
        let ran = Bench::new().run(&[&["load", URL, "--print-study"][..], with].concat());
        assert_eq!(ran.status.code(), Some(2), "{with:?}: {}", text(&ran.stdout));
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
