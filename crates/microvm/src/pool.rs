//! The order in which leaf tables take their pages.
//!
//! One after the other, or at random over the whole region: a kernel that has run for long hands out page tables from
//! all over its memory, and walks then touch tables that share neither cache lines' neighbours nor a translation. The
//! shuffle is Fisher and Yates's, done lazily, so that a machine that uses ten tables pays for ten.

use crate::mapping::Mapping;
use baremark_model::arm::GuestTables;
use std::io;
use std::slice;

/// Hands out the numbers 0 to `count - 1`, each once.
#[derive(Debug)]
pub(crate) struct Pool {
    count: u32,
    next: u32,
    shuffle: Option<Shuffle>,
}

/// The permutation so far: word *i* is 0 for "still *i*", else the number plus one.
#[derive(Debug)]
struct Shuffle {
    words: Mapping,
    state: u64,
}

impl Pool {
    /// A pool of `count` numbers in the given order.
    pub(crate) fn new(count: u32, order: GuestTables, seed: u64) -> io::Result<Self> {
        let shuffle = match order {
            GuestTables::Contiguous => None,
            GuestTables::Scattered => {
                let bytes = (count as usize * 4).next_multiple_of(4096);
                Some(Shuffle { words: Mapping::aligned(bytes, 4096)?, state: seed })
            }
        };
        Ok(Pool { count, next: 0, shuffle })
    }

    /// The next number; `None` when all are taken. Allocates nothing.
    pub(crate) fn take(&mut self) -> Option<u32> {
        let at = self.next;
        if at == self.count {
            return None;
        }
        self.next += 1;
        Some(match &mut self.shuffle {
            None => at,
            Some(shuffle) => shuffle.draw(at, self.count),
        })
    }
}

impl Shuffle {
    /// Swaps position `at` with a random one from `at` to `count - 1` and gives what is then at `at`.
    fn draw(&mut self, at: u32, count: u32) -> u32 {
        let left = u64::from(count - at);
        let other = at + u32::try_from((u128::from(self.random()) * u128::from(left)) >> 64).unwrap_or(0);
        let words = self.words();
        let value = |words: &[u32], at: u32| words[at as usize].checked_sub(1).unwrap_or(at);
        let drawn = value(words, other);
        words[other as usize] = value(words, at) + 1;
        drawn
    }

    /// SplitMix64 (Steele, Lea, Flood, OOPSLA 2014).
    fn random(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    fn words(&mut self) -> &mut [u32] {
        // SAFETY: the mapping is zeroed or written by us, aligned to a page, owned by this shuffle and borrowed with it.
        unsafe { slice::from_raw_parts_mut(self.words.pointer().as_ptr().cast(), self.words.bytes() / 4) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(order: GuestTables, seed: u64) -> Vec<u32> {
        let mut pool = Pool::new(1000, order, seed).expect("memory");
        std::iter::from_fn(|| pool.take()).collect()
    }

    #[test]
    fn each_number_comes_once_in_either_order() {
        assert!(drawn(GuestTables::Contiguous, 1).into_iter().eq(0..1000));
        let mut scattered = drawn(GuestTables::Scattered, 1);
        let neighbours = scattered.windows(2).filter(|pair| pair[0].abs_diff(pair[1]) == 1).count();
        assert!(neighbours < 20, "{neighbours} of 999 pairs are still neighbours; about 2 are by chance");
        scattered.sort_unstable();
        assert!(scattered.into_iter().eq(0..1000));
    }

    #[test]
    fn the_seed_decides_the_order() {
        assert_eq!(drawn(GuestTables::Scattered, 7), drawn(GuestTables::Scattered, 7));
        assert_ne!(drawn(GuestTables::Scattered, 7), drawn(GuestTables::Scattered, 8));
    }
}
