//! Known processors: their translation structures and latencies, each with its source and with what is not known of it.
//!
//! A file under `machines/` gives every number either as one value or as what it may be: `[low, high]` for a latency, all
//! alternatives for a size. A prediction draws from these, so that ignorance about a processor becomes width of an interval.
//! The files are part of the program; nothing is looked for at run time.

use crate::counts::{MEMORY, PLACES};
use crate::page::{PAGES, Page};
use crate::random::Random;
pub use crate::range::Range;
use crate::sets::{Geometry, REPLACEMENTS, Replacement};
use crate::simulator::{MOST_LEVELS, Part};
use baremark_model::config::{self, Reader, Section};
use baremark_model::problem::{Problems, nearest};

/// The files that are built in, by the processor's key.
const FILES: &[(&str, &str)] = &[
    ("nehalem-x5570", include_str!("../machines/nehalem-x5570.toml")),
    ("shanghai-8384", include_str!("../machines/shanghai-8384.toml")),
    ("cascade-lake", include_str!("../machines/cascade-lake.toml")),
    ("ice-lake", include_str!("../machines/ice-lake.toml")),
    ("sapphire-rapids", include_str!("../machines/sapphire-rapids.toml")),
    ("zen-2", include_str!("../machines/zen-2.toml")),
    ("zen-3", include_str!("../machines/zen-3.toml")),
    ("zen-4", include_str!("../machines/zen-4.toml")),
];
const TOP: &[&str] = &[
    "name",
    "clock_ghz",
    "pages",
    "levels",
    "cpuid",
    "first_tlb",
    "second_tlb",
    "walk_cache",
    "nested_walk_cache",
    "nested_tlb",
    "cache",
    "memory",
    "walker",
    "overlap",
];
const LEVEL_NAMES: [&str; MOST_LEVELS + 1] = ["", "", "pde", "pdpte", "pml4e", "pml5e"];

/// A structure and what its size may be.
#[derive(Clone, Debug, PartialEq)]
pub struct Shape {
    /// Entries, each alternative as likely; 0 represents a structure that does not exist.
    pub entries: Vec<u32>,
    /// Ways; 0 for as many as entries.
    pub ways: u32,
    /// Replacement, each alternative as likely.
    pub replacement: Vec<Replacement>,
}

/// A data cache.
#[derive(Clone, Debug, PartialEq)]
pub struct Cache {
    /// Its size in bytes.
    pub bytes: u64,
    /// Its ways.
    pub ways: u32,
    /// Cores that share it.
    pub shared_by: u32,
    /// Cycles from a load to its value.
    pub cycles: Range,
    /// Replacement, each alternative as likely.
    pub replacement: Vec<Replacement>,
}

/// A processor with what is known of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Machine {
    /// The word by which it is asked for.
    pub key: String,
    /// Its name.
    pub name: String,
    /// The family and the models by which `cpuid` names it.
    pub cpuid: (u32, Vec<u32>),
    /// Clock in GHz.
    pub clock_ghz: Range,
    /// Page sizes that it maps.
    pub pages: Vec<Page>,
    /// Table levels that it walks.
    pub levels: usize,
    first: [Option<Shape>; 3],
    second: [Option<Shape>; 3],
    second_cycles: Range,
    walk_caches: [Option<Shape>; MOST_LEVELS + 1],
    nested_walk_caches: [Option<Shape>; MOST_LEVELS + 1],
    nested_tlb: Option<Shape>,
    combined: bool,
    /// Data caches from the nearest on.
    pub caches: Vec<Cache>,
    /// Nanoseconds that memory adds to a miss of the last cache.
    pub memory_ns: Range,
    /// Walks that may be under way at once.
    pub walkers: Range,
    walker_enters: usize,
    begin_cycles: Range,
    step: Step,
    /// Misses of one core that may be under way at once.
    pub lines: Range,
    /// Latencies in nanoseconds that were measured, by place; they replace those above.
    pub place_ns: Option<[Range; PLACES]>,
}

/// What a reference of a walk costs in addition to its load.
#[derive(Clone, Debug, PartialEq)]
enum Step {
    /// So many cycles.
    Cycles(Range),
    /// What is left of a measured walk all of whose references L1 answered.
    Measured { cycles: Range, references: Vec<u32> },
}

/// A processor as drawn: every number one value.
#[derive(Clone, Debug, PartialEq)]
pub struct Drawn {
    /// Its structures.
    pub part: Part,
    /// Its latencies.
    pub timing: Timing,
}

