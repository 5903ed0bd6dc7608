//! The simulator against one that is slow and obvious: no queue, no sample, every structure a list in the order of use.

use crate::references::{bare, lru};
use baremark_mmu::counts::Counts;
use baremark_mmu::page::Page::{self, Huge, Large, Small};
use baremark_mmu::random::Random;
use baremark_mmu::scheme::{Scheme, Setup};
use baremark_mmu::sets::Geometry;
use baremark_mmu::simulator::{Part, Simulator};
use proptest::prelude::*;

/// Least recently used, by a list for each set.
struct Naive(Vec<Vec<u64>>, usize);

impl Naive {
    fn new(geometry: Geometry) -> Self {
        Naive(vec![Vec::new(); (geometry.entries / geometry.ways) as usize], geometry.ways as usize)
    }

    fn touch(&mut self, key: u64) -> bool {
        let sets = self.0.len() as u64;
        let set = &mut self.0[(key % sets) as usize];
        let found = set.iter().position(|there| *there == key);
        if let Some(at) = found {
            set.remove(at);
        }
        set.insert(0, key);
        set.truncate(self.1);
        found.is_some()
    }
}

fn built(geometry: Option<Geometry>) -> Option<Naive> {
    geometry.map(Naive::new)
}

struct Processor {
    combined: bool,
    enters: usize,
    page_bits: u32,
    data: bool,
    top: usize,
    first: Option<Naive>,
    second: Option<Naive>,
    /// The walked table and the second one: the leaf's level, and caches of entries by level.
    leaves: [usize; 2],
    walk_caches: [Vec<Option<Naive>>; 2],
    /// The second table's pages, where there is one.
    host: Option<(u32, Option<Naive>)>,
    caches: Vec<Naive>,
    counts: Counts,
}

fn bits(level: usize) -> u32 {
    12 + 9 * (level as u32 - 1)
}

/// The number of a page or line, with what is beyond `bits` mixed into the rest: guest tables lie that far away.
fn key(number: u64, bits: u32) -> u64 {
    let beyond = ((number >> bits) as u32).wrapping_mul(0x9e37_79b1) << 6;
    u64::from(number as u32 ^ beyond) & ((1 << bits) - 1)
}

/// Where contiguous tables lie in guest-physical memory.
fn frame(level: usize, address: u64) -> u64 {
    let table = address >> (bits(level) + 9);
    let begin = 1 << 44;
    if level == 1 { begin + (1 << 21) + (table << 12) } else { begin + (((level as u64) << 6 | (table & 63)) << 12) }
}

impl Processor {
    fn new(part: &Part, setup: &Setup) -> Self {
        let (translation, walked, host) = match setup.scheme {
            Scheme::Native { page } => (page, page, None),
            Scheme::Shadow { .. } => (setup.scheme.translation(), setup.scheme.translation(), None),
            Scheme::Nested { guest_page, host_backing } => (setup.scheme.translation(), guest_page, Some(host_backing)),
        };
        let all = |geometries: &[Option<Geometry>]| geometries.iter().map(|one| built(*one)).collect();
        Processor {
            combined: part.combined,
            enters: part.walker_enters,
            page_bits: translation.bits(),
            data: setup.data_in_caches,
            top: setup.levels,
            first: built(part.first[translation as usize]),
            second: built(part.second[translation as usize]),
            leaves: [walked.level(), host.map_or(1, Page::level)],
            walk_caches: [all(&part.walk_caches), all(&part.nested_walk_caches)],
            host: host.map(|page| (page.bits(), built(part.nested_tlb))),
            caches: part.caches.iter().map(|one| Naive::new(*one)).collect(),
            counts: Counts::default(),
        }
    }

    fn load(&mut self, line: u64, from: usize) -> usize {
        for (place, cache) in self.caches.iter_mut().enumerate().skip(from) {
            if cache.touch(line) {
                return place;
            }
        }
        3
    }

    /// The level of the first entry that is loaded.
    fn start(&mut self, tree: usize, address: u64) -> usize {
        for level in self.leaves[tree] + 1..=self.top {
            if self.walk_caches[tree][level].as_mut().is_some_and(|cache| cache.touch(key(address >> bits(level), 31)))
            {
                return level - 1;
            }
        }
        self.top
    }

