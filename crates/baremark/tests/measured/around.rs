//! What observing costs, and what it shows of a busy CPU.

use crate::common::activity::rows;
use crate::common::bench::{Bench, SMALL};

#[test]
fn observing_costs_little_and_shows_a_rank_at_work() {
    let bench = Bench::new();
    let study = bench.write("small.toml", SMALL);
    let document = bench.json(&["run", study.to_str().unwrap(), "--json"]);
    let busy = rows(&document, "native", "this machine", "cpu.busy")[0]["value"].as_f64().unwrap();
    assert!(busy > 0.5, "a rank that computes keeps a CPU busy: {busy}");
    let cost = document["observed"]["cost"][0]["share"].as_f64().unwrap();
    assert!(cost > 0.0 && cost < 0.2, "a share of one CPU: {cost}");
}

#[test]
fn reading_costs_more_than_reading_nothing() {
    let cost = Bench::new().json(&["top", "--cost", "--json", "--interval", "100 ms", "--count", "4"]);
    let share = |of: &str| cost[of]["estimate"].as_f64().unwrap();
    assert!(share("share_of_one_cpu") > share("null"), "{cost}");
}
