//! A trial of a job: work that is run as a whole, once in each phase of the schedule.
//!
//! A run of a program has its own beginning and end, and measures itself.

use crate::disturbance::{Meter, Work};
use crate::duet;
use crate::phases::{Phase, Stage, Trial, series_of};
use crate::placing;
use crate::progress::Progress;
use crate::trial::{CALIBRATION, TrialError, crowds};
use baremark_kernels::isa;
use baremark_model::arm::ResolvedArm;
use baremark_model::job::{Job, JobRun, ReadyJob, Update, record};
use baremark_model::observation::Observation;
use baremark_model::observer::ObserveSpec;
use baremark_model::seam::TickRate;
use baremark_model::units::Nanos;
use baremark_model::wire::{Disturbance, LostTime, TrialResult, TrialSpec};
use baremark_observe::watch::Watch;
use baremark_sys::clock::{self, Calibration, ClockError};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Runs a trial of a job; `progress` hears of each phase.
///
/// # Errors
/// When it could not be run to its end.
pub(crate) fn run(spec: &TrialSpec, job: &dyn Job, progress: &mut dyn Progress) -> Result<TrialResult, TrialError> {
    let begun = Instant::now();
    // Preparation and warm-up take longer than the rest of the calibration, mostly: of a trial of half a second it would be a tenth.
    let calibration = Calibration::ahead()?;
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
            let run = self.0[arm].resume(&stored, &mut |update| match update {
                Update::Part(row) => progress.store(position, row),
                Update::Loading(loading) => progress.loading(loading),
            })?;
            done.push(Phase { arm, begin_ns, end_ns: clock::monotonic_ns(), run });
        }
        Ok(done)
    }
}

/// Observes this machine while this process does what is measured itself.
pub struct Observing {
    meter: Meter,
    watch: Option<Watch>,
    began: Instant,
}

/// What was observed of a phase that this process has run itself.
pub struct OwnPhase {
    /// How long it took.
    pub elapsed_ns: u64,
    /// What others took of the CPUs.
    pub disturbance: Option<Disturbance>,
    /// What the study's observers read.
    pub observation: Option<Observation>,
}

impl Observing {
    /// From now on, by the observers that a study asks for.
    #[must_use]
    pub fn begin(spec: &ObserveSpec) -> Self {
        let watch = (!spec.which.is_empty()).then(|| Watch::start(spec));
        let mut meter = Meter::begin(Work::Job, Duration::ZERO);
        watch.iter().for_each(Watch::begin_phases);
        meter.phase_begins(0);
        Observing { meter, watch, began: Instant::now() }
    }

    /// What was seen since. What is loaded may be another program of this machine, such as a server that was there before.
    #[must_use]
    pub fn end(mut self) -> OwnPhase {
        let elapsed_ns = Nanos::from(self.began.elapsed()).0;
        self.meter.lap(1);
        self.watch.iter().for_each(|watch| watch.phase_done(0, 1));
        let disturbance = Disturbance { work_of_others: true, ..self.meter.end(&[], 1, TickRate(1.0)) };
        OwnPhase { elapsed_ns, disturbance: Some(disturbance), observation: self.watch.map(Watch::stop) }
    }
}

impl OwnPhase {
    /// The result of a trial of one arm whose only phase it was, and of which a job reported `run`.
    ///
    /// # Errors
    /// When the rate of the time-stamp counter cannot be found out.
    pub fn result(self, arm: &ResolvedArm, mut run: JobRun) -> Result<TrialResult, ClockError> {
        let (tick_rate_per_s, _) = clock::tick_rate(CALIBRATION)?;
        let OwnPhase { elapsed_ns, disturbance, observation } = self;
        Ok(TrialResult {
            series: vec![series_of((0, 0), (0, elapsed_ns), &mut run)],
            arms: vec![record(arm, &[], run.checked)],
            void: run.void,
            flags: run.flags,
            tick_rate_per_s,
            instruction_set: isa::widest(),
            lost_before: LostTime::default(),
            lost_after: LostTime::default(),
            elapsed_ns,
            spent_ns: BTreeMap::new(),
            disturbance,
            discarded: Vec::new(),
            observations: observation.into_iter().collect(),
        })
    }
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

    /// A load of this process itself said nothing of who else used the CPUs, nor of what observers read.
    #[test]
    fn this_machine_is_observed_beside_work_of_this_process() {
        let spec = |which: &[&str]| ObserveSpec {
            interval: Nanos(3_600_000_000_000),
            which: which.iter().map(|&name| name.to_owned()).collect(),
            per_cpu: false,
        };
        let result = |spec: &ObserveSpec| {
            let seen = Observing::begin(spec).end();
            let arm = ResolvedArm::native(1, baremark_model::page_size::PageSize::Small);
            seen.result(&arm, JobRun::default()).expect("a clock")
        };
        let seen = result(&spec(&["cpu"]));
        let found = seen.disturbance.expect("who else");
        assert!(found.work_of_others && found.phases.len() == 1 && found.queued == [None], "{found:?}");
        let phases = |of: &Observation| of.arms.iter().map(|arm| (arm.arm, arm.phases)).collect::<Vec<_>>();
        assert_eq!(seen.observations.iter().map(phases).collect::<Vec<_>>(), [[(0, 1)]]);
        assert!(result(&spec(&[])).observations.is_empty(), "the study asks for no observer");
    }
}
