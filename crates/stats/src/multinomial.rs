//! Shares of a mix, with intervals that hold for all of them at once.
//!
//! Whoever checks a mix against wanted shares with a fixed tolerance fails small samples by chance. Here a share is off only
//! when its interval lies wholly outside the tolerance, so that the sampling noise is always granted.

use crate::special::normal_quantile;

/// One category's share and its simultaneous interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MixShare {
    /// The observed share.
    pub share: f64,
    /// Lower end.
    pub lo: f64,
    /// Upper end.
    pub hi: f64,
}

/// Simultaneous intervals of multinomial shares (Goodman 1965): for k categories and n counts, with
/// B = chi²(1 - alpha/k, 1 degree of freedom),
/// (B + 2x ± √(B (B + 4x (n - x)/n))) / (2 (n + B)).
/// Assumes independent draws; every expected count should be about 5 or more. `None` without counts or below 2 categories.
pub fn goodman(counts: &[u64], confidence: f64) -> Option<Vec<MixShare>> {
    let n = counts.iter().sum::<u64>() as f64;
    if counts.len() < 2 || n <= 0.0 || !(confidence > 0.0 && confidence < 1.0) {
        return None;
    }
    let z = normal_quantile(1.0 - 0.5 * (1.0 - confidence) / counts.len() as f64);
    let b = z * z;
    let one = |&count: &u64| {
        let x = count as f64;
        let half = (b * (b + 4.0 * x * (n - x) / n)).sqrt();
        MixShare {
            share: x / n,
            lo: ((b + 2.0 * x - half) / (2.0 * (n + b))).max(0.0),
            hi: ((b + 2.0 * x + half) / (2.0 * (n + b))).min(1.0),
        }
    };
    Some(counts.iter().map(one).collect())
}

/// The categories whose share is off: its interval lies wholly outside `wanted` ± `tolerance` x `wanted`. Empty also where
/// there are no counts: absence of a sample shows nothing.
///
/// # Panics
/// When `counts` and `wanted` differ in length.
pub fn off_mix(counts: &[u64], wanted: &[f64], tolerance: f64, confidence: f64) -> Vec<usize> {
    assert_eq!(counts.len(), wanted.len(), "one wanted share for each count");
    let Some(shares) = goodman(counts, confidence) else { return Vec::new() };
    let off = |(share, wanted): (&MixShare, &f64)| {
        share.hi < wanted * (1.0 - tolerance) || share.lo > wanted * (1.0 + tolerance)
    };
    (0..counts.len()).filter(|&at| off((&shares[at], &wanted[at]))).collect()
}
