//! The engine on a file of this machine: both ways of issuing I/Os, closed and open loops, limits.

use crate::plans::{LIMIT_NS, MS, NO_LIMIT_NS, outcome, plan, target};
use baremark_disks::access::{BlockShare, Mix, Pattern};
use baremark_disks::engine::{Engine, EngineError, Outcome, Plan, Ramp, Stop, run};
use baremark_disks::pace::Load;
use baremark_disks::target::{Cache, Place, Target};
use baremark_disks::writable::Consent;
use baremark_load::latency::Latencies;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// No more are outstanding than may be. Those that began before the measured time count from their begin.
fn keeps_its_depth(outcome: &Outcome, depth: f64) {
    let largest = outcome.reads.largest().max(outcome.writes.largest()).unwrap();
    let most = depth * (1.0 + largest as f64 / outcome.elapsed_ns as f64);
    assert!(outcome.mean_depth > 0.0 && outcome.mean_depth <= most, "{} of {depth}", outcome.mean_depth);
}

#[test]
fn both_engines_read_and_write_what_the_mix_says() {
    for engine in [Engine::IoUring, Engine::Threads] {
        let blocks = vec![BlockShare { bytes: 4096, weight: 1.0 }, BlockShare { bytes: 8192, weight: 1.0 }];
        let base = plan();
        let stop = Stop::Count(2000, NO_LIMIT_NS);
        let plan = Plan { engine, jobs: 2, mix: Mix { blocks, ..base.mix.clone() }, stop, ..base };
        let Some(outcome) = outcome(&plan) else { continue };
        let (reads, writes) = (outcome.reads.count() as f64, outcome.writes.count() as f64);
        assert!((0.4..0.6).contains(&(reads / (reads + writes))), "{engine:?}: {reads} reads, {writes} writes");
        let mean = outcome.read_bytes as f64 / reads;
        assert!((5500.0..6800.0).contains(&mean), "{engine:?}: {mean} bytes a read");
        assert!(outcome.cpu_ns > 0 && outcome.reads.percentile(0.5).is_some());
        keeps_its_depth(&outcome, 16.0);
        let seconds: u64 = outcome.seconds.iter().map(|second| second.reads + second.writes).sum();
        assert_eq!(seconds, outcome.operations());
    }
}

/// Far more than any disk does, all of it meant to start at once: what is late waits, and its wait counts.
#[test]
fn latency_counts_from_the_intended_start() {
    let load = Load { rate: Some(1e9), poisson: false, bursts: None };
    let Some(late) = outcome(&Plan { load, stop: Stop::Count(2000, NO_LIMIT_NS), ..plan() }) else { return };
    let sum = |all: &Latencies| all.summary().map_or(0.0, |summary| summary.mean_ns * summary.samples as f64);
    let (waited, outstanding) = (sum(&late.reads) + sum(&late.writes), late.mean_depth * late.elapsed_ns as f64);
    assert!(waited > outstanding, "{waited} ns since the intended starts, {outstanding} ns since the actual ones");
    keeps_its_depth(&late, 8.0);
}

/// Syncs had arrivals of their own, so that at a rate of 1000 with a sync after each write there were 500 writes per second. All of these are due
/// at once; a sync is due when its write has ended, and one at a time has no more latency than the time that there was.
#[test]
fn syncs_are_no_arrivals() {
    for engine in [Engine::IoUring, Engine::Threads] {
        let load = Load { rate: Some(1e9), poisson: false, bursts: None };
        let mix = Mix { read_share: 0.0, ..plan().mix };
        let plan = Plan { engine, load, mix, depth: 1, sync_every: 1, stop: Stop::Count(200, NO_LIMIT_NS), ..plan() };
        let Some(outcome) = outcome(&plan) else { continue };
        let syncs = outcome.syncs.summary().unwrap();
        let (waited, time) = (syncs.mean_ns * syncs.samples as f64, (outcome.ramp_ns + outcome.elapsed_ns) as f64);
        assert!(waited <= 1.01 * time, "{engine:?}: {waited} ns of {time}");
    }
}

