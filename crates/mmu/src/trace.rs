//! Recorded traces: what any program accessed, read as a stream and kept as a sample of bounded size.
//!
//! The format is that of valgrind's example tool (`valgrind --tool=lackey --trace-mem=yes`; its source is
//! `lackey/lk_main.c`): `I  addr,size` for an instruction, ` L`, ` S` and ` M` for a load, a store and a modify, addresses in
//! hexadecimal. Lines between `==pid==` are valgrind's own remarks. Instructions are counted, not kept: only data is
//! translated here. Kept are *windows* of consecutive accesses, evenly spaced: whenever the limit is reached every second
//! one is dropped and from then on half as many are taken, so a run of any length needs the same memory. Each window begins
//! with the translations that the one before it left, which is why a window is long against any TLB.

use crate::stream::Stream;
use std::collections::HashSet;
use std::io::{self, BufRead};
use std::sync::Arc;

/// How much of a trace is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sampling {
    /// Consecutive accesses in a window.
    pub window: usize,
    /// Windows that are kept at most.
    pub windows: usize,
}

impl Default for Sampling {
    /// 16 windows of 2^18 accesses: 32 MiB.
    fn default() -> Self {
        Sampling { window: 1 << 18, windows: 16 }
    }
}

/// The windows of a sample, and how much of the program they are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Windows {
    /// How many there are, each as long: two at least.
    pub count: usize,
    /// Accesses of each.
    pub length: usize,
    /// The share of the program's accesses that they have; 0 where the program was ended with its trace, since nobody knows how far it would have gone.
    pub share: f64,
}

/// A sample of a program's accesses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    addresses: Arc<[u64]>,
    window: usize,
    /// Data accesses in the whole trace.
    pub accesses: u64,
    /// Instructions in the whole trace.
    pub instructions: u64,
    footprint: u64,
}

/// A trace that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// A line is not of this format.
    #[error(
        "line {line} is '{text}'; a trace of valgrind --tool=lackey --trace-mem=yes has 'I  addr,size' or ' L addr,size'"
    )]
    Foreign {
        /// Its number, from 1.
        line: u64,
        /// Its beginning.
        text: String,
    },
    /// It ends within a line.
    #[error("the trace ends within line {0}: it is truncated; let the program end before its trace is read")]
    Truncated(u64),
    /// It has no accesses.
    #[error("the trace has no loads and no stores; was the program run with --trace-mem=yes?")]
    Empty,
    /// Nothing would be kept.
    #[error("a sample of {0} windows of {1} accesses; keep at least 2 windows of 1 access")]
    Sampling(usize, usize),
    /// It cannot be read.
    #[error("the trace cannot be read")]
    Read(#[from] io::Error),
}

impl Trace {
    /// Reads a trace to its end.
    ///
    /// # Errors
    /// When a line is foreign, the last one incomplete, or nothing was accessed.
    pub fn read(mut lines: impl BufRead, sampling: Sampling) -> Result<Self, TraceError> {
        let mut sample = Sample::new(sampling)?;
        let mut text = Vec::new();
        let (mut line, mut instructions) = (0, 0);
        loop {
            text.clear();
            // A foreign file may have no line breaks at all.
            let read = io::Read::take(&mut lines, LONGEST).read_until(b'\n', &mut text)?;
            if read == 0 {
                break;
            }
            line += 1;
            match parse(&text) {
                Line::Access(address) if text.ends_with(b"\n") => sample.add(address),
                Line::Instruction if text.ends_with(b"\n") => instructions += 1,
                Line::Remark => {}
                _ if !text.ends_with(b"\n") && read < LONGEST as usize && line > 1 => {
                    return Err(TraceError::Truncated(line));
                }
                _ => return Err(TraceError::Foreign { line, text: shown(&text) }),
            }
        }
        sample.finish(instructions)
    }

    /// Of addresses at hand.
    ///
    /// # Errors
    /// When there are none.
    pub fn of(addresses: Vec<u64>) -> Result<Self, TraceError> {
        let sampling = Sampling { window: addresses.len().max(1), windows: 2 };
        Trace::sample(addresses, sampling)
    }

    /// A sample of addresses that something else makes.
    ///
    /// # Errors
    /// When there are none, or nothing would be kept.
    pub fn sample(addresses: impl IntoIterator<Item = u64>, sampling: Sampling) -> Result<Self, TraceError> {
        let mut sample = Sample::new(sampling)?;
        addresses.into_iter().for_each(|address| sample.add(address));
        sample.finish(0)
    }

