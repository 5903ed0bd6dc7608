//! A program whose processes are stopped for a while where they are: SIGSTOP to a process and all that it has started, and SIGCONT.
//!
//! This needs no right beyond that to send them signals, and no control group. A process that is stopped forks no other, so that processes are listed again
//! until a list has none that still runs. A program that is stopped does not act on the signal by which it hears of the death of who has started it, unless
//! that is SIGKILL. The kernel continues a process group that loses its last parent of another group then (`_exit(2)`); for where it does not, what is
//! stopped is recorded ([`crate::registry`]), and the next start in the same PID namespace continues it.

use crate::confine;
use crate::control_group::namespace;
use crate::process_tree::{self, Process};
use crate::registry::{self, Made, Record};
use crate::subreaper;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

/// Between two looks at processes that are to stop, which takes a process that runs some 100 us.
const GLANCE: Duration = Duration::from_micros(100);
/// How long processes go on between two attempts to stop them, in which a child of `vfork(2)` comes to its `exec(2)`.
const BETWEEN_ATTEMPTS: Duration = Duration::from_millis(20);
/// The part of its limit that the first attempt has; each has twice the time of the one before.
const FIRST_ATTEMPT: u32 = 1024;

impl Process {
    /// Sends it a signal, unless it is gone.
    fn send(self, signal: i32) -> io::Result<()> {
        // A descriptor stays that of one process: who is still the same after it was opened gets the signal.
        let descriptor = match subreaper::descriptor(self.pid) {
            Err(why) if why.raw_os_error() == Some(libc::ESRCH) => return Ok(()),
            opened => opened,
        };
        match descriptor {
            _ if !self.is_there() => Ok(()),
            Ok(descriptor) => send(&descriptor, signal),
            // Kernels and filters without such descriptors.
            Err(_) => confine::send(self.pid.cast_signed(), signal),
        }
    }

    /// Whether none of its threads runs; a thread that is on its way to a disk stops when that has answered.
    fn has_stopped(self) -> bool {
        let threads = fs::read_dir(format!("/proc/{}/task", self.pid)).into_iter().flatten().flatten();
        let state = |folder: &Path| Some(subreaper::read_stat(&folder.join("stat"))?.0);
        threads.map(|thread| state(&thread.path())).all(|state| matches!(state, None | Some('T' | 't' | 'Z' | 'X')))
    }

    /// This process and all that it has started, in an order in which whoever has started others comes before those.
    fn tree(self) -> Vec<Process> {
        if self.is_there() { self.living_of(&subreaper::tree(self.pid)) } else { Vec::new() }
    }

    /// Those of a list of this process and of what it has started that live. Since the list was made, a number may have become that of a stranger, whose parent is
    /// none of these.
    fn living_of(self, list: &[u32]) -> Vec<Process> {
        let of = |pid: &u32| {
            let (process, parent) = Process::with_parent(*pid)?;
            let is_below = *pid != self.pid && list.contains(&parent);
            (process == self || is_below).then_some(process)
        };
        list.iter().filter_map(of).collect()
    }
}

fn send(process: &OwnedFd, signal: i32) -> io::Result<()> {
    let none = std::ptr::null::<libc::siginfo_t>();
    // SAFETY: takes a descriptor that lives through the call, numbers, and no memory.
    let sent = unsafe { libc::syscall(libc::SYS_pidfd_send_signal, process.as_raw_fd(), signal, none, 0) };
    match io::Error::last_os_error() {
        why if sent < 0 && why.raw_os_error() != Some(libc::ESRCH) => Err(why),
        _ => Ok(()),
    }
}

/// A program that is suspended, and goes on when this is dropped.
#[derive(Debug)]
pub struct Suspended {
    root: Process,
    /// Who has started others before those.
    processes: Vec<Process>,
}

