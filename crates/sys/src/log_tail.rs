//! The last lines of what a program writes for people, kept while it runs so that an error can show them.

use crate::calls::again_after_signals;
use crate::ready::Ready;
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

const LINES: usize = 20;
const LONGEST_LINE: usize = 4096;
/// What a pipe holds at most, unless its user has a privilege (`/proc/sys/fs/pipe-max-size`).
const PIPE: usize = 1 << 20;

#[derive(Default)]
struct Kept {
    lines: VecDeque<String>,
    /// All that came, those that were dropped included.
    count: u64,
    /// The first error among those that were dropped.
    error: Option<String>,
}

impl Kept {
    fn add(&mut self, line: String, is_error: Option<fn(&str) -> bool>) {
        if self.lines.len() == LINES {
            let dropped = self.lines.pop_front();
            if self.error.is_none() {
                self.error = dropped.filter(|line| is_error.is_some_and(|is_error| is_error(line)));
            }
        }
        self.lines.push_back(line);
        self.count += 1;
    }
}

/// A stream, whose lines are kept.
struct Stream {
    file: File,
    /// What came after the last whole line. Whoever reads holds it.
    begun: Mutex<Vec<u8>>,
    kept: Arc<Mutex<Kept>>,
    is_error: Option<fn(&str) -> bool>,
}

impl Stream {
    /// Reads until its end.
    fn read(&self) {
        while is_readable(&self.file, None).is_ok() && !self.take() {}
    }

    /// Takes what can be read without waiting, no more than a pipe holds; whether that was the end.
    fn take(&self) -> bool {
        let mut begun = self.begun.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut bytes, mut taken) = ([0; 8192], 0);
        while taken < PIPE && is_readable(&self.file, Some(Duration::ZERO)).unwrap_or(false) {
            let Ok(count @ 1..) = again_after_signals(|| (&self.file).read(&mut bytes)) else {
                if !begun.is_empty() {
                    self.keep(&mut begun);
                }
                return true;
            };
            self.add(&mut begun, &bytes[..count]);
            taken += count;
        }
        false
    }

    fn add(&self, begun: &mut Vec<u8>, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let most = bytes.len().min(LONGEST_LINE - begun.len());
            let end = bytes[..most].iter().position(|byte| *byte == b'\n');
            let (line, rest) = bytes.split_at(end.map_or(most, |at| at + 1));
            begun.extend_from_slice(line);
            if end.is_some() || begun.len() == LONGEST_LINE {
                self.keep(begun);
            }
            bytes = rest;
        }
    }

    fn keep(&self, line: &mut Vec<u8>) {
        let text = String::from_utf8_lossy(line).trim_end().to_owned();
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).add(text, self.is_error);
        line.clear();
    }
}

/// Waits until something can be read, or the end has come, for `longest` at most.
fn is_readable(file: &File, longest: Option<Duration>) -> io::Result<bool> {
    let mut ready = Ready::of(vec![file.as_fd()]);
    ready.wait(longest)?;
    Ok(ready.is(0))
}

/// Reads streams to their ends, each on a thread, and keeps their last lines as they come.
#[derive(Default)]
pub struct LogTail {
    kept: Arc<Mutex<Kept>>,
    readers: Vec<(Arc<Stream>, JoinHandle<()>)>,
    is_error: Option<fn(&str) -> bool>,
}

impl LogTail {
    /// Starts reading `stream`.
    #[must_use]
    pub fn of(stream: impl Into<OwnedFd>) -> Self {
        let mut tail = LogTail::default();
        tail.read(stream);
        tail
    }

    /// The same, and the first line that `is_error` stays however many follow it.
    #[must_use]
    pub fn with_error(stream: impl Into<OwnedFd>, is_error: fn(&str) -> bool) -> Self {
        let mut tail = LogTail { is_error: Some(is_error), ..LogTail::default() };
        tail.read(stream);
        tail
    }

