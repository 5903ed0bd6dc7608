//! The sample sizes below which a percentile is refused.
//!
//! The largest of n values is above the p-quantile with chance 1 - p^n. Until p^n <= (1 - confidence)/2 not even the
//! largest value bounds the quantile from above, and any interval would be invented. Intervals of a percentile are over
//! trials ([`crate::location`]).

/// Fewest samples for a two-sided interval of the quantile `p` (0..1): ln(α/2) / ln(max(p, 1-p)), rounded up.
/// At 95 %: p95 72, p99 368, p99.9 3,688. `None` unless 0 < p < 1 and 0 < confidence < 1.
pub fn sample_floor(p: f64, confidence: f64) -> Option<u64> {
    let inside = |v: f64| v > 0.0 && v < 1.0;
    (inside(p) && inside(confidence)).then(|| one_sided_floor(p.max(1.0 - p), 0.5 * (1.0 - confidence)))
}

/// Fewest samples n with p^n <= alpha: the largest is then an upper limit of the quantile `p` at level 1 - alpha.
pub fn one_sided_floor(p: f64, alpha: f64) -> u64 {
    (alpha.ln() / p.ln()).ceil() as u64
}
