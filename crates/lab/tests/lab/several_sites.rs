//! Trials at several sites at once, whose clocks have nothing to do with each other.

use crate::played::{Answer, Memory, Played, conduct, plan};
use baremark_lab::tally::Finished;
use baremark_model::event::TrialStatus;
use baremark_model::plan::Plan;
use baremark_model::seam::Sample;
use std::sync::atomic::AtomicBool;

const SECOND: u64 = 1_000_000_000;

/// A container's work divided over two, each trial once.
fn divided() -> Plan {
    let mut plan = plan("container");
    plan.arms[1].arm.parts = 2;
    plan.design.least_blocks = 4;
    plan.design.most_blocks = 4;
    plan
}

/// The container's trials, whose two sites say what the script says.
fn trials(plan: &Plan, sites: Played) -> Vec<Finished> {
    let mut memory = Memory::default();
    let native = Played::new(|_| Answer::Values(vec![1.0]));
    let (ending, _) =
        conduct(plan, vec![("native", native), ("container", sites)], &mut memory, &AtomicBool::new(false));
    ending.unwrap();
    memory.trials.into_iter().filter(|trial| trial.cell == 1).collect()
}

fn value(samples: &[Sample], metric: &str) -> f64 {
    samples.iter().find(|sample| sample.metric == metric).unwrap().value
}

#[test]
fn sites_with_clocks_hours_apart_are_set_on_one_clock_and_join_by_rule() {
    // The second site works at the same rate for twice as long.
    let trials = trials(&divided(), Played::new(|_| Answer::Values(vec![10.0])).lasting(&[2 * SECOND, 4 * SECOND]));
    assert_eq!(trials.len(), 4);
    for trial in &trials {
        assert_eq!(trial.status, TrialStatus::Ok, "{trial:#?}");
        let result = trial.result.as_ref().unwrap();
        assert_eq!(result.flags, ["its sites ran side by side for less than nine tenths of a phase"]);
        let phase = &result.phases[0];
        assert_eq!(value(&phase.samples, "gups"), 20.0, "the sum of rates");
        // 10 for 2 s and 10 for 4 s, of each half, over the 4 s from the first start to the last end.
        for samples in [&phase.samples, &phase.halves[0].samples] {
            assert!((value(samples, "gups_at_once") - 15.0).abs() < 0.5, "{samples:?}");
        }
        assert_eq!(phase.members.iter().map(|member| member.samples.len()).collect::<Vec<_>>(), [2, 2]);
        let ranks: Vec<usize> = phase.halves[1].times.iter().map(|time| time.rank).collect();
        let starts: Vec<u64> = phase.halves[1].times.iter().map(|time| time.start_ticks).collect();
        assert_eq!(ranks, [0, 1]);
        assert!(starts[0].abs_diff(starts[1]) < SECOND / 2, "they began together: {starts:?}");
        assert_eq!(result.arms[0].executor.ranks, 2);
        assert!(result.arms[0].counters["clock_uncertainty_ns"] > 0);
    }
}

#[test]
fn a_phase_that_is_short_beside_what_is_known_of_the_clocks_is_void() {
    let trials = trials(&divided(), Played::new(|_| Answer::Values(vec![10.0])).lasting(&[100, 100]));
    let TrialStatus::Void { reasons } = &trials[0].status else { panic!("{:?}", trials[0].status) };
    assert!(reasons[0].starts_with("the clocks of its sites are known to "), "{reasons:?}");
    assert!(reasons[0].ends_with("what they did at the same time: write a longer phase"), "{reasons:?}");
}

#[test]
fn a_site_that_fails_or_dies_is_named_and_fails_the_trial() {
    for (second, expected) in
        [(Played::FAILS, "site 2 of 2: a trial failed: no memory"), (Played::DIES, "site 2 of 2: the agent is lost: ")]
    {
        let trials = trials(&divided(), Played::new(|_| Answer::Values(vec![1.0])).lasting(&[SECOND, second]));
        let TrialStatus::Failed { reason } = &trials[0].status else { panic!("{:?}", trials[0].status) };
        assert!(reason.starts_with(expected), "{reason}");
    }
}
