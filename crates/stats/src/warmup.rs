//! Detection of warm-up in a series of repetitions, so that it is not guessed.
//!
//! MSER (White 1997; with batches of 5: White, Cobb & Spratt 2000): leave out the first d values such that the squared
//! standard error of the mean of the rest is smallest. The rule trades bias against precision by itself. A minimum in
//! the second half means that the series never settled; because a few last values agree by chance now and then, it
//! counts only if it is less than half of the best of the first half.

use crate::serial::batch_means;

/// What was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Warmup {
    /// The series is steady after this many leading values (0: from the start).
    Settled {
        /// Leading values to leave out.
        discard: usize,
    },
    /// The mean still moves in the second half: lengthen the warm-in, do not cut.
    Unsettled,
}

/// Looks for warm-up in batches of `batch` values (5 by custom, 1 for short series). `None` below 10 batches. A change
/// within the last five batches is not seen.
pub fn warmup(series: &[f64], batch: usize) -> Option<Warmup> {
    let batch = batch.max(1);
    let whole = series.len() / batch * batch;
    let means = batch_means(&series[..whole], batch);
    if means.len() < 10 {
        return None;
    }
    let scores = mser(&means);
    let half = means.len() / 2 + 1;
    let (early, late) = (least(&scores[..half])?, least(&scores[half..])?);
    Some(if late.1 < 0.5 * early.1 { Warmup::Unsettled } else { Warmup::Settled { discard: early.0 * batch } })
}

/// Position and value of the first least score.
fn least(scores: &[f64]) -> Option<(usize, f64)> {
    scores.iter().copied().enumerate().min_by(|a, b| a.1.total_cmp(&b.1))
}

/// Σ(y - mean)²/(n - d)² over the values from d on, for every d that leaves at least 5.
fn mser(values: &[f64]) -> Vec<f64> {
    let n = values.len();
    let shift = values[n - 1];
    let (mut sum, mut squares) = (0.0, 0.0);
    let mut scores = vec![0.0; n];
    for d in (0..n).rev() {
        let value = values[d] - shift;
        sum += value;
        squares += value * value;
        let left = (n - d) as f64;
        scores[d] = (squares - sum * sum / left).max(0.0) / (left * left);
    }
    scores.truncate((n + 1).saturating_sub(5));
    scores
}
