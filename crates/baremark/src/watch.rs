//! Progress, for whoever watches: one live line on a terminal, plain lines in a pipe. Always on standard error, so that
//! standard output carries the result alone.

use crate::context::Context;
use baremark_model::event::Event;
use baremark_model::plan::Plan;
use baremark_model::units::Nanos;
use baremark_report::progress::{self, Lines, Progress};
use baremark_report::{Color, Style};
use baremark_sys::terminal;
use std::io::{IsTerminal, Write, stderr, stdout};
use std::time::Instant;

pub use crate::message::say;

/// A reader of events that prints.
pub struct Watch {
    progress: Progress,
    lines: Lines,
    began: Instant,
    live: bool,
    quiet: bool,
}

impl Watch {
    /// For a run of `plan`, as the user wants it shown; with JSON on standard output, a pipe hears nothing.
    pub fn new(plan: &Plan, context: &Context) -> Self {
        let live = live() && !context.quiet;
        let (progress, lines) = (Progress::new(&plan.design), Lines::default());
        Watch { progress, lines, began: Instant::now(), live, quiet: context.quiet || (context.json && !live) }
    }

    /// Shows an event. A terminal or pipe that is gone ends nothing: the run is in the store.
    pub fn see(&mut self, event: &Event) {
        if self.quiet {
            return;
        }
        self.progress.heard(event);
        let mut out = stderr().lock();
        if !self.live {
            let style = style_of_stderr();
            for line in self.lines.heard(event) {
                drop(writeln!(out, "{}", style.plain(&line)));
            }
            return;
        }
        if let Event::Examining { .. } | Event::Warning { .. } = event
            && let Some(line) = progress::line(event)
        {
            drop(writeln!(out, "\r\x1b[K{line}"));
        }
        let elapsed = Nanos(u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX));
        drop(write!(out, "\r\x1b[K{}", self.progress.status(elapsed, &style_of_stderr())));
        drop(out.flush());
    }

    /// Clears the live line.
    pub fn finish(&self) {
        if self.live {
            drop(write!(stderr(), "\r\x1b[K"));
        }
    }
}

/// Whether standard error is a terminal on which a line can be written over.
pub fn live() -> bool {
    stderr().is_terminal() && !dumb()
}

/// Whether the terminal obeys nothing.
pub fn dumb() -> bool {
    std::env::var("TERM").is_ok_and(|term| term == "dumb")
}

/// How text is to be set on standard output.
pub fn style() -> Style {
    style_of(stdout().is_terminal())
}

/// How text is to be set on standard error.
pub fn style_of_stderr() -> Style {
    style_of(stderr().is_terminal())
}

fn style_of(terminal_here: bool) -> Style {
    let unset = |name: &str| std::env::var_os(name).is_none_or(|value| value.is_empty());
    let color = if terminal_here && unset("NO_COLOR") && !dumb() { Color::Always } else { Color::Never };
    let width = terminal::size().filter(|_| terminal_here).map_or(80, |(_, columns)| columns);
    Style { width, color, unicode: !dumb() }
}
