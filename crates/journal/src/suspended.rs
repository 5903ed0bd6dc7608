//! Programs that a run suspends between its turns ([`baremark_sys::suspended`]).
//!
//! Recorded is which processes they have, before they are suspended. Undoing lets them go on, so that they act on what they were sent meanwhile: they end, as they
//! do when whoever has started them is killed while they run. In another PID namespace they have other numbers: there the record is kept.

use crate::change::{Change, Kind, Undone, details_of};
use baremark_sys::process_tree::Process;
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
    /// Numbers, and when they were started in ticks since the machine's start; the first has started all others.
    processes: Vec<(u32, u64)>,
    /// The PID namespace in which they have these numbers.
    namespace: String,
}

impl Kind for SuspendedPrograms {
    fn name(&self) -> &'static str {
        KIND
    }

    fn undo(&self, details: &Value) -> io::Result<Undone> {
        let Details { processes, namespace } = details_of(details)?;
        let processes: Vec<_> = processes.into_iter().map(|(pid, started)| Process { pid, started }).collect();
        Ok(if suspended::resume(&processes, &namespace)? { Undone::Done } else { Undone::Absent })
    }
}

/// The record of a program with these processes.
pub(crate) fn change(processes: &[Process], namespace: &str) -> io::Result<Change> {
    let Some(Process { pid, started }) = processes.first() else {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "a program without a process"));
    };
    let target = format!("suspended process {pid} (PID namespace {namespace}, started at tick {started})");
    let processes = processes.iter().map(|process| (process.pid, process.started)).collect();
    let details = serde_json::to_value(Details { processes, namespace: namespace.to_owned() })?;
    Ok(Change { kind: KIND.to_owned(), target, details })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_is_gone_is_left_alone_and_one_of_another_namespace_is_kept_for_that() {
        let link = std::fs::read_link("/proc/self/ns/pid").expect("a namespace");
        let here: String = link.to_string_lossy().chars().filter(char::is_ascii_digit).collect();
        let undo = |namespace: &str| {
            let another = Process { pid: std::process::id(), started: u64::MAX };
            SuspendedPrograms.undo(&change(&[another], namespace).expect("a record").details)
        };
        assert_eq!(undo(&here).expect("nothing to do"), Undone::Absent);
        // By this kind of error the journal keeps a record and is quiet about it.
        assert_eq!(undo("1").expect_err("numbers of others").kind(), io::ErrorKind::WouldBlock);
        assert!(change(&[], &here).is_err());
        let why = SuspendedPrograms.undo(&serde_json::json!({ "root": 1 })).expect_err("details of nothing");
        assert_eq!(why.kind(), io::ErrorKind::InvalidData);
    }
}
