//! One number for a trial: a robust summary of its quads.
//!
//! A quad is four phases of two arms, A B B A or B A A B, and yields one log ratio: the mean of ln(B) less the mean of
//! ln(A), in which a linear drift cancels. A trial holds many short quads. Its value is their 20 % trimmed mean, so that
//! a few quads in which somebody else took the CPU do not move it; the spread of quads inside the trial is not used for
//! intervals, because trials vary by more than their quads tell.

use crate::estimate::{mean, median, sd, sorted};

/// Fewest quads of a trimmed mean: below five, 20 % is less than one value.
pub const FEWEST: usize = 5;
/// The share removed at each end.
pub const TRIMMED: f64 = 0.2;

/// ln(B / A) of one quad: the mean of the two ln(B) less the mean of the two ln(A). `a` and `b` hold the values of the
/// phases of each arm, all positive. `None` without values on either side, or if one is not positive and finite.
pub fn log_ratio(a: &[f64], b: &[f64]) -> Option<f64> {
    let log_mean = |values: &[f64]| {
        let positive = values.iter().all(|v| *v > 0.0 && v.is_finite());
        positive.then(|| mean(&values.iter().map(|v| v.ln()).collect::<Vec<_>>())).flatten()
    };
    Some(log_mean(b)? - log_mean(a)?)
}

/// Trimmed mean: the mean after removing the ⌊0.2 n⌋ smallest and as many largest values (Wilcox 2012, section 3.3).
/// For a symmetric distribution it estimates the centre whatever the tails. `None` below [`FEWEST`] values or for a value
/// that is not finite.
pub fn trimmed_mean(values: &[f64]) -> Option<f64> {
    if values.len() < FEWEST || values.iter().any(|v| !v.is_finite()) {
        return None;
    }
    let cut = (TRIMMED * values.len() as f64).floor() as usize;
    mean(&sorted(values)[cut..values.len() - cut])
}

/// The value of a trial from the log ratios of its quads: the [`trimmed_mean`] from five quads on; the median of three or
/// four (of four it is the mean of the middle two, a 25 % trimmed mean); the mean of two; a single quad itself. `None`
/// without quads or for a value that is not finite: an unusable quad makes the trial unusable, it is not left out.
pub fn summary(quads: &[f64]) -> Option<f64> {
    if quads.iter().any(|v| !v.is_finite()) {
        return None;
    }
    trimmed_mean(quads).or_else(|| median(quads))
}

/// Variance of a quad as the [`summary`] of so many feels it, so that it over their number is the variance of the summary: of the trimmed mean the
/// Winsorized variance over the square of the share that is kept (Tukey & McLaughlin 1963; Wilcox 2012, section 3.3.2), which a few bad quads do not move.
/// `None` below [`FEWEST`] quads or for a value that is not finite.
pub fn variance(quads: &[f64]) -> Option<f64> {
    if quads.len() < FEWEST || quads.iter().any(|v| !v.is_finite()) {
        return None;
    }
    let ordered = sorted(quads);
    let cut = (TRIMMED * quads.len() as f64).floor() as usize;
    let (lowest, highest) = (ordered[cut], ordered[ordered.len() - 1 - cut]);
    let winsorized: Vec<f64> = ordered.iter().map(|v| v.clamp(lowest, highest)).collect();
    let kept = 1.0 - 2.0 * cut as f64 / quads.len() as f64;
    sd(&winsorized).map(|found| (found / kept).powi(2))
}
