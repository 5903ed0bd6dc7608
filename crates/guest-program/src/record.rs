//! The launcher's side of memory that it shares with runners: files of memory that the program's processes inherit.

use crate::shared::Shared;
use crate::snapshot::Snapshot;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::ptr::{self, NonNull};

/// What can lie in shared memory.
///
/// # Safety
/// Any bytes are a value, which holds for structures of atomic numbers.
pub(crate) unsafe trait Plain {}

// SAFETY: all of its fields are atomic numbers.
unsafe impl Plain for Shared {}
// SAFETY: all of its fields are atomic numbers.
unsafe impl Plain for Snapshot {}

/// The shared counters of a program.
pub(crate) type Record = Mapped<Shared>;

/// A file of memory, mapped.
#[derive(Debug)]
pub(crate) struct Mapped<T> {
    file: OwnedFd,
    start: NonNull<T>,
}

// SAFETY: what lies there is atomic numbers; whoever has it only reads them, or begins it before anybody else knows it.
unsafe impl<T: Plain> Send for Mapped<T> {}
// SAFETY: as above.
unsafe impl<T: Plain> Sync for Mapped<T> {}

impl Record {
    /// A fresh record. Pages that no process has used take no memory.
    pub(crate) fn new() -> io::Result<Self> {
        let record: Record = Mapped::of_zeros()?;
        record.shared().begin();
        Ok(record)
    }
}

impl<T> Mapped<T> {
    /// A file of zeros that is as long as a `T`.
    pub(crate) fn of_zeros() -> io::Result<Self>
    where
        T: Plain,
    {
        let file = memory_file()?;
        let bytes = libc::off_t::try_from(size_of::<T>()).map_err(io::Error::other)?;
        // SAFETY: sets the length of our own file.
        if unsafe { libc::ftruncate(file.as_raw_fd(), bytes) } != 0 {
            return Err(io::Error::last_os_error());
        }
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping where the kernel has room, as long as the file.
        let start =
            unsafe { libc::mmap(ptr::null_mut(), size_of::<T>(), protection, libc::MAP_SHARED, file.as_raw_fd(), 0) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Mapped { file, start })
    }

    /// What lies there.
    pub(crate) fn shared(&self) -> &T {
        // SAFETY: mapped in `of_zeros`, as long and as aligned as a `T`, until this value is dropped; any content is a value.
        unsafe { self.start.as_ref() }
    }

    /// The file, for a child that is to inherit it.
    pub(crate) fn fd(&self) -> RawFd {
        self.file.as_raw_fd()
    }
}

impl<T> Drop for Mapped<T> {
    fn drop(&mut self) {
        // SAFETY: the mapping made in `of_zeros`, to which nothing refers any more.
        unsafe { libc::munmap(self.start.as_ptr().cast(), size_of::<T>()) };
    }
}

/// An empty file of memory, closed on exec.
pub(crate) fn memory_file() -> io::Result<OwnedFd> {
    // SAFETY: the name is a text; a new descriptor is made or the call fails.
    let fd = unsafe { libc::memfd_create(c"baremark guest".as_ptr(), libc::MFD_CLOEXEC) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor was made above and nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// One of zeros in this process's own memory.
pub(crate) fn zeroed<T: Plain>() -> Box<T> {
    // SAFETY: zero is a value, by the trait; the memory is as large and as aligned as a `T`, and nobody else's.
    unsafe {
        let memory = std::alloc::alloc_zeroed(std::alloc::Layout::new::<T>());
        Box::from_raw(memory.cast())
    }
}

/// One whose first bytes are these.
pub(crate) fn of_bytes<T: Plain>(bytes: &[u8]) -> Box<T> {
    let mut value = zeroed::<T>();
    let length = bytes.len().min(size_of::<T>());
    // SAFETY: at most as many bytes as a `T` has are written into one that nobody else knows; any bytes are a value.
    unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), ptr::from_mut(&mut *value).cast(), length) };
    value
}

/// The first `length` bytes of one, as they are now.
pub(crate) fn bytes_of<T: Plain>(value: &T, length: usize) -> Vec<u8> {
    let words = length.min(size_of::<T>()) / 8;
    let from: *const std::sync::atomic::AtomicU64 = ptr::from_ref(value).cast();
    let word = |at: usize| {
        // SAFETY: inside the value, which is aligned to more than 8 bytes and of which others change atomic numbers.
        unsafe { (*from.add(at)).load(std::sync::atomic::Ordering::Relaxed).to_ne_bytes() }
    };
    (0..words).flat_map(word).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared::{BYTES, Count};

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
