//! What others took of the CPUs, as trials report it while another program computes.

use crate::toys::ToyKernel;
use baremark_agent::runner::Runners;
use baremark_model::arm::ResolvedArm;
use baremark_model::descriptor::Descriptor;
use baremark_model::job::{Job, JobContext, JobError, JobRun, ReadyJob};
use baremark_model::metric::{Aggregate, Better, Metric};
use baremark_model::page_size::PageSize;
use baremark_model::seam::Sample;
use baremark_model::wire::{ArmSpec, PhaseDisturbance, TrialResult, TrialSpec};
use baremark_sys::cpu_time::{CpuTime, TICK_S};
use baremark_sys::process_tree;
use std::process::{Child, Command};
use std::thread;
use std::time::{Duration, Instant};

const RUNNERS: Runners = Runners { workloads: &[&ToyKernel], jobs: &[&[&Computing]] };
const PHASE: Duration = Duration::from_millis(400);

/// Another program that computes.
struct Hog(Child);

impl Hog {
    fn start() -> Hog {
        Hog(Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap())
    }

    fn cpu_s(&self) -> f64 {
        Duration::from_nanos(process_tree::usage(self.0.id()).unwrap().cpu_ns).as_secs_f64()
    }

    /// Waits until it has used as much CPU time in all, which takes longer where others compute as well.
    fn uses(&self, least_s: f64) -> f64 {
        let deadline = Instant::now() + Duration::from_secs(60);
        while self.cpu_s() < least_s {
            assert!(Instant::now() < deadline, "a program that computes has had {} s", self.cpu_s());
            thread::sleep(Duration::from_millis(5));
        }
        self.cpu_s()
    }
}

impl Drop for Hog {
    fn drop(&mut self) {
        drop(self.0.kill().and_then(|()| self.0.wait()));
    }
}

fn cpus() -> f64 {
    f64::from(u32::try_from(CpuTime::now().unwrap().cpus).unwrap())
}

/// CPU time of a program that shows among all CPUs, whatever ticks make of it.
fn enough_s() -> f64 {
    0.2 * cpus().max(2.0)
}

/// The most that ticks can make of nothing: one for idle and one for stolen time of each CPU, at both ends.
fn ticks_s() -> f64 {
    4.0 * TICK_S * cpus()
}

fn spec(kind: &str) -> TrialSpec {
    let arms = [(); 2].map(|()| ArmSpec::of_one(ResolvedArm::native(1, PageSize::Small)));
    TrialSpec {
        schedule: vec![0, 1, 1, 0],
        phase_ns: u64::try_from(PHASE.as_nanos()).unwrap(),
        seed: 7,
        ..TrialSpec::new(kind, arms)
    }
}

fn phases(result: &TrialResult) -> &[PhaseDisturbance] {
    &result.disturbance.as_ref().unwrap().phases
}

/// What another program uses next to a kernel is in the phases in which it runs.
#[test]
fn what_another_program_uses_is_known_by_phase() {
    let (mut hog, mut used_s, mut ended) = (None, [0.0; 4], [Instant::now(); 4]);
    let mut progress = |position: usize, _arm: usize| {
        ended[position] = Instant::now();
        match position {
            // It has what it needs to be seen before the next phase begins to count less than it.
            0 => hog = Some(Hog::start()),
            1 => used_s[1] = hog.as_ref().map_or(0.0, Hog::cpu_s),
            2 => used_s[2] = hog.take().map_or(0.0, |hog| hog.cpu_s()) - used_s[1],
            _ => {}
        }
    };
    let result = RUNNERS.run(&spec("toy-kernel"), &mut progress).unwrap();
    let found = phases(&result);
    assert_eq!(found.len(), 4);
    for position in [1, 2] {
        let all_s = cpus() * (ended[position] - ended[position - 1]).as_secs_f64();
        // Some kernels count what was stolen while a program had a CPU as the program's. Half must be seen: the readings are not of one moment.
        let seen = found[position].others.unwrap() + found[position].stolen.unwrap();
        let half = (used_s[position] - ticks_s()) / all_s / 2.0;
        assert!(
            half > 0.0 && seen >= half,
            "phase {position}: {seen} of the CPUs, of which a program had twice {half}"
        );
    }
}

static METRICS: [Metric; 1] = [Metric {
    key: "computed_s",
    unit: "s",
    better: Better::Higher,
    together: Aggregate::Sum,
    help: "CPU time of a child",
}];

static JOB: Descriptor = Descriptor {
    kind: "computing",
    help: "a child computes",
    source: "this test",
    metrics: &METRICS,
    short_phases: true,
    alternates: |_| true,
    ..Descriptor::JOB
};

/// A job whose work is done by a child, which outlives the first phase of an arm and ends in the second.
struct Computing;

impl Job for Computing {
    fn descriptor(&self) -> &'static Descriptor {
        &JOB
    }

    fn prepare<'s>(&self, _arm: &'s ResolvedArm, _around: JobContext<'s>) -> Result<Box<dyn ReadyJob + 's>, JobError> {
        Ok(Box::new(Ready(None)))
    }
}

/// Its child, where that outlives a phase.
struct Ready(Option<Hog>);

impl ReadyJob for Ready {
    fn works_in_own_processes(&self) -> bool {
        true
    }

    fn run(&mut self) -> Result<JobRun, JobError> {
        let (before, is_first) = (CpuTime::now().unwrap(), self.0.is_none());
        let hog = self.0.take().unwrap_or_else(Hog::start);
        let had_s = hog.cpu_s();
        let used_s = hog.uses(had_s + enough_s()) - had_s;
        let after = CpuTime::now().unwrap();
        let idle = (after.all - after.busy).saturating_sub(before.all - before.busy);
        let idle_s = f64::from(u32::try_from(idle).unwrap()) * TICK_S;
        if is_first {
            self.0 = Some(hog);
        }
        // What is left for others, with what ticks may make of it.
        let samples = vec![Sample::new(METRICS[0].key, used_s + idle_s - ticks_s())];
        Ok(JobRun { samples, checked: "it computed".to_owned(), ..JobRun::default() })
    }
}

/// A descendant that computes is no other program to work that is done by descendants, while it runs as after its end: what was idle and what
/// it has used is not the others'.
#[test]
fn what_a_descendant_uses_is_not_the_others() {
    let result = RUNNERS.run(&spec("computing"), &mut |_, _| ()).unwrap();
    // Phases that are counted together have one value: only of all of them it is that of what was left in them.
    let (mut others_s, mut left_s) = (0.0, 0.0);
    for (series, found) in result.series.iter().zip(phases(&result)) {
        let all_s = cpus() * Duration::from_nanos(series.end_ns - series.begin_ns).as_secs_f64();
        others_s += found.others.unwrap() * all_s;
        left_s += all_s - series.samples[0].value;
    }
    assert!(others_s <= left_s, "{others_s} s of CPU time, of which {left_s} s were left: {:?}", phases(&result));
}