/// Latencies in nanoseconds.
#[derive(Clone, Debug, PartialEq)]
pub struct Timing {
    /// A hit of the second-level TLB.
    pub second_tlb_ns: f64,
    /// What a load takes that is answered at each place.
    pub place_ns: [f64; PLACES],
    /// Beginning a walk.
    pub begin_ns: f64,
    /// Each reference of a walk, in addition to its load.
    pub step_ns: f64,
    /// Walks under way at once.
    pub walkers: f64,
    /// Misses under way at once.
    pub lines: f64,
}

/// The keys of all known processors.
pub fn known_keys() -> impl Iterator<Item = &'static str> {
    FILES.iter().map(|(key, _)| *key)
}

/// A processor that is not known.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MachineError {
    /// No file has this key.
    #[error("the processor '{key}' is not known; {remedy}")]
    Unknown {
        /// The key requested.
        key: String,
        /// The nearest one, or all.
        remedy: String,
    },
    /// Its file is wrong.
    #[error(transparent)]
    File(#[from] Problems),
}

/// The processor with a key.
///
/// # Errors
/// When no file has the key.
pub fn known(key: &str) -> Result<Machine, MachineError> {
    let keys: Vec<&str> = known_keys().collect();
    match FILES.iter().find(|(name, _)| *name == key) {
        Some((_, text)) => Ok(parse(key, text)?),
        None => Err(MachineError::Unknown { key: key.to_owned(), remedy: nearest(key, &keys) }),
    }
}

/// The known processor that `cpuid` (and /proc/cpuinfo) gives this family and model.
#[must_use]
pub fn recognised(family: u32, model: u32) -> Option<Machine> {
    let machines = FILES.iter().filter_map(|(key, text)| parse(key, text).ok());
    machines.into_iter().find(|machine| machine.cpuid.0 == family && machine.cpuid.1.contains(&model))
}

/// The known processor nearest to one that is not known: of the same maker, by family, then by model. Intel's have family 6, AMD's any
/// other. `None` where none of the maker's is known.
#[must_use]
pub fn nearest_to(family: u32, model: u32) -> Option<Machine> {
    let machines = FILES.iter().filter_map(|(key, text)| parse(key, text).ok());
    let same_maker = machines.filter(|machine| (machine.cpuid.0 == 6) == (family == 6));
    same_maker.min_by_key(|machine| {
        let model = machine.cpuid.1.iter().map(|known| known.abs_diff(model)).min().unwrap_or(u32::MAX);
        (machine.cpuid.0.abs_diff(family), model)
    })
}

/// Reads a processor's file. `key` names it in messages.
///
/// # Errors
/// Every mistake, with its line and what would be right.
pub fn parse(key: &str, text: &str) -> Result<Machine, Problems> {
    config::read(&format!("{key}.toml"), text, |reader, top| machine(reader, key, top))
}

/// Everything is read before anything is missed: a file shows all its mistakes at once.
fn machine(reader: &mut Reader, key: &str, top: &Section<'_>) -> Option<Machine> {
    reader.keys(top, TOP, &[]);
    let pages =
        reader.choices(top, "pages", &PAGES.map(Page::label)).into_iter().filter_map(|at| PAGES.get(at).copied());
    let pages = pages.collect();
    let name = reader.text(top, "name");
    let clock_ghz = Range::read(reader, top, "clock_ghz", 0.1, 10.0);
    let levels = reader.count(top, "levels", (4, 5));
    let cpuid = reader.section(top, "cpuid");
    reader.keys(&cpuid, &["family", "models"], &[]);
    let family = reader.count(&cpuid, "family", (0, 4096)).and_then(|family| u32::try_from(family).ok());
    let cpuid = (family, counts(reader, &cpuid, "models", (0, 4096)));
    let first = reader.section(top, "first_tlb");
    let first = by_page(reader, &first, &[]);
    let second = reader.section(top, "second_tlb");
    let second_cycles = Range::read(reader, &second, "cycles", 0.0, 100.0);
    let second = by_page(reader, &second, &["cycles"]);
    let walks = reader.section(top, "walk_cache");
    let walk_caches = by_level(reader, &walks, &["combined"]);
    let combined = reader.switch(&walks, "combined");
    let nested = reader.section(top, "nested_walk_cache");
    let nested_walk_caches = by_level(reader, &nested, &[]);
    let nested_tlb = optional_shape(reader, top, "nested_tlb");
    let caches = reader.sections(top, "cache");
    let caches = caches.iter().filter_map(|section| cache(reader, section)).collect();
    let memory = reader.section(top, "memory");
    reader.keys(&memory, &["ns"], &["source"]);
    let memory_ns = Range::read(reader, &memory, "ns", 1.0, 1000.0);
    let walker = reader.section(top, "walker");
    let optional = ["step_cycles", "hit_walk_cycles", "hit_walk_references", "source"];
    reader.keys(&walker, &["count", "enters", "begin_cycles"], &optional);
    let walkers = Range::read(reader, &walker, "count", 1.0, 64.0);
    let walker_enters = reader.choices(&walker, "enters", &["l1", "l2"]).first().copied();
    let begin_cycles = Range::read(reader, &walker, "begin_cycles", 0.0, 1000.0);
    let step = step(reader, &walker);
    let overlap = reader.section(top, "overlap");
    reader.keys(&overlap, &["lines"], &["source"]);
    let lines = Range::read(reader, &overlap, "lines", 1.0, 1000.0);
    Some(Machine {
        key: key.to_owned(),
        name: name?.to_owned(),
        cpuid: (cpuid.0?, cpuid.1?),
        clock_ghz: clock_ghz?,
        pages,
        levels: levels? as usize,
        first,
        second,
        second_cycles: second_cycles?,
        walk_caches,
        nested_walk_caches,
        nested_tlb,
        combined: combined?,
        caches,
        memory_ns: memory_ns?,
        walkers: walkers?,
        walker_enters: walker_enters?,
        begin_cycles: begin_cycles?,
        step: step?,
        lines: lines?,
        place_ns: None,
    })
}

