//! What a forwarded system call and an exit cost on this machine, measured with a program of a few instructions.
//!
//! The program calls `getppid` again and again and writes how long each batch took, by the time-stamp counter, which the
//! guest shares with the host. It runs natively and in the guest. Its file is made here, from its machine code, so that
//! nothing has to be installed. The share of a run that exits explain is their number x the cost of one, which is that of a
//! forwarded call less that of the same call natively; nothing is subtracted from a result.

use crate::command::Command;
use crate::counters::Counters;
use crate::error::Error;
use baremark_model::page_size::PageSize;
use baremark_stats::Estimate;
use baremark_sys::clock;
use serde::{Deserialize, Serialize};
use std::arch::global_asm;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsRawFd, FromRawFd};
use std::process::Stdio;
use std::time::Duration;

/// Batches that are measured, after one that warms up, and calls in each.
const BATCHES: usize = 40;
const CALLS: usize = 50;
const CONFIDENCE: f64 = 0.95;
/// How long the counter's rate is measured.
const RATE_SPAN: Duration = Duration::from_millis(50);

// A program: BATCHES + 1 times the ticks that CALLS calls of getppid take, written to standard output.
global_asm!(
    ".globl baremark_guest_cost_begin",
    ".globl baremark_guest_cost_end",
    "baremark_guest_cost_begin:",
    "sub rsp, 4096",
    "xor r12d, r12d",
    "2:",
    "lfence",
    "rdtsc",
    "shl rdx, 32",
    "or rax, rdx",
    "mov r13, rax",
    "mov r14d, {calls}",
    "3:",
    "mov eax, 110",
    "syscall",
    "dec r14d",
    "jnz 3b",
    "lfence",
    "rdtsc",
    "shl rdx, 32",
    "or rax, rdx",
    "sub rax, r13",
    "mov [rsp + r12 * 8], rax",
    "inc r12d",
    "cmp r12d, {batches}",
    "jne 2b",
    "mov eax, 1",
    "mov edi, 1",
    "mov rsi, rsp",
    "mov edx, {bytes}",
    "syscall",
    "mov eax, 231",
    "xor edi, edi",
    "syscall",
    "baremark_guest_cost_end:",
    calls = const CALLS,
    batches = const BATCHES + 1,
    bytes = const (BATCHES + 1) * 8,
);

unsafe extern "C" {
    fn baremark_guest_cost_begin();
    fn baremark_guest_cost_end();
}

/// A cost in nanoseconds: the Hodges-Lehmann estimate over batches, with its interval at 95 %.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// The estimate.
    pub ns: f64,
    /// The interval's ends.
    pub low_ns: f64,
    /// The interval's upper end.
    pub high_ns: f64,
}

/// Costs on this machine.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Costs {
    /// One forwarded system call that does nothing, from the program's side.
    pub call: Cost,
    /// The same call natively.
    pub native_call: Cost,
    /// What the difference leaves for leaving the guest and entering it again.
    pub exit: Cost,
}

/// Seconds that exits explain of a run, with the interval that follows from the costs'.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Explained {
    /// By the estimates.
    pub seconds: f64,
    /// By the intervals' lower ends.
    pub low_seconds: f64,
    /// By the intervals' upper ends.
    pub high_seconds: f64,
}

impl Costs {
    /// Measures them in a guest with leaf entries of 2 MiB.
    ///
    /// # Errors
    /// As [`Costs::measure_with`].
    pub fn measure() -> Result<Self, Error> {
        Costs::measure_with(PageSize::Large)
    }

    /// Measures them in a guest with leaf entries of this size. Takes about a third of a second where an exit takes 50 us.
    ///
    /// # Errors
    /// When there is no microVM here, or the time-stamp counter cannot serve as a clock.
    pub fn measure_with(page: PageSize) -> Result<Self, Error> {
        let program = file().map_err(|why| failed(why.to_string()))?;
        let path = format!("/proc/{}/fd/{}", std::process::id(), program.as_raw_fd());
        let (rate, _) = clock::tick_rate(RATE_SPAN).map_err(|why| failed(why.to_string()))?;
        let inside = Command::new(&path).guest_page(page).stdin(Stdio::null()).output()?;
        let mut native = std::process::Command::new(&path);
        let native = native.stdin(Stdio::null()).output().map_err(|why| failed(why.to_string()))?;
        let (call, native_call) = (Cost::read(&inside.stdout, rate.0)?, Cost::read(&native.stdout, rate.0)?);
        Ok(Costs { call, native_call, exit: call.less(native_call) })
    }

    /// What exits took of a run, those of calls and others, by their number. What a call costs natively is not an exit's.
    #[must_use]
    pub fn explain(&self, counters: &Counters) -> Explained {
        let exits = float(counters.calls) + float(counters.other_exits());
        let of = |ns: f64| exits * ns * 1e-9;
        Explained { seconds: of(self.exit.ns), low_seconds: of(self.exit.low_ns), high_seconds: of(self.exit.high_ns) }
    }
}

impl Cost {
    /// The same call where a polling thread answers it without an exit, with what was counted: under load some calls leave the guest, and
    /// are part of the cost.
    ///
    /// # Errors
    /// As [`Costs::measure_with`], and when only one CPU is allowed.
    pub fn measure_exitless() -> Result<(Self, Counters), Error> {
        let program = file().map_err(|why| failed(why.to_string()))?;
        let path = format!("/proc/{}/fd/{}", std::process::id(), program.as_raw_fd());
        let (rate, _) = clock::tick_rate(RATE_SPAN).map_err(|why| failed(why.to_string()))?;
        let output = Command::new(&path).exitless(true).stdin(Stdio::null()).output()?;
        Ok((Cost::read(&output.stdout, rate.0)?, output.report.counters))
    }

