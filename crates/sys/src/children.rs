//! Processes that are made only to be made: forked, ended, waited for, parked, or joined in a ring that passes a token.
//!
//! A child of a process with threads may call only what is safe in a signal handler. All of these do so and nothing
//! else, and the kernel ends them with the thread that made them.

use crate::calls::{checked, was_interrupted};
use crate::process::death_signal;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd};

/// Makes a child that ends at once, and waits for it.
///
/// # Errors
/// What `fork(2)` or `waitpid(2)` give, and when the child did not end by itself.
pub fn fork_and_wait() -> io::Result<()> {
    // SAFETY: the child calls `_exit` and nothing else.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            // SAFETY: ends the child without running anything of the parent's.
            unsafe { libc::_exit(0) }
        }
        child => match wait_for(child)? {
            0 => Ok(()),
            status => Err(io::Error::other(format!("the child ended with status {status}"))),
        },
    }
}

/// Children that do nothing until they are dropped.
#[derive(Debug)]
pub struct Parked(Vec<libc::pid_t>);

impl Parked {
    /// Makes `count` children that sleep.
    ///
    /// # Errors
    /// What `fork(2)` gives; those that were made are ended.
    pub fn new(count: usize) -> io::Result<Self> {
        let mut parked = Parked(Vec::with_capacity(count));
        for _ in 0..count {
            let child = fork_into(|| {
                loop {
                    // SAFETY: sleeps until a signal, which ends it.
                    unsafe { libc::pause() };
                }
            })?;
            parked.0.push(child);
        }
        Ok(parked)
    }
}

impl Drop for Parked {
    fn drop(&mut self) {
        for &child in &self.0 {
            // SAFETY: a child of ours that was not waited for, so that the number is still its own.
            unsafe { libc::kill(child, libc::SIGKILL) };
        }
        for &child in &self.0 {
            drop(wait_for(child));
        }
    }
}

/// Processes in a ring of pipes: each adds one to the token that it reads and passes it on. They run where the thread may
/// that made them.
#[derive(Debug)]
pub struct Ring {
    to_first: File,
    from_last: File,
    /// Ended when dropped.
    _children: Parked,
    processes: usize,
}

impl Ring {
    /// A ring of `processes` children and the caller.
    ///
    /// # Errors
    /// What `pipe2(2)` or `fork(2)` give.
    pub fn new(processes: usize) -> io::Result<Self> {
        let (mut from_before, to_first) = pipe()?;
        let mut children = Parked(Vec::with_capacity(processes));
        for _ in 0..processes {
            let (from_this, to_next) = pipe()?;
            let (read, write) = (from_before.as_raw_fd(), to_next.as_raw_fd());
            children.0.push(fork_into(|| pass_on(read, write))?);
            from_before = from_this;
        }
        Ok(Ring { to_first, from_last: from_before, _children: children, processes })
    }

    /// Sends a token round `rounds` times. Every round is as many switches as there are children, and one.
    ///
    /// # Errors
    /// When a pipe is torn, or a token comes back that not every child has seen.
    pub fn pass(&mut self, rounds: u64) -> io::Result<()> {
        let mut token = [0_u8];
        for _ in 0..rounds {
            #[expect(clippy::cast_possible_truncation, reason = "counted in one byte")]
            let expected = token[0].wrapping_add(self.processes as u8);
            self.to_first.write_all(&token)?;
            self.from_last.read_exact(&mut token)?;
            if token[0] != expected {
                return Err(io::Error::other(format!("the token came back as {}, not {expected}", token[0])));
            }
        }
        Ok(())
    }
}

/// A pipe to itself: what passing a token costs without another process.
#[derive(Debug)]
pub struct Loopback {
    read: File,
    write: File,
}

impl Loopback {
    /// A pipe.
    ///
    /// # Errors
    /// What `pipe2(2)` gives.
    pub fn new() -> io::Result<Self> {
        pipe().map(|(read, write)| Loopback { read, write })
    }

    /// Writes a byte and reads it, `times` times.
    ///
    /// # Errors
    /// What `read(2)` and `write(2)` give.
    pub fn pass(&mut self, times: u64) -> io::Result<()> {
        let mut token = [0_u8];
        for _ in 0..times {
            self.write.write_all(&token)?;
            self.read.read_exact(&mut token)?;
        }
        Ok(())
    }
}

/// A child that runs `life`, which may call only what is safe in a signal handler and does not return.
fn fork_into(life: impl Fn()) -> io::Result<libc::pid_t> {
    // SAFETY: the child calls `prctl`, `life` and `_exit`.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            let _ = death_signal(libc::SIGKILL);
            life();
            // SAFETY: `_exit` runs nothing of the parent's.
            unsafe { libc::_exit(0) }
        }
        child => Ok(child),
    }
}

/// A child's life in a ring, until a pipe is torn.
fn pass_on(read: i32, write: i32) {
    let mut token = 0_u8;
    // SAFETY: one byte that lives through the calls.
    while unsafe { libc::read(read, (&raw mut token).cast(), 1) } == 1 {
        token = token.wrapping_add(1);
        // SAFETY: as above.
        if unsafe { libc::write(write, (&raw const token).cast(), 1) } != 1 {
            return;
        }
    }
}

fn pipe() -> io::Result<(File, File)> {
    let mut ends = [0; 2];
    // SAFETY: two places for two descriptors.
    checked(unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) })?;
    // SAFETY: both were just opened and belong to nobody else.
    Ok(unsafe { (File::from_raw_fd(ends[0]), File::from_raw_fd(ends[1])) })
}

fn wait_for(child: libc::pid_t) -> io::Result<i32> {
    let mut status = 0;
    loop {
        // SAFETY: a child of ours; `status` lives through the call.
        if unsafe { libc::waitpid(child, &raw mut status, 0) } == child {
            return Ok(status);
        }
        was_interrupted()?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn children_end_and_are_waited_for() {
        fork_and_wait().expect("a child");
        let parked = Parked::new(3).expect("three children");
        let pids = parked.0.clone();
        // SAFETY: signal 0 only asks whether the process is there.
        assert!(pids.iter().all(|&pid| unsafe { libc::kill(pid, 0) } == 0));
        drop(parked);
        // SAFETY: as above.
        assert!(pids.iter().all(|&pid| unsafe { libc::kill(pid, 0) } != 0), "ended and waited for");
    }

    #[test]
    fn a_token_goes_round_through_every_process() {
        Ring::new(5).expect("a ring").pass(100).expect("every child adds one");
        let mut ring = Ring::new(2).expect("a ring");
        ring.processes = 3;
        assert!(ring.pass(1).is_err(), "a child that did not see the token is found");
        Loopback::new().expect("a pipe").pass(10).expect("to itself");
    }
}
