//! Long-run variance: what serial correlation does to the variance of a mean.
//!
//! Successive blocks of a run need not be independent (a machine warms up, a neighbour stays for a while). The variance
//! of their mean is then Ω/n with the long-run variance Ω, the sum of all autocovariances, in place of the plain
//! variance. Correlation makes the interval longer; it never refuses one.

use std::f64::consts::PI;

/// Fewest values from which a long-run variance is estimated. Below, independence is assumed, because the few
/// frequencies that so short a series has leave an interval of no use.
pub const FEWEST: usize = 30;

/// A long-run variance.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LongRun {
    /// Ω, in the square of the values' unit.
    pub variance: f64,
    /// Degrees of freedom of the t interval that uses it: the number of cosines.
    pub freedom: f64,
}

/// Equal-weighted cosine (EWC) estimate of Ω from values in the order measured (Lazarus, Lewis, Stock & Watson 2018, eq.
/// 10-11): with Λ(j) = √(2/n) Σ x(t) cos(π j (t - 1/2)/n), Ω = Σ Λ(j)²/ν over j = 1..ν, and ν = 0.4 n^(2/3), rounded,
/// as they advise (4 at 30 values, 14 at 200). The mean divided by √(Ω/n) is about t distributed with ν degrees of
/// freedom. Assumes a stationary series whose correlation fades within about n/ν values. `None` below [`FEWEST`] values
/// or for a value that is not finite.
pub fn long_run(series: &[f64]) -> Option<LongRun> {
    let n = series.len() as f64;
    if series.len() < FEWEST || series.iter().any(|v| !v.is_finite()) {
        return None;
    }
    let cosines = cosines(series.len());
    let power = |j: usize| {
        let sum = cosine_sum(series, PI * j as f64 / n);
        2.0 / n * sum * sum
    };
    let total: f64 = (1..=cosines as usize).map(power).sum();
    Some(LongRun { variance: total / cosines, freedom: cosines })
}

/// ν = 0.4 n^(2/3), rounded.
pub(crate) fn cosines(n: usize) -> f64 {
    (0.4 * (n as f64).powf(2.0 / 3.0)).round()
}

/// Σ x(t) cos(ω (t + 1/2)) over t from 0, by Chebyshev's recurrence cos(a + ω) = 2 cos(ω) cos(a) - cos(a - ω).
fn cosine_sum(series: &[f64], omega: f64) -> f64 {
    let double = 2.0 * omega.cos();
    let (mut before, mut wave) = ((0.5 * omega).cos(), (0.5 * omega).cos());
    let mut sum = 0.0;
    for x in series {
        sum += x * wave;
        (before, wave) = (wave, double * wave - before);
    }
    sum
}