    fn entry(&mut self, tree: usize, level: usize, address: u64) {
        let line = (tree as u64 + 1) << 30 | (level as u64) << 27 | key(address >> (bits(level) + 3), 27);
        let place = self.load(line, self.enters);
        if tree == 0 { self.counts.table[place] += 1 } else { self.counts.nested[place] += 1 }
    }

    fn guest_physical(&mut self, address: u64) {
        let Some((page_bits, tlb)) = &mut self.host else { return };
        self.counts.nested_translations += 1;
        if tlb.as_mut().is_some_and(|tlb| tlb.touch(key(address >> *page_bits, 31))) {
            self.counts.nested_hits += 1;
            return;
        }
        for level in (self.leaves[1]..=self.start(1, address)).rev() {
            self.entry(1, level, address);
        }
    }

    fn access(&mut self, address: u64) {
        self.counts.translations += 1;
        let page = address >> self.page_bits;
        if self.first.as_mut().is_some_and(|tlb| tlb.touch(page)) {
            self.counts.first_hits += 1;
        } else if self.second.as_mut().is_some_and(|tlb| tlb.touch(page)) {
            self.counts.second_hits += 1;
        } else {
            self.counts.walks += 1;
            let start = self.start(0, address);
            for level in (self.leaves[0]..=start).rev() {
                if level < start || !self.combined || start == self.top {
                    self.guest_physical(frame(level, address));
                }
                self.entry(0, level, address);
            }
            self.guest_physical(address);
        }
        if self.data {
            let place = self.load(address >> 6, 0);
            self.counts.data[place] += 1;
        }
    }
}

/// Any shape: entries a power of two times the ways, so that low bits number the sets.
fn shape() -> impl Strategy<Value = Geometry> {
    let ways = prop::sample::select(vec![1_u32, 2, 3, 4, 6, 8, 11, 16, 24]);
    (0_u32..3, ways).prop_map(|(sets, ways)| lru(ways << sets, ways))
}

fn parts() -> impl Strategy<Value = Part> {
    let maybe = || prop::option::of(shape());
    let tlbs = || prop::array::uniform3(maybe());
    let walks = || (maybe(), maybe(), maybe()).prop_map(|(pde, pdpte, pml4e)| [None, None, pde, pdpte, pml4e, None]);
    (tlbs(), tlbs(), walks(), walks(), maybe(), any::<bool>(), prop::collection::vec(shape(), 1..4), 0_usize..2)
        .prop_map(|(first, second, walk_caches, nested_walk_caches, nested_tlb, combined, caches, walker_enters)| {
            Part {
                first,
                second,
                walk_caches,
                nested_walk_caches,
                nested_tlb,
                combined,
                caches,
                walker_enters,
                ..bare()
            }
        })
}

fn schemes() -> impl Strategy<Value = Scheme> {
    let page = || prop::sample::select(vec![Small, Large, Huge]);
    prop_oneof![
        page().prop_map(|page| Scheme::Native { page }),
        (page(), page()).prop_map(|(guest_page, host_backing)| Scheme::Nested { guest_page, host_backing }),
        (page(), page()).prop_map(|(guest_page, host_backing)| Scheme::Shadow { guest_page, host_backing }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_count_is_that_of_the_naive_simulator(
        part in parts(),
        scheme in schemes(),
        (levels, data_in_caches) in (4_usize..=5, any::<bool>()),
        (seed, reach) in (any::<u64>(), 16_u32..33),
    ) {
        let setup = Setup { levels, data_in_caches, ..Setup::new(scheme) };
        let mut simulator = Simulator::new(&part, setup).unwrap();
        let mut naive = Processor::new(&part, &setup);
        let mut random = Random::new(seed);
        // Strides, repetitions and jumps, in runs of any length.
        let mut at = 0;
        for run in [1, 15, 700, 40] {
            let addresses: Vec<u64> = (0..run).map(|_| {
                at = match random.below(4) {
                    0 => random.below(1 << reach),
                    1 => at + 64,
                    2 => at + 4096,
                    _ => at,
                };
                at
            }).collect();
            simulator.run(&addresses);
            addresses.iter().for_each(|address| naive.access(*address));
            prop_assert_eq!(simulator.counts(), naive.counts);
        }
    }
}
