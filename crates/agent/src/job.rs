//! A trial of a job: work that is run as a whole, once in each phase of the schedule.
//!
//! A run of a program has its own beginning and end, and measures itself.

use crate::disturbance::{Meter, Work};
use crate::placing;
use crate::progress::Progress;
use crate::trial::{CALIBRATION, TrialError, crowds, look_for_lost_time};
use baremark_kernels::isa;
use baremark_model::arm::{ExecutorKind, ResolvedArm};
use baremark_model::disturbed;
use baremark_model::job::{Job, JobError, JobRun, Surroundings, Update};
use baremark_model::placement::Placed;
use baremark_model::seam::{ExecutorFacts, TickRate, Verification};
use baremark_model::units::Nanos;
use baremark_model::wire::{ArmRecord, Disturbance, LostTime, PagesSeen, Series, Stretch, TrialResult, TrialSpec};
use baremark_sys::clock::{self, Calibration, ClockError};
use baremark_sys::point;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

/// This program, which keeps the programs of a job.
const KEEPER: &str = "/proc/self/exe";

/// Runs a trial of a job; `progress` hears of each phase.
///
/// # Errors
/// When it could not be run to its end.
pub(crate) fn run(spec: &TrialSpec, job: &dyn Job, progress: &mut dyn Progress) -> Result<TrialResult, TrialError> {
    let begun = Instant::now();
    // Preparation and warm-up take longer than the calibration, mostly: of a trial of half a second it would be a tenth.
    let calibration = Calibration::begin()?;
    let arms = one_of_each(spec)?;
    let site = placing::site(spec)?;
    let cpus = arms.iter().map(|arm| placing::cpus(&site, arm, 1)).collect::<Result<Vec<_>, _>>()?;
    let interrupt = progress.interrupt();
    let mut ready = Vec::new();
    for (arm, cpus) in arms.iter().zip(&cpus) {
        if !job.descriptor().executors.contains(&arm.executor) {
            return Err(TrialError::spec(format!("the executor {} runs no programs", arm.executor)));
        }
        let phase = Duration::from_nanos(spec.phase_ns);
        let (keeper, overwritable) = (Path::new(KEEPER), spec.overwritable.as_slice());
        let around = Surroundings { keeper, cpus, seed: spec.seed, phase, overwritable, interrupt: &interrupt };
        ready.push(job.prepare_reporting(arm, around, &mut |loading| progress.loading(loading))?);
    }
    let in_turns = progress.is_one_side();
    if in_turns {
        ready.iter_mut().for_each(|job| job.takes_turns());
    }
    ready.iter_mut().try_for_each(|job| job.warm_up())?;
    let (rate, _) = calibration.end(CALIBRATION)?;
    let lost_before = look_for_lost_time(rate);
    if in_turns {
        ready.iter_mut().try_for_each(|job| job.rest())?;
    }
    // Sites of one trial agree on repetitions, which a job has not.
    progress.agree(None)?;
    progress.phases_begin();
    if job.measures_disks() {
        progress.disk_phases_begin();
    }
    let meter = Meter::begin(Work::Job, Duration::from_nanos(spec.phase_ns));
    let mut meter = meter.of_one_side(in_turns).of_several(progress.is_one_of_several());
    let first = clock::monotonic_ns();
    let mut series = Vec::with_capacity(spec.schedule.len());
    let mut checked = vec![String::new(); arms.len()];
    let (mut flags, mut void) = (Vec::new(), Vec::new());
    let mut position = 0;
    while progress
        .turn(position, spec.schedule.len(), &mut || ready.iter().map(|job| job.resting_cpu_ns()).sum::<u64>())?
    {
        if in_turns {
            ready.iter_mut().for_each(|job| job.wake());
        }
        let arm = spec.schedule.get(position);
        let arm = *arm.ok_or_else(|| TrialError::spec(format!("the schedule has no phase {position}")))?;
        if let Some(pass) = progress.gate(1)? {
            sleep_until(pass.begin_ns);
        }
        if interrupt.load(Ordering::Acquire) {
            return Err(JobError::Interrupted.into());
        }
        meter.phase_begins(position);
        let begin_ns = clock::monotonic_ns();
        let stored = progress.stored(position);
        let mut run = ready[arm].take_up(&stored, &mut |update| match update {
            Update::Part(row) => progress.store(position, row),
            Update::Loading(loading) => progress.loading(loading),
        })?;
        let end_ns = clock::monotonic_ns();
        meter.phase_done(position);
        progress.timed(position, Stretch { begin_ns, end_ns });
        // A value that is not a number is not a value; JSON could not carry it either.
        run.samples.retain(|sample| sample.value.is_finite());
        series.push(Series {
            phase: position,
            arm,
            begin_ns: begin_ns.saturating_sub(first),
            end_ns: end_ns.saturating_sub(first),
            members: Vec::new(),
            reps: 1,
            runs: Vec::new(),
            samples: run.samples,
            points: run.points,
            detail: run.detail,
        });
        checked[arm] = run.checked;
        flags.extend(run.flags);
        void.extend(run.void);
        if in_turns {
            // What it still writes is among what observers see in its own phases.
            ready[arm].rest()?;
        }
        progress.phase_done(position, arm);
        point::reached("phase-done");
        position += 1;
    }
    let found = meter.end(&series, arms.len(), rate);
    let work_of_others = found.work_of_others || !ready.iter().all(|job| job.works_in_own_processes());
    let disturbance = Disturbance { work_of_others, ..found };
    let lost_after = look_for_lost_time(rate);
    flags.extend(disturbed::flags(&disturbance, &[]));
    for list in [&mut flags, &mut void] {
        list.sort();
        list.dedup();
    }
    let records = arms.iter().zip(&cpus).zip(checked);
    Ok(TrialResult {
        arms: records.map(|((arm, cpus), detail)| record(arm, cpus, detail)).collect(),
        series,
        void,
        flags,
        tick_rate_per_s: rate,
        instruction_set: isa::widest(),
        lost_before,
        lost_after,
        elapsed_ns: Nanos::from(begun.elapsed()).0,
        spent_ns: BTreeMap::new(),
        disturbance: Some(disturbance),
        discarded: Vec::new(),
        observations: Vec::new(),
    })
}

