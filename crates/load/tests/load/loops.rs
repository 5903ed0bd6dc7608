//! Open and closed loops keep what they are asked, and their latencies are what theory says.

use crate::server::{Then, answer, load, ms, prompt, run, serve};
use baremark_load::arrival::Arrival;
use baremark_load::document::{Document, Ended};
use baremark_load::load::{Drive, Engine, Load, Stop};
use baremark_load::profile::Profile;
use baremark_load::record::Part;
use baremark_load::scenario::Cycle;
use baremark_sys::clock::monotonic_ns;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

fn open(rate: f64, arrival: Arrival) -> Drive {
    Drive::Open { arrival, profile: Profile::steady(rate) }
}

#[test]
fn a_closed_loop_counts_what_the_server_counts() {
    let served = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&served);
    let server = serve(move |_, stream| {
        counter.fetch_add(1, Ordering::Relaxed);
        answer(stream, 200, "", "hello")
    });
    let mut load = load(server.address, Drive::Closed, 60_000);
    load.stop = Stop::Count(1001);
    load.threads = 2;
    let document = run(load);
    assert_eq!(served.load(Ordering::Relaxed), 1001);
    assert_eq!((document.counts.answered, document.statuses[&200], document.counts.connections), (1001, 1001, 4));
    assert_eq!(document.ended, Ended::Complete);
    assert_eq!(document.latency.corrected, None, "there are no intended starts");
    assert_eq!(document.latency.raw.as_ref().map(|all| all.samples), Some(1001));
    assert!(document.asked.count == Some(1001) && document.generator.threads.len() == 2);
    assert_eq!(document.series.iter().map(|second| second.answered).sum::<u64>(), 1001);
}

#[test]
fn an_open_loop_keeps_its_rate() {
    let server = prompt();
    for arrival in [Arrival::Constant, Arrival::Poisson] {
        // Until so many are answered, and not until a moment in which a busy machine may owe some.
        let mut load = load(server.address, open(400.0, arrival), 0);
        load.stop = Stop::Count(600);
        let document = run(load);
        assert_eq!((document.counts.intended, document.counts.unsent + document.counts.unfinished), (600, 0));
        let corrected = document.latency.corrected.unwrap();
        assert_eq!(corrected.samples, 600);
        // A busy machine starts some later, by their corrected latency at most.
        let (intended, late_s) = (document.series[0].intended, corrected.max_ns as f64 / 1e9);
        let least = 300.0 - 400.0 * late_s;
        assert!(intended as f64 >= least && intended <= 500, "{intended} in the first second, {late_s} s late at most");
        assert!(document.generator.send_lag.is_some());
    }
}

#[test]
fn a_profile_is_followed() {
    let server = prompt();
    let profile: Profile = "intervals 50:1s 400:1s".parse().unwrap();
    let stamps = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&stamps);
    let begun = Instant::now();
    let stamping = serve(move |_, stream| {
        kept.lock().unwrap().push(begun.elapsed());
        answer(stream, 200, "", "")
    });
    drop(server);
    let mut load = load(stamping.address, Drive::Open { arrival: Arrival::Constant, profile }, 0);
    load.stop = Stop::Count(450);
    let document = run(load);
    assert_eq!((document.counts.intended, document.counts.unsent + document.counts.unfinished), (450, 0));
    let stamps = stamps.lock().unwrap();
    let first = stamps[0];
    let early = stamps.iter().filter(|at| **at < first + Duration::from_secs(1)).count() as f64;
    // On a busy machine what was meant to start before a moment comes late, by its corrected latency at most.
    let late_s = document.latency.corrected.unwrap().max_ns as f64 / 1e9;
    let (least, most) = (50.0 * (1.0 - late_s) - 2.0, 50.0 + 400.0 * late_s + 2.0);
    assert!((least..=most).contains(&early), "{early} of 50 in the first second, {late_s} s late at most");
}

/// Here all of it is late: the time was over before the generator came to any start.
#[test]
fn every_start_of_a_late_generator_is_in_one_of_the_seconds_of_its_load() {
    let server = prompt();
    for late_ns in [3_000_000_000, 3_005_000_000, 3_400_000_000] {
        let engine = Engine::new(load(server.address, open(200.0, Arrival::Constant), 3000), Arc::default()).unwrap();
        let mut told = Vec::new();
        let part = engine.run_from(monotonic_ns() - late_ns, &mut |second| told.push(second.part.intended)).unwrap();
        assert_eq!((part.counts.intended, part.seconds.len()), (600, 3), "{late_ns}");
        let kept: Vec<u64> = part.seconds.iter().map(|second| second.intended).collect();
        assert_eq!((kept.iter().sum::<u64>(), &kept), (600, &told), "{late_ns}");
    }
}

/// A server of one service that stands still for 100 ms: with arrivals every millisecond, those that were meant to start in
/// the pause waited for the rest of it, 100, 99, 98 .. ms. Of 1,000 starts 100 are late, so that p95 is 50 ms and the largest
/// 100 ms at least, however fast or slow the rest is.
#[test]
fn corrected_latencies_have_the_time_for_which_the_server_stood_still() {
    let served = Mutex::new(0);
    let server = serve(move |_, stream| {
        // One at a time.
        let mut served = served.lock().unwrap();
        *served += 1;
        if *served == 400 {
            thread::sleep(Duration::from_millis(100));
        }
        answer(stream, 200, "", "")
    });
    let mut load = load(server.address, open(1000.0, Arrival::Constant), 0);
    load.connections = 1;
    load.stop = Stop::Count(1000);
    let document = run(load);
    let (corrected, raw) = (document.latency.corrected.unwrap(), document.latency.raw.unwrap());
    assert_eq!((corrected.samples, raw.samples), (1000, 1000));
    // A histogram rounds.
    let p95_ms = corrected.p95_ns.unwrap() as f64 / 1e6;
    assert!(p95_ms >= 48.0, "p95 {p95_ms} ms");
    assert!(corrected.max_ns >= 98_000_000 && raw.max_ns >= 98_000_000, "{corrected:?} {raw:?}");
    // Each waited from its intended start at least as long as from its own.
    assert!(corrected.mean_ns >= raw.mean_ns && corrected.p95_ns >= raw.p95_ns, "{corrected:?} {raw:?}");
}

