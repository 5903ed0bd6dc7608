//! Change points in the history of a series: the run from which on values are different.
//!
//! E-divisive (Matteson & James 2014): a split is scored by the energy distance of the values before and after it, which
//! sees a change of level or of spread whatever the distribution; the best split of all segments is kept if no more than a
//! share `level` of random reorderings inside the segments has a better one, and the search continues until one is not. The
//! test assumes that runs between two changes are exchangeable. Runs that resemble their neighbours, because a machine
//! drifts, raise the share of false changes (test `false_changes`).

use crate::rng::Rng;
use crate::runs::{self, Run, Shift};

/// Fewest runs of a segment.
pub const SEGMENT: usize = runs::FEWEST;
/// Fewest runs of a history: with fewer, no reordering test can reach a level of 5 %.
pub const FEWEST: usize = 8;

/// A change.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Change {
    /// The first run after it, from 0.
    pub at: usize,
    /// Share of reorderings with a better split, by the permutation test.
    pub p_value: f64,
    /// The step from the segment before to the segment after. It was looked for, so its interval is too short.
    pub shift: Shift,
}

/// The changes of a history, in order: `values` holds one number a run (natural logs for relative changes). `level` is the
/// share of histories without a change that may show one (0.01, say); `seed` fixes the reorderings. `None` below
/// [`FEWEST`] runs, for a value that is not finite, or a level outside 0.001..0.5.
pub fn changes(values: &[f64], level: f64, seed: u64) -> Option<Vec<Change>> {
    let unusable = values.iter().any(|v| !v.is_finite()) || !(0.001..=0.5).contains(&level);
    if values.len() < FEWEST || unusable {
        return None;
    }
    let mut rng = Rng::new(seed);
    // ascending ends of segments, with the p value of the change at each
    let mut ends: Vec<(usize, f64)> = vec![(0, 0.0), (values.len(), 0.0)];
    while let Some(best) = best_split(values, &ends) {
        let p_value = reordered(values, &ends, best.score, level, &mut rng);
        if p_value > level {
            break;
        }
        ends.push((best.at, p_value));
        ends.sort_by_key(|end| end.0);
    }
    let step = |window: &[(usize, f64)]| {
        let side = |from: usize, to: usize| -> Vec<Run> {
            values[from..to].iter().map(|&centre| Run { centre, error: 0.0 }).collect()
        };
        let shift = runs::compare(&side(window[0].0, window[1].0), &side(window[1].0, window[2].0))?;
        Some(Change { at: window[1].0, p_value: window[1].1, shift })
    };
    Some(ends.windows(3).filter_map(step).collect())
}

#[derive(Clone, Copy)]
struct Split {
    at: usize,
    score: f64,
}

/// The best split of any segment; `None` where no segment is long enough.
fn best_split(values: &[f64], ends: &[(usize, f64)]) -> Option<Split> {
    let of_segment = |pair: &[(usize, f64)]| {
        let best = best_of(&values[pair[0].0..pair[1].0])?;
        Some(Split { at: best.at + pair[0].0, ..best })
    };
    ends.windows(2).filter_map(of_segment).max_by(|one, two| one.score.total_cmp(&two.score))
}

/// The best split of one segment by nm/(n+m) times the energy distance (exponent 1).
fn best_of(segment: &[f64]) -> Option<Split> {
    let n = segment.len();
    let sum = |value: f64, others: &[f64]| others.iter().map(|other| (value - other).abs()).sum::<f64>();
    let (mut left, mut cross) = (0.0, 0.0);
    let mut right: f64 = (0..n).map(|i| sum(segment[i], &segment[i + 1..])).sum();
    let mut best: Option<Split> = None;
    for at in 1..n {
        let moved = segment[at - 1];
        let (to_left, to_right) = (sum(moved, &segment[..at - 1]), sum(moved, &segment[at..]));
        left += to_left;
        right -= to_right;
        cross += to_right - to_left;
        if at < SEGMENT || n - at < SEGMENT {
            continue;
        }
        let (a, b) = (at as f64, (n - at) as f64);
        let distance = 2.0 * cross / (a * b) - 2.0 * left / (a * (a - 1.0)) - 2.0 * right / (b * (b - 1.0));
        let score = a * b / (a + b) * distance;
        if best.is_none_or(|best| score > best.score) {
            best = Some(Split { at, score });
        }
    }
    best
}

/// The p value of a score by reordering values inside segments, (1 + better)/(1 + tried). Ends early once it cannot be
/// `level` or less any more (Besag & Clifford 1991).
fn reordered(values: &[f64], ends: &[(usize, f64)], score: f64, level: f64, rng: &mut Rng) -> f64 {
    let most = (10.0 / level).ceil() - 1.0;
    let mut shuffled = values.to_vec();
    let (mut better, mut tried) = (0.0, 0.0);
    while tried < most && 1.0 + better <= level * (most + 1.0) {
        for pair in ends.windows(2) {
            rng.shuffle(&mut shuffled[pair[0].0..pair[1].0]);
        }
        tried += 1.0;
        let found = best_split(&shuffled, ends).map_or(f64::NEG_INFINITY, |split| split.score);
        // sums in another order differ in the last digits
        better += f64::from(u8::from(found >= score - 1e-9 * score.abs()));
    }
    (1.0 + better) / (1.0 + tried)
}
