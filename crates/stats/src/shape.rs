//! The shape of a sample of log ratios: plain, skewed or of two modes.
//!
//! The t interval of a mean needs means that are close to normal, which ten skewed values do not give. So skewness is
//! tested with a lenient level: the price of a false alarm is only the wider interval of the median, which is valid
//! for every shape. Two modes (an allocation that lands well or badly) are looked for on their own, because a mean of
//! two modes describes neither.

use crate::estimate::{mean, sorted};
use crate::special::normal_sf;

/// What a sample looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// Nothing speaks against a t interval, or too few values (below 8) to say.
    Plain,
    /// Skewed at the level [`SKEWED_BELOW`].
    Skewed,
    /// Two separate clusters, each with at least a fifth of the values.
    Bimodal,
}

/// Two-sided level of the skewness test.
pub const SKEWED_BELOW: f64 = 0.10;

/// Classifies a sample; two modes are reported before skewness.
pub fn shape(values: &[f64]) -> Shape {
    let threshold = two_mode_threshold(values.len());
    if split_ratio(values).zip(threshold).is_some_and(|(ratio, limit)| ratio < limit) {
        return Shape::Bimodal;
    }
    if skewness_p(values).is_some_and(|p| p < SKEWED_BELOW) {
        return Shape::Skewed;
    }
    Shape::Plain
}

/// Moment coefficient of skewness g1 = m3 / m2^1.5; `None` below 3 values or without spread.
pub fn skewness(values: &[f64]) -> Option<f64> {
    let centre = mean(values)?;
    let moment = |k: i32| values.iter().map(|v| (v - centre).powi(k)).sum::<f64>() / values.len() as f64;
    let m2 = moment(2);
    (values.len() >= 3 && m2 > 0.0).then(|| moment(3) / m2.powf(1.5))
}

/// Two-sided p value of D'Agostino's test (1970) that normal values are this skewed; `None` below 8 values.
pub fn skewness_p(values: &[f64]) -> Option<f64> {
    let n = values.len() as f64;
    let g1 = skewness(values)?;
    if values.len() < 8 {
        return None;
    }
    let y = g1 * ((n + 1.0) * (n + 3.0) / (6.0 * (n - 2.0))).sqrt();
    let kurtosis =
        3.0 * (n * n + 27.0 * n - 70.0) * (n + 1.0) * (n + 3.0) / ((n - 2.0) * (n + 5.0) * (n + 7.0) * (n + 9.0));
    let w2 = (2.0 * (kurtosis - 1.0)).sqrt() - 1.0;
    let delta = 1.0 / (0.5 * w2.ln()).sqrt();
    let alpha = (2.0 / (w2 - 1.0)).sqrt();
    let z = delta * (y / alpha).asinh();
    Some(2.0 * normal_sf(z.abs()))
}

/// Sum of squares left inside two groups over the total, for the best cut of the sorted values that leaves each group
/// at least a fifth (and 2) of them. 1 - 2/π = 0.363 for a large normal sample, near 0 for two distant modes.
/// `None` below 10 values or without spread.
pub fn split_ratio(values: &[f64]) -> Option<f64> {
    let n = values.len();
    let total = squares(values)?;
    if n < 10 || total <= 0.0 {
        return None;
    }
    let ordered = sorted(values);
    let smallest = (n / 5).max(2);
    (smallest..=n - smallest)
        .filter_map(|cut| Some((squares(&ordered[..cut])? + squares(&ordered[cut..])?) / total))
        .min_by(f64::total_cmp)
}

/// What the split ratio of `n` normal values falls below in one sample of a hundred, `None` below 10.
/// 0.363 - 0.858 / √n, fitted to simulated samples of 10 to 100 values.
fn two_mode_threshold(n: usize) -> Option<f64> {
    (n >= 10).then(|| 0.363 - 0.858 / (n as f64).sqrt())
}

/// Sum of squared deviations from the mean.
fn squares(values: &[f64]) -> Option<f64> {
    let centre = mean(values)?;
    Some(values.iter().map(|v| (v - centre).powi(2)).sum())
}
