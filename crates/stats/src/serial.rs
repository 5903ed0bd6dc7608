//! Serial correlation of successive blocks, and what it does to an interval.
//!
//! Random order inside a block turns slow drift of the machine into noise. It cannot repair an *effect* that itself
//! wanders (a VM that stays slow for a while): the blocks then carry less information than their number says. With 10
//! to 30 blocks a test sees such correlation only sometimes, and a t interval on the samples that pass the test is as
//! wrong as without it. So there are two guards:
//! - **strong**: the lag-1 test rejects independence; no verdict is given (or the blocks are batched);
//! - **guard**: every verdict must also hold for the interval made longer by [`Serial::inflation`], the factor that
//!   belongs to the largest correlation these blocks do not exclude. It shrinks as blocks come in.

use crate::estimate::mean;
use crate::special::normal_sf;

/// Serial correlation at lag 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Serial {
    /// The coefficient r1 = Σ d(i) d(i+1) / Σ d(i)².
    pub lag1: f64,
    /// One-sided p value of no positive correlation.
    pub p_value: f64,
    /// Upper limit (about 88 %) of the correlation of a first-order process.
    pub upper: f64,
    /// What the arms of an interval must be multiplied by if the correlation is at its upper limit, >= 1.
    pub inflation: f64,
    /// Independence is rejected.
    pub strong: bool,
}

/// Units from which on the guard works at full strength. With fewer, correlated and independent series look so alike
/// that a full guard refuses plain large effects; it is bounded there (φ at most 0.5, level 0.01), which keeps 95 % of
/// the effects of twice the noise and lets some wandering ones pass: hence [`Independence::Assumed`].
pub const FULL_GUARD: usize = 15;

/// Units from which on independence counts as shown: an effect that wanders with correlation 0.3 to 0.9 from block to
/// block is then declared in 5 % of studies at most. One that stays put for a whole study is an effect to it, and only
/// runs at other times ([`crate::unpaired`]) can tell.
pub const SHOWN_INDEPENDENT: usize = 25;

/// What is known about the independence of the units.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Independence {
    /// Tested on [`SHOWN_INDEPENDENT`] units or on as many batches as are needed.
    Shown,
    /// Not rejected, but so few units would hide an effect that wanders; to be said beside the verdict.
    Assumed,
    /// Rejected, and no batch size repaired it: no verdict.
    Rejected,
}

/// Tests a series in the order it was measured. `None` below 8 values or without spread.
///
/// r1 has mean -1/n and variance (n-2)²/(n²(n-1)) for independent normal values (Moran 1948). The upper limit is
/// (n r1 + 1)/(n - 3) + 1.2/√n, the first term being r1 freed from its bias (Marriott & Pope 1954), and the factor is
/// √((1+φ)/(1-φ)), by which correlation φ lengthens the standard error of a mean.
pub fn serial(series: &[f64]) -> Option<Serial> {
    let n = series.len() as f64;
    let lag1 = lag1(series)?;
    if series.len() < 8 {
        return None;
    }
    let deviation = (n - 2.0) / (n * (n - 1.0).sqrt());
    let p_value = normal_sf((lag1 + 1.0 / n) / deviation);
    let (limit, level) = if series.len() < FULL_GUARD { (0.5, 0.01) } else { (0.9, 0.05) };
    let upper = ((n * lag1 + 1.0) / (n - 3.0) + 1.2 / n.sqrt()).clamp(0.0, limit);
    Some(Serial { lag1, p_value, upper, inflation: ((1.0 + upper) / (1.0 - upper)).sqrt(), strong: p_value < level })
}

/// The lag-1 coefficient; `None` below 3 values or without spread.
pub fn lag1(series: &[f64]) -> Option<f64> {
    let centre = mean(series)?;
    let squares: f64 = series.iter().map(|v| (v - centre).powi(2)).sum();
    let products: f64 = series.windows(2).map(|pair| (pair[0] - centre) * (pair[1] - centre)).sum();
    (series.len() >= 3 && squares > 0.0).then(|| products / squares)
}

/// Means of successive batches of `size`; blocks that do not fill a batch are left out at the *front*.
pub fn batch_means(series: &[f64], size: usize) -> Vec<f64> {
    let size = size.max(1);
    let skip = series.len() % size;
    series[skip..].chunks_exact(size).filter_map(mean).collect()
}

/// Fewest batches that a verdict may rest on: with fewer, the lag-1 test of the batches is too weak to trust.
pub const FEWEST_BATCHES: usize = 20;

/// The smallest batch size (1 = the blocks themselves) that leaves independent units, [`FEWEST_BATCHES`] of them at
/// least unless it is 1. `None` if there is none: not independent.
///
/// Once the blocks were found correlated the burden of proof is reversed. Batches must be so long, b >= 5φ/(1-φ²) with
/// φ the upper limit, that their own correlation, about φ/(b(1-φ²)), is at most 0.2; and it must be far from
/// significant.
pub fn batch_size(series: &[f64]) -> Option<usize> {
    let Some(blocks) = serial(series).filter(|found| found.strong) else { return Some(1) };
    let shortest = (5.0 * blocks.upper / (1.0 - blocks.upper.powi(2))).ceil().max(2.0) as usize;
    let settled = |size: &usize| serial(&batch_means(series, *size)).is_none_or(|found| found.p_value > 0.25);
    (shortest..=series.len() / FEWEST_BATCHES).find(settled)
}
