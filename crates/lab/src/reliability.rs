//! How good the conditions of a run were: what other programs, the hypervisor and CPU quotas took of the CPUs while its phases ran, and how many trials
//! that cost. Pressure (PSI) is in the record of each trial and is not judged: measured tasks that wait for each other are in it.
//!
//! The same for every kind of work. A grade says nothing of the size of intervals: they are as wide as the noise was, also on a quiet machine.

use crate::run::{Run, places};
use crate::trials::Finished;
use baremark_model::codes::Hindrance;
use baremark_model::descriptor::{Descriptor, HinderedBy};
use baremark_model::document::{Grade, Reliability};
use baremark_model::order;
use baremark_model::wire::{Disturbance, ProgramShare};
use std::collections::BTreeMap;

/// From where on conditions are fair, and poor.
struct Limits {
    fair: f64,
    poor: f64,
}

/// Of all CPUs' time, used by other programs. A trial is flagged from a tenth on.
const OTHERS: Limits = Limits { fair: 0.05, poor: 0.25 };
/// Of all CPUs' time, taken away by the hypervisor.
const STOLEN: Limits = Limits { fair: 0.01, poor: 0.05 };
/// Of the work's CPU time, withheld by a quota.
const THROTTLED: Limits = Limits { fair: 0.01, poor: 0.05 };
/// Of the measured threads' time, ready to run without a CPU. A trial is flagged from a hundredth on.
const QUEUED: Limits = Limits { fair: 0.01, poor: 0.05 };
/// Of their time, by which threads of one environment waited longer than those of another: it is named where a ratio of them is hardly their work's any more.
const APART: f64 = 0.05;
/// Of the trials, invalid: those that failed, too, as one does that takes so long that it is taken to hang.
const INVALID: Limits = Limits { fair: 0.1, poor: 0.5 };
/// Of a metric that [`HinderedBy`] names, in percent: most of what the workload is about.
const MOST: f64 = 50.0;
/// Programs that are named, from which share of all CPUs' time on.
const NAMED: usize = 3;
const LEAST_NAMED: f64 = 0.01;

/// How good the conditions were; `None` where no trial says anything of them.
pub(crate) fn of(run: &Run, workloads: &[&Descriptor]) -> Option<Reliability> {
    let trials = &run.trials;
    let counted = trials.iter().filter_map(|trial| trial.result.as_ref());
    let known: Vec<&Disturbance> = counted.filter_map(|result| result.disturbance.as_ref()).collect();
    let own: Vec<&Disturbance> = known.iter().copied().filter(|found| !found.work_of_others).collect();
    let programs = programs(&known);
    let hidden = own.iter().any(|found| found.hidden_programs);
    let (mut reasons, mut hindrances) = (Vec::new(), Vec::new());
    let mut grade = Grade::Good;
    let mut judge = |of: Hindrance, share: Option<f64>, limits: &Limits, words: &dyn Fn(f64) -> String| {
        let Some(share) = share.filter(|share| *share > limits.fair) else { return };
        grade = grade.max(if share > limits.poor { Grade::Poor } else { Grade::Fair });
        reasons.push(words(100.0 * share));
        hindrances.push(of);
    };
    judge(Hindrance::OtherPrograms, mean(own.iter().filter_map(|found| found.others)), &OTHERS, &|percent| {
        // What is not theirs by name may be the kernel's.
        let whose = if hidden { "other programs and the kernel" } else { "other programs" };
        format!("{whose} used {percent:.0} % of the CPUs{}", named(&programs, percent, hidden))
    });
    judge(Hindrance::Stolen, mean(known.iter().filter_map(|found| found.stolen)), &STOLEN, &|percent| {
        format!("the hypervisor took {percent:.0} % of the CPUs (steal)")
    });
    judge(Hindrance::Throttled, mean(known.iter().filter_map(|found| found.throttled)), &THROTTLED, &|percent| {
        format!("a CPU quota withheld {percent:.0} % of the CPU time (throttling)")
    });
    judge(
        Hindrance::Queued,
        mean(known.iter().flat_map(|found| found.queued.iter().flatten().copied())),
        &QUEUED,
        &|percent| format!("measured threads waited for a CPU for {percent:.0} % of their time{}", by_place(run)),
    );
    let invalid = trials.iter().filter(|trial| trial.counted().is_none()).count();
    #[expect(clippy::cast_precision_loss, reason = "numbers of trials")]
    let share = invalid as f64 / trials.len().max(1) as f64;
    judge(Hindrance::InvalidTrials, Some(share), &INVALID, &|_| {
        format!("{invalid} of {} trials are invalid", trials.len())
    });
    for (of, places) in workloads.iter().flat_map(|workload| hindered(run, workload)) {
        grade = Grade::Poor;
        reasons.push(format!("{} ({})", of.means, places.join(", ")));
        hindrances.push(of.hindrance);
    }
    (!known.is_empty()).then_some(Reliability { grade, reasons, hindrances, programs })
}

