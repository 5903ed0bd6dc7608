//! A set-associative store of keys: every TLB, paging-structure cache and data cache of the simulation is one.
//!
//! A lookup that misses always ends in an insertion, so both are one operation, [`Sets::touch`]; it allocates nothing.
//! *LRU* is exact. *PLRU* is the bit-per-way form (a way's bit is set when used, all others are cleared when the last one
//! is set, the victim is the first way without one), which works for every number of ways; trees of the same depth lose
//! and keep nearly the same entries. *Random* draws its victims from a fixed seed.

use crate::random::Random;
use std::fmt;

/// Which entry makes room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replacement {
    /// The least recently used one.
    Lru,
    /// The first one whose bit of recent use is clear.
    Plru,
    /// Any.
    Random,
}

/// The words for [`Replacement`] in machine files.
pub const REPLACEMENTS: [(&str, Replacement); 3] =
    [("lru", Replacement::Lru), ("plru", Replacement::Plru), ("random", Replacement::Random)];

/// Entries, ways and replacement of one structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Entries in all.
    pub entries: u32,
    /// Entries in which one key may stand.
    pub ways: u32,
    /// Which of them makes room.
    pub replacement: Replacement,
}

/// A structure that cannot be built.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{entries} entries of {ways} ways; ways are 1 to {MOST_WAYS} and divide the entries, of which there are at most 2^26"
)]
pub struct Impossible {
    /// The entries asked for.
    pub entries: u32,
    /// The ways asked for.
    pub ways: u32,
}

/// The most ways of a structure: those of the largest fully associative TLB, with room.
pub const MOST_WAYS: u32 = 128;
/// Stands where there is no key. Keys are below it.
const NOTHING: u32 = u32::MAX;

/// The store.
#[derive(Clone)]
pub struct Sets {
    keys: Vec<u32>,
    used: Vec<u128>,
    random: Random,
    ways: usize,
    sets: u32,
    mask: Option<u32>,
    replacement: Replacement,
}

impl Geometry {
    /// Checks that a structure can have this shape.
    ///
    /// # Errors
    /// When ways do not divide the entries, or are none or too many.
    pub fn check(&self) -> Result<(), Impossible> {
        let fits = (1..=MOST_WAYS).contains(&self.ways)
            && self.entries >= self.ways
            && self.entries.is_multiple_of(self.ways)
            && self.entries <= 1 << 26;
        if fits { Ok(()) } else { Err(Impossible { entries: self.entries, ways: self.ways }) }
    }
}

impl Sets {
    /// An empty store.
    ///
    /// # Errors
    /// When it cannot have this shape.
    pub fn new(geometry: Geometry) -> Result<Self, Impossible> {
        geometry.check()?;
        let sets = geometry.entries / geometry.ways;
        let bits = if geometry.replacement == Replacement::Plru { sets as usize } else { 0 };
        Ok(Sets {
            keys: vec![NOTHING; geometry.entries as usize],
            used: vec![0; bits],
            random: Random::new(u64::from(geometry.entries)),
            ways: geometry.ways as usize,
            sets,
            mask: sets.is_power_of_two().then(|| sets - 1),
            replacement: geometry.replacement,
        })
    }

    /// Whether `key` was there; it is now. `key` is below 2^32 - 1.
    #[inline]
    pub fn touch(&mut self, key: u32) -> bool {
        let index = self.index(key);
        let first = index * self.ways;
        let Some(set) = self.keys.get_mut(first..first + self.ways) else { return false };
        if let Some(4) = lru_ways(self.replacement, self.ways) {
            return bubble::<4>(set, key);
        }
        if let Some(8) = lru_ways(self.replacement, self.ways) {
            return bubble::<8>(set, key);
        }
        let found = find(set, key);
        match self.replacement {
            Replacement::Lru => {
                set.copy_within(..found.unwrap_or(self.ways - 1), 1);
                set[0] = key;
            }
            Replacement::Plru => {
                let used = &mut self.used[index];
                let way = found.unwrap_or((!*used).trailing_zeros() as usize);
                set[way] = key;
                *used |= 1 << way;
                if used.count_ones() as usize == self.ways {
                    *used = if self.ways == 1 { 0 } else { 1 << way };
                }
            }
            Replacement::Random => {
                if found.is_none() {
                    set[self.random.below(self.ways as u64) as usize] = key;
                }
            }
        }
        found.is_some()
    }

    /// Entries in all.
    #[must_use]
    pub fn entries(&self) -> usize {
        self.keys.len()
    }

    #[inline]
    fn index(&self, key: u32) -> usize {
        match self.mask {
            Some(mask) => (key & mask) as usize,
            None => ((u64::from(key.wrapping_mul(0x9e37_79b1)) * u64::from(self.sets)) >> 32) as usize,
        }
    }
}

#[inline]
fn lru_ways(replacement: Replacement, ways: usize) -> Option<usize> {
    (replacement == Replacement::Lru).then_some(ways)
}

/// Least recently used in few ways, in one pass: each key moves down by one until the gap or the end is reached.
#[inline]
fn bubble<const WAYS: usize>(set: &mut [u32], key: u32) -> bool {
    let Some(set) = set.first_chunk_mut::<WAYS>() else { return false };
    let mut carried = key;
    for way in set {
        let old = *way;
        *way = carried;
        if old == key {
            return true;
        }
        carried = old;
    }
    false
}

/// Where `key` stands, if anywhere; eight ways at a time.
#[inline]
fn find(set: &[u32], key: u32) -> Option<usize> {
    let (chunks, rest) = set.as_chunks::<8>();
    for (chunk, at) in chunks.iter().zip((0..).step_by(8)) {
        let mut equal = 0_u32;
        for (way, candidate) in chunk.iter().enumerate() {
            equal |= u32::from(*candidate == key) << way;
        }
        if equal != 0 {
            return Some(at + equal.trailing_zeros() as usize);
        }
    }
    let at = chunks.len() * 8;
    rest.iter().position(|candidate| *candidate == key).map(|way| at + way)
}

impl fmt::Debug for Sets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sets({} entries, {} ways, {:?})", self.keys.len(), self.ways, self.replacement)
    }
}

impl fmt::Display for Replacement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Replacement::Lru => "lru",
            Replacement::Plru => "plru",
            Replacement::Random => "random",
        })
    }
}
