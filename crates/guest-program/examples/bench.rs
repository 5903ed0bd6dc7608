//! Prints what starting a program in the guest and a forwarded system call cost here: `make bench-guest`.
//!
//! Start-up is the time from the runner's first instruction to the first entry into the guest, and the whole life of
//! /bin/true natively and in the guest, taken in turns. Figures are medians with intervals at 95 %.
#![expect(clippy::print_stdout, reason = "a program that prints figures")]

use baremark_guest_program::{Command, Cost, Costs, Error};
use baremark_stats::Estimate;
use std::time::Instant;

const ROUNDS: usize = 21;
/// The goal of the first entry.
const GOAL_MS: f64 = 4.0;

fn main() -> Result<(), Error> {
    let costs = Costs::measure()?;
    let cost = |name: &str, cost: Cost| {
        println!("{name:<34} {:>9.2} us [{:.2}, {:.2}]", cost.ns / 1e3, cost.low_ns / 1e3, cost.high_ns / 1e3);
    };
    cost("forwarded getppid", costs.call);
    cost("native getppid", costs.native_call);
    cost("exit and entry (difference)", costs.exit);
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
        let Some(interval) = Estimate::of(values).map(|of| of.interval(0.95)) else { return f64::NAN };
        println!("{name:<34} {:>9.2} ms [{:.2}, {:.2}]", interval.centre, interval.lo, interval.hi);
        interval.lo
    };
    let low = line("first entry into the guest", &first);
    line("/bin/true in the guest", &inside);
    line("/bin/true natively", &natively);
    println!("first entry within {GOAL_MS} ms: {}", if low <= GOAL_MS { "ok" } else { "SHORT" });
    Ok(())
}