/// Reads who else uses the CPUs while this process does what is measured itself.
pub struct CpuUseOfOthers(Meter);

impl CpuUseOfOthers {
    /// Reads them from now on.
    #[must_use]
    pub fn begin() -> Self {
        let mut meter = Meter::begin(Work::Job, Duration::ZERO);
        meter.phase_begins(0);
        CpuUseOfOthers(meter)
    }

    /// What others took since. What is loaded may be another program of this machine, such as a server that was there before.
    #[must_use]
    pub fn end(mut self) -> Disturbance {
        self.0.lap(1);
        Disturbance { work_of_others: true, ..self.0.end(&[], 1, TickRate(1.0)) }
    }
}

/// The result of a trial of one arm and one phase that this process has run itself: what a job reported of it, and what others took of the CPUs.
///
/// # Errors
/// When the rate of the time-stamp counter cannot be found out.
pub fn of_one_phase(
    arm: &ResolvedArm,
    cpus: &[usize],
    (elapsed_ns, disturbance): (u64, Option<Disturbance>),
    run: JobRun,
) -> Result<TrialResult, ClockError> {
    let (tick_rate_per_s, _) = clock::tick_rate(CALIBRATION)?;
    let JobRun { mut samples, checked, flags, void, points, detail } = run;
    samples.retain(|sample| sample.value.is_finite());
    let (members, runs) = (Vec::new(), Vec::new());
    Ok(TrialResult {
        arms: vec![record(arm, cpus, checked)],
        series: vec![Series {
            phase: 0,
            arm: 0,
            begin_ns: 0,
            end_ns: elapsed_ns,
            reps: 1,
            runs,
            samples,
            members,
            points,
            detail,
        }],
        void,
        flags,
        tick_rate_per_s,
        instruction_set: isa::widest(),
        lost_before: LostTime::default(),
        lost_after: LostTime::default(),
        elapsed_ns,
        spent_ns: BTreeMap::new(),
        disturbance,
        discarded: Vec::new(),
        observations: Vec::new(),
    })
}

fn sleep_until(moment_ns: u64) {
    thread::sleep(Duration::from_nanos(moment_ns.saturating_sub(clock::monotonic_ns())));
}

/// The arms; several members that are jobs are at sites of their own.
fn one_of_each(spec: &TrialSpec) -> Result<Vec<&ResolvedArm>, TrialError> {
    let one = |(arm, members): (_, usize)| match members {
        1 => Ok(arm),
        several => Err(TrialError::Spec {
            what: format!("{several} of {} are to run together at one site", spec.workload),
            remedy: "give each a site of its own".to_owned(),
        }),
    };
    crowds(spec)?.into_iter().map(one).collect()
}

/// A job has no memory of the agent's, and nothing is entered to run it.
fn record(arm: &ResolvedArm, cpus: &[usize], detail: String) -> ArmRecord {
    ArmRecord {
        executor: ExecutorFacts {
            name: arm.executor.to_string(),
            ranks: cpus.len(),
            cpus: cpus.to_vec(),
            runs_body: true,
            virtual_machine: arm.executor == ExecutorKind::Microvm,
            mmu: None,
            translation: None,
            notes: BTreeMap::new(),
        },
        pages_before: PagesSeen::default(),
        pages_after: PagesSeen::default(),
        placed: Placed { cpus: cpus.to_vec(), ..Placed::default() },
        counters: BTreeMap::new(),
        grown: BTreeMap::new(),
        verification: Verification::Passed { detail },
        verified: None,
        empty_run_ns: 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A load of this process itself said nothing of who else used the CPUs.
    #[test]
    fn who_else_uses_the_cpus_is_read_beside_work_of_this_process() {
        let found = CpuUseOfOthers::begin().end();
        assert!(found.work_of_others && found.phases.len() == 1 && found.queued == [None], "{found:?}");
        let arm = ResolvedArm::native(1, baremark_model::arm::PageSize::Small);
        let result = of_one_phase(&arm, &[], (1, Some(found.clone())), JobRun::default()).expect("a clock");
        assert_eq!(result.disturbance, Some(found));
    }
}
