//! Programs that a run suspends between its turns ([`baremark_sys::suspended`]).
//!
//! Recorded is which program that may be, before it is suspended for the first time. Undoing lets it go on, so that it acts on what it was sent meanwhile: it
//! ends, as it does when whoever has started it is killed while it runs.

use crate::change::{Change, Kind, Undone, details_of};
use baremark_sys::suspended;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::io;

const KIND: &str = "suspended-program";

/// The kind of programs that are suspended.
#[derive(Clone, Copy, Debug)]
pub struct SuspendedPrograms;

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Details {
    /// The process that has started all others of it.
    root: u32,
    /// In ticks since the machine's start.
    started: u64,
    /// The PID namespace in which `root` is its number.
    namespace: String,
}

impl Kind for SuspendedPrograms {
    fn name(&self) -> &'static str {
        KIND
    }

    fn undo(&self, details: &Value) -> io::Result<Undone> {
        let Details { root, started, namespace } = details_of(details)?;
        Ok(if suspended::resume(root, started, &namespace)? { Undone::Done } else { Undone::Absent })
    }
}

/// The record of a program.
pub(crate) fn change(root: u32, started: u64, namespace: &str) -> io::Result<Change> {
    let target = format!("suspended process {root} (PID namespace {namespace}, started at tick {started})");
    let details = serde_json::to_value(Details { root, started, namespace: namespace.to_owned() })?;
    Ok(Change { kind: KIND.to_owned(), target, details })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_is_gone_or_of_another_namespace_is_left_alone() {
        let own = std::process::id();
        for (root, started, namespace) in [(own, 1, "4026531836"), (own, u64::MAX, "1")] {
            let change = change(root, started, namespace).expect("a record");
            assert_eq!(SuspendedPrograms.undo(&change.details).expect("nothing to do"), Undone::Absent);
        }
        let why = SuspendedPrograms.undo(&serde_json::json!({ "root": own })).expect_err("details of nothing");
        assert_eq!(why.kind(), io::ErrorKind::InvalidData);
    }
}
