//! The latencies of all disks in three seconds, by device and direction; needs root.
#![expect(clippy::print_stdout, reason = "an example's output")]

use baremark_trace::TraceError;
use baremark_trace::disk::DiskTrace;
use std::thread::sleep;
use std::time::Duration;

fn main() -> Result<(), TraceError> {
    let trace = DiskTrace::start()?;
    let before = trace.snapshot()?;
    sleep(Duration::from_secs(3));
    let seen = trace.snapshot()?.since(&before);
    let by_device = seen.by_device();
    println!("{} pairs of a device and a direction had I/O", by_device.len());
    for (((major, minor), direction), ios) in by_device {
        let [median, p99] = [0.5, 0.99].map(|share| ios.total.percentile(share).unwrap_or(0) / 1000);
        let (word, count) = (direction.word(), ios.count);
        println!("{major}:{minor} {word}: {count} I/Os, median {median} us, 99th percentile {p99} us");
    }
    Ok(())
}
