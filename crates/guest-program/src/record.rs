//! The launcher's side of the shared counters: a file of memory that the program's processes inherit.

use crate::shared::{BYTES, Shared};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::ptr::{self, NonNull};

/// The file, mapped.
#[derive(Debug)]
pub(crate) struct Record {
    file: OwnedFd,
    start: NonNull<Shared>,
}

// SAFETY: the record is atomic numbers; whoever has it only reads them, or begins it before anybody else knows it.
unsafe impl Send for Record {}
// SAFETY: as above.
unsafe impl Sync for Record {}

impl Record {
    /// A fresh record. Pages that no process has used take no memory.
    pub(crate) fn new() -> io::Result<Self> {
        // SAFETY: the name is a text; a new descriptor is made or the call fails.
        let fd = unsafe { libc::memfd_create(c"baremark guest counters".as_ptr(), libc::MFD_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor was made above and nobody else owns it.
        let file = unsafe { OwnedFd::from_raw_fd(fd) };
        let bytes = libc::off_t::try_from(BYTES).map_err(io::Error::other)?;
        // SAFETY: sets the length of our own file.
        if unsafe { libc::ftruncate(file.as_raw_fd(), bytes) } != 0 {
            return Err(io::Error::last_os_error());
        }
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping where the kernel has room, as long as the file.
        let start = unsafe { libc::mmap(ptr::null_mut(), BYTES, protection, libc::MAP_SHARED, file.as_raw_fd(), 0) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        let record = Record { file, start };
        record.shared().begin();
        Ok(record)
    }

    /// The counters.
    pub(crate) fn shared(&self) -> &Shared {
        // SAFETY: mapped in `new`, as long and as aligned as a record, until this value is dropped; its fields are atomic
        // numbers, for which any content is a value.
        unsafe { self.start.as_ref() }
    }

    /// The file, for a child that is to inherit it.
    pub(crate) fn fd(&self) -> RawFd {
        self.file.as_raw_fd()
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        // SAFETY: the mapping made in `new`, to which nothing refers any more.
        unsafe { libc::munmap(self.start.as_ptr().cast(), BYTES) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared::Count;

    #[test]
    fn what_another_mapping_of_the_file_counts_is_seen() {
        let record = Record::new().expect("memory");
        assert!(record.shared().is_valid());
        // SAFETY: a second mapping of the same file, given back below.
        let other = unsafe {
            let protection = libc::PROT_READ | libc::PROT_WRITE;
            libc::mmap(ptr::null_mut(), BYTES, protection, libc::MAP_SHARED, record.fd(), 0)
        };
        assert_ne!(other, libc::MAP_FAILED);
        // SAFETY: as long as a record, see above.
        let counted = unsafe { &*other.cast::<Shared>() };
        counted.totals.add(Count::Signals, 3);
        assert_eq!(record.shared().totals.get(Count::Signals), 3);
        // SAFETY: the mapping made above, not used any more.
        unsafe { libc::munmap(other, BYTES) };
    }
}
