//! Why a program did not run, or not to its end.

use std::fmt;
use std::io;
use std::time::Duration;

/// A program could not be run in the guest.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Memory for the counters could not be had.
    #[error("no memory for the counters of a guest program: raise the limit of open files (ulimit -n)")]
    Counters(#[source] io::Error),
    /// The runner's process could not be started.
    #[error("cannot start {runner}: use the path of a baremark executable")]
    Start {
        /// The runner's file.
        runner: String,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The runner has no microVM here, or lost it.
    #[error("{0}")]
    Runner(String),
    /// What was started is not a runner.
    #[error("{runner} did not act as a runner: use the path of a baremark executable")]
    NotARunner {
        /// The runner's file.
        runner: String,
    },
    /// The program is not there, or cannot be executed.
    #[error("{message}")]
    NotExecutable {
        /// Which, and why.
        message: String,
        /// Whether there is no such file.
        missing: bool,
    },
    /// A polling thread has no processor.
    #[error(
        "exitless system calls: the program may run on {allowed} CPU; allow at least 2, since a thread of its own polls for calls"
    )]
    NoCpuToPoll {
        /// Processors on which it may run.
        allowed: usize,
    },
    /// Nothing went on for as long as was allowed, and the program was killed.
    #[error("the program made no progress for {} s and was killed; {}", limit.as_secs_f64(), Standing(stood))]
    NoProgress {
        /// How long was allowed.
        limit: Duration,
        /// Where its threads stood.
        stood: Vec<Stand>,
    },
    /// The program had not ended after as long as was allowed, and was killed.
    #[error("the program did not end within {} s and was killed; {}", limit.as_secs_f64(), Standing(stood))]
    TimeLimit {
        /// How long was allowed.
        limit: Duration,
        /// Where its threads stood.
        stood: Vec<Stand>,
    },
    /// Waiting for the program failed.
    #[error("cannot wait for the program: see the system's error")]
    Wait(#[source] io::Error),
}

/// Where a thread stood when its program was ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stand {
    /// Its process.
    pub pid: u32,
    /// Its number.
    pub thread: u32,
    /// What it did.
    pub doing: Activity,
    /// The guest's instruction pointer at its last exit.
    pub rip: u64,
}

/// What a thread does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activity {
    /// It computes in the guest, since a system call of this number.
    Computes {
        /// The last call; 0 before the first.
        since: u64,
    },
    /// The host carries out this system call for it.
    Calls {
        /// The call's number.
        number: u64,
    },
    /// It waits for a virtual processor.
    WaitsForVcpu,
}

impl fmt::Display for Stand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Stand { pid, thread, doing, rip } = self;
        match doing {
            Activity::Computes { since } => {
                write!(f, "thread {thread} of {pid} computes near {rip:#x} since system call {since}")
            }
            Activity::Calls { number } => {
                write!(f, "thread {thread} of {pid} is in system call {number} from {rip:#x}")
            }
            Activity::WaitsForVcpu => write!(f, "thread {thread} of {pid} waits for a virtual processor at {rip:#x}"),
        }
    }
}

/// All of them, for a message.
struct Standing<'a>(&'a [Stand]);

impl fmt::Display for Standing<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("no thread was left");
        }
        for (number, stand) in self.0.iter().enumerate() {
            write!(f, "{}{stand}", if number == 0 { "" } else { "; " })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_stood_still_is_described_thread_by_thread() {
        let stand = |thread, doing| Stand { pid: 10, thread, doing, rip: 0x40_1000 };
        let stood = vec![stand(10, Activity::Calls { number: 202 }), stand(11, Activity::Computes { since: 9 })];
        let message = Error::NoProgress { limit: Duration::from_millis(1500), stood }.to_string();
        assert_eq!(
            message,
            "the program made no progress for 1.5 s and was killed; thread 10 of 10 is in system call 202 from 0x401000; \
             thread 11 of 10 computes near 0x401000 since system call 9"
        );
    }
}
