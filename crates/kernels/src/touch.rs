//! Walks every page: what brings an environment's page tables and TLBs to where a measurement may begin.
//!
//! The first touch of a page inside a virtual machine costs a fault there too, long after the host has the page. A team
//! walks its share of the pages, each by reading one word and writing it back, so that contents stay as they are.

use crate::share::share;
use baremark_model::seam::{Body, Work};
use baremark_model::team::Team;
use std::marker::PhantomData;

/// Memory whose pages are to be walked, one word for each 4 KiB.
#[derive(Debug)]
pub struct Touch<'m> {
    start: *mut u64,
    pages: usize,
    memory: PhantomData<&'m mut [u64]>,
}

// SAFETY: the memory is borrowed exclusively for the life of the kernel, and the ranks of a team walk separate pages.
unsafe impl Sync for Touch<'_> {}
// SAFETY: as above; nothing in it belongs to a thread.
unsafe impl Send for Touch<'_> {}

impl<'m> Touch<'m> {
    /// To walk `memory`, from its first word on.
    #[must_use]
    pub fn new(memory: &'m mut [u64]) -> Self {
        Touch { start: memory.as_mut_ptr(), pages: memory.len().div_ceil(PAGE_WORDS), memory: PhantomData }
    }
}

impl Body for Touch<'_> {
    fn work(&self, _ranks: usize) -> Work {
        let pages = self.pages as u64;
        Work { operations: pages, bytes_loaded: 8 * pages, bytes_stored: 8 * pages, ..Work::default() }
    }

    fn rank(&self, rank: usize, team: &Team, reps: u64) {
        let first = share(self.pages, rank, team.ranks());
        let last = share(self.pages, rank + 1, team.ranks());
        for _ in 0..reps {
            // SAFETY: pages `first..last` lie in the memory (`share` ends at `pages`), and no other rank walks them.
            unsafe { touch_pages(self.start, first, last) };
        }
    }
}

/// The measured loop: one word of each page from `first` to before `last`.
///
/// # Safety
/// The first words of these pages, counted from `start`, must be the caller's alone.
#[inline(never)]
unsafe fn touch_pages(start: *mut u64, first: usize, last: usize) {
    for page in first..last {
        // SAFETY: the caller's promise; volatile because reading and writing back has no effect but the page.
        unsafe {
            let word = start.add(page * PAGE_WORDS);
            word.write_volatile(word.read_volatile());
        }
    }
}

const PAGE_WORDS: usize = 512;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_stay_as_they_are() {
        let mut memory: Vec<u64> = (0..5000).collect();
        let body = Touch::new(&mut memory);
        assert_eq!(body.work(3).operations, 10);
        let team = Team::new(3);
        for rank in 0..3 {
            body.rank(rank, &team, 2);
        }
        assert!(memory.into_iter().eq(0..5000));
    }
}
