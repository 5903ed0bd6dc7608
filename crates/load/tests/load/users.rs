//! Users: their cycle, their ways through a scenario, what they carry, and the loops alongside them.

use crate::server::{Then, Visits, answer, load, run, run_until, serve};
use crate::shop::{NUMBERED, now_ns, scenario, shop, users};
use baremark_load::load::{Drive, Load, Stop};
use baremark_load::profile::Profile;
use std::collections::BTreeMap;
use std::io::Write;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// Users keep the address that they were given, for all that they do, and are dealt evenly.
#[test]
fn users_are_spread_over_the_addresses_of_a_server() {
    let counted = || {
        let users = Arc::new(Mutex::new(BTreeMap::<String, usize>::new()));
        let heard = Arc::clone(&users);
        let server = serve(move |request, stream| {
            *heard.lock().unwrap().entry(request.line.clone()).or_default() += 1;
            // Each request needs a connection of its own.
            answer(stream, 200, "Connection: close\r\n", "");
            Then::Close
        });
        (server, users)
    };
    let ((first, seen_first), (second, seen_second)) = (counted(), counted());
    let text = "[scenario]\ncycle = \"50 ms\"\n[operations.home]\nnext = \"home\"\n[[operations.home.requests]]\nget = \"/{user}\"\n";
    let mut load = Load {
        scenario: scenario(text, &first),
        ..load(first.address, Drive::Users { profile: Profile::steady(6.0) }, 600_000)
    };
    load.connections = 20;
    load.addresses = vec![first.address, second.address];
    let often = |users: &BTreeMap<String, usize>| users.values().filter(|times| **times > 1).count();
    let document = run_until("six users who have asked twice", load, || {
        often(&seen_first.lock().unwrap()) + often(&seen_second.lock().unwrap()) >= 6
    });
    assert!(document.failures.is_empty(), "{:?}", document.failures);
    let (one, other) = (seen_first.lock().unwrap(), seen_second.lock().unwrap());
    assert_eq!((one.len(), other.len()), (3, 3), "three users each: {one:?} {other:?}");
    assert!(one.keys().all(|user| !other.contains_key(user)), "{one:?} {other:?}");
}

/// Every join begins a loop with a connection of its own, on which the next bid is asked for again and again.
#[test]
fn users_walk_through_the_specimen_with_cookies_tokens_bodies_and_long_polls() {
    let loops = Arc::new(Mutex::new(BTreeMap::<SocketAddr, usize>::new()));
    let heard = Arc::clone(&loops);
    let server = serve(move |request, stream| {
        if request.line.starts_with("GET /next") {
            *heard.lock().unwrap().entry(stream.peer_addr().unwrap()).or_default() += 1;
        }
        shop(request, stream)
    });
    let load = users(include_str!("shop.toml"), &server, "8", 600_000);
    let document = run_until("two loops of each of 8 users", load, || {
        let loops = loops.lock().unwrap();
        loops.len() == 16 && loops.values().all(|asked| *asked > 3)
    });
    assert!(document.failures.is_empty(), "{:?} {:?}", document.failures, document.failure_examples);
    let row = |name: &str| document.operations.iter().find(|row| row.name == name).unwrap();
    for name in ["home", "login", "list", "join", "next-bid"] {
        assert!(row(name).succeeded > 0, "{name} was never done");
    }
    assert_eq!(row("join").succeeded, 16, "each of 8 users joins twice");
    // Each loop has had three answers, and no answer comes before it was made.
    let delay = row("next-bid").delay.as_ref().unwrap();
    assert!(delay.samples >= 3 * 16 && delay.samples == row("next-bid").succeeded, "{delay:?}");
    assert_eq!(row("list").limit_ns, Some(2_000_000_000));
    assert!(row("list").within_limit_share.is_some_and(|share| (0.0..=1.0).contains(&share)));
}

const ONE: &str = r#"
    [scenario]
    cycle = "100 ms"
    [operations.only]
    [[operations.only.requests]]
    get = "/"
"#;

#[test]
fn a_user_who_was_kept_counts_from_the_intended_start() {
    // The third answer takes 450 ms; with a cycle of 100 ms the user is four cycles late then, and catches up.
    let count = Mutex::new(0);
    let server = serve(move |_, stream| {
        let nth = {
            let mut count = count.lock().unwrap();
            *count += 1;
            *count
        };
        thread::sleep(Duration::from_millis(if nth == 3 { 450 } else { 0 }));
        answer(stream, 200, "", "")
    });
    let text = ONE.replace("cycle =", "cycle_deviation = \"0 %\"\ncycle =");
    let drive = Drive::Users { profile: Profile::steady(1.0) };
    let mut load = Load { scenario: scenario(&text, &server), ..load(server.address, drive, 0) };
    load.stop = Stop::Count(15);
    let document = run(load);
    let (corrected, raw) = (document.latency.corrected.unwrap(), document.latency.raw.unwrap());
    // Meant at 100 ms steps: the third is 450 ms late, those after it 350, 250, 150 and 50 ms. Whatever else takes time adds to both sums, and
    // to the corrected one no less.
    assert_eq!(corrected.samples, 15);
    let sum_ms = |all: &baremark_load::latency::Summary| all.mean_ns * all.samples as f64 / 1e6;
    let (corrected, raw) = (sum_ms(&corrected), sum_ms(&raw));
    assert!(corrected >= 1200.0 && raw >= 440.0, "corrected {corrected} ms in total, uncorrected {raw} ms");
    assert!(corrected - raw >= 750.0, "uncorrected {raw} ms of {corrected} ms in total hide the wait");
}

