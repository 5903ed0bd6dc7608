//! A gate for continuous integration: has something become slower?
//!
//! Three answers, of which none is given for lack of data:
//! - **loss**: a loss is shown, at a family-wise error rate of 5 % over all rows (Holm 1979);
//! - **passed**: none is shown, and in every row a loss of the margin would have been found with 80 % power;
//! - **undecided**: otherwise, with the runs or blocks that would settle it.
//!
//! The power and the smallest detectable loss follow Bloom (1995): a true loss of (t(1 - α) + t(0.8)) standard errors is
//! found with 80 % power by a one-sided t test at level α. The margin itself is a claim of each row against its own margin and
//! is not corrected for the number of rows; the level α of the test is 5 % over the number of rows, the first step of Holm's
//! procedure.
//!
//! Evidence comes from runs against runs ([`Evidence::of_runs`]) or, several times sharper, from two builds interleaved in
//! one run ([`Evidence::of_blocks`]).

use crate::location::{self, Estimate};
use crate::multiplicity::holm;
use crate::outcome::Better;
use crate::permutation;
use crate::runs::{self, Run, Shift};
use crate::special::{student_quantile, student_sf};

/// The family-wise error rate of "loss".
pub const ALPHA: f64 = 0.05;
/// The family-wise error rate at which the runs of an alarm and those that confirm it must show the loss together, besides each of them at [`ALPHA`]. Both are compared with the
/// same baseline, so that their errors are not independent and their rates may not be multiplied; but whatever was chosen before, no more gates of equal sides fail than this last test
/// alone would let fail. With at most [`CONFIRMED_BASE`] runs of the baseline that is below 1 in 1,000 (test `confirmation_soak`).
pub const CONFIRMED: f64 = 0.0005;
/// Runs of a baseline of which a confirmation uses the newest: of few runs against many Welch's test has up to ten times its nominal rate so far in its tail.
pub const CONFIRMED_BASE: usize = 12;
/// The power with which a loss of the margin must have been findable for "passed".
pub const POWER: f64 = 0.8;
/// The most runs or blocks that are named as settling a gate.
const MOST: u32 = 10_000;

/// What is known of one row: its log loss, positive where the new side is worse.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Evidence {
    /// Estimate of the log loss.
    pub loss: f64,
    /// Its standard error, toward no loss.
    pub error: f64,
    /// The same toward a larger loss, which differs where blocks are skewed.
    pub above: f64,
    /// Degrees of freedom.
    pub freedom: f64,
    /// One-sided p value of no loss.
    pub p_value: f64,
    kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    /// Runs against runs; the smaller side's number.
    Runs(usize),
    /// Interleaved blocks.
    Blocks(usize),
}

/// The answer to a gate, or to one of its rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// A loss is shown: exit 4.
    Loss,
    /// No loss is shown, and one of the margin would have been: exit 0.
    Passed,
    /// Neither: exit 5.
    Undecided,
}

/// One row of a gate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Row {
    /// The answer.
    pub answer: Answer,
    /// The log loss that the one-sided test leaves: its lower limit is above 0 exactly where a loss is shown by it, and the upper one is of
    /// the opposite test; `None` without evidence.
    pub limits: Option<(f64, f64)>,
    /// The power with which a loss of the margin would have been found; `None` without evidence.
    pub power: Option<f64>,
    /// The smallest loss that would have been found with 80 % power, relative; `None` without evidence.
    pub smallest_detectable: Option<f64>,
    /// Runs a side, or blocks, in all, with which this row can pass; `None` where no such number up to 10,000 is known. Of a
    /// row that is decided, what there is.
    pub needed: Option<u32>,
}

/// A gate, answered.
#[derive(Debug, Clone, PartialEq)]
pub struct Gate {
    /// The answer: a loss in any row; passed if every row has passed.
    pub answer: Answer,
    /// The rows, in the order given.
    pub rows: Vec<Row>,
}