impl Suspended {
    /// Stops `root` and all that it has started, and returns when none of them runs. After an error all go on.
    ///
    /// # Errors
    /// `NotFound` where `root` does not live, `TimedOut` where one does not stop within `limit`; what the kernel gives who sends signals.
    pub fn of(root: u32, limit: Duration) -> io::Result<Suspended> {
        let root = living(root)?;
        let (deadline, mut attempt) = (Instant::now() + limit, limit / FIRST_ATTEMPT);
        loop {
            if let Some(suspended) = Suspended::within(root, attempt)? {
                return Ok(suspended);
            }
            // Who waits for a child of vfork(2) stops once that has executed a program, which it does not while it is stopped.
            thread::sleep(BETWEEN_ATTEMPTS);
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let what = format!("processes of {} do not stop within {} s", root.pid, limit.as_secs());
                return Err(io::Error::new(io::ErrorKind::TimedOut, what));
            }
            attempt = (2 * attempt).min(left);
        }
    }

    /// `None`, and all go on, where one does not stop within `limit`.
    fn within(root: Process, limit: Duration) -> io::Result<Option<Suspended>> {
        let deadline = Instant::now() + limit;
        let mut suspended = Suspended { root, processes: Vec::new() };
        // One that is listed may start another before it stops: a list that was made after all had stopped is complete.
        let mut all_had_stopped = false;
        loop {
            let tree = root.tree();
            if tree.is_empty() {
                return Err(gone(root.pid));
            }
            let mut all_stop = true;
            for process in tree {
                if !suspended.processes.contains(&process) {
                    suspended.processes.push(process);
                    process.send(libc::SIGSTOP)?;
                    all_stop = false;
                }
                all_stop &= process.has_stopped();
            }
            if all_stop && all_had_stopped {
                return Ok(Some(suspended));
            }
            if Instant::now() >= deadline {
                return Ok(None);
            }
            if !all_stop {
                thread::sleep(GLANCE);
            }
            all_had_stopped = all_stop;
        }
    }

    /// Its processes; who has started others comes before those.
    #[must_use]
    pub fn processes(&self) -> &[Process] {
        &self.processes
    }

    /// CPU time that its processes have used since they were started, in ns: it does not grow, unless there is one that runs.
    #[must_use]
    pub fn cpu_ns(&self) -> u64 {
        self.root.tree().into_iter().filter_map(|process| process_tree::cpu_ns(process.pid)).sum()
    }
}

impl Drop for Suspended {
    fn drop(&mut self) {
        // Whoever has started others finds them running.
        for process in self.processes.iter().rev() {
            drop(process.send(libc::SIGCONT));
        }
    }
}

fn living(pid: u32) -> io::Result<Process> {
    Process::of(pid).ok_or_else(|| gone(pid))
}

fn gone(pid: u32) -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, format!("process {pid} has ended"))
}

/// The processes that `root` and all that it has started are now.
///
/// # Errors
/// `NotFound` where `root` does not live.
pub fn processes(root: u32) -> io::Result<Vec<Process>> {
    let tree = living(root)?.tree();
    if tree.is_empty() { Err(gone(root)) } else { Ok(tree) }
}

/// The record that these processes of a program may be suspended from now on; `None` where nothing is recorded. It lasts as long as the program.
///
/// # Errors
/// When it cannot be recorded.
pub fn recorded(processes: &[Process]) -> io::Result<Option<Box<dyn Record>>> {
    registry::record(Made::Suspended { processes, namespace: &namespace()? })
}

/// Continues a program that was suspended by a process that is gone: those of its processes that are there, and all that they have started; whether there is
/// one. `namespace_of_them` is the PID namespace in which their numbers are those.
///
/// # Errors
/// `WouldBlock` where they may live in another namespace, in which they have other numbers; what the kernel gives who sends signals, and what finding the own
/// namespace does.
pub fn resume(processes: &[Process], namespace_of_them: &str) -> io::Result<bool> {
    if namespace()? != namespace_of_them {
        let what = format!("they are of PID namespace {namespace_of_them}, where a start continues them");
        return Err(io::Error::new(io::ErrorKind::WouldBlock, what));
    }
    let there: Vec<Process> = processes.iter().copied().filter(|process| process.is_there()).collect();
    // One that refuses leaves no other stopped.
    let mut refused = None;
    for process in there.iter().rev().flat_map(|process| process.tree().into_iter().rev()) {
        refused = process.send(libc::SIGCONT).err().or(refused);
    }
    refused.map_or(Ok(!there.is_empty()), Err)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// No process has it: it is above the most that a kernel gives (PID_MAX_LIMIT).
    const NOBODY: u32 = 4_194_305;

    #[test]
    fn a_process_that_is_gone_or_was_another_is_neither_stopped_nor_continued() {
        let why = Suspended::of(NOBODY, Duration::from_secs(1)).expect_err("nothing is there");
        assert_eq!(why.kind(), io::ErrorKind::NotFound);
        let own = Process::of(std::process::id()).expect("it lives");
        let here = namespace().expect("a namespace");
        assert!(own.is_there() && !own.has_stopped());
        let of_parent = Process::of(std::os::unix::process::parent_id()).expect("it waits for this one");
        assert_eq!(of_parent.living_of(&[of_parent.pid, own.pid, NOBODY]), [of_parent, own]);
        assert_eq!(own.living_of(&[own.pid, of_parent.pid]), [own], "the parent of the other is none of these");
        let another = Process { started: own.started + 1, ..own };
        assert!(another.tree().is_empty(), "another of that number");
        another.send(libc::SIGKILL).expect("nothing is sent");
        Process { pid: NOBODY, started: 1 }.send(libc::SIGKILL).expect("nothing is sent");
        assert!(!resume(&[another], &here).expect("nothing is sent"), "another of that number");
        let why = resume(&[own], "0").expect_err("a number of another namespace");
        assert_eq!(why.kind(), io::ErrorKind::WouldBlock);
        assert!(resume(&[own], &here).expect("a signal that does nothing to who runs"));
        assert!(resume(&[another, own], &here).expect("the same"), "whoever has started it is gone");
    }
}
