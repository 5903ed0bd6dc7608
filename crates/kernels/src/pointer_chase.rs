//! Pointer chase: each load's address is what the load before it gave, so that nothing can be overlapped.
//!
//! Every rank has lines of its own, joined in one random cycle over all of them: every line is visited before any is
//! visited again, and no prefetcher can guess the next. What an access costs is the latency of whatever level holds the
//! working set, and beyond the reach of the translation buffers that of a walk of the page tables besides.

use crate::cell::Cell;
use baremark_model::seam::{Body, Work};
use baremark_model::team::Team;
use std::hint::black_box;
use std::marker::PhantomData;

/// Accesses of one repetition on each rank.
pub const QUANTUM: u64 = 1 << 12;
/// Words of a line.
pub const LINE_WORDS: usize = 8;

/// The lines of all ranks and where each rank stands.
#[derive(Debug)]
pub struct PointerChase<'m> {
    ranks: Vec<Cell<Rank>>,
    memory: PhantomData<&'m mut [u64]>,
}

/// A line holds, in its first word, the address of the next one.
#[derive(Debug)]
struct Rank {
    first: *mut u64,
    lines: usize,
    at: *const u64,
    accesses: u64,
}

// SAFETY: the lines behind the pointers are borrowed exclusively for the life of the kernel, and each rank has its own.
unsafe impl Send for Rank {}

/// Memory that cannot serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{words} words; every rank needs at least two whole lines of {LINE_WORDS}")]
pub struct Shape {
    /// How many words it has.
    pub words: usize,
}

/// What walking the cycles found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Check {
    /// Accesses that were done, over all ranks.
    pub accesses: u64,
    /// Ranks that do not stand where they must, or whose lines are no longer one cycle.
    pub errors: u64,
}

impl<'m> PointerChase<'m> {
    /// Joins each rank's lines in a random cycle drawn from `seed`.
    ///
    /// # Errors
    /// When a rank has not at least two whole lines.
    pub fn new(memory: Vec<&'m mut [u64]>, seed: u64) -> Result<Self, Shape> {
        let fits = |words: &&'m mut [u64]| words.len() >= 2 * LINE_WORDS && words.len().is_multiple_of(LINE_WORDS);
        if let Some(words) = memory.iter().find(|words| !fits(words)) {
            return Err(Shape { words: words.len() });
        }
        let rank = |(words, rank): (&'m mut [u64], u64)| {
            join(words, seed.wrapping_add(rank));
            let first = words.as_mut_ptr();
            Cell::new(Rank { first, lines: words.len() / LINE_WORDS, at: first, accesses: 0 })
        };
        Ok(PointerChase { ranks: memory.into_iter().zip(0..).map(rank).collect(), memory: PhantomData })
    }

    /// Walks every rank's cycle once, line by line, and puts the ranks back to their first lines.
    pub fn check_and_reset(&mut self) -> Check {
        let mut check = Check::default();
        for rank in self.ranks.iter_mut().map(Cell::get_mut) {
            check.accesses += rank.accesses;
            check.errors += u64::from(!rank.is_right());
            (rank.at, rank.accesses) = (rank.first, 0);
        }
        check
    }
}

impl Rank {
    /// Whether the lines are one cycle and the rank stands where its accesses must have brought it. Works on indices that
    /// are checked, not on the pointers that the measured loop follows.
    fn is_right(&self) -> bool {
        // SAFETY: `lines` lines lie there, borrowed for the life of the kernel (`new`), and no body is at work on them, which
        // the exclusive borrow of all ranks in the one caller proves.
        let words = unsafe { std::slice::from_raw_parts(self.first, self.lines * LINE_WORDS) };
        let base = self.first as u64;
        let line_of = |address: u64| (address.wrapping_sub(base) / LINE_BYTES) as usize;
        let due = self.accesses % self.lines as u64;
        let (mut line, mut stands_right) = (0, false);
        for step in 0..self.lines as u64 {
            stands_right |= step == due && line == line_of(self.at as u64);
            let Some(&next) = words.get(line * LINE_WORDS) else { return false };
            line = line_of(next);
            if line == 0 && step + 1 < self.lines as u64 {
                return false;
            }
        }
        line == 0 && stands_right
    }
}

