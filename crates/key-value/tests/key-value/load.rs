//! The driver: pipelines, torn replies, open arrivals, and what it finds.

use crate::played::{Behaviour, PASSWORD, Played};
use baremark_key_value::driver::run;
use baremark_key_value::outcome::{DriveError, LoadOutcome};
use baremark_key_value::traffic::{Drive, Traffic};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

fn traffic() -> Traffic {
    Traffic {
        keys: 50,
        exponent: None,
        value_bytes: 100,
        read_share: 0.5,
        loaded_share: 1.0,
        connections: 4,
        pipeline: 1,
        threads: 1,
        drive: Drive::Closed,
        warm_up: Duration::from_millis(20),
        duration: Duration::from_millis(200),
        seed: 7,
        cpus: Vec::new(),
    }
}

/// What comes of a load on a server of this behaviour, and what that has counted.
fn on(behaviour: Behaviour, traffic: &Traffic) -> (Result<LoadOutcome, DriveError>, [u64; 2]) {
    let server = Played::new(behaviour);
    let mut marks = 0;
    let mut meter = || {
        marks += 100;
        marks
    };
    let outcome = run(traffic, &|| server.connect(PASSWORD), &mut meter, &AtomicBool::new(false));
    (outcome, server.counts())
}

/// What holds of every load on a server that is right, however fast it was.
fn is_consistent(outcome: &LoadOutcome, counts: [u64; 2], traffic: &Traffic) {
    assert_eq!([outcome.get.sent, outcome.set.sent], counts, "both sides count the same");
    assert_eq!((outcome.wrong, &outcome.first_wrong), (0, &None));
    assert_eq!((outcome.errors, &outcome.first_error), (0, &None));
    assert_eq!(outcome.hits + outcome.misses, outcome.get.latencies.count());
    assert!(outcome.done() <= outcome.get.sent + outcome.set.sent);
    assert_eq!(outcome.read_back, traffic.keys);
    if traffic.drive == Drive::Closed {
        assert_eq!(outcome.answered(), outcome.done());
    }
    assert_eq!(outcome.metered, 100);
    assert_eq!(u128::from(outcome.elapsed_ns), traffic.duration.as_nanos());
}

#[test]
fn every_reply_to_every_pipeline_is_counted_on_both_sides() {
    for (connections, pipeline, threads) in [(1, 1, 1), (4, 1, 2), (3, 16, 1), (5, 100, 3)] {
        for exponent in [None, Some(0.99), Some(1.0)] {
            let traffic = Traffic { connections, pipeline, threads, exponent, ..traffic() };
            let (outcome, counts) = on(Behaviour::Right, &traffic);
            is_consistent(&outcome.unwrap(), counts, &traffic);
        }
    }
}

#[test]
fn replies_in_pieces_are_the_same_replies() {
    for (piece, value_bytes) in [(1, 24), (3, 100), (1000, 60_000)] {
        let traffic = Traffic { value_bytes, pipeline: 8, keys: 8, ..traffic() };
        let (outcome, counts) = on(Behaviour::Torn(piece), &traffic);
        is_consistent(&outcome.unwrap(), counts, &traffic);
    }
}

#[test]
fn keys_that_nobody_has_set_are_misses_and_reads_alone_write_nothing() {
    let traffic = Traffic { read_share: 1.0, loaded_share: 0.5, ..traffic() };
    let (outcome, counts) = on(Behaviour::Right, &traffic);
    let outcome = outcome.unwrap();
    is_consistent(&outcome, counts, &traffic);
    assert_eq!(outcome.set.sent, 25, "half of the keys are loaded");
    assert_eq!(outcome.set.latencies.count(), 0, "no write is measured");
    let writes = Traffic { read_share: 0.0, loaded_share: 0.0, ..traffic };
    let (outcome, counts) = on(Behaviour::Right, &writes);
    let outcome = outcome.unwrap();
    is_consistent(&outcome, counts, &writes);
    assert_eq!((outcome.hits, outcome.misses, outcome.get.sent), (0, 0, 50), "read back alone");
}

/// Of 500 arrivals/s for 0.2 s each is served, or counted as not served; each has its latency from the intended start.
#[test]
fn open_arrivals_are_all_accounted_for() {
    for poisson in [false, true] {
        let drive = Drive::Open { rate: 500.0, poisson };
        let traffic = Traffic { drive, threads: 2, connections: 3, ..traffic() };
        let (outcome, counts) = on(Behaviour::Right, &traffic);
        let outcome = outcome.unwrap();
        is_consistent(&outcome, counts, &traffic);
        assert_eq!(outcome.lag.count(), outcome.done());
        // What the seed draws, or equal gaps.
        assert_eq!(outcome.done() + outcome.unserved, if poisson { 95 } else { 100 });
    }
}

