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
/// The order of sixteen ways, the last one used least: what an empty set begins with.
const FIRST_ORDER: u64 = 0xfedc_ba98_7654_3210;
/// Tags in a word: eight bits of each key's hash.
const TAGS: usize = 8;
const ONES: u64 = 0x0101_0101_0101_0101;
const HIGH: u64 = ONES << 7;

/// The store. A set is found and ordered by a few words, apart from its keys: a tag of eight bits for each way, compared
/// eight at a time, then how the ways were used. Keys are read where a tag agrees, and written. Exact LRU of at most
/// sixteen ways is a stack of way numbers in one word; of more it is an age of eight bits for each way. A small set with LRU is its
/// keys in the order of use instead, a single large one a list and a hash table.
#[derive(Clone)]
pub struct Sets {
    kind: Kind,
    /// Tags and use, `stride` words for each set.
    words: Vec<u64>,
    /// Keys, padded to eight for each word of tags.
    keys: Vec<u32>,
    ordered: Vec<[u32; 4]>,
    list: List,
    random: Random,
    ways: usize,
    tag_words: usize,
    stride: usize,
    sets: u32,
    mask: Option<u32>,
    /// Neighbouring sets of the whole store that are one here, as a power of two.
    shift: u32,
    replacement: Replacement,
}

/// How sets are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// At most four ways, LRU: keys in the order of use.
    Ordered,
    /// At most eight.
    Eight,
    /// At most sixteen.
    Sixteen,
    /// More.
    Many,
    /// One set of many ways, LRU.
    List,
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
        Sets::thinned(geometry, 0)
    }

    /// One set for every 2^`shift` neighbouring ones of the whole store, to be touched by one key in 2^`shift` alone.
    pub(crate) fn thinned(whole: Geometry, shift: u32) -> Result<Self, Impossible> {
        whole.check()?;
        let geometry = Geometry { entries: ((whole.entries / whole.ways) >> shift).max(1) * whole.ways, ..whole };
        let (sets, ways) = (geometry.entries / geometry.ways, geometry.ways as usize);
        let is_lru = geometry.replacement == Replacement::Lru;
        let kind = match ways {
            0..=4 if is_lru => Kind::Ordered,
            0..=8 => Kind::Eight,
            9..=SHORT => Kind::Sixteen,
            _ if is_lru && sets == 1 => Kind::List,
            _ => Kind::Many,
        };
        let tag_words = ways.div_ceil(TAGS);
        let mut use_words = match (kind, geometry.replacement) {
            (Kind::Many, Replacement::Lru) => (0..tag_words as u64).map(first_ages).collect(),
            (Kind::Many, _) => vec![0; 2],
            _ => vec![if is_lru { FIRST_ORDER } else { 0 }],
        };
        let mut set = vec![0; tag_words];
        set.append(&mut use_words);
        let is_list = kind == Kind::List;
        let has_words = !is_list && kind != Kind::Ordered;
        Ok(Sets {
            kind,
            stride: set.len(),
            words: if has_words { set.repeat(sets as usize) } else { Vec::new() },
            keys: if has_words { vec![NOTHING; tag_words * TAGS * sets as usize] } else { Vec::new() },
            ordered: if kind == Kind::Ordered { vec![[NOTHING; 4]; sets as usize] } else { Vec::new() },
            list: List::new(if is_list { ways } else { 0 }),
            random: Random::new(u64::from(geometry.entries)),
            ways,
            tag_words,
            sets,
            mask: sets.is_power_of_two().then(|| (sets << shift) - 1),
            shift,
            replacement: geometry.replacement,
        })
    }

    /// Whether `key` was there; it is now. `key` is below 2^32 - 1.
    #[inline]
    pub fn touch(&mut self, key: u32) -> bool {
        let set = self.index(key);
        match self.ordered.get_mut(set) {
            Some(keys) => touch_ordered(keys, self.ways, key),
            None => self.touch_words(set, key),
        }
    }

    fn touch_words(&mut self, set: usize, key: u32) -> bool {
        match self.kind {
            Kind::Sixteen => self.touch_short::<2>(set, key),
            Kind::Many => self.touch_many(set, key),
            Kind::List => self.list.touch(key),
            Kind::Ordered | Kind::Eight => self.touch_short::<1>(set, key),
        }
    }

    /// Something of the set of `key`, so that its memory is on its way when it is touched.
    #[inline]
    pub(crate) fn peek(&self, key: u32) -> u64 {
        self.words.get(self.index(key) * self.stride).copied().unwrap_or(0)
    }

    /// Bytes that all of it takes.
    pub(crate) fn bytes(&self) -> usize {
        size_of_val(self.ordered.as_slice()) + size_of_val(self.words.as_slice()) + size_of_val(self.keys.as_slice())
    }

    #[inline]
    fn touch_short<const WORDS: usize>(&mut self, set: usize, key: u32) -> bool {
        let Some(words) = self.words.get_mut(set * (WORDS + 1)..(set + 1) * (WORDS + 1)) else { return false };
        let Some(keys) = self.keys.get_mut(set * WORDS * TAGS..(set + 1) * WORDS * TAGS) else { return false };
        let Some((used, tags)) = words.split_last_mut() else { return false };
        let tag = tag(key);
        let found = find(tags, keys, key, tag);
        let way = match self.replacement {
            Replacement::Lru => {
                let way = found.unwrap_or((*used >> (4 * (self.ways as u32 - 1))) as usize & 15);
                *used = to_front(*used, way as u64);
                way
            }
            Replacement::Random => match found {
                Some(_) => return true,
                None => self.random.below(self.ways as u64) as usize,
            },
            Replacement::Plru => {
                let way = found.unwrap_or(used.trailing_ones() as usize);
                *used |= 1 << way;
                if used.count_ones() as usize == self.ways {
                    *used = if self.ways == 1 { 0 } else { 1 << way };
                }
                way
            }
        };
        if found.is_none() {
            put(tags, keys, way, key, tag);
        }
        found.is_some()
    }

    fn touch_many(&mut self, set: usize, key: u32) -> bool {
        let Some(words) = self.words.get_mut(set * self.stride..(set + 1) * self.stride) else { return false };
        let width = self.tag_words * TAGS;
        let Some(keys) = self.keys.get_mut(set * width..(set + 1) * width) else { return false };
        let (tags, used) = words.split_at_mut(self.tag_words);
        let tag = tag(key);
        let found = find(tags, keys, key, tag);
        let way = match self.replacement {
            Replacement::Lru => {
                let way = found.unwrap_or_else(|| oldest(used, self.ways));
                renew(used, way);
                way
            }
            Replacement::Random => match found {
                Some(_) => return true,
                None => self.random.below(self.ways as u64) as usize,
            },
            Replacement::Plru => {
                let &mut [low, high] = used else { return false };
                let mut bits = u128::from(low) | u128::from(high) << 64;
                let way = found.unwrap_or(bits.trailing_ones() as usize);
                bits |= 1 << way;
                if bits.count_ones() as usize == self.ways {
                    bits = 1 << way;
                }
                used.copy_from_slice(&[bits as u64, (bits >> 64) as u64]);
                way
            }
        };
        if found.is_none() {
            put(tags, keys, way, key, tag);
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
            Some(mask) => ((key & mask) >> self.shift) as usize,
            None => ((u64::from(key.wrapping_mul(0x9e37_79b1)) * u64::from(self.sets)) >> 32) as usize,
        }
    }
}