/// One whole number, or all that it may be.
fn counts(reader: &mut Reader, section: &Section<'_>, key: &str, limits: (u64, u64)) -> Option<Vec<u32>> {
    let counts = reader.counts(section, key, limits)?;
    if counts.is_empty() {
        reader.wrong(section, key, format!("{key} is empty{}", section.inside()), "write at least one whole number");
    }
    counts.into_iter().map(|count| u32::try_from(count).ok()).collect()
}

fn step(reader: &mut Reader, walker: &Section<'_>) -> Option<Step> {
    if walker.has("step_cycles") {
        return Range::read(reader, walker, "step_cycles", 0.0, 1000.0).map(Step::Cycles);
    }
    if !walker.has("hit_walk_cycles") || !walker.has("hit_walk_references") {
        let remedy = "write step_cycles, or hit_walk_cycles and hit_walk_references";
        reader.wrong(walker, "step_cycles", "'step_cycles' is missing in [walker]", remedy);
    }
    let cycles = Range::read(reader, walker, "hit_walk_cycles", 1.0, 1000.0);
    let references = counts(reader, walker, "hit_walk_references", (1, 24))?;
    Some(Step::Measured { cycles: cycles?, references })
}

fn by_page(reader: &mut Reader, section: &Section<'_>, needed: &[&str]) -> [Option<Shape>; 3] {
    reader.keys(section, needed, &PAGES.map(Page::label));
    PAGES.map(|page| optional_shape(reader, section, page.label()))
}

fn by_level(reader: &mut Reader, section: &Section<'_>, needed: &[&str]) -> [Option<Shape>; MOST_LEVELS + 1] {
    reader.keys(section, needed, &LEVEL_NAMES[2..]);
    LEVEL_NAMES.map(|name| optional_shape(reader, section, name))
}

fn optional_shape(reader: &mut Reader, section: &Section<'_>, key: &str) -> Option<Shape> {
    if !section.has(key) {
        return None;
    }
    let section = &reader.section(section, key);
    reader.keys(section, &["entries", "ways", "source"], &["replacement"]);
    let entries = counts(reader, section, "entries", (0, 1 << 26));
    let ways = reader.count(section, "ways", (0, 128));
    let replacement = replacement(reader, section);
    reader.text(section, "source");
    let (entries, ways) = (entries?, ways? as u32);
    for count in entries.iter().filter(|count| **count > 0) {
        let ways = if ways == 0 { *count } else { ways };
        let each = replacement.iter().map(|policy| Geometry { entries: *count, ways, replacement: *policy }.check());
        if let Some(Err(why)) = each.into_iter().find(Result::is_err) {
            reader.wrong(section, "ways", format!("ways{}: {why}", section.inside()), "correct the numbers");
        }
    }
    Some(Shape { entries, ways, replacement })
}

fn replacement(reader: &mut Reader, section: &Section<'_>) -> Vec<Replacement> {
    if !section.has("replacement") {
        return vec![Replacement::Lru];
    }
    let chosen = reader.choices(section, "replacement", &REPLACEMENTS.map(|(word, _)| word));
    chosen.into_iter().filter_map(|index| REPLACEMENTS.get(index).map(|(_, policy)| *policy)).collect()
}

