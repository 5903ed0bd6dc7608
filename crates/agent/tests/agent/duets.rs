//! Both arms of a job at the same time, on a CPU each, which they swap: with toys that wait for each other, so that one after the other does not end.

use crate::toys::{ToyKernel, descriptor};
use baremark_agent::runner::Runners;
use baremark_model::arm::{ExecutorKind, PageSize, ResolvedArm};
use baremark_model::command::{CPU, WALL};
use baremark_model::descriptor::{Descriptor, Value};
use baremark_model::job::{Job, JobError, JobRun, ReadyJob, Surroundings};
use baremark_model::seam::Sample;
use baremark_model::wire::{ArmSpec, Detail, Member, Series, TrialResult, TrialSpec};
use std::sync::{Condvar, Mutex};
use std::time::Duration;

/// The CPUs of the trials, which no toy uses.
const CPUS: [usize; 2] = [3, 5];
/// A run that has not met another by then fails.
const LIMIT: Duration = Duration::from_secs(60);
/// How often an arm got hardly any of the first CPU: in its first runs there.
const STARVED: &str = "starved";

/// Where runs wait for each other, two by two.
struct Meeting {
    arrived: Mutex<u64>,
    changed: Condvar,
}

impl Meeting {
    const fn new() -> Self {
        Meeting { arrived: Mutex::new(0), changed: Condvar::new() }
    }

    /// Waits until another is here; whether one came.
    fn meet(&self) -> bool {
        let mut arrived = self.arrived.lock().unwrap();
        *arrived += 1;
        let both = arrived.next_multiple_of(2);
        self.changed.notify_all();
        let (arrived, _) = self.changed.wait_timeout_while(arrived, LIMIT, |arrived| *arrived < both).unwrap();
        *arrived >= both
    }
}

/// What goes wrong on which CPU.
#[derive(Clone, Copy, Default)]
struct Fails {
    to_prepare: Option<usize>,
    to_run: Option<usize>,
}

/// A job whose runs end when two of them are at work.
struct Toy {
    descriptor: Descriptor,
    meeting: Meeting,
    fails: Fails,
}

const fn toy(kind: &'static str, to_prepare: Option<usize>, to_run: Option<usize>) -> Toy {
    let descriptor = descriptor(kind, &[ExecutorKind::Direct]);
    Toy { descriptor, meeting: Meeting::new(), fails: Fails { to_prepare, to_run } }
}

static MEETS: Toy = toy("meets", None, None);
static STARVES: Toy = toy("starves", None, None);
static STARVES_ALWAYS: Toy = toy("starves-always", None, None);
static UNPREPARED: Toy = toy("unprepared", Some(CPUS[1]), None);
static FAILING: Toy = toy("failing", None, Some(CPUS[0]));
static JOBS: [&[&dyn Job]; 1] = [&[&MEETS, &STARVES, &STARVES_ALWAYS, &UNPREPARED, &FAILING]];

fn ran(spec: &TrialSpec) -> Result<TrialResult, String> {
    let runners = Runners { workloads: &[&ToyKernel], jobs: &JOBS };
    runners.run(spec, &mut |_, _| ()).map_err(|why| why.to_string())
}

impl Job for Toy {
    fn descriptor(&self) -> &'static Descriptor {
        // Each is a static.
        let all = [&MEETS, &STARVES, &STARVES_ALWAYS, &UNPREPARED, &FAILING];
        all.into_iter().map(|toy| &toy.descriptor).find(|of| of.kind == self.descriptor.kind).unwrap()
    }

    fn prepare<'s>(&self, arm: &'s ResolvedArm, around: Surroundings<'s>) -> Result<Box<dyn ReadyJob + 's>, JobError> {
        let [cpu] = around.cpus else { return Err(JobError::failed(format!("one CPU: {:?}", around.cpus))) };
        if self.fails.to_prepare == Some(*cpu) {
            return Err(JobError::failed("it cannot be prepared"));
        }
        let starved = match arm.parameters.get(STARVED) {
            Some(Value::Count(count)) if *cpu == CPUS[0] => *count,
            _ => 0,
        };
        let meeting = match self.descriptor.kind {
            "starves" => &STARVES.meeting,
            "starves-always" => &STARVES_ALWAYS.meeting,
            _ => &MEETS.meeting,
        };
        Ok(Box::new(Ready { meeting, fails: self.fails, cpu: *cpu, starved, runs: 0 }))
    }
}

struct Ready {
    meeting: &'static Meeting,
    fails: Fails,
    cpu: usize,
    starved: u64,
    runs: u64,
}

