//! Trials at several sites at once, whose clocks have nothing to do with each other.

use crate::played::{Answer, Memory, Played, conduct, plan, soon};
use baremark_lab::conduct::Ending;
use baremark_lab::trials::Finished;
use baremark_model::event::TrialStatus;
use baremark_model::plan::{Cell, Plan};
use baremark_model::seam::Sample;
use baremark_model::site::{Missing, SiteError};
use baremark_model::value::Value;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

/// What its sites say that a phase lasts, so long that what is known of their clocks, whoever had the CPUs as they were read, is little against it.
const LONG: u64 = 1_000_000_000_000;

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
    let trials = trials(&divided(), Played::new(|_| Answer::Values(vec![10.0])).lasting(&[2 * LONG, 4 * LONG]));
    assert_eq!(trials.len(), 4);
    for trial in &trials {
        assert_eq!(trial.status, TrialStatus::Ok, "{trial:#?}");
        let result = trial.result.as_ref().unwrap();
        assert_eq!(result.flags, ["its sites ran side by side for less than nine tenths of a phase"]);
        let phase = &result.series[0];
        assert_eq!(value(&phase.samples, "gups"), 20.0, "the sum of rates");
        // 10 for twice as long and 10 for four times as long, of each half, over the time from the first start to the last end.
        for samples in [&phase.samples, &phase.runs[0].samples] {
            assert!((value(samples, "gups_at_once") - 15.0).abs() < 0.5, "{samples:?}");
        }
        assert_eq!(phase.members.iter().map(|member| member.samples.len()).collect::<Vec<_>>(), [2, 2]);
        let ranks: Vec<usize> = phase.runs[1].times.iter().map(|time| time.rank).collect();
        let starts: Vec<u64> = phase.runs[1].times.iter().map(|time| time.start_ticks).collect();
        assert_eq!(ranks, [0, 1]);
        assert!(starts[0].abs_diff(starts[1]) < LONG / 2, "they began together: {starts:?}");
        assert_eq!(result.arms[0].executor.ranks, 2);
        assert!(result.arms[0].counters["clock_uncertainty_ns"] > 0);
    }
}

#[test]
fn a_phase_that_is_short_beside_what_is_known_of_the_clocks_is_void() {
    let trials = trials(&divided(), Played::new(|_| Answer::Values(vec![10.0])).lasting(&[100, 100]));
    let TrialStatus::Void { reasons } = &trials[0].status else { panic!("{:?}", trials[0].status) };
    assert!(reasons[0].starts_with("the clocks of its sites are known to "), "{reasons:?}");
    assert!(reasons[0].ends_with("align them: write a longer phase"), "{reasons:?}");
}

#[test]
fn a_site_that_fails_or_dies_is_named_and_fails_the_trial() {
    for (second, expected) in
        [(Played::FAILS, "site 2 of 2: a trial failed: no memory"), (Played::DIES, "site 2 of 2: the agent is lost: ")]
    {
        let trials = trials(&divided(), Played::new(|_| Answer::Values(vec![1.0])).lasting(&[LONG, second]));
        let TrialStatus::Failed { reason } = &trials[0].status else { panic!("{:?}", trials[0].status) };
        assert!(reason.starts_with(expected), "{reason}");
    }
}

#[test]
fn sites_of_one_trial_start_side_by_side() {
    let starting = Arc::new(AtomicUsize::new(0));
    let all = Arc::clone(&starting);
    // None is there before both have begun: one after the other would never come.
    let together = move |_, _: &AtomicBool| {
        let before = all.fetch_add(1, Ordering::SeqCst);
        match soon(|| all.load(Ordering::SeqCst) >= before / 2 * 2 + 2) {
            true => Ok(()),
            false => Err(SiteError::NotReady { what: "it started alone".to_owned(), log: Vec::new() }),
        }
    };
    let played = Played::new(|_| Answer::Values(vec![1.0])).lasting(&[LONG, LONG]).starting(together);
    let there = played.there();
    let trials = trials(&divided(), played);
    assert!(trials.iter().all(|trial| trial.status == TrialStatus::Ok), "{:?}", trials[0].status);
    assert_eq!(starting.load(Ordering::SeqCst), 2 * trials.len());
    assert_eq!(there.load(Ordering::SeqCst), 0);
}

