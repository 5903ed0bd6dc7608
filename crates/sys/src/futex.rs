//! Sleeping on a word of memory, and waking who sleeps there: `futex(2)`, among the threads of this process.

use crate::clock::ticks;
use baremark_model::team::Rest;
use std::sync::atomic::AtomicU32;

/// After so long a sleeper looks again, whoever should have woken it.
pub const LONGEST_SLEEP_NS: i64 = 10_000_000;

/// How threads of this process rest at a barrier.
pub const REST: Rest = Rest { now: ticks, sleep, wake };

/// Sleeps while `word` has `value`: until it is woken, a signal comes, or [`LONGEST_SLEEP_NS`] have passed.
pub fn sleep(word: &AtomicU32, value: u32) {
    let limit = libc::timespec { tv_sec: 0, tv_nsec: LONGEST_SLEEP_NS };
    let operation = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: the word and the limit live through the call, which reads both and changes neither. Every way in which it can end
    // sends the caller back to look at its word.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), operation, value, &raw const limit) };
}

/// Wakes all that sleep on `word`.
pub fn wake(word: &AtomicU32) {
    // SAFETY: the word lives through the call, which does not touch it.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG, i32::MAX) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering;
    use std::thread;

    #[test]
    fn a_sleeper_is_woken_and_one_whose_word_has_changed_does_not_sleep() {
        let word = AtomicU32::new(0);
        sleep(&word, 1);
        thread::scope(|scope| {
            scope.spawn(|| {
                while word.load(Ordering::SeqCst) == 0 {
                    sleep(&word, 0);
                }
            });
            word.store(1, Ordering::SeqCst);
            wake(&word);
        });
    }
}