/// " (native 46 %, container 12 %)": where threads of one environment waited much longer than those of another. A container has a control group of its own, and
/// so a share of the CPUs that does not shrink with the number of other programs; natively the measured threads share one with whatever runs in the same
/// session or unit.
fn by_place(run: &Run) -> String {
    let mut waited: Vec<(&str, Vec<f64>)> = Vec::new();
    for (arm, planned) in run.plan.arms.iter().enumerate() {
        let of_arm = places(&run.plan, &run.trials, arm)
            .into_iter()
            .filter_map(|(trial, index)| trial.counted()?.disturbance.as_ref()?.queued.get(index).copied().flatten());
        match waited.iter_mut().find(|(name, _)| *name == planned.environment) {
            Some((_, shares)) => shares.extend(of_arm),
            None => waited.push((&planned.environment, of_arm.collect())),
        }
    }
    let means: Vec<(&str, f64)> =
        waited.into_iter().filter_map(|(name, shares)| Some((name, mean(shares.into_iter())?))).collect();
    let ends = means
        .iter()
        .map(|(_, share)| *share)
        .fold((f64::INFINITY, 0.0_f64), |(lo, hi), share| (lo.min(share), hi.max(share)));
    if means.len() < 2 || ends.1 - ends.0 < APART {
        return String::new();
    }
    let named: Vec<String> = means.iter().map(|(name, share)| format!("{name} {:.0} %", 100.0 * share)).collect();
    format!(" ({})", named.join(", "))
}

/// What hindered a workload, with the environments of which some phase says so, each once.
fn hindered<'r>(run: &'r Run, workload: &Descriptor) -> Vec<(&'static HinderedBy, Vec<&'r str>)> {
    let mut found: Vec<_> = workload.hindered_by.iter().map(|of| (of, Vec::new())).collect();
    for (arm, planned) in run.plan.arms.iter().enumerate() {
        if run.plan.workload_of(arm) != workload.kind {
            continue;
        }
        let trials = places(&run.plan, &run.trials, arm);
        for (of, names) in &mut found {
            let most = |(trial, index): &(&Finished, usize)| {
                trial.phases(*index, of.metric).iter().any(|percent| *percent > MOST)
            };
            let name = planned.environment.as_str();
            if !names.contains(&name) && trials.iter().any(most) {
                names.push(name);
            }
        }
    }
    found.retain(|(_, names)| !names.is_empty());
    found
}

/// The mean share of each other program over the trials, of those that used most.
fn programs(found: &[&Disturbance]) -> Vec<ProgramShare> {
    let mut sums: BTreeMap<&str, f64> = BTreeMap::new();
    for of in found.iter().flat_map(|found| &found.programs) {
        *sums.entry(&of.name).or_default() += of.share;
    }
    #[expect(clippy::cast_precision_loss, reason = "a number of trials")]
    let count = found.len().max(1) as f64;
    let mut all: Vec<ProgramShare> =
        sums.into_iter().map(|(name, sum)| ProgramShare { name: name.to_owned(), share: sum / count }).collect();
    order::by(&mut all, |one, two| two.share.total_cmp(&one.share));
    all.truncate(NAMED);
    all
}

/// " (cc1 61 %, make 9 %)": those of at least a percent. Where they are less than half of it all, the rest is said, too: more programs, those that
/// have ended before they could be looked at, and the kernel's own work. Where some agent does not see all programs, that rest has no names.
fn named(programs: &[ProgramShare], percent: f64, hidden: bool) -> String {
    let shown: Vec<&ProgramShare> = programs.iter().filter(|of| of.share >= LEAST_NAMED).collect();
    let known = 100.0 * shown.iter().map(|of| of.share).sum::<f64>();
    let mut parts: Vec<String> = shown.iter().map(|of| format!("{} {:.0} %", of.name, 100.0 * of.share)).collect();
    if !parts.is_empty() && known < percent / 2.0 {
        let rest = if hidden { "unnamed" } else { "others" };
        parts.push(format!("{rest} {:.0} %", percent - known));
    }
    match (parts.is_empty(), hidden) {
        (false, _) => format!(" ({})", parts.join(", ")),
        (true, true) => " (unnamed: their processes are hidden from the agent)".to_owned(),
        (true, false) => String::new(),
    }
}

#[expect(clippy::cast_precision_loss, reason = "a number of trials")]
fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let all: Vec<f64> = values.collect();
    (!all.is_empty()).then(|| all.iter().sum::<f64>() / all.len() as f64)
}
