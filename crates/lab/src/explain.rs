//! Why a virtual machine's numbers are what they are, as far as it was counted or measured in the same blocks.
//!
//! Each row is one quantity with its interval: counts over the timed phases of the trials that count, a contrast of
//! treatments block by block, or what observers saw that differs between them (`around`). Nothing is inferred: a sentence that no interval backs is not written, and what follows from
//! a row (its advice) is only said where the interval leaves no room for the opposite.
//!
//! Costs are told as the extra time that the same work takes: for a rate of which `r` is kept, `1/r - 1`.

use crate::analysis::{better, interval, places, workload_of};
use crate::around;
use crate::tally::{self, Finished};
use baremark_model::arm::{ExecutorKind, PageSize};
use baremark_model::command;
use baremark_model::descriptor::{Better, Descriptor, Metric};
use baremark_model::document::ExplanationRow;
use baremark_model::plan::{Contrast, Pair, Plan};
use baremark_model::tables;
use baremark_model::units::Share;
use baremark_stats::Interval;
use std::cmp::Ordering;
use std::collections::BTreeMap;

/// The workload that asks nothing of memory or MMU: what it loses is the price of exits and interrupts alone.
const CONTROL: &str = "fma";

/// A quantity of one arm in one trial.
type Quantity = fn(&Finished, usize) -> Option<f64>;

/// What the hypervisor counted: in words, its unit, and what it is of one arm in one trial.
const COUNTED: &[(&str, &str, Quantity)] = &[
    ("VM exits in timed phases", "/s per rank", |trial, arm| per_second(trial, arm, "exits")),
    ("VM exits for interrupts of the host", "/s per rank", |trial, arm| per_second(trial, arm, "irq_exits")),
    ("start of a run in the virtual machine (threads woken, entry, report), outside timed phases", "us", empty_run_us),
];

/// What exits cost, as far as the control shows it: a bound, since all that the control loses is laid at their door.
const EXITING: &str = "cost of VM exits, at most (by the control fma, exit for exit)";
/// How long ranks waited for their CPUs.
const QUEUED: &str = "ready to run while others had the CPU, in timed phases";
/// What other programs used of the CPUs while an arm's phases ran, beyond the phases of what it is compared with.
const USED_BY_OTHERS: &str = "CPU use by other programs in timed phases";
/// Below this share of the time waiting is not worth a row, in percent.
const QUEUED_LEAST: f64 = 0.1;

/// What one of the kernel's pieces of page-table work costs, by the metric of the workload `page-table`.
const FAULTS: &[(&str, &str)] =
    &[("fault_ns", "one demand-zero page fault"), ("protect_ns", "one change of a page's protection (mprotect)")];

/// The rows of every arm, in the plan's order.
pub fn explain(plan: &Plan, trials: &[Finished], workloads: &[&Descriptor]) -> Vec<ExplanationRow> {
    let mut rows = Vec::new();
    let mut seen = around::explain(plan, trials);
    for arm in 0..plan.arms.len() {
        rows.extend(compared(plan, trials, workloads, arm));
        rows.extend(larger_pages(plan, trials, workloads, arm));
        rows.extend(own_settings(plan, trials, workloads, arm));
        rows.extend(faults(plan, trials, arm));
        rows.extend(counted(plan, trials, workloads, arm));
        rows.extend(of_a_program(plan, trials, arm));
        rows.extend(queued(plan, trials, arm));
        rows.extend(used_by_others(plan, trials, arm));
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
        let overhead = |of: &str| format!("overhead {of}over {base} (extra time)");
        if plan.workload_of(arm) == CONTROL {
            let has_exits = tables::place(plan.arms[arm].place()).is_some_and(|place| place.exits);
            let bound = Share(total.hi.max(0.0) / 100.0);
            let advice = if has_exits {
                format!("VM exits cost at most {bound:.1} (bound from {CONTROL})")
            } else {
                String::new()
            };
            rows.push(row(plan, arm, &overhead("of computing alone "), "%", total, &advice));
            continue;
        }
        let Some(control) = control_of(plan, pair).and_then(|control| costs(plan, trials, workloads, control)) else {
            continue;
        };
        let Some(tax) = percent(control.values().copied()) else { continue };
        let rest = own.iter().filter_map(|(block, cost)| Some(cost - control.get(block)?));
        let Some(rest) = percent(rest) else { continue };
        rows.push(row(plan, arm, &overhead(""), "%", total, ""));
        rows.push(row(plan, arm, "overhead of computing alone in the same blocks", "%", tax, ""));
        let bare = workload_of(plan, workloads, arm)
            .is_some_and(|of| of.kind != command::KIND && of.executors.contains(&ExecutorKind::Microvm));
        let advice = beyond_computing(tax, rest, bare);
        rows.push(row(plan, arm, "overhead that computing alone does not explain", "%", rest, &advice));
    }
    rows
}

