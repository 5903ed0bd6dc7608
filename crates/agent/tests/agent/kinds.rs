//! New kinds of workloads: one file each (`toys`) and one line of a list, and the same runner, agent and lab do the rest.

use crate::toys::{ToyJob, ToyKernel, WARMED, WRONG_RANGES};
use baremark_agent::interrupt::Interrupt;
use baremark_agent::runner::Runners;
use baremark_agent::serve::{Means, serve};
use baremark_model::arm::ResolvedArm;
use baremark_model::descriptor::Descriptor;
use baremark_model::page_size::PageSize;
use baremark_model::seam::Verification;
use baremark_model::units::Share;
use baremark_model::verify::Verify;
use baremark_model::wire::{
    ArmSpec, FromAgent, PROTOCOL, Pass, ToAgent, TrialResult, TrialSpec, TurnsSpec, read_frame, write_frame,
};
use baremark_sys::held_back::HeldBack;
use std::os::unix::net::UnixStream;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

/// The line of each.
const RUNNERS: Runners = Runners { workloads: &[&ToyKernel], jobs: &[&[&ToyJob]] };

fn spec(kind: &str, phase: Duration) -> TrialSpec {
    let arms = [(); 2].map(|()| ArmSpec::of_one(ResolvedArm::native(1, PageSize::Small)));
    TrialSpec {
        schedule: vec![0, 1, 1, 0],
        phase_ns: u64::try_from(phase.as_nanos()).unwrap(),
        seed: 7,
        ..TrialSpec::new(kind, arms)
    }
}

/// An agent with the toys, and the lab's end of the wire to it.
fn with_agent(talk: impl FnOnce(&mut UnixStream)) {
    let (mut lab, mut agent) = UnixStream::pair().unwrap();
    let interrupt = Interrupt::default();
    thread::scope(|scope| {
        let served = scope.spawn(|| {
            let mut output = agent.try_clone().unwrap();
            serve(&mut agent, &mut output, Means { runners: RUNNERS, interrupt: &interrupt, tender: None })
        });
        write_frame(&mut lab, &ToAgent::Hello { protocol: PROTOCOL, version: "test".to_owned() }).unwrap();
        assert!(matches!(read_frame(&mut lab).unwrap(), FromAgent::Hello { protocol: PROTOCOL, .. }));
        talk(&mut lab);
        write_frame(&mut lab, &ToAgent::Goodbye).unwrap();
        served.join().unwrap().unwrap();
    });
}

/// What must be true of a trial of any kind that ran well.
fn conforms(descriptor: &Descriptor, spec: &TrialSpec, result: &TrialResult) {
    assert!(result.void.is_empty(), "{:?}", result.void);
    assert_eq!(result.arms.len(), spec.arms.len());
    assert!(result.arms.iter().all(|arm| matches!(arm.verification, Verification::Passed { .. })), "{result:?}");
    let order: Vec<(usize, usize)> = result.series.iter().map(|series| (series.phase, series.arm)).collect();
    assert_eq!(order, spec.schedule.iter().copied().enumerate().collect::<Vec<_>>());
    for series in &result.series {
        assert!(series.begin_ns < series.end_ns, "{series:?}");
        assert!(!series.samples.is_empty(), "{series:?}");
        for sample in &series.samples {
            assert!(descriptor.metric(&sample.metric).is_some() && sample.value > 0.0, "{sample:?}");
        }
        for point in &series.points {
            assert!(!point.name.is_empty() && point.begin_ns <= point.end_ns, "{point:?}");
        }
    }
    assert!(result.series.windows(2).all(|two| two[0].end_ns <= two[1].begin_ns), "{:?}", result.series);
    // Whatever this machine counts of others: each phase has something, of kernels and of jobs alike.
    let found = result.disturbance.as_ref().expect("what others took of the CPUs");
    assert_eq!((found.phases.len(), found.queued.len()), (spec.schedule.len(), spec.arms.len()), "{found:?}");
    let (before, now) = (HeldBack::now(), HeldBack::now());
    let counts = [now.throttled_since(&before), now.pressure_since(&before, Duration::from_secs(1))];
    for (share, is_counted) in [found.throttled, found.pressure].into_iter().zip(counts.map(|share| share.is_some())) {
        assert!(share.is_some() == is_counted && share.is_none_or(|share| (0.0..=1.0).contains(&share)), "{found:?}");
    }
}

