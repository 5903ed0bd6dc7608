//! A load as it runs: plain lines in a pipe, a small picture of the last minutes on a terminal.

use super::record::Recorder;
use super::words::{course, time};
use crate::context::Context;
use crate::watch;
use baremark_load::document::SecondRow;
use baremark_load::record::SecondPart;
use baremark_sys::terminal;
use std::io::{IsTerminal, Write as _, stderr};

/// Seconds that the picture shows.
const SHOWN: usize = 120;

/// As much of a line as fits on the terminal: one that wraps could not be cleared as one.
fn fitting(line: &str) -> String {
    let columns = terminal::size().map_or(80, |(_, columns)| columns);
    line.chars().take(columns.saturating_sub(1)).collect()
}

/// Rows of each of two curves, which have a title and an axis each, over the line of the last second; on a terminal too low
/// for them none. What does not fit at once could not be written over.
fn rows_of_each(lines: usize) -> usize {
    match (lines.saturating_sub(2) / 2).saturating_sub(2).min(6) {
        rows @ 3.. => rows,
        _ => 0,
    }
}

/// Who watches a load or a search, and writes it down.
pub(super) struct View<'s> {
    pub(super) recorder: Recorder<'s>,
    live: bool,
    pub(super) quiet: bool,
    rows: Vec<SecondRow>,
    /// Lines on the terminal that the next picture replaces.
    drawn: usize,
}

impl<'s> View<'s> {
    pub(super) fn new(context: &Context, recorder: Recorder<'s>) -> View<'s> {
        let quiet = context.quiet || (context.json && !stderr().is_terminal());
        View { recorder, live: watch::live(), quiet, rows: Vec::new(), drawn: 0 }
    }

    /// A second as it passes; a terminal or pipe that is gone ends nothing.
    pub(super) fn see(&mut self, second: usize, part: &SecondPart) {
        let row = SecondRow::new(second as u64, part);
        if let Ok(value) = serde_json::to_value(&row) {
            self.recorder.second(&value);
        }
        if self.quiet {
            return;
        }
        let p50 = row.latency.as_ref().and_then(|all| all.p50_ns);
        let line = format!(
            "{:>5} s  {:>9} answered  {:>7} failed  p50 {:>9}  p99 {:>9}",
            second + 1,
            row.answered,
            row.failed,
            time(p50),
            time(row.latency.as_ref().and_then(|all| all.p99_ns))
        );
        self.rows.push(row);
        let text = if self.live { self.picture(&line) } else { format!("{line}\n") };
        self.show(&text);
    }

    /// A line, which on a terminal the next one replaces.
    pub(super) fn line(&mut self, line: &str) {
        if !self.quiet {
            self.show(&format!("{}\n", if self.live { fitting(line) } else { line.to_owned() }));
        }
    }

    fn show(&mut self, text: &str) {
        self.clear();
        self.drawn = if self.live { text.lines().count() } else { 0 };
        let mut out = stderr().lock();
        drop(out.write_all(text.as_bytes()).and_then(|()| out.flush()));
    }

    /// Tells something that stays.
    pub(super) fn say(&mut self, line: &str) {
        self.clear();
        watch::say(line);
    }

    fn picture(&self, line: &str) -> String {
        let from = self.rows.len().saturating_sub(SHOWN);
        let shown = &self.rows[from..];
        let lines = terminal::size().map_or(24, |(lines, _)| lines);
        let course = course(shown, "p99", (0, rows_of_each(lines)), &watch::style_of_stderr()).concat();
        format!("{course}{}\n", fitting(line))
    }

    fn clear(&mut self) {
        if self.drawn > 0 {
            drop(write!(stderr(), "\x1b[{}A\r\x1b[J", self.drawn));
            self.drawn = 0;
        }
    }

    /// Clears the picture: the result has its own.
    pub(super) fn finish(mut self) -> Recorder<'s> {
        self.clear();
        self.recorder
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_picture_is_never_higher_than_the_terminal() {
        for lines in 1..60 {
            let rows = rows_of_each(lines);
            let drawn = if rows == 0 { 1 } else { 2 * (rows + 2) + 1 };
            assert!(drawn < lines.max(2), "{rows} rows each in {lines} lines");
        }
        assert_eq!([10, 11, 12, 18, 50].map(rows_of_each), [0, 0, 3, 6, 6]);
    }
}
