//! Why a virtual machine's numbers are what they are, as far as it was counted or measured in the same blocks.
//!
//! Each row is one quantity with its interval: counts over the timed phases of the trials that count, a contrast of
//! treatments block by block, the part of a difference that the run's own metrics show (`own_time`), or what observers saw that differs between them (`activity`). Nothing is inferred: a sentence that no interval backs is not written, and what follows from
//! a row (its advice) is only said where the interval leaves no room for the opposite.
//!
//! Costs are told as the extra time that the same work takes: for a rate of which `r` is kept, `1/r - 1`.

use crate::activity::{self, row};
use crate::examined;
use crate::own_time;
use crate::run::{better, places, workload_of};
use crate::trials::{self, Finished};
use crate::used_by_others;
use crate::values::{self, RATE};
use baremark_model::arm::ExecutorKind;
use baremark_model::codes::Cause;
use baremark_model::command;
use baremark_model::descriptor::Descriptor;
use baremark_model::document::{ExplanationRow, RatioRow};
use baremark_model::environments;
use baremark_model::metric::{Better, Metric};
use baremark_model::page_size::PageSize;
use baremark_model::plan::{Contrast, Pair, Plan};
use baremark_model::second_look::SecondLook;
use baremark_model::units::Share;
use baremark_stats::{Estimate, Interval};
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
/// Below this share of the time waiting is not worth a row, in percent.
const QUEUED_LEAST: f64 = 0.1;

/// What one of the kernel's pieces of page-table work costs, by the metric of the workload `page-table`.
const FAULTS: &[(&str, &str)] =
    &[("fault_ns", "one demand-zero page fault"), ("protect_ns", "one change of a page's protection (mprotect)")];

/// The rows of every arm, in the plan's order.
pub fn explain(
    plan: &Plan,
    trials: &[Finished],
    workloads: &[&Descriptor],
    ratios: &[RatioRow],
    second_look: Option<&SecondLook>,
) -> Vec<ExplanationRow> {
    let study = Study { plan, trials, workloads, ratios };
    let mut rows = Vec::new();
    let mut seen = activity::explain(plan, trials);
    let mut own = own_time::explain(plan, trials, workloads);
    own.extend(second_look.into_iter().flat_map(|found| examined::explain(plan, trials, found, ratios)));
    for arm in 0..plan.arms.len() {
        rows.extend(own.extract_if(.., |(of, _)| *of == arm).map(|(_, row)| row));
        rows.extend(compared(&study, arm));
        rows.extend(larger_pages(&study, arm));
        rows.extend(own_settings(&study, arm));
        rows.extend(faults(plan, trials, arm));
        rows.extend(counted(&study, arm));
        rows.extend(of_a_program(plan, trials, arm));
        rows.extend(queued(plan, trials, arm));
        rows.extend(used_by_others(&study, arm));
        rows.extend(seen.extract_if(.., |(of, _)| *of == arm).map(|(_, row)| row));
    }
    rows
}

/// A run with its ratios, whose intervals decide: what is said of a ratio here has the interval that the ratio has.
struct Study<'s> {
    plan: &'s Plan,
    trials: &'s [Finished],
    workloads: &'s [&'s Descriptor],
    /// One row for each pair of the plan, in its order, then those of other metrics.
    ratios: &'s [RatioRow],
}

impl Study<'_> {
    /// ln of the extra time of a pair's numerator over its denominator, by block.
    fn costs(&self, pair: usize) -> Option<BTreeMap<u64, f64>> {
        let sign = self.sign(pair)?;
        let seen = trials::observations(self.plan, self.trials, pair);
        Some(seen.iter().map(|seen| (seen.block(), sign * seen.log_ratio)).collect())
    }

    /// 1 where a larger metric is a larger cost, else -1.
    fn sign(&self, pair: usize) -> Option<f64> {
        Some(match better(self.plan, self.workloads, self.plan.pairs[pair].numerator)? {
            Better::Higher => -1.0,
            Better::Lower => 1.0,
        })
    }

    /// The extra time of a pair's numerator in percent, with the interval that decides its outcome.
    fn cost(&self, pair: usize) -> Option<Interval> {
        let sign = self.sign(pair)?;
        let row = self.ratios.get(pair)?;
        let (centre, lo, hi) = (row.ratio?, row.lo?, row.hi?);
        let interval = Interval { centre, lo, hi, confidence: row.confidence, units: row.blocks };
        let of = |ratio: f64| (sign * ratio.ln()).exp_m1() * 100.0;
        let (one, two) = (of(interval.lo), of(interval.hi));
        Some(Interval { centre: of(interval.centre), lo: one.min(two), hi: one.max(two), ..interval })
    }

    /// A difference of costs by block, in percent, as confident as the ratios that it is made of.
    fn difference(&self, pairs: [usize; 2], logs: impl Iterator<Item = f64>) -> Option<Interval> {
        let rows = pairs.iter().filter_map(|pair| self.ratios.get(*pair));
        let confidence = rows.map(|row| row.confidence).fold(1.0 - RATE, f64::max);
        let logs: Vec<f64> = logs.collect();
        let interval = Estimate::of(&logs)?.interval(confidence);
        let of = |log: f64| log.exp_m1() * 100.0;
        Some(Interval { centre: of(interval.centre), lo: of(interval.lo), hi: of(interval.hi), ..interval })
    }
}