    /// Starts reading a further stream.
    pub fn read(&mut self, stream: impl Into<OwnedFd>) {
        let (file, kept) = (File::from(stream.into()), Arc::clone(&self.kept));
        let stream = Arc::new(Stream { file, begun: Mutex::default(), kept, is_error: self.is_error });
        let read = Arc::clone(&stream);
        self.readers.push((stream, thread::spawn(move || read.read())));
    }

    /// The last lines so far, oldest first, after the first error.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.error.iter().chain(&kept.lines).cloned().collect()
    }

    /// The last lines so far, and how many there were in all.
    #[must_use]
    pub fn lines_and_count(&self) -> (Vec<String>, u64) {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        (kept.lines.iter().cloned().collect(), kept.count)
    }

    /// Waits for the streams' ends, at most `limit`: a stranger may have inherited one and outlive the writer. What was written by then is read,
    /// whether or not a thread was let in to do so. Call it once the writer is gone.
    pub fn finish(&mut self, limit: Duration) {
        let deadline = Instant::now() + limit;
        for (stream, reader) in self.readers.drain(..) {
            while !reader.is_finished() && Instant::now() < deadline {
                thread::sleep(Duration::from_millis(1));
            }
            if reader.is_finished() {
                drop(reader.join());
            } else {
                stream.take();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Seek, Write};

    /// A stream of these bytes.
    fn stream(bytes: &[u8]) -> File {
        let mut file = tempfile::tempfile().expect("a file");
        file.write_all(bytes).and_then(|()| file.rewind()).expect("it is ours");
        file
    }

    #[test]
    fn the_last_lines_are_kept_and_a_flood_is_not() {
        let flood: String = (0..10_000).map(|n| format!("line {n}\n")).collect();
        let mut tail = LogTail::of(stream(flood.as_bytes()));
        tail.finish(Duration::from_secs(60));
        let lines = tail.lines();
        assert_eq!((lines.len(), lines[0].as_str(), lines[LINES - 1].as_str()), (LINES, "line 9980", "line 9999"));
        assert_eq!(tail.lines_and_count().1, 10_000);
    }

    #[test]
    fn the_first_error_stays() {
        let is_error = |line: &str| line.starts_with("error");
        let of = |lines: &str| {
            let mut tail = LogTail::with_error(stream(lines.as_bytes()), is_error);
            tail.finish(Duration::from_secs(60));
            tail.lines()
        };
        let flood = "line\n".repeat(LINES);
        let flooded = of(&format!("line\nerror 1\nerror 2\n{flood}"));
        assert_eq!((flooded.len(), flooded[0].as_str(), flooded[1].as_str()), (1 + LINES, "error 1", "line"));
        assert_eq!(of(&flood).len(), LINES);
        assert_eq!(of("error 1\nline\n"), ["error 1", "line"]);
    }

    #[test]
    fn two_streams_have_one_tail() {
        let mut tail = LogTail::of(stream(b"said\n"));
        tail.read(stream(b"complained\n"));
        tail.finish(Duration::from_secs(60));
        let mut lines = tail.lines();
        lines.sort();
        assert_eq!(lines, ["complained", "said"]);
    }

    #[test]
    fn a_line_without_end_does_not_fill_memory() {
        let mut tail = LogTail::of(stream(&vec![b'x'; 10 << 20]));
        tail.finish(Duration::from_secs(60));
        assert!(tail.lines().iter().all(|line| line.len() <= 4096));
        assert_eq!(tail.lines_and_count().1, (10 << 20) / 4096);
    }

    #[test]
    fn what_was_written_is_read_also_where_no_thread_was_let_in_to_do_so() {
        let (from, mut to) = io::pipe().expect("a pipe");
        to.write_all(b"one\ntwo\nthr").expect("there is room");
        let mut tail = LogTail::of(from);
        let (other, ends) = io::pipe().expect("a pipe");
        (&ends).write_all(b"last words").expect("there is room");
        drop(ends);
        tail.read(other);
        tail.finish(Duration::ZERO);
        let mut lines = tail.lines();
        lines.sort();
        assert_eq!(lines, ["last words", "one", "two"], "the first is still open, and its last line has not ended");
    }
}