#[test]
fn a_kernel_and_a_job_of_one_file_and_one_line_run_like_all_others() {
    let kinds: Vec<&str> = RUNNERS.descriptors().iter().map(|descriptor| descriptor.kind).collect();
    assert_eq!(kinds, ["toy-kernel", "toy-job"]);
    with_agent(|lab| {
        for descriptor in RUNNERS.descriptors() {
            let spec = spec(descriptor.kind, Duration::from_millis(5));
            write_frame(lab, &ToAgent::RunTrial(Box::new(spec.clone()))).unwrap();
            for position in 0..spec.schedule.len() {
                let expected = FromAgent::Phase { position, of: 4, arm: spec.schedule[position] };
                assert_eq!(read_frame::<FromAgent>(lab).unwrap(), expected);
            }
            let FromAgent::TrialDone(result) = read_frame(lab).unwrap() else { panic!("no result") };
            conforms(descriptor, &spec, &result);
            let is_a_job = descriptor.kind == "toy-job";
            assert!(result.series.iter().all(|series| series.runs.is_empty() == is_a_job), "{result:?}");
            assert!(result.series.iter().all(|series| series.detail.is_some() == is_a_job), "{result:?}");
        }
    });
}

/// No other trial of these tests knows its repetitions.
#[test]
fn arms_of_known_repetitions_are_warmed_once_and_keep_them() {
    let spec = TrialSpec { reps: Some(3), ..spec("toy-kernel", Duration::from_millis(1)) };
    let result = RUNNERS.run(&spec, &mut |_, _| ()).unwrap();
    conforms(RUNNERS.descriptors()[0], &spec, &result);
    assert!(result.series.iter().all(|series| series.reps == 3), "{:?}", result.series);
    assert_eq!(WARMED.load(Ordering::Relaxed), 2, "each arm's rank once, one repetition");
    let told: Vec<&str> = result.spent_ns.keys().map(String::as_str).collect();
    assert!(["clock", "measured", "pacing", "phases"].iter().all(|part| told.contains(part)), "{told:?}");
}

#[test]
fn a_trial_checks_the_share_of_its_result_that_was_asked_for_and_is_void_where_that_is_wrong() {
    with_agent(|lab| {
        for verify in [Verify::Whole, Verify::Ranges(5), Verify::Ranges(WRONG_RANGES)] {
            let spec = TrialSpec { verify, ..spec("toy-kernel", Duration::from_millis(1)) };
            write_frame(lab, &ToAgent::RunTrial(Box::new(spec))).unwrap();
            let result = loop {
                match read_frame(lab).unwrap() {
                    FromAgent::TrialDone(result) => break result,
                    FromAgent::Phase { .. } => {}
                    other => panic!("{other:?}"),
                }
            };
            let arm = &result.arms[0];
            let passed = |detail: &str| Verification::Passed { detail: detail.to_owned() };
            match verify {
                Verify::Whole => {
                    assert_eq!((&arm.verification, arm.verified), (&passed("whole repetitions were counted"), None));
                }
                Verify::Ranges(seed) => assert_eq!(arm.verified, Some(Share(0.0625)), "{seed}"),
            }
            let wrong = "the result is wrong: ranges of 13".to_owned();
            assert_eq!(result.void.contains(&wrong), verify == Verify::Ranges(WRONG_RANGES), "{:?}", result.void);
        }
    });
}

#[test]
fn a_job_gets_the_consent_of_its_order_and_no_other() {
    with_agent(|lab| {
        // One agent runs both: what an earlier order allowed is not allowed by the next.
        for allowed in [vec!["/dev/sdb".into(), "/dev/disk/by-id/x".into()], Vec::new()] {
            let spec = TrialSpec { overwritable: allowed, ..spec("toy-job", Duration::from_millis(1)) };
            write_frame(lab, &ToAgent::RunTrial(Box::new(spec.clone()))).unwrap();
            let result = loop {
                match read_frame(lab).unwrap() {
                    FromAgent::TrialDone(result) => break result,
                    FromAgent::Phase { .. } => {}
                    other => panic!("{other:?}"),
                }
            };
            let expected = format!("it counted, and may overwrite {:?}", spec.overwritable);
            for arm in &result.arms {
                assert_eq!(arm.verification, Verification::Passed { detail: expected.clone() });
            }
        }
    });
}

/// What a side says when it waits for its turn.
fn at_turn(lab: &mut UnixStream) -> Option<u64> {
    match read_frame(lab).unwrap() {
        FromAgent::AtTurn { reps } => reps,
        other => panic!("{other:?}"),
    }
}

