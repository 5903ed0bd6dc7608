//! Transfers over loopback: every byte arrives, and what is counted agrees. Other paths, which need the superuser, are in tests/kernel.
#![allow(
    clippy::unwrap_used,
    clippy::cast_precision_loss,
    clippy::float_cmp,
    clippy::allow_attributes,
    reason = "tests"
)]

use baremark_streams::ends::Path;
use baremark_streams::engine::{Direction, Order, Pattern, run};
use std::process::Command;
use std::time::{Duration, Instant};
use support::{order, ran};

#[path = "kernel/support.rs"]
mod support;

#[test]
fn streams_of_every_size_arrive_over_loopback() {
    for message in [256, 16 << 10, 64 << 10] {
        ran(&order(Pattern::Stream, message), &Path::Loopback);
    }
    let many =
        Order { streams: 3, direction: Direction::Both, buffer: Some(64 << 10), ..order(Pattern::Stream, 16 << 10) };
    ran(&many, &Path::Loopback);
    ran(&Order { zero_copy: true, ..order(Pattern::Stream, 64 << 10) }, &Path::Loopback);
}

#[test]
fn requests_are_answered_and_timed() {
    for pattern in [Pattern::RequestResponse, Pattern::ConnectClose] {
        let began = Instant::now();
        let outcome = ran(&order(pattern, 64), &Path::Loopback);
        let all = began.elapsed().as_secs_f64();
        assert!(!outcome.trips.is_empty() && outcome.trips.min() > 0, "{pattern:?}: {outcome:?}");
        // One after the other, within the time of the whole transfer; three digits are kept of each.
        let busy = outcome.trips.len() as f64 * outcome.trips.mean() / 1e9;
        assert!(busy <= 1.001 * all, "{pattern:?}: {busy} s of {all}");
        // But for the first, which may have begun before.
        let counted = outcome.trips_seconds + outcome.trips.max() as f64 / 1e9;
        assert!(busy <= 1.001 * counted, "{pattern:?}: {busy} s of {counted}");
    }
}

#[test]
fn datagrams_that_do_not_arrive_are_counted() {
    // A buffer of a few datagrams: a flood does not fit.
    let flood = Order { buffer: Some(4096), ..order(Pattern::Datagrams, 1400) };
    let outcome = ran(&flood, &Path::Loopback);
    assert!((0.0..1.0).contains(&outcome.lost), "{}", outcome.lost);
}

#[test]
fn an_end_that_fails_is_an_error_and_nothing_hangs() {
    let impossible = Order { cpus: Some([1 << 20, 1 << 20]), ..order(Pattern::RequestResponse, 64) };
    assert!(run(&impossible, &Path::Loopback).is_err());
}

/// What a window is told of adds up, however little of it the ends had.
#[test]
fn a_window_is_as_long_as_it_was_ordered_at_least() {
    let order = Order { warm_up: Duration::ZERO, duration: Duration::from_millis(20), ..order(Pattern::Stream, 256) };
    let outcome = run(&order, &Path::Loopback).unwrap();
    assert!(outcome.seconds >= 0.02 && outcome.lost == 0.0, "{outcome:?}");
    assert!((outcome.gbit_per_s() * outcome.seconds * 1e9 - 8.0 * outcome.bytes as f64).abs() < 1.0, "{outcome:?}");
}

/// Stops interrupt a send with a time limit, which the kernel does not take up again.
#[test]
fn a_process_that_is_stopped_and_goes_on_sends_its_file() {
    let stops = "for stop in 1 2 3 4 5 6 7 8 9 10; do sleep 0.05; kill -STOP $1; kill -CONT $1; done";
    let this = std::process::id().to_string();
    let mut stopping = Command::new("sh").args(["-c", stops, "sh", &this]).spawn().unwrap();
    let duration = Duration::from_secs(1);
    ran(
        &Order { zero_copy: true, duration, buffer: Some(64 << 10), ..order(Pattern::Stream, 64 << 10) },
        &Path::Loopback,
    );
    assert!(stopping.wait().unwrap().success());
}
