//! How many blocks a precision needs; [`mod@crate::forecast`] says how long a study takes that stops on it.
//!
//! Assumes independent, about normal blocks with the noise of a pilot ([`crate::Estimate::noise`]). The noise itself is
//! only an estimate, so the answer is a plan and not a promise.

use crate::location::{Estimate, SMALLEST, expected_half_width};
use crate::long_run;

/// The most blocks that are considered.
const MOST: u32 = 1_000_000;

/// Half-width of the interval expected from `blocks` blocks of standard deviation `noise`, in the unit of `noise`. `None`
/// below [`SMALLEST`] blocks.
pub fn half_width_for(noise: f64, blocks: u32, confidence: f64) -> Option<f64> {
    Some(noise * expected_half_width(blocks as usize, confidence)?)
}

/// Fewest blocks whose expected half-width is at most `half_width`. From 30 blocks on intervals allow for serial
/// correlation and are about 30 % longer than those of 29, so a width that 29 do not reach may need about 50. `None` for a
/// width that is not above 0, or beyond a million blocks.
pub fn blocks_for(noise: f64, half_width: f64, confidence: f64) -> Option<u32> {
    let enough = |blocks: u32| half_width_for(noise, blocks, confidence).is_some_and(|found| found <= half_width);
    let short = long_run::FEWEST as u32;
    // within each range widths fall with every block
    let fewest = |from: u32, to: u32| {
        let (mut few, mut many) = (from, to);
        while few < many {
            let middle = few + (many - few) / 2;
            if enough(middle) { many = middle } else { few = middle + 1 }
        }
        enough(few).then_some(few)
    };
    if half_width <= 0.0 {
        return None;
    }
    fewest(SMALLEST as u32, short - 1).or_else(|| fewest(short, MOST))
}

/// Blocks in all until the interval of `estimate` at `confidence` is expected to be at most `half_width` long to each side;
/// the blocks that there are when it is. `None` as in [`blocks_for`].
pub fn blocks_to_reach(estimate: &Estimate, half_width: f64, confidence: f64) -> Option<u32> {
    let have = estimate.units as u32;
    if estimate.interval(confidence).half_width() <= half_width {
        return Some(have);
    }
    blocks_for(estimate.noise(), half_width, confidence).map(|needed| needed.max(have + 1))
}

/// The half-width (log scale) that fits in `seconds`. `None` when fewer than [`SMALLEST`] blocks do.
pub fn half_width_within(noise: f64, seconds_per_block: f64, confidence: f64, seconds: f64) -> Option<f64> {
    let blocks = (seconds / seconds_per_block).floor().min(f64::from(MOST));
    half_width_for(noise, blocks as u32, confidence)
}
