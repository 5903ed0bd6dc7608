//! One processor's translations, one address at a time.
//!
//! A translation looks in the first-level TLB, the second-level TLB, then walks. A walk begins below the lowest table that a
//! paging-structure cache knows (Barr 2010) and loads one entry a level, each through the same caches that hold the
//! program's data. Under nested paging every guest table and finally the data lie at guest-physical addresses that are
//! translated on the way, by the nested TLB or by a walk of the second table with paging-structure caches of its own
//! (Bhargava 2008). Processors that cache *combined* entries (Intel SDM volume 3, "Combined mappings") know a guest
//! table's physical address at once; others know only the guest-physical one.
//!
//! What a translation does never depends on where a reference is answered. So references are queued as they are made and
//! looked up in the caches later, in the same order, one cache after the other.
//!
//! One page size is simulated at a time, so the sharing of a TLB between sizes, instruction fetches, prefetchers and the
//! accessed and dirty bits are left out. Caches fill every level on a miss (neither victim nor inclusive behaviour).

use crate::counts::{Counts, MEMORY, PLACES, Tally};
use crate::page::{Page, region_bits};
use crate::scheme::{Scheme, Setup};
use crate::sets::{Geometry, Impossible, Sets};
use crate::tables::{Line, Placement, Tables, data_line, key, place};
use crate::tape::Tape;

/// The most levels of a table.
pub const MOST_LEVELS: usize = 5;

/// The structures of one processor, all of them known numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Page sizes that it can map.
    pub pages: Vec<Page>,
    /// Table levels that it can walk, 4 or 5.
    pub levels: usize,
    /// First-level TLBs for data, by [`Page`].
    pub first: [Option<Geometry>; 3],
    /// Second-level TLBs, by [`Page`].
    pub second: [Option<Geometry>; 3],
    /// Paging-structure caches by the level of the entries they hold; those of levels 0 and 1 do not exist.
    pub walk_caches: [Option<Geometry>; MOST_LEVELS + 1],
    /// The same for the second table.
    pub nested_walk_caches: [Option<Geometry>; MOST_LEVELS + 1],
    /// Translations of guest-physical pages.
    pub nested_tlb: Option<Geometry>,
    /// Whether the paging-structure caches hold combined entries under nested paging.
    pub combined: bool,
    /// Data caches from the nearest on, this core's share of each; three at most.
    pub caches: Vec<Geometry>,
    /// The nearest cache that the walker reads through: 0 for L1, 1 for L2.
    pub walker_enters: usize,
}

/// Why a simulation cannot be set up.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SetupError {
    /// The processor cannot map such pages.
    #[error("{page} pages are not among those of this processor ({known}); choose one of them")]
    Page {
        /// The page requested.
        page: Page,
        /// Those it has.
        known: String,
    },
    /// The processor cannot walk so many levels.
    #[error("tables of {asked} levels; this processor supports 4 to {most}")]
    Levels {
        /// The levels requested.
        asked: usize,
        /// The most it has.
        most: usize,
    },
    /// It has no caches, or too many.
    #[error("{0} data caches; a processor is simulated with one to three")]
    Caches(usize),
    /// A structure cannot be built.
    #[error(transparent)]
    Impossible(#[from] Impossible),
}

/// The state of a simulated processor.
#[derive(Debug)]
pub struct Simulator {
    setup: Setup,
    page_bits: u32,
    first: Option<Sets>,
    second: Option<Sets>,
    walk: Walk,
    nested: Option<Nested>,
    tape: Tape,
    caches: Caches,
    /// Everything but references.
    counts: Counts,
}

/// One tree of tables and the caches of its upper entries.
#[derive(Debug)]
struct Walk {
    tables: Tables,
    /// Caches of its upper entries, from the lowest level on.
    caches: Vec<EntryCache>,
    leaf: usize,
    top: usize,
}

/// Holds entries of one level.
#[derive(Debug)]
struct EntryCache {
    level: usize,
    sets: Sets,
}

