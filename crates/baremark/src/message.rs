//! Messages on standard error.

use baremark_report::{Color, printable};
use std::fmt::Display;
use std::io::{Write, stderr};

/// Prints a message on standard error. Control characters in it, which may come from a study file or another program, are
/// shown and not obeyed. A terminal or pipe that is gone ends nothing, and least of all in a panic.
pub fn say(text: impl Display) {
    drop(writeln!(stderr(), "{}", printable(&text.to_string(), Color::Never)));
}
