//! One trial: prepare, warm, run the schedule, verify, tell.
//!
//! Both arms of a pair run in this one process, phase by phase in the order that the lab drew. Before every phase its own
//! executor runs the body untimed, so that caches and translation buffers hold that executor's entries; then the phase
//! runs as two halves, which are compared later.

use crate::executors::{direct::Direct, null::Null};
use crate::progress::Progress;
use crate::{audit, buffers, buffers::Buffers, pace, sealed};
use baremark_kernels::isa;
use baremark_microvm::Microvm;
use baremark_model::arm::{ExecutorKind, ResolvedArm};
use baremark_model::scale::extra;
use baremark_model::seam::{
    Body, Executor, Fault, MemoryError, Prepared, RankTime, Sample, TickRate, Verification, Work, WorkloadError,
};
use baremark_model::team::Team;
use baremark_model::units::Share;
use baremark_model::wire::{ArmRecord, HalfRecord, LostTime, PagesSeen, PhaseRecord, TrialResult, TrialSpec};
use baremark_sys::affinity::allowed_cpus;
use baremark_sys::crew::CrewError;
use baremark_sys::{clock, gaps};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// For how long lost time is looked for, before and after the phases.
const LOST_TIME_LOOK: Duration = Duration::from_millis(10);
/// For how long the time-stamp counter is calibrated where nobody tells its rate.
const CALIBRATION: Duration = Duration::from_millis(50);
/// Entries whose median gives the cost of an empty run.
const EMPTY_RUNS: usize = 9;
/// The warm-in before a phase, as a share of the phase.
const WARM_IN_SHARE: u64 = 4;

