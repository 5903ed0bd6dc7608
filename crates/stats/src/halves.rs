//! First half against second half of every phase: did something still move while it was measured?
//!
//! A phase that is slower at its end than at its start was too short a warm-in, a heating CPU or a page cache filling.
//! Random order keeps such drift out of the ratio; it is flagged because absolute values are not protected.

use crate::estimate::median;
use crate::interval::Interval;
use crate::location::Estimate;

/// Drift inside phases.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Drift {
    /// ln(second half / first half), estimate over phases with its interval.
    pub change: Interval,
    /// The interval lies wholly beyond ±ln(1 + tolerance).
    pub flagged: bool,
}

/// Medians of the first and second half of one phase's repetitions (the middle one of an odd count is left out).
/// `None` below 4 repetitions.
pub fn halves(phase: &[f64]) -> Option<(f64, f64)> {
    let half = phase.len() / 2;
    if half < 2 {
        return None;
    }
    median(&phase[..half]).zip(median(&phase[phase.len() - half..]))
}

/// Compares halves over phases, which are the units: the 99 % interval of the log change, so that a sound study is
/// flagged in at most one of a hundred analyses. `None` below 4 phases, or if a value is not positive.
pub fn drift(phases: &[(f64, f64)], tolerance: f64) -> Option<Drift> {
    if phases.iter().any(|&(first, second)| !(first > 0.0 && second > 0.0)) {
        return None;
    }
    let changes: Vec<f64> = phases.iter().map(|(first, second)| (second / first).ln()).collect();
    let change = Estimate::of(&changes)?.interval(0.99);
    let band = tolerance.ln_1p();
    Some(Drift { change, flagged: change.lo > band || change.hi < -band })
}
