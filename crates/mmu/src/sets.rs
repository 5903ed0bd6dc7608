//! A set-associative store of keys: every TLB, paging-structure cache and data cache of the simulation is one.
//!
//! A lookup that misses always ends in an insertion, so both are one operation, [`Sets::touch`]; it allocates nothing.
//! *LRU* is exact. *PLRU* is the bit-per-way form (a way's bit is set when used, all others are cleared when the last one
//! is set, the victim is the first way without one), which works for every number of ways; trees of the same depth lose
//! and keep nearly the same entries. *Random* draws its victims from a fixed seed.
//!
//! The streams that take longest to simulate miss everywhere, so a miss is what is made cheap: with LRU it writes one key
//! and moves one index, and no way's age is kept.

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
    "{entries} entries of {ways} ways; ways are 1 to {MOST_WAYS}, with plru to {MOST_PLRU_WAYS}, and divide the entries, of which \
     there are at most 2^26"
)]
pub struct Impossible {
    /// The entries requested.
    pub entries: u32,
    /// The ways requested.
    pub ways: u32,
}

/// The most ways of a structure: those of the largest fully associative TLB, with room.
pub const MOST_WAYS: u32 = 128;
/// The most ways of one with bits of recent use.
pub const MOST_PLRU_WAYS: u32 = 64;
/// Stands where there is no key. Keys are below it.
const NOTHING: u32 = u32::MAX;
/// Keys that are compared at once.
const LANES: usize = 8;

/// The store.
#[derive(Clone)]
pub struct Sets {
    kept: Kept,
    geometry: Geometry,
    /// The low bits of a key that number its set; among the sets alike in these a hash chooses one of `choices`.
    low: u32,
    choices: u32,
    /// Low bits that all keys of this store have in common.
    common: u32,
}

/// How keys are kept, by what is fastest for a shape.
#[derive(Clone)]
enum Kept {
    /// At most four ways, LRU: each set in the order of use.
    Ordered(Vec<[u32; 4]>),
    /// One set of more ways, LRU.
    Uses(Uses),
    /// More ways, LRU.
    Rings(Rings),
    /// Keys that stay where they were put.
    Fixed(Fixed),
}

impl Geometry {
    /// Checks that a structure can have this shape.
    ///
    /// # Errors
    /// When ways do not divide the entries, or are none or too many.
    pub fn check(&self) -> Result<(), Impossible> {
        let most = if self.replacement == Replacement::Plru { MOST_PLRU_WAYS } else { MOST_WAYS };
        let fits = (1..=most).contains(&self.ways)
            && self.entries >= self.ways
            && self.entries.is_multiple_of(self.ways)
            && self.entries <= 1 << 26;
        if fits { Ok(()) } else { Err(Impossible { entries: self.entries, ways: self.ways }) }
    }

    /// Sets of a shape that was checked.
    pub(crate) fn sets(&self) -> u32 {
        self.entries / self.ways
    }
}

impl Sets {
    /// An empty store.
    ///
    /// # Errors
    /// When it cannot have this shape.
    pub fn new(geometry: Geometry) -> Result<Self, Impossible> {
        Sets::thinned(geometry, 0)
    }

    /// The part of a store in which keys lie whose lowest `common` bits are alike, for these keys alone. Where the number of sets
    /// is a multiple of 2^`common` it behaves as that part of the whole does.
    pub(crate) fn thinned(whole: Geometry, common: u32) -> Result<Self, Impossible> {
        whole.check()?;
        let sets = (whole.sets() >> common).max(1);
        let geometry = Geometry { entries: sets * whole.ways, ..whole };
        let (count, ways) = (sets as usize, geometry.ways as usize);
        let kept = match geometry.replacement {
            Replacement::Lru if ways <= 4 => Kept::Ordered(vec![[NOTHING; 4]; count]),
            Replacement::Lru if count == 1 => Kept::Uses(Uses::new(ways)),
            Replacement::Lru => Kept::Rings(Rings { keys: Keys::new(count, ways), first: vec![0; count] }),
            Replacement::Plru | Replacement::Random => Kept::Fixed(Fixed::new(count, geometry)),
        };
        let low_bits = sets.trailing_zeros();
        Ok(Sets { kept, geometry, low: (1 << low_bits) - 1, choices: sets >> low_bits, common })
    }