impl Body for PointerChase<'_> {
    fn work(&self, ranks: usize) -> Work {
        let operations = QUANTUM * ranks as u64;
        Work { operations, bytes_loaded: 8 * operations, ..Work::default() }
    }

    fn rank(&self, rank: usize, _team: &Team, reps: u64) {
        let Some(mut state) = self.ranks.get(rank).and_then(Cell::enter) else { return };
        // Through a pointer that the compiler cannot see through: the loop stays a function of its own.
        let chase: unsafe fn(*const u64, u64) -> *const u64 = black_box(pointer_chase);
        // SAFETY: the rank stands on one of its lines, all of which point to one another (`join`), and nobody changes them.
        state.at = unsafe { chase(state.at, reps * (QUANTUM / UNROLLED)) };
        state.accesses += reps * QUANTUM;
    }
}

/// The measured loop: `rounds` times sixteen loads, each of what the one before it pointed to.
///
/// # Safety
/// `at` must point to a word that holds the address of such a word, and so on.
#[inline(never)]
unsafe fn pointer_chase(mut at: *const u64, rounds: u64) -> *const u64 {
    for _ in 0..rounds {
        for _ in 0..UNROLLED {
            // SAFETY: the caller's promise. Volatile, so that every one is done.
            at = unsafe { at.read_volatile() } as *const u64;
        }
    }
    at
}

/// Makes one random cycle of all lines, by Sattolo's algorithm, and then addresses of numbers.
fn join(words: &mut [u64], seed: u64) {
    let lines = words.len() / LINE_WORDS;
    for (line, first) in words.iter_mut().step_by(LINE_WORDS).enumerate() {
        *first = line as u64;
    }
    let mut state = seed;
    for last in (1..lines).rev() {
        // The upper half of a product has a bias of lines / 2^64, which is of no matter here.
        let below = (u128::from(split_mix(&mut state)) * last as u128) >> 64;
        words.swap(last * LINE_WORDS, below as usize * LINE_WORDS);
    }
    let base = words.as_ptr() as u64;
    for first in words.iter_mut().step_by(LINE_WORDS) {
        *first = base + *first * LINE_BYTES;
    }
}

/// `SplitMix64`, G. Steele and others 2014.
fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

const LINE_BYTES: u64 = 8 * LINE_WORDS as u64;
const UNROLLED: u64 = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_visited_before_any_is_visited_again() {
        for lines in [2, 3, 64, 1000] {
            let mut words = vec![0; lines * LINE_WORDS];
            let body = PointerChase::new(vec![&mut words], 7).expect("whole lines");
            let first = body.ranks[0].enter().expect("free").first as u64;
            drop(body);
            let (mut address, mut seen) = (first, std::collections::BTreeSet::new());
            while seen.insert(address) {
                address = words[((address - first) / 8) as usize];
            }
            assert_eq!((seen.len(), address), (lines, first));
            assert!(seen.iter().all(|address| (address - first).is_multiple_of(64)));
        }
    }

    #[test]
    fn seeds_give_other_cycles() {
        let cycle = |seed| {
            let mut words = vec![0; 100 * LINE_WORDS];
            let base = words.as_ptr() as u64;
            join(&mut words, seed);
            words.iter().step_by(LINE_WORDS).map(|address| address - base).collect::<Vec<_>>()
        };
        assert_ne!(cycle(1), cycle(2));
        assert_eq!(cycle(1), cycle(1));
    }

    #[test]
    fn ranks_stand_where_their_accesses_brought_them() {
        let mut words = vec![vec![0; 77 * LINE_WORDS]; 2];
        let mut body = PointerChase::new(words.iter_mut().map(Vec::as_mut_slice).collect(), 3).expect("whole lines");
        let team = Team::new(2);
        for (rank, reps) in [(0, 3), (1, 1), (0, 2)] {
            body.rank(rank, &team, reps);
        }
        assert_eq!(body.check_and_reset(), Check { accesses: 6 * QUANTUM, errors: 0 });
        body.rank(1, &team, 1);
        body.ranks[1].get_mut().accesses += 1;
        assert_eq!(body.check_and_reset().errors, 1, "one access too few");
        assert_eq!(body.check_and_reset(), Check::default());
    }

    #[test]
    fn a_broken_cycle_is_found() {
        let mut words = vec![0; 16 * LINE_WORDS];
        let mut body = PointerChase::new(vec![&mut words], 3).expect("whole lines");
        let rank = body.ranks[0].get_mut();
        // SAFETY: the rank's first line, on which no body is at work: it points to itself.
        unsafe { *rank.first = rank.first as u64 };
        assert_eq!(body.check_and_reset().errors, 1);
    }

    #[test]
    fn memory_of_another_shape_is_refused() {
        for words in [0, 8, 20] {
            assert_eq!(PointerChase::new(vec![&mut vec![0; words]], 1).err(), Some(Shape { words }));
        }
    }
}
