//! The shared counters, from the runner's side.

use crate::runner::arena::ARENA;
use crate::runner::fatal::{self, Fatal};
use crate::runner::sys::{self, Errno, Mapping};
use crate::shared::{BYTES, Shared};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

static SHARED: AtomicPtr<Shared> = AtomicPtr::new(ptr::null_mut());

/// Maps the launcher's file, or memory of nobody else's where there is none.
pub(crate) fn start(file: Option<i32>) -> Result<(), Errno> {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let mapping = match file {
        Some(fd) => Mapping { protection, flags: libc::MAP_SHARED, fd, offset: 0 },
        None => Mapping::anonymous(protection, libc::MAP_NORESERVE),
    };
    // SAFETY: a new mapping where the kernel has room.
    let start = unsafe { sys::map(0, BYTES as u64, mapping) }?;
    ARENA.own(start..start + BYTES as u64);
    SHARED.store(ptr::with_exposed_provenance_mut(start as usize), Ordering::Release);
    let Some(shared) = if_started() else { return Err(Errno(libc::EINVAL)) };
    if file.is_none() {
        shared.begin();
    }
    if shared.is_valid() { Ok(()) } else { Err(Errno(libc::EINVAL)) }
}

/// The counters of all processes; `None` before `start`.
pub(crate) fn if_started() -> Option<&'static Shared> {
    let shared = SHARED.load(Ordering::Acquire);
    // SAFETY: null, or mapped by `start`: as long as a record, aligned to pages, and never unmapped; its fields are atomic
    // numbers, for which any content is a value.
    unsafe { shared.as_ref() }
}

/// The counters of all processes.
pub(crate) fn shared() -> &'static Shared {
    if_started().unwrap_or_else(|| fatal::end(Fatal::Options))
}