    /// Whether `key` was there; it is now. `key` is below 2^32 - 1.
    #[inline]
    pub fn touch(&mut self, key: u32) -> bool {
        // What is small enough for its caller is here; the others are calls.
        let set = self.index(key);
        match &mut self.kept {
            Kept::Ordered(sets) => sets.get_mut(set).is_some_and(|set| touch_ordered(set, self.geometry.ways, key)),
            Kept::Uses(uses) => uses.touch(key),
            Kept::Rings(rings) => rings.touch(set, key),
            Kept::Fixed(fixed) => fixed.touch(set, key),
        }
    }

    #[inline]
    fn index(&self, key: u32) -> usize {
        let key = key >> self.common;
        let low = key & self.low;
        if self.choices == 1 { low as usize } else { self.chosen(key, low) }
    }

    #[cold]
    fn chosen(&self, key: u32, low: u32) -> usize {
        let hash = u64::from(spread(key >> self.low.trailing_ones()));
        ((hash * u64::from(self.choices)) >> 32) as usize * (self.low as usize + 1) + low as usize
    }
}

/// Keys in the order of use; those beyond `ways` are never found.
#[inline]
fn touch_ordered(keys: &mut [u32; 4], ways: u32, key: u32) -> bool {
    let [a, b, c, d] = *keys;
    if a == key {
        return true;
    }
    let (second, third) = (b == key && ways > 1, c == key && ways > 2);
    *keys = [key, a, if second { c } else { b }, if second | third { d } else { c }];
    second | third | (d == key && ways > 3)
}

/// Spreads a key's bits to the highest ones.
#[inline]
fn spread(key: u32) -> u32 {
    key.wrapping_mul(0x9e37_79b1)
}

/// The keys of each set, padded to whole lanes.
#[derive(Clone)]
struct Keys {
    all: Vec<u32>,
    width: usize,
    ways: usize,
}

impl Keys {
    fn new(sets: usize, ways: usize) -> Self {
        let width = ways.next_multiple_of(LANES);
        Keys { all: vec![NOTHING; width * sets], width, ways }
    }

    #[inline]
    fn of(&mut self, set: usize) -> &mut [u32] {
        &mut self.all[set * self.width..(set + 1) * self.width]
    }
}

/// Where a key is in its set.
#[inline]
fn find(keys: &[u32], key: u32) -> Option<usize> {
    for (at, lanes) in keys.as_chunks::<LANES>().0.iter().enumerate() {
        // It is in one lane at most: a sum over all is its place, without a branch for each.
        if lanes.iter().fold(false, |found, other| found | (*other == key)) {
            let place: u32 = lanes.iter().zip(0..).map(|(other, lane)| if *other == key { lane } else { 0 }).sum();
            return Some(at * LANES + place as usize);
        }
    }
    None
}

/// Sets in exact order of use: each is a ring that begins with the key used last, before which stands the one used least.
#[derive(Clone)]
struct Rings {
    keys: Keys,
    first: Vec<u8>,
}

impl Rings {
    #[inline(never)]
    fn touch(&mut self, set: usize, key: u32) -> bool {
        let ways = self.keys.ways;
        let (ring, first) = (self.keys.of(set), &mut self.first[set]);
        let begin = usize::from(*first);
        if ring[begin] == key {
            return true;
        }
        let Some(at) = find(ring, key) else {
            let begin = if begin == 0 { ways - 1 } else { begin - 1 };
            ring[begin] = key;
            *first = begin as u8;
            return false;
        };
        // All that were used since move on by one place.
        let mut moved = key;
        let mut move_on = |place: &mut u32| std::mem::swap(place, &mut moved);
        if at > begin {
            ring[begin..=at].iter_mut().for_each(move_on);
        } else {
            ring[begin..ways].iter_mut().for_each(&mut move_on);
            ring[..=at].iter_mut().for_each(move_on);
        }
        true
    }
}

/// Sets whose keys stay where they were put.
#[derive(Clone)]
struct Fixed {
    keys: Keys,
    victims: Victims,
}

/// How a place for a new key is found.
#[derive(Clone)]
enum Victims {
    /// By a bit of recent use for each way.
    Plru { recent: Vec<u64>, all: u64 },
    /// By chance.
    Random(Random),
}

