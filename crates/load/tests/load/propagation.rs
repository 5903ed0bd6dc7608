//! What one user's answer reports is found again in what others hear.

use crate::bids::{Board, bidders};
use crate::server::run_until;
use std::sync::Arc;

#[test]
fn the_delay_from_one_users_answer_to_what_others_hear_is_measured_on_one_clock() {
    // A bid is heard of 60 ms after it was answered.
    let board = Arc::<Board>::default();
    let server = board.server();
    // Whoever asks for what follows the 25th has had the answer with the 25 before it.
    let document = run_until("25 bids that all have heard of", bidders(&server, 600_000), || board.heard_by(4) >= 25);
    assert!(document.failures.is_empty(), "{:?}", document.failure_examples);
    let row = |name: &str| document.operations.iter().find(|row| row.name == name).unwrap();
    let (bids, delay) = (row("bid").succeeded, row("next-bid").delay.as_ref().unwrap());
    // Four users hear of every bid but the last ones; of those that were not answered yet at the end they may have heard.
    assert!(delay.samples >= 4 * 25 && delay.samples <= 4 * bids + 16, "{} of {bids} bids", delay.samples);
    assert!(delay.p50_ns.unwrap() >= 60_000_000, "never before it happened: {delay:?}");
    // What each second shows are answers that users wait for, not how long those who listen wait for something to hear.
    let shown: u64 = document.series.iter().filter_map(|second| second.latency.as_ref()).map(|all| all.samples).sum();
    assert!(shown > 0 && shown <= row("home").succeeded + bids, "{shown} latencies of {bids} bids");
}
