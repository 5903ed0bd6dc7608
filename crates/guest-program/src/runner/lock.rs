//! A lock for the runner's threads, which libc does not know of.
//!
//! It is held for the length of a few instructions, or of one call to KVM, and never while the program's own code runs. A
//! signal handler takes none.

use crate::runner::sys;
use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicU32, Ordering};

const FREE: u32 = 0;
const HELD: u32 = 1;
const AWAITED: u32 = 2;

/// A value and the right to change it, held by one thread at a time.
#[derive(Debug)]
pub(crate) struct Lock<T> {
    word: AtomicU32,
    value: UnsafeCell<T>,
}

// SAFETY: `with` gives `&mut T` to one thread at a time, so sharing the lock sends the value around.
unsafe impl<T: Send> Sync for Lock<T> {}

impl<T> Lock<T> {
    /// A lock that nobody holds.
    pub(crate) const fn new(value: T) -> Self {
        Lock { word: AtomicU32::new(FREE), value: UnsafeCell::new(value) }
    }

    /// Runs `change` alone. It must not come back here.
    pub(crate) fn with<R>(&self, change: impl FnOnce(&mut T) -> R) -> R {
        if self.word.compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed).is_err() {
            while self.word.swap(AWAITED, Ordering::Acquire) != FREE {
                sys::wait_while(&self.word, AWAITED, None);
            }
        }
        // SAFETY: the exchange or the swap above let this thread in and keeps every other out until the swap below.
        let result = change(unsafe { &mut *self.value.get() });
        if self.word.swap(FREE, Ordering::Release) == AWAITED {
            sys::wake(&self.word, 1);
        }
        result
    }

    /// Frees the lock in the child of a fork, where whoever held it does not exist.
    pub(crate) fn forget_holder(&self) {
        self.word.store(FREE, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_increment_is_lost() {
        let lock = Lock::new(0u64);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..20_000).for_each(|_| lock.with(|value| *value += 1)));
            }
        });
        assert_eq!(lock.with(|value| *value), 80_000);
    }

    #[test]
    fn a_holder_that_a_fork_left_behind_is_forgotten() {
        let lock = Lock::new(1u32);
        lock.word.store(AWAITED, Ordering::Relaxed);
        lock.forget_holder();
        assert_eq!(lock.with(|value| *value), 1);
    }
}
