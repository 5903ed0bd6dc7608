//! Detection of warm-up in a series of repetitions, so that it is not guessed.
//!
//! MSER (White 1997; with batches of 5: White, Cobb & Spratt 2000): leave out the first d values such that the squared
//! standard error of the mean of the rest is smallest. The rule trades bias against precision by itself and has no
//! threshold to tune. A minimum in the second half means that the series never settled.

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

/// Looks for warm-up in batches of `batch` values (5 by custom, 1 for short series). `None` below 10 batches.
pub fn warmup(series: &[f64], batch: usize) -> Option<Warmup> {
    let batch = batch.max(1);
    let whole = series.len() / batch * batch;
    let means = batch_means(&series[..whole], batch);
    let cut = mser(&means)?;
    Some(if 2 * cut > means.len() { Warmup::Unsettled } else { Warmup::Settled { discard: cut * batch } })
}

/// The d in 0..n-5 with least Σ(y - mean)²/(n - d)² over the values from d on; `None` below 10 values.
fn mser(values: &[f64]) -> Option<usize> {
    let n = values.len();
    if n < 10 {
        return None;
    }
    let shift = values[n - 1];
    let (mut sum, mut squares) = (0.0, 0.0);
    let mut best = (f64::INFINITY, 0);
    for d in (0..n).rev() {
        let value = values[d] - shift;
        sum += value;
        squares += value * value;
        let left = (n - d) as f64;
        let score = (squares - sum * sum / left).max(0.0) / (left * left);
        if n - d >= 5 && score <= best.0 {
            best = (score, d);
        }
    }
    Some(best.1)
}
