//! Transfers whose figures are judged.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    clippy::allow_attributes,
    reason = "tests"
)]

use baremark_streams::ends::Path;
use baremark_streams::engine::{Outcome, Pattern, run};
use baremark_sys::ethtool::Offload;
use std::time::Duration;
use support::order;

#[path = "../kernel/support.rs"]
#[allow(dead_code, reason = "the other tests use all of it")]
mod support;

fn veth() -> Option<Path> {
    let made = Path::veth();
    if let Err(why) = &made {
        println!("skipped: {why}");
    }
    made.ok()
}

/// What a transfer gave that is long enough: one in which a busy machine let an end do little is made again and longer.
fn ran(pattern: Pattern, message: usize, path: &Path, enough: impl Fn(&Outcome) -> bool) -> Outcome {
    let mut order = order(pattern, message);
    loop {
        let outcome = run(&order, path).unwrap();
        if enough(&outcome) || order.duration > Duration::from_secs(5) {
            return outcome;
        }
        order.duration *= 4;
    }
}

#[test]
fn round_trips_fill_the_window() {
    for pattern in [Pattern::RequestResponse, Pattern::ConnectClose] {
        let outcome = ran(pattern, 64, &Path::Loopback, |outcome| outcome.trips.len() > 20);
        let (trips, median) = (outcome.trips.len(), outcome.trips.value_at_quantile(0.5));
        assert!(trips > 20, "{pattern:?}: {trips}");
        // One after the other: as many as fit into the window, up to the trips at its ends.
        let busy = trips as f64 * outcome.trips.mean() / 1e9;
        assert!(median > 1000 && busy <= 1.1 * outcome.seconds, "{pattern:?}: {busy} s of {}", outcome.seconds);
    }
}

#[test]
fn segmentation_and_merging_show_in_the_size_of_packets() {
    let Some(path) = veth() else { return };
    // Of as many packets as tell the stream's size from that of acknowledgements and the kernel's own.
    let size = || {
        let outcome = ran(Pattern::Stream, 64 << 10, &path, |outcome| outcome.receiving.received > 1000);
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
