//! What the members have in common: they get ready, wait until all begin, work, wait until all are done, and only then check what they did.
//!
//! Each is a process whose standard input is its conductor's: `ready` is answered by `go`, `done` by `check`. One that has no conductor, or
//! lost it, ends by itself.

use crate::usage;
use rustix::process::{Resource, Rlimit, setrlimit};
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use std::io::{BufRead, Write};

/// What is drawn on or trained with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum On {
    /// A GPU if there is one, else the processor by a software driver.
    Vulkan,
    /// No GPU: frames by the software driver, training in plain Rust.
    None,
    /// The software driver for both, for tests of what runs on a GPU.
    Software,
}

impl On {
    /// The words of the command line.
    pub const WORDS: [(&'static str, On); 3] = [("vulkan", On::Vulkan), ("none", On::None), ("software", On::Software)];

    /// The word of this one.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            On::Vulkan => "vulkan",
            On::None => "none",
            On::Software => "software",
        }
    }
}

/// What a member reports.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// When it began and when it was done, on the machine's monotonic clock, in nanoseconds.
    pub begun_ns: u64,
    /// See `begun_ns`.
    pub done_ns: u64,
    /// Frames that were drawn, or images that the network was trained with.
    pub items: u64,
    /// The device that was used.
    pub device: String,
    /// Whether that is a GPU.
    pub gpu: bool,
    /// Bytes of the device's memory in use.
    pub device_bytes: u64,
    /// The most memory that the process had.
    pub peak_bytes: Option<u64>,
    /// How well the result agrees with what it should be: of frames, checked pixels; of a network, digits that it recognised.
    pub right: f64,
}

impl Report {
    /// How long it worked, in seconds.
    #[must_use]
    pub fn seconds(&self) -> f64 {
        self.done_ns.saturating_sub(self.begun_ns) as f64 / 1e9
    }
}

/// A member's own words before its report.
pub const READY: &str = "ready";
/// See [`READY`].
pub const DONE: &str = "done";
/// A conductor's answers to them.
pub const GO: &str = "go";
/// See [`GO`].
pub const CHECK: &str = "check";

/// Waits with all others, times `work`, and waits again; the two moments and what the work gave.
///
/// # Errors
/// Where the work failed, or the conductor is gone.
pub fn timed<T>(work: impl FnOnce() -> Result<T, String>) -> Result<(u64, u64, T), String> {
    answered(READY, GO)?;
    let begun_ns = now_ns();
    let done = work()?;
    let done_ns = now_ns();
    answered(DONE, CHECK)?;
    Ok((begun_ns, done_ns, done))
}

/// Says one word and waits for another.
fn answered(said: &str, expected: &str) -> Result<(), String> {
    let mut line = String::new();
    let mut out = std::io::stdout().lock();
    let spoken =
        writeln!(out, "{said}").and_then(|()| out.flush()).and_then(|()| std::io::stdin().lock().read_line(&mut line));
    match spoken {
        Ok(_) if line.trim_end() == expected => Ok(()),
        Ok(_) => {
            Err(format!("expected '{expected}' on standard input after '{said}'; `baremark-gpu mix` conducts members"))
        }
        Err(why) => Err(format!("speaking with the conductor: {why}")),
    }
}

fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Limits the private memory of this process, as the memory of a virtual machine would.
///
/// # Errors
/// Where the kernel refuses it.
pub fn limit_memory(bytes: u64) -> Result<(), String> {
    let limit = Rlimit { current: Some(bytes), maximum: Some(bytes) };
    setrlimit(Resource::Data, limit).map_err(|why| format!("limiting memory to {bytes} bytes: {why}"))
}

/// A report of work that is done.
#[must_use]
pub fn report(
    (begun_ns, done_ns): (u64, u64),
    items: u64,
    (device, gpu, device_bytes): (String, bool, u64),
    right: f64,
) -> Report {
    Report { begun_ns, done_ns, items, device, gpu, device_bytes, peak_bytes: usage::peak_bytes(), right }
}
