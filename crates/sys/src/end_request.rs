//! Waiting for a child's end or for a request to end, whichever comes first, without waking up in between.
//!
//! A process that supervises others must not be killed with whoever started it: it has to undo what it did. The end of its parent is
//! a request as any other here, and so are SIGTERM, SIGINT and SIGHUP.

use crate::calls::was_interrupted;
use crate::process::death_signal;
use std::io;
use std::mem::MaybeUninit;
use std::process::{Child, ExitStatus};
use std::ptr;

/// What came first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The child has ended.
    Ended(ExitStatus),
    /// Somebody wants this process to end, or the process that started it has ended.
    Requested,
}

/// Requests to end, which no longer end this process.
pub struct EndRequests(libc::sigset_t);

impl EndRequests {
    /// From now on requests wait until [`EndRequests::wait`] takes them. The calling process must have one thread, and what it starts later has
    /// the signals blocked unless it clears its mask.
    ///
    /// # Errors
    /// What `pthread_sigmask(3)` and `prctl(2)` give.
    pub fn expect() -> io::Result<EndRequests> {
        let mut set = MaybeUninit::uninit();
        // SAFETY: sigemptyset initialises the set, whose place lives through the calls.
        let set = unsafe {
            libc::sigemptyset(set.as_mut_ptr());
            for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP, libc::SIGCHLD] {
                libc::sigaddset(set.as_mut_ptr(), signal);
            }
            set.assume_init()
        };
        // SAFETY: the set lives through the call; the old one is not asked for.
        match unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, ptr::null_mut()) } {
            0 => {}
            error => return Err(io::Error::from_raw_os_error(error)),
        }
        // In place of what whoever started this has set: it may be SIGKILL.
        death_signal(libc::SIGTERM).map(|()| EndRequests(set))
    }

    /// Waits for the end of `child` or for a request.
    ///
    /// # Errors
    /// What `waitpid(2)` and `sigwaitinfo(2)` give.
    pub fn wait(&self, child: &mut Child) -> io::Result<Event> {
        loop {
            // Before the signal: it may have been taken by an earlier call.
            if let Some(status) = child.try_wait()? {
                return Ok(Event::Ended(status));
            }
            // SAFETY: the set lives through the call; what came with the signal is not asked for.
            match unsafe { libc::sigwaitinfo(&raw const self.0, ptr::null_mut()) } {
                libc::SIGCHLD => {}
                -1 => was_interrupted()?,
                _ => return Ok(Event::Requested),
            }
        }
    }
}
