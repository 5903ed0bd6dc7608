//! Rates and delays of networks, measured.
#![allow(
    clippy::unwrap_used,
    clippy::cast_precision_loss,
    clippy::print_stdout,
    clippy::allow_attributes,
    reason = "tests"
)]

#[path = "../kernel/support.rs"]
mod support;

use baremark_delay::Delay;
use baremark_networks::{Network, Node, Pair, round_trip};
use std::time::Duration;
use support::{can, journal, share};

/// That a rate is never exceeded is in tests/kernel.
#[test]
fn a_rate_is_reached_from_both_sides() {
    if !can() {
        return;
    }
    let pair = Pair::new().unwrap();
    let bits = 200_000_000;
    pair.limit_rate(bits).unwrap();
    for ends in [(0, 1), (1, 0)] {
        // Once: other programs may have had the CPUs.
        let shares: Vec<f64> = std::iter::repeat_with(|| share(&pair, ends, bits)).take(3).collect();
        assert!(shares.iter().any(|share| *share > 0.75), "{shares:?}");
    }
}

/// On an idle machine within a tenth; a busy one makes both round trips longer.
#[test]
fn nodes_with_a_delay_are_about_as_far_apart_as_requested() {
    if !can() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let network = Network::new(&journal(folder.path())).unwrap();
    let one_way = Duration::from_millis(2);
    let near = network.delayed_namespaces(2, Delay::default()).unwrap();
    let far = network.delayed_namespaces(2, Delay { one_way, ..Delay::default() }).unwrap();
    let trip = |nodes: &[Node]| round_trip::measure(&nodes[0], &nodes[1], 50).unwrap();
    let (short, long) = (trip(&near.0), trip(&far.0));
    let added = long.median.saturating_sub(short.median);
    assert!(added < 4 * one_way, "{short:?} {long:?}");
}
