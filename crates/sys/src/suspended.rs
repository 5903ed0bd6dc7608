//! A program whose processes are stopped for a while where they are: SIGSTOP to a process and all that it has started, and SIGCONT.
//!
//! This needs no right beyond that to send them signals, and no control group. A process that is stopped forks no other, so that processes are listed again
//! until a list has none that still runs. A program that is stopped does not act on the signal by which it hears of the death of who has started it, unless
//! that is SIGKILL. The kernel continues a process group that loses its last parent of another group then (`_exit(2)`); for where it does not, what is
//! stopped is recorded ([`crate::registry`]), and the next start continues it.

use crate::confine;
use crate::control_group::namespace;
use crate::offspring;
use crate::process_tree::{self, parse};
use crate::registry::{self, Made, Record};
use std::fs;
use std::io;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

/// Between two looks at processes that are to stop, which takes a process that runs some 100 us.
const GLANCE: Duration = Duration::from_micros(100);

/// A process, by its number and when it was started: no later one has both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Process {
    pid: u32,
    /// In ticks since the machine's start.
    started: u64,
}

impl Process {
    /// The process that has this number now; `None` where there is none that lives.
    fn of(pid: u32) -> Option<Process> {
        let entry = parse(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)?;
        (!entry.ended).then_some(Process { pid, started: entry.started })
    }

    fn is_there(self) -> bool {
        Process::of(self.pid) == Some(self)
    }

    /// Whether none of its threads runs; a thread that is on its way to a disk stops when that has answered.
    fn has_stopped(self) -> bool {
        let threads = fs::read_dir(format!("/proc/{}/task", self.pid)).into_iter().flatten().flatten();
        threads
            .map(|thread| state(&thread.path().join("stat")))
            .all(|state| matches!(state, None | Some('T' | 't' | 'Z' | 'X')))
    }
}

/// The state of a thread; `None` of one that is gone.
fn state(stat: &Path) -> Option<char> {
    let text = fs::read_to_string(stat).ok()?;
    text.rsplit_once(')')?.1.trim_start().chars().next()
}

/// A program that is suspended, and goes on when this is dropped.
#[derive(Debug, Default)]
pub struct Suspended {
    /// Who has started others before those.
    processes: Vec<Process>,
}

impl Suspended {
    /// Stops `root` and all that it has started, and returns when none of them runs. After an error all go on.
    ///
    /// # Errors
    /// `NotFound` where `root` does not live, `TimedOut` where one does not stop within `limit`; what `kill(2)` gives.
    pub fn of(root: u32, limit: Duration) -> io::Result<Suspended> {
        let deadline = Instant::now() + limit;
        let mut suspended = Suspended::default();
        // One that is listed may start another before it stops: a list that was made after all had stopped is complete.
        let mut all_had_stopped = false;
        loop {
            let mut all_stop = true;
            for process in offspring::tree(root).into_iter().filter_map(Process::of) {
                if !suspended.processes.contains(&process) {
                    suspended.processes.push(process);
                    confine::send(process.pid.cast_signed(), libc::SIGSTOP)?;
                    all_stop = false;
                }
                all_stop &= process.has_stopped();
            }
            if suspended.processes.is_empty() {
                return Err(io::Error::new(io::ErrorKind::NotFound, format!("process {root} has ended")));
            }
            if all_stop && all_had_stopped {
                return Ok(suspended);
            }
            if Instant::now() >= deadline {
                let what = format!("processes of {root} do not stop within {} s", limit.as_secs());
                return Err(io::Error::new(io::ErrorKind::TimedOut, what));
            }
            if !all_stop {
                thread::sleep(GLANCE);
            }
            all_had_stopped = all_stop;
        }
    }

    /// CPU time that its processes have used since they were started, in ns: it does not grow.
    #[must_use]
    pub fn cpu_ns(&self) -> u64 {
        self.processes.iter().filter_map(|process| process_tree::cpu_ns(process.pid)).sum()
    }
}

impl Drop for Suspended {
    fn drop(&mut self) {
        // Whoever has started others finds them running.
        for process in self.processes.iter().rev().filter(|process| process.is_there()) {
            drop(confine::send(process.pid.cast_signed(), libc::SIGCONT));
        }
    }
}

/// The record that a program may be suspended from now on; `None` where nothing is recorded. It lasts as long as the program.
///
/// # Errors
/// `NotFound` where `root` does not live; when it cannot be recorded.
pub fn recorded(root: u32) -> io::Result<Option<Box<dyn Record>>> {
    let process = Process::of(root);
    let process =
        process.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, format!("process {root} has ended")))?;
    registry::record(Made::Suspended { root, started: process.started, namespace: &namespace()? })
}

/// Continues a program that was suspended by a process that is gone; whether it is there. `namespace` is the PID namespace in which `root` is its number:
/// what was in another one is not looked for, for it cannot be named here.
///
/// # Errors
/// What `kill(2)` gives, and what finding the own namespace does.
pub fn resume(root: u32, started: u64, namespace_of_root: &str) -> io::Result<bool> {
    if namespace()? != namespace_of_root || !(Process { pid: root, started }).is_there() {
        return Ok(false);
    }
    for pid in offspring::tree(root).into_iter().rev() {
        confine::send(pid.cast_signed(), libc::SIGCONT)?;
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_is_gone_or_was_another_is_neither_stopped_nor_continued() {
        let mut ended = std::process::Command::new("true").spawn().expect("true");
        let number = ended.id();
        ended.wait().expect("it ends");
        let why = Suspended::of(number, Duration::from_secs(1)).expect_err("nothing is there");
        assert_eq!(why.kind(), io::ErrorKind::NotFound);
        let own = Process::of(std::process::id()).expect("it lives");
        let here = namespace().expect("a namespace");
        assert!(own.is_there() && !own.has_stopped());
        assert!(!resume(own.pid, own.started + 1, &here).expect("nothing is sent"), "another of that number");
        assert!(!resume(own.pid, own.started, "0").expect("nothing is sent"), "a number of another namespace");
        assert!(resume(own.pid, own.started, &here).expect("a signal that does nothing to who runs"));
    }
}