/// What follows from the overhead that the control leaves unexplained. Work that can run without an operating system does
/// nothing but compute, use memory and wait for each other; of any other it may be the system's own.
fn beyond_computing(control: Interval, rest: Interval, bare: bool) -> String {
    let to = match bare {
        true => "memory, address translation or waiting",
        false => "system activity (calls, faults, switches, I/O), memory or waiting",
    };
    match (rest.lo > 0.0, rest.hi < 0.0) {
        (true, _) if rest.lo <= control.hi.abs() => format!("part of it goes to {to}"),
        (true, _) => format!("most of it goes to {to}"),
        (_, true) => "it loses less than computing alone does".to_owned(),
        _ => format!("at most {:.1} more than computing alone", Share(rest.hi.max(0.0) / 100.0)),
    }
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
    Some(seen.iter().map(|seen| (seen.block(), sign * seen.log_ratio)).collect())
}

/// The estimate over blocks as an interval in percent.
fn percent(logs: impl Iterator<Item = f64>) -> Option<Interval> {
    let logs: Vec<f64> = logs.collect();
    let interval = interval(&logs)?;
    let of = |log: f64| log.exp_m1() * 100.0;
    Some(Interval { centre: of(interval.centre), lo: of(interval.lo), hi: of(interval.hi), ..interval })
}

/// What large pages would give an arm of small ones in the same place: of a pair that the study asks for, or of one that trials give anyway.
fn larger_pages(plan: &Plan, trials: &[Finished], workloads: &[&Descriptor], arm: usize) -> Vec<ExplanationRow> {
    let mut rows = Vec::new();
    let large = |arm: usize| plan.arms[arm].arm.page == PageSize::Large;
    for (index, pair) in plan.pairs.iter().enumerate() {
        let here = plan.arms[pair.numerator].environment == plan.arms[pair.denominator].environment;
        // The extra time of the numerator is what small pages cost where it has them, and what large ones gain where not.
        let sign = match (arm == pair.numerator, arm == pair.denominator) {
            (true, false) if large(pair.denominator) => 1.0,
            (false, true) if large(pair.numerator) => -1.0,
            _ => continue,
        };
        let of_pages = here && pair.contrast == Contrast::PageSize;
        let Some(costs) = of_pages.then(|| costs(plan, trials, workloads, index)).flatten() else { continue };
        let Some(gain) = percent(costs.values().map(|cost| sign * cost)) else { continue };
        let delta = plan.design.delta;
        let advice = match against(gain, delta) {
            Ordering::Greater => {
                "give the application 2m pages (madvise, hugetlbfs, or transparent_hugepage=always)".to_owned()
            }
            Ordering::Less => format!("2m pages would gain less than {delta}"),
            Ordering::Equal => String::new(),
        };
        rows.push(row(plan, arm, "speedup by 2m pages", "%", gain, &advice));
    }
    rows
}

