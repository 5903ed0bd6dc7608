//! Page size by which the host backs a program's memory, where that was chosen: else it is the kernel's and the program's choice, as natively.
//!
//! Small pages are those of a process for which transparent huge pages are off, but for what it requests by `madvise`; before Linux 6.18 for that,
//! too. Large ones are requested for each private anonymous mapping when it is made; what the program requests for it later holds. How much memory
//! was in large pages is looked at when a process ends by itself and before it gives much memory back; the look at the most memory counts.
//!
//! Where that was chosen, private anonymous memory is given to the program when it is mapped, in the pages that it has then. Entries of KVM's own tables
//! are made at the first access in the guest all the same.

use crate::runner::sys;
use crate::runner::thread::Process;
use crate::shared::Count;
use baremark_model::page_size::PageSize;
use std::ffi::CStr;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

const OWN: u8 = 0;
const SMALL: u8 = 1;
const LARGE: u8 = 2;

/// Memory that is given back at once, from which on it is looked at before.
const MUCH: u64 = 2 << 20;
/// `PR_THP_DISABLE_EXCEPT_ADVISED`, which libc does not name.
const EXCEPT_ADVISED: u64 = 2;
/// Looks are at least so far apart: one takes a walk through all of the process's memory.
const PAUSE_NS: u64 = 50_000_000;

static CHOSEN: AtomicU8 = AtomicU8::new(OWN);
/// Of the look at the most memory: KiB of anonymous memory, and those of it in large pages.
static MOST: AtomicU64 = AtomicU64::new(0);
static LARGE_OF_MOST: AtomicU64 = AtomicU64::new(0);
/// Whether memory is given when it is mapped, and KiB of it.
static PREFAULT: AtomicBool = AtomicBool::new(false);
static PREFAULTED: AtomicU64 = AtomicU64::new(0);
/// When the last look was.
static LOOKED: AtomicU64 = AtomicU64::new(0);

/// From now on, new memory is backed by pages of this size, and given when it is mapped; before the program is loaded.
pub(crate) fn choose(page: Option<PageSize>, prefault: bool) {
    PREFAULT.store(prefault, Ordering::Relaxed);
    let chosen = match page {
        None => OWN,
        Some(PageSize::Small) => SMALL,
        Some(PageSize::Large) => LARGE,
    };
    CHOSEN.store(chosen, Ordering::Relaxed);
    if chosen == SMALL {
        // Kernels before 6.18 do not know the flag.
        for flags in [EXCEPT_ADVISED, 0] {
            // SAFETY: takes numbers.
            if unsafe { sys::raw(libc::SYS_prctl, [libc::PR_SET_THP_DISABLE as u64, 1, flags, 0, 0, 0]) } == 0 {
                break;
            }
        }
    }
}

/// What was chosen.
pub(crate) fn chosen() -> Option<PageSize> {
    match CHOSEN.load(Ordering::Relaxed) {
        SMALL => Some(PageSize::Small),
        LARGE => Some(PageSize::Large),
        _ => None,
    }
}

/// Whether memory is given when it is mapped.
pub(crate) fn is_prefaulting() -> bool {
    PREFAULT.load(Ordering::Relaxed)
}

/// Private anonymous memory was mapped.
pub(crate) fn mapped(range: &Range<u64>) {
    request(range);
    populate(range);
}

/// Requests large pages, where they were chosen.
fn request(range: &Range<u64>) {
    if CHOSEN.load(Ordering::Relaxed) == LARGE {
        // A kernel without such pages refuses, which the counts show.
        let _ = sys::advise(range.start, range.end - range.start, libc::MADV_HUGEPAGE);
    }
}

/// Memory was mapped by `mmap` with these flags.
pub(crate) fn mapped_with(range: &Range<u64>, flags: u64) {
    let flags = i32::try_from(flags).unwrap_or(0);
    let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // A stack is touched in a few pages.
    if flags & kind == kind && flags & libc::MAP_STACK == 0 {
        request(range);
        // More is mapped without reserve than will ever be used.
        if flags & libc::MAP_NORESERVE == 0 {
            populate(range);
        }
    }
}

/// Has the kernel give the memory of a range now, where that was chosen.
fn populate(range: &Range<u64>) {
    let bytes = range.end - range.start;
    if !is_prefaulting() || bytes >= MUCH && bytes > available() {
        return;
    }
    // What cannot be written is refused, and stays as it is.
    if sys::advise(range.start, bytes, libc::MADV_POPULATE_WRITE).is_ok() {
        PREFAULTED.fetch_add(bytes >> 10, Ordering::Relaxed);
    }
}

/// Bytes that programs can have without making others give theirs back.
fn available() -> u64 {
    let mut text = [0; 1024];
    let read = read(c"/proc/meminfo", &mut text);
    kib(&text[..read], "MemAvailable:") << 10
}

/// Memory is about to be given back.
pub(crate) fn unmapping(bytes: u64) {
    if CHOSEN.load(Ordering::Relaxed) == OWN || bytes < MUCH {
        return;
    }
    let now = sys::monotonic_ns();
    if now.saturating_sub(LOOKED.load(Ordering::Relaxed)) >= PAUSE_NS {
        LOOKED.store(now, Ordering::Relaxed);
        look();
    }
}

/// Counts the memory of a process that ends, where its page size or its prefaulting was chosen.
pub(crate) fn count(process: &Process) {
    process.counters().tally.add(Count::PrefaultedKib, PREFAULTED.load(Ordering::Relaxed));
    if CHOSEN.load(Ordering::Relaxed) == OWN {
        return;
    }
    look();
    process.counters().tally.add(Count::AnonymousKib, MOST.load(Ordering::Relaxed));
    process.counters().tally.add(Count::LargeKib, LARGE_OF_MOST.load(Ordering::Relaxed));
}

/// In the child of a fork: what was found in its parent is not its own.
pub(crate) fn begin_child() {
    [&MOST, &LARGE_OF_MOST, &LOOKED, &PREFAULTED].into_iter().for_each(|found| found.store(0, Ordering::Relaxed));
}

fn look() {
    let mut text = [0; 4096];
    let read = read(c"/proc/self/smaps_rollup", &mut text);
    if read == 0 {
        return;
    }
    let [all, large] = ["Anonymous:", "AnonHugePages:"].map(|key| kib(&text[..read], key));
    if MOST.fetch_max(all, Ordering::Relaxed) <= all {
        LARGE_OF_MOST.store(large, Ordering::Relaxed);
    }
}

/// The beginning of a file of the kernel's: how many bytes; 0 where it cannot be read.
fn read(path: &CStr, text: &mut [u8]) -> usize {
    let Ok(file) = sys::open(path, libc::O_RDONLY | libc::O_CLOEXEC) else { return 0 };
    let read = sys::read_at(file, text, 0).unwrap_or(0);
    sys::close(file);
    read
}

/// The number of KiB behind `key`.
fn kib(text: &[u8], key: &str) -> u64 {
    let lines = text.split(|byte| *byte == b'\n');
    let line = lines.filter_map(|line| std::str::from_utf8(line).ok()?.strip_prefix(key)).next();
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_by_their_key() {
        let text = b"55d0-7ffe ---p 0 00:00 0 [rollup]\nRss:    900 kB\nAnonymous:         512 kB\nAnonHugePages:    2048 kB\n";
        assert_eq!((kib(text, "Anonymous:"), kib(text, "AnonHugePages:"), kib(text, "Swap:")), (512, 2048, 0));
        assert_eq!(kib(b"Anonymous: many kB", "Anonymous:"), 0);
    }
}