#[test]
fn it_ends_after_a_number_of_operations_and_syncs_as_often_as_it_is_told() {
    for engine in [Engine::IoUring, Engine::Threads] {
        let mix = Mix { read_share: 0.0, ..plan().mix };
        let stop = Stop::Count(400, NO_LIMIT_NS);
        let plan = Plan { engine, mix, stop, depth: 1, sync_every: 10, durable: true, ..plan() };
        // It ends by its number: nothing else ends it.
        let Some(outcome) = outcome(&plan) else { continue };
        assert!((400..=410).contains(&outcome.writes.count()), "{}", outcome.writes.count());
        assert!((39..=41).contains(&outcome.syncs.count()), "{}", outcome.syncs.count());
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
        // The ramp-down is not part of the measured time, which is as long as it was meant to be, or longer on a slow machine.
        let measured = Duration::from_nanos(outcome.elapsed_ns);
        assert!(measured >= Duration::from_millis(200) && measured + Duration::from_secs(2) <= begun.elapsed());
        let after = outcome.all - outcome.operations();
        assert!(after > 0, "{engine:?}: no I/O after the measured time, {} in it", outcome.operations());
        let seconds: u64 = outcome.seconds.iter().map(|second| second.reads + second.writes).sum();
        assert_eq!(seconds, outcome.operations());
    }
}

#[test]
fn an_interrupt_ends_it_at_once() {
    let target = target();
    let stop = AtomicBool::new(false);
    let plan = Plan { engine: Engine::Threads, stop: Stop::After(LIMIT_NS), ..plan() };
    let begun = Instant::now();
    let ended = thread::scope(|scope| {
        let running = scope.spawn(|| run(&plan, &target, None, &stop));
        stop.store(true, Ordering::Release);
        running.join().unwrap()
    });
    assert!(matches!(ended, Err(EngineError::Interrupted)));
    assert!(begun.elapsed() < Duration::from_secs(60));
}

#[test]
#[ignore = "a process of the next test: no thread can be started in it"]
fn runs_where_no_thread_can_be_started() {
    let plan = Plan { engine: Engine::Threads, jobs: 2, ..plan() };
    let why = run(&plan, &target(), None, &AtomicBool::new(false)).err().expect("an error").to_string();
    assert!(why.starts_with("16 threads cannot be started: ") && why.contains("; write a smaller depth"), "{why}");
}

/// It was a panic, for whose end those that had been started were waited for.
#[test]
fn a_thread_that_cannot_be_started_ends_the_run_with_its_reason() {
    let mut command = std::process::Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "engine::runs_where_no_thread_can_be_started", "--ignored"]);
    // No stack of that size fits into the address space.
    let status = command.env("RUST_MIN_STACK", (1_u64 << 47).to_string()).status().unwrap();
    assert!(status.success(), "{status}");
}

/// The first page alone of a write was its own: of 64 KiB a disk that keeps equal pages once wrote 4.
#[test]
fn no_two_pages_that_are_written_are_equal() {
    let folder = tempfile::tempdir().unwrap();
    let (path, size, bytes) = (folder.path().join("data"), 4 << 20, 64 << 10);
    let target = Target::open(&Place::File(path.clone()), size, Cache::Buffered, Consent::NONE).unwrap();
    target.fill(1, None, &AtomicBool::new(false)).unwrap();
    let blocks = vec![BlockShare { bytes, weight: 1.0 }];
    let mix = Mix { pattern: Pattern::Sequential, blocks, align: None, read_share: 0.0 };
    let (engine, stop) = (Engine::Threads, Stop::Count(size / bytes, NO_LIMIT_NS));
    run(&Plan { mix, engine, stop, depth: 1, ..plan() }, &target, None, &AtomicBool::new(false)).unwrap();
    let written = std::fs::read(path).unwrap();
    let pages: BTreeSet<&[u8]> = written.chunks(4096).collect();
    assert_eq!(pages.len() as u64, size / 4096);
}
