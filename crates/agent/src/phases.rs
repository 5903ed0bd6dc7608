//! The phases of a trial of a job, in the order of its schedule, one at a time or several at once: when each ran, what came of it, and what others took of the CPUs.

use crate::disturbance::{Meter, Work};
use crate::progress::Progress;
use crate::trial::{CALIBRATION, TrialError, look_for_lost_time};
use baremark_kernels::isa;
use baremark_model::arm::ResolvedArm;
use baremark_model::disturbed;
use baremark_model::job::{Job, JobContext, JobError, JobRun, record};
use baremark_model::units::Nanos;
use baremark_model::wire::{Disturbance, Series, Stretch, TrialResult, TrialSpec};
use baremark_sys::clock::{self, Calibration};
use baremark_sys::point;
use std::collections::BTreeMap;
use std::mem::take;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// This program, which keeps the programs of a job.
const KEEPER: &str = "/proc/self/exe";

/// A trial of a job, with what all its phases share.
pub(crate) struct Trial<'t> {
    pub spec: &'t TrialSpec,
    pub job: &'t dyn Job,
    pub arms: &'t [&'t ResolvedArm],
    pub interrupt: &'t Arc<AtomicBool>,
    /// When the trial began.
    pub begun: Instant,
}

/// A phase as it was run.
pub(crate) struct Phase {
    pub arm: usize,
    pub begin_ns: u64,
    pub end_ns: u64,
    pub run: JobRun,
}

/// Runs phases of arms that are prepared.
pub(crate) trait Stage {
    /// How many phases run at the same time.
    fn at_once(&self) -> usize;

    /// Whether all work is done by programs that this one has started.
    fn works_in_own_processes(&self) -> bool;

    /// Lets an arm rest while another site has its turns; afterwards nothing of it runs.
    ///
    /// # Errors
    /// When it cannot rest.
    fn rest(&mut self, _arm: usize) -> Result<(), TrialError> {
        Ok(())
    }

    /// Lets all arms go on, for the next turn is this site's.
    fn wake(&mut self) {}

    /// CPU time in ns that the processes of arms which rest have used.
    fn resting_cpu_ns(&self) -> u64 {
        0
    }

    /// Runs the phases of these arms, the first of which is at `position` of the schedule.
    ///
    /// # Errors
    /// When one did not come to its end.
    fn run(&mut self, position: usize, arms: &[usize], progress: &mut dyn Progress) -> Result<Vec<Phase>, TrialError>;
}

impl Trial<'_> {
    /// What an arm finds that may use these CPUs.
    pub(crate) fn surroundings<'s>(&'s self, cpus: &'s [usize]) -> JobContext<'s> {
        JobContext {
            keeper: Path::new(KEEPER),
            cpus,
            seed: self.spec.seed,
            phase: Duration::from_nanos(self.spec.phase_ns),
            overwritable: &self.spec.overwritable,
            interrupt: self.interrupt,
        }
    }

    /// Runs the phases of the schedule on the stage, on which everything is prepared and warm; `cpus` are those that each arm may use.
    ///
    /// # Errors
    /// When a phase did not come to its end, or the other sites of the trial did not.
    pub(crate) fn measure(
        &self,
        (stage, calibration): (&mut dyn Stage, Calibration),
        cpus: &[&[usize]],
        progress: &mut dyn Progress,
    ) -> Result<TrialResult, TrialError> {
        let Trial { spec, job, arms, interrupt, begun } = self;
        let (rate, _) = calibration.end(CALIBRATION)?;
        let lost_before = look_for_lost_time(rate);
        let in_turns = progress.is_one_side();
        if in_turns {
            (0..arms.len()).try_for_each(|arm| stage.rest(arm))?;
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
        while progress.turn(position, spec.schedule.len(), &mut || stage.resting_cpu_ns())? {
            if in_turns {
                stage.wake();
            }
            let now = spec.schedule.get(position..position + stage.at_once());
            let now = now.ok_or_else(|| TrialError::spec(format!("the schedule has no phase {position}")))?;
            if let Some(pass) = progress.gate(1)? {
                sleep_until(pass.begin_ns);
            }
            if interrupt.load(Ordering::Acquire) {
                return Err(JobError::Interrupted.into());
            }
            meter.phase_begins(position);
            let done = stage.run(position, now, progress)?;
            meter.phase_done(position + done.len() - 1);
            for Phase { arm, begin_ns, end_ns, mut run } in done {
                progress.timed(position, Stretch { begin_ns, end_ns });
                let times = (begin_ns.saturating_sub(first), end_ns.saturating_sub(first));
                series.push(series_of((position, arm), times, &mut run));
                checked[arm] = run.checked;
                flags.extend(run.flags);
                void.extend(run.void);
                if in_turns {
                    // What it still writes is among what observers see in its own phases.
                    stage.rest(arm)?;
                }
                progress.phase_done(position, arm);
                position += 1;
            }
            point::reached("phase-done");
        }
        let found = meter.end(&series, arms.len(), rate);
        let work_of_others = found.work_of_others || !stage.works_in_own_processes();
        let disturbance = Disturbance { work_of_others, ..found };
        let lost_after = look_for_lost_time(rate);
        flags.extend(disturbed::flags(&disturbance, &[]));
        for list in [&mut flags, &mut void] {
            list.sort();
            list.dedup();
        }
        let records = arms.iter().zip(cpus).zip(checked);
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
}

fn sleep_until(moment_ns: u64) {
    thread::sleep(Duration::from_nanos(moment_ns.saturating_sub(clock::monotonic_ns())));
}

/// What the phase at a place of the schedule measured, in which that arm ran; times are in nanoseconds since the first phase began.
pub(crate) fn series_of((phase, arm): (usize, usize), (begin_ns, end_ns): (u64, u64), run: &mut JobRun) -> Series {
    // A value that is not a number is not a value; JSON could not carry it either.
    run.samples.retain(|sample| sample.value.is_finite());
    let (samples, points, detail) = (take(&mut run.samples), take(&mut run.points), run.detail.take());
    Series { phase, arm, begin_ns, end_ns, reps: 1, samples, points, detail, ..Series::default() }
}