/// Two agents that share nothing but this test, which gives the turns: ABBA, and another quad for which there is no time.
#[test]
fn two_sides_run_their_phases_in_turns_and_say_nothing_meanwhile() {
    for descriptor in RUNNERS.descriptors() {
        with_agent(|first| {
            with_agent(|second| {
                let part = TrialSpec { schedule: vec![0; 4], ..spec(descriptor.kind, Duration::from_millis(2)) };
                let part = TrialSpec { arms: part.arms[..1].into(), allocation_order: vec![0], ..part };
                let mut sides = [first, second];
                let mut found = Vec::new();
                for (arm, lab) in sides.iter_mut().enumerate() {
                    let order = ToAgent::TakeTurns(Box::new(TurnsSpec { spec: part.clone(), arm, rest_ns: 0 }));
                    write_frame(*lab, &order).unwrap();
                    found.push(at_turn(lab));
                }
                assert_eq!(found.iter().all(Option::is_some), descriptor.kind == "toy-kernel", "{found:?}");
                let reps = found.iter().flatten().copied().max().unwrap_or(1);
                for lab in &mut sides {
                    write_frame(*lab, &ToAgent::Pass(Pass { reps, begin_ns: 0 })).unwrap();
                    assert_eq!(at_turn(lab), None);
                }
                for (arm, others) in [(0, 0), (1, 1), (1, 0), (0, 2)] {
                    write_frame(sides[arm], &ToAgent::Turn { others }).unwrap();
                    assert_eq!(at_turn(sides[arm]), None);
                }
                for (lab, others) in sides.into_iter().zip([0, 1]) {
                    write_frame(lab, &ToAgent::EndTurns { others }).unwrap();
                    let FromAgent::TurnsDone(done) = read_frame(lab).unwrap() else { panic!("no result") };
                    let ran = TrialSpec { schedule: vec![0; 2], ..part.clone() };
                    conforms(descriptor, &ran, &done.result);
                    assert!(done.result.series.iter().all(|phase| phase.reps == reps), "{:?}", done.result.series);
                    assert!(done.idle.ns > 0, "it waited for the other's phases: {:?}", done.idle);
                    assert!(done.result.discarded.is_empty(), "one side has no quads");
                    // What the job has started rests whenever the other side may have a turn, from before the first on.
                    if descriptor.kind == "toy-job" {
                        let calls = "turns, warm-up, rest, wake, run, rest, wake, run";
                        let detail = format!("it counted, and may overwrite []; {calls}");
                        assert_eq!(done.result.arms[0].verification, Verification::Passed { detail });
                    }
                }
            });
        });
    }
}

/// One of several sites, whose others may be on this machine: these are no other programs.
#[test]
fn a_member_of_several_sites_counts_no_other_site_as_a_disturbance() {
    with_agent(|lab| {
        for descriptor in RUNNERS.descriptors() {
            let spec = spec(descriptor.kind, Duration::from_millis(2));
            write_frame(lab, &ToAgent::RunMember(Box::new(spec.clone()))).unwrap();
            let done = loop {
                match read_frame(lab).unwrap() {
                    // A moment that has passed: nobody is waited for.
                    FromAgent::AtGate { reps } => {
                        write_frame(lab, &ToAgent::Pass(Pass { reps, begin_ns: 0 })).unwrap();
                    }
                    FromAgent::Phase { .. } => {}
                    FromAgent::MemberDone(done) => break done,
                    other => panic!("{other:?}"),
                }
            };
            conforms(descriptor, &spec, &done.result);
            assert!(done.result.disturbance.as_ref().is_some_and(|found| found.work_of_others), "{done:?}");
            assert!(done.result.discarded.is_empty(), "the sites would discard different quads: {done:?}");
            let others = |flag: &String| flag.starts_with("other programs used") || flag.starts_with("some quads");
            assert!(!done.result.flags.iter().any(others), "{:?}", done.result.flags);
        }
    });
}

#[test]
fn a_side_whose_lab_is_gone_leaves() {
    for descriptor in RUNNERS.descriptors() {
        with_agent(|lab| {
            let part = TrialSpec { schedule: vec![0; 4], ..spec(descriptor.kind, Duration::from_millis(2)) };
            let part = TrialSpec { arms: part.arms[..1].into(), allocation_order: vec![0], ..part };
            write_frame(lab, &ToAgent::TakeTurns(Box::new(TurnsSpec { spec: part, arm: 1, rest_ns: 0 }))).unwrap();
            at_turn(lab);
        });
    }
}

#[test]
fn a_kind_that_is_in_no_list_is_refused() {
    let why = RUNNERS.run(&spec("toy", Duration::from_millis(5)), &mut |_, _| ()).unwrap_err().to_string();
    assert_eq!(why, "this agent has no workload 'toy'; use the same version of baremark on both sides");
}

#[test]
fn a_job_ends_soon_after_the_lab_has_said_goodbye() {
    let hour = Duration::from_secs(3600);
    let begun = Instant::now();
    with_agent(|lab| {
        write_frame(lab, &ToAgent::RunTrial(Box::new(spec("toy-job", hour)))).unwrap();
    });
    assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
}
