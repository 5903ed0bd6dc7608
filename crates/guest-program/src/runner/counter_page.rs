//! Where the shared counters lie, for all of the runner and for its last words.

use crate::shared::Shared;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

static SHARED: AtomicPtr<Shared> = AtomicPtr::new(ptr::null_mut());

/// From now on the counters are at this address.
///
/// # Safety
/// There a record is mapped, aligned to pages and never unmapped.
pub(crate) unsafe fn place(address: usize) {
    SHARED.store(ptr::with_exposed_provenance_mut(address), Ordering::Release);
}

/// The counters of all processes; `None` before [`place`].
pub(crate) fn if_started() -> Option<&'static Shared> {
    let shared = SHARED.load(Ordering::Acquire);
    // SAFETY: null, or as the caller of `place` says: as long as a record, aligned to pages, and never unmapped; its fields are atomic
    // numbers, for which any content is a value.
    unsafe { shared.as_ref() }
}
