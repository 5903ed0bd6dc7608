//! What a document has of the time of phases.

use crate::conduct::WORKLOAD;
use crate::played::{Answer, Memory, Played, conduct, plan, run};
use baremark_lab::analysis::document;
use baremark_model::event::TrialStatus;
use baremark_model::observation::{Observation, THIS_MACHINE};
use baremark_model::plan::Cell;
use baremark_model::timeline::{BinnedLatencies, Stretch};
use baremark_model::wire::Point;
use std::sync::atomic::AtomicBool;

const SECOND: u64 = 1_000_000_000;

/// A phase of a second after a warm-up of two.
fn second_of_reads(latencies: u64) -> Point {
    Point { bins: format!("19:{latencies}"), ..Point::new("read", (2 * SECOND, 3 * SECOND), Vec::new(), None) }
}

#[test]
fn the_seconds_of_all_phases_of_a_treatment_follow_each_other_and_trials_say_when_they_were_observed() {
    let (plan, never) = (plan("microvm"), AtomicBool::new(false));
    let mut memory = Memory::default();
    let played = Played::new(|spec| Answer::Values(vec![1.0; spec.arms.len()]));
    conduct(&plan, vec![(plan.environments_of(plan.cells[0])[0], played)], &mut memory, &never).0.unwrap();
    memory.trials.truncate(3);
    for (number, trial) in (1..).zip(&mut memory.trials) {
        let result = trial.result.as_mut().unwrap();
        result.observations.clear();
        // One of two arms reports its seconds.
        let phases = result.series.iter_mut().filter(|phase| phase.arm == 1);
        phases.for_each(|phase| phase.points = vec![second_of_reads(number)]);
    }
    memory.trials[0].status = TrialStatus::Void { reasons: vec!["pages changed".to_owned()] };
    let seen = |place: &str, began_s: u64, seconds: f64| {
        let place = place.to_owned();
        Observation { place, began_unix_ns: began_s * SECOND, seconds, ..Observation::default() }
    };
    let here_and_there = vec![seen("qemu", 6, 3.5), seen(THIS_MACHINE, 5, 4.0)];
    memory.trials[1].result.as_mut().unwrap().observations = here_and_there;
    memory.trials[2].result.as_mut().unwrap().observations = vec![seen("qemu", 70, 1.0), seen("qemu", 71, f64::MAX)];
    let document = document(&run(&plan, &memory), &[&WORKLOAD]);

    let [row] = document.timelines.as_slice() else { panic!("{:#?}", document.timelines) };
    assert_eq!(row.treatment["environment"], "microvm");
    let stretches: Vec<(f64, f64, [u64; 2])> =
        row.stretches.iter().map(|of| (of.at_s, of.seconds, of.blocks)).collect();
    let of = |at: f64, block: u64| (at, 1.0, [block; 2]);
    // Of a quad each arm has two phases.
    assert_eq!(stretches, [of(0.0, 0), of(1.0, 0), of(2.0, 1), of(3.0, 1), of(4.0, 2), of(5.0, 2)]);
    let reads = |latencies: u64| vec![BinnedLatencies { name: "read".to_owned(), bins: vec![[19, latencies]] }];
    assert_eq!([&row.stretches[0].latencies, &row.stretches[5].latencies], [&reads(1), &reads(3)]);
    let observed: Vec<Option<[f64; 2]>> = document.trials.iter().map(|trial| trial.observed_s).collect();
    assert_eq!(observed, [None, Some([5.0, 9.5]), None]);
}

/// Before, a trial that does not count marked the time of every other one of its block that an arm is in.
#[test]
fn a_trial_that_does_not_count_marks_its_own_time_alone() {
    let (mut plan, never) = (plan("microvm"), AtomicBool::new(false));
    plan.pairs.push(plan.pairs[0]);
    plan.cells.push(Cell::Pair(1));
    let mut memory = Memory::default();
    let played = Played::new(|spec| Answer::Values(vec![1.0; spec.arms.len()]));
    conduct(&plan, vec![(plan.environments_of(plan.cells[0])[0], played)], &mut memory, &never).0.unwrap();
    memory.trials.truncate(2);
    assert_eq!(memory.trials.iter().map(|trial| trial.block).collect::<Vec<_>>(), [0, 0]);
    // What ended a moment after the phase.
    let late = Point { begin_ns: 3 * SECOND, end_ns: 3 * SECOND + 2000, ..second_of_reads(1) };
    for trial in &mut memory.trials {
        let phases = trial.result.as_mut().unwrap().series.iter_mut().filter(|phase| phase.arm == 0);
        phases.for_each(|phase| phase.points = vec![second_of_reads(7), late.clone()]);
    }
    memory.trials[0].result.as_mut().unwrap().flags = vec!["a gap".to_owned()];
    memory.trials[1].status = TrialStatus::Void { reasons: vec!["pages changed".to_owned()] };
    let document = document(&run(&plan, &memory), &[&WORKLOAD]);

    let [row] = document.timelines.as_slice() else { panic!("{:#?}", document.timelines) };
    let of = |of: &Stretch| (of.seconds, of.latencies[0].bins.clone(), of.blocks, of.discarded, of.flagged);
    let expected = |discarded: bool| (1.000_002, vec![[19, 8]], [0, 0], discarded, !discarded);
    assert_eq!(row.stretches.iter().map(of).collect::<Vec<_>>(), [false, false, true, true].map(expected));
}
