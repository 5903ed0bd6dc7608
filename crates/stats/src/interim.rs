//! When to stop measuring: on precision or budget, never on significance.
//!
//! An interim analysis looks at the half-width of the printed interval and at nothing else. A rule that analyses after
//! every block and stops when the interval is short stops too often when the spread happens to look small, and its
//! intervals then cover less than they say. Three measures keep the coverage:
//! - analyses are few: each is placed where the width is expected to be reached, at 1.25 to 3 times the blocks there are;
//! - a width that is met is confirmed once, by a third more blocks (two at least) that had no part in the choice;
//! - the interval is 2 % longer than that of a fixed number of blocks ([`crate::location`]).
//!
//! With them a study of 4 to 200 blocks covers at least 93 % whatever the precision requested (test `coverage`). Blocks
//! that are visibly correlated do not end a study before 30 of them, from where the interval allows for it. The rule is a
//! pure function of the analyses, so that a recorded run can be replayed.
//!
//! Somebody who extends a run has seen a result, and may go on until they like it: intervals then cover less than they say. So each extension takes a third of
//! the error rate of what was before it ([`rate`]), and the rule begins anew with analyses at that rate. Studies that are extended to twice their blocks
//! again and again, as long as their interval holds 1, cover at least 93 % (test `coverage`); the sum of the rates is 7.5 % at most.

use crate::location::Estimate;
use crate::long_run;

/// The error rate of a study's intervals (0.05 for 95 %) after so many extensions.
pub fn rate(extensions: usize) -> f64 {
    0.05 / 3.0_f64.powi(i32::try_from(extensions).unwrap_or(i32::MAX))
}

/// One interim analysis, recorded whatever came of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Analysis {
    /// Blocks finished.
    pub blocks: u32,
    /// Half-width of the printed interval, on the log scale; the longest when a study has several ratios. Infinite where
    /// there is no interval.
    pub half_width: f64,
    /// Whether neighbouring blocks of any ratio are visibly correlated.
    pub correlated: bool,
}

impl Analysis {
    /// The analysis of a study's estimates at a confidence of 0..1: the longest half-width. Without any estimate, or with one missing, the
    /// half-width is infinite.
    pub fn of<'e>(blocks: u32, confidence: f64, estimates: impl IntoIterator<Item = Option<&'e Estimate>>) -> Self {
        let (mut half_width, mut correlated, mut any) = (0.0, false, false);
        for estimate in estimates {
            any = true;
            half_width = f64::max(half_width, estimate.map_or(f64::INFINITY, |e| e.interval(confidence).half_width()));
            correlated |= estimate.is_some_and(Estimate::visibly_correlated);
        }
        Self { blocks, half_width: if any { half_width } else { f64::INFINITY }, correlated }
    }
}

/// What to do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Measure until so many blocks are there, then analyse.
    Measure {
        /// Blocks in all at the next analysis.
        until: u32,
    },
    /// The width is met: measure the confirmation until so many blocks are there, then analyse.
    Confirm {
        /// Blocks in all at the next analysis.
        until: u32,
    },
    /// Measure no more.
    Stop {
        /// Why.
        reason: StopReason,
    },
}

/// Why measuring ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopReason {
    /// The half-width was met and confirmed.
    Precision,
    /// The budget is used up; the half-width that was reached is in the last analysis.
    Budget,
}

/// When a study ends.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rule {
    /// Half-width to reach on the log scale: ln(1 + precision).
    pub half_width: f64,
    /// The study's smallest number of blocks: the first analysis. [`crate::location::SMALLEST`] at least for an interval.
    pub smallest: u32,
    /// Most blocks; where the budget is a time, the blocks that fit, which may be estimated anew between analyses. A budget
    /// equal to `smallest` is a study of that size.
    pub budget: u32,
}

/// Blocks at the end of the confirmation of a width that was met at `blocks`: a third more, two at least.
pub fn confirmation(blocks: u32) -> u32 {
    blocks.saturating_add(blocks.div_ceil(3).max(2))
}

impl Rule {
    /// The rule for a relative `precision` (0.01 for 1 %).
    pub fn new(precision: f64, smallest: u32, budget: u32) -> Self {
        Self { half_width: precision.ln_1p(), smallest, budget }
    }

    /// Decides from all analyses so far, in order; the last is the present one. Without any: measure the smallest study.
    pub fn next(&self, analyses: &[Analysis]) -> Step {
        let Some(now) = analyses.last() else {
            return Step::Measure { until: self.smallest.min(self.budget) };
        };
        if self.confirmed(analyses) {
            return Step::Stop { reason: StopReason::Precision };
        }
        if now.blocks >= self.budget {
            return Step::Stop { reason: StopReason::Budget };
        }
        if self.met(now) {
            return Step::Confirm { until: confirmation(now.blocks).min(self.budget) };
        }
        Step::Measure { until: self.following(now).min(self.budget) }
    }

    /// Whether an analysis meets the half-width.
    pub fn met(&self, analysis: &Analysis) -> bool {
        let allowed_for = !analysis.correlated || analysis.blocks >= long_run::FEWEST as u32;
        analysis.blocks >= self.smallest && allowed_for && analysis.half_width <= self.half_width
    }

    fn confirmed(&self, analyses: &[Analysis]) -> bool {
        let [.., before, now] = analyses else { return false };
        self.met(before) && self.met(now) && now.blocks >= confirmation(before.blocks)
    }

    /// Where the width is expected to be met, within 1.25 to 3 times the present blocks.
    fn following(&self, now: &Analysis) -> u32 {
        if now.blocks < self.smallest {
            return self.smallest;
        }
        let blocks = f64::from(now.blocks);
        let expected = blocks * (now.half_width / self.half_width).powi(2);
        let bounded = if expected.is_nan() { 3.0 * blocks } else { expected.clamp(1.25 * blocks, 3.0 * blocks) };
        (bounded.ceil() as u32).max(now.blocks + 1)
    }
}
