//! The journal as processes use it: kept, killed, damaged, shared.
#![allow(clippy::unwrap_used, clippy::print_stderr, clippy::allow_attributes, reason = "tests")]
#![expect(unsafe_code, reason = "a copy of a process says that it is there before it executes a program")]

mod hostile;
mod kills;
mod values;

use baremark_journal::value::Values;
use baremark_journal::{Journal, file::Files};
use std::path::Path;

/// A journal whose values are files of `folder`.
fn journal(folder: &Path) -> Journal {
    let values = Values::within(folder.canonicalize().unwrap());
    Journal::open(folder.join("journal"), vec![Box::new(values), Box::new(Files)]).unwrap()
}

/// The names of the journal's files of records.
fn records(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder.join("journal")).unwrap().flatten();
    entries.map(|entry| entry.file_name().into_string().unwrap()).filter(|name| name.ends_with(".journal")).collect()
}
