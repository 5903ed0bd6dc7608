//! Why a virtual machine's numbers are what they are, as far as it was counted or measured in the same blocks.
//!
//! Each row is one quantity with its interval: counts over the timed phases of the trials that count, a contrast of
//! treatments block by block, or what observers saw that differs between them (`around`). Nothing is inferred: a sentence that no interval backs is not written, and what follows from
//! a row (its advice) is only said where the interval leaves no room for the opposite.
//!
//! Costs are told as the extra time that the same work takes: for a rate of which `r` is kept, `1/r - 1`.

use crate::analysis::{RATE, better, places};
use crate::around;
use crate::tally::{self, Finished};
use baremark_model::descriptor::{Better, Descriptor};
use baremark_model::document::ExplanationRow;
use baremark_model::plan::{Contrast, Pair, Plan};
use baremark_stats::Interval;
use baremark_stats::estimate::mean_interval;
use std::collections::BTreeMap;

/// The workload that asks nothing of memory or MMU: what it loses is the price of exits and interrupts alone.
const CONTROL: &str = "fma";

/// A quantity of one arm in one trial.
type Quantity = fn(&Finished, usize) -> Option<f64>;

struct Row {
    what: &'static str,
    unit: &'static str,
    quantity: Quantity,
    advice: &'static str,
}

const COUNTED: &[Row] = &[
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
    Row {
        what: "time that the exits would take if each cost as much as such an entry",
        unit: "%",
        quantity: |trial, arm| Some(per_second(trial, arm, "exits")? * empty_run_us(trial, arm)? / 1e6 * 100.0),
        advice: "",
    },
];

/// What one of the kernel's pieces of page-table work costs, by the metric of the workload `page-table`.
const FAULTS: &[(&str, &str)] =
    &[("fault_ns", "one demand-zero page fault"), ("protect_ns", "one change of a page's protection")];

/// The rows of every arm, in the plan's order.
pub fn explain(plan: &Plan, trials: &[Finished], workloads: &[&Descriptor]) -> Vec<ExplanationRow> {
    let mut rows = Vec::new();
    let mut seen = around::explain(plan, trials);
    for arm in 0..plan.arms.len() {
        rows.extend(compared(plan, trials, workloads, arm));
        rows.extend(larger_pages(plan, trials, workloads, arm));
        rows.extend(faults(plan, trials, arm));
        rows.extend(counted(plan, trials, arm));
        rows.extend(seen.extract_if(.., |(of, _)| *of == arm).map(|(_, row)| row));
    }
    rows
}

pub(crate) fn row(plan: &Plan, arm: usize, what: &str, unit: &str, interval: Interval, advice: &str) -> ExplanationRow {
    ExplanationRow {
        treatment: plan.arms[arm].treatment.clone(),
        what: what.to_owned(),
        unit: unit.to_owned(),
        value: interval.centre,
        lo: interval.lo,
        hi: interval.hi,
        advice: advice.to_owned(),
    }
}

/// What the control loses in the same place, and what it leaves unexplained of an arm's own loss.
fn compared(plan: &Plan, trials: &[Finished], workloads: &[&Descriptor], arm: usize) -> Vec<ExplanationRow> {
    if plan.arms[arm].emulated {
        return Vec::new();
    }
    let mut rows = Vec::new();
    for (index, pair) in plan.pairs.iter().enumerate() {
        let by_place = pair.numerator == arm && pair.contrast == Contrast::Environment && pair.asked;
        let Some(own) = by_place.then(|| costs(plan, trials, workloads, index)).flatten() else { continue };
        let Some(total) = percent(own.values().copied()) else { continue };
        let base = plan.arms[pair.denominator].environment.as_str();
        if plan.workload_of(arm) == CONTROL {
            let advice = if total.hi < 1.0 { "computing itself costs nothing to speak of here" } else { "" };
            rows.push(row(
                plan,
                arm,
                &format!("extra time that computing alone takes over {base}"),
                "%",
                total,
                advice,
            ));
            continue;
        }
        let Some(control) = control_of(plan, pair).and_then(|control| costs(plan, trials, workloads, control)) else {
            continue;
        };
        let Some(tax) = percent(control.values().copied()) else { continue };
        let rest = own.iter().filter_map(|(block, cost)| Some(cost - control.get(block)?));
        let Some(rest) = percent(rest) else { continue };
        let advice = match (rest.lo > 0.0, rest.hi < 0.0) {
            (true, _) if rest.lo > tax.hi.abs() => {
                "memory and its translation are where it goes: look at page sizes and backing"
            }
            (true, _) => "it goes into memory and its translation",
            (_, true) => "its memory is better placed than the other's, which is no merit of the virtual machine",
            _ => "beyond computing nothing is shown to be lost",
        };
        rows.push(row(plan, arm, &format!("extra time that the same work takes over {base}"), "%", total, ""));
        rows.push(row(plan, arm, "of this explained by what computing alone loses", "%", tax, ""));
        rows.push(row(plan, arm, "not explained by it", "%", rest, advice));
    }
    rows
}

