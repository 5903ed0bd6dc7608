//! All ratios of a study judged together.
//!
//! Twenty comparisons at 95 % show one difference that is none, on average. Benjamini & Hochberg (1995) bound the expected
//! share of false ones among the differences shown by q; with R of m shown, intervals of confidence 1 - q R/m have a false
//! coverage rate of at most q among those R (Benjamini & Yekutieli 2005). So that the printed interval is the one that
//! decides:
//! - a ratio whose difference is shown gets the interval of confidence 1 - q R/m, which excludes 1;
//! - a ratio whose plain interval holds 1 keeps it, at confidence 1 - q: nothing was selected;
//! - a ratio whose plain interval excludes 1 although it is not among the R gets 1 - q max(R, 1)/m, which holds 1.
//!
//! No interval is shorter than the plain one, so each by itself covers at least 1 - q as well. Claims against a margin
//! (equivalence, [`crate::gate`]) are not corrected: each is tested against its own margin.

use crate::interval::Interval;
use crate::location::Estimate;
use crate::outcome::{Better, Lack, Outcome};

/// One ratio of a study.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Claim {
    /// Of ln(numerator / denominator), or what is lacking.
    pub estimate: Result<Estimate, Lack>,
    /// The relative difference that matters.
    pub delta: f64,
    /// Which way the metric is better.
    pub better: Better,
}

/// One ratio, judged.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Judged {
    /// Two-sided p value of ratio 1; `None` without an estimate.
    pub p_value: Option<f64>,
    /// The printed interval of the log ratio, which decides; its `confidence` is 1 - q or more.
    pub interval: Option<Interval>,
    /// What the interval shows.
    pub outcome: Outcome,
}

impl Claim {
    /// From one log ratio a block, in the order measured, in a study whose smallest number of blocks is `smallest`. Below it,
    /// or below [`crate::location::SMALLEST`], or with a value that is not finite, the claim has no estimate.
    pub fn of(log_ratios: &[f64], smallest: usize, delta: f64, better: Better) -> Self {
        let need = smallest.max(crate::location::SMALLEST);
        let estimate = match log_ratios.len() {
            have if have < need => Err(Lack::Blocks { have, need }),
            _ => Estimate::of(log_ratios).ok_or(Lack::Unusable),
        };
        Self { estimate, delta, better }
    }
}

/// Judges the ratios of a study at false discovery rate `q` (0.05 for 95 % intervals), in the order given. Ratios without an
/// estimate do not count as tests. A study of one ratio gets its plain interval. The rate holds for independent and for
/// positively dependent ratios, such as several over one reference.
pub fn judge_study(claims: &[Claim], q: f64) -> Vec<Judged> {
    let p_values: Vec<f64> = claims.iter().filter_map(|claim| Some(claim.estimate.ok()?.p_value(0.0))).collect();
    let share = discoveries(&p_values, q).max(1) as f64 / p_values.len().max(1) as f64;
    claims.iter().map(|claim| judge(claim, q, 1.0 - q * share)).collect()
}

fn judge(claim: &Claim, q: f64, adjusted: f64) -> Judged {
    let estimate = match claim.estimate {
        Ok(estimate) => estimate,
        Err(lack) => return Judged { p_value: None, interval: None, outcome: Outcome::NotEnough(lack) },
    };
    let plain = estimate.interval(1.0 - q);
    let interval = if plain.contains(0.0) { plain } else { estimate.interval(adjusted) };
    Judged {
        p_value: Some(estimate.p_value(0.0)),
        interval: Some(interval),
        outcome: Outcome::of(&interval, claim.delta, claim.better),
    }
}

/// How many hypotheses the step-up procedure of Benjamini & Hochberg rejects: the largest R with p(R) <= q R/m.
pub fn discoveries(p_values: &[f64], q: f64) -> usize {
    let mut ordered = p_values.to_vec();
    ordered.sort_by(f64::total_cmp);
    let m = ordered.len() as f64;
    (1..=ordered.len()).rev().find(|&rank| ordered[rank - 1] <= q * rank as f64 / m).unwrap_or(0)
}

/// Which hypotheses Holm's (1979) step-down procedure rejects at family-wise error rate `alpha`, in the order given: in
/// ascending order of p, as long as p(i) <= alpha/(m - i + 1). Holds for any dependence.
pub fn holm(p_values: &[f64], alpha: f64) -> Vec<bool> {
    let mut order: Vec<usize> = (0..p_values.len()).collect();
    order.sort_by(|&one, &two| p_values[one].total_cmp(&p_values[two]));
    let mut rejected = vec![false; p_values.len()];
    for (rank, index) in order.into_iter().enumerate() {
        if p_values[index] > alpha / (p_values.len() - rank) as f64 {
            break;
        }
        rejected[index] = true;
    }
    rejected
}
