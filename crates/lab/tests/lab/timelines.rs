//! What a document has of the time of phases.

use crate::conduct::WORKLOAD;
use crate::played::{Answer, Memory, Played, conduct, plan, run};
use baremark_lab::analysis::document;
use baremark_model::event::TrialStatus;
use baremark_model::observation::Observation;
use baremark_model::timeline::BinnedLatencies;
use baremark_model::wire::Point;
use std::sync::atomic::AtomicBool;

const SECOND: u64 = 1_000_000_000;

/// A phase of a second after a warm-up of two.
fn second_of_reads(latencies: u64) -> Point {
    Point { bins: vec![[19, latencies]], ..Point::new("read", (2 * SECOND, 3 * SECOND), Vec::new(), None) }
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
    let seen = Observation { began_unix_ns: 5 * SECOND, seconds: 4.0, ..Observation::default() };
    memory.trials[1].result.as_mut().unwrap().observations = vec![seen];
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
    assert_eq!(observed, [None, Some([5.0, 9.0]), None]);
}
