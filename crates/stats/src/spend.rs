//! How many quads the trials of a study should have, so that its time goes where it makes the widest interval shorter.
//!
//! A block has one trial of every cell. A trial takes a time of its own, whatever it measures, and each of its quads takes another; what a ratio varies by from
//! block to block is what trials vary by, and what the quads of its trials leave: `between + Σ variance / quads`. More quads make blocks dearer and
//! quieter (Kalibera & Jones 2013, section 6.3; Cochran 1977, equation 10.27). Which number is best depends on what the other cells of the block take, and on
//! how much longer intervals of few blocks are. So all numbers are chosen together: for each variance that all ratios of a block could be brought to, the quads that
//! reach it in the least time (Lagrange: in proportion to `√(variance / seconds of a quad)`), and of these the choice that reaches the precision soonest, or has the
//! shortest interval where the time does not suffice. A ratio that lacks more has more time so, and a cell that no ratio needs has the fewest quads.
//!
//! The numbers rest on how much quads of the first block vary, and on what they took: neither says which way a ratio lies, so that the choice favours no result.

use crate::interim::confirmation;
use crate::location::SMALLEST;
use crate::precision::{blocks_for, half_width_for};

/// What a trial of one cell costs, and what its quads add to a ratio.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TrialCost {
    /// Seconds of a trial besides its quads.
    pub start_s: f64,
    /// Seconds of a quad, above 0.
    pub quad_s: f64,
    /// Variance of what one quad adds to a log ratio.
    pub variance: f64,
    /// Fewest quads, 1 at least.
    pub least: u32,
    /// Most quads, not below the fewest.
    pub most: u32,
}

/// A ratio that the study asks for.
#[derive(Debug, Clone, PartialEq)]
pub struct RatioNoise {
    /// The cells whose trials give it, as indices into the costs.
    pub cells: Vec<usize>,
    /// Variance between trials, whatever quads they have.
    pub between: f64,
}

/// What the study is after, and what is left for it when the first block is over.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Goal {
    /// Half-width to reach, on the log scale.
    pub half_width: f64,
    /// Confidence of the intervals, 0..1.
    pub confidence: f64,
    /// Seconds for all further blocks.
    pub seconds: f64,
    /// Fewest blocks, the first among them.
    pub smallest: u32,
    /// Most blocks, the first among them.
    pub most: u32,
}

/// Choices that are compared: of quads that differ by a factor of a hundred, 8 % from one to the next.
const STEPS: u32 = 60;

/// How good a choice is; the least is the best.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
enum Worth {
    /// The precision is reached after so many seconds.
    Reached(f64),
    /// It is not, and the half-width is this.
    Left(f64),
}

/// The quads of a trial of each cell from the second block on. Where the time does not suffice for the smallest study whatever is chosen: the fewest of each. `None`
/// without ratios, or for a cost or a variance that cannot be.
#[must_use]
pub fn quads(costs: &[TrialCost], ratios: &[RatioNoise], goal: &Goal) -> Option<Vec<u32>> {
    let sound = |cost: &TrialCost| {
        let times = cost.start_s >= 0.0 && cost.start_s.is_finite() && cost.quad_s > 0.0 && cost.quad_s.is_finite();
        times && cost.variance >= 0.0 && cost.variance.is_finite() && 1 <= cost.least && cost.least <= cost.most
    };
    let known = |ratio: &RatioNoise| {
        let cells = !ratio.cells.is_empty() && ratio.cells.iter().all(|cell| *cell < costs.len());
        cells && ratio.between >= 0.0 && ratio.between.is_finite()
    };
    if ratios.is_empty() || !costs.iter().all(sound) || !ratios.iter().all(known) {
        return None;
    }
    let fewest: Vec<u32> = costs.iter().map(|cost| cost.least).collect();
    let all_most: Vec<u32> = costs.iter().map(|cost| cost.most).collect();
    let (quietest, noisiest) = (noise(costs, ratios, &all_most).powi(2), noise(costs, ratios, &fewest).powi(2));
    let mut best = (worth(costs, ratios, &fewest, goal), fewest);
    for step in 0..=STEPS {
        // Where nothing varies there is nothing to choose.
        if quietest <= 0.0 {
            break;
        }
        let variance = quietest * (noisiest / quietest).powf(f64::from(step) / f64::from(STEPS));
        let chosen = bringing_to(costs, ratios, variance);
        let found = worth(costs, ratios, &chosen, goal);
        // Of two that are as good the one with fewer quads, and so more blocks.
        if found.is_some_and(|found| best.0.is_none_or(|best| found <= best)) {
            best = (found, chosen);
        }
    }
    Some(best.1)
}

/// The quads that bring every ratio's variance from block to block to this one in the least time, as far as cells permit.
fn bringing_to(costs: &[TrialCost], ratios: &[RatioNoise], variance: f64) -> Vec<u32> {
    let mut wanted: Vec<f64> = vec![0.0; costs.len()];
    for ratio in ratios {
        let left = variance - ratio.between;
        let weight: f64 = ratio.cells.iter().map(|&cell| (costs[cell].variance * costs[cell].quad_s).sqrt()).sum();
        for &cell in &ratio.cells {
            let TrialCost { quad_s, variance, .. } = costs[cell];
            // Quads that do not vary add nothing.
            let own = match (variance > 0.0, left > 0.0) {
                (false, _) => 0.0,
                (true, true) => (variance / quad_s).sqrt() * weight / left,
                (true, false) => f64::INFINITY,
            };
            wanted[cell] = wanted[cell].max(own);
        }
    }
    let bounded = |(wanted, cost): (&f64, &TrialCost)| {
        (wanted.ceil().min(f64::from(cost.most)) as u32).clamp(cost.least, cost.most)
    };
    wanted.iter().zip(costs).map(bounded).collect()
}

/// Standard deviation from block to block of the ratio that varies most.
fn noise(costs: &[TrialCost], ratios: &[RatioNoise], quads: &[u32]) -> f64 {
    let of_cell = |cell: &usize| costs[*cell].variance / f64::from(quads[*cell]);
    let of = |ratio: &RatioNoise| ratio.between + ratio.cells.iter().map(of_cell).sum::<f64>();
    ratios.iter().map(of).fold(0.0, f64::max).sqrt()
}

/// What a choice comes to; `None` where the smallest study does not fit the time.
fn worth(costs: &[TrialCost], ratios: &[RatioNoise], quads: &[u32], goal: &Goal) -> Option<Worth> {
    let of_cell = |(cost, quads): (&TrialCost, &u32)| cost.start_s + f64::from(*quads) * cost.quad_s;
    let block_s: f64 = costs.iter().zip(quads).map(of_cell).sum();
    let noise = noise(costs, ratios, quads);
    let seconds = |blocks: u32| f64::from(blocks.saturating_sub(1)) * block_s;
    let needed =
        blocks_for(noise, goal.half_width, goal.confidence).map(|needed| confirmation(needed.max(goal.smallest)));
    if let Some(needed) = needed.filter(|needed| *needed <= goal.most && seconds(*needed) <= goal.seconds) {
        return Some(Worth::Reached(seconds(needed)));
    }
    let affordable = (1.0 + (goal.seconds / block_s).floor()).min(f64::from(goal.most)) as u32;
    let enough = affordable >= goal.smallest.max(SMALLEST as u32);
    half_width_for(noise, affordable, goal.confidence).filter(|_| enough).map(Worth::Left)
}
