//! The state of one rank, in cache lines of its own.

use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, Ordering};

/// State that one rank at a time uses through a shared body. Two lines wide, since processors fetch lines in pairs.
///
/// `Body::rank` is safe to call, so two threads may call it for the same rank; the second is turned away here. That costs
/// two atomic stores for each entry into the region, nothing inside it.
#[derive(Debug)]
#[repr(align(128))]
pub struct Cell<T> {
    taken: AtomicBool,
    state: UnsafeCell<T>,
}

// SAFETY: `enter` lets one thread at a time to the state; `T: Send` because ranks are other threads.
unsafe impl<T: Send> Sync for Cell<T> {}

impl<T> Cell<T> {
    pub fn new(state: T) -> Self {
        Cell { taken: AtomicBool::new(false), state: UnsafeCell::new(state) }
    }

    /// The state, while nobody else has it. `None` when a rank is entered twice at once, and after a rank that never left
    /// (it faulted in a virtual machine): such a run does nothing, which its verification finds.
    pub fn enter(&self) -> Option<Held<'_, T>> {
        (!self.taken.swap(true, Ordering::Acquire)).then_some(Held { cell: self })
    }

    pub fn get_mut(&mut self) -> &mut T {
        self.state.get_mut()
    }
}

/// The state of a rank that was entered; gives it back when dropped.
pub struct Held<'c, T> {
    cell: &'c Cell<T>,
}

impl<T> Deref for Held<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        // SAFETY: `taken` was false and is ours until we are dropped (`Cell::enter`).
        unsafe { &*self.cell.state.get() }
    }
}

impl<T> DerefMut for Held<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above, and `&mut self` excludes another reference through this guard.
        unsafe { &mut *self.cell.state.get() }
    }
}

impl<T> Drop for Held<'_, T> {
    fn drop(&mut self) {
        self.cell.taken.store(false, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rank_that_is_entered_twice_is_turned_away() {
        let cell = Cell::new(1);
        let held = cell.enter();
        assert!(held.is_some() && cell.enter().is_none());
        drop(held);
        *cell.enter().expect("given back") += 1;
        assert_eq!(*cell.enter().expect("given back"), 2);
    }
}
