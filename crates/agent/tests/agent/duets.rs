//! Both arms of a job at the same time, on a CPU each, which they swap: with toys that wait for each other, so that one after the other does not end.

use crate::toys::{ToyKernel, descriptor};
use baremark_agent::runner::Runners;
use baremark_model::arm::{ExecutorKind, ResolvedArm};
use baremark_model::command::{CPU, WALL};
use baremark_model::descriptor::Descriptor;
use baremark_model::job::{Job, JobContext, JobError, JobRun, ReadyJob};
use baremark_model::page_size::PageSize;
use baremark_model::seam::Sample;
use baremark_model::value::Value;
use baremark_model::wire::{ArmSpec, Detail, Series, TrialResult, TrialSpec};
use std::collections::BTreeSet;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

/// The CPUs of the trials, which no toy uses.
const CPUS: [usize; 2] = [3, 5];
/// A run that has not met another by then fails.
const LIMIT: Duration = Duration::from_secs(60);
/// How often an arm got hardly any of the first CPU: in its first runs there.
const STARVED: &str = "starved";
/// The arm's number.
const ARM: &str = "arm";

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

/// At which step a toy fails.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    Prepare,
    WarmUp,
    Run,
    /// Its run panics.
    Panic,
}

/// A job whose warm-ups and runs end when two of them are at work; one with a fault waits for no other.
struct Toy {
    descriptor: Descriptor,
    meeting: Meeting,
    /// The arms that warm up.
    warming: Mutex<BTreeSet<u64>>,
    /// At which step it fails, and on which CPU.
    fault: Option<(Step, usize)>,
}

const fn toy(kind: &'static str, fault: Option<(Step, usize)>) -> Toy {
    let descriptor = descriptor(kind, &[ExecutorKind::Direct]);
    Toy { descriptor, meeting: Meeting::new(), warming: Mutex::new(BTreeSet::new()), fault }
}

static MEETS: Toy = toy("meets", None);
static WARMS: Toy = toy("warms", None);
static STARVES: Toy = toy("starves", None);
static UNPREPARED: Toy = toy("unprepared", Some((Step::Prepare, CPUS[1])));
static COLD: Toy = toy("cold", Some((Step::WarmUp, CPUS[1])));
static FAILING: Toy = toy("failing", Some((Step::Run, CPUS[0])));
static PANICKING: Toy = toy("panicking", Some((Step::Panic, CPUS[0])));
static TOYS: [&Toy; 7] = [&MEETS, &WARMS, &STARVES, &UNPREPARED, &COLD, &FAILING, &PANICKING];
static JOBS: [&[&dyn Job]; 1] = [&[&MEETS, &WARMS, &STARVES, &UNPREPARED, &COLD, &FAILING, &PANICKING]];

fn ran(spec: &TrialSpec) -> Result<TrialResult, String> {
    let runners = Runners { workloads: &[&ToyKernel], jobs: &JOBS };
    runners.run(spec, &mut |_, _| ()).map_err(|why| why.to_string())
}

impl Toy {
    /// Fails at this step, where it has to on this CPU.
    fn reaches(&self, step: Step, cpu: usize) -> Result<(), JobError> {
        match self.fault {
            Some(fault) if fault == (step, cpu) => Err(JobError::failed("it failed")),
            _ => Ok(()),
        }
    }

    /// Waits for the other one.
    fn meets(&self) -> Result<(), JobError> {
        let met = self.fault.is_some() || self.meeting.meet();
        met.then_some(()).ok_or_else(|| JobError::failed("no other ran at the same time"))
    }
}

impl Job for Toy {
    fn descriptor(&self) -> &'static Descriptor {
        // Each is a static.
        TOYS.into_iter().map(|toy| &toy.descriptor).find(|of| of.kind == self.descriptor.kind).unwrap()
    }

    fn prepare<'s>(&self, arm: &'s ResolvedArm, around: JobContext<'s>) -> Result<Box<dyn ReadyJob + 's>, JobError> {
        let [cpu] = around.cpus else { return Err(JobError::failed(format!("one CPU: {:?}", around.cpus))) };
        self.reaches(Step::Prepare, *cpu)?;
        let count = |key: &str| match arm.parameters.get(key) {
            Some(Value::Count(count)) => *count,
            _ => 0,
        };
        let toy = TOYS.into_iter().find(|toy| toy.descriptor.kind == self.descriptor.kind).unwrap();
        let starved = if *cpu == CPUS[0] { count(STARVED) } else { 0 };
        Ok(Box::new(Ready { toy, arm: count(ARM), cpu: *cpu, starved, runs: 0 }))
    }
}

