//! What must hold for any bytes at all. The fuzz targets, the soak and the model's own tests run the same functions.

use crate::specimen::WORKLOADS;
use baremark_model::plan::{Limits, Mode, Plan, resolve};
use baremark_model::problem::Problems;
use baremark_model::study::parse;
use baremark_model::units::Bytes;
use baremark_model::wire::{FromAgent, Message, ToAgent, WireError, read_frame, write_frame};
use std::fmt::Debug;
use std::io::{self, Cursor, Read};

/// A study file: parsed and resolved without a panic, or refused with lines that exist and remedies that say something.
///
/// # Panics
/// When that does not hold.
pub fn study(data: &[u8]) {
    let study = match parse("fuzz.toml", data, WORKLOADS) {
        Ok(study) => study,
        Err(problems) => return useful(&problems, data),
    };
    let limits = Limits { cpus: vec![0, 1, 2, 3], memory_available: Bytes(8 << 30), ..Limits::default() };
    for mode in [Mode::default(), Mode { quick: true, self_check: true }] {
        match resolve("fuzz.toml", &study, &limits, mode) {
            Ok(plan) => whole(&plan),
            Err(problems) => useful(&problems, data),
        }
    }
}

/// A stream that should hold frames of either direction: read without a panic, without a buffer far beyond the stream's
/// size, and what was read is written and read again as the same message.
///
/// # Panics
/// When that does not hold.
pub fn frame(data: &[u8]) {
    stream_of::<ToAgent>(data);
    stream_of::<FromAgent>(data);
}

fn useful(problems: &Problems, data: &[u8]) {
    let lines = data.iter().filter(|&&byte| byte == b'\n').count() + 1;
    assert!(!problems.list.is_empty(), "refused without a word");
    for problem in &problems.list {
        assert!(problem.line <= lines, "line {} of {lines}: {problem:?}", problem.line);
        assert!(!problem.what.trim().is_empty(), "{problem:?}");
        assert!(!problem.remedy.trim().is_empty() && !problem.remedy.ends_with(": "), "no remedy: {problem:?}");
    }
    assert!(problems.list.is_sorted_by_key(|problem| problem.line), "not in the order of lines: {problems}");
}

fn whole(plan: &Plan) {
    assert!(!plan.arms.is_empty() && !plan.cells.is_empty());
    let used: Vec<usize> = plan.cells.iter().flat_map(|&cell| plan.arms_of(cell)).collect();
    assert!(used.iter().all(|&arm| arm < plan.arms.len()));
    let _ = plan.least_block();
}

fn stream_of<T: Message + PartialEq + Debug>(data: &[u8]) {
    let mut stream = Watched { bytes: Cursor::new(data), largest: 0 };
    loop {
        match read_frame::<T>(&mut stream) {
            Ok(message) => again(&message),
            // The stream goes on after a frame that is no message: its length was right.
            Err(WireError::Garbled(_)) => {}
            Err(why) => {
                assert!(!why.to_string().is_empty());
                break;
            }
        }
    }
    let most = (64 << 10).max(4 * data.len());
    assert!(stream.largest <= most, "a buffer of {} bytes for {} bytes", stream.largest, data.len());
}

fn again<T: Message + PartialEq + Debug>(message: &T) {
    let mut bytes = Vec::new();
    write_frame(&mut bytes, message).expect("what was read can be written");
    let read: T = read_frame(&mut Cursor::new(bytes)).expect("what was written can be read");
    assert_eq!(&read, message);
}

/// Remembers the largest buffer that it was offered.
struct Watched<'d> {
    bytes: Cursor<&'d [u8]>,
    largest: usize,
}

impl Read for Watched<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.largest = self.largest.max(buffer.len());
        self.bytes.read(buffer)
    }
}
