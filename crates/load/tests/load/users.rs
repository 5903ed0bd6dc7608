//! Users: their cycle, their ways through a scenario, what they carry, and the loops alongside them.

use crate::server::{Request, Server, Then, answer, load, ms, run, serve};
use baremark_load::document::Document;
use baremark_load::load::{Drive, Load, Stop};
use baremark_load::profile::Profile;
use baremark_load::scenario::{Scenario, file};
use std::io::Write;
use std::net::TcpStream;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

fn scenario(text: &str, server: &Server) -> Scenario {
    let base = format!("http://{}", server.address);
    file::parse("shop.toml", text.as_bytes(), Some(&base), ".".as_ref()).unwrap_or_else(|why| panic!("{why}"))
}

fn users(text: &str, server: &Server, profile: &str, lasting_ms: u64) -> Document {
    let drive = Drive::Users { profile: profile.parse::<Profile>().unwrap() };
    let mut load = Load { scenario: scenario(text, server), ..load(server.address, drive, lasting_ms) };
    load.connections = 200;
    load.timeout = ms(3000);
    run(load)
}

/// Users keep the address that they were given, for all that they do, and are dealt evenly.
#[test]
fn users_are_spread_over_the_addresses_of_a_server() {
    let counted = || {
        let users = Arc::new(Mutex::new(std::collections::BTreeMap::<String, usize>::new()));
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
        ..load(first.address, Drive::Users { profile: Profile::steady(6.0) }, 600)
    };
    load.connections = 20;
    load.timeout = ms(3000);
    load.addresses = vec![first.address, second.address];
    let document = run(load);
    assert!(document.failures.is_empty(), "{:?}", document.failures);
    let (one, other) = (seen_first.lock().unwrap(), seen_second.lock().unwrap());
    assert_eq!((one.len(), other.len()), (3, 3), "three users each: {one:?} {other:?}");
    assert!(one.keys().all(|user| !other.contains_key(user)), "{one:?} {other:?}");
    assert!(one.values().chain(other.values()).all(|times| *times > 1), "{one:?} {other:?}");
}

fn now_ns() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos()
}

/// The shop of shop.toml; complains about what a careful server would.
fn shop(request: &Request, stream: &mut TcpStream) -> Then {
    let line = request.line.as_str();
    let body = String::from_utf8_lossy(&request.body);
    let signed_in = request.head.contains("Authorization: Bearer t-user");
    match line {
        "GET /" => answer(stream, 200, "Set-Cookie: session=s1; Path=/\r\n", "welcome"),
        "POST /login" => {
            let good = body.starts_with("user=user") && body.ends_with("&secret=a%20b%26c");
            let user = body.trim_start_matches("user=").split('&').next().unwrap_or_default();
            let token = format!("{{\"auth\": {{\"token\": \"t-{user}\"}}}}");
            let has_cookie = request.head.contains("Cookie: session=s1");
            answer(stream, if good && has_cookie { 200 } else { 400 }, "", &token)
        }
        "GET /items?page=1" if signed_in => {
            let items = r#"{"items": [{"id": 3, "thumb": "/t/3"}, {"id": 4, "thumb": "/t/4"}]}"#;
            answer(stream, 200, "ETag: v1\r\n", items)
        }
        "GET /t/3" | "GET /t/4" => answer(stream, 200, "", "picture"),
        "POST /join" => {
            let sound = serde_json::from_slice::<serde_json::Value>(&request.body).is_ok_and(|join| {
                join["count"] == 1 && join["tags"][0] == "x" && (join["item"] == "3" || join["item"] == "4")
            });
            answer(stream, if sound { 200 } else { 400 }, "", r#"{"high": 100}"#)
        }
        "POST /bid" => {
            let sound =
                serde_json::from_slice::<serde_json::Value>(&request.body).is_ok_and(|bid| bid["amount"].is_number());
            answer(stream, if sound { 201 } else { 400 }, "", "")
        }
        "POST /image" => {
            let sound = request.head.contains("multipart/form-data; boundary=") && body.contains("filename=\"a.jpg\"");
            answer(stream, if sound && request.body.len() > 20 << 10 { 200 } else { 400 }, "", "")
        }
        _ if line.starts_with("GET /next?item=") => {
            thread::sleep(Duration::from_millis(20));
            answer(stream, 200, "", &format!("{{\"high\": 120, \"at\": {}}}", now_ns()))
        }
        _ => answer(stream, 404, "", ""),
    }
}

#[test]
fn users_walk_through_the_specimen_with_cookies_tokens_bodies_and_long_polls() {
    let server = serve(shop);
    let document = users(include_str!("shop.toml"), &server, "8", 1500);
    assert!(document.failures.is_empty(), "{:?} {:?}", document.failures, document.failure_examples);
    let row = |name: &str| document.operations.iter().find(|row| row.name == name).unwrap();
    for name in ["home", "login", "list", "join", "next-bid"] {
        assert!(row(name).succeeded > 0, "{name} was never done");
    }
    assert_eq!(row("join").succeeded, 16, "each of 8 users joins twice");
    let delay = row("next-bid").delay.as_ref().unwrap();
    assert!(delay.samples > 16 && delay.p50_ns.unwrap() < 100_000_000, "{delay:?}");
    assert_eq!(row("list").limit_ns, Some(2_000_000_000));
    assert!(row("list").within_limit_share.unwrap() > 0.99);
    // 8 users at a cycle of 100 ms for 1.5 s begin 120 operations.
    let begun: u64 = document.operations.iter().filter(|row| row.name != "next-bid").map(|row| row.succeeded).sum();
    assert!((100..=136).contains(&begun), "{begun} operations");
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
    // Meant at 100 ms steps: the third is 450 ms late, those after it 350, 250, 150 and 50 ms.
    assert_eq!(corrected.samples, 15);
    let sum_ms = |all: &baremark_load::latency::Summary| all.mean_ns * all.samples as f64 / 1e6;
    let (corrected, raw) = (sum_ms(&corrected), sum_ms(&raw));
    assert!(corrected >= 1200.0 && raw >= 440.0, "corrected {corrected} ms in total, uncorrected {raw} ms");
    // A busy machine adds to both. Whatever took so long makes those after it late by 100 ms less each, at most.
    assert!(corrected < raw + raw * raw / 200.0 + 150.0, "corrected {corrected} ms in total, uncorrected {raw} ms");
    assert!(corrected > 2.0 * raw, "uncorrected {raw} ms of {corrected} ms in total hide the wait");
}

#[test]
fn a_profile_brings_users_in_and_sends_them_away() {
    let server = serve(|_, stream| answer(stream, 200, "", ""));
    let document = users(ONE, &server, "intervals 2:600ms 20:600ms 2:600ms", 1800);
    // 12, then 120, then 12 operations, give or take a cycle and the 50 ms at which the profile is looked at.
    assert!((100..=180).contains(&document.counts.intended), "{}", document.counts.intended);
    assert!(document.failures.is_empty());
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
        delay = { json = "at", unit = "ms", limit = "500 ms" }
    "#;
    let document = users(text, &server, "3", 1000);
    assert!(document.failures.is_empty(), "{:?}", document.failure_examples);
    let row = &document.operations[0];
    assert!(row.succeeded >= 6, "{row:?}");
    let delay = row.delay.as_ref().unwrap();
    assert!(delay.samples >= 5 * row.succeeded && document.counts.events >= delay.samples);
    assert!(row.raw.as_ref().unwrap().p50_ns.unwrap() < 100_000_000, "until the first event");
    assert!(row.delay_within_limit_share.unwrap() > 0.9);
}