struct Ready {
    toy: &'static Toy,
    arm: u64,
    cpu: usize,
    starved: u64,
    runs: u64,
}

impl ReadyJob for Ready {
    /// As a program that has an output file of its own: two of it at the same time fail.
    fn warm_up(&mut self) -> Result<(), JobError> {
        self.toy.reaches(Step::WarmUp, self.cpu)?;
        if !self.toy.warming.lock().unwrap().insert(self.arm) {
            return Err(JobError::failed("the same arm warms up on the other CPU"));
        }
        let met = self.toy.meets();
        self.toy.warming.lock().unwrap().remove(&self.arm);
        met
    }

    fn run(&mut self) -> Result<JobRun, JobError> {
        self.toy.reaches(Step::Run, self.cpu)?;
        assert!(self.toy.reaches(Step::Panic, self.cpu).is_ok(), "it panics");
        self.toy.meets()?;
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
    let arm = |number, starved| {
        let mut arm = ResolvedArm::native(1, PageSize::Small);
        arm.parameters.insert(ARM.to_owned(), Value::Count(number));
        arm.parameters.insert(STARVED.to_owned(), Value::Count(starved));
        ArmSpec::of_one(arm)
    };
    TrialSpec {
        schedule: vec![0, 1, 1, 0, 1, 0, 0, 1],
        phase_ns: 1_000_000,
        duet: Some(CPUS),
        seed: 7,
        ..TrialSpec::new(kind, [arm(0, starved), arm(1, 0)])
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
        assert!(arm.placed.cpus.is_empty(), "the rank kept to neither: {:?}", arm.placed);
    }
    let found = result.disturbance.as_ref().unwrap();
    assert_eq!((found.phases.len(), found.work_of_others), (8, false), "{found:?}");
    assert!(result.void.is_empty() && result.discarded.is_empty(), "{result:?}");
}

#[test]
fn each_arm_warms_up_next_to_the_other_and_never_next_to_itself() {
    // Warm-ups of the same arm at the same time fail, and so does one that has no other next to it.
    let result = ran(&spec("warms", 0)).unwrap();
    assert_eq!(result.series.len(), 8);
    // One for each arm on each CPU, and one for each phase.
    assert_eq!(*WARMS.meeting.arrived.lock().unwrap(), 4 + 8);
}

#[test]
fn a_quad_in_which_a_program_got_hardly_any_of_its_cpu_counts_and_is_flagged() {
    let says = |starved: u64| {
        let result = ran(&spec("starves", starved)).unwrap();
        assert!(result.discarded.is_empty() && result.void.is_empty(), "{result:?}");
        result.flags.iter().any(|flag| flag.starts_with("in some runs a program used CPU time for less than a quarter"))
    };
    assert_eq!([says(0), says(1), says(2)], [false, true, true]);
}

#[test]
fn an_arm_that_cannot_be_prepared_on_a_cpu_or_fails_there_ends_the_trial() {
    for kind in ["unprepared", "cold", "failing"] {
        assert_eq!(ran(&spec(kind, 0)).unwrap_err(), "it failed", "{kind}");
    }
    let why = ran(&spec("panicking", 0)).unwrap_err();
    assert_eq!(why, "a thread that runs a program panicked: it panics");
}

#[test]
fn what_cannot_run_at_the_same_time_is_refused() {
    let sound = spec("meets", 0);
    let mut wide = sound.clone();
    Arc::make_mut(&mut wide.arms)[1].members[0].arm.ranks = 2;
    let alone = TrialSpec { arms: sound.arms[..1].into(), schedule: vec![0, 0], ..sound.clone() };
    let twice = TrialSpec { schedule: vec![0, 0, 1, 1], ..sound.clone() };
    let odd = TrialSpec { schedule: vec![0, 1, 1], ..sound.clone() };
    for spec in [wide, alone, twice, odd] {
        let why = ran(&spec).unwrap_err();
        assert!(why.starts_with("two arms at the same time have one rank each and equal turns; "), "{why}");
    }
    let why = ran(&TrialSpec { workload: "toy-kernel".to_owned(), ..sound }).unwrap_err();
    assert!(why.starts_with("toy-kernel runs one arm at a time; "), "{why}");
}
