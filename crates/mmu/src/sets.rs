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

/// Ways whose order of use fits one word: four bits each.
const SHORT: usize = 16;
/// Words of a short set beside its keys: the order or the bits of use.
const ORDER: usize = 2;
/// The order of sixteen ways, the last one used least: what an empty set begins with.
const FIRST_ORDER: u64 = 0xfedc_ba98_7654_3210;

/// The store. A set of at most sixteen ways is its keys, padded to a multiple of four, and two words that hold how they
/// were used: exact LRU is a stack of way numbers. A larger set keeps its keys themselves in the order of use.
#[derive(Clone)]
pub struct Sets {
    words: Vec<u32>,
    used: Vec<u128>,
    random: Random,
    ways: usize,
    /// Groups of four keys in a short set; 0 for a long one.
    quads: usize,
    stride: usize,
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
        let (sets, ways) = (geometry.entries / geometry.ways, geometry.ways as usize);
        let quads = if ways <= SHORT { ways.div_ceil(4) } else { 0 };
        let stride = if quads > 0 { 4 * quads + ORDER } else { ways };
        let mut words = vec![NOTHING; stride * sets as usize];
        if quads > 0 {
            let first = if geometry.replacement == Replacement::Lru { FIRST_ORDER } else { 0 };
            for set in words.chunks_exact_mut(stride) {
                write_order(&mut set[4 * quads..], first);
            }
        }
        let bits = if quads == 0 && geometry.replacement == Replacement::Plru { sets as usize } else { 0 };
        Ok(Sets {
            words,
            used: vec![0; bits],
            random: Random::new(u64::from(geometry.entries)),
            ways,
            quads,
            stride,
            sets,
            mask: sets.is_power_of_two().then(|| sets - 1),
            replacement: geometry.replacement,
        })
    }

    /// Whether `key` was there; it is now. `key` is below 2^32 - 1.
    #[inline]
    pub fn touch(&mut self, key: u32) -> bool {
        match self.quads {
            1 => self.touch_short::<1>(key),
            2 => self.touch_short::<2>(key),
            3 => self.touch_short::<3>(key),
            4 => self.touch_short::<4>(key),
            _ => self.touch_long(key),
        }
    }

    #[inline]
    fn touch_short<const QUADS: usize>(&mut self, key: u32) -> bool {
        let first = self.index(key) * (4 * QUADS + ORDER);
        let Some(set) = self.words.get_mut(first..first + 4 * QUADS + ORDER) else { return false };
        let (keys, order) = set.split_at_mut(4 * QUADS);
        let equal = equal_ways::<QUADS>(keys, key);
        if self.replacement == Replacement::Lru {
            let old = u64::from(order[0]) | u64::from(order[1]) << 32;
            let last = 4 * (self.ways as u32 - 1);
            let way = if equal == 0 { (old >> last) & 15 } else { u64::from(equal.trailing_zeros()) };
            let Some(place) = keys.get_mut(way as usize) else { return false };
            *place = key;
            write_order(order, to_front(old, way));
            return equal != 0;
        }
        let found = (equal != 0).then_some(equal.trailing_zeros());
        let way = match self.replacement {
            Replacement::Random if found.is_some() => return true,
            Replacement::Random => self.random.below(self.ways as u64) as u32,
            _ => {
                let way = found.unwrap_or(order[0].trailing_ones());
                order[0] |= 1 << way;
                if order[0].count_ones() as usize == self.ways {
                    order[0] = if self.ways == 1 { 0 } else { 1 << way };
                }
                way
            }
        };
        keys[way as usize] = key;
        found.is_some()
    }

    fn touch_long(&mut self, key: u32) -> bool {
        let index = self.index(key);
        let first = index * self.stride;
        let Some(set) = self.words.get_mut(first..first + self.ways) else { return false };
        if set[0] == key && self.replacement == Replacement::Lru {
            return true;
        }
        let found = find(set, key);
        match self.replacement {
            Replacement::Lru => {
                set.copy_within(..found.unwrap_or(self.ways - 1), 1);
                set[0] = key;
            }
            Replacement::Random if found.is_some() => {}
            Replacement::Random => set[self.random.below(self.ways as u64) as usize] = key,
            Replacement::Plru => {
                let used = &mut self.used[index];
                let way = found.unwrap_or(used.trailing_ones() as usize);
                set[way] = key;
                *used |= 1 << way;
                if used.count_ones() as usize == self.ways {
                    *used = 1 << way;
                }
            }
        }
        found.is_some()
    }

    /// Entries in all.
    #[must_use]
    pub fn entries(&self) -> usize {
        self.ways * self.sets as usize
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
fn write_order(words: &mut [u32], order: u64) {
    words[0] = order as u32;
    words[1] = (order >> 32) as u32;
}

/// The stack of ways with `way` on top: the ways above it move down by one.
#[inline]
fn to_front(order: u64, way: u64) -> u64 {
    const ONES: u64 = 0x1111_1111_1111_1111;
    // Every way is in the stack once: exactly one nibble becomes zero, and the lowest borrow marks it.
    let difference = order ^ (way * ONES);
    let zero = difference.wrapping_sub(ONES) & !difference & (ONES << 3);
    let at = zero.trailing_zeros() & !3;
    let above = order & !(u64::MAX << at);
    let below = order & (u64::MAX << at) & !(15 << at);
    below | above << 4 | way
}

/// A bit for each way that holds `key`.
#[inline]
fn equal_ways<const QUADS: usize>(keys: &[u32], key: u32) -> u32 {
    let (quads, _) = keys.as_chunks::<4>();
    let mut equal = 0;
    for (quad, at) in quads.iter().take(QUADS).zip((0..).step_by(4)) {
        equal |= equal_in(quad, key) << at;
    }
    equal
}

/// A bit for each of four keys that is `key`; compiled without branches.
#[inline]
fn equal_in(quad: &[u32; 4], key: u32) -> u32 {
    let [a, b, c, d] = quad.map(|candidate| u32::from(candidate == key));
    a | b << 1 | c << 2 | d << 3
}

/// Where `key` stands in a long set, if anywhere.
#[inline]
fn find(set: &[u32], key: u32) -> Option<usize> {
    let (chunks, rest) = set.as_chunks::<4>();
    for (chunk, at) in chunks.iter().zip((0..).step_by(4)) {
        let equal = equal_in(chunk, key);
        if equal != 0 {
            return Some(at + equal.trailing_zeros() as usize);
        }
    }
    let at = chunks.len() * 4;
    rest.iter().position(|candidate| *candidate == key).map(|way| at + way)
}

impl fmt::Debug for Sets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sets({} entries, {} ways, {:?})", self.entries(), self.ways, self.replacement)
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
