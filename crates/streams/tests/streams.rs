//! Transfers over loopback, a veth pair and a bridge: every byte arrives, and what is counted agrees.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    clippy::allow_attributes,
    reason = "tests"
)]

use baremark_journal::Journal;
use baremark_streams::ends::Path;
use baremark_streams::engine::{Direction, Order, Outcome, Pattern, run};
use baremark_sys::ethtool::Offload;
use std::time::Duration;

fn order(pattern: Pattern, message: usize) -> Order {
    Order {
        pattern,
        message,
        buffer: None,
        streams: 1,
        direction: Direction::Forward,
        zero_copy: false,
        cpus: None,
        warm_up: Duration::from_millis(50),
        duration: Duration::from_millis(200),
    }
}

fn veth() -> Option<Path> {
    let made = Path::veth();
    if let Err(why) = &made {
        println!("skipped: {why}");
    }
    made.ok()
}

/// What a transfer gave. One in which a busy machine let neither end work, or not long enough, is made again and longer.
fn ran(order: &Order, path: &Path, enough: impl Fn(&Outcome) -> bool) -> Outcome {
    let mut order = order.clone();
    loop {
        let outcome = run(&order, path).unwrap();
        let worked = outcome.bytes > 0 && outcome.cpu.receiving > 0.0 && outcome.cpu.sending > 0.0;
        if (worked && enough(&outcome)) || order.duration > Duration::from_secs(5) {
            plausible(&outcome);
            return outcome;
        }
        order.duration *= 4;
    }
}

/// Any will do.
fn any(_: &Outcome) -> bool {
    true
}

fn plausible(outcome: &Outcome) {
    assert!(outcome.bytes > 0 && outcome.seconds >= 0.2, "{outcome:?}");
    assert!(outcome.cpu.receiving > 0.0 && outcome.cpu.sending > 0.0, "{outcome:?}");
}

#[test]
fn streams_of_every_size_arrive_over_loopback() {
    for message in [256, 16 << 10, 64 << 10] {
        ran(&order(Pattern::Stream, message), &Path::Loopback, any);
    }
    let many =
        Order { streams: 3, direction: Direction::Both, buffer: Some(64 << 10), ..order(Pattern::Stream, 16 << 10) };
    ran(&many, &Path::Loopback, any);
    ran(&Order { zero_copy: true, ..order(Pattern::Stream, 64 << 10) }, &Path::Loopback, any);
}

#[test]
fn requests_are_answered_and_timed() {
    for pattern in [Pattern::RequestResponse, Pattern::ConnectClose] {
        let outcome = ran(&order(pattern, 64), &Path::Loopback, |outcome| outcome.trips.len() > 20);
        let (trips, median) = (outcome.trips.len(), outcome.trips.value_at_quantile(0.5));
        assert!(trips > 20, "{pattern:?}: {trips}");
        // One after the other: as many as fit into the window, up to the trips at its ends.
        let busy = trips as f64 * outcome.trips.mean() / 1e9;
        assert!(median > 1000 && busy <= 1.1 * outcome.seconds, "{pattern:?}: {busy} s of {}", outcome.seconds);
    }
}

#[test]
fn datagrams_that_do_not_arrive_are_counted() {
    // A buffer of a few datagrams: a flood does not fit.
    let flood = Order { buffer: Some(4096), ..order(Pattern::Datagrams, 1400) };
    let outcome = ran(&flood, &Path::Loopback, any);
    assert!((0.0..1.0).contains(&outcome.lost), "{}", outcome.lost);
}

#[test]
fn segmentation_and_merging_show_in_the_size_of_packets() {
    let Some(path) = veth() else { return };
    // Of as many packets as tell the stream's size from that of acknowledgements and the kernel's own.
    let size = || {
        let outcome = ran(&order(Pattern::Stream, 64 << 10), &path, |outcome| outcome.receiving.received > 1000);
        outcome.receiving.received_bytes as f64 / outcome.receiving.received as f64
    };
    let whole = size();
    path.switch(0, Offload::Tso, false).unwrap();
    path.switch(0, Offload::Gso, false).unwrap();
    let cut = size();
    path.switch(1, Offload::Gro, true).unwrap();
    let merged = size();
    // Packets and bytes are counters of two files, which a busy machine lets be read at two moments.
    let most = 1.1 * 1500.0;
    assert!(cut <= most && whole > 4.0 * cut && merged > 1.5 * cut, "{whole} whole, {cut} cut, {merged} merged");
}

#[test]
fn a_bridge_carries_streams_and_is_gone_afterwards() {
    if veth().is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let journal = Journal::open(folder.path().join("journal"), baremark_networks::kinds()).unwrap();
    let path = Path::bridge(&journal).unwrap();
    let both = Order { direction: Direction::Both, ..order(Pattern::Stream, 16 << 10) };
    ran(&both, &path, any);
    drop(path);
    assert_eq!(std::fs::read_dir(folder.path().join("journal")).unwrap().count(), 1, "the lock alone");
}

#[test]
fn an_end_that_fails_is_an_error_and_nothing_hangs() {
    let impossible = Order { cpus: Some([1 << 20, 1 << 20]), ..order(Pattern::RequestResponse, 64) };
    assert!(run(&impossible, &Path::Loopback).is_err());
}
