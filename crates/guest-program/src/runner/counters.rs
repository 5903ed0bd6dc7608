//! The shared counters, from the runner's side.

use crate::runner::arena::ARENA;
use crate::runner::counter_page::{if_started, place};
use crate::runner::fatal::{self, Fatal};
use crate::runner::sys::{self, Errno, Mapping};
use crate::shared::{BYTES, Shared};

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
    // SAFETY: the mapping above, of a whole record; nothing unmaps it.
    unsafe { place(start as usize) };
    let Some(shared) = if_started() else { return Err(Errno(libc::EINVAL)) };
    if file.is_none() {
        shared.begin();
    }
    if shared.is_valid() { Ok(()) } else { Err(Errno(libc::EINVAL)) }
}

/// The counters of all processes.
pub(crate) fn shared() -> &'static Shared {
    if_started().unwrap_or_else(|| fatal::end(Fatal::Options))
}
