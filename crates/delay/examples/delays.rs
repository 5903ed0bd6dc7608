//! Measured one-way delays against requested ones on this machine: median, 90th percentile and largest of 300 messages.
#![expect(clippy::print_stdout, reason = "an example's output")]

use baremark_delay::{Delay, Overhead, probe};
use std::time::Duration;

fn main() -> std::io::Result<()> {
    let overhead = Overhead::measure()?;
    println!("the path by itself: {:.0} us", 1e6 * overhead.0.as_secs_f64());
    println!("{:>12} {:>12} {:>12} {:>12}", "requested/us", "median/us", "p90/us", "largest/us");
    for micros in [0, 50, 100, 200, 500, 1000, 2000, 5000, 10_000] {
        let delay = Delay { one_way: Duration::from_micros(micros), overhead, ..Delay::default() };
        let measured = probe::measure(delay, 300)?;
        let us = |time: Duration| 1e6 * time.as_secs_f64();
        println!(
            "{micros:>12} {:>12.0} {:>12.0} {:>12.0}",
            us(measured.median),
            us(measured.p90),
            us(measured.largest)
        );
    }
    Ok(())
}
