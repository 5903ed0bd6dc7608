//! How much of its result a trial checks: the whole of it, or ranges that its seed draws.

use crate::units::Share;
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// Ranges of equal size into which a result is divided.
pub const RANGES: usize = 64;
/// Of as many ranges that lie one after the other, one is checked where not the whole is.
pub const ONE_OF: u64 = 16;

/// How much of its result a trial checks.
///
/// A fault that is there in every trial is found in the first block, which checks the whole. One that comes by chance is found in a trial that checks ranges with a
/// probability of 1/16 for each wrong word that lies in a range of its own: of 16 such trials with one wrong word each all are missed with 36 %, of 48 with 5 %.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verify {
    /// The whole.
    #[default]
    Whole,
    /// A sixteenth, in ranges that this seed draws, of a workload whose result can be checked in parts; else the whole.
    Ranges(u64),
}

impl Verify {
    /// Whether it is the whole.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        *self == Verify::Whole
    }
}

/// Ranges of a result that were drawn: one of each [`ONE_OF`] that lie one after the other, so that each word is among them with the same probability
/// and none of the result's quarters is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ranges(u64);

impl Ranges {
    /// The share of a result that is in them.
    #[expect(clippy::cast_precision_loss, reason = "16")]
    pub const SHARE: Share = Share(1.0 / ONE_OF as f64);

    /// Those of part `part` (a rank's table, one array of several) by this seed.
    #[must_use]
    pub fn drawn(seed: u64, part: usize) -> Ranges {
        let mut state = mixed(seed ^ mixed(part as u64));
        let mut bits = 0;
        for group in 0..RANGES as u64 / ONE_OF {
            state = mixed(state);
            bits |= 1 << (group * ONE_OF + state % ONE_OF);
        }
        Ranges(bits)
    }

    /// Whether range `range`, below [`RANGES`], is among them.
    #[must_use]
    #[inline]
    pub fn has(self, range: u64) -> bool {
        self.0 >> range & 1 == 1
    }

    /// Where they lie in a result of `length` items, in order. Of fewer items than [`RANGES`] some are empty.
    pub fn spans(self, length: usize) -> impl Iterator<Item = Range<usize>> {
        let border = move |range: usize| range * length / RANGES;
        (0..RANGES).filter(move |&range| self.has(range as u64)).map(move |range| border(range)..border(range + 1))
    }
}

/// The output function of SplitMix64 (Steele, Lea & Flood 2014).
fn mixed(state: u64) -> u64 {
    let z = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_quarter_has_one_range_and_every_range_its_turn() {
        let mut times = [0; RANGES];
        for seed in 0..1600 {
            let drawn = Ranges::drawn(seed, 0);
            assert_eq!(drawn, Ranges::drawn(seed, 0));
            let of_quarter = |quarter: usize| {
                let own = quarter * RANGES / 4..(quarter + 1) * RANGES / 4;
                own.filter(|&range| drawn.has(range as u64)).count()
            };
            assert_eq!([0, 1, 2, 3].map(of_quarter), [1; 4], "seed {seed}");
            (0..RANGES).filter(|&range| drawn.has(range as u64)).for_each(|range| times[range] += 1);
        }
        // 100 each; the standard deviation is 9.7.
        assert!(times.iter().all(|times| (50..=150).contains(times)), "{times:?}");
        let parts: Vec<Ranges> = (0..8).map(|part| Ranges::drawn(7, part)).collect();
        assert!(parts.iter().any(|part| *part != parts[0]), "{parts:?}");
    }

    #[test]
    fn spans_are_a_sixteenth_in_order_without_an_overlap() {
        for length in [64, 128, 1000, 1 << 24] {
            let spans: Vec<Range<usize>> = Ranges::drawn(3, 1).spans(length).collect();
            assert_eq!(spans.len(), 4);
            assert!(spans.windows(2).all(|two| two[0].end <= two[1].start), "{spans:?}");
            assert!(spans.iter().all(|span| span.start < span.end && span.end <= length), "{spans:?}");
            let items: usize = spans.iter().map(|span| span.len()).sum();
            assert!(items.abs_diff(length / 16) <= 4, "{items} of {length}");
        }
    }
}