fn cache(reader: &mut Reader, section: &Section<'_>) -> Option<Cache> {
    reader.keys(section, &["bytes", "ways", "shared_by", "cycles", "source"], &["replacement"]);
    let (bytes, ways) = (reader.bytes(section, "bytes"), reader.count(section, "ways", (1, 128)));
    let shared_by = reader.count(section, "shared_by", (1, 1024));
    let cycles = Range::read(reader, section, "cycles", 1.0, 1000.0);
    let replacement = replacement(reader, section);
    reader.text(section, "source");
    let (bytes, ways) = (bytes?, ways? as u32);
    let lines = (bytes / 64) as u32;
    if let Err(why) = (Geometry { entries: lines, ways, replacement: Replacement::Lru }).check() {
        let what = format!("bytes{}: {bytes} bytes are lines that cannot be: {why}", section.inside());
        reader.wrong(section, "bytes", what, "correct the numbers");
    }
    Some(Cache { bytes, ways, shared_by: shared_by? as u32, cycles: cycles?, replacement })
}

impl Shape {
    fn draw(&self, random: &mut Random) -> Option<Geometry> {
        let entries = *self.entries.get(random.below(self.entries.len() as u64) as usize)?;
        let replacement = *self.replacement.get(random.below(self.replacement.len() as u64) as usize)?;
        let ways = if self.ways == 0 { entries } else { self.ways };
        (entries > 0).then_some(Geometry { entries, ways, replacement })
    }
}

impl Machine {
    /// One processor of those that this may be, alone at work.
    #[must_use]
    pub fn draw(&self, random: &mut Random) -> Drawn {
        self.draw_busy(random, 1)
    }

    /// One processor of those that this may be, with `busy` cores that do the same work side by side: each has its share of
    /// what they share.
    #[must_use]
    pub fn draw_busy(&self, random: &mut Random, busy: u32) -> Drawn {
        let mut tlb = |shapes: &[Option<Shape>; 3]| shapes.each_ref().map(|shape| shape.as_ref()?.draw(random));
        let (first, second) = (tlb(&self.first), tlb(&self.second));
        let mut by_level =
            |shapes: &[Option<Shape>; MOST_LEVELS + 1]| shapes.each_ref().map(|shape| shape.as_ref()?.draw(random));
        let (walk_caches, nested_walk_caches) = (by_level(&self.walk_caches), by_level(&self.nested_walk_caches));
        let nested_tlb = self.nested_tlb.as_ref().and_then(|shape| shape.draw(random));
        let caches = self.caches.iter().map(|cache| cache.share(random, busy)).collect();
        let part = Part {
            pages: self.pages.clone(),
            levels: self.levels,
            first,
            second,
            walk_caches,
            nested_walk_caches,
            nested_tlb,
            combined: self.combined,
            caches,
            walker_enters: self.walker_enters,
        };
        Drawn { part, timing: self.draw_timing(random) }
    }

    /// Latencies alone.
    #[must_use]
    pub fn draw_timing(&self, random: &mut Random) -> Timing {
        let ghz = self.clock_ghz.draw(random);
        let mut place_ns = [0.0; PLACES];
        for (place, cache) in place_ns.iter_mut().zip(&self.caches) {
            *place = cache.cycles.draw(random) / ghz;
        }
        let last = place_ns.get(self.caches.len().wrapping_sub(1)).copied().unwrap_or(0.0);
        place_ns[MEMORY] = last + self.memory_ns.draw(random);
        if let Some(measured) = &self.place_ns {
            // The nearer one is never slower, though intervals may meet.
            let mut least = 0.0_f64;
            place_ns = measured.each_ref().map(|range| {
                least = least.max(range.draw(random));
                least
            });
        }
        let begin = self.begin_cycles.draw(random);
        let nearest = place_ns[self.walker_enters.min(MEMORY)] * ghz;
        let step = match &self.step {
            Step::Cycles(cycles) => cycles.draw(random),
            Step::Measured { cycles, references } => {
                let count = references.get(random.below(references.len() as u64) as usize).copied().unwrap_or(1);
                ((cycles.draw(random) - begin) / f64::from(count.max(1)) - nearest).max(0.0)
            }
        };
        Timing {
            second_tlb_ns: self.second_cycles.draw(random) / ghz,
            place_ns,
            begin_ns: begin / ghz,
            step_ns: step / ghz,
            walkers: self.walkers.draw(random).round(),
            lines: self.lines.draw(random),
        }
    }
}

impl Cache {
    fn share(&self, random: &mut Random, busy: u32) -> Geometry {
        let sharers = u64::from(self.shared_by.min(busy).max(1));
        let sets = (self.bytes / 64 / sharers / u64::from(self.ways)).max(1) as u32;
        let replacement = self.replacement.get(random.below(self.replacement.len() as u64) as usize);
        Geometry {
            entries: sets * self.ways,
            ways: self.ways,
            replacement: replacement.copied().unwrap_or(Replacement::Lru),
        }
    }
}