impl Fixed {
    fn new(sets: usize, geometry: Geometry) -> Self {
        let victims = match geometry.replacement {
            Replacement::Random => Victims::Random(Random::new(u64::from(geometry.entries))),
            _ => Victims::Plru { recent: vec![0; sets], all: u64::MAX >> (u64::BITS - geometry.ways) },
        };
        Fixed { keys: Keys::new(sets, geometry.ways as usize), victims }
    }

    #[inline(never)]
    fn touch(&mut self, set: usize, key: u32) -> bool {
        let ways = self.keys.ways;
        let keys = self.keys.of(set);
        let found = find(keys, key);
        let way = match (&mut self.victims, found) {
            (Victims::Random(_), Some(_)) => return true,
            (Victims::Random(random), None) => random.below(ways as u64) as usize,
            (Victims::Plru { recent, all }, found) => {
                let recent = &mut recent[set];
                let way = found.unwrap_or(recent.trailing_ones() as usize);
                *recent |= 1 << way;
                if *recent == *all {
                    *recent = if ways == 1 { 0 } else { 1 << way };
                }
                way
            }
        };
        keys[way] = key;
        found.is_some()
    }
}

/// Uses that are written down before those of keys that are still held are copied together.
const USES: usize = 2048;
const BUCKETS: usize = 256;

/// One set in the exact order of use: its uses are written down one after the other, a use is blanked when the key is used
/// again, and the oldest that is not blank makes room. A hash table finds the last use of a key.
#[derive(Clone)]
struct Uses {
    ways: usize,
    held: usize,
    /// The keys used, from 1 on; [`NOTHING`] for a use that was followed by another of the same key.
    keys: Vec<u32>,
    /// For each use the one before it in its bucket; below `oldest` there is none.
    before: Vec<u16>,
    /// The last use in each bucket.
    latest: Vec<u16>,
    oldest: usize,
    next: usize,
}

impl Uses {
    fn new(ways: usize) -> Self {
        Uses {
            ways,
            held: 0,
            keys: vec![NOTHING; USES],
            before: vec![0; USES],
            latest: vec![0; BUCKETS],
            oldest: 1,
            next: 1,
        }
    }

    #[inline(never)]
    fn touch(&mut self, key: u32) -> bool {
        if self.keys[self.next - 1] == key {
            return true;
        }
        if self.next == USES {
            self.tidy();
        }
        self.link(key);
        // The bucket's chain now begins with this use.
        let mut above = self.next;
        let mut at = usize::from(self.before[above]);
        while at >= self.oldest && self.keys[at] != key {
            above = at;
            at = usize::from(self.before[at]);
        }
        let found = at >= self.oldest;
        if found {
            self.keys[at] = NOTHING;
            self.before[above] = self.before[at];
        } else if self.held < self.ways {
            self.held += 1;
        } else {
            while self.keys[self.oldest] == NOTHING {
                self.oldest += 1;
            }
            self.oldest += 1;
        }
        self.next += 1;
        found
    }

    /// Writes down a use at `next`, which is not counted yet.
    #[inline]
    fn link(&mut self, key: u32) {
        let latest = &mut self.latest[spread(key) as usize >> (u32::BITS - BUCKETS.ilog2())];
        self.before[self.next] = *latest;
        *latest = self.next as u16;
        self.keys[self.next] = key;
    }

    #[cold]
    fn tidy(&mut self) {
        self.latest.fill(0);
        let from = self.oldest;
        (self.oldest, self.next) = (1, 1);
        for at in from..USES {
            let key = self.keys[at];
            if key != NOTHING {
                self.link(key);
                self.next += 1;
            }
        }
    }
}

impl fmt::Debug for Sets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Sets({} entries, {} ways, {:?})",
            self.geometry.entries, self.geometry.ways, self.geometry.replacement
        )
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn a_part_of_a_store_behaves_as_it_does_within_the_whole(
            (eighths, ways) in (1_u32..12, prop::sample::select(vec![2_u32, 4, 5, 8, 11, 16])),
            plru in any::<bool>(),
            keys in prop::collection::vec(0_u32..2000, 1..600),
        ) {
            let replacement = if plru { Replacement::Plru } else { Replacement::Lru };
            let whole = Geometry { entries: 8 * eighths * ways, ways, replacement };
            let (mut all, mut part) = (Sets::new(whole)?, Sets::thinned(whole, 3)?);
            for key in keys {
                let found = all.touch(key);
                if key % 8 == 0 {
                    prop_assert_eq!(found, part.touch(key), "key {}", key);
                }
            }
        }
    }
}