impl Evidence {
    /// From runs against runs: `shift` is ln(new / base).
    pub fn of_runs(shift: &Shift, better: Better) -> Self {
        let loss = if better == Better::Higher { -shift.centre } else { shift.centre };
        let p_value = one_sided(loss, shift.error, shift.freedom);
        let kind = Kind::Runs(shift.base_runs.min(shift.other_runs));
        Self { loss, error: shift.error, above: shift.error, freedom: shift.freedom, p_value, kind }
    }

    /// From ln(new / base) of each block of one run in which both are interleaved in random order. The p value is the larger
    /// of the permutation test's and the interval's, so that a loss is shown only where both show it. A run that was extended has a smaller error `rate`
    /// than [`ALPHA`]: its errors are so much larger that tests at [`ALPHA`] are at that rate. `None` below [`location::SMALLEST`] blocks or for a value that
    /// is not finite.
    pub fn of_blocks(log_ratios: &[f64], better: Better, rate: f64) -> Option<Self> {
        let sign = if better == Better::Higher { -1.0 } else { 1.0 };
        let losses: Vec<f64> = log_ratios.iter().map(|log| sign * log).collect();
        let found = Estimate::of(&losses)?;
        let wider = student_quantile(1.0 - rate, found.freedom) / student_quantile(1.0 - ALPHA, found.freedom);
        let estimate = Estimate { below: wider * found.below, above: wider * found.above, ..found };
        let p_value = one_sided(estimate.centre, estimate.error_toward(0.0), estimate.freedom);
        Some(Self {
            loss: estimate.centre,
            error: estimate.below,
            above: estimate.above,
            freedom: estimate.freedom,
            p_value: p_value.max((permutation::signed_rank(&losses)? * ALPHA / rate).min(1.0)),
            kind: Kind::Blocks(log_ratios.len()),
        })
    }

    /// The lower and the upper limit of the log loss, each one-sided at `level`.
    fn limits(&self, level: f64) -> (f64, f64) {
        let reach = critical(level, self.freedom);
        (self.loss - reach * self.error, self.loss + reach * self.above)
    }

    /// The smallest log loss that is found with 80 % power by a one-sided test at `level`: (t(1 - level) + t(0.8)) standard
    /// errors. Infinite where the permutation test cannot reach the level with so few blocks.
    fn detectable(&self, level: f64) -> f64 {
        match self.kind {
            Kind::Blocks(blocks) if blocks < permutation::fewest_blocks(level) => f64::INFINITY,
            _ => (critical(level, self.freedom) + student_quantile(POWER, self.freedom)) * self.error,
        }
    }

    /// The chance that a true log loss of `margin` is found at `level`.
    fn power(&self, margin: f64, level: f64) -> f64 {
        match self.kind {
            Kind::Blocks(blocks) if blocks < permutation::fewest_blocks(level) => 0.0,
            _ if self.error > 0.0 => student_sf(critical(level, self.freedom) - margin / self.error, self.freedom),
            _ => 1.0,
        }
    }

    /// Runs a side, or blocks, with which a log loss of `margin` is expected to be found with 80 % power at `level`, if the
    /// spread stays what it is: more than there are.
    fn needed(&self, margin: f64, level: f64) -> Option<u32> {
        let (have, fewest) = match self.kind {
            Kind::Runs(runs) => (runs, runs::FEWEST),
            Kind::Blocks(blocks) => (blocks, location::SMALLEST.max(permutation::fewest_blocks(level))),
        };
        let enough = |units: u32| {
            let share = f64::from(units) / have as f64;
            let freedom = self.freedom * share;
            let error = self.error / share.sqrt();
            (critical(level, freedom) + student_quantile(POWER, freedom)) * error <= margin
        };
        let (mut few, mut many) = (fewest.max(have + 1) as u32, MOST);
        while few < many {
            let middle = few + (many - few) / 2;
            if enough(middle) { many = middle } else { few = middle + 1 }
        }
        enough(few).then_some(few)
    }
}

/// Answers a gate: one entry a row, `None` where a row has no evidence (fewer than three runs a side, or too few blocks), and
/// the relative loss `margin` that must not go unnoticed (0.05 for 5 %).
pub fn gate(rows: &[Option<Evidence>], margin: f64) -> Gate {
    gate_at(rows, margin, ALPHA)
}

