//! The signal that brings a rank out of the machine when its time is up.
//!
//! KVM leaves the guest when a signal is pending for the thread, but only a signal that is *handled* interrupts the call.
//! So one realtime signal gets a handler that does nothing, without `SA_RESTART`, once per process and for its life: a
//! blocked system call that was forwarded for the guest is interrupted by it too. The first signal from `SIGRTMIN + 8` on
//! that has no handler yet is taken, so that other users of realtime signals keep theirs. It is only ever directed at
//! threads of our own that have it unblocked.

use crate::error::Error;
use std::mem;
use std::ptr;
use std::sync::OnceLock;

/// The signal's number, with its handler in place.
pub(crate) fn signal() -> Result<libc::c_int, Error> {
    static SIGNAL: OnceLock<Option<libc::c_int>> = OnceLock::new();
    SIGNAL
        .get_or_init(|| (libc::SIGRTMIN() + 8..=libc::SIGRTMAX()).find(|&signal| claim(signal)))
        .ok_or(Error::NoSignal)
}

/// Takes `signal` if it still has its default disposition.
fn claim(signal: libc::c_int) -> bool {
    // SAFETY: a sigaction is plain bits; all zeros is the default disposition with an empty mask.
    let (mut now, mut ours): (libc::sigaction, libc::sigaction) = unsafe { (mem::zeroed(), mem::zeroed()) };
    // SAFETY: asks for the disposition only; `now` lives through the call.
    if unsafe { libc::sigaction(signal, ptr::null(), &raw mut now) } != 0 || now.sa_sigaction != libc::SIG_DFL {
        return false;
    }
    ours.sa_sigaction = on_kick as *const () as libc::sighandler_t;
    // SAFETY: the handler touches nothing and lives as long as the program.
    unsafe { libc::sigaction(signal, &raw const ours, ptr::null_mut()) == 0 }
}

extern "C" fn on_kick(_signal: libc::c_int) {}

/// Lets the calling thread receive the signal whatever mask it inherited.
pub(crate) fn unblock(signal: libc::c_int) {
    // SAFETY: a sigset_t is plain bits, filled by sigemptyset before use; all three live through their calls.
    unsafe {
        let mut set: libc::sigset_t = mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, signal);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const set, ptr::null_mut());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_signal_is_taken_once() {
        let signal = super::signal().expect("a free realtime signal");
        assert!(signal >= libc::SIGRTMIN() + 8);
        assert_eq!(super::signal().expect("the same"), signal);
        assert!(!claim(signal), "it has a handler now");
    }
}
