//! A toy kernel and a toy job: all that a new kind of workload is.

use baremark_model::arm::{ExecutorKind, ResolvedArm};
use baremark_model::descriptor::Descriptor;
use baremark_model::job::{Job, JobContext, JobError, JobRun, ReadyJob};
use baremark_model::metric::{Aggregate, Better, Metric};
use baremark_model::seam::{
    Arena, Body, Prepared, RankTime, Sample, TickRate, Verification, Work, Workload, WorkloadError,
};
use baremark_model::team::Team;
use baremark_model::wire::{Detail, Point};
use std::hint::black_box;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

static METRICS: [Metric; 1] = [Metric {
    key: "turns_per_s",
    unit: "turns/s",
    better: Better::Higher,
    together: Aggregate::Sum,
    help: "turns of a loop per second",
}];

pub const fn descriptor(kind: &'static str, executors: &'static [ExecutorKind]) -> Descriptor {
    Descriptor {
        kind,
        help: "counts",
        source: "this test",
        metrics: &METRICS,
        executors,
        short_phases: true,
        alternates: |_| true,
        ..Descriptor::JOB
    }
}

fn turns(count: f64, seconds: f64) -> Vec<Sample> {
    vec![Sample::new(METRICS[0].key, count / seconds)]
}

/// A loop that counts.
pub struct ToyKernel;

static KERNEL: Descriptor = descriptor("toy-kernel", &[ExecutorKind::Direct, ExecutorKind::Null]);
/// The seed whose ranges have a wrong word.
pub const WRONG_RANGES: u64 = 13;
/// Turns of one repetition.
const TURNS: u64 = 1000;

impl Workload for ToyKernel {
    fn descriptor(&self) -> &'static Descriptor {
        &KERNEL
    }

    fn spans(&self, _arm: &ResolvedArm) -> Result<Vec<u64>, WorkloadError> {
        Ok(Vec::new())
    }

    fn prepare<'m>(&self, _arm: &ResolvedArm, _arena: &'m dyn Arena) -> Result<Box<dyn Prepared + 'm>, WorkloadError> {
        Ok(Box::new(Counter(Loop::default())))
    }
}

#[derive(Default)]
struct Loop(AtomicU64);

impl Body for Loop {
    fn work(&self, ranks: usize) -> Work {
        Work { operations: TURNS * ranks as u64, ..Work::default() }
    }

    fn rank(&self, _rank: usize, _team: &Team, reps: u64) {
        let mut turns = 0_u64;
        for _ in 0..reps * TURNS {
            turns = black_box(turns) + 1;
        }
        self.0.fetch_add(turns, Ordering::Relaxed);
    }
}

/// How often ranks ran what warms them, in all trials.
pub static WARMED: AtomicU64 = AtomicU64::new(0);

/// What runs once instead of the loop, before the phases.
struct WarmIn;

impl Body for WarmIn {
    fn work(&self, _ranks: usize) -> Work {
        Work::default()
    }

    fn rank(&self, _rank: usize, _team: &Team, reps: u64) {
        WARMED.fetch_add(reps, Ordering::Relaxed);
    }
}

struct Counter(Loop);

impl Prepared for Counter {
    fn body(&self) -> &dyn Body {
        &self.0
    }

    fn warm_in(&self) -> Option<Box<dyn Body + '_>> {
        Some(Box::new(WarmIn))
    }

    fn verify(&mut self) -> Verification {
        match self.0.0.swap(0, Ordering::Relaxed) {
            turns if turns > 0 && turns.is_multiple_of(TURNS) => {
                Verification::Passed { detail: "whole repetitions were counted".to_owned() }
            }
            turns => Verification::Failed { detail: format!("{turns} turns were counted") },
        }
    }

    /// Right in all ranges but those of one seed.
    fn verify_ranges(&mut self, seed: u64) -> Option<Verification> {
        let detail = format!("ranges of {seed}");
        Some(if seed == WRONG_RANGES { Verification::Failed { detail } } else { Verification::Passed { detail } })
    }

    fn metrics(&self, reps: u64, times: &[RankTime], rate: TickRate) -> Vec<Sample> {
        times.iter().flat_map(|time| turns((reps * TURNS) as f64, rate.own(time))).collect()
    }
}

/// A job that counts for a phase, and is told when nobody waits for it any more.
pub struct ToyJob;

static JOB: Descriptor = Descriptor { stops_on_interrupt: true, ..descriptor("toy-job", &[ExecutorKind::Direct]) };

impl Job for ToyJob {
    fn descriptor(&self) -> &'static Descriptor {
        &JOB
    }

    fn prepare<'s>(&self, _arm: &'s ResolvedArm, around: JobContext<'s>) -> Result<Box<dyn ReadyJob + 's>, JobError> {
        let overwritable = around.overwritable.to_vec();
        let interrupt = Arc::clone(around.interrupt);
        Ok(Box::new(Counting { phase: around.phase, overwritable, interrupt, turns: Vec::new() }))
    }
}

struct Counting {
    phase: Duration,
    overwritable: Vec<PathBuf>,
    interrupt: Arc<AtomicBool>,
    /// What it was called for, of a trial in turns.
    turns: Vec<&'static str>,
}

impl Counting {
    fn note(&mut self, what: &'static str) {
        // One that takes no turns is neither stopped nor continued.
        assert!(!self.turns.is_empty() || what == "turns", "{what}");
        self.turns.push(what);
    }
}

impl ReadyJob for Counting {
    fn takes_turns(&mut self) {
        self.note("turns");
    }

    fn warm_up(&mut self) -> Result<(), JobError> {
        if !self.turns.is_empty() {
            self.note("warm-up");
        }
        Ok(())
    }

    fn rest(&mut self) -> Result<(), JobError> {
        self.note("rest");
        Ok(())
    }

    fn wake(&mut self) {
        self.note("wake");
    }

    fn run(&mut self) -> Result<JobRun, JobError> {
        if !self.turns.is_empty() {
            self.note("run");
        }
        let (begun, mut count) = (Instant::now(), 0_u64);
        // One turn at least, however late it gets a CPU.
        while count == 0 || begun.elapsed() < self.phase {
            if self.interrupt.load(Ordering::Acquire) {
                return Err(JobError::Interrupted);
            }
            count += 1;
            // A turn is this long.
            thread::sleep(Duration::from_micros(100));
        }
        let samples = turns(count as f64, begun.elapsed().as_secs_f64());
        let end_ns = u64::try_from(begun.elapsed().as_nanos()).unwrap();
        let all = Point { name: "all".to_owned(), end_ns, samples: samples.clone(), ..Point::default() };
        let turns = if self.turns.is_empty() { String::new() } else { format!("; {}", self.turns.join(", ")) };
        Ok(JobRun {
            void: Vec::new(),
            samples,
            checked: format!("it counted, and may overwrite {:?}{turns}", self.overwritable),
            flags: Vec::new(),
            points: vec![all],
            detail: Some(Detail { format: "toy/1".to_owned(), document: count.into() }),
        })
    }
}