/// A hundred arrivals of which each takes 50 ms, one after the other: those that begin have waited for all before them.
#[test]
fn latency_counts_from_the_intended_start_and_what_begins_too_late_is_not_served() {
    let drive = Drive::Open { rate: 500.0, poisson: false };
    // Without a warm-up, whose replies would come in the measured time.
    let traffic = Traffic { drive, connections: 1, keys: 2, loaded_share: 0.0, warm_up: Duration::ZERO, ..traffic() };
    let (outcome, _) = on(Behaviour::Slow(Duration::from_millis(50)), &traffic);
    let outcome = outcome.unwrap();
    let largest = outcome.get.latencies.largest().max(outcome.set.latencies.largest());
    let lag = outcome.lag.largest();
    // The one that was started latest had its reply 50 ms later, at least; histograms round by 1 in 1024.
    assert!(
        largest.zip(lag).is_none_or(|(largest, lag)| 1.01 * largest as f64 > (lag + 50_000_000) as f64),
        "{outcome:?}"
    );
    assert!(outcome.unserved > 0 && outcome.answered() <= outcome.done(), "{outcome:?}");
    // One every 50 ms in 200 ms, whatever was meant to start in each second.
    assert!(outcome.answered() <= 5, "{:?}", outcome.seconds);
}

#[test]
fn a_value_that_was_never_written_there_is_found() {
    for behaviour in [Behaviour::Corrupt(7), Behaviour::Mixed(7)] {
        let (outcome, _) = on(behaviour, &Traffic { read_share: 0.9, pipeline: 4, ..traffic() });
        let outcome = outcome.unwrap();
        assert!(outcome.wrong >= 1, "{behaviour:?}");
        let first = outcome.first_wrong.unwrap();
        assert!(first.starts_with("GET key:0000000000") && first.ends_with("that were never written there"), "{first}");
    }
}

/// Reading back finds it if nothing did before.
#[test]
fn a_write_that_is_acknowledged_and_lost_is_found() {
    let (outcome, counts) = on(Behaviour::Forgetful(10), &Traffic { loaded_share: 1.0, ..traffic() });
    let outcome = outcome.unwrap();
    assert!(outcome.wrong >= 1);
    let first = outcome.first_wrong.unwrap();
    assert!(first.contains("was replaced by version") || first.contains("finds nothing where version"), "{first}");
    assert_eq!([outcome.get.sent, outcome.set.sent], counts);
}

#[test]
fn refused_commands_are_errors_and_not_results() {
    let (outcome, counts) =
        on(Behaviour::Full(100), &Traffic { loaded_share: 0.0, read_share: 0.5, warm_up: Duration::ZERO, ..traffic() });
    let outcome = outcome.unwrap();
    assert_eq!((outcome.wrong, [outcome.get.sent, outcome.set.sent]), (0, counts));
    let refused = counts[1] / 100;
    // Replies to the last command of each connection may come after the measured time.
    assert!(
        outcome.errors <= refused && outcome.errors + 4 >= refused && outcome.first_error.is_some() == (refused > 0),
        "{outcome:?}"
    );
    assert!(outcome.first_error.is_none_or(|first| first.starts_with("error OOM command not allowed")));
    // Loading needs every key.
    let (outcome, _) = on(Behaviour::Full(10), &traffic());
    let why = outcome.unwrap_err().to_string();
    assert!(why.starts_with("loading: SET: the server replied error OOM"), "{why}");
}

#[test]
fn a_connection_that_ends_and_a_stranger_end_the_load_with_their_reason() {
    for pipeline in [1, 16] {
        let (outcome, _) =
            on(Behaviour::Leaves(60), &Traffic { pipeline, duration: Duration::from_secs(60), ..traffic() });
        let why = outcome.unwrap_err().to_string();
        assert!(why.starts_with("under load: ") || why.starts_with("sending: "), "{why}");
    }
    let (outcome, _) = on(Behaviour::Stranger, &traffic());
    let why = outcome.unwrap_err().to_string();
    assert!(why.starts_with("loading: a reply begins with 'H'"), "{why}");
    let (outcome, _) =
        on(Behaviour::Twice(3), &Traffic { read_share: 1.0, duration: Duration::from_secs(60), ..traffic() });
    let outcome = outcome.map(|outcome| outcome.wrong);
    assert!(matches!(outcome, Err(DriveError::Unasked) | Ok(1..)), "{outcome:?}");
}

#[test]
fn who_has_not_the_password_is_told_so() {
    let server = Played::new(Behaviour::Right);
    let connect = || server.connect("a guess");
    let why = run(&traffic(), &connect, &mut || 0, &AtomicBool::new(false)).unwrap_err().to_string();
    assert_eq!(why, "connecting: AUTH: the server replied error WRONGPASS invalid password");
}

/// A server that replies no more holds nobody up who interrupts.
#[test]
fn an_interrupt_ends_a_load_without_replies() {
    let server = Played::new(Behaviour::Silent(55));
    let interrupt = AtomicBool::new(false);
    let traffic = Traffic { duration: Duration::from_hours(1), ..traffic() };
    let mut meter = || {
        // The measured time has begun.
        interrupt.store(true, std::sync::atomic::Ordering::Release);
        0
    };
    let outcome = run(&traffic, &|| server.connect(PASSWORD), &mut meter, &interrupt);
    assert!(matches!(outcome, Err(DriveError::Stopped)), "{outcome:?}");
}
