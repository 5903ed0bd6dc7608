//! A page that is forbidden when it is stored to, and opened by the signal's handler.
//!
//! The handler is installed once for the process. It opens pages that are under guard here; any other fault goes to the
//! handler that was there before, by putting that one back and letting the instruction fault again.

use crate::calls::checked;
use std::io;
use std::mem;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

/// A page under guard.
#[derive(Debug)]
pub struct Guarded {
    page: NonNull<u8>,
    slot: usize,
}

// SAFETY: the page belongs to the value; the handler finds it by its address, whichever thread it runs on.
unsafe impl Send for Guarded {}

/// The pages under guard, 0 where there is none, and how often each was opened. Only atomics: a handler may take no lock.
static GUARDED: [(AtomicUsize, AtomicUsize); SLOTS] = [const { (AtomicUsize::new(0), AtomicUsize::new(0)) }; SLOTS];
static BEFORE: OnceLock<libc::sigaction> = OnceLock::new();
/// Whether the handler is in force.
static INSTALLED: Mutex<bool> = Mutex::new(false);

impl Guarded {
    /// A page that nobody may touch, and the handler that opens it.
    ///
    /// # Errors
    /// What `mmap(2)` or `sigaction(2)` give, and when all places are taken.
    pub fn new() -> io::Result<Self> {
        install()?;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a new mapping at an address of the kernel's choice.
        let page = unsafe { libc::mmap(ptr::null_mut(), PAGE, libc::PROT_NONE, flags, -1, 0) };
        if page == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let take = |(address, _): &(AtomicUsize, AtomicUsize)| {
            address.compare_exchange(0, page as usize, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        };
        match (GUARDED.iter().position(take), NonNull::new(page.cast())) {
            (Some(slot), Some(page)) => {
                GUARDED[slot].1.store(0, Ordering::Release);
                Ok(Guarded { page, slot })
            }
            _ => {
                // SAFETY: our own mapping, which nobody has seen.
                unsafe { libc::munmap(page, PAGE) };
                Err(io::Error::other(format!("{SLOTS} pages are under guard already")))
            }
        }
    }

    /// Stores to the page `times` times, each time forbidden anew.
    ///
    /// # Errors
    /// What `mprotect(2)` gives.
    pub fn store(&mut self, times: u64) -> io::Result<()> {
        for _ in 0..times {
            // SAFETY: an aligned word of our own page; it is forbidden, and the handler opens it before the store is done.
            unsafe { self.page.as_ptr().cast::<u64>().write_volatile(1) };
            // SAFETY: our own page, to which no reference is handed out.
            checked(unsafe { libc::mprotect(self.page.as_ptr().cast(), PAGE, libc::PROT_NONE) })?;
        }
        Ok(())
    }

    /// How often the handler has opened the page.
    #[must_use]
    pub fn opened(&self) -> usize {
        GUARDED[self.slot].1.load(Ordering::Acquire)
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        GUARDED[self.slot].0.store(0, Ordering::Release);
        // SAFETY: our own page, which is under guard no more.
        unsafe { libc::munmap(self.page.as_ptr().cast(), PAGE) };
    }
}

fn install() -> io::Result<()> {
    // Whoever comes meanwhile waits until the handler is in force.
    let mut installed = INSTALLED.lock().unwrap_or_else(PoisonError::into_inner);
    if *installed {
        return Ok(());
    }
    // SAFETY: a sigaction is plain data; all zeros is a valid one.
    let (mut ours, mut before): (libc::sigaction, libc::sigaction) = unsafe { mem::zeroed() };
    // SAFETY: asks for the handler in force, which is kept for faults that are not ours.
    checked(unsafe { libc::sigaction(libc::SIGSEGV, ptr::null(), &raw mut before) })?;
    // Kept before ours is in force: the handler reads it. A second attempt finds the same.
    BEFORE.get_or_init(|| before);
    let handler: extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void) = open;
    ours.sa_sigaction = handler as usize;
    ours.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
    // SAFETY: a handler of the form that SA_SIGINFO asks for, which does only what a handler may.
    checked(unsafe { libc::sigaction(libc::SIGSEGV, &raw const ours, ptr::null_mut()) })?;
    *installed = true;
    Ok(())
}

extern "C" fn open(_signal: i32, info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    // SAFETY: the kernel hands a valid siginfo for SIGSEGV.
    let page = unsafe { (*info).si_addr() } as usize / PAGE * PAGE;
    for (address, opened) in &GUARDED {
        if page != 0 && address.load(Ordering::Acquire) == page {
            // SAFETY: a page under guard is mapped and its owner's alone, who waits in the store that faulted.
            unsafe { libc::mprotect(page as *mut libc::c_void, PAGE, libc::PROT_READ | libc::PROT_WRITE) };
            opened.fetch_add(1, Ordering::AcqRel);
            return;
        }
    }
    if let Some(before) = BEFORE.get() {
        // SAFETY: the handler that was there before; the instruction faults again and comes to it.
        unsafe { libc::sigaction(libc::SIGSEGV, before, ptr::null_mut()) };
    }
}

const PAGE: usize = 4096;
/// As many as a trial may have ranks, each of which has a page. The first free place is taken: the handler looks at no more places than there are pages.
const SLOTS: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_store_is_one_fault_that_is_handled() {
        let (mut one, mut other) = (Guarded::new().expect("a page"), Guarded::new().expect("another"));
        one.store(50).expect("opened");
        other.store(3).expect("opened");
        assert_eq!((one.opened(), other.opened()), (50, 3));
        let slot = one.slot;
        drop(one);
        assert_eq!(GUARDED[slot].0.load(Ordering::Acquire), 0);
    }

    /// The first test of a process: the handler is not in force yet.
    #[test]
    fn threads_that_begin_at_once_find_the_handler_in_force() {
        let all = std::sync::Barrier::new(16);
        std::thread::scope(|scope| {
            for _ in 0..16 {
                scope.spawn(|| {
                    all.wait();
                    Guarded::new().expect("a page").store(1).expect("opened");
                });
            }
        });
    }

    #[test]
    fn the_ranks_of_a_large_machine_have_a_page_each() {
        let pages: io::Result<Vec<Guarded>> = (0..1024).map(|_| Guarded::new()).collect();
        let mut pages = pages.expect("a page for each");
        pages[1023].store(2).expect("opened");
        assert_eq!(pages[1023].opened(), 2);
    }
}
