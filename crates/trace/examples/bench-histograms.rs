//! What tracing every I/O costs on this machine: `bench-histograms [rounds=N] [seconds=N] [path=FOLDER]`.
//!
//! Random reads of 4 KiB by io_uring with O_DIRECT at a depth of 32, the highest rate of the disk engine here, with the programs of
//! `baremark histograms` and without, in pairs of alternating order. Three lines, each with its goal and verdict: the ratio of IOPS (at
//! least 0.98), the CPU time per I/O of the job that the programs add (at most 1 us), and the time that the programs run per I/O by the
//! kernel's own measurement, which includes what ends in interrupts and costs about 20 ns for each of three runs itself (at most 1 us).
//!
//! `ok` when the 95 % interval keeps the goal, `SHORT` when it misses it altogether, else `undecided`: other work widens the intervals.
#![expect(clippy::print_stdout, reason = "an example's output")]

use baremark_disks::access::{BlockShare, Mix, Pattern};
use baremark_disks::engine::{self, Engine, Plan, Ramp, Stop};
use baremark_disks::pace::Load;
use baremark_disks::target::{Cache, Place, Target};
use baremark_disks::writable::Consent;
use baremark_stats::multiplicity::{Claim, judge_study};
use baremark_stats::outcome::Better;
use baremark_sys::bpf::RunTimes;
use baremark_trace::disk::DiskTrace;
use std::error::Error;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

type Outcome<T> = Result<T, Box<dyn Error>>;

const SIZE: u64 = 256 << 20;
const ROUNDS: usize = 16;
const SECONDS: u64 = 1;
const RAMP_MS: u64 = 100;
const IOPS_GOAL: f64 = 0.98;
const CPU_GOAL_US: f64 = 1.0;

/// One run: I/Os per second, and CPU microseconds of the job per I/O.
struct Figures {
    iops: f64,
    cpu_us: f64,
    operations: f64,
}

fn main() -> Outcome<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let given = |key: &str| words.iter().find_map(|word| word.strip_prefix(key)?.strip_prefix('='));
    let rounds: usize = given("rounds").map_or(Ok(ROUNDS), str::parse)?;
    let seconds = given("seconds").map_or(Ok(SECONDS), str::parse)?;
    let folder = tempfile::tempdir_in(given("path").map_or_else(std::env::temp_dir, PathBuf::from))?;
    let target = Target::open(&Place::File(folder.path().join("data")), SIZE, Cache::Direct, Consent::NONE)?;
    target.fill(1, None, &AtomicBool::new(false))?;
    let off = |round| load(round, seconds, &target);
    let on = |round| {
        let trace = DiskTrace::start()?;
        let figures = load(round, seconds, &target)?;
        drop(trace);
        Ok::<_, Box<dyn Error>>(figures)
    };
    let mut pairs = Vec::new();
    for round in 0..rounds {
        pairs.push(match round % 2 {
            0 => (on(round)?, off(round)?),
            _ => {
                let without = off(round)?;
                (on(round)?, without)
            }
        });
    }
    let mean = |of: fn(&(Figures, Figures)) -> f64| pairs.iter().map(of).sum::<f64>() / pairs.len() as f64;
    let iops: Vec<f64> = pairs.iter().map(|(on, off)| (on.iops / off.iops).ln()).collect();
    let cpu: Vec<f64> = pairs.iter().map(|(on, off)| on.cpu_us - off.cpu_us).collect();
    let claims = [Claim::of(&iops, 4, 0.02, Better::Higher), Claim::of(&cpu, 4, CPU_GOAL_US, Better::Lower)];
    let judged = judge_study(&claims, 0.05);
    println!("{:<34} {:>10} {:>10}  {:<28} {:>8}  verdict", "", "traced", "not", "effect (95 %)", "goal");
    if let Some(interval) = &judged[0].interval {
        let [centre, lo, hi] = [interval.centre, interval.lo, interval.hi].map(f64::exp);
        let verdict = verdict(lo >= IOPS_GOAL, hi < IOPS_GOAL);
        let effect = format!("{centre:.3} [{lo:.3}, {hi:.3}]");
        let (with, without) = (mean(|pair| pair.0.iops), mean(|pair| pair.1.iops));
        println!("{:<34} {with:>10.0} {without:>10.0}  {effect:<28} {:>8}  {verdict}", "IOPS", ">= 0.98");
    }
    if let Some(interval) = &judged[1].interval {
        let verdict = verdict(interval.hi <= CPU_GOAL_US, interval.lo > CPU_GOAL_US);
        let effect = format!("{:+.2} [{:+.2}, {:+.2}] us", interval.centre, interval.lo, interval.hi);
        let (with, without) = (mean(|pair| pair.0.cpu_us), mean(|pair| pair.1.cpu_us));
        println!(
            "{:<34} {with:>10.2} {without:>10.2}  {effect:<28} {:>8}  {verdict}",
            "CPU us/IO of the job", "<= 1 us"
        );
    }
    let own = programs(seconds, &target)?;
    println!(
        "{:<34} {own:>10.2} {:>10}  {:<28} {:>8}  {}",
        "us/IO in the programs",
        "-",
        "measured by the kernel",
        "<= 1 us",
        verdict(own <= CPU_GOAL_US, own > CPU_GOAL_US)
    );
    Ok(())
}

/// Microseconds of an I/O in the programs, by the kernel's measurement.
fn programs(seconds: u64, target: &Target) -> Outcome<f64> {
    let trace = DiskTrace::start()?;
    let _measured = RunTimes::keep()?;
    let (ran, ios) = (trace.run_time_ns()?, trace.snapshot()?);
    let figures = load(ROUNDS, seconds, target)?;
    let ended: u64 = trace.snapshot()?.since(&ios).ios.values().map(|ios| ios.count).sum();
    if (ended as f64) < figures.operations {
        return Err(format!("{ended} I/Os were traced of {} and more", figures.operations).into());
    }
    Ok((trace.run_time_ns()? - ran) as f64 / 1e3 / ended as f64)
}

fn load(round: usize, seconds: u64, target: &Target) -> Outcome<Figures> {
    let plan = Plan {
        mix: Mix {
            pattern: Pattern::Random,
            blocks: vec![BlockShare { bytes: 4 << 10, weight: 1.0 }],
            align: None,
            read_share: 1.0,
        },
        load: Load { rate: None, poisson: false, bursts: None },
        depth: 32,
        jobs: 1,
        sync_every: 0,
        durable: false,
        engine: Engine::IoUring,
        ramp: Ramp { least_ns: RAMP_MS * 1_000_000, steady: None, limit_ns: 0 },
        stop: Stop::After(seconds * 1_000_000_000),
        ramp_down_ns: 0,
        cpus: vec![0],
        seed: 1 + round as u64,
    };
    let outcome = engine::run(&plan, target, None, &AtomicBool::new(false))?;
    let operations = outcome.operations() as f64;
    Ok(Figures {
        iops: operations / outcome.elapsed_ns as f64 * 1e9,
        cpu_us: outcome.cpu_ns as f64 / 1e3 / operations,
        operations,
    })
}

fn verdict(kept: bool, missed: bool) -> &'static str {
    match (kept, missed) {
        (true, _) => "ok",
        (_, true) => "SHORT",
        _ => "undecided",
    }
}
