//! A program that is stopped again and again, so that an image of it can be made, and that another process can continue from one.
//!
//! The program runs without randomization of addresses, so that the runner that continues it lies where the first one lay. Its runner
//! refuses, by name, every call whose effect an image cannot have: see [`Protected::refused`].

use crate::call_names;
use crate::command::Command;
use crate::counters::Counters;
use crate::error::Error;
use crate::record::{self, Mapped, Record};
use crate::snapshot::{Reason, Snapshot};
use std::fmt;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::process::{Child, ExitStatus};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// After so long a thread that does not stand yet is signalled again.
const AGAIN: Duration = Duration::from_millis(1);

/// The number of the first request to stand.
const FIRST: u32 = 1;

/// A program whose threads can be stopped together.
#[derive(Debug)]
pub struct Protected {
    process: Child,
    record: Record,
    snapshot: Mapped<Snapshot>,
    /// The number of the last request to stand.
    requests: u32,
    read_refusals: usize,
    ended: Option<ExitStatus>,
}

/// A call that was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RefusedCall {
    /// The system call's number.
    pub number: u32,
    /// Why.
    pub reason: &'static str,
}

impl fmt::Display for RefusedCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match call_names::name(self.number) {
            Some(name) => write!(f, "{name}: {}", self.reason),
            None => write!(f, "system call {}: {}", self.number, self.reason),
        }
    }
}

/// An empty file for an image, which a runner inherits.
///
/// # Errors
/// What making it gives.
pub fn image_file() -> io::Result<File> {
    record::memory_file().map(File::from)
}

impl Command {
    /// Starts the program so that it can be stopped; it is stopped before its first instruction. The kernel kills it when the calling thread
    /// ends.
    ///
    /// # Errors
    /// As [`Command::spawn`].
    pub fn protect(&mut self) -> Result<Protected, Error> {
        self.protect_with(None, &[])
    }

    /// Continues a program from its image instead of starting one; `inherited` are the descriptors that the image names as those of
    /// channels.
    ///
    /// # Errors
    /// As [`Command::spawn`]. That the image cannot be restored is known when the program is waited for.
    pub fn continue_from(&mut self, image: &File, inherited: &[RawFd]) -> Result<Protected, Error> {
        self.protect_with(Some(image.as_raw_fd()), inherited)
    }

    fn protect_with(&mut self, image: Option<RawFd>, inherited: &[RawFd]) -> Result<Protected, Error> {
        let snapshot: Mapped<Snapshot> = Mapped::of_zeros().map_err(Error::Counters)?;
        snapshot.shared().begin(std::process::id());
        snapshot.shared().stop.store(FIRST, Ordering::SeqCst);
        let kept: Vec<RawFd> = inherited.iter().copied().chain(image).chain([snapshot.fd()]).collect();
        // SAFETY: takes nothing.
        let parent = unsafe { libc::getpid() };
        let prepare = move || prepare(parent, &kept);
        let process = self.protected_process(snapshot.fd(), image, prepare)?;
        Ok(Protected {
            process: process.0,
            record: process.1,
            snapshot,
            requests: FIRST,
            read_refusals: 0,
            ended: None,
        })
    }
}

/// Between fork and exec: fixed addresses, the end with the parent, and what is inherited. Makes system calls alone.
fn prepare(parent: libc::pid_t, kept: &[RawFd]) -> io::Result<()> {
    // SAFETY: calls that take numbers.
    unsafe {
        let checked = |result: i32| if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) };
        checked(libc::personality(libc::ADDR_NO_RANDOMIZE.unsigned_abs().into()))?;
        checked(libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0))?;
        if libc::getppid() != parent {
            return Err(io::Error::from_raw_os_error(libc::ESRCH));
        }
        kept.iter().try_for_each(|fd| checked(libc::fcntl(*fd, libc::F_SETFD, 0)))
    }
}

