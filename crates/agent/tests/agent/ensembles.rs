//! Several members of one arm behind one barrier.

use baremark_agent::ensemble::Ensemble;
use baremark_agent::executors::direct::Direct;
use baremark_agent::runner::Runners;
use baremark_model::arm::{ExecutorKind, ResolvedArm};
use baremark_model::page_size::PageSize;
use baremark_model::seam::{Body, Executor, ExecutorFacts, Fault, RunRecord, Sample, Verification, Work};
use baremark_model::team::Team;
use baremark_model::units::Bytes;
use baremark_model::value::Value;
use baremark_model::wire::{ArmSpec, Member, TrialResult, TrialSpec};
use baremark_sys::affinity::allowed_cpus;
use baremark_sys::clock::ticks;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

/// Arrays of 16 MiB over all members together.
const ARRAY: u64 = 16 << 20;

pub fn arm(executor: ExecutorKind, ranks: usize, parts: usize) -> ResolvedArm {
    let vm = executor == ExecutorKind::Microvm;
    let plain = ResolvedArm::native(ranks, PageSize::Small);
    let plain = plain.with("array", Value::SizeBytes(Bytes(ARRAY))).with("small", Value::Switch(true));
    ResolvedArm { executor, host_backing: vm.then_some(PageSize::Small), parts, ..plain }
}

pub fn spec(arms: &[(u32, ResolvedArm)]) -> TrialSpec {
    let ensemble =
        |(count, arm): &(u32, ResolvedArm)| ArmSpec { members: vec![Member { count: *count, arm: arm.clone() }] };
    TrialSpec {
        schedule: (0..arms.len()).chain((0..arms.len()).rev()).collect(),
        phase_ns: 50_000_000,
        seed: 7,
        ..TrialSpec::new("stream", arms.iter().map(ensemble).collect::<Vec<_>>())
    }
}

pub fn run(spec: &TrialSpec) -> Result<TrialResult, String> {
    let runners = Runners { workloads: baremark_workloads::ALL, jobs: &[] };
    runners.run(spec, &mut |_, _| ()).map_err(|why| why.to_string())
}

/// One whole team, and two members of half its ranks, where there are two CPUs.
fn whole_and_halves(executor: ExecutorKind) -> Option<TrialSpec> {
    if allowed_cpus().unwrap().len() < 2 {
        eprintln!("skipped: two members need two CPUs");
        return None;
    }
    if executor == ExecutorKind::Microvm && !baremark_microvm::probe().is_usable() {
        eprintln!("skipped: no microVM here");
        return None;
    }
    Some(spec(&[(1, arm(ExecutorKind::Direct, 2, 1)), (2, arm(executor, 1, 2))]))
}

fn value(samples: &[Sample], metric: &str) -> f64 {
    samples.iter().find(|sample| sample.metric == metric).unwrap_or_else(|| panic!("{metric}: {samples:?}")).value
}

fn members_share_work_window_and_verdict(executor: ExecutorKind) {
    let Some(spec) = whole_and_halves(executor) else { return };
    let result = run(&spec).unwrap();
    let [whole, halves] = result.arms.as_slice() else { panic!("two arms") };
    assert_eq!((whole.executor.ranks, halves.executor.ranks), (2, 2));
    assert_eq!(whole.executor.cpus, halves.executor.cpus, "the second member has the second CPU");
    assert_eq!(whole.pages_before.resident_bytes, 3 * ARRAY);
    assert_eq!(
        halves.pages_before.resident_bytes,
        3 * ARRAY,
        "each member has half of each array, in memory of its own"
    );
    let Verification::Passed { detail } = &halves.verification else { panic!("{:?}", halves.verification) };
    assert!(detail.starts_with(&format!("every one of 3 x {} elements", ARRAY / 16)), "{detail}");
    assert!(!result.void.iter().any(|why| why.contains("ranks")), "{:?}", result.void);

    for phase in result.series.iter().filter(|phase| phase.arm == 0) {
        assert!(phase.members.is_empty(), "one member is the common case");
    }
    for phase in result.series.iter().filter(|phase| phase.arm == 1) {
        for half in &phase.runs {
            let ranks: Vec<usize> = half.times.iter().map(|time| time.rank).collect();
            assert_eq!(ranks, [0, 1], "numbered through");
        }
        let each: Vec<f64> = phase.members.iter().map(|own| value(&own.samples, "triad_mb_per_s")).collect();
        assert_eq!((phase.members.len(), phase.members[1].member), (2, 1));
        assert_eq!(value(&phase.samples, "triad_mb_per_s"), each.iter().sum::<f64>(), "the sum of the bests");
        let worst = phase.members.iter().map(|own| value(&own.samples, "triad_max_ns")).fold(0.0, f64::max);
        assert_eq!(value(&phase.samples, "triad_max_ns"), worst);
        let apart: f64 = phase.members.iter().map(|own| value(&own.samples, "simultaneous_mb_per_s")).sum();
        let together = value(&phase.samples, "simultaneous_mb_per_s");
        assert!(together > 0.0 && together <= apart * (1.0 + 1e-9), "{together} of {apart}");
    }
}