#[test]
fn a_profile_brings_users_in_and_sends_them_away() {
    let visits = Arc::<Visits>::default();
    let server = visits.server();
    let in_time = users(NUMBERED, &server, "intervals 2:200ms 20:600s", 600_000);
    let document = run_until("20 users", in_time, || visits.least(20) > 1);
    assert!(document.failures.is_empty(), "{:?}", document.failures);
    assert_eq!(visits.highest(), Some(19));
    let visits = Arc::<Visits>::default();
    let server = visits.server();
    let away = users(NUMBERED, &server, "intervals 20:200ms 2:600s", 600_000);
    let document = run_until("2 users alone", away, || visits.least_alone(2) > 9);
    assert!(document.failures.is_empty(), "{:?}", document.failures);
}

#[test]
fn equal_seeds_walk_equal_ways() {
    let lines = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&lines);
    let server = serve(move |request, stream| {
        kept.lock().unwrap().push(request.line.clone());
        answer(stream, 200, "", "")
    });
    let text = r#"
        [scenario]
        [operations.a]
        next = "any"
        [[operations.a.requests]]
        get = "/a?{random}"
        [operations.b]
        next = "any"
        [[operations.b.requests]]
        get = "/b?{serial}"
        [choices]
        any = [{ to = "a", weight = 1 }, { to = "b", weight = 2 }]
    "#;
    let mut walks = Vec::new();
    for seed in [5, 5, 6] {
        lines.lock().unwrap().clear();
        let mut load = Load { scenario: scenario(text, &server), ..load(server.address, Drive::Closed, 5000) };
        load.connections = 1;
        load.seed = seed;
        load.stop = Stop::Count(30);
        run(load);
        walks.push(lines.lock().unwrap().clone());
    }
    assert_eq!(walks[0].len(), 30);
    assert_eq!(walks[0], walks[1]);
    assert_ne!(walks[0], walks[2]);
}

#[test]
fn a_stream_of_events_is_heard_event_by_event() {
    let server = serve(|request, stream| {
        assert!(request.head.contains("accept: text/event-stream"));
        let _ = stream
            .write_all(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n");
        loop {
            thread::sleep(Duration::from_millis(10));
            let event = format!("event: bid\ndata: {{\"at\": {}}}\n\n", now_ns() / 1_000_000);
            let chunk = format!("{:x}\r\n{event}\r\n", event.len());
            if stream.write_all(chunk.as_bytes()).is_err() {
                return Then::Close;
            }
        }
    });
    let text = r#"
        [scenario]
        cycle = "300 ms"
        [operations.listen]
        [[operations.listen.requests]]
        get = "/events"
        headers = { accept = "text/event-stream" }
        events = 5
        delay = { json = "at", unit = "ms", limit = "90 s" }
    "#;
    let mut load = users(text, &server, "3", 0);
    load.stop = Stop::Count(9);
    let document = run(load);
    assert!(document.failures.is_empty(), "{:?}", document.failure_examples);
    let row = &document.operations[0];
    assert_eq!(row.succeeded, 9, "{row:?}");
    let delay = row.delay.as_ref().unwrap();
    assert!(delay.samples >= 5 * row.succeeded && document.counts.events >= delay.samples);
    assert_eq!((row.raw.as_ref().map(|all| all.samples), row.delay_within_limit_share), (Some(9), Some(1.0)));
}

/// A stream for a second between two requests of a second each. Its time was that of the operation, so that it was over before it began, and the operation
/// ended with its first event.
#[test]
fn a_stream_between_requests_has_a_time_of_its_own_and_does_not_end_the_operation() {
    const SECOND: Duration = Duration::from_secs(1);
    let server = serve(|request, stream| {
        if request.line != "GET /events" {
            thread::sleep(SECOND);
            return answer(stream, 200, "", "");
        }
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n");
        while stream.write_all(b"data: x\n\n").is_ok() {
            thread::sleep(SECOND / 50);
        }
        Then::Close
    });
    let text = r#"
        [scenario]
        cycle = "1 s"
        [operations.all]
        [[operations.all.requests]]
        get = "/before"
        [[operations.all.requests]]
        get = "/events"
        events_for = "1 s"
        [[operations.all.requests]]
        get = "/after"
    "#;
    let mut load = users(text, &server, "1", 0);
    load.stop = Stop::Count(1);
    let document = run(load);
    assert!(document.failures.is_empty(), "{:?}", document.failure_examples);
    assert!(document.counts.events > 5, "{:?}", document.counts);
    let raw = document.latency.raw.unwrap();
    assert!(raw.mean_ns > 2.9e9, "{raw:?}");
}
