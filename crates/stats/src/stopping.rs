//! When to stop measuring: on precision or budget, never on significance.
//!
//! A rule that looks at the data after each block and stops when the interval is short enough stops too often when the
//! spread happens to look small, and its intervals then cover less than they say. Two measures keep the coverage: looks
//! are few (from 10 blocks on, every 5), and a width that is met must be *confirmed* by further blocks that had no part
//! in the choice. The confirmation brings a study to 25 blocks at least: with fewer, a lag-1 test cannot tell
//! independent blocks from an effect that wanders, however short the interval looks. The rule sees half-widths only,
//! never an estimate, and it is pure: looks in, decision out, so that a recorded run can be replayed.

use crate::serial::SHOWN_INDEPENDENT;

/// One look at the data, recorded as data whatever came of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Look {
    /// Blocks finished.
    pub blocks: u32,
    /// [`crate::PairedRatio::stopping_half_width`] at this point, on the log scale; the widest when a study has several
    /// ratios. Infinite when it could not be computed.
    pub half_width: f64,
    /// Whether all ratios passed as independent: while they do not, further blocks may allow batching.
    pub independent: bool,
}

/// What to do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// Measure until so many blocks are there, then look.
    Continue {
        /// Blocks in total at the next look.
        until: u32,
    },
    /// The width is met: measure the confirmation batch, then look.
    Confirm {
        /// Blocks in total at the next look.
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
    /// The half-width was met and the confirmation batch measured. It is the t interval's at 95 %: an interval of the
    /// median, or one adjusted for the other ratios of a study, may be longer, and its own half-width is what is
    /// printed.
    Precision,
    /// The budget ended before that; what was reached is in the last look.
    Budget,
    /// Quick mode: the fewest blocks were asked for.
    Fewest,
}

/// The rule of a study.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StoppingRule {
    /// Half-width to reach on the log scale: ln(1 + precision).
    pub half_width: f64,
    /// Most blocks that fit the budget; may be estimated anew between looks.
    pub budget_blocks: u32,
    /// Blocks at the first look.
    pub first: u32,
    /// Blocks between looks, and the least size of a confirmation batch.
    pub every: u32,
    /// Fewest blocks after a confirmation.
    pub confirmed: u32,
    /// Stop at the first look whatever it shows.
    pub quick: bool,
}

impl StoppingRule {
    /// The standard rule: looks at 10, 15, 20 ... blocks, confirmation by 5 more and at least 25 in all.
    /// `precision` is relative (0.01 for 1 %).
    pub fn new(precision: f64, budget_blocks: u32) -> Self {
        Self {
            half_width: precision.ln_1p(),
            budget_blocks,
            first: 10,
            every: 5,
            confirmed: SHOWN_INDEPENDENT as u32,
            quick: false,
        }
    }

    /// Quick mode: 10 blocks and one look.
    pub fn quick(precision: f64) -> Self {
        Self { quick: true, ..Self::new(precision, 10) }
    }

    /// Decides from all looks so far, in order; the last is the present one. No look yet: measure up to the first.
    pub fn next(&self, looks: &[Look]) -> Decision {
        let Some(now) = looks.last() else {
            return Decision::Continue { until: self.first.min(self.budget_blocks) };
        };
        if self.quick && now.blocks >= self.first {
            return Decision::Stop { reason: StopReason::Fewest };
        }
        if self.confirms(looks) {
            return Decision::Stop { reason: StopReason::Precision };
        }
        if now.blocks >= self.budget_blocks {
            return Decision::Stop { reason: StopReason::Budget };
        }
        if self.met(now) {
            let until = (now.blocks + self.every).max(self.confirmed);
            return Decision::Confirm { until: until.min(self.budget_blocks) };
        }
        let until = if now.blocks < self.first { self.first } else { now.blocks + self.every };
        Decision::Continue { until: until.min(self.budget_blocks) }
    }

    /// Whether this look meets the target.
    pub fn met(&self, look: &Look) -> bool {
        look.blocks >= self.first && look.independent && look.half_width <= self.half_width
    }

    /// Whether the last look ends a confirmation: the one before met the target, the batch is whole, and the target is
    /// still met.
    fn confirms(&self, looks: &[Look]) -> bool {
        let [.., before, now] = looks else { return false };
        let whole = now.blocks >= (before.blocks + self.every).max(self.confirmed);
        self.met(before) && self.met(now) && whole
    }
}
