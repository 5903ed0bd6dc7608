//! The last lines of what a program writes for people, kept while it runs so that an error can show them.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

const LINES: usize = 20;
const LONGEST_LINE: u64 = 4096;

#[derive(Default)]
struct Kept {
    lines: VecDeque<String>,
    /// All that came, those that were dropped included.
    count: u64,
    /// The first error among those that were dropped.
    error: Option<String>,
}

/// Reads streams to their ends, each on a thread, and keeps their last lines as they come.
#[derive(Default)]
pub struct LogTail {
    kept: Arc<Mutex<Kept>>,
    readers: Vec<JoinHandle<()>>,
    is_error: Option<fn(&str) -> bool>,
}

impl LogTail {
    /// Starts reading `stream`.
    #[must_use]
    pub fn of(stream: impl Read + Send + 'static) -> Self {
        let mut tail = LogTail::default();
        tail.read(stream);
        tail
    }

    /// The same, and the first line that `is_error` stays however many follow it.
    #[must_use]
    pub fn with_error(stream: impl Read + Send + 'static, is_error: fn(&str) -> bool) -> Self {
        let mut tail = LogTail { is_error: Some(is_error), ..LogTail::default() };
        tail.read(stream);
        tail
    }

    /// Starts reading a further stream.
    pub fn read(&mut self, stream: impl Read + Send + 'static) {
        let (kept, is_error) = (Arc::clone(&self.kept), self.is_error);
        self.readers.push(thread::spawn(move || {
            let mut stream = BufReader::new(stream);
            let mut line = Vec::new();
            while matches!((&mut stream).take(LONGEST_LINE).read_until(b'\n', &mut line), Ok(count) if count > 0) {
                let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
                if kept.lines.len() == LINES {
                    let dropped = kept.lines.pop_front();
                    if kept.error.is_none() {
                        kept.error = dropped.filter(|line| is_error.is_some_and(|is_error| is_error(line)));
                    }
                }
                kept.lines.push_back(String::from_utf8_lossy(&line).trim_end().to_owned());
                kept.count += 1;
                line.clear();
            }
        }));
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

    /// Waits for the streams' ends, at most `limit`: a stranger may have inherited one and outlive the writer. Call it
    /// once the writer is gone.
    pub fn finish(&mut self, limit: Duration) {
        let deadline = Instant::now() + limit;
        for reader in self.readers.drain(..) {
            while !reader.is_finished() && Instant::now() < deadline {
                thread::sleep(Duration::from_millis(1));
            }
            if reader.is_finished() {
                drop(reader.join());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_are_kept_and_a_flood_is_not() {
        let flood: String = (0..10_000).map(|n| format!("line {n}\n")).collect();
        let mut tail = LogTail::of(std::io::Cursor::new(flood));
        tail.finish(Duration::from_secs(60));
        let lines = tail.lines();
        assert_eq!((lines.len(), lines[0].as_str(), lines[LINES - 1].as_str()), (LINES, "line 9980", "line 9999"));
        assert_eq!(tail.lines_and_count().1, 10_000);
    }

    #[test]
    fn the_first_error_stays() {
        let is_error = |line: &str| line.starts_with("error");
        let of = |lines: &str| {
            let mut tail = LogTail::with_error(std::io::Cursor::new(lines.to_owned()), is_error);
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
        let mut tail = LogTail::of(std::io::Cursor::new("said\n"));
        tail.read(std::io::Cursor::new("complained\n"));
        tail.finish(Duration::from_secs(60));
        let mut lines = tail.lines();
        lines.sort();
        assert_eq!(lines, ["complained", "said"]);
    }

    #[test]
    fn a_line_without_end_does_not_fill_memory() {
        let mut tail = LogTail::of(std::io::repeat(b'x').take(10 << 20));
        tail.finish(Duration::from_secs(60));
        assert!(tail.lines().iter().all(|line| line.len() <= 4096));
    }
}
