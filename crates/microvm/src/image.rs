//! The program's own code and static data, as loaded.
//!
//! The guest's tables over them are filled before the first run, or else every function of a fresh page would be a guest
//! page fault. On the second level a page is there when the guest has touched it: a [`Read`] does so before anything is
//! timed, or else the first call of a function that is rarely called would be a page fault of KVM's in a timed run. It reads what this process has mapped: pages that it has used itself or by the machine, with
//! their neighbours, which the kernel maps along (64 KiB by default), and what a rank that rests will call. That is a quarter of a program of which most is other commands'. The dynamic linker's list has the segments exactly, in a static program too; the vDSO is left out, since a body
//! has no business there and it lies in a block of its own.

use crate::guest;
use baremark_model::seam::{Body, Work};
use baremark_model::team::Team;
use baremark_sys::memory::mapped_pages;
use std::ffi::CStr;
use std::hint::black_box;
use std::ops::Range;
use std::slice;
use std::sync::atomic::{AtomicU8, Ordering};

const PAGE: usize = 4096;

/// Reads one byte of every page of the program that this process has mapped, its pages split evenly among the ranks.
#[derive(Debug)]
pub(crate) struct Read {
    pages: Vec<u64>,
}

impl Read {
    pub(crate) fn new() -> Self {
        for code in guest::code_of_rest() {
            // SAFETY: a byte of code of this program, which is readable as long as the process lives.
            black_box(unsafe { code.read_volatile() });
        }
        let all = |segment: &Range<u64>| -> Vec<u64> {
            (segment.start & !(PAGE as u64 - 1)..segment.end).step_by(PAGE).collect()
        };
        let mapped = |segment: Range<u64>| {
            mapped_pages(segment.start, segment.end - segment.start).unwrap_or_else(|_| all(&segment))
        };
        Read { pages: segments().into_iter().flat_map(mapped).collect() }
    }

    /// The address of each page.
    pub(crate) fn pages(&self) -> &[u64] {
        &self.pages
    }
}

impl Body for Read {
    fn work(&self, _ranks: usize) -> Work {
        let operations = self.pages.len() as u64;
        Work { operations, bytes_loaded: operations, ..Work::default() }
    }

    fn rank(&self, rank: usize, team: &Team, reps: u64) {
        let share = self.pages.len().div_ceil(team.ranks());
        for _ in 0..reps {
            for &page in self.pages.iter().skip(rank * share).take(share) {
                // SAFETY: the first byte of a page of a loaded segment: readable as long as the process lives. Data may be
                // written meanwhile, and an atomic load of one byte is no race with that.
                black_box(unsafe { AtomicU8::from_ptr(page as *mut u8) }.load(Ordering::Relaxed));
            }
        }
    }
}

/// Address ranges of every loaded segment of the program and its libraries.
pub(crate) fn segments() -> Vec<Range<u64>> {
    let mut found: Vec<Range<u64>> = Vec::new();
    // SAFETY: `note` is called during the call only, with `found` as its last argument.
    unsafe { libc::dl_iterate_phdr(Some(note), (&raw mut found).cast()) };
    found
}

unsafe extern "C" fn note(info: *mut libc::dl_phdr_info, _size: usize, found: *mut libc::c_void) -> libc::c_int {
    // SAFETY: the linker passes a filled structure, valid during the call, and our own argument from `segments`.
    let (info, found) = unsafe { (&*info, &mut *found.cast::<Vec<Range<u64>>>()) };
    // SAFETY: a name, where there is one, ends in NUL.
    let is_vdso =
        !info.dlpi_name.is_null() && unsafe { CStr::from_ptr(info.dlpi_name) }.to_bytes().starts_with(b"linux-vdso");
    if is_vdso || info.dlpi_phdr.is_null() {
        return 0;
    }
    // SAFETY: the structure says how many headers there are.
    let headers = unsafe { slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()) };
    for header in headers.iter().filter(|header| header.p_type == libc::PT_LOAD) {
        let start = info.dlpi_addr + header.p_vaddr;
        found.push(start..start + header.p_memsz);
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    static DATA: [u8; 3] = [1, 2, 3];

    #[test]
    fn code_and_data_of_this_program_are_among_them() {
        let segments = segments();
        let has = |address: usize| segments.iter().any(|segment| segment.contains(&(address as u64)));
        assert!(has(note as *const () as usize) && has(DATA.as_ptr().addr()), "{segments:x?}");
        assert!(!has(std::ptr::from_ref(&segments).addr()), "the stack is not a segment");
    }

    #[test]
    fn every_page_that_is_used_is_read_by_one_rank() {
        black_box(black_box(&DATA)[0]);
        let (segments, read, team) = (segments(), Read::new(), Team::new(3));
        let page_of = |address: usize| (address & !(PAGE - 1)) as u64;
        for used in [note as *const () as usize, DATA.as_ptr().addr()] {
            assert!(read.pages.contains(&page_of(used)), "{used:x} of {:x?}", read.pages);
        }
        let is_ours = |page: &u64| segments.iter().any(|it| page + PAGE as u64 > it.start && *page < it.end);
        assert!(read.pages.iter().all(is_ours));
        let share = read.pages.len().div_ceil(3);
        assert!(3 * share >= read.pages.len());
        (0..3).for_each(|rank| read.rank(rank, &team, 1));
    }
}
