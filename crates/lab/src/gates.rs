//! Gates for scripts: has something become slower? The statistics are `baremark_stats::gate`.
//!
//! `check` compares runs with runs or levels of one run; `ab` two commands interleaved in one run. A shown loss fails a gate, and
//! a gate passes only where a loss of the margin would have been found.

use crate::analysis::{Run, in_statistics};
use crate::trials;
use baremark_model::comparison::{Answer, Comparison, Gate, GateRow};
use baremark_model::metric::Better;
use baremark_model::plan::Treatment;
use baremark_model::units::Share;
use baremark_stats::gate::{self, Evidence};
use baremark_stats::interim::rate;
use baremark_stats::outcome::Subject;
use baremark_stats::{Estimate, precision};

pub use baremark_stats::gate::{CONFIRMED, CONFIRMED_BASE};

/// Runs that confirm an alarm: as many as a comparison of runs needs of a side.
pub const CONFIRMING: usize = baremark_stats::runs::FEWEST;

/// More blocks than these are not named: nobody waits for them.
const MOST: u32 = 10_000;

/// A gate with the limits of the log loss that its one-sided tests leave, one of each row.
pub(crate) struct Gated {
    pub gate: Gate,
    pub limits: Vec<Option<(f64, f64)>>,
}

/// The answer of a row in the words of the one-sided test that gave it: `slower by at least 9.7 %`, a change of the metric as everywhere.
/// `limits` are those of the log loss.
pub(crate) fn words(row: &GateRow, (least, most): (f64, f64), (better, subject): (Better, Subject)) -> String {
    let change = |loss: f64| {
        let share = 100.0 * (if better == Better::Higher { -loss } else { loss }).exp_m1().abs();
        let decimals = (1.0 - share.max(1e-4).log10().floor()).clamp(0.0, 2.0);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 2")]
        let decimals = decimals as usize;
        format!("{share:.decimals$} %")
    };
    let [worse, improved] = match (subject, better) {
        (Subject::Speed, _) => ["slower", "faster"],
        (Subject::Amount, Better::Lower) => ["higher", "lower"],
        (Subject::Amount, _) => ["lower", "higher"],
    };
    match row.answer {
        Answer::Loss => format!("{worse} by at least {}", change(least)),
        _ if most > 0.0 => format!("no loss shown: at most {} {worse}", change(most)),
        _ => format!("no loss shown: {improved} by at least {}", change(most)),
    }
}

/// Answers a gate over rows whose evidence comes from so many `units` (runs a side, or blocks), of which one lasts
/// `seconds`, at an error rate.
pub(crate) fn gate(
    evidence: &[Option<Evidence>],
    units: &[usize],
    (margin, level): (Share, f64),
    seconds: Option<f64>,
) -> Gated {
    let found = gate::gate_at(evidence, margin.0, level);
    let row = |(row, &units): (&gate::Row, &usize)| {
        let needed = row.needed.filter(|_| row.answer == gate::Answer::Undecided);
        let more = needed.map(|needed| f64::from(needed) - f64::from(u32::try_from(units).unwrap_or(u32::MAX)));
        let shown = row.limits.filter(|_| row.answer == gate::Answer::Loss);
        GateRow {
            answer: answer(row.answer),
            at_least: shown.map(|(least, _)| least.exp_m1()),
            power: row.power,
            smallest_detectable: row.smallest_detectable.filter(|loss| loss.is_finite()),
            needed,
            seconds: more.zip(seconds).map(|(more, seconds)| more.max(0.0) * seconds),
        }
    };
    let rows = found.rows.iter().zip(units).map(row).collect();
    let limits = found.rows.iter().map(|row| row.limits).collect();
    Gated { gate: Gate { margin, answer: answer(found.answer), rows }, limits }
}