/// What a gate of one row answers whose alarm is confirmed by further runs (`check --confirm`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Confirmed {
    /// Whether the checked runs show a loss.
    pub alarm: bool,
    /// Whether the further runs alone show one too, and all of them together at [`CONFIRMED`].
    pub fails: bool,
}

impl Confirmed {
    /// Of the logs of the values of runs, lower ones being better: those of the baseline, the checked ones, and those that would be made `again` after an
    /// alarm.
    pub fn of(base: &[Run], checked: &[Run], again: &[Run]) -> Self {
        let shows = |runs: &[Run], alpha: f64| {
            let evidence = runs::compare(base, runs).map(|shift| Evidence::of_runs(&shift, Better::Lower));
            gate_at(&[evidence], 0.0, alpha).answer == Answer::Loss
        };
        let alarm = shows(checked, ALPHA);
        Confirmed { alarm, fails: alarm && shows(again, ALPHA) && shows(&[checked, again].concat(), CONFIRMED) }
    }
}

/// [`gate`] at another family-wise error rate of "loss", such as [`CONFIRMED`].
pub fn gate_at(rows: &[Option<Evidence>], margin: f64, alpha: f64) -> Gate {
    let known: Vec<f64> = rows.iter().flatten().map(|evidence| evidence.p_value).collect();
    let level = alpha / known.len().max(1) as f64;
    let shown = holm(&known, alpha);
    let levels = holm_levels(&known, &shown, alpha);
    let mut shown = shown.into_iter().zip(levels);
    let margin = margin.ln_1p();
    let row = |evidence: &Option<Evidence>| {
        let Some(evidence) = evidence else {
            return Row {
                answer: Answer::Undecided,
                limits: None,
                power: None,
                smallest_detectable: None,
                needed: None,
            };
        };
        let detectable = evidence.detectable(level);
        let (lost, own_level) = shown.next().unwrap_or((false, level));
        let answer = match lost {
            true => Answer::Loss,
            _ if detectable <= margin => Answer::Passed,
            _ => Answer::Undecided,
        };
        let have = match evidence.kind {
            Kind::Runs(units) | Kind::Blocks(units) => units as u32,
        };
        Row {
            answer,
            limits: Some(match evidence.limits(own_level) {
                // What the permutation test does not show is not shown.
                (least, most) if !lost => (least.min(0.0), most),
                limits => limits,
            }),
            power: Some(evidence.power(margin, level)),
            smallest_detectable: Some(detectable.exp_m1()),
            needed: if answer == Answer::Undecided { evidence.needed(margin, level) } else { Some(have) },
        }
    };
    let rows: Vec<Row> = rows.iter().map(row).collect();
    let answer = match () {
        () if rows.iter().any(|row| row.answer == Answer::Loss) => Answer::Loss,
        () if !rows.is_empty() && rows.iter().all(|row| row.answer == Answer::Passed) => Answer::Passed,
        () => Answer::Undecided,
    };
    Gate { answer, rows }
}

/// The level at which Holm's procedure tested each hypothesis: alpha over the number of those that were left.
fn holm_levels(p_values: &[f64], rejected: &[bool], alpha: f64) -> Vec<f64> {
    let left = |at: usize| {
        let before = (0..p_values.len()).filter(|&other| match rejected[at] {
            true => rejected[other] && (p_values[other], other) < (p_values[at], at),
            false => rejected[other],
        });
        p_values.len() - before.count()
    };
    (0..p_values.len()).map(|at| alpha / left(at).max(1) as f64).collect()
}

fn critical(level: f64, freedom: f64) -> f64 {
    student_quantile(1.0 - level, freedom)
}

fn one_sided(loss: f64, error: f64, freedom: f64) -> f64 {
    match loss {
        _ if error > 0.0 => student_sf(loss / error, freedom),
        _ if loss > 0.0 => 0.0,
        _ => 1.0,
    }
}