#[derive(Debug)]
struct Nested {
    walk: Walk,
    tlb: Option<Sets>,
    page_bits: u32,
    combined: bool,
}

#[derive(Debug)]
struct Caches {
    levels: Vec<Sets>,
    /// The nearest cache in which references of a kind are looked up.
    enters: [usize; KINDS],
    /// One line in 2^`thinning` is simulated: of each kind those whose number has none of these bits.
    thinning: u32,
    left_out: [Line; KINDS],
    tallies: [Tally; KINDS],
    /// References that are not yet looked up; the first `queued` of these.
    queue: Box<[Reference; QUEUE]>,
    queued: usize,
}

#[derive(Clone, Copy, Debug, Default)]
struct Reference {
    line: Line,
    kind: u32,
}

/// What a translation decided: that a TLB held it, or else at which level a walk begins.
const FIRST: u8 = 0;
const SECOND: u8 = u8::MAX;

/// Kinds of references: by the level of the entry, since few lines of one level may represent many of another, to the walked
/// table, to the second one for entries of the first, of which there are as few, and to the second one for data; then the
/// program's own.
const KINDS: usize = 3 * FEW + 1;
const FOR_ENTRIES: usize = FEW;
const FOR_DATA: usize = 2 * FEW;
const DATA: usize = 3 * FEW;
/// The lowest level whose entries are so few that every line of theirs is simulated.
const FEW: usize = 3;
/// References of a walk of two tables of five levels, and the data's own.
const MOST_REFERENCES: usize = 36;
/// References that are looked up together.
const QUEUE: usize = 512;

impl Simulator {
    /// A processor with everything empty.
    ///
    /// # Errors
    /// When the part lacks a page size or the levels, or has an impossible structure.
    pub fn new(part: &Part, setup: Setup) -> Result<Self, SetupError> {
        check(part, &setup)?;
        let translation = setup.scheme.translation();
        let tlb = |geometries: &[Option<Geometry>; 3]| {
            geometries.get(translation as usize).copied().flatten().map(Sets::new).transpose()
        };
        let application = match setup.scheme {
            Scheme::Shadow { .. } => translation,
            scheme => scheme.application_page(),
        };
        let nested = match setup.scheme {
            Scheme::Nested { host_backing, .. } => Some(Nested {
                walk: Walk::new(&part.nested_walk_caches, setup.host_tables, 2, host_backing, setup.levels)?,
                tlb: part.nested_tlb.map(Sets::new).transpose()?,
                page_bits: host_backing.bits(),
                combined: part.combined,
            }),
            _ => None,
        };
        Ok(Simulator {
            setup,
            page_bits: translation.bits(),
            first: tlb(&part.first)?,
            second: tlb(&part.second)?,
            walk: Walk::new(&part.walk_caches, setup.tables, 1, application, setup.levels)?,
            nested,
            tape: Tape::new(setup.repeats),
            caches: Caches::new(part, setup.thinning)?,
            counts: Counts::default(),
        })
    }

    /// Everything counted so far, or since [`Simulator::forget`].
    #[must_use]
    pub fn counts(&self) -> Counts {
        let sum = |kinds: &[Tally]| {
            kinds
                .iter()
                .map(Tally::places)
                .fold([0; PLACES], |sum, places| std::array::from_fn(|at| sum[at] + places[at]))
        };
        let (table, others) = self.caches.tallies.split_at(FEW);
        let (nested, data) = others.split_at(2 * FEW);
        Counts { table: sum(table), nested: sum(nested), data: sum(data), ..self.counts }
    }

    /// Whether the lines that were simulated can represent the others: strides that avoid them are told by their absence.
    #[must_use]
    pub fn is_fair(&self) -> bool {
        self.caches.tallies.iter().all(|tally| tally.is_fair(self.caches.thinning))
    }

    /// Counts from nothing again; what the processor holds stays.
    pub fn forget(&mut self) {
        self.counts = Counts::default();
        self.caches.tallies = Default::default();
    }

