//! A lock for the exit handler.
//!
//! The handler of a guest's exit runs on a thread whose guest may hold any lock of the program, so it may take none that
//! the guest could take. This one is taken by handlers and by the executor only, never by code inside the machine. It
//! yields while it waits, because its holder may be asleep in the kernel.

use std::cell::UnsafeCell;
use std::hint::spin_loop;
use std::sync::atomic::{AtomicBool, Ordering};

/// A value and the right to change it, held by one thread at a time.
#[derive(Debug)]
pub(crate) struct Latch<T> {
    held: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: `with` gives `&mut T` to one thread at a time (the swap below), so sharing the latch sends the value around.
unsafe impl<T: Send> Sync for Latch<T> {}

impl<T> Latch<T> {
    /// A latch that nobody holds.
    pub(crate) fn new(value: T) -> Self {
        Latch { held: AtomicBool::new(false), value: UnsafeCell::new(value) }
    }

    /// Runs `change` alone. It must not panic and must not come back here.
    pub(crate) fn with<R>(&self, change: impl FnOnce(&mut T) -> R) -> R {
        let mut tries = 0u32;
        while self.held.swap(true, Ordering::Acquire) {
            tries += 1;
            if tries.is_multiple_of(64) {
                // SAFETY: takes no argument and touches no memory.
                unsafe { libc::sched_yield() };
            }
            spin_loop();
        }
        // SAFETY: the swap above let this thread in and keeps every other out until the store below.
        let result = change(unsafe { &mut *self.value.get() });
        self.held.store(false, Ordering::Release);
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_increment_is_lost() {
        let latch = Latch::new(0u64);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..10_000).for_each(|_| latch.with(|value| *value += 1)));
            }
        });
        assert_eq!(latch.with(|value| *value), 40_000);
    }
}