/// What its own settings give an arm over the place that it is like, where the same reference is below both: that is in
/// the same trials and cancels.
fn own_settings(plan: &Plan, trials: &[Finished], workloads: &[&Descriptor], arm: usize) -> Option<ExplanationRow> {
    let like = plan.arms[arm].like.as_ref()?;
    let mut usual = plan.arms[arm].treatment.clone();
    usual.insert("environment".to_owned(), like.clone());
    let base = plan.arms.iter().position(|other| other.treatment == usual)?;
    if plan.arms[arm].emulated || plan.arms[base].emulated {
        return None;
    }
    let asked =
        |arm: usize| plan.pairs.iter().position(|pair| pair.numerator == arm && pair.asked && !pair.interleaved);
    let (own, theirs) = (asked(arm)?, asked(base)?);
    if plan.pairs[own].denominator != plan.pairs[theirs].denominator {
        return None;
    }
    let own = costs(plan, trials, workloads, own)?;
    let theirs = costs(plan, trials, workloads, theirs)?;
    let gain = percent(own.iter().filter_map(|(block, cost)| Some(theirs.get(block)? - cost)))?;
    let delta = plan.design.delta;
    let matters = 100.0 * delta.0;
    let what = format!("the settings that differ from {like}'s");
    let advice = match gain {
        Interval { lo, .. } if lo > matters => format!("{what} gain that"),
        Interval { hi, .. } if hi < -matters => format!("{what} cost that: keep {like}'s"),
        Interval { lo, hi, .. } if lo > -matters && hi < matters => format!("{what} matter less than {delta}"),
        _ => String::new(),
    };
    Some(row(plan, arm, &format!("speedup over {like} by its own settings"), "%", gain, &advice))
}

/// The kernel's own page-table work, where the study measures it.
fn faults(plan: &Plan, trials: &[Finished], arm: usize) -> Vec<ExplanationRow> {
    if plan.workload_of(arm) != "page-table" {
        return Vec::new();
    }
    let at = places(plan, trials, arm);
    let of = |&(metric, what): &(&str, &str)| {
        let values: Vec<f64> = at.iter().filter_map(|(trial, index)| trial.value(*index, metric)).collect();
        Some(row(plan, arm, what, "ns", interval(&values)?, ""))
    };
    FAULTS.iter().filter_map(of).collect()
}

/// On which side of the difference that matters an interval in percent lies; `Equal` where it lies on both.
fn against(interval: Interval, delta: Share) -> Ordering {
    let delta = delta.0 * 100.0;
    match (interval.lo > delta, interval.hi < delta) {
        (true, _) => Ordering::Greater,
        (_, true) => Ordering::Less,
        _ => Ordering::Equal,
    }
}

/// What the hypervisor counted while an arm ran in its machine, and what that costs at most.
fn counted(plan: &Plan, trials: &[Finished], workloads: &[&Descriptor], arm: usize) -> Vec<ExplanationRow> {
    let virtual_ones: Vec<(&Finished, usize)> =
        places(plan, trials, arm).into_iter().filter(|(trial, index)| is_virtual(trial, *index)).collect();
    let of = |&(what, unit, quantity): &(&str, &str, Quantity)| {
        let values: Vec<f64> = virtual_ones.iter().filter_map(|(trial, index)| quantity(trial, *index)).collect();
        Some(row(plan, arm, what, unit, interval(&values)?, ""))
    };
    let mut rows: Vec<ExplanationRow> = COUNTED.iter().filter_map(of).collect();
    rows.extend(exits_at_most(plan, trials, workloads, arm));
    rows
}

