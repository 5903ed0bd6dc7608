//! Latencies as they are traced, against the kernel's own sums.
#![allow(clippy::unwrap_used, clippy::print_stdout, missing_docs, reason = "tests")]

#[path = "../kernel/device.rs"]
mod device;

use baremark_trace::disk::Direction;
use device::{Exercised, Loop, exercise, of, tracing};

#[test]
fn sums_of_latencies_are_about_the_kernels() {
    let folder = tempfile::tempdir().unwrap();
    let Some(device) = Loop::new(folder.path()) else { return };
    let Some(trace) = tracing() else { return };
    let Exercised { from, to, seen } = exercise(&device, &trace);
    for direction in [Direction::Read, Direction::Write] {
        let (ours, before, after) = (of(&seen.ios, device.number, direction), from.of(direction), to.of(direction));
        // The kernel rounds each sum to milliseconds.
        let (own, kernel) = (ours.total_ns / 1_000_000, (after.total_ns - before.total_ns) / 1_000_000);
        assert!(
            own <= kernel + kernel / 4 + 2 && kernel <= own + own / 4 + ours.count / 100 + 2,
            "{own} and {kernel} ms"
        );
    }
}
