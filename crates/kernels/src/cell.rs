//! The state of one rank, in cache lines of its own.

use std::cell::UnsafeCell;

/// State that one rank at a time uses through a shared body. Two lines wide, since processors fetch lines in pairs.
#[derive(Debug)]
#[repr(align(128))]
pub struct Cell<T>(UnsafeCell<T>);

// SAFETY: whoever calls `enter` promises to be the only one; `T: Send` because ranks are other threads.
unsafe impl<T: Send> Sync for Cell<T> {}

impl<T> Cell<T> {
    pub fn new(state: T) -> Self {
        Cell(UnsafeCell::new(state))
    }

    /// The state, through a shared reference.
    ///
    /// # Safety
    /// No other reference to the state may live at the same time: the contract of `Body::rank`, by which every rank of a
    /// team is entered by one thread at a time.
    #[expect(clippy::mut_from_ref, reason = "exclusive by contract")]
    pub unsafe fn enter(&self) -> &mut T {
        // SAFETY: the caller's promise.
        unsafe { &mut *self.0.get() }
    }

    pub fn get_mut(&mut self) -> &mut T {
        self.0.get_mut()
    }
}
