//! Databases at a utilization of the whole machine, and a feed that falls behind.

use crate::common::bench::{Bench, text};
use crate::common::databases::{left, study, until};

#[test]
fn the_management_database_answers_and_a_feed_that_falls_behind_discards_the_trial() {
    let bench = Bench::new();
    let study = |feed: &str| {
        let workload = format!("kind = \"management-db\"\ninventory = \"10 x 100\"\nfeed_interval = \"{feed}\"");
        study(&bench, &workload).replace("300 ms", "3 s")
    };
    // However late a busy machine is: the other one is for the limit.
    bench.write("study.toml", study("500 ms\"\nlag_limit = \"1 min"));
    until(&bench, "block 1 is stored");
    let printed = text(&bench.run(&["report", "--json"]).stdout);
    for metric in ["cycle_s", "cycle_with_feed_s", "rollup_1d_rows_per_s", "snapshot_with_feed_s"] {
        assert!(printed.contains(&format!("\"{metric}\"")), "{metric} is nowhere in {printed}");
    }
    // Ten thousand reports a second are more than one connection sends.
    bench.write("study.toml", study("1 ms\"\nlag_limit = \"100 ms"));
    let said = until(&bench, "the feed fell behind");
    assert!(!said.contains("block 1 is stored"), "{said}");
    assert_eq!(left(&bench), [""; 0]);
}

/// The CPU utilizations of the steps, from the flag of a run whose utilization none of them has.
fn utilizations(said: &str) -> Vec<f64> {
    let all = said.split("between them (").nth(1).and_then(|rest| rest.split(')').next()).unwrap_or_default();
    all.split(", ").filter_map(|step| step.split("connections ").nth(1)?.trim_end_matches(" %").parse().ok()).collect()
}

#[test]
fn throughput_is_interpolated_at_a_utilization_that_the_steps_have_between_them() {
    // Utilization is the whole machine's.
    let bench = Bench::new();
    let stepped = |percent: u64| {
        let workload = format!(
            "kind = \"oltp-hammer\"\nrows = 1000\nper_cpu = 4\nsynchronous_commit = false\nutilization = {percent}"
        );
        study(&bench, &workload).replace("300 ms", "1200 ms") + "[factors]\nenvironment = \"native\"\nranks = 2\n"
    };
    // Nothing that measures uses so little: every step is named.
    bench.write("study.toml", stepped(1));
    until(&bench, "block 1 is stored");
    let printed = text(&bench.run(&["report", "--json"]).stdout);
    assert!(printed.contains("no two steps have a CPU utilization of 1 % between them (1 connections "), "{printed}");
    assert!(printed.contains("\"cpu_utilization\"") && printed.contains("\"tx_per_s\""), "{printed}");
    let found = utilizations(&printed);
    assert_eq!(found.len(), 4, "1, 2, 4 and 8 connections: {printed}");
    let (low, high) = found.iter().fold((100.0_f64, 0.0_f64), |(low, high), share| (low.min(*share), high.max(*share)));
    eprintln!("utilizations of 1, 2, 4 and 8 connections: {found:?}");
    if high - low < 6.0 {
        eprintln!("skipped: the steps of this machine use the same CPU time, so that nothing can be between them");
        return;
    }
    bench.write("study.toml", stepped(((low + high) / 2.0).round() as u64));
    until(&bench, "block 2 is stored");
    let printed = text(&bench.run(&["report", "--json"]).stdout);
    if printed.contains("no two steps have a CPU utilization of") {
        eprintln!(
            "skipped: the steps have used another share of the CPUs than a moment ago: {:?}",
            utilizations(&printed)
        );
        return;
    }
    assert!(printed.contains("\"tx_per_s_at_utilization\""), "{printed}");
}