/// What was counted of a program in the microVM: its metrics, in words.
const OF_A_PROGRAM: &[(&Metric, &str)] = &[
    (&command::FORWARDED_CALLS, "system calls forwarded from the microVM, a run"),
    (&command::VM_EXITS, "exits from the microVM, a run"),
    (&command::GUEST_FAULTS, "guest page faults, a run"),
    (&command::GUEST_SIGNALS, "signals delivered in the microVM, a run"),
    (&command::GUEST_START, "making the microVM before the first instruction, a run"),
    (&command::CALL_COST, "one forwarded system call that does nothing, measured in each trial"),
    (&command::EXIT_COST, "one exit: that call less the same natively, measured in each trial"),
    (&command::EXITLESS_CALLS, "system calls that a polling thread answered without an exit, a run"),
    (&command::EXITLESS_FALLBACKS, "system calls left to a polling thread that then left the microVM, a run"),
    (&command::POLLING_CPU, "CPU time of polling threads, on a CPU that is spent on them, a run"),
];
/// What exits explain of a program's run time, in words.
pub const EXPLAINED: &str = "run time that exits from the microVM explain (number x cost of one here)";
/// What a ratio of a program in the microVM means.
const LOWER_BOUND: &str =
    "device and kernel work ran natively: a lower bound on the cost of a virtual machine for this program";

/// What leaving the microVM comes to for a program that ran in it.
fn of_a_program(plan: &Plan, trials: &[Finished], arm: usize) -> Vec<ExplanationRow> {
    let inside = plan.arms[arm].arm.executor == ExecutorKind::Microvm && plan.workload_of(arm) == command::KIND;
    if !inside {
        return Vec::new();
    }
    let at = places(plan, trials, arm);
    let over_trials = |metric: &Metric| {
        let values: Vec<f64> = at.iter().filter_map(|(trial, index)| trial.value(*index, metric.key)).collect();
        interval(&values)
    };
    let of = |&(metric, what): &(&Metric, &str)| {
        let unit = if metric.unit == "1" { "" } else { metric.unit };
        Some(row(plan, arm, what, unit, over_trials(metric)?, ""))
    };
    let mut rows: Vec<ExplanationRow> = OF_A_PROGRAM.iter().filter_map(of).collect();
    rows.extend(over_trials(&command::EXIT_SHARE).map(|share| row(plan, arm, EXPLAINED, "%", share, LOWER_BOUND)));
    rows
}

/// What the exits of an arm cost at most, block by block: the control's overhead in the block, all of which is taken to be its
/// exits' (it has no other reason to lose), times how many exits the arm has for each of the control's. An exit of the arm is
/// taken to cost what one of the control does. What starting a run costs says nothing of it: that wakes threads and reports.
/// `None` where the study has no control in the same places, or exits were not counted in both.
fn exits_at_most(plan: &Plan, trials: &[Finished], workloads: &[&Descriptor], arm: usize) -> Option<ExplanationRow> {
    let by_place = |pair: &Pair| pair.numerator == arm && pair.contrast == Contrast::Environment && pair.asked;
    let own = plan.pairs.iter().position(by_place)?;
    let control = if plan.workload_of(arm) == CONTROL { own } else { control_of(plan, &plan.pairs[own])? };
    let overhead = costs(plan, trials, workloads, control)?;
    let of_control = exits_by_block(plan, trials, plan.pairs[control].numerator);
    let of_arm = exits_by_block(plan, trials, arm);
    let bound = |(block, cost): (&u64, &f64)| {
        let each = of_control.get(block).filter(|rate| **rate > 0.0)?;
        Some(100.0 * cost.exp_m1() * of_arm.get(block)? / each)
    };
    let shares: Vec<f64> = overhead.iter().filter_map(bound).collect();
    let found = interval(&shares)?;
    let delta = plan.design.delta;
    let advice = match against(found, delta) {
        Ordering::Greater if mostly_interrupts(plan, trials, arm) => {
            "fewer interrupts on these CPUs lower it (nohz_full, a lower HZ, no other work on them)".to_owned()
        }
        Ordering::Less => format!("less than the {delta} that matter"),
        _ => String::new(),
    };
    // Exits cost nothing or more.
    let [lo, centre, hi] = [found.lo, found.centre, found.hi].map(|share| share.max(0.0));
    Some(row(plan, arm, EXITING, "%", Interval { lo, centre, hi, ..found }, &advice))
}