/// From here on a bound on what VM exits cost is of no use, in percent: all that the control loses, its noise too, is in it.
const BOUND_MOST: f64 = 2.0;

/// What the control loses in the same place, and what it leaves unexplained of an arm's own loss.
fn compared(study: &Study<'_>, arm: usize) -> Vec<ExplanationRow> {
    let plan = study.plan;
    if plan.arms[arm].emulated {
        return Vec::new();
    }
    let mut rows = Vec::new();
    for (index, pair) in plan.pairs.iter().enumerate() {
        let by_place = pair.numerator == arm && pair.contrast == Contrast::Environment && pair.asked;
        let Some(total) = by_place.then(|| study.cost(index)).flatten() else { continue };
        let base = plan.arms[pair.denominator].environment.as_str();
        let overhead = |of: &str| format!("overhead {of}over {base} (extra time)");
        if plan.workload_of(arm) == CONTROL {
            // A control that is faster there has something else of which exits may take any part.
            let advice = match has_exits(plan, arm) && total.hi >= 0.0 && total.hi < BOUND_MOST {
                true => {
                    format!("VM exits cost at most {:.1} (bound from {CONTROL})", Share(total.hi / 100.0))
                }
                false => String::new(),
            };
            rows.push(row(plan, arm, (Cause::Computing, &overhead("of computing alone ")), "%", total, &advice));
            continue;
        }
        let Some(control) = control_of(plan, pair) else { continue };
        let (Some(own), Some(theirs), Some(tax)) = (study.costs(index), study.costs(control), study.cost(control))
        else {
            continue;
        };
        let rest = own.iter().filter_map(|(block, cost)| Some(cost - theirs.get(block)?));
        let Some(rest) = study.difference([index, control], rest) else { continue };
        rows.push(row(plan, arm, (Cause::Overhead, &overhead("")), "%", total, ""));
        let alone = (Cause::ComputingInTheSameBlocks, "overhead of computing alone in the same blocks");
        rows.push(row(plan, arm, alone, "%", tax, ""));
        let bare = workload_of(plan, study.workloads, arm)
            .is_some_and(|of| of.kind != command::KIND && of.executors.contains(&ExecutorKind::Microvm));
        let advice = beyond_computing(tax, rest, bare);
        let beyond = (Cause::BeyondComputing, "overhead that computing alone does not explain");
        rows.push(row(plan, arm, beyond, "%", rest, &advice));
    }
    rows
}

