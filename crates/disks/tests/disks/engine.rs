//! The engine on a file of this machine: both ways of issuing I/Os, closed and open loops, limits.

use baremark_disks::access::{BlockShare, Mix, Pattern};
use baremark_disks::engine::{Engine, EngineError, Outcome, Plan, Ramp, Stop, run};
use baremark_disks::pace::Load;
use baremark_disks::target::{Cache, Place, Target};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const SIZE: u64 = 8 << 20;
const MS: u64 = 1_000_000;

pub(crate) fn plan() -> Plan {
    Plan {
        mix: Mix {
            pattern: Pattern::Random,
            blocks: vec![BlockShare { bytes: 4096, weight: 1.0 }],
            align: None,
            read_share: 0.5,
        },
        load: Load { rate: None, poisson: false, bursts: None },
        depth: 8,
        jobs: 1,
        sync_every: 0,
        durable: false,
        engine: Engine::IoUring,
        ramp: Ramp { least_ns: 0, steady: None, limit_ns: 0 },
        stop: Stop::After(200 * MS),
        ramp_down_ns: 0,
        cpus: Vec::new(),
        seed: 1,
    }
}

/// A filled file in the folder of temporary files; `O_DIRECT` where that has it.
pub(crate) fn target() -> Target {
    let place = Place::Folder(std::env::temp_dir());
    let target = Target::open(&place, SIZE, Cache::Direct).or_else(|_| Target::open(&place, SIZE, Cache::Buffered));
    let target = target.unwrap();
    target.fill(1, None, &AtomicBool::new(false)).unwrap();
    target
}

fn outcome(plan: &Plan) -> Option<Outcome> {
    let target = target();
    if plan.engine == Engine::IoUring && Engine::probe(&target).is_err() {
        println!("skipped: io_uring is forbidden here");
        return None;
    }
    Some(run(plan, &target, None, &AtomicBool::new(false)).unwrap())
}

#[test]
fn both_engines_read_and_write_what_the_mix_says() {
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
        assert!(outcome.mean_depth > 8.0 && outcome.mean_depth < 16.5, "{engine:?}: {} of 16", outcome.mean_depth);
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

#[test]
fn it_ends_after_a_number_of_operations_and_syncs_as_often_as_it_is_told() {
    for engine in [Engine::IoUring, Engine::Threads] {
        let mix = Mix { read_share: 0.0, ..plan().mix };
        let stop = Stop::Count(400, 120_000 * MS);
        let plan = Plan { engine, mix, stop, depth: 1, sync_every: 10, durable: true, ..plan() };
        let begun = Instant::now();
        let Some(outcome) = outcome(&plan) else { continue };
        assert!((400..=410).contains(&outcome.writes.count()), "{}", outcome.writes.count());
        assert!((39..=41).contains(&outcome.syncs.count()), "{}", outcome.syncs.count());
        assert!(begun.elapsed() < Duration::from_secs(100));
    }
}

#[test]
fn a_steady_state_is_waited_for_and_one_that_does_not_come_is_reported() {
    let ramp = Ramp { least_ns: 0, steady: Some(1e9), limit_ns: 60_000 * MS };
    let Some(reached) = outcome(&Plan { ramp, stop: Stop::After(50 * MS), ..plan() }) else { return };
    assert!(reached.steady.unwrap().0 && reached.ramp_ns >= 5_000 * MS, "five windows of a second");
    let ramp = Ramp { steady: Some(0.0), limit_ns: 1000 * MS, ..ramp };
    let missed = outcome(&Plan { ramp, stop: Stop::After(50 * MS), ..plan() }).unwrap();
    assert!(!missed.steady.unwrap().0);
}

/// At a fixed rate: 200 I/Os in the measured time, and ten times as many in the ramp-down, which are not counted.
#[test]
fn a_ramp_down_goes_on_with_the_load_and_is_not_measured() {
    for engine in [Engine::IoUring, Engine::Threads] {
        let load = Load { rate: Some(1000.0), poisson: false, bursts: None };
        let plan = Plan { engine, load, stop: Stop::After(200 * MS), ramp_down_ns: 2000 * MS, ..plan() };
        let begun = Instant::now();
        let Some(outcome) = outcome(&plan) else { continue };
        assert!(begun.elapsed() >= Duration::from_millis(2200));
        assert!(outcome.elapsed_ns < 2100 * MS, "{engine:?}: the measured time was {} ns", outcome.elapsed_ns);
        let after = outcome.all - outcome.operations();
        assert!(after >= 50, "{engine:?}: {after} I/Os after the measured time, {} in it", outcome.operations());
        let seconds: u64 = outcome.seconds.iter().map(|second| second.reads + second.writes).sum();
        assert_eq!(seconds, outcome.operations());
    }
}

#[test]
fn an_interrupt_ends_it_at_once() {
    let target = target();
    let stop = AtomicBool::new(false);
    let plan = Plan { engine: Engine::Threads, stop: Stop::After(120_000 * MS), ..plan() };
    let begun = Instant::now();
    let ended = thread::scope(|scope| {
        let running = scope.spawn(|| run(&plan, &target, None, &stop));
        stop.store(true, Ordering::Release);
        running.join().unwrap()
    });
    assert!(matches!(ended, Err(EngineError::Interrupted)));
    assert!(begun.elapsed() < Duration::from_secs(60));
}
