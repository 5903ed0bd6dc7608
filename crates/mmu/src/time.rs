//! From counts to time: a model of three terms, and how they overlap.
//!
//! *Walking* is each walk's beginning, a step and a load for each of its references, over the walkers that work side by
//! side. *Data* is the program's own misses, over those that may be under way at once (Little's law: a core with n line
//! buffers and a latency of t ends a miss every t / n). Where each access waits for the last both add up; else the longer
//! hides a share of the shorter. The first-order models of Chou, Fahs & Abraham (ISCA 2004) and Karkhanis & Smith (ISCA
//! 2004) justify the form; the hidden share is a prior, because no document gives it for walks.

use crate::counts::{Counts, MEMORY, PLACES};
use crate::machine::Timing;
use crate::stream::Dependence;

/// How accesses and walks overlap, as drawn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Overlap {
    /// Whether accesses wait for one another; then nothing overlaps and the rest does not matter.
    pub dependence: Dependence,
    /// The share of the shorter of data and walking that the longer hides.
    pub hidden: f64,
    /// The share of a walk's steps, in addition to its loads, that does not keep the walker from the next walk.
    pub pipelined: f64,
}

impl Overlap {
    /// Nothing overlaps.
    pub const NONE: Overlap = Overlap { dependence: Dependence::Dependent, hidden: 0.0, pipelined: 0.0 };
}

/// Nanoseconds of walking for each access: of latency where accesses wait for one another, else of the walkers' time.
#[must_use]
pub fn walking(counts: &Counts, timing: &Timing, overlap: Overlap) -> f64 {
    let (fixed, memory) = walking_parts(counts, timing, overlap);
    fixed + memory * timing.place_ns[MEMORY]
}

/// Walking as a line in the latency of memory: what does not depend on it, and how many such latencies an access pays.
#[must_use]
pub fn walking_parts(counts: &Counts, timing: &Timing, overlap: Overlap) -> (f64, f64) {
    let references: [u64; PLACES] = std::array::from_fn(|place| counts.table[place] + counts.nested[place]);
    let near: f64 = (0..MEMORY).map(|place| references[place] as f64 * timing.place_ns[place]).sum();
    let steps = references.iter().sum::<u64>() as f64 * timing.step_ns;
    let accesses = (counts.translations.max(1)) as f64;
    let to_memory = references[MEMORY] as f64 / accesses;
    match overlap.dependence {
        Dependence::Dependent => {
            let begun = counts.walks as f64 * timing.begin_ns + counts.second_hits as f64 * timing.second_tlb_ns;
            ((begun + steps + near) / accesses, to_memory)
        }
        // The lookup before a walk and a hit of the second TLB are latency, which independent accesses hide.
        Dependence::Independent => {
            let busy = (1.0 - overlap.pipelined) * steps + near;
            (busy / timing.walkers / accesses, to_memory / timing.walkers)
        }
    }
}

/// Nanoseconds for each access of waiting for data; hits of the nearest cache are free where accesses are independent.
#[must_use]
pub fn data(counts: &Counts, timing: &Timing, dependence: Dependence) -> f64 {
    let free = usize::from(dependence == Dependence::Independent);
    let waiting: f64 = (free..PLACES).map(|place| counts.data[place] as f64 * timing.place_ns[place]).sum();
    let side_by_side = if dependence == Dependence::Independent { timing.lines } else { 1.0 };
    counts.per_translation(1) * waiting / side_by_side
}

/// Both together.
#[must_use]
pub fn together(data: f64, walking: f64, overlap: Overlap) -> f64 {
    match overlap.dependence {
        Dependence::Dependent => data + walking,
        Dependence::Independent => data.max(walking) + (1.0 - overlap.hidden) * data.min(walking),
    }
}

/// The data term that makes both together `total`; `None` when walking alone takes longer.
#[must_use]
pub fn data_from_total(total: f64, walking: f64, hidden: f64) -> Option<f64> {
    let longer = total - (1.0 - hidden) * walking;
    if longer >= walking {
        return Some(longer);
    }
    let shorter = (total - walking) / (1.0 - hidden);
    (hidden < 1.0 && (0.0..=walking).contains(&shorter)).then_some(shorter)
}

/// The walking term that makes both together `total`; `None` when data alone takes longer.
#[must_use]
pub fn walking_from_total(total: f64, data: f64, hidden: f64) -> Option<f64> {
    data_from_total(total, data, hidden)
}
