//! The engine compared with fio on this machine's disk, at equal settings: `bench-disk [PATTERN ...] [rounds=N] [seconds=N] [path=FOLDER]`.
//!
//! Six patterns, each with both in alternating order on one file of random data and one CPU: io_uring with O_DIRECT, registered
//! buffers and files; the pattern `fsync` by pwrite and fdatasync, for fio does not count what io_uring's workers do. Three lines
//! a pattern: IOPS, CPU time per I/O (user and system of the job), p99 latency from the submission. One line each: name, ours,
//! fio's, the ratio with its interval, the goal, the verdict. Intervals are those of all ratios judged together
//! (`baremark_stats::multiplicity`).
//!
//! `ok` when the interval keeps the goal: IOPS at least 0.97; CPU at most 1.0 and 2 % more, as in all of the project's benches; p99
//! not shown to be longer, by an interval of at most a factor of 1.25 either way. `SHORT` when it misses the goal altogether, else
//! `undecided`. Other work on the machine widens the intervals.
#![expect(clippy::print_stdout, reason = "an example's output")]

use baremark_disks::access::{BlockShare, Mix, Pattern};
use baremark_disks::engine::{self, Engine, Plan, Ramp, Stop};
use baremark_disks::pace::Load;
use baremark_disks::target::{Cache, Place, Target};
use baremark_disks::writable::Consent;
use baremark_stats::Interval;
use baremark_stats::multiplicity::{Claim, judge_study};
use baremark_stats::outcome::Better;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;

type Outcome<T> = Result<T, Box<dyn Error>>;

const SIZE: u64 = 1 << 30;
const ROUNDS: usize = 12;
const SECONDS: u64 = 2;
const CPU: usize = 0;
/// Before the measured time, so that neither's start counts.
const RAMP_MS: u64 = 100;
/// What a limit may fall short of the goal, in all of the project's benches.
const SLACK: f64 = 0.02;

/// A pattern at equal settings.
struct Case {
    name: &'static str,
    /// fio's word for it.
    rw: &'static str,
    block: u64,
    depth: usize,
    reads: f64,
}

const CASES: [Case; 6] = [
    Case { name: "random-read", rw: "randread", block: 4 << 10, depth: 32, reads: 1.0 },
    Case { name: "random-write", rw: "randwrite", block: 4 << 10, depth: 32, reads: 0.0 },
    Case { name: "random-mixed", rw: "randrw", block: 4 << 10, depth: 32, reads: 0.7 },
    Case { name: "sequential-read", rw: "read", block: 128 << 10, depth: 8, reads: 1.0 },
    Case { name: "sequential-write", rw: "write", block: 128 << 10, depth: 8, reads: 0.0 },
    Case { name: "fsync", rw: "randwrite", block: 4 << 10, depth: 1, reads: 0.0 },
];

impl Case {
    fn syncs(&self) -> bool {
        self.name == "fsync"
    }
}

/// What one run came to: I/Os per second, CPU per I/O in us, p99 in us.
#[derive(Clone, Copy)]
struct Figures([f64; 3]);

const FIGURES: [(&str, Better); 3] =
    [("IOPS", Better::Higher), ("CPU us/IO", Better::Lower), ("p99 us", Better::Lower)];

fn main() -> Outcome<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let given = |key: &str| words.iter().find_map(|word| word.strip_prefix(key)?.strip_prefix('='));
    let rounds = given("rounds").map_or(Ok(ROUNDS), str::parse)?;
    let seconds = given("seconds").map_or(Ok(SECONDS), str::parse)?;
    let folder = given("path").map_or_else(std::env::temp_dir, PathBuf::from);
    let named: Vec<&str> = words.iter().map(String::as_str).filter(|word| !word.contains('=')).collect();
    if let Some(unknown) = named.iter().find(|name| CASES.iter().all(|case| case.name != **name)) {
        return Err(format!("'{unknown}' is not known; there are {}", CASES.map(|case| case.name).join(", ")).into());
    }
    let cases: Vec<&Case> = CASES.iter().filter(|case| named.is_empty() || named.contains(&case.name)).collect();
    let folder = tempfile::tempdir_in(folder)?;
    let file = folder.path().join("data");
    let target = Target::open(&Place::File(file.clone()), SIZE, Cache::Direct, Consent::NONE)?;
    target.fill(1, None, &AtomicBool::new(false))?;
    Engine::probe(&target)?;
    let mut claims = Vec::new();
    let mut means = Vec::new();
    for case in &cases {
        let pairs = (0..rounds).map(|round| pair(case, round, seconds, &target, &file)).collect::<Outcome<Vec<_>>>()?;
        for (index, (_, better)) in FIGURES.iter().enumerate() {
            let logs: Vec<f64> = pairs.iter().map(|(own, fio)| (own.0[index] / fio.0[index]).ln()).collect();
            claims.push(Claim::of(&logs, 4, 0.03, *better));
            let mean = |of: fn(&(Figures, Figures)) -> Figures| {
                pairs.iter().map(|pair| of(pair).0[index]).sum::<f64>() / pairs.len() as f64
            };
            means.push((mean(|pair| pair.0), mean(|pair| pair.1)));
        }
    }
    print(&cases, &claims, &means);
    Ok(())
}

/// Both, in an order that alternates.
fn pair(case: &Case, round: usize, seconds: u64, target: &Target, file: &Path) -> Outcome<(Figures, Figures)> {
    if round.is_multiple_of(2) {
        let own = ours(case, round, seconds, target)?;
        Ok((own, fio(case, round, seconds, file)?))
    } else {
        let peer = fio(case, round, seconds, file)?;
        Ok((ours(case, round, seconds, target)?, peer))
    }
}