/// Why a trial could not be run to its end.
#[derive(Debug, thiserror::Error)]
pub enum TrialError {
    /// The specification asks for what this agent cannot do.
    #[error("{what}; {remedy}")]
    Spec {
        /// What it asks for.
        what: String,
        /// What would be right.
        remedy: String,
    },
    /// A parameter is out of range, or the memory could not be had.
    #[error(transparent)]
    Workload(#[from] WorkloadError),
    /// The memory could not be had.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// The microVM could not be started.
    #[error(transparent)]
    Microvm(#[from] baremark_microvm::Error),
    /// The threads of an executor could not be started.
    #[error(transparent)]
    Crew(#[from] CrewError),
    /// The CPUs that may be used could not be asked for.
    #[error("asking which CPUs may be used: {0}")]
    Affinity(#[source] std::io::Error),
    /// A rank did not come back.
    #[error(transparent)]
    Fault(#[from] Fault),
    /// The clock cannot be used.
    #[error(transparent)]
    Clock(#[from] clock::ClockError),
}

impl TrialError {
    /// A specification that no lab of this version writes.
    pub(crate) fn spec(what: String) -> Self {
        TrialError::Spec { what, remedy: "use the same version of baremark on both sides".to_owned() }
    }
}

/// Runs a trial; `progress` is told how it comes along.
///
/// # Errors
/// When it could not be run to its end; what ran but was not as asked comes back as a void result instead.
pub fn run(spec: &TrialSpec, progress: &mut dyn Progress) -> Result<TrialResult, TrialError> {
    let begun = Instant::now();
    let (rate, _) = clock::tick_rate(CALIBRATION)?;
    let workload = baremark_workloads::find(&spec.workload)
        .ok_or_else(|| TrialError::spec(format!("this agent has no workload '{}'", spec.workload)))?;
    let arms = single_members(spec)?;
    let costs = sealed::costs(&arms)?;
    let mut memory = Buffers::allocate(workload, &arms, &spec.allocation_order, spec.seed)?;
    let mut executors = Vec::new();
    for (arm, &map) in arms.iter().zip(&memory.of_arm) {
        executors.push(start(spec, arm, memory.maps[map].whole())?);
    }
    let pages_before = inspect(&memory, &arms);
    let preparations = memory
        .first_arm
        .iter()
        .zip(&memory.maps)
        .map(|(&arm, map)| workload.prepare(arms[arm], map))
        .collect::<Result<Vec<_>, _>>()?;

    let lost_before = look_for_lost_time(rate);
    let mut stage = Stage { spec, rate, executors, preparations, of_arm: &memory.of_arm, costs, void: Vec::new() };
    let reps = sealed::whole(stage.reps()?, &arms);
    let counters = stage.counters(&arms, &memory);
    let phases = stage.phases(reps, progress)?;
    let lost_after = look_for_lost_time(rate);
    let verifications = stage.verify();
    let empty = stage.empty_runs()?;
    let Stage { executors, mut void, preparations, .. } = stage;
    drop(preparations);
    let pages_after = inspect(&memory, &arms);
    let mut records = Vec::new();
    for (index, arm) in arms.iter().enumerate() {
        judge_pages(index, arm, &pages_before[index], &pages_after[index], &mut void);
        let verification = verifications[memory.of_arm[index]].clone();
        records.push(ArmRecord {
            executor: executors[index].facts().clone(),
            pages_before: pages_before[index].0,
            pages_after: pages_after[index].0,
            counters: counters[index].clone(),
            verification,
            empty_run_ns: empty[index],
        });
    }
    void.sort();
    void.dedup();
    Ok(TrialResult {
        arms: records,
        phases,
        void,
        flags: Vec::new(),
        tick_rate_per_s: rate,
        instruction_set: isa::widest(),
        lost_before,
        lost_after,
        elapsed_ns: u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX),
        observations: Vec::new(),
    })
}

/// The arm of each ensemble; this agent runs ensembles of one member.
fn single_members(spec: &TrialSpec) -> Result<Vec<&ResolvedArm>, TrialError> {
    let mut arms = Vec::new();
    for (index, arm) in spec.arms.iter().enumerate() {
        match arm.members.as_slice() {
            [member] if member.count == 1 => arms.push(&member.arm),
            members => {
                let count: u32 = members.iter().map(|member| member.count).sum();
                let what = format!("arm {index} is an ensemble of {count}");
                let remedy = "this agent runs ensembles of one".to_owned();
                return Err(TrialError::Spec { what, remedy });
            }
        }
    }
    match spec.schedule.iter().find(|&&arm| arm >= arms.len()) {
        Some(arm) => Err(TrialError::spec(format!("the schedule names arm {arm} of {}", arms.len()))),
        None => Ok(arms),
    }
}

/// Starts an arm's executor and lets it touch the memory that it will use, so that no page is mapped for the first time
/// while it is timed.
fn start(spec: &TrialSpec, arm: &ResolvedArm, memory: &mut [u64]) -> Result<Box<dyn Executor>, TrialError> {
    let found = if spec.cpus.is_empty() { allowed_cpus().map_err(TrialError::Affinity)? } else { spec.cpus.clone() };
    let Some(cpus) = found.get(..arm.ranks) else {
        let what = format!("{} ranks are asked for on {} CPUs", arm.ranks, found.len());
        return Err(TrialError::Spec { what, remedy: "give the place more CPUs, or set ranks".to_owned() });
    };
    Ok(match arm.executor {
        ExecutorKind::Direct => Box::new(Direct::new(cpus)?),
        ExecutorKind::Null => Box::new(Null::new(cpus)?),
        ExecutorKind::Microvm => {
            let mut microvm = Microvm::start(&baremark_microvm::Config {
                cpus: cpus.to_vec(),
                guest_page: arm.page,
                guest_tables: arm.guest_tables.unwrap_or_default(),
                watchdog: Duration::from_nanos(spec.watchdog_ns),
                seed: spec.seed,
            })?;
            microvm.touch(memory)?;
            Box::new(microvm)
        }
    })
}

type Inspection = (PagesSeen, Result<(), String>);

fn inspect(memory: &Buffers, arms: &[&ResolvedArm]) -> Vec<Inspection> {
    arms.iter().zip(&memory.of_arm).map(|(arm, &map)| buffers::inspect(&memory.maps[map], arm.buffer_page())).collect()
}

fn judge_pages(index: usize, arm: &ResolvedArm, before: &Inspection, after: &Inspection, void: &mut Vec<String>) {
    let name = arm.executor;
    for (when, (_, verdict)) in [("before", before), ("after", after)] {
        if let Err(why) = verdict {
            void.push(format!("memory of arm {index} ({name}) {when} the phases: {why}"));
        }
    }
    if before.0 != after.0 {
        void.push(format!("the pages of arm {index} ({name}) changed during the phases"));
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "nanoseconds of a short look")]
fn look_for_lost_time(rate: TickRate) -> LostTime {
    let seen = gaps::measure(LOST_TIME_LOOK, gaps::THRESHOLD, rate);
    LostTime {
        looked_ns: (seen.seconds * 1e9) as u64,
        gaps: seen.count,
        share: seen.lost_share,
        longest_ns: seen.longest_ns as u64,
    }
}

/// Everything that the phases need.
struct Stage<'t> {
    spec: &'t TrialSpec,
    rate: TickRate,
    executors: Vec<Box<dyn Executor>>,
    preparations: Vec<Box<dyn Prepared + 't>>,
    of_arm: &'t [usize],
    /// Of each arm: the share of repetitions that are run and not counted.
    costs: Vec<Share>,
    void: Vec<String>,
}

impl Stage<'_> {
    /// Repetitions of half a phase, the same for every arm, so that all do the same work.
    fn reps(&mut self) -> Result<u64, Fault> {
        let mut most = 1;
        for arm in 0..self.executors.len() {
            let body = self.preparations[self.of_arm[arm]].body();
            most = most.max(pace::reps_for(&mut *self.executors[arm], body, self.spec.phase_ns / 2, self.rate)?);
        }
        Ok(most)
    }

    /// The hypervisors' counters after the warm-in; voids the trial where memory is not mapped as asked.
    fn counters(&mut self, arms: &[&ResolvedArm], memory: &Buffers) -> Vec<BTreeMap<String, u64>> {
        let mut all = Vec::new();
        for (index, arm) in arms.iter().enumerate() {
            let counters = self.executors[index].counters();
            self.void.extend(audit::of_leaves(arm, memory.maps[memory.of_arm[index]].bytes(), &counters));
            all.push(counters);
        }
        all
    }

    fn phases(&mut self, reps: u64, progress: &mut dyn Progress) -> Result<Vec<PhaseRecord>, Fault> {
        let mut phases = Vec::with_capacity(self.spec.schedule.len());
        progress.phases_begin();
        for (position, &arm) in self.spec.schedule.iter().enumerate() {
            let prepared = &self.preparations[self.of_arm[arm]];
            let executor = &mut self.executors[arm];
            executor.run(prepared.body(), (2 * reps / WARM_IN_SHARE).max(1))?;
            let mut halves = Vec::with_capacity(2);
            for _ in 0..2 {
                let run = executor.run(prepared.body(), reps + extra(reps, self.costs[arm]))?;
                self.void.extend(audit::of_run(executor.facts(), &run).map(|why| format!("arm {arm}: {why}")));
                let samples = metrics(&**executor, &**prepared, reps, &run.times, self.rate);
                halves.push(HalfRecord { times: run.times, audit: run.audit, samples });
            }
            let times = joined(&halves);
            let samples = metrics(&**executor, &**prepared, 2 * reps, &times, self.rate);
            if samples.is_empty() {
                self.void.push(format!("arm {arm}: a phase took no time that could be measured"));
            }
            phases.push(PhaseRecord { position, arm, member: 0, reps, halves, samples });
            progress.phase_done(position, arm);
        }
        Ok(phases)
    }

    fn verify(&mut self) -> Vec<Verification> {
        let verifications: Vec<Verification> = self.preparations.iter_mut().map(|prepared| prepared.verify()).collect();
        self.void.extend(verifications.iter().filter_map(audit::of_result));
        verifications
    }

    /// The median time of an empty run of every executor, entry and exit included, in nanoseconds.
    fn empty_runs(&mut self) -> Result<Vec<f64>, Fault> {
        let mut medians = Vec::new();
        for executor in &mut self.executors {
            let mut runs = Vec::with_capacity(EMPTY_RUNS);
            for _ in 0..EMPTY_RUNS {
                let start = clock::ticks();
                executor.run(&Nothing, 1)?;
                runs.push(self.rate.seconds(clock::ticks() - start) * 1e9);
            }
            runs.sort_by(f64::total_cmp);
            medians.push(runs[EMPTY_RUNS / 2]);
        }
        Ok(medians)
    }
}

/// The metrics of one run; an executor that runs no body has only the length of its empty region to tell.
fn metrics(
    executor: &dyn Executor,
    prepared: &dyn Prepared,
    reps: u64,
    times: &[RankTime],
    rate: TickRate,
) -> Vec<Sample> {
    if executor.facts().runs_body {
        let mut samples = prepared.metrics(reps, times, rate);
        // A value that is no number is no value; JSON could not carry it either.
        samples.retain(|sample| sample.value.is_finite());
        return samples;
    }
    let longest = times.iter().map(|time| rate.own(time)).fold(0.0, f64::max);
    vec![Sample { metric: "empty_region_ns".to_owned(), value: longest * 1e9 }]
}

/// The two halves as one run: each rank's own times added up, the time between the halves left out.
fn joined(halves: &[HalfRecord]) -> Vec<RankTime> {
    let Some((first, rest)) = halves.split_first() else { return Vec::new() };
    let mut times = first.times.clone();
    for half in rest {
        for (sum, time) in times.iter_mut().zip(&half.times) {
            sum.end_ticks += time.end_ticks.saturating_sub(time.start_ticks);
        }
    }
    times
}

/// A body without work: what remains is the executor's own cost.
struct Nothing;

impl Body for Nothing {
    fn work(&self, _ranks: usize) -> Work {
        Work::default()
    }

    fn rank(&self, _rank: usize, _team: &Team, _reps: u64) {}
}