/// The gate of the requested ratios of one run: have their numerators become worse than their denominators by more than
/// `margin`? Rows are in the order of the plan's requested pairs, each of its headline's metric, of which `better` says which
/// way is better. A loss that is shown to be smaller than the margin passes, and one that may be smaller is undecided. Below the study's smallest number of blocks, where
/// the run's own ratios have no outcome, all is undecided.
#[must_use]
pub fn of_run(run: &Run, better: Better, margin: Share) -> Gate {
    let rate = rate(run.plan.extensions.len());
    let asked = (0..run.plan.pairs.len()).filter(|&pair| run.plan.pairs[pair].asked);
    let logs: Vec<Vec<f64>> = asked.map(|pair| trials::log_ratios(&run.plan, &run.trials, pair)).collect();
    let least = usize::try_from(run.plan.design.least_blocks).unwrap_or(usize::MAX);
    let of = |logs: &Vec<f64>| Evidence::of_blocks(logs, in_statistics(better), rate).filter(|_| logs.len() >= least);
    let evidence: Vec<Option<Evidence>> = logs.iter().map(of).collect();
    let units: Vec<usize> = logs.iter().map(Vec::len).collect();
    let spent: u64 = run.trials.iter().map(|trial| trial.elapsed_ns).sum();
    #[expect(clippy::cast_precision_loss, reason = "seconds of a run")]
    let seconds = spent as f64 / 1e9 / trials::blocks_of(&run.plan, &run.trials).max(1) as f64;
    let mut found = gate(&evidence, &units, (margin, gate::ALPHA), Some(seconds)).gate;
    for (row, logs) in found.rows.iter_mut().zip(&logs).filter(|(row, _)| row.answer == Answer::Loss) {
        let Some(interval) = Estimate::of(logs).map(|estimate| estimate.interval(1.0 - rate)) else { continue };
        let (least, most) = match better {
            Better::Lower => (interval.lo, interval.hi),
            Better::Higher => (-interval.hi, -interval.lo),
        };
        row.answer = match margin.0.ln_1p() {
            margin if least > margin => Answer::Loss,
            margin if most < margin => Answer::Passed,
            margin => {
                let estimate = Estimate::of(logs);
                let distance = (interval.centre.abs() - margin).abs();
                row.needed = estimate.and_then(|of| precision::blocks_to_reach(&of, distance, interval.confidence));
                row.needed = row.needed.filter(|&needed| needed <= MOST);
                Answer::Undecided
            }
        };
    }
    let any = |answer| found.rows.iter().any(|row| row.answer == answer);
    found.answer = match () {
        () if any(Answer::Loss) => Answer::Loss,
        () if any(Answer::Undecided) || found.rows.is_empty() => Answer::Undecided,
        () => Answer::Passed,
    };
    found
}

/// The answer to an alarm after a second measurement: a loss where the first, the second alone, and both `together` at [`CONFIRMED`] show one of the same quantity; passed where the
/// second alone passes. A loss of another quantity alone is no confirmation.
#[must_use]
pub fn confirmed(first: &Comparison, again: &Comparison, together: &Comparison) -> Answer {
    let others = [losses(first), losses(together)];
    let all = losses(again).iter().any(|of| others.iter().all(|losses| losses.contains(of)));
    match again.gate.as_ref().map(|gate| gate.answer) {
        Some(Answer::Loss) if all => Answer::Loss,
        Some(Answer::Passed) => Answer::Passed,
        _ => Answer::Undecided,
    }
}

/// The quantities of which a gate shows a loss.
fn losses(comparison: &Comparison) -> Vec<(&str, &Treatment, Option<&Treatment>)> {
    let answers = comparison.gate.iter().flat_map(|gate| &gate.rows).map(|row| row.answer);
    let shown = comparison.rows.iter().zip(answers).filter(|(_, answer)| *answer == Answer::Loss);
    shown.map(|(row, _)| (row.metric.as_str(), &row.treatment, row.relative_to.as_ref())).collect()
}

fn answer(of: gate::Answer) -> Answer {
    match of {
        gate::Answer::Loss => Answer::Loss,
        gate::Answer::Passed => Answer::Passed,
        gate::Answer::Undecided => Answer::Undecided,
    }
}