fn ours(case: &Case, round: usize, seconds: u64, target: &Target) -> Outcome<Figures> {
    let plan = Plan {
        mix: Mix {
            pattern: if case.rw.starts_with("rand") { Pattern::Random } else { Pattern::Sequential },
            blocks: vec![BlockShare { bytes: case.block, weight: 1.0 }],
            align: None,
            read_share: case.reads,
        },
        load: Load { rate: None, poisson: false, bursts: None },
        depth: case.depth,
        jobs: 1,
        sync_every: u64::from(case.syncs()),
        durable: false,
        engine: if case.syncs() { Engine::Threads } else { Engine::IoUring },
        ramp: Ramp { least_ns: RAMP_MS * 1_000_000, steady: None, limit_ns: 0 },
        stop: Stop::After(seconds * 1_000_000_000),
        ramp_down_ns: 0,
        cpus: vec![CPU],
        seed: 1 + round as u64,
    };
    let outcome = engine::run(&plan, target, None, &AtomicBool::new(false))?;
    let operations = outcome.operations() as f64;
    let latencies = if case.reads > 0.0 { &outcome.reads } else { &outcome.writes };
    let p99 = latencies.percentile(0.99).ok_or("too few I/Os for a p99; give more seconds")?;
    Ok(Figures([
        operations / outcome.elapsed_ns as f64 * 1e9,
        outcome.cpu_ns as f64 / 1e3 / operations,
        p99 as f64 / 1e3,
    ]))
}

fn fio(case: &Case, round: usize, seconds: u64, file: &Path) -> Outcome<Figures> {
    let mut command = Command::new("fio");
    command.args(["--name=bench", "--direct=1", "--time_based", "--invalidate=0", "--norandommap", "--randrepeat=0"]);
    command.args(["--lat_percentiles=1", "--percentile_list=99", "--output-format=json", "--numjobs=1"]);
    command.arg(format!("--filename={}", file.display())).arg(format!("--rw={}", case.rw));
    command.arg(format!("--bs={}", case.block)).arg(format!("--size={SIZE}")).arg(format!("--iodepth={}", case.depth));
    command.arg(format!("--runtime={seconds}")).arg(format!("--ramp_time={RAMP_MS}ms"));
    command.arg(format!("--cpus_allowed={CPU}")).arg(format!("--randseed={}", 1 + round));
    command.arg(format!("--rwmixread={:.0}", 100.0 * case.reads));
    match case.syncs() {
        true => command.args(["--ioengine=psync", "--fdatasync=1"]),
        false => command.args(["--ioengine=io_uring", "--fixedbufs", "--registerfiles", "--nonvectored"]),
    };
    let output = command.output().map_err(|why| format!("fio: {why}; install fio"))?;
    if !output.status.success() {
        return Err(format!("fio failed: {}", String::from_utf8_lossy(&output.stderr)).into());
    }
    let document: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    let job = &document["jobs"][0];
    let number = |path: &str| job.pointer(path).and_then(serde_json::Value::as_f64).ok_or(format!("fio has no {path}"));
    let iops = number("/read/iops")? + number("/write/iops")?;
    let operations = number("/read/total_ios")? + number("/write/total_ios")?;
    let cpu_us = (number("/usr_cpu")? + number("/sys_cpu")?) / 100.0 * number("/job_runtime")? * 1e3;
    let side = if case.reads > 0.0 { "read" } else { "write" };
    let p99 = number(&format!("/{side}/lat_ns/percentile/99.000000"))?;
    Ok(Figures([iops, cpu_us / operations, p99 / 1e3]))
}

fn print(cases: &[&Case], claims: &[Claim], means: &[(f64, f64)]) {
    println!(
        "{:<17} {:<10} {:>10} {:>10}  {:<24} {:>8}  verdict",
        "pattern", "figure", "ours", "fio's", "ratio (95 %)", "goal"
    );
    for (index, judged) in judge_study(claims, 0.05).iter().enumerate() {
        let (case, figure) = (cases[index / FIGURES.len()], index % FIGURES.len());
        let (own, peer) = means[index];
        let (ratio, verdict) = match &judged.interval {
            Some(interval) => (shown(interval), verdict(figure, interval)),
            None => ("too few rounds".to_owned(), "undecided"),
        };
        let goal = [">= 0.97", "<= 1.0", "~ 1"][figure];
        println!(
            "{:<17} {:<10} {own:>10.1} {peer:>10.1}  {ratio:<24} {goal:>8}  {verdict}",
            case.name, FIGURES[figure].0
        );
    }
}

fn shown(interval: &Interval) -> String {
    format!("{:.3} [{:.3}, {:.3}]", interval.centre.exp(), interval.lo.exp(), interval.hi.exp())
}

fn verdict(figure: usize, interval: &Interval) -> &'static str {
    let (lo, hi) = (interval.lo.exp(), interval.hi.exp());
    let (kept, missed) = match figure {
        0 => (lo >= 0.97, hi < 0.97),
        1 => (hi <= 1.0 + SLACK, lo > 1.0),
        _ => (lo <= 1.0 && (hi <= 1.0 || hi / lo <= 1.25 * 1.25), lo > 1.0),
    };
    match (kept, missed) {
        (true, _) => "ok",
        (_, true) => "SHORT",
        _ => "undecided",
    }
}
