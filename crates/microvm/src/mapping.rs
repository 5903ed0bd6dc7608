//! Anonymous memory of our own, taken from the operating system and given back when dropped.
//!
//! What the guest shares with us (tables, stacks) must not move, must not come from an allocator that the guest may be
//! in the middle of, and must have a known alignment; so it is mapped, not allocated. Pages come when first touched.

use std::io;
use std::ptr::{self, NonNull};

/// A page of the host, and the guest's smallest.
pub(crate) const PAGE: usize = 4096;

/// Readable, writable, private memory, zero until written.
#[derive(Debug)]
pub(crate) struct Mapping {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: a Mapping owns its pages as a Box<[u8]> would; it hands out addresses only, and each use says why it is sound.
unsafe impl Send for Mapping {}
// SAFETY: as above; `&Mapping` gives an address and a length.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// `bytes` (a multiple of the page size) on a boundary of `align`, which is a power of two and at least a page.
    pub(crate) fn aligned(bytes: usize, align: usize) -> io::Result<Self> {
        let whole = Mapping::anywhere(bytes + align)?;
        let from = whole.address();
        let start = from.next_multiple_of(align);
        let behind = from + whole.bytes - (start + bytes);
        std::mem::forget(whole);
        unmap(from, start - from);
        unmap(start + bytes, behind);
        let start = NonNull::new(ptr::with_exposed_provenance_mut(start)).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Mapping { start, bytes })
    }

    /// A stack of `bytes` above one page that nobody may touch.
    pub(crate) fn stack(bytes: usize) -> io::Result<Self> {
        let stack = Mapping::anywhere(bytes + PAGE)?;
        // SAFETY: the first page belongs to the mapping made above, and nothing lies in it yet.
        let rc = unsafe { libc::mprotect(stack.start.as_ptr().cast(), PAGE, libc::PROT_NONE) };
        if rc == 0 { Ok(stack) } else { Err(io::Error::last_os_error()) }
    }

    fn anywhere(bytes: usize) -> io::Result<Self> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a new anonymous mapping at an address of the kernel's choice touches no memory of ours.
        let start = unsafe { libc::mmap(ptr::null_mut(), bytes, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast::<u8>()).ok_or(io::ErrorKind::OutOfMemory)?;
        start.as_ptr().expose_provenance();
        let mapping = Mapping { start, bytes };
        // SAFETY: advice about memory that this mapping owns; it changes no content. A child that is forked while the
        // guest runs does not get the pages, or the guest would leave at its next store to each of them.
        match unsafe { libc::madvise(start.as_ptr().cast(), bytes, libc::MADV_DONTFORK) } {
            0 => Ok(mapping),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Asks that the pages stay small whatever the system's policy for huge pages is.
    pub(crate) fn keep_small(&self) {
        // SAFETY: advice about memory that this mapping owns; it changes no content. Where huge pages do not exist the
        // call fails, and there is then nothing to refuse.
        unsafe { libc::madvise(self.start.as_ptr().cast(), self.bytes, libc::MADV_NOHUGEPAGE) };
    }

    /// The first byte.
    pub(crate) fn pointer(&self) -> NonNull<u8> {
        self.start
    }

    /// The first byte's address.
    pub(crate) fn address(&self) -> usize {
        self.start.as_ptr().addr()
    }

    /// The length in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The address behind the last byte.
    pub(crate) fn end(&self) -> usize {
        self.address() + self.bytes
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        unmap(self.address(), self.bytes);
    }
}

fn unmap(start: usize, bytes: usize) {
    if bytes > 0 {
        // SAFETY: callers pass a span of a mapping that they own and to which nothing refers any more.
        unsafe { libc::munmap(ptr::with_exposed_provenance_mut(start), bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use baremark_sys::children::fork_and_wait;
    use baremark_sys::paging::faults_of_this_thread;

    #[test]
    fn an_aligned_mapping_starts_on_its_boundary_and_can_be_written() {
        let mapping = Mapping::aligned(3 * PAGE, 1 << 30).expect("address space");
        assert_eq!(mapping.address() % (1 << 30), 0);
        assert_eq!(mapping.end() - mapping.address(), 3 * PAGE);
        // SAFETY: the last byte of a mapping that lives and that only this test knows.
        unsafe { mapping.pointer().as_ptr().add(mapping.bytes() - 1).write(7) };
    }

    #[test]
    fn a_store_after_a_fork_faults_no_more_than_one_before() {
        let mapping = Mapping::aligned(1024 * PAGE, PAGE).expect("address space");
        mapping.keep_small();
        let store = || {
            let before = faults_of_this_thread().expect("rusage");
            for page in 0..1024 {
                // SAFETY: a byte of a mapping that lives and that only this test knows.
                unsafe { mapping.pointer().as_ptr().add(page * PAGE).write_volatile(7) };
            }
            faults_of_this_thread().expect("rusage") - before
        };
        assert!(store() >= 1024, "each page is touched first");
        fork_and_wait().expect("a child");
        let faults = store();
        // The host's kernel may move some pages meanwhile.
        assert!(faults < 512, "{faults} faults on 1024 pages");
    }
}
