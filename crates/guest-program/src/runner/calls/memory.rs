//! The break, and mappings: what a program does to its address space, without hitting what the runner has in it.

use crate::runner::arena::ARENA;
use crate::runner::backing;
use crate::runner::calls::outcome::{Outcome, forward, refuse, refuse_by_name};
use crate::runner::fatal;
use crate::runner::lock::Lock;
use crate::runner::machine::MACHINE;
use crate::runner::sys::{self, Mapping};
use crate::runner::thread::Thread;
use crate::shared::UnsupportedKind;
use baremark_microvm::layout::USER_END;
use std::ops::Range;

const PAGE: u64 = 4096;
const MAP_FIXED: u64 = libc::MAP_FIXED as u64;
const MREMAP_FIXED: u64 = libc::MREMAP_FIXED as u64;
const SHM_REMAP: u64 = libc::SHM_REMAP as u64;

/// The program's break: where it began and where it is.
static BREAK: Lock<Range<u64>> = Lock::new(0..0);

/// Begins the break of a program that was just loaded.
pub(crate) fn start_break(at: u64) {
    BREAK.with(|range| *range = at..at);
}

/// The break of a program that is continued.
pub(crate) fn restore_break(range: Range<u64>) {
    BREAK.with(|own| *own = range);
}

/// Where the break began and where it is.
pub(crate) fn current_break() -> Range<u64> {
    BREAK.with(|range| range.clone())
}

/// In the child of a fork, nobody holds the break.
pub(crate) fn forget_holder() {
    BREAK.forget_holder();
}

/// `brk`: the range grows into memory that nobody has, and shrinks by giving it back.
pub(crate) fn set_break(to: u64) -> Outcome {
    let at = BREAK.with(|range| {
        let up = |address: u64| address.next_multiple_of(PAGE);
        if to < range.start || to > 1 << 47 {
            return range.end;
        }
        let (old, new) = (up(range.end), up(to));
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let mapping = Mapping::anonymous(protection, libc::MAP_FIXED_NOREPLACE);
        // SAFETY: memory that nobody has; or the end of what was mapped here for the break, which the program gives back.
        let done = unsafe {
            match new {
                _ if new > old => sys::map(old, new - old, mapping).map(drop),
                _ if new < old => {
                    sys::unmap(new, old - new);
                    Ok(())
                }
                _ => Ok(()),
            }
        };
        if done.is_ok() {
            range.end = to;
            if new > old {
                backing::mapped(&(old..new));
                cover(&(old..new));
            }
        }
        range.end
    });
    Outcome::Returns(at.cast_signed())
}

/// `mmap`.
pub(crate) fn map(thread: &'static Thread, arguments: &[u64; 6]) -> Outcome {
    let [at, bytes, _, flags, ..] = *arguments;
    if flags & MAP_FIXED != 0 && hits_runner(at, bytes) {
        return refuse_by_name(UnsupportedKind::OccupiedAddress, at, libc::ENOMEM);
    }
    let outcome = forward(thread, libc::SYS_mmap.cast_unsigned(), arguments);
    if let Outcome::Returns(at @ 1..) = outcome {
        let at = at.cast_unsigned();
        backing::mapped_with(&(at..at.saturating_add(bytes)), flags);
    }
    covered(outcome, bytes)
}

/// `mremap`.
pub(crate) fn remap(thread: &'static Thread, arguments: &[u64; 6]) -> Outcome {
    let [from, old, new, flags, to, _] = *arguments;
    if hits_runner(from, old) {
        return refuse(libc::EFAULT);
    }
    if flags & MREMAP_FIXED != 0 && hits_runner(to, new) {
        return refuse_by_name(UnsupportedKind::OccupiedAddress, to, libc::ENOMEM);
    }
    let outcome = forward(thread, libc::SYS_mremap.cast_unsigned(), arguments);
    covered(outcome, new)
}

/// `shmat`.
pub(crate) fn attach(thread: &'static Thread, arguments: &[u64; 6]) -> Outcome {
    let [_, at, flags, ..] = *arguments;
    if at != 0 && flags & SHM_REMAP != 0 && hits_runner(at, PAGE) {
        return refuse_by_name(UnsupportedKind::OccupiedAddress, at, libc::EINVAL);
    }
    forward(thread, libc::SYS_shmat.cast_unsigned(), arguments)
}

/// `munmap`: everything in the range but what is the runner's, which natively would not be there.
pub(crate) fn unmap(thread: &'static Thread, arguments: &[u64; 6]) -> Outcome {
    let number = libc::SYS_munmap.cast_unsigned();
    let [at, bytes, ..] = *arguments;
    backing::unmapping(bytes);
    // The kernel refuses as a whole what ends beyond all memory.
    if !hits_runner(at, bytes) || at.checked_add(bytes).is_none_or(|end| end > USER_END) {
        return forward(thread, number, arguments);
    }
    let mut outcome = Outcome::Returns(0);
    for_each_part(at..at.saturating_add(bytes).next_multiple_of(PAGE), |part| {
        outcome = forward(thread, number, &[part.start, part.end - part.start, 0, 0, 0, 0]);
        outcome == Outcome::Returns(0)
    });
    outcome
}

/// `remap_file_pages`: natively nothing is mapped there.
pub(crate) fn remap_file(thread: &'static Thread, arguments: &[u64; 6]) -> Outcome {
    if hits_runner(arguments[0], arguments[1]) {
        return refuse(libc::EINVAL);
    }
    forward(thread, libc::SYS_remap_file_pages.cast_unsigned(), arguments)
}

/// `mprotect`, `madvise` and others on a range: where the runner lies there is nothing, so that the kernel would change all before it and then
/// report that something is missing.
pub(crate) fn change(thread: &'static Thread, number: u64, arguments: &[u64; 6]) -> Outcome {
    let [at, bytes, rest @ ..] = *arguments;
    let end = at.checked_add(bytes).and_then(|end| end.checked_next_multiple_of(PAGE));
    // The kernel refuses as a whole what has no end.
    let Some(own) = end.and_then(|end| ARENA.overlap(&(at..end))) else { return forward(thread, number, arguments) };
    if own.start > at {
        let outcome = forward(thread, number, &[at, own.start - at, rest[0], rest[1], 0, 0]);
        if outcome != Outcome::Returns(0) {
            return outcome;
        }
    }
    refuse(libc::ENOMEM)
}

fn hits_runner(at: u64, bytes: u64) -> bool {
    ARENA.overlap(&(at..at.saturating_add(bytes))).is_some()
}

/// Calls `each` for the parts of `range` that are not the runner's, until it says that this is enough.
fn for_each_part(range: Range<u64>, mut each: impl FnMut(Range<u64>) -> bool) {
    let mut at = range.start;
    while at < range.end {
        let own = ARENA.overlap(&(at..range.end)).unwrap_or(range.end..range.end);
        if own.start > at && !each(at..own.start) {
            return;
        }
        at = own.end.max(at);
    }
}

/// Gives the guest what was just mapped.
fn covered(outcome: Outcome, bytes: u64) -> Outcome {
    if let Outcome::Returns(at @ 1..) = outcome {
        let at = at.cast_unsigned();
        cover(&(at..at.saturating_add(bytes)));
    }
    outcome
}

fn cover(range: &Range<u64>) {
    if range.is_empty() {
        return;
    }
    if let Err(error) = MACHINE.cover_new(range) {
        fatal::end(error);
    }
}
