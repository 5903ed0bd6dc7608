//! Why a virtual machine's numbers are what they are, as far as it was counted while they were measured.
//!
//! Each row is one quantity over the timed phases of the trials that count, with its interval over trials. Nothing here is
//! inferred from a ratio: a sentence that no count backs is not written.

use crate::analysis::{RATE, places};
use crate::tally::Finished;
use baremark_model::document::ExplanationRow;
use baremark_model::plan::Plan;
use baremark_stats::estimate::mean_interval;

/// A quantity of one arm in one trial.
type Quantity = fn(&Finished, usize) -> Option<f64>;

struct Row {
    what: &'static str,
    unit: &'static str,
    quantity: Quantity,
    advice: &'static str,
}

const ROWS: &[Row] = &[
    Row {
        what: "exits from the guest during timed phases",
        unit: "1/s per rank",
        quantity: |trial, arm| per_second(trial, arm, "exits"),
        advice: "",
    },
    Row {
        what: "of these for interrupts of the host",
        unit: "1/s per rank",
        quantity: |trial, arm| per_second(trial, arm, "irq_exits"),
        advice: "fewer timer interrupts (nohz_full, a lower HZ) and no other work on these CPUs lower it",
    },
    Row {
        what: "one entry into the guest and back, nothing done inside",
        unit: "us",
        quantity: empty_run_us,
        advice: "it is never inside a timed phase",
    },
];

/// The rows for every arm that ran in a virtual machine, in the plan's order.
pub fn explain(plan: &Plan, trials: &[Finished]) -> Vec<ExplanationRow> {
    let mut rows = Vec::new();
    for (arm, planned) in plan.arms.iter().enumerate() {
        let virtual_ones: Vec<(&Finished, usize)> =
            places(plan, trials, arm).into_iter().filter(|(trial, index)| is_virtual(trial, *index)).collect();
        for row in ROWS {
            let values: Vec<f64> =
                virtual_ones.iter().filter_map(|(trial, index)| (row.quantity)(trial, *index)).collect();
            let Some(interval) = mean_interval(&values, 1.0 - RATE) else { continue };
            rows.push(ExplanationRow {
                treatment: planned.treatment.clone(),
                what: row.what.to_owned(),
                unit: row.unit.to_owned(),
                value: interval.centre,
                lo: interval.lo,
                hi: interval.hi,
                advice: row.advice.to_owned(),
            });
        }
    }
    rows
}

fn is_virtual(trial: &Finished, arm: usize) -> bool {
    trial.counted().and_then(|result| result.arms.get(arm)).is_some_and(|record| record.executor.virtual_machine)
}

/// The growth of the hypervisor's counter over the timed halves of `arm`, for each second of each rank; `None` where it
/// was not counted.
fn per_second(trial: &Finished, arm: usize, counter: &str) -> Option<f64> {
    let result = trial.counted()?;
    let (mut count, mut seconds) = (0.0, 0.0);
    for half in result.phases.iter().filter(|phase| phase.arm == arm).flat_map(|phase| &phase.halves) {
        #[expect(clippy::cast_precision_loss, reason = "counts of one phase")]
        let grown = *half.audit.counters.get(counter)? as f64;
        count += grown;
        seconds += half.times.iter().map(|time| result.tick_rate_per_s.own(time)).sum::<f64>();
    }
    (seconds > 0.0).then(|| count / seconds)
}

fn empty_run_us(trial: &Finished, arm: usize) -> Option<f64> {
    Some(trial.counted()?.arms.get(arm)?.empty_run_ns / 1e3)
}
