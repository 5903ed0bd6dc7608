//! From an interval to one of four outcomes.
//!
//! Everything is on the log scale; `delta` is relative, so the band of practical equality is ±ln(1 + delta). A verdict
//! is read off the printed interval and therefore never contradicts it; what can be taken away is confidence, when the
//! blocks were too few or not shown to be independent.

use crate::interval::Interval;
use crate::pricing::blocks_for;
use crate::ratio::{PairedRatio, SMALLEST_STUDY};
use crate::serial::Independence;
use crate::special::student_two_sided;

/// The outcome of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The whole interval lies beyond +delta or beyond -delta.
    DiffersByMore,
    /// The interval excludes no difference (0) and lies inside ±delta.
    DiffersByLess,
    /// The interval lies inside ±delta and contains 0.
    Equivalent,
    /// Nothing of this can be said yet.
    Undecided {
        /// About how many further blocks would decide, as far as can be told.
        more_blocks: Option<u32>,
        /// What stands in the way.
        reason: Reason,
    },
}

/// Why a comparison is undecided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// Fewer than [`SMALLEST_STUDY`] independent units.
    TooFewBlocks,
    /// The interval contains 0 and reaches beyond ±delta.
    TooWide,
    /// There is a difference, but it may be more or less than delta.
    StraddlesDelta,
    /// Successive blocks are correlated and could not be batched.
    NotIndependent,
    /// The claim would not survive the serial correlation that so few blocks cannot exclude.
    IndependenceUnproven,
}

/// Judges one ratio at the given confidence; a study with several ratios uses [`crate::judge`].
pub fn verdict(ratio: &PairedRatio, confidence: f64, delta: f64) -> Verdict {
    let undecided = |more_blocks, reason| Verdict::Undecided { more_blocks, reason };
    if ratio.blocks() < SMALLEST_STUDY {
        return undecided(Some((SMALLEST_STUDY - ratio.blocks()) as u32), Reason::TooFewBlocks);
    }
    if ratio.independence() == Independence::Rejected {
        return undecided(None, Reason::NotIndependent);
    }
    let Some(interval) = ratio.interval(confidence) else {
        return undecided(more_for_median(ratio, confidence), Reason::TooFewBlocks);
    };
    let claim = read(&interval, delta);
    let more = || more_blocks(ratio, &interval, edge_distance(claim, interval.centre, delta));
    match claim {
        Claim::TooWide => undecided(more(), Reason::TooWide),
        Claim::Straddles => undecided(more(), Reason::StraddlesDelta),
        // the guard: the lengthened interval must say the same
        _ if read(&interval.widened(ratio.inflation()), delta) != claim => {
            undecided(more(), Reason::IndependenceUnproven)
        }
        Claim::More => Verdict::DiffersByMore,
        Claim::Less => Verdict::DiffersByLess,
        Claim::Equal => Verdict::Equivalent,
    }
}

/// What an interval says, before the guards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Claim {
    More,
    Less,
    Equal,
    TooWide,
    Straddles,
}

/// Reads an interval of a log ratio against ±ln(1 + delta).
fn read(interval: &Interval, delta: f64) -> Claim {
    let band = delta.ln_1p();
    let inside = -band <= interval.lo && interval.hi <= band;
    match (interval.contains(0.0), inside) {
        (true, true) => Claim::Equal,
        (true, false) => Claim::TooWide,
        (false, true) => Claim::Less,
        (false, false) if interval.lo > band || interval.hi < -band => Claim::More,
        (false, false) => Claim::Straddles,
    }
}

/// Distance from the estimate to the edge that has to be cleared: ±ln(1 + delta), or 0 as well for "differs by less".
fn edge_distance(claim: Claim, centre: f64, delta: f64) -> f64 {
    let to_band = (centre.abs() - delta.ln_1p()).abs();
    if claim == Claim::Less { to_band.min(centre.abs()) } else { to_band }
}

/// Blocks still missing until the half-width, lengthened by the guard, is below `distance`; `None` when that is more
/// than 100 times the blocks there are, as for an estimate right on the edge.
fn more_blocks(ratio: &PairedRatio, interval: &Interval, distance: f64) -> Option<u32> {
    let units = ratio.units().len() as f64;
    let t = student_two_sided(interval.confidence, units - 1.0);
    let sd_equivalent = interval.half_width() * ratio.inflation() * units.sqrt() / t;
    let needed = blocks_for(sd_equivalent, distance, interval.confidence)? as usize * ratio.batch();
    let more = needed.saturating_sub(ratio.blocks()).max(1);
    (more <= 100 * ratio.blocks()).then_some(more as u32)
}

/// Blocks missing until the extremes of the sample bound the median at this confidence: 2^(1-n) <= 1 - confidence.
fn more_for_median(ratio: &PairedRatio, confidence: f64) -> Option<u32> {
    let needed = (1.0 - (1.0 - confidence).log2()).ceil() * ratio.batch() as f64;
    (needed.is_finite()).then(|| (needed as usize).saturating_sub(ratio.blocks()).max(1) as u32)
}