    fn read(bytes: &[u8], hz: f64) -> Result<Self, Error> {
        Cost::of(bytes, hz).ok_or_else(|| failed("the program wrote too little".into()))
    }

    /// From the ticks of batches, of which the first warms up.
    fn of(bytes: &[u8], hz: f64) -> Option<Self> {
        let ticks = bytes.as_chunks::<8>().0.iter().skip(1).map(|ticks| u64::from_ne_bytes(*ticks));
        let ns: Vec<f64> = ticks.map(|ticks| float(ticks) * 1e9 / hz / float(CALLS as u64)).collect();
        let interval = Estimate::of(&ns)?.interval(CONFIDENCE);
        Some(Cost { ns: interval.centre, low_ns: interval.lo, high_ns: interval.hi })
    }

    /// The difference, with the interval that holds whatever the two are within theirs; never below 0.
    fn less(self, other: Cost) -> Self {
        Cost {
            ns: (self.ns - other.ns).max(0.0),
            low_ns: (self.low_ns - other.high_ns).max(0.0),
            high_ns: (self.high_ns - other.low_ns).max(0.0),
        }
    }
}

fn failed(why: String) -> Error {
    Error::Runner(format!("cannot measure the cost of an exit: {why}"))
}

/// Counts are far below 2^53.
fn float(count: u64) -> f64 {
    count as f64
}

/// The program's file, in memory.
fn file() -> io::Result<File> {
    // SAFETY: the name is a text; a new descriptor is made or the call fails.
    let fd = unsafe { libc::memfd_create(c"baremark cost".as_ptr(), libc::MFD_CLOEXEC) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor was made above and nobody else owns it.
    let mut file = unsafe { File::from_raw_fd(fd) };
    file.write_all(&image(code()))?;
    // A file that is open for writing cannot be executed: it is opened again for reading, and closed for writing.
    File::open(format!("/proc/self/fd/{fd}"))
}

/// The program's machine code.
fn code() -> &'static [u8] {
    let (begin, end) = (baremark_guest_cost_begin as *const u8, baremark_guest_cost_end as *const u8);
    // SAFETY: both are labels of one piece of this program's text, the second behind the first.
    unsafe { std::slice::from_raw_parts(begin, end.offset_from_unsigned(begin)) }
}

/// An ELF file with `code` as its only segment, and a stack without rights to execute.
fn image(code: &[u8]) -> Vec<u8> {
    const BASE: u64 = 0x40_0000;
    const HEADERS: u64 = 64 + 2 * 56;
    let mut image = b"\x7fELF\x02\x01\x01".to_vec();
    image.resize(16, 0);
    let bytes = HEADERS + code.len() as u64;
    // Type, machine, version, entry, program headers, no sections, flags, sizes.
    image.extend([2u16.to_le_bytes(), 62u16.to_le_bytes()].concat());
    image.extend(1u32.to_le_bytes());
    image.extend([BASE + HEADERS, 64, 0].map(u64::to_le_bytes).concat());
    image.extend(0u32.to_le_bytes());
    image.extend([64u16, 56, 2, 0, 0, 0].map(u16::to_le_bytes).concat());
    // The segment: read and execute. The stack: read and write.
    image.extend([1u32, 5].map(u32::to_le_bytes).concat());
    image.extend([0, BASE, BASE, bytes, bytes, 4096].map(u64::to_le_bytes).concat());
    image.extend([0x6474_e551u32, 6].map(u32::to_le_bytes).concat());
    image.extend([0u64; 6].map(u64::to_le_bytes).concat());
    image.extend(code);
    image
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_runs_natively_and_writes_a_number_for_each_batch() {
        let file = file().expect("memory");
        let path = format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd());
        let output = std::process::Command::new(path).output().expect("a program");
        assert!(output.status.success(), "{:?}", output.status);
        assert_eq!(output.stdout.len(), (BATCHES + 1) * 8);
    }

    #[test]
    fn the_first_batch_is_left_out() {
        let ticks: Vec<u8> =
            (0..=BATCHES as u64).flat_map(|batch| if batch == 0 { u64::MAX } else { 50 * 100 }.to_ne_bytes()).collect();
        let cost = Cost::of(&ticks, 1e9).expect("enough");
        assert!((cost.ns - 100.0).abs() < 1e-9 && (cost.high_ns - 100.0).abs() < 1e-9, "{cost:?}");
        assert_eq!(Cost::of(&ticks[..16], 1e9), None, "one batch is too few");
    }

    #[test]
    fn what_exits_explain_is_numbers_times_costs() {
        let cost = |ns| Cost { ns, low_ns: ns / 2.0, high_ns: ns * 2.0 };
        let costs = Costs { call: cost(1000.0), native_call: cost(100.0), exit: cost(1000.0).less(cost(100.0)) };
        assert!((costs.exit.low_ns - 300.0).abs() < 1e-9 && (costs.exit.high_ns - 1950.0).abs() < 1e-9);
        let record = crate::record::Record::new().expect("memory");
        let mut counters = Counters::read(record.shared());
        (counters.calls, counters.exits) = (1_000_000, 1_500_000);
        let explained = costs.explain(&counters);
        assert!((explained.seconds - 1.35).abs() < 1e-9, "{explained:?}");
        assert!((explained.low_seconds - 0.45).abs() < 1e-9 && (explained.high_seconds - 2.925).abs() < 1e-9);
    }
}
