//! What an answer will cost, from the noise of an A/A run on this machine.
//!
//! Assumes about normal, independent log ratios with the standard deviation seen; the standard deviation itself is only
//! an estimate, so a price is a plan and not a promise.

use crate::special::student_two_sided;
use crate::stopping::StoppingRule;

/// Noise of a machine for one kind of block.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Noise {
    /// Standard deviation of the log ratio of a block between equal arms.
    pub sd: f64,
    /// Wall time of a block, seconds.
    pub seconds_per_block: f64,
}

/// The price of a precision: "±1 % needs about 34 blocks, 4 min; in 60 s you get ±2.1 %".
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Price {
    /// Blocks after which the interval is expected to be short enough, by the t interval alone.
    pub blocks: u32,
    /// Blocks that the stopping rule will take: rounded up to a look, and the confirmation.
    pub blocks_with_confirmation: u32,
    /// Wall time of these, seconds.
    pub seconds: f64,
}

/// Smallest n (>= 3) with t(n-1) sd / √n <= half_width; `None` if a million blocks do not do, or a width of 0 is asked.
pub fn blocks_for(sd: f64, half_width: f64, confidence: f64) -> Option<u32> {
    let reached = |n: u32| half_width_for(sd, n, confidence).is_some_and(|w| w <= half_width);
    if !(half_width > 0.0 && reached(MOST_BLOCKS)) {
        return None;
    }
    let (mut short, mut enough) = (2, MOST_BLOCKS);
    while enough - short > 1 {
        let middle = short + (enough - short) / 2;
        if reached(middle) {
            enough = middle;
        } else {
            short = middle;
        }
    }
    Some(enough)
}

/// Half-width (log scale) expected from `blocks` blocks: t(n-1) sd / √n. `None` below 3.
pub fn half_width_for(sd: f64, blocks: u32, confidence: f64) -> Option<f64> {
    let n = f64::from(blocks);
    (blocks >= 3).then(|| student_two_sided(confidence, n - 1.0) * sd / n.sqrt())
}

/// The price of a relative `precision` (0.01 for 1 %) under `rule`'s looks and confirmation.
pub fn price(noise: Noise, precision: f64, confidence: f64, rule: &StoppingRule) -> Option<Price> {
    let blocks = blocks_for(noise.sd, precision.ln_1p(), confidence)?;
    let steps = blocks.saturating_sub(rule.first).div_ceil(rule.every.max(1));
    let look = rule.first + steps * rule.every;
    let blocks_with_confirmation = (look + rule.every).max(rule.confirmed);
    let seconds = f64::from(blocks_with_confirmation) * noise.seconds_per_block;
    Some(Price { blocks, blocks_with_confirmation, seconds })
}

/// The relative precision that fits in `seconds`: e^w - 1 for the blocks that can be finished. `None` below 3 blocks.
pub fn precision_within(noise: Noise, seconds: f64, confidence: f64) -> Option<f64> {
    let blocks = (seconds / noise.seconds_per_block).floor().min(f64::from(MOST_BLOCKS));
    Some(half_width_for(noise.sd, blocks as u32, confidence)?.exp_m1())
}

const MOST_BLOCKS: u32 = 1_000_000;
