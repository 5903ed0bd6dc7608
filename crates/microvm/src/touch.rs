//! The pre-touch: a body that reads and writes back one word of every page.
//!
//! A first touch costs again inside a guest, on the second level of translation; a run that is timed must not pay it.

use baremark_model::seam::{Body, Work};
use baremark_model::team::Team;
use std::marker::PhantomData;
use std::ptr;

/// Words of the smallest page.
const STRIDE: usize = 4096 / size_of::<u64>();

/// Touches every page of a span, its pages split evenly among the ranks; what the memory holds does not change.
#[derive(Debug)]
pub struct Touch<'m> {
    start: *mut u64,
    words: usize,
    memory: PhantomData<&'m mut [u64]>,
}

// SAFETY: a Touch borrows its memory exclusively; `rank` gives each rank words that no other rank gets.
unsafe impl Sync for Touch<'_> {}

impl<'m> Touch<'m> {
    /// A touch of `memory`.
    pub fn new(memory: &'m mut [u64]) -> Self {
        Touch { start: memory.as_mut_ptr(), words: memory.len(), memory: PhantomData }
    }

    /// Touches that reach every page: one a stride, and the last word, since memory need not start on a page.
    fn touches(&self) -> usize {
        if self.words == 0 { 0 } else { self.words.div_ceil(STRIDE) + 1 }
    }
}

impl Body for Touch<'_> {
    fn work(&self, _ranks: usize) -> Work {
        let operations = self.touches() as u64;
        Work { operations, bytes_loaded: operations * 8, bytes_stored: operations * 8, ..Work::default() }
    }

    fn rank(&self, rank: usize, team: &Team, reps: u64) {
        let share = self.touches().div_ceil(team.ranks());
        let own = (rank * share).min(self.touches())..((rank + 1) * share).min(self.touches());
        for _ in 0..reps {
            for touch in own.clone() {
                let at = (touch * STRIDE).min(self.words - 1);
                // SAFETY: `at` is below `words`, which is not 0 when there is a touch; the memory is borrowed for as long
                // as this body lives, and ranks' touches do not overlap. Volatile, so that both accesses happen.
                unsafe {
                    let word = self.start.add(at);
                    ptr::write_volatile(word, ptr::read_volatile(word));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_touched_in_nothing() {
        let touch = Touch::new(&mut []);
        touch.rank(0, &Team::new(1), 3);
        assert_eq!(touch.work(1), Work { operations: 0, ..Work::default() });
    }

    #[test]
    fn nothing_changes_whatever_the_split() {
        let mut memory: Vec<u64> = (0..5 * STRIDE as u64 + 1).collect();
        let touch = Touch::new(&mut memory);
        let team = Team::new(4);
        (0..4).for_each(|rank| touch.rank(rank, &team, 2));
        assert_eq!(touch.work(4).operations, 7);
        assert!(memory.into_iter().eq(0..5 * STRIDE as u64 + 1));
    }
}