/// The pair of the control that compares the same two places.
fn control_of(plan: &Plan, pair: &Pair) -> Option<usize> {
    let places = |pair: &Pair| (&plan.arms[pair.numerator].environment, &plan.arms[pair.denominator].environment);
    let same_ranks = |other: &Pair| plan.arms[other.numerator].arm.ranks == plan.arms[pair.numerator].arm.ranks;
    plan.pairs.iter().position(|other| {
        plan.workload_of(other.numerator) == CONTROL
            && other.contrast == Contrast::Environment
            && places(other) == places(pair)
            && same_ranks(other)
    })
}

/// ln of the extra time of a pair's numerator over its denominator, by block.
fn costs(plan: &Plan, trials: &[Finished], workloads: &[&Descriptor], pair: usize) -> Option<BTreeMap<u64, f64>> {
    let sign = match better(plan, workloads, plan.pairs[pair].numerator)? {
        Better::Higher => -1.0,
        Better::Lower => 1.0,
    };
    let seen = tally::observations(plan, trials, pair);
    Some(seen.iter().map(|seen| (seen.below.block, sign * seen.log_ratio)).collect())
}

/// The mean of logarithms as an interval in percent.
fn percent(logs: impl Iterator<Item = f64>) -> Option<Interval> {
    let logs: Vec<f64> = logs.collect();
    let interval = mean_interval(&logs, 1.0 - RATE)?;
    let of = |log: f64| log.exp_m1() * 100.0;
    Some(Interval { centre: of(interval.centre), lo: of(interval.lo), hi: of(interval.hi), ..interval })
}

/// What large pages would give an arm of small ones in the same place.
fn larger_pages(plan: &Plan, trials: &[Finished], workloads: &[&Descriptor], arm: usize) -> Vec<ExplanationRow> {
    let mut rows = Vec::new();
    for (index, pair) in plan.pairs.iter().enumerate() {
        let own = pair.denominator == arm && pair.contrast == Contrast::PageSize;
        let here = plan.arms[pair.numerator].environment == plan.arms[arm].environment;
        let Some(costs) = (own && here).then(|| costs(plan, trials, workloads, index)).flatten() else { continue };
        let Some(gain) = percent(costs.values().map(|cost| -cost)) else { continue };
        let delta = plan.design.delta.0 * 100.0;
        let advice = match (gain.lo > delta, gain.hi < delta) {
            (true, _) => "give the application 2m pages (madvise, hugetlbfs, or transparent_hugepage=always)",
            (_, true) => "larger pages would not pay here",
            _ => "",
        };
        rows.push(row(plan, arm, "speed that 2m pages would add", "%", gain, advice));
    }
    rows
}

/// The kernel's own page-table work, where the study measures it.
fn faults(plan: &Plan, trials: &[Finished], arm: usize) -> Vec<ExplanationRow> {
    if plan.workload_of(arm) != "page-table" {
        return Vec::new();
    }
    let at = places(plan, trials, arm);
    let of = |&(metric, what): &(&str, &str)| {
        let values: Vec<f64> = at.iter().filter_map(|(trial, index)| trial.median(*index, metric)).collect();
        let interval = mean_interval(&values, 1.0 - RATE)?;
        Some(row(plan, arm, what, "ns", interval, ""))
    };
    FAULTS.iter().filter_map(of).collect()
}

/// What the hypervisor counted while an arm ran in its machine.
fn counted(plan: &Plan, trials: &[Finished], arm: usize) -> Vec<ExplanationRow> {
    let virtual_ones: Vec<(&Finished, usize)> =
        places(plan, trials, arm).into_iter().filter(|(trial, index)| is_virtual(trial, *index)).collect();
    let of = |counted: &Row| {
        let values: Vec<f64> =
            virtual_ones.iter().filter_map(|(trial, index)| (counted.quantity)(trial, *index)).collect();
        let interval = mean_interval(&values, 1.0 - RATE)?;
        Some(row(plan, arm, counted.what, counted.unit, interval, counted.advice))
    };
    COUNTED.iter().filter_map(of).collect()
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