impl Protected {
    /// The program's process.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// Stops all threads; false where the program has ended instead. A thread that has not run since it was resumed, because somebody suspended the process,
    /// does not stop.
    ///
    /// # Errors
    /// What waiting for the process gives; `TimedOut` where a thread does not stop within the limit.
    pub fn stop(&mut self, limit: Duration) -> io::Result<bool> {
        let begun = Instant::now();
        if self.snapshot.shared().stop.load(Ordering::SeqCst) == 0 {
            self.requests = self.requests.checked_add(1).unwrap_or(FIRST);
            self.snapshot.shared().stop.store(self.requests, Ordering::SeqCst);
        }
        loop {
            let standing = self.snapshot.shared().standing.load(Ordering::SeqCst);
            if self.snapshot.shared().all_stand() {
                return Ok(true);
            }
            if self.has_ended()?.is_some() {
                return Ok(false);
            }
            if begun.elapsed() > limit {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "a thread of the program does not stop"));
            }
            self.signal_those_that_run();
            futex(&self.snapshot.shared().standing, libc::FUTEX_WAIT, standing, Some(AGAIN));
        }
    }

    fn signal_those_that_run(&self) {
        let snapshot = self.snapshot.shared();
        let signal = snapshot.signal.load(Ordering::Acquire);
        for slot in snapshot.threads().filter(|slot| slot.standing.load(Ordering::SeqCst) == 0) {
            let thread = slot.host_id.load(Ordering::Acquire);
            if signal != 0 && thread != 0 {
                // SAFETY: sends a signal that the runner handles; one that is gone has none.
                unsafe { libc::syscall(libc::SYS_tgkill, self.process.id(), thread, signal) };
            }
        }
    }

    /// Lets all threads go on.
    pub fn resume(&self) {
        let snapshot = self.snapshot.shared();
        snapshot.stop.store(0, Ordering::SeqCst);
        futex(&snapshot.stop, libc::FUTEX_WAKE, u32::MAX >> 1, None);
    }

    /// How the program has ended, if it has.
    ///
    /// # Errors
    /// What waiting for the process gives.
    pub fn has_ended(&mut self) -> io::Result<Option<ExitStatus>> {
        if self.ended.is_none() {
            self.ended = self.process.try_wait()?;
        }
        Ok(self.ended)
    }

    /// Kills the program.
    ///
    /// # Errors
    /// What killing and waiting give.
    pub fn kill(&mut self) -> io::Result<()> {
        if self.ended.is_none() {
            self.process.kill()?;
            self.ended = Some(self.process.wait()?);
        }
        Ok(())
    }

    /// Why the runner could not begin or continue, if it could not.
    #[must_use]
    pub fn failure(&self) -> Option<String> {
        self.record.shared().failure().map(|(_, message)| message)
    }

    /// What was counted so far.
    #[must_use]
    pub fn counters(&self) -> Counters {
        Counters::read(self.record.shared())
    }

    /// Registers and signal actions of the stopped program, as an image has them.
    #[must_use]
    pub fn registers(&self) -> Vec<u8> {
        let snapshot = self.snapshot.shared();
        record::bytes_of(snapshot, snapshot.used_bytes())
    }

    /// How many threads the program has.
    #[must_use]
    pub fn threads(&self) -> usize {
        self.snapshot.shared().threads().count()
    }

    /// Addresses of the runner's own memory, which does not belong to the program.
    #[must_use]
    pub fn own_memory(&self) -> Vec<(u64, u64)> {
        self.snapshot.shared().owned()
    }

    /// The lowest descriptor of the runner's own.
    #[must_use]
    pub fn first_own_descriptor(&self) -> u32 {
        self.snapshot.shared().first_own.load(Ordering::Relaxed)
    }

    /// The runner's userfaultfd, by which written pages are found.
    #[must_use]
    pub fn faults(&self) -> Option<u32> {
        self.snapshot.shared().faults.load(Ordering::Acquire).checked_sub(1)
    }

    /// Calls that were refused since the last time, each kind once.
    pub fn refused(&mut self) -> Vec<RefusedCall> {
        let new = self.snapshot.shared().refusals(self.read_refusals);
        self.read_refusals += new.len();
        new.into_iter().map(|(number, reason)| RefusedCall { number, reason: Reason::text(reason) }).collect()
    }
}

impl Drop for Protected {
    fn drop(&mut self) {
        // One that has ended already is gone.
        drop(self.kill());
    }
}

fn futex(word: &AtomicU32, operation: i32, value: u32, limit: Option<Duration>) {
    let time = limit.map(|limit| libc::timespec { tv_sec: 0, tv_nsec: limit.subsec_nanos().into() });
    let time = time.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: the word and the time live through the call, which reads them. However it ends, the caller looks again.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), operation, value, time) };
}