#[test]
fn two_teams_of_threads_share_work_window_and_verdict() {
    members_share_work_window_and_verdict(ExecutorKind::Direct);
}

#[test]
fn two_microvms_share_work_window_and_verdict() {
    members_share_work_window_and_verdict(ExecutorKind::Microvm);
}

#[test]
fn two_null_members_meet_too() {
    let Some(spec) = whole_and_halves(ExecutorKind::Null) else { return };
    let result = run(&spec).unwrap();
    assert!(result.series.iter().all(|phase| phase.runs.iter().all(|half| half.times.len() == 2)));
}

#[test]
fn what_is_no_ensemble_of_one_kind_is_refused() {
    let none = run(&spec(&[(0, arm(ExecutorKind::Direct, 1, 1))])).unwrap_err();
    assert!(none.starts_with("arm 0 is an ensemble of none"), "{none}");
    let mut mixed = spec(&[(1, arm(ExecutorKind::Direct, 1, 1))]);
    let other = Member { count: 1, arm: arm(ExecutorKind::Null, 1, 1) };
    Arc::make_mut(&mut mixed.arms)[0].members.push(other);
    let mixed = run(&mixed).unwrap_err();
    assert!(mixed.starts_with("arm 0 is an ensemble of 2 kinds of members; one agent runs"), "{mixed}");
    let crowd = run(&spec(&[(4096, arm(ExecutorKind::Direct, 1, 4096))])).unwrap_err();
    assert!(crowd.contains("4096 ranks need a CPU each"), "{crowd}");
}

/// Comes late to every run, and says when it came.
struct Late(Direct, Arc<AtomicU64>);

impl Executor for Late {
    fn facts(&self) -> &ExecutorFacts {
        self.0.facts()
    }

    fn run(&mut self, body: &dyn Body, reps: u64) -> Result<RunRecord, Fault> {
        thread::sleep(Duration::from_millis(100));
        self.1.store(ticks(), Ordering::SeqCst);
        self.0.run(body, reps)
    }
}

struct Empty;

impl Body for Empty {
    fn work(&self, _ranks: usize) -> Work {
        Work::default()
    }

    fn rank(&self, _rank: usize, _team: &Team, _reps: u64) {}
}

#[test]
fn nobody_starts_before_the_last_has_come() {
    let cpu = allowed_cpus().unwrap()[0];
    let came = Arc::new(AtomicU64::new(0));
    let late = Late(Direct::new(&[cpu]).unwrap(), Arc::clone(&came));
    let mut ensemble = Ensemble::new(vec![Box::new(Direct::new(&[cpu]).unwrap()), Box::new(late)]);
    for _ in 0..3 {
        let runs = ensemble.run_each(&[&Empty, &Empty], 1).unwrap();
        let first = runs.iter().flat_map(|run| &run.times).map(|time| time.start_ticks).min().unwrap();
        assert!(first >= came.load(Ordering::SeqCst), "a member started before the late one came");
    }
}

/// Fails at the door, as a machine that cannot be entered any more.
struct Broken(Direct);

impl Executor for Broken {
    fn facts(&self) -> &ExecutorFacts {
        self.0.facts()
    }

    fn run(&mut self, _body: &dyn Body, _reps: u64) -> Result<RunRecord, Fault> {
        Err(Fault::TimedOut { rank: 0, limit_ms: 7 })
    }
}

#[test]
fn nobody_waits_for_a_member_that_failed() {
    let cpu = allowed_cpus().unwrap()[0];
    let broken = Broken(Direct::new(&[cpu]).unwrap());
    let mut ensemble = Ensemble::new(vec![Box::new(Direct::new(&[cpu]).unwrap()), Box::new(broken)]);
    assert_eq!(ensemble.run_each(&[&Empty, &Empty], 1), Err(Fault::TimedOut { rank: 0, limit_ms: 7 }));
}