#[test]
fn sites_serve_as_long_as_the_study_says_and_none_that_has_failed() {
    // Two treatments at two sites each, in four blocks.
    for (fresh, expected, after_a_death) in [("trial", 16, 16), ("block", 8, 10), ("run", 2, 4)] {
        for (dies, expected) in [(usize::MAX, expected), (4, after_a_death)] {
            let mut plan = divided();
            let mut other = plan.arms[1].clone();
            other.treatment.insert("page".to_owned(), "2m".to_owned());
            plan.arms.push(other);
            plan.cells.push(Cell::Single(2));
            let settings = [("fresh".to_owned(), Value::Choice(fresh.to_owned()))];
            plan.environments.insert("container".to_owned(), settings.into());
            let (starts, mut told) = (Arc::new(AtomicUsize::new(0)), 0);
            let counted = Arc::clone(&starts);
            // The third trial is lost at one of its sites: it is the first of the second block.
            let script = move |_: &_| {
                told += 1;
                if told == dies + 1 { Answer::Dies } else { Answer::Values(vec![1.0]) }
            };
            let starting = move |_, _: &AtomicBool| {
                counted.fetch_add(1, Ordering::SeqCst);
                Ok(())
            };
            let played = Played::new(script).lasting(&[LONG, LONG]).starting(starting);
            let there = played.there();
            trials(&plan, played);
            assert_eq!(starts.load(Ordering::SeqCst), expected, "{fresh}, {dies}");
            assert_eq!(there.load(Ordering::SeqCst), 0);
        }
    }
}

#[test]
fn a_site_that_cannot_be_started_is_named_and_the_others_are_given_up() {
    for failing in [0, 1] {
        let given_up = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&given_up);
        let starting = move |index, flag: &AtomicBool| {
            if index == failing {
                let missing = Missing { what: "no memory".to_owned(), remedy: "add some".to_owned() };
                return Err(SiteError::from(missing));
            }
            // A guest that boots until it is told that nobody wants it any more.
            assert!(soon(|| flag.load(Ordering::Relaxed)), "it was not told");
            counted.fetch_add(1, Ordering::SeqCst);
            Err(SiteError::Interrupted)
        };
        let played = Played::new(|_| Answer::Values(vec![1.0])).lasting(&[LONG, LONG]).starting(starting);
        let there = played.there();
        let trials = trials(&divided(), played);
        let expected = format!("site {} of 2: no memory; add some", failing + 1);
        assert_eq!(trials[0].status, TrialStatus::Failed { reason: expected });
        // The first of two may fail before the second is begun.
        assert!(failing == 0 || given_up.load(Ordering::SeqCst) == trials.len());
        assert_eq!(there.load(Ordering::SeqCst), 0);
    }
}

#[test]
fn a_user_who_interrupts_waits_for_no_site() {
    let interrupt = AtomicBool::new(false);
    let begun = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&begun);
    let starting = move |_, flag: &AtomicBool| {
        counted.fetch_add(1, Ordering::SeqCst);
        assert!(soon(|| flag.load(Ordering::Relaxed)), "it was not told");
        Err(SiteError::Interrupted)
    };
    let sites = Played::new(|_| Answer::Values(vec![1.0])).lasting(&[LONG, LONG]).starting(starting);
    let native = Played::new(|_| Answer::Values(vec![1.0]));
    let mut memory = Memory::default();
    thread::scope(|scope| {
        scope.spawn(|| interrupt.fetch_or(soon(|| begun.load(Ordering::SeqCst) == 2), Ordering::SeqCst));
        let (ending, _) = conduct(&divided(), vec![("native", native), ("container", sites)], &mut memory, &interrupt);
        assert_eq!(ending, Ok(Ending::Interrupted));
    });
    assert!(memory.trials.iter().all(|trial| trial.cell == 0), "what was interrupted is not a trial");
}