#[test]
fn overload_is_told_and_not_hidden() {
    let server = serve(|_, stream| {
        thread::sleep(Duration::from_millis(20));
        answer(stream, 200, "", "")
    });
    let document = run(load(server.address, open(2000.0, Arrival::Constant), 600));
    // Four connections at 20 ms give 200 a second.
    assert!(document.achieved.share_of_asked.unwrap() < 0.3, "{:?}", document.achieved);
    assert!(document.counts.unsent > 500 && document.counts.waited > 500, "{:?}", document.counts);
    assert!(document.generator.reasons.iter().any(|why| why.contains("never got a connection")));
    assert!(document.latency.corrected.unwrap().max_ns > 300_000_000);
}

#[test]
fn a_server_that_closes_after_each_answer_is_met_with_new_connections() {
    let server = serve(|_, stream| {
        answer(stream, 200, "Connection: close\r\n", "x");
        Then::Close
    });
    let document = run(Load { stop: Stop::Count(200), ..load(server.address, Drive::Closed, 0) });
    assert!(document.failures.is_empty(), "{:?}", document.failures);
    assert_eq!((document.counts.answered, document.counts.connections), (200, 200));
}

/// Closing without a word of it is a server's right; the request that was under way is sent again, and its wait counts.
#[test]
fn a_server_that_closes_without_a_word_loses_no_request() {
    let server = serve(|_, stream| {
        answer(stream, 200, "", "x");
        Then::Close
    });
    let document = run(load(server.address, open(200.0, Arrival::Constant), 500));
    assert!(document.failures.is_empty(), "{:?}", document.failure_examples);
    // On a busy machine some get no connection before the end; they are counted as such.
    assert_eq!(document.statuses[&200] + document.counts.unsent, document.counts.intended);
    let document = run(Load { stop: Stop::Count(200), ..load(server.address, Drive::Closed, 0) });
    assert!(document.failures.is_empty() && document.counts.retried > 0, "{:?}", document.counts);
}

#[test]
fn sites_share_the_starts_and_merge_to_the_whole() {
    let server = prompt();
    let parts: Vec<(Part, Document)> = (0..2)
        .map(|site| {
            let mut load = load(server.address, open(300.0, Arrival::Poisson), 500);
            load.site = (site, 2);
            let engine = Engine::new(load, Arc::default()).unwrap();
            let part = engine.run(&mut |_| {}).unwrap();
            // As it would travel.
            let text = serde_json::to_string(&part).unwrap();
            let part: Part = serde_json::from_str(&text).unwrap();
            let document = Document::new(engine.load(), &part);
            (part, document)
        })
        .collect();
    let mut whole = parts[0].0.clone();
    whole.merge(&parts[1].0).unwrap();
    let samples = |document: &Document| document.latency.corrected.as_ref().unwrap().samples;
    let alone = run(load(server.address, open(300.0, Arrival::Poisson), 500));
    assert_eq!(whole.counts.intended, alone.counts.intended, "two sites intend what one would");
    assert_eq!(whole.operations[0].corrected.count(), samples(&parts[0].1) + samples(&parts[1].1));
    assert_eq!(whole.threads.len(), 2);
}

#[test]
fn what_cannot_be_asked_is_refused() {
    let server = prompt();
    let refused = |change: fn(&mut baremark_load::load::Load)| {
        let mut load = load(server.address, Drive::Closed, 100);
        change(&mut load);
        Engine::new(load, Arc::default()).err().unwrap().to_string()
    };
    assert!(refused(|load| load.threads = 0).contains("threads = 0 is out of range"));
    assert!(refused(|load| load.connections = 0).contains("0 connections for 1 threads"));
    let several = refused(|load| (load.threads, load.timeout) = (0, ms(0)));
    let lines: Vec<&str> = several.lines().collect();
    assert_eq!(
        lines,
        ["threads = 0 is out of range; use 1 to 4096", "timeout is 0; use a time such as 10 s"],
        "all at once"
    );
    assert!(refused(|load| load.stop = Stop::Count(0)).contains("duration or count is 0"));
    assert!(refused(|load| load.timeout = ms(0)).contains("timeout is 0"));
    assert!(refused(|load| load.site = (2, 2)).contains("site 2 of 2"));
    assert!(refused(|load| load.drive = Drive::Users { profile: Profile::steady(5.0) }).contains("never rest"));
    let many = refused(|load| {
        load.scenario.set_cycle(Some(Cycle { mean: ms(100), deviation: 0.0, most: 0.0 }));
        load.drive = Drive::Users { profile: Profile::steady(5.0) };
    });
    assert!(many.contains("5 users keep a connection each and 4 can be had"), "{many}");
    assert!(refused(|load| load.drive = open(-5.0, Arrival::Constant)).contains("levels are from 0"));
}