/// Exits a second of each rank, by block.
fn exits_by_block(plan: &Plan, trials: &[Finished], arm: usize) -> BTreeMap<u64, f64> {
    let all = places(plan, trials, arm).into_iter().filter(|(trial, index)| is_virtual(trial, *index));
    all.filter_map(|(trial, index)| Some((trial.block, per_second(trial, index, "exits")?))).collect()
}

/// Whether interrupts of the host are more than half of an arm's exits in every trial.
fn mostly_interrupts(plan: &Plan, trials: &[Finished], arm: usize) -> bool {
    let half = |(trial, index): &(&Finished, usize)| {
        let of = |counter: &str| per_second(trial, *index, counter);
        Some(of("irq_exits")? > 0.5 * of("exits")?)
    };
    let seen: Vec<bool> = places(plan, trials, arm).iter().filter_map(half).collect();
    !seen.is_empty() && seen.into_iter().all(|half| half)
}

/// How long an arm's ranks waited for CPUs that others had, by trial; no row where that is next to nothing.
fn queued(plan: &Plan, trials: &[Finished], arm: usize) -> Option<ExplanationRow> {
    let share = |(trial, index): &(&Finished, usize)| {
        let found = trial.counted()?.disturbance.as_ref()?;
        Some(100.0 * found.queued.get(*index).copied().flatten()?)
    };
    let shares: Vec<f64> = places(plan, trials, arm).iter().filter_map(share).collect();
    let found = interval(&shares).filter(|found| found.centre > QUEUED_LEAST)?;
    let advice = match against(found, plan.design.delta) {
        Ordering::Greater => "other programs use these CPUs: stop them, or give the ranks CPUs of their own",
        _ => "",
    };
    Some(row(plan, arm, QUEUED, "%", found, advice))
}

/// How much more of the CPUs other programs used in an arm's phases than in those of what it is compared with, block by
/// block; no row where the interval holds 0. Others that compute compete for memory, caches and the clock even on CPUs of their own.
fn used_by_others(plan: &Plan, trials: &[Finished], arm: usize) -> Option<ExplanationRow> {
    let own = |pair: &Pair| pair.numerator == arm && pair.asked && pair.contrast != Contrast::SelfCheck;
    let index = plan.pairs.iter().position(own)?;
    let share = |side: tally::Side<'_>| {
        let result = side.trial.counted()?;
        let arms = result.series.iter().map(|phase| phase.arm);
        Some(100.0 * result.disturbance.as_ref()?.others_of(side.arm, arms)?)
    };
    let sides = tally::sides(plan, trials, index);
    let differences: Vec<f64> =
        sides.iter().filter_map(|sides| sides.means(share)).map(|[below, above]| above - below).collect();
    let found = interval(&differences).filter(|found| !found.contains(0.0))?;
    let base = plan.arms[plan.pairs[index].denominator].environment.as_str();
    let delta = plan.design.delta;
    let advice = match against(found, delta) {
        Ordering::Greater => "other programs disturbed it more: stop them, or repeat the run on a quiet machine",
        _ => "",
    };
    Some(row(plan, arm, &format!("{USED_BY_OTHERS} beyond {base}"), "%", found, advice))
}

fn is_virtual(trial: &Finished, arm: usize) -> bool {
    trial.counted().and_then(|result| result.arms.get(arm)).is_some_and(|record| record.executor.virtual_machine)
}

/// The growth of the hypervisor's counter inside the timed regions of `arm`, for each second of each rank; `None` where it
/// was not counted.
fn per_second(trial: &Finished, arm: usize, counter: &str) -> Option<f64> {
    let (grown, seconds) = trial.grown(arm)?;
    #[expect(clippy::cast_precision_loss, reason = "counts of one trial")]
    let count = *grown.get(counter)? as f64;
    (seconds > 0.0).then(|| count / seconds)
}

fn empty_run_us(trial: &Finished, arm: usize) -> Option<f64> {
    Some(trial.counted()?.arms.get(arm)?.empty_run_ns / 1e3)
}