    /// Accesses every address in turn.
    pub fn run(&mut self, addresses: &[u64]) {
        self.counts.translations += addresses.len() as u64;
        for address in addresses {
            self.access(*address);
        }
        self.caches.look_up();
    }

    /// Translates an address and, where data fills the caches, reads it.
    #[inline]
    fn access(&mut self, address: u64) {
        self.translate(address);
        if self.setup.data_in_caches {
            let physical = place(self.setup.data, address, self.walk_page_bits());
            self.caches.refer(DATA, data_line(physical));
        }
        if self.caches.queued > QUEUE - MOST_REFERENCES {
            self.caches.look_up();
        }
    }

    #[inline]
    fn translate(&mut self, address: u64) {
        let Self { first, second, walk, counts, caches, tape, page_bits, .. } = self;
        tape.advance();
        let page = key(address >> *page_bits);
        let decided = tape.decide(|| {
            if first.as_mut().is_some_and(|tlb| tlb.touch(page)) {
                FIRST
            } else if second.as_mut().is_some_and(|tlb| tlb.touch(page)) {
                SECOND
            } else {
                walk.start(address)
            }
        });
        match decided {
            FIRST => counts.first_hits += 1,
            SECOND => counts.second_hits += 1,
            start => {
                counts.walks += 1;
                match self.nested {
                    None => walk.refer_from(start, address, 0, caches),
                    Some(_) => self.walk_both(start, address),
                }
            }
        }
    }

    /// The two-dimensional walk.
    fn walk_both(&mut self, start: u8, address: u64) {
        let data_bits = self.walk_page_bits();
        let Self { walk, nested: Some(nested), caches, counts, setup, tape, .. } = self else { return };
        let start = usize::from(start);
        // The table at which the walk begins: its physical address is known when a combined entry named it.
        let mut known = nested.combined && start < walk.top;
        for level in (walk.leaf..=start).rev() {
            if !known {
                nested.translate(walk.tables.frame(level, address), FOR_ENTRIES, caches, counts, tape);
            }
            known = false;
            walk.refer(level, address, 0, caches);
        }
        nested.translate(place(setup.data, address, data_bits), FOR_DATA, caches, counts, tape);
    }

    /// Bits of the page by which the program's data is placed: its own page in the walked table.
    #[inline]
    fn walk_page_bits(&self) -> u32 {
        region_bits(self.walk.leaf)
    }
}

impl Nested {
    #[inline]
    fn translate(
        &mut self,
        guest_physical: u64,
        kinds: usize,
        caches: &mut Caches,
        counts: &mut Counts,
        tape: &mut Tape,
    ) {
        counts.nested_translations += 1;
        let page = key(guest_physical >> self.page_bits);
        let decided = tape.decide(|| {
            if self.tlb.as_mut().is_some_and(|tlb| tlb.touch(page)) { FIRST } else { self.walk.start(guest_physical) }
        });
        match decided {
            FIRST => counts.nested_hits += 1,
            start => self.walk.refer_from(start, guest_physical, kinds, caches),
        }
    }
}

impl Walk {
    fn new(
        caches: &[Option<Geometry>; MOST_LEVELS + 1],
        placement: Placement,
        region: u32,
        page: Page,
        top: usize,
    ) -> Result<Self, Impossible> {
        let levels = caches.iter().enumerate().take(top + 1).skip(page.level() + 1);
        let caches = levels.filter_map(|(level, geometry)| Some((level, (*geometry)?)));
        let built = caches.map(|(level, geometry)| Ok(EntryCache { level, sets: Sets::new(geometry)? }));
        let caches = built.collect::<Result<_, _>>()?;
        Ok(Walk { tables: Tables::new(placement, region), caches, leaf: page.level(), top })
    }

    /// Refers to the entries from the level `start` down; `kinds` is the first kind of these references.
    #[inline]
    fn refer_from(&self, start: u8, address: u64, kinds: usize, caches: &mut Caches) {
        let mut level = usize::from(start);
        while level >= self.leaf {
            self.refer(level, address, kinds, caches);
            level -= 1;
        }
    }

