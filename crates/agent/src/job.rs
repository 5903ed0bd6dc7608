//! A trial of a job: work that is run as a whole, once in each phase of the schedule.
//!
//! A run of a program has its own beginning and end, and measures itself.

use crate::disturbance::{Meter, Work};
use crate::duet;
use crate::phases::{Phase, Stage, Trial, record};
use crate::placing;
use crate::progress::Progress;
use crate::trial::{CALIBRATION, TrialError, crowds};
use baremark_kernels::isa;
use baremark_model::arm::ResolvedArm;
use baremark_model::job::{Job, JobRun, ReadyJob, Update};
use baremark_model::seam::TickRate;
use baremark_model::wire::{Disturbance, LostTime, Series, TrialResult, TrialSpec};
use baremark_sys::clock::{self, Calibration, ClockError};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Runs a trial of a job; `progress` hears of each phase.
///
/// # Errors
/// When it could not be run to its end.
pub(crate) fn run(spec: &TrialSpec, job: &dyn Job, progress: &mut dyn Progress) -> Result<TrialResult, TrialError> {
    let begun = Instant::now();
    // Preparation and warm-up take longer than the calibration, mostly: of a trial of half a second it would be a tenth.
    let calibration = Calibration::begin()?;
    let arms = one_of_each(spec)?;
    if let Some(arm) = arms.iter().find(|arm| !job.descriptor().executors.contains(&arm.executor)) {
        return Err(TrialError::spec(format!("the executor {} runs no programs", arm.executor)));
    }
    let interrupt = progress.interrupt();
    let trial = Trial { spec, job, arms: &arms, interrupt: &interrupt, begun };
    match spec.duet {
        Some(cpus) => duet::with_both(&trial, cpus, progress, |both, progress| {
            let result = trial.measure((both, calibration), &[&cpus, &cpus], progress)?;
            Ok(duet::of_one_rank(result))
        }),
        None => {
            let site = placing::site(spec)?;
            let cpus = arms.iter().map(|arm| placing::cpus(&site, arm, 1)).collect::<Result<Vec<_>, _>>()?;
            let mut ready = Vec::new();
            for (arm, cpus) in arms.iter().zip(&cpus) {
                let report = &mut |loading| progress.loading(loading);
                ready.push(job.prepare_reporting(arm, trial.surroundings(cpus), report)?);
            }
            if progress.is_one_side() {
                ready.iter_mut().for_each(|job| job.takes_turns());
            }
            ready.iter_mut().try_for_each(|job| job.warm_up())?;
            let cpus: Vec<&[usize]> = cpus.iter().map(Vec::as_slice).collect();
            trial.measure((&mut InTurns(ready), calibration), &cpus, progress)
        }
    }
}

/// Arms whose phases run one after the other.
struct InTurns<'s>(Vec<Box<dyn ReadyJob + 's>>);

impl Stage for InTurns<'_> {
    fn at_once(&self) -> usize {
        1
    }

    fn works_in_own_processes(&self) -> bool {
        self.0.iter().all(|job| job.works_in_own_processes())
    }

    fn rest(&mut self, arm: usize) -> Result<(), TrialError> {
        Ok(self.0[arm].rest()?)
    }

    fn wake(&mut self) {
        self.0.iter_mut().for_each(|job| job.wake());
    }

    fn resting_cpu_ns(&self) -> u64 {
        self.0.iter().map(|job| job.resting_cpu_ns()).sum()
    }

    fn run(&mut self, position: usize, arms: &[usize], progress: &mut dyn Progress) -> Result<Vec<Phase>, TrialError> {
        let mut done = Vec::with_capacity(arms.len());
        for &arm in arms {
            let begin_ns = clock::monotonic_ns();
            let stored = progress.stored(position);
            let run = self.0[arm].take_up(&stored, &mut |update| match update {
                Update::Part(row) => progress.store(position, row),
                Update::Loading(loading) => progress.loading(loading),
            })?;
            done.push(Phase { arm, begin_ns, end_ns: clock::monotonic_ns(), run });
        }
        Ok(done)
    }
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
