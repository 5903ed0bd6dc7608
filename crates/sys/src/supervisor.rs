//! A supervisor in two processes: a worker that runs programs, and a guard that outlives it.
//!
//! Each adopts what the processes below it leave behind ([`subreaper`]), and each is told of the other's end, whatever it is.
//! So whoever of the parties is killed, someone is left who ends the programs, their children that have left the session or the
//! process group included:
//!
//! | killed | who notices | how |
//! |---|---|---|
//! | lab | agent | the kernel kills it with its parent; elsewhere its input ends |
//! | agent | worker | its input ends |
//! | guard | worker | a pipe to the guard ends |
//! | worker | guard | it is the parent, to which the kernel gives the worker's descendants |
//! | program | worker | it is the parent |
//!
//! Neither needs a privilege or a control group, and programs keep their process numbers, which in a PID namespace of their own
//! would be others than those in `/proc`.

use crate::calls::was_interrupted;
use crate::subreaper;
use std::fs;
use std::io::{self, PipeReader, Read};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

/// How long processes that were killed may take to be gone.
const END_LIMIT: Duration = Duration::from_secs(10);

/// What this process becomes by [`divide`].
#[derive(Debug)]
pub enum Half {
    /// The new process: it continues.
    Worker(Guard),
    /// The old one, once the new one has ended so and nothing of it is left.
    Guard(ExitStatus),
}

/// The guard of this process.
#[derive(Debug)]
pub struct Guard(PipeReader);

impl Guard {
    /// Waits until the guard is gone, which it is before this process has ended only if somebody has killed it.
    pub fn wait_for_its_end(mut self) {
        while self.0.read(&mut [0]).is_err_and(|why| why.kind() == io::ErrorKind::Interrupted) {}
    }
}

/// Divides this process, which must have one thread: the worker continues with a copy of its memory, of which what no one has
/// written is not resident; the guard waits for the worker's end and then ends all that it has left. Both adopt orphans.
///
/// A child's largest resident set, as the kernel counts it, is at least that of whoever started it. A process that starts
/// programs to measure them has to be small: a worker is.
///
/// # Errors
/// `Unsupported` with several threads, else what `prctl(2)`, `pipe2(2)`, `fork(2)` and `waitpid(2)` give.
pub fn divide() -> io::Result<Half> {
    if fs::read_dir("/proc/self/task")?.count() != 1 {
        return Err(io::Error::new(io::ErrorKind::Unsupported, "a process of several threads cannot be divided"));
    }
    subreaper::adopt_orphans()?;
    let (lives, held) = io::pipe()?;
    // SAFETY: takes nothing; in a process of one thread the child may continue with everything.
    let pid = unsafe { libc::fork() };
    match pid {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            drop(held);
            subreaper::adopt_orphans()?;
            Ok(Half::Worker(Guard(lives)))
        }
        pid => {
            drop(lives);
            let status = end_of(pid);
            drop(subreaper::end_all_but(&[], END_LIMIT));
            drop(held);
            status.map(Half::Guard)
        }
    }
}

/// How a child has ended.
fn end_of(pid: libc::pid_t) -> io::Result<ExitStatus> {
    let mut status = 0;
    loop {
        // SAFETY: `status` lives through the call.
        if unsafe { libc::waitpid(pid, &raw mut status, 0) } == pid {
            return Ok(ExitStatus::from_raw(status));
        }
        was_interrupted()?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_of_several_threads_is_not_divided() {
        assert_eq!(divide().expect_err("tests have threads").kind(), io::ErrorKind::Unsupported);
    }
}