/// Keys in the order of use; those beyond `ways` are never found.
#[inline]
fn touch_ordered(keys: &mut [u32; 4], ways: usize, key: u32) -> bool {
    let [a, b, c, d] = *keys;
    if a == key {
        return true;
    }
    let (second, third) = (b == key && ways > 1, c == key && ways > 2);
    *keys = [key, a, if second { c } else { b }, if second | third { d } else { c }];
    second | third | (d == key && ways > 3)
}

/// Eight bits that tell most keys of a set apart.
#[inline]
fn tag(key: u32) -> u8 {
    (key.wrapping_mul(0xc2b2_ae35) >> 24) as u8
}

/// A bit in the highest place of each byte of `word` that is `byte`; a byte above such a one may be marked, too.
#[inline]
fn bytes_that_are(word: u64, byte: u8) -> u64 {
    let difference = word ^ (ONES * u64::from(byte));
    difference.wrapping_sub(ONES) & !difference & HIGH
}

/// The way that holds `key`.
#[inline]
fn find(tags: &[u64], keys: &[u32], key: u32, tag: u8) -> Option<usize> {
    for (at, word) in tags.iter().enumerate() {
        let mut marked = bytes_that_are(*word, tag);
        while marked != 0 {
            let way = TAGS * at + marked.trailing_zeros() as usize / 8;
            if keys.get(way) == Some(&key) {
                return Some(way);
            }
            marked &= marked - 1;
        }
    }
    None
}