impl ReadyJob for Ready {
    fn run(&mut self) -> Result<JobRun, JobError> {
        if self.fails.to_run == Some(self.cpu) {
            return Err(JobError::failed("it failed"));
        }
        if self.fails.to_run.is_none() && !self.meeting.meet() {
            return Err(JobError::failed("no other ran at the same time"));
        }
        self.runs += 1;
        let cpu_s = if self.runs <= self.starved { 0.1 } else { 1.0 };
        Ok(JobRun {
            samples: vec![Sample::new(WALL.key, 1.0), Sample::new(CPU.key, cpu_s)],
            detail: Some(Detail { format: "toy/1".to_owned(), document: self.cpu.into() }),
            ..JobRun::default()
        })
    }
}

/// A trial of two quads, of which the first arm is starved in so many of its runs on the first CPU.
fn spec(kind: &str, starved: u64) -> TrialSpec {
    let arm = |starved| {
        let mut arm = ResolvedArm::native(1, PageSize::Small);
        arm.parameters.insert(STARVED.to_owned(), Value::Count(starved));
        ArmSpec { members: vec![Member { count: 1, arm }] }
    };
    TrialSpec {
        workload: kind.to_owned(),
        arms: vec![arm(starved), arm(0)],
        schedule: vec![0, 1, 1, 0, 1, 0, 0, 1],
        allocation_order: vec![0, 1],
        phase_ns: 1_000_000,
        reps: None,
        reps_near: None,
        most_ns: None,
        watchdog_ns: 60_000_000_000,
        observe: None,
        overwritable: Vec::new(),
        duet: Some(CPUS),
        cpus: Vec::new(),
        seed: 7,
        verify: Default::default(),
    }
}

#[test]
fn both_arms_run_at_the_same_time_and_swap_the_cpus_within_each_quad() {
    let result = ran(&spec("meets", 0)).unwrap();
    let of = |phase: &Series| (phase.phase, phase.arm, phase.detail.as_ref().and_then(|of| of.document.as_u64()));
    let expected = [(0, 0), (1, 1), (2, 1), (3, 0), (4, 1), (5, 0), (6, 0), (7, 1)];
    let expected = expected.map(|(phase, arm)| (phase, arm, Some(CPUS[phase % 2] as u64)));
    assert_eq!(result.series.iter().map(of).collect::<Vec<_>>(), expected);
    for two in result.series.chunks(2) {
        let (last_begin, first_end) = (two[0].begin_ns.max(two[1].begin_ns), two[0].end_ns.min(two[1].end_ns));
        assert!(last_begin <= first_end, "{two:?}");
    }
    for arm in &result.arms {
        assert_eq!((arm.executor.ranks, &arm.executor.cpus[..]), (1, &CPUS[..]));
    }
    let found = result.disturbance.as_ref().unwrap();
    assert_eq!((found.phases.len(), found.work_of_others), (8, false), "{found:?}");
    assert!(result.void.is_empty() && result.discarded.is_empty(), "{result:?}");
}

#[test]
fn a_quad_in_which_a_program_got_hardly_any_of_its_cpu_does_not_count() {
    let result = ran(&spec("starves", 1)).unwrap();
    let discarded: Vec<usize> = result.discarded.iter().map(|of| of.quad).collect();
    assert_eq!((discarded, result.void.len()), (vec![0], 0), "the first arm's first run on the first CPU");
    assert!(
        result.flags.iter().any(|flag| flag.starts_with("some quads of phases were discarded: a program had its CPU"))
    );
    // Its second run there is in the other quad, and all of them count.
    let result = ran(&spec("starves-always", 2)).unwrap();
    assert!(result.discarded.is_empty() && result.void.is_empty(), "{:?}", result.discarded);
    assert!(result.flags.iter().any(|flag| flag.starts_with("a program had its CPU")), "{:?}", result.flags);
}

#[test]
fn an_arm_that_cannot_be_prepared_on_a_cpu_or_fails_there_ends_the_trial() {
    assert_eq!(ran(&spec("unprepared", 0)).unwrap_err(), "it cannot be prepared");
    assert_eq!(ran(&spec("failing", 0)).unwrap_err(), "it failed");
}

#[test]
fn what_cannot_run_at_the_same_time_is_refused() {
    let sound = spec("meets", 0);
    let mut wide = sound.clone();
    wide.arms[1].members[0].arm.ranks = 2;
    let alone = TrialSpec { arms: sound.arms[..1].to_vec(), schedule: vec![0, 0], ..sound.clone() };
    let twice = TrialSpec { schedule: vec![0, 0, 1, 1], ..sound.clone() };
    let odd = TrialSpec { schedule: vec![0, 1, 1], ..sound.clone() };
    for spec in [wide, alone, twice, odd] {
        let why = ran(&spec).unwrap_err();
        assert!(why.starts_with("two arms at the same time have one rank each and equal turns; "), "{why}");
    }
    let why = ran(&TrialSpec { workload: "toy-kernel".to_owned(), ..sound }).unwrap_err();
    assert!(why.starts_with("toy-kernel runs one arm at a time; "), "{why}");
}
