//! All ratios of a study judged together.
//!
//! Twenty comparisons at 95 % give a false "differs" on average. Benjamini & Hochberg (1995) bound the expected share
//! of false ones among those declared; Benjamini & Yekutieli (2005) give the intervals that match: with R of m
//! declared, all intervals are made at confidence 1 - q max(R, 1)/m. A ratio is declared exactly when that interval
//! excludes 1, so what is printed and what is said cannot disagree.

use crate::estimate::sorted;
use crate::interval::Interval;
use crate::ratio::{PairedRatio, SMALLEST_STUDY};
use crate::serial::Independence;
use crate::verdict::{Verdict, verdict};

/// The ratios of a study after judgement.
#[derive(Debug, Clone, PartialEq)]
pub struct Family {
    /// The confidence of every interval in the family.
    pub confidence: f64,
    /// One entry a ratio, in the order given.
    pub judged: Vec<Judged>,
}

/// One ratio of a family.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Judged {
    /// Two-sided p value of ratio 1; 1 when the ratio may not be judged (too few blocks, not independent).
    pub p_value: f64,
    /// The false-coverage-adjusted interval of the log ratio; `None` when the units are too few for it
    /// or not independent.
    pub interval: Option<Interval>,
    /// The outcome, read off that interval.
    pub verdict: Verdict,
}

/// Judges the ratios of a study at false discovery rate `q` (0.05 for 95 % intervals), each with its own `delta`.
/// A family of one gets the plain interval of confidence 1 - q.
pub fn judge(ratios: &[(&PairedRatio, f64)], q: f64) -> Family {
    let p_values: Vec<f64> = ratios.iter().map(|(ratio, _)| admissible_p(ratio)).collect();
    let declared = discoveries(&p_values, q);
    let confidence = 1.0 - q * declared.max(1) as f64 / ratios.len().max(1) as f64;
    let judged = ratios
        .iter()
        .zip(p_values)
        .map(|(&(ratio, delta), p_value)| Judged {
            p_value,
            interval: ratio.interval(confidence),
            verdict: verdict(ratio, confidence, delta),
        })
        .collect();
    Family { confidence, judged }
}

/// How many hypotheses Benjamini & Hochberg's step-up procedure rejects: the largest R with p(R) <= q R/m.
pub fn discoveries(p_values: &[f64], q: f64) -> usize {
    let ordered = sorted(p_values);
    let m = ordered.len() as f64;
    ordered
        .iter()
        .zip(1..)
        .filter(|&(&p, rank)| p <= q * f64::from(rank) / m)
        .map(|(_, rank)| rank as usize)
        .last()
        .unwrap_or(0)
}

fn admissible_p(ratio: &PairedRatio) -> f64 {
    let admissible = ratio.independence() != Independence::Rejected && ratio.blocks() >= SMALLEST_STUDY;
    if admissible { ratio.p_value() } else { 1.0 }
}