#[inline]
fn put(tags: &mut [u64], keys: &mut [u32], way: usize, key: u32, tag: u8) {
    if let (Some(word), Some(place)) = (tags.get_mut(way / TAGS), keys.get_mut(way)) {
        let shift = 8 * (way % TAGS);
        *word = *word & !(0xff << shift) | u64::from(tag) << shift;
        *place = key;
    }
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

/// Ages of an empty set: every way has another one.
fn first_ages(word: u64) -> u64 {
    (0..TAGS as u64).map(|at| (word * TAGS as u64 + at) << (8 * at)).sum()
}

/// The way of the greatest age, which is one less than there are ways.
#[inline]
fn oldest(ages: &[u64], ways: usize) -> usize {
    for (at, word) in ages.iter().enumerate() {
        // The lowest mark is always right.
        let marked = bytes_that_are(*word, ways as u8 - 1);
        if marked != 0 {
            return TAGS * at + marked.trailing_zeros() as usize / 8;
        }
    }
    0
}

/// Makes `way` the youngest: all that were younger age by one. Ages of ways that do not exist are above all others.
#[inline]
fn renew(ages: &mut [u64], way: usize) {
    let shift = 8 * (way % TAGS);
    let Some(old) = ages.get(way / TAGS).map(|word| word >> shift & 0xff).filter(|old| *old > 0) else { return };
    // Ages are at most 128: in each byte, 127 + old - age keeps its highest bit where age < old, and nothing borrows.
    let than = ONES * (127 + old);
    for word in ages.iter_mut() {
        *word += than.wrapping_sub(*word) >> 7 & ONES;
    }
    if let Some(word) = ages.get_mut(way / TAGS) {
        *word &= !(0xff << shift);
    }
}

/// One set of up to 128 ways in the exact order of use: a list of ways, and a hash table that finds them.
#[derive(Clone, Default)]
struct List {
    keys: Vec<u32>,
    /// The next older and the next younger way of each; the last place is the list's two ends.
    older: Vec<u8>,
    younger: Vec<u8>,
    /// The first way of each bucket, and the next one of the same bucket; [`NO_WAY`] for none.
    bucket: Vec<u8>,
    chain: Vec<u8>,
}

const BUCKETS: usize = 256;
const NO_WAY: u8 = u8::MAX;

impl List {
    fn new(ways: usize) -> Self {
        if ways == 0 {
            return List::default();
        }
        let ends = ways as u8;
        List {
            keys: vec![NOTHING; ways],
            older: (0..=ends).map(|way| if way == ends { 0 } else { way + 1 }).collect(),
            younger: (0..=ends).map(|way| if way == 0 { ends } else { way - 1 }).collect(),
            bucket: vec![NO_WAY; BUCKETS],
            chain: vec![NO_WAY; ways],
        }
    }

    #[inline]
    fn touch(&mut self, key: u32) -> bool {
        let ends = self.keys.len();
        let bucket = usize::from(tag(key));
        let mut at = self.bucket[bucket];
        while at != NO_WAY {
            if self.keys[usize::from(at)] == key {
                self.renew(at, ends);
                return true;
            }
            at = self.chain[usize::from(at)];
        }
        let oldest = self.younger[ends];
        self.forget(oldest);
        self.keys[usize::from(oldest)] = key;
        self.chain[usize::from(oldest)] = self.bucket[bucket];
        self.bucket[bucket] = oldest;
        self.renew(oldest, ends);
        false
    }

    #[inline]
    fn renew(&mut self, way: u8, ends: usize) {
        let first = self.older[ends];
        if first == way {
            return;
        }
        let (older, younger) = (self.older[usize::from(way)], self.younger[usize::from(way)]);
        self.younger[usize::from(older)] = younger;
        self.older[usize::from(younger)] = older;
        self.older[usize::from(way)] = first;
        self.younger[usize::from(way)] = ends as u8;
        self.younger[usize::from(first)] = way;
        self.older[ends] = way;
    }

    /// Takes a way's key out of its bucket.
    #[inline]
    fn forget(&mut self, way: u8) {
        let key = self.keys[usize::from(way)];
        if key == NOTHING {
            return;
        }
        let bucket = usize::from(tag(key));
        let next = self.chain[usize::from(way)];
        if self.bucket[bucket] == way {
            self.bucket[bucket] = next;
            return;
        }
        let mut at = self.bucket[bucket];
        while at != NO_WAY {
            if self.chain[usize::from(at)] == way {
                self.chain[usize::from(at)] = next;
                return;
            }
            at = self.chain[usize::from(at)];
        }
    }
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
