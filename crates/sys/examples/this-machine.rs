//! What this machine is, which CPUs this process may use, and how fast its time-stamp counter ticks.
#![expect(clippy::print_stdout, reason = "an example's output")]

use baremark_sys::clock::{tick_rate, ticks};
use baremark_sys::{affinity, machine};
use std::error::Error;
use std::time::Duration;

fn main() -> Result<(), Box<dyn Error>> {
    let facts = machine::this();
    println!("processor: {}", facts.cpu.model_name.as_deref().unwrap_or("not reported"));
    println!("CPUs of this process: {:?}", affinity::allowed_cpus()?);
    let (rate, clock) = tick_rate(Duration::from_millis(50))?;
    println!("time-stamp counter: {:.3} GHz, known to {:.1} ppm", rate.0 / 1e9, clock.tsc_error_ppm);
    let begin = ticks();
    let lines = std::fs::read_to_string("/proc/self/smaps")?.lines().count();
    println!("reading the {lines} lines of /proc/self/smaps took {:.1} us", 1e6 * rate.seconds(ticks() - begin));
    Ok(())
}
