//! Page-table work, one page at a time: pages that fault, change their protection and go.
//!
//! What is timed are these loops and nothing around them; whoever times them says what an empty loop costs. Every call is
//! one page, so that a cost per call is a cost per page.

use crate::calls::checked;
use baremark_model::page_size::PageSize;
use std::io;
use std::ptr::{self, NonNull};

/// Anonymous memory that was not touched yet, on a boundary of 2 MiB.
#[derive(Debug)]
pub struct Fresh {
    start: NonNull<u8>,
    /// What is still mapped: `from..bytes`.
    from: usize,
    bytes: usize,
    page: PageSize,
}

// SAFETY: the mapping belongs to the value, as a box's memory does.
unsafe impl Send for Fresh {}

impl Fresh {
    /// Maps `bytes`, rounded up to 2 MiB, to be made of pages of `page`.
    ///
    /// # Errors
    /// What `mmap(2)`, `munmap(2)` or `madvise(2)` give.
    pub fn map(bytes: usize, page: PageSize) -> io::Result<Self> {
        let bytes = bytes.max(1).next_multiple_of(CHUNK);
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a new mapping at an address of the kernel's choice.
        let all = unsafe { libc::mmap(ptr::null_mut(), bytes + CHUNK, READ_WRITE, flags, -1, 0) };
        if all == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let before = (all as usize).wrapping_neg() % CHUNK;
        // SAFETY: both ends are parts of the mapping that was just made and that nobody uses.
        let start = unsafe {
            let start = all.cast::<u8>().add(before);
            trim(all.cast(), before)?;
            trim(start.add(bytes), CHUNK - before)?;
            start
        };
        let start = NonNull::new(start).ok_or_else(io::Error::last_os_error)?;
        let fresh = Fresh { start, from: 0, bytes, page };
        let advice = if page == PageSize::Large { libc::MADV_HUGEPAGE } else { libc::MADV_NOHUGEPAGE };
        // A kernel without transparent huge pages knows neither advice; small pages are then all there is.
        fresh.advise(advice).or_else(|why| if page == PageSize::Small { Ok(()) } else { Err(why) })?;
        // Nobody who is forked meanwhile shares the pages, or each would fault once more at its next store.
        fresh.advise(libc::MADV_DONTFORK)?;
        Ok(fresh)
    }

    /// How many pages it has.
    #[must_use]
    pub fn pages(&self) -> usize {
        self.bytes / self.step()
    }

    /// Stores one word in each page; in a page that was never touched, that is a fault. Must not follow a protection.
    pub fn touch_each(&mut self) {
        for page in (0..self.bytes).step_by(self.step()) {
            // SAFETY: an aligned word of our own mapping, readable and writable; volatile because the store has no effect
            // but the page.
            unsafe { self.start.as_ptr().add(page).cast::<u64>().write_volatile(1) };
        }
    }

    /// Makes each page read-only by a call of its own, and then all of them writable by one.
    ///
    /// # Errors
    /// What `mprotect(2)` gives.
    pub fn protect_each(&mut self, between: &mut dyn FnMut()) -> io::Result<()> {
        for page in (0..self.bytes).step_by(self.step()) {
            self.protect(page, self.step(), libc::PROT_READ)?;
        }
        between();
        self.protect(0, self.bytes, READ_WRITE)
    }

    /// Unmaps each page by a call of its own.
    ///
    /// # Errors
    /// What `munmap(2)` gives.
    pub fn unmap_each(mut self) -> io::Result<()> {
        while self.from < self.bytes {
            // SAFETY: the next page of our own mapping, which nobody can reach any more: `self` is consumed.
            checked(unsafe { libc::munmap(self.start.as_ptr().add(self.from).cast(), self.step()) })?;
            self.from += self.step();
        }
        Ok(())
    }

    fn advise(&self, advice: i32) -> io::Result<()> {
        // SAFETY: our own mapping; the advices that are given change its pages, never its contents.
        checked(unsafe { libc::madvise(self.start.as_ptr().cast(), self.bytes, advice) }).map(drop)
    }

    fn protect(&self, offset: usize, bytes: usize, protection: i32) -> io::Result<()> {
        // SAFETY: a part of our own mapping, to which no reference is ever handed out.
        checked(unsafe { libc::mprotect(self.start.as_ptr().add(offset).cast(), bytes, protection) }).map(drop)
    }

    fn step(&self) -> usize {
        match self.page {
            PageSize::Small => 4096,
            PageSize::Large => CHUNK,
        }
    }
}

impl Drop for Fresh {
    fn drop(&mut self) {
        if self.from < self.bytes {
            // SAFETY: what is left of our own mapping. A failure would leak address space and nothing else.
            unsafe { libc::munmap(self.start.as_ptr().add(self.from).cast(), self.bytes - self.from) };
        }
    }
}

/// The page faults that the calling thread has taken without input.
///
/// # Errors
/// What `getrusage(2)` gives.
pub fn faults_of_this_thread() -> io::Result<u64> {
    // SAFETY: a rusage is plain numbers; all zeros is a valid one.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: `usage` lives through the call, which fills it.
    let done = unsafe { libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage) };
    if done == 0 { Ok(usage.ru_minflt.cast_unsigned()) } else { Err(io::Error::last_os_error()) }
}

/// The number of [`empty_call`].
pub const EMPTY_CALL: i64 = libc::SYS_getppid;

/// The system call that does the least: it returns the parent's number.
#[inline]
pub fn empty_call() {
    // SAFETY: getppid takes nothing, touches no memory and cannot fail.
    unsafe { libc::syscall(libc::SYS_getppid) };
}

/// [`empty_call`] with an argument, which the kernel does not look at: by it a process identifies itself to whoever sees the arguments of its calls.
pub fn identify(argument: u32) {
    // SAFETY: as for `empty_call`.
    unsafe { libc::syscall(EMPTY_CALL, u64::from(argument)) };
}

/// # Safety
/// The range must be mapped and nobody's.
unsafe fn trim(start: *mut u8, bytes: usize) -> io::Result<()> {
    // SAFETY: the caller's promise.
    if bytes == 0 || unsafe { libc::munmap(start.cast(), bytes) } == 0 {
        return Ok(());
    }
    Err(io::Error::last_os_error())
}

const READ_WRITE: i32 = libc::PROT_READ | libc::PROT_WRITE;
const CHUNK: usize = 2 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_first_touch_is_a_fault_and_no_second_one_is() {
        let mut fresh = Fresh::map(3 << 20, PageSize::Small).expect("4 MiB");
        assert_eq!(fresh.pages(), 1024);
        let start = faults_of_this_thread().expect("rusage");
        fresh.touch_each();
        let first = faults_of_this_thread().expect("rusage");
        crate::children::fork_and_wait().expect("a child");
        let before = faults_of_this_thread().expect("rusage");
        fresh.touch_each();
        let second = faults_of_this_thread().expect("rusage");
        // A fork of another thread makes this one's stack fault, which is some pages of those that are counted.
        let others = 64;
        assert!((1024..1024 + others).contains(&(first - start)), "{} faults", first - start);
        assert!(second - before < others, "{} faults", second - before);
    }

    #[test]
    fn pages_are_protected_opened_and_unmapped() {
        let mut fresh = Fresh::map(2 << 20, PageSize::Small).expect("2 MiB");
        fresh.touch_each();
        let mut between = 0;
        fresh.protect_each(&mut || between += 1).expect("protected");
        fresh.touch_each();
        assert_eq!(between, 1);
        fresh.unmap_each().expect("unmapped");
    }
}
