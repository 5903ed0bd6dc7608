//! Which pages of a process were written since they were last looked at: userfaultfd's asynchronous write protection and
//! `PAGEMAP_SCAN` (Linux 6.7 and later).
//!
//! The process goes on by itself after the first write to a protected page; nobody has to answer its fault. Soft-dirty bits would do the
//! same, but kernels without them accept the request and set no bit, so they are not used.

use crate::calls::checked;
use crate::tracee;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr;

/// Bytes of a page.
pub const PAGE: u64 = 4096;
/// `userfaultfd(2)`: only for faults in user mode, which needs no privilege; write protection that nobody answers acts on the kernel's
/// own writes too.
const USER_MODE_ONLY: u64 = 1;
/// `UFFDIO_API`, `UFFDIO_REGISTER` and `PAGEMAP_SCAN`, as `linux/userfaultfd.h` and `linux/fs.h` define them.
const UFFDIO_API: libc::c_ulong = 0xc018_aa3f;
const UFFDIO_REGISTER: libc::c_ulong = 0xc020_aa00;
const PAGEMAP_SCAN: libc::c_ulong = 0xc060_6610;
const API: u64 = 0xaa;
/// Pages without an entry are protected as well; protection is taken off without a message.
const FEATURES: u64 = 1 << 13 | 1 << 15;
const MODE_WRITE_PROTECTION: u64 = 1 << 1;
const SCAN_PROTECTS: u64 = 1 << 0;

/// What `PAGEMAP_SCAN` says of pages.
const WRITTEN: u64 = 1 << 1;
const FILE: u64 = 1 << 2;
const PRESENT: u64 = 1 << 3;
const SWAPPED: u64 = 1 << 4;
const ZERO: u64 = 1 << 5;
/// The end of a process's addresses with four levels of page tables.
const END: u64 = 0x7fff_ffff_f000;
/// Ranges that one call gives at most.
const RANGES: usize = 1024;

/// Pages next to each other.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Range {
    /// Address of the first byte.
    pub start: u64,
    /// Address after the last byte.
    pub end: u64,
    categories: u64,
}

impl Range {
    /// Whether the pages are those of a file or of memory that processes share, not a process's own.
    #[must_use]
    pub fn is_of_file(&self) -> bool {
        self.categories & FILE != 0
    }

    /// How many pages.
    #[must_use]
    pub fn pages(&self) -> u64 {
        (self.end - self.start) / PAGE
    }
}

#[repr(C)]
struct Scan {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    ranges: u64,
    ranges_length: u64,
    most_pages: u64,
    inverted: u64,
    all_of: u64,
    any_of: u64,
    reported: u64,
}

#[repr(C)]
struct Register {
    start: u64,
    length: u64,
    mode: u64,
    ioctls: u64,
}

/// Write protection of another process's memory. Dropping it takes it off.
#[derive(Debug)]
pub struct Tracker(OwnedFd);

impl Tracker {
    /// Has a stopped thread open it for its process and takes it from there; `instruction` is a SYSCALL in that process's memory.
    ///
    /// # Errors
    /// What the calls give: EPERM without the right to it, EINVAL on kernels before 6.7.
    pub fn open(process: i32, thread: i32, instruction: u64) -> io::Result<Tracker> {
        let flags = libc::O_CLOEXEC.unsigned_abs() | libc::O_NONBLOCK.unsigned_abs();
        let call = |number, first| tracee::call(thread, instruction, number, [first, 0, 0]);
        let there = call(libc::SYS_userfaultfd, u64::from(flags) | USER_MODE_ONLY)?;
        let taken = tracee::take_descriptor(process, there);
        call(libc::SYS_close, there)?;
        Tracker::of(taken?)
    }

    /// Takes over a userfaultfd that the process itself has opened.
    ///
    /// # Errors
    /// What `UFFDIO_API` gives: EINVAL on kernels before 6.7.
    pub fn of(faults: OwnedFd) -> io::Result<Tracker> {
        let mut api = [API, FEATURES, 0];
        let tracker = Tracker(faults);
        tracker.request(UFFDIO_API, &mut api)?;
        Ok(tracker)
    }

    /// Protects what is mapped in a range from now on; what is protected already stays so.
    ///
    /// # Errors
    /// What `UFFDIO_REGISTER` gives: EINVAL for a range where nothing is mapped, EBUSY where another tracker is at work.
    pub fn add(&self, start: u64, end: u64) -> io::Result<()> {
        let mut register = Register { start, length: end - start, mode: MODE_WRITE_PROTECTION, ioctls: 0 };
        self.request(UFFDIO_REGISTER, &mut register)
    }

    fn request<T>(&self, what: libc::c_ulong, argument: &mut T) -> io::Result<()> {
        // SAFETY: each request is made with the structure that it reads and writes.
        checked(unsafe { libc::ioctl(self.0.as_raw_fd(), what, ptr::from_mut(argument)) }).map(drop)
    }
}

/// Which pages are looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pages {
    /// Those written since the last call, or never looked at; they are protected again. Memory that no tracker has is left out.
    Written,
    /// All that hold something.
    Present,
}

/// The pages of a process, of which `pagemap` is its `/proc/PID/pagemap`, in order of their addresses. Pages that were only read
/// and hold zeros are no such pages. While the process runs, what it writes meanwhile is found now or the next time.
///
/// # Errors
/// What `PAGEMAP_SCAN` gives: ENOTTY on kernels before 6.7.
pub fn pages(pagemap: &File, which: Pages, found: &mut Vec<Range>) -> io::Result<()> {
    found.clear();
    let mut start = 0;
    let mut some = [Range::default(); RANGES];
    let written = if which == Pages::Written { WRITTEN } else { 0 };
    while start < END {
        let mut scan = Scan {
            size: size_of::<Scan>() as u64,
            flags: if which == Pages::Written { SCAN_PROTECTS } else { 0 },
            start,
            end: END,
            walk_end: 0,
            ranges: some.as_mut_ptr() as u64,
            ranges_length: RANGES as u64,
            most_pages: 0,
            inverted: ZERO,
            all_of: written | ZERO,
            any_of: PRESENT | SWAPPED,
            reported: FILE,
        };
        // SAFETY: the kernel reads and writes the structure and at most RANGES ranges behind its pointer, which live through the call.
        let count = unsafe { libc::ioctl(pagemap.as_raw_fd(), PAGEMAP_SCAN, &raw mut scan) };
        let count = usize::try_from(count).map_err(|_negative| io::Error::last_os_error())?;
        found.extend_from_slice(&some[..count]);
        if scan.walk_end <= start {
            break;
        }
        start = scan.walk_end;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structures_are_as_long_as_the_kernel_takes_them() {
        assert_eq!((size_of::<Scan>(), size_of::<Register>(), size_of::<Range>()), (96, 32, 24));
    }
}
