//! Plain estimates from independent summaries: one number a trial, never one a repetition.
//!
//! Used for the absolute value of a metric per treatment and, by [`crate::PairedRatio`], for log ratios per block.

use crate::interval::{Estimator, Interval};
use crate::special::{binomial_cdf, normal_quantile, student_two_sided};

/// Arithmetic mean; `None` for no values.
pub fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Sample standard deviation, divisor n - 1; `None` below 2 values.
pub fn sd(values: &[f64]) -> Option<f64> {
    let centre = mean(values)?;
    (values.len() >= 2).then(|| {
        let squares: f64 = values.iter().map(|v| (v - centre).powi(2)).sum();
        (squares / (values.len() as f64 - 1.0)).sqrt()
    })
}

/// Median, the mean of the two middle values when n is even; `None` for no values.
pub fn median(values: &[f64]) -> Option<f64> {
    median_sorted(&sorted(values))
}

/// [`median`] of values already in ascending order.
pub fn median_sorted(values: &[f64]) -> Option<f64> {
    let n = values.len();
    (n > 0).then(|| 0.5 * (values[(n - 1) / 2] + values[n / 2]))
}

/// Interval of the mean: m ± t(n-1) s / √n (Student 1908). Exact for normal values; smallest n is 3, because the
/// factor at n = 2 (12.7 at 95 %) says nothing.
pub fn mean_interval(values: &[f64], confidence: f64) -> Option<Interval> {
    let n = values.len();
    if n < 3 {
        return None;
    }
    let (centre, spread) = (mean(values)?, sd(values)?);
    let half = student_two_sided(confidence, n as f64 - 1.0) * spread / (n as f64).sqrt();
    Some(Interval {
        centre,
        lo: centre - half,
        hi: centre + half,
        confidence,
        coverage: confidence,
        units: n,
        estimator: Estimator::Mean,
    })
}

/// Interval of the median between the k-th smallest and the k-th largest value, k as large as the binomial distribution
/// allows (Thompson 1936). Its coverage, 1 - 2 P(X < k), holds for any continuous distribution and is at least
/// `confidence`. Smallest n: where the extremes suffice, 1 - 2^(1-n) >= confidence; 6 at 95 %.
pub fn median_interval(values: &[f64], confidence: f64) -> Option<Interval> {
    let (k, coverage) = median_rank(values.len(), confidence)?;
    let ordered = sorted(values);
    Some(Interval {
        centre: median_sorted(&ordered)?,
        lo: ordered[k - 1],
        hi: ordered[ordered.len() - k],
        confidence,
        coverage,
        units: values.len(),
        estimator: Estimator::Median,
    })
}

/// Rank k (from 1) and coverage of the median's interval for `n` values.
fn median_rank(n: usize, confidence: f64) -> Option<(usize, f64)> {
    let coverage = |k: usize| 1.0 - 2.0 * binomial_cdf(k as i64 - 1, n as u64, 0.5);
    let guess = 0.5 * n as f64 + 0.5 * (n as f64).sqrt() * normal_quantile(0.5 * (1.0 - confidence));
    let mut k = (guess.max(0.0) as usize + 2).min(n.div_ceil(2));
    while k > 0 && coverage(k) < confidence - 1e-12 {
        k -= 1;
    }
    (k > 0).then(|| (k, coverage(k)))
}

/// A copy in ascending order.
pub fn sorted(values: &[f64]) -> Vec<f64> {
    let mut copy = values.to_vec();
    copy.sort_by(f64::total_cmp);
    copy
}
