//! Rates and depths against what was requested.

use crate::plans::{MS, outcome, plan};
use baremark_disks::access::{BlockShare, Mix};
use baremark_disks::engine::{Engine, Outcome, Plan, Stop};
use baremark_disks::pace::Load;

#[test]
fn both_engines_keep_their_depth() {
    for engine in [Engine::IoUring, Engine::Threads] {
        let blocks = vec![BlockShare { bytes: 4096, weight: 1.0 }, BlockShare { bytes: 8192, weight: 1.0 }];
        let base = plan();
        let plan =
            Plan { engine, jobs: 2, mix: Mix { blocks, ..base.mix.clone() }, stop: Stop::After(400 * MS), ..base };
        let Some(outcome) = outcome(&plan) else { continue };
        let (reads, writes) = (outcome.reads.count() as f64, outcome.writes.count() as f64);
        assert!((0.4..0.6).contains(&(reads / (reads + writes))), "{engine:?}: {reads} reads, {writes} writes");
        let mean = outcome.read_bytes as f64 / reads;
        assert!((5500.0..6800.0).contains(&mean), "{engine:?}: {mean} bytes a read");
        assert!(outcome.cpu_ns > 0 && outcome.reads.percentile(0.5).is_some());
        assert!(outcome.mean_depth > 8.0, "{engine:?}: {} of 16", outcome.mean_depth);
        let seconds: u64 = outcome.seconds.iter().map(|second| second.reads + second.writes).sum();
        assert_eq!(seconds, outcome.operations());
    }
}

#[test]
fn a_rate_is_kept_and_latency_counts_from_the_intended_start() {
    let load = Load { rate: Some(2000.0), poisson: false, bursts: None };
    let stop = Stop::After(500 * MS);
    let Some(kept) = outcome(&Plan { load, stop, ..plan() }) else { return };
    let rate = kept.operations() as f64 / kept.elapsed_ns as f64 * 1e9;
    assert!((1700.0..2300.0).contains(&rate), "{rate}/s");
    // Far more than any disk does: what is late waits, and its wait counts.
    let load = Load { rate: Some(1e9), ..load };
    let late = outcome(&Plan { load, stop, ..plan() }).unwrap();
    let median = |outcome: &Outcome| outcome.reads.percentile(0.5).unwrap();
    assert!(median(&late) > 100 * MS, "{} ns", median(&late));
    assert!(late.mean_depth < 8.5, "only {} are outstanding all the same", late.mean_depth);
}