/// Whether an arm's environment has VM exits.
fn has_exits(plan: &Plan, arm: usize) -> bool {
    environments::can(plan.arms[arm].place()).virtual_machine
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

/// What large pages would give an arm of small ones in the same place: of a pair that the study asks for, or of one that trials give anyway.
fn larger_pages(study: &Study<'_>, arm: usize) -> Vec<ExplanationRow> {
    let plan = study.plan;
    let mut rows = Vec::new();
    let large = |arm: usize| plan.arms[arm].arm.page == PageSize::Large;
    for (index, pair) in plan.pairs.iter().enumerate() {
        let here = plan.arms[pair.numerator].environment == plan.arms[pair.denominator].environment;
        // The extra time of the numerator is what small pages cost where it has them, and what large ones gain where not.
        let gains = match (arm == pair.numerator, arm == pair.denominator) {
            (true, false) if large(pair.denominator) => true,
            (false, true) if large(pair.numerator) => false,
            _ => continue,
        };
        let of_pages = here && pair.contrast == Contrast::PageSize;
        let Some(cost) = of_pages.then(|| study.cost(index)).flatten() else { continue };
        let gain = if gains { cost } else { inverted(cost) };
        rows.push(row(
            plan,
            arm,
            (Cause::LargerPages, "speedup by 2m pages"),
            "%",
            gain,
            &about_pages(gain, plan.design.delta),
        ));
    }
    rows
}

/// The same of the other side: 25 % longer is 20 % shorter.
fn inverted(percent: Interval) -> Interval {
    let of = |value: f64| 100.0 * (1.0 / (1.0 + value / 100.0) - 1.0);
    Interval { centre: of(percent.centre), lo: of(percent.hi), hi: of(percent.lo), ..percent }
}

/// What follows from what large pages gain: each answer where the interval leaves no room for another.
fn about_pages(gain: Interval, delta: Share) -> String {
    let matters = 100.0 * delta.0;
    match gain {
        Interval { lo, .. } if lo > matters => {
            "give the application 2m pages (madvise, hugetlbfs, or transparent_hugepage=always)".to_owned()
        }
        Interval { hi, .. } if hi < -matters => "2m pages are slower here: keep 4k pages".to_owned(),
        Interval { lo, hi, .. } if lo > -matters && hi < matters => format!("2m pages matter less than {delta}"),
        Interval { hi, .. } if hi < matters => format!("2m pages gain less than {delta}, and may cost more"),
        _ => String::new(),
    }
}

/// What its own settings give an arm over the place that it is like, where the same reference is below both, block by block.
fn own_settings(study: &Study<'_>, arm: usize) -> Option<ExplanationRow> {
    let plan = study.plan;
    let like = plan.arms[arm].like.as_ref()?;
    let mut usual = plan.arms[arm].treatment.clone();
    usual.insert("environment".to_owned(), like.clone());
    let base = plan.arms.iter().position(|other| other.treatment == usual)?;
    if plan.arms[arm].emulated || plan.arms[base].emulated {
        return None;
    }
    let asked = |arm: usize| plan.pairs.iter().position(|pair| pair.numerator == arm && pair.asked);
    let pairs = [asked(arm)?, asked(base)?];
    if plan.pairs[pairs[0]].denominator != plan.pairs[pairs[1]].denominator {
        return None;
    }
    let (own, theirs) = (study.costs(pairs[0])?, study.costs(pairs[1])?);
    let gains = own.iter().filter_map(|(block, cost)| Some(theirs.get(block)? - cost));
    let gain = study.difference(pairs, gains)?;
    let delta = plan.design.delta;
    let matters = 100.0 * delta.0;
    let what = format!("the settings that differ from {like}'s");
    let advice = match gain {
        Interval { lo, .. } if lo > matters => format!("{what} gain that"),
        Interval { hi, .. } if hi < -matters => format!("{what} cost that: keep {like}'s"),
        Interval { lo, hi, .. } if lo > -matters && hi < matters => format!("{what} matter less than {delta}"),
        _ => String::new(),
    };
    let what = format!("speedup over {like} by its own settings");
    Some(row(plan, arm, (Cause::OwnSettings, &what), "%", gain, &advice))
}

/// The kernel's own page-table work, where the study measures it.
fn faults(plan: &Plan, trials: &[Finished], arm: usize) -> Vec<ExplanationRow> {
    if plan.workload_of(arm) != "page-table" {
        return Vec::new();
    }
    let at = places(plan, trials, arm);
    let of = |&(metric, what): &(&str, &str)| {
        let values: Vec<f64> = at.iter().filter_map(|(trial, index)| trial.value(*index, metric)).collect();
        Some(row(plan, arm, (Cause::PageTableWork, what), "ns", values::interval(&values)?, ""))
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
fn counted(study: &Study<'_>, arm: usize) -> Vec<ExplanationRow> {
    let (plan, trials) = (study.plan, study.trials);
    let virtual_ones: Vec<(&Finished, usize)> =
        places(plan, trials, arm).into_iter().filter(|(trial, index)| is_virtual(trial, *index)).collect();
    let of = |&(what, unit, quantity): &(&str, &str, Quantity)| {
        let values: Vec<f64> = virtual_ones.iter().filter_map(|(trial, index)| quantity(trial, *index)).collect();
        Some(row(plan, arm, (Cause::Hypervisor, what), unit, values::interval(&values)?, ""))
    };
    let mut rows: Vec<ExplanationRow> = COUNTED.iter().filter_map(of).collect();
    rows.extend(exits_at_most(study, arm));
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
const EXPLAINED: &str = "run time that exits from the microVM explain (number x cost of one here)";
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
        values::interval(&values)
    };
    let of = |&(metric, what): &(&Metric, &str)| {
        let unit = if metric.unit == "1" { "" } else { metric.unit };
        Some(row(plan, arm, (Cause::ProgramInMicrovm, what), unit, over_trials(metric)?, ""))
    };
    let mut rows: Vec<ExplanationRow> = OF_A_PROGRAM.iter().filter_map(of).collect();
    let explained = (Cause::ExitsOfProgram, EXPLAINED);
    rows.extend(over_trials(&command::EXIT_SHARE).map(|share| row(plan, arm, explained, "%", share, LOWER_BOUND)));
    rows
}

/// What the exits of an arm cost at most, block by block: the control's overhead in the block, all of which is taken to be its
/// exits' (it has no other reason to lose), times how many exits the arm has for each of the control's. An exit of the arm is
/// taken to cost what one of the control does. What starting a run costs says nothing of it: that wakes threads and reports.
/// `None` where the study has no control in the same places, exits were not counted in both, or the bound is no bound: it holds the
/// control's noise, or the control is faster there.
fn exits_at_most(study: &Study<'_>, arm: usize) -> Option<ExplanationRow> {
    let (plan, trials) = (study.plan, study.trials);
    let by_place = |pair: &Pair| pair.numerator == arm && pair.contrast == Contrast::Environment && pair.asked;
    let own = plan.pairs.iter().position(by_place)?;
    let control = if plan.workload_of(arm) == CONTROL { own } else { control_of(plan, &plan.pairs[own])? };
    let overhead = study.costs(control)?;
    let of_control = exits_by_block(plan, trials, plan.pairs[control].numerator);
    let of_arm = exits_by_block(plan, trials, arm);
    let bound = |(block, cost): (&u64, &f64)| {
        let each = of_control.get(block).filter(|rate| **rate > 0.0)?;
        Some(100.0 * cost.exp_m1() * of_arm.get(block)? / each)
    };
    let shares: Vec<f64> = overhead.iter().filter_map(bound).collect();
    let confidence = study.ratios.get(control).map_or(1.0 - RATE, |row| row.confidence);
    let found = Estimate::of(&shares)?.interval(confidence);
    if found.hi < 0.0 || found.hi >= BOUND_MOST || !has_exits(plan, arm) {
        return None;
    }
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
    Some(row(plan, arm, (Cause::VmExits, EXITING), "%", Interval { lo, centre, hi, ..found }, &advice))
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
    let found = values::interval(&shares).filter(|found| found.centre > QUEUED_LEAST)?;
    let found = values::of_unit(found, "%");
    let advice = match against(found, plan.design.delta) {
        Ordering::Greater => "other programs use these CPUs: stop them, or give the ranks CPUs of their own",
        _ => "",
    };
    Some(row(plan, arm, (Cause::Queued, QUEUED), "%", found, advice))
}

/// How much more of the CPUs other programs used in an arm's phases than in those of what it is compared with, block by
/// block; no row where the interval holds 0, or both were not counted in one way (which [`crate::observed`] says). Others that compute compete for memory, caches and the clock even on CPUs of their own.
fn used_by_others(study: &Study<'_>, arm: usize) -> Option<ExplanationRow> {
    let (plan, trials) = (study.plan, study.trials);
    let own = |pair: &Pair| pair.numerator == arm && pair.is_compared();
    let index = plan.pairs.iter().position(own)?;
    let (what, differences) = used_by_others::differences(plan, trials, index).ok()?;
    let confidence = study.ratios.get(index).map_or(1.0 - RATE, |row| row.confidence);
    let found = Estimate::of(&differences)?.interval(confidence);
    if found.contains(0.0) {
        return None;
    }
    let base = plan.arms[plan.pairs[index].denominator].environment.as_str();
    let delta = plan.design.delta;
    let advice = match against(found, delta) {
        Ordering::Greater if what == used_by_others::WHAT => {
            "other programs disturbed it more: stop them, or repeat the run on a quiet machine"
        }
        _ => "",
    };
    let what = format!("{what} beyond {base}");
    Some(row(plan, arm, (Cause::OtherPrograms, &what), "%", found, advice))
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

#[cfg(test)]
mod tests {
    use super::*;

    /// "Would gain less than 2 %" was said of -35.6 ± 9.5 %.
    #[test]
    fn what_is_said_of_large_pages_is_what_their_interval_allows() {
        let says = |lo: f64, hi: f64| {
            let gain = Interval { centre: f64::midpoint(lo, hi), lo, hi, confidence: 0.95, units: 10 };
            about_pages(gain, Share(0.02))
        };
        assert_eq!(says(-45.1, -26.1), "2m pages are slower here: keep 4k pages");
        assert!(says(5.0, 9.0).starts_with("give the application 2m pages"));
        assert_eq!(says(-1.0, 1.0), "2m pages matter less than 2 %");
        assert_eq!(says(-9.0, 1.0), "2m pages gain less than 2 %, and may cost more");
        assert_eq!(says(1.0, 9.0), "", "it may be less than what matters");
    }
}
