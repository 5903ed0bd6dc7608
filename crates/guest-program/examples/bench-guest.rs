//! Prints what starting a program in the guest and a forwarded system call cost here: `make bench-guest`.
//!
//! Start-up is the time from the runner's first instruction to the first entry into the guest, and the whole life of
//! /bin/true natively and in the guest, taken in turns. Figures are medians with intervals at 95 %.
//!
//! `BAREMARK_GUEST_PEER` names another program that runs programs in a guest (`PEER PROGRAM ARGUMENT...`): both then take turns with the same
//! programs, and the ratio of ours to the peer's is printed.
#![expect(clippy::print_stdout, reason = "a program that prints figures")]

use baremark_guest_program::{Command, Cost, Costs, Error};
use baremark_stats::Estimate;
use std::ffi::OsStr;
use std::io::Read;
use std::process::Stdio;
use std::time::Instant;

const ROUNDS: usize = 21;
/// Calls that the program of a comparison makes in a row.
const CALLS: u32 = 2000;
/// The environment variable that names a peer.
const PEER: &str = "BAREMARK_GUEST_PEER";
/// The most that a call, and a start, may take over the peer's.
const GOAL_RATIO: f64 = 1.1;
/// The goal of the first entry.
const GOAL_MS: f64 = 4.0;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    if std::env::args().nth(1).as_deref() == Some("calls") {
        println!("{}", calls_ns());
        return Ok(());
    }
    figures()?;
    match std::env::var_os(PEER) {
        Some(peer) => beside(&peer),
        None => {
            println!("no peer: {PEER} names none");
            Ok(())
        }
    }
}

/// What one of some calls in a row takes, in nanoseconds.
fn calls_ns() -> f64 {
    let began = Instant::now();
    for _ in 0..CALLS {
        std::hint::black_box(std::os::unix::process::parent_id());
    }
    began.elapsed().as_secs_f64() * 1e9 / f64::from(CALLS)
}

/// Ours and the peer's in turns, in alternating order.
fn beside(peer: &OsStr) -> Result<(), Box<dyn std::error::Error>> {
    let this = std::env::current_exe()?;
    let printed =
        |output: Vec<u8>| -> Result<f64, Box<dyn std::error::Error>> { Ok(String::from_utf8(output)?.trim().parse()?) };
    let our_call = || {
        let mut child = Command::new(&this).arg("calls").stdout(Stdio::piped()).spawn()?;
        let mut text = Vec::new();
        child.take_stdout().ok_or("no output")?.read_to_end(&mut text)?;
        child.wait()?;
        printed(text)
    };
    let peers_call = || printed(std::process::Command::new(peer).arg(&this).arg("calls").output()?.stdout);
    let started = |command: &mut std::process::Command| -> Result<f64, Box<dyn std::error::Error>> {
        let began = Instant::now();
        let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status()?;
        let seconds = began.elapsed().as_secs_f64();
        if status.success() { Ok(seconds) } else { Err(format!("{command:?}: {status}").into()) }
    };
    let our_start = || {
        let began = Instant::now();
        Command::new("/bin/true").status()?;
        Ok(began.elapsed().as_secs_f64())
    };
    let peers_start = || started(std::process::Command::new(peer).arg("/bin/true"));
    compared("a forwarded call, over the peer's", our_call, peers_call)?;
    compared("/bin/true, over the peer's", our_start, peers_start)
}

fn compared(
    name: &str,
    mut ours: impl FnMut() -> Result<f64, Box<dyn std::error::Error>>,
    mut theirs: impl FnMut() -> Result<f64, Box<dyn std::error::Error>>,
) -> Result<(), Box<dyn std::error::Error>> {
    let mut ratios = Vec::new();
    for round in 0..ROUNDS {
        let ratio = if round % 2 == 0 {
            let ours = ours()?;
            ours / theirs()?
        } else {
            let theirs = theirs()?;
            ours()? / theirs
        };
        ratios.push(ratio);
    }
    let interval = Estimate::of(&ratios).ok_or("no ratio")?.interval(0.95);
    let says = match (interval.lo, interval.hi) {
        (_, high) if high <= GOAL_RATIO => "ok",
        (low, _) if low > GOAL_RATIO => "SHORT",
        _ => "undecided",
    };
    println!(
        "{name:<34} {:>9.3}    [{:.3}, {:.3}], at most {GOAL_RATIO}: {says}",
        interval.centre, interval.lo, interval.hi
    );
    Ok(())
}

fn figures() -> Result<(), Error> {
    let costs = Costs::measure()?;
    let cost = |name: &str, cost: Cost| {
        println!("{name:<34} {:>9.2} us [{:.2}, {:.2}]", cost.ns / 1e3, cost.low_ns / 1e3, cost.high_ns / 1e3);
    };
    cost("forwarded getppid", costs.call);
    cost("native getppid", costs.native_call);
    cost("exit and entry (difference)", costs.exit);
    let (mut ratios, mut without_exit) = (Vec::new(), 0.0);
    for round in 0..ROUNDS {
        // Taken in turns, in alternating order.
        let (forwarded, (answered, counters)) = if round % 2 == 0 {
            (Costs::measure()?.call, Cost::measure_exitless()?)
        } else {
            let answered = Cost::measure_exitless()?;
            (Costs::measure()?.call, answered)
        };
        ratios.push(answered.ns / forwarded.ns);
        let calls = counters.calls + counters.exitless_calls;
        without_exit += counters.exitless_calls as f64 / calls as f64 / ROUNDS as f64;
    }
    if let Some(ratio) = Estimate::of(&ratios).map(|of| of.interval(0.95)) {
        println!(
            "{:<34} {:>9.4}    [{:.4}, {:.4}], {:.1} % of calls without an exit, a CPU spent on polling",
            "exitless over forwarded getppid",
            ratio.centre,
            ratio.lo,
            ratio.hi,
            without_exit * 100.0
        );
    }
    let (mut first, mut inside, mut natively) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let report = Command::new("/bin/true").status()?;
        first.push(report.counters.first_start_ns as f64 / 1e6);
        inside.push(report.wall.as_secs_f64() * 1e3);
        let began = Instant::now();
        let ended = std::process::Command::new("/bin/true").status();
        natively.push(began.elapsed().as_secs_f64() * 1e3);
        drop(ended);
    }
    let line = |name: &str, values: &[f64]| {
        let Some(interval) = Estimate::of(values).map(|of| of.interval(0.95)) else { return (f64::NAN, f64::NAN) };
        println!("{name:<34} {:>9.2} ms [{:.2}, {:.2}]", interval.centre, interval.lo, interval.hi);
        (interval.lo, interval.hi)
    };
    let (low, high) = line("first entry into the guest", &first);
    line("/bin/true in the guest", &inside);
    line("/bin/true natively", &natively);
    let says = match (low, high) {
        (_, high) if high <= GOAL_MS => "ok",
        (low, _) if low > GOAL_MS => "SHORT",
        _ => "undecided",
    };
    println!("first entry within {GOAL_MS} ms: {says}");
    Ok(())
}
