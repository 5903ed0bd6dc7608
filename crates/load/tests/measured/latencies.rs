//! Latencies against theory.

use crate::bids::{Board, bidders};
use crate::server::{Then, answer, load, ms, run, serve};
use crate::shop::{now_ns, scenario, shop, users};
use baremark_load::arrival::Arrival;
use baremark_load::document::Document;
use baremark_load::load::{Drive, Load, Stop};
use baremark_load::profile::Profile;
use std::io::Write;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

fn open(rate: f64, arrival: Arrival) -> Drive {
    Drive::Open { arrival, profile: Profile::steady(rate) }
}

/// What users of a scenario did.
fn did(text: &str, server: &crate::server::Server, profile: &str, lasting_ms: u64) -> Document {
    run(Load { timeout: ms(3000), ..users(text, server, profile, lasting_ms) })
}

/// A server of one service that stands still for 100 ms: with arrivals every millisecond, those that were meant to start in
/// the pause waited for the rest of it, 100, 99, 98 .. ms. Of 1,000 starts 100 are late, so that p95 is near 50 ms and the
/// largest near 100 ms. Without correction only what was on its way when it stopped is late.
#[test]
fn corrected_latencies_agree_with_theory_when_the_server_stands_still() {
    let answered = Arc::new(Mutex::new(Vec::new()));
    let (stamps, begun) = (Arc::clone(&answered), Instant::now());
    let server = serve(move |_, stream| {
        // One at a time.
        let mut stamps = stamps.lock().unwrap();
        if stamps.len() == 400 {
            thread::sleep(Duration::from_millis(100));
        }
        stamps.push(begun.elapsed());
        answer(stream, 200, "", "")
    });
    let mut load = load(server.address, open(1000.0, Arrival::Constant), 0);
    load.connections = 1;
    load.stop = Stop::Count(1000);
    let from = begun.elapsed();
    let document = run(load);
    // How late the server saw each of them, in order.
    let answered = answered.lock().unwrap();
    let late = answered.iter().zip(0_u32..).map(|(at, nth)| at.saturating_sub(from + nth * Duration::from_millis(1)));
    let mut late_ms: Vec<f64> = late.map(|late| late.as_secs_f64() * 1e3).collect();
    late_ms.sort_by(f64::total_cmp);
    let corrected = document.latency.corrected.unwrap();
    let raw = document.latency.raw.unwrap();
    assert_eq!(corrected.samples, 1000);
    let p95_ms = corrected.p95_ns.unwrap() as f64 / 1e6;
    let largest_ms = corrected.max_ns as f64 / 1e6;
    // Theory: 50 and 100 ms; a busy test machine adds to both, nothing takes away. What it adds the server saw, but for the
    // way back.
    assert!(p95_ms >= 40.0 && p95_ms < late_ms[950] + 40.0, "p95 {p95_ms} ms; the server saw {} ms", late_ms[950]);
    assert!(
        largest_ms >= 95.0 && largest_ms < late_ms[999] + 100.0,
        "largest {largest_ms} ms; the server saw {} ms",
        late_ms[999]
    );
    let raw_p95_ms = raw.p95_ns.unwrap() as f64 / 1e6;
    assert!(raw_p95_ms < 20.0, "uncorrected p95 {raw_p95_ms} ms hides the pause");
    assert!(raw.max_ns as f64 / 1e6 >= 95.0);
}

#[test]
fn users_keep_their_cycle_and_hear_at_once() {
    let server = serve(shop);
    let document = did(include_str!("../load/shop.toml"), &server, "8", 1500);
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
fn what_a_kept_user_waited_for_is_that_and_no_more() {
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
fn events_are_heard_at_once() {
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
    let document = did(text, &server, "3", 1000);
    assert!(document.failures.is_empty(), "{:?}", document.failure_examples);
    let row = &document.operations[0];
    assert!(row.succeeded >= 6, "{row:?}");
    let delay = row.delay.as_ref().unwrap();
    assert!(delay.samples >= 5 * row.succeeded && document.counts.events >= delay.samples);
    assert!(row.raw.as_ref().unwrap().p50_ns.unwrap() < 100_000_000, "until the first event");
    assert!(row.delay_within_limit_share.unwrap() > 0.9);
}

#[test]
fn the_delay_from_one_users_answer_to_what_others_hear_is_short() {
    let server = Arc::<Board>::default().server();
    let document = run(Load { timeout: ms(3000), ..bidders(&server, 2000) });
    let row = |name: &str| document.operations.iter().find(|row| row.name == name).unwrap();
    let (bids, delay) = (row("bid").succeeded, row("next-bid").delay.as_ref().unwrap());
    assert!(bids > 20, "{bids} bids");
    // Four users hear of every bid but the last ones.
    assert!(delay.samples > 3 * (bids - 10) && delay.samples <= 4 * bids + 4, "{} of {bids} bids", delay.samples);
    assert!((60_000_000..400_000_000).contains(&delay.p50_ns.unwrap()), "{delay:?}");
}