    /// The windows of the sample, of a program that was traced to its end or not; `None` where there is one at most, which shows nothing of how the
    /// program changes.
    #[must_use]
    pub fn windows(&self, whole: bool) -> Option<Windows> {
        let count = self.addresses.len() / self.window;
        let share = if whole { self.addresses.len() as f64 / self.accesses as f64 } else { 0.0 };
        (count >= 2).then_some(Windows { count, length: self.window, share })
    }

    /// The addresses that were kept.
    #[must_use]
    pub fn addresses(&self) -> &[u64] {
        &self.addresses
    }

    /// Instructions for each access, at least one.
    #[must_use]
    pub fn instructions_per_access(&self) -> f64 {
        (self.instructions as f64 / self.accesses as f64).max(1.0)
    }

    /// The sample as a stream, again and again.
    #[must_use]
    pub fn stream(&self) -> Replay {
        Replay { addresses: Arc::clone(&self.addresses), next: 0, footprint: self.footprint }
    }
}

/// A trace as a stream.
#[derive(Clone, Debug)]
pub struct Replay {
    addresses: Arc<[u64]>,
    next: usize,
    footprint: u64,
}

impl Stream for Replay {
    fn fill(&mut self, block: &mut [u64]) {
        for address in block {
            *address = self.addresses.get(self.next).copied().unwrap_or(0);
            self.next += 1;
            if self.next >= self.addresses.len() {
                self.next = 0;
            }
        }
    }

    fn skip(&mut self, accesses: usize) {
        self.next = (self.next + accesses) % self.addresses.len().max(1);
    }

    /// Pages that the sample touches: at most what the program touched.
    fn footprint(&self) -> u64 {
        self.footprint
    }
}

/// The longest line that is read.
const LONGEST: u64 = 4096;

enum Line {
    Access(u64),
    Instruction,
    Remark,
    Foreign,
}

fn parse(text: &[u8]) -> Line {
    let text = text.trim_ascii_end();
    if text.is_empty() || text.starts_with(b"==") || text.starts_with(b"--") {
        return Line::Remark;
    }
    let Some((kind, rest)) = text.split_at_checked(3) else { return Line::Foreign };
    let address = rest.split(|byte| *byte == b',').next().unwrap_or(rest);
    let size = rest.get(address.len() + 1..).unwrap_or(b"");
    let digits = |text: &[u8]| !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    let value = std::str::from_utf8(address).ok().and_then(|text| u64::from_str_radix(text, 16).ok());
    match (kind, value) {
        (b"I  ", Some(_)) if digits(size) => Line::Instruction,
        (b" L " | b" S " | b" M ", Some(address)) if digits(size) => Line::Access(address),
        _ => Line::Foreign,
    }
}

fn shown(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text.get(..text.len().min(60)).unwrap_or(text));
    text.trim_end().escape_debug().to_string()
}

/// Windows, thinned out whenever there are too many.
struct Sample {
    sampling: Sampling,
    kept: Vec<u64>,
    accesses: u64,
    /// One window in so many is taken.
    every: u64,
}

impl Sample {
    fn new(sampling: Sampling) -> Result<Self, TraceError> {
        if sampling.window == 0 || sampling.windows < 2 {
            return Err(TraceError::Sampling(sampling.windows, sampling.window));
        }
        Ok(Sample { sampling, kept: Vec::new(), accesses: 0, every: 1 })
    }

    fn add(&mut self, address: u64) {
        let window = self.accesses / self.sampling.window as u64;
        self.accesses += 1;
        if !window.is_multiple_of(self.every) {
            return;
        }
        if self.kept.len() == self.sampling.window * self.sampling.windows {
            self.thin();
            if !window.is_multiple_of(self.every) {
                return;
            }
        }
        self.kept.push(address);
    }

    /// Drops every second window and takes half as many from now on.
    fn thin(&mut self) {
        let length = self.sampling.window;
        let mut at = 0;
        self.kept.retain(|_| {
            let stays = (at / length).is_multiple_of(2);
            at += 1;
            stays
        });
        self.every *= 2;
    }

    fn finish(self, instructions: u64) -> Result<Trace, TraceError> {
        if self.kept.is_empty() {
            return Err(TraceError::Empty);
        }
        let pages: HashSet<u64> = self.kept.iter().map(|address| address >> 12).collect();
        let footprint = pages.len() as u64 * 4096;
        let window = self.sampling.window;
        Ok(Trace { addresses: self.kept.into(), window, accesses: self.accesses, instructions, footprint })
    }
}