    /// Refers to the entry of `level`.
    #[inline]
    fn refer(&self, level: usize, address: u64, kinds: usize, caches: &mut Caches) {
        caches.refer(kinds + level.min(FEW) - 1, self.tables.line(level, address));
    }

    /// The level of the first entry to load: below the lowest cached one. What was not cached is, from now on.
    #[inline]
    fn start(&mut self, address: u64) -> u8 {
        for EntryCache { level, sets } in &mut self.caches {
            if sets.touch(key(address >> region_bits(*level))) {
                return *level as u8 - 1;
            }
        }
        self.top as u8
    }
}

impl Caches {
    fn new(part: &Part, thinning: u32) -> Result<Self, Impossible> {
        for cache in &part.caches {
            cache.check()?;
        }
        // A cache of few sets cannot be thinned further, and all are thinned alike.
        let most = part.caches.iter().map(|cache| cache.sets().ilog2()).min();
        let thinning = thinning.min(most.unwrap_or(0));
        let thinned = part.caches.iter().map(|cache| Sets::thinned(*cache, thinning));
        let mut enters = [part.walker_enters; KINDS];
        enters[DATA] = 0;
        // Lines whose number ends so fill whole sets ([`Sets::thinned`]): what is left is a part of each cache.
        let left_out = std::array::from_fn(|kind| if kind % FEW == FEW - 1 { 0 } else { (1 << thinning) - 1 });
        Ok(Caches {
            levels: thinned.collect::<Result<_, _>>()?,
            enters,
            thinning,
            left_out,
            tallies: Default::default(),
            queue: Box::new([Reference::default(); QUEUE]),
            queued: 0,
        })
    }

    /// Makes a reference, which is looked up later if its line is simulated.
    #[inline(always)]
    #[allow(clippy::inline_always, reason = "it is most of a walk, and its call costs as much as it does")]
    fn refer(&mut self, kind: usize, line: Line) {
        self.tallies[kind].made += 1;
        let chosen = line & self.left_out[kind] == 0;
        // Without a branch, which would be a guess each time: what is not chosen is overwritten by the next one.
        self.queue[self.queued] = Reference { line, kind: kind as u32 };
        self.queued += usize::from(chosen);
    }

    /// Looks up what is queued. Every cache sees its references in the order in which they were made.
    fn look_up(&mut self) {
        let mut left = self.queued;
        for (place, cache) in self.levels.iter_mut().enumerate() {
            let mut missed = 0;
            for at in 0..left {
                let reference = self.queue[at];
                let kind = reference.kind as usize;
                let found = place >= self.enters[kind] && cache.touch(reference.line);
                self.tallies[kind].answered[place] += u64::from(found);
                self.queue[missed] = reference;
                missed += usize::from(!found);
            }
            left = missed;
        }
        for reference in &self.queue[..left] {
            self.tallies[reference.kind as usize].answered[MEMORY] += 1;
        }
        self.queued = 0;
    }
}

fn check(part: &Part, setup: &Setup) -> Result<(), SetupError> {
    if !(4..=part.levels).contains(&setup.levels) {
        return Err(SetupError::Levels { asked: setup.levels, most: part.levels });
    }
    if !(1..PLACES).contains(&part.caches.len()) {
        return Err(SetupError::Caches(part.caches.len()));
    }
    let asked = match setup.scheme {
        Scheme::Native { page } => [page, page],
        Scheme::Nested { guest_page, host_backing } | Scheme::Shadow { guest_page, host_backing } => {
            [guest_page, host_backing]
        }
    };
    let lacking = asked.into_iter().find(|page| !part.pages.contains(page));
    if let Some(page) = lacking {
        let known: Vec<_> = part.pages.iter().map(|page| page.label()).collect();
        return Err(SetupError::Page { page, known: known.join(", ") });
    }
    Ok(())
}
