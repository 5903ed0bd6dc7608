//! Has the second of two builds become slower by more than a margin? For scripts, from one ratio of interleaved trials.
//!
//! The answer rests on the ratio's own interval: a loss beyond the margin is shown when the whole interval lies beyond it, none is
//! when the whole interval lies below. What is between is undecided, which is not the same as passed.

use baremark_model::descriptor::Better;
use baremark_model::document::RatioRow;
use baremark_stats::special::{normal_quantile, normal_sf};

/// More blocks than these are not named: nobody will wait for them.
const MOST_BLOCKS: f64 = 10_000.0;

/// The answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Worse by more than the margin.
    Failed,
    /// Not worse by more than the margin.
    Passed,
    /// Neither is shown.
    Undecided,
}

/// What one ratio says of a margin.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gate {
    /// The answer.
    pub answer: Answer,
    /// The chance that a loss of the margin would have been told from none; `None` without an interval.
    pub power: Option<f64>,
    /// Blocks in all with which the answer is expected, if the estimate stays where it is; `None` where it is there already, or
    /// where the estimate lies so near the margin that nobody would wait.
    pub blocks: Option<u64>,
}

/// The answer of one ratio, whose numerator is the new side, to a loss of `margin` (a share above 0, 0.01 for 1 %).
///
/// Standard errors are taken from the interval as if it were normal.
#[must_use]
pub fn gate(row: &RatioRow, better: Better, margin: f64) -> Gate {
    let known = row.ratio.zip(row.lo.zip(row.hi)).filter(|(ratio, (lo, _))| *ratio > 0.0 && *lo > 0.0);
    let Some((ratio, (lo, hi))) = known else {
        return Gate { answer: Answer::Undecided, power: None, blocks: None };
    };
    // Too few blocks answer nothing, however short their interval is.
    if row.more_is_least {
        let blocks = row.more_blocks.map(|more| row.blocks as u64 + more);
        return Gate { answer: Answer::Undecided, power: None, blocks };
    }
    let margin = margin.ln_1p();
    let (loss, least, most) = match better {
        Better::Lower => (ratio.ln(), lo.ln(), hi.ln()),
        Better::Higher => (-ratio.ln(), -hi.ln(), -lo.ln()),
    };
    let wide = normal_quantile(f64::midpoint(1.0, row.confidence));
    let error = (most - least) / (2.0 * wide);
    let answer = match () {
        () if least > margin => Answer::Failed,
        () if most < margin => Answer::Passed,
        () => Answer::Undecided,
    };
    let power = if error > 0.0 { normal_sf(-(margin / error - wide)) } else { 1.0 };
    let blocks =
        if answer == Answer::Undecided { needed(row, (most - least) / 2.0, (loss - margin).abs()) } else { None };
    Gate { answer, power: Some(power), blocks }
}

/// Blocks with which a half-width falls to the distance between estimate and margin: it falls with their root.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a number of blocks, positive and bounded"
)]
fn needed(row: &RatioRow, half_width: f64, distance: f64) -> Option<u64> {
    let blocks = (row.blocks as f64 * (half_width / distance).powi(2)).ceil();
    (blocks <= MOST_BLOCKS).then(|| (blocks as u64).max(row.blocks as u64 + 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use baremark_model::document::Outcome;
    use baremark_model::plan::{Contrast, Treatment};

    fn row(ratio: f64, half_width: f64, blocks: usize) -> RatioRow {
        RatioRow {
            metric: "wall_s".to_owned(),
            treatment: Treatment::new(),
            relative_to: Treatment::new(),
            contrast: Contrast::Factor,
            blocks,
            ratio: Some(ratio),
            lo: Some(ratio * (-half_width).exp()),
            hi: Some(ratio * half_width.exp()),
            confidence: 0.95,
            estimator: "mean log ratio".to_owned(),
            verdict: Outcome::Undecided,
            words: String::new(),
            more_blocks: None,
            more_is_least: false,
            emulated: false,
            independence: "shown".to_owned(),
            sensitivity: Vec::new(),
        }
    }

    #[test]
    fn the_interval_decides_on_either_side_of_the_margin() {
        let answer = |ratio, half_width, better| gate(&row(ratio, half_width, 25), better, 0.05).answer;
        assert_eq!(answer(1.08, 0.01, Better::Lower), Answer::Failed);
        assert_eq!(answer(1.03, 0.01, Better::Lower), Answer::Passed, "slower, and by less than the margin");
        assert_eq!(answer(1.045, 0.01, Better::Lower), Answer::Undecided);
        assert_eq!(answer(0.90, 0.01, Better::Lower), Answer::Passed);
        assert_eq!(answer(0.90, 0.01, Better::Higher), Answer::Failed);
        assert_eq!(answer(1.10, 0.01, Better::Higher), Answer::Passed);
        let few = RatioRow { more_is_least: true, more_blocks: Some(6), ..row(1.5, 0.01, 4) };
        assert_eq!(gate(&few, Better::Lower, 0.05), Gate { answer: Answer::Undecided, power: None, blocks: Some(10) });
        let nothing = RatioRow { lo: None, hi: None, ..row(1.0, 0.01, 2) };
        assert_eq!(gate(&nothing, Better::Lower, 0.05), Gate { answer: Answer::Undecided, power: None, blocks: None });
    }

    #[test]
    fn power_and_what_would_settle_it_follow_from_the_interval() {
        // A half-width of the margin: the loss is 1.96 standard errors, found in half of all runs.
        let half = gate(&row(1.0, 1.05_f64.ln(), 25), Better::Lower, 0.05).power.expect("an interval");
        assert!((half - 0.5).abs() < 1e-6, "{half}");
        let sharp = gate(&row(1.0, 0.5 * 1.05_f64.ln(), 25), Better::Lower, 0.05).power.expect("an interval");
        assert!((sharp - 0.975).abs() < 1e-3, "{sharp}");
        // Twice the distance to the margin: four times the blocks.
        let wide = gate(&row(1.0, 2.0 * 1.05_f64.ln(), 25), Better::Lower, 0.05);
        assert!(wide.answer == Answer::Undecided && wide.blocks.is_some_and(|of| (99..=101).contains(&of)), "{wide:?}");
        assert_eq!(gate(&row(1.05, 0.02, 25), Better::Lower, 0.05).blocks, None, "the estimate is the margin");
    }
}
