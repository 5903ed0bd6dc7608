//! Quads from the second block on follow from the first, and stay.

use crate::conduct::WORKLOAD;
use crate::played::{Answer, Memory, Played, conduct, plan, run};
use baremark_lab::analysis::document;
use baremark_lab::schedule::{quads_of, trial, trial_of};
use baremark_model::event::TrialStatus;
use baremark_model::plan::Plan;
use baremark_model::units::{Nanos, Share};
use baremark_model::wire::TrialSpec;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

static NEVER: AtomicBool = AtomicBool::new(false);
/// A quad of four of them takes 0.2 s, so that a trial may have 5 to 20. Together they are longer than any start of a played agent: a trial costs its phases alone.
const PHASE_NS: u64 = 50_000_000;
/// Standard deviation of a quad's log ratio with which the precision of 1 % is reached in eight blocks of more than 5 quads and fewer than 20.
const NOISE: f64 = 0.04;

/// 20 quads in the first block; 8 blocks at most.
fn by_variance() -> Plan {
    let mut plan = plan("microvm");
    plan.quads_by_variance = true;
    (plan.design.quads, plan.design.least_blocks, plan.design.most_blocks) = (20, 4, 8);
    plan.design.budget = Nanos(u64::MAX / 4);
    plan
}

fn varies(sd: f64) -> Played {
    Played::new(move |_| Answer::Varying(vec![1.0, 0.9], PHASE_NS, sd))
}

fn quads(memory: &Memory) -> Vec<u64> {
    memory.trials.iter().map(|trial| quads_of(&trial.spec)).collect()
}

#[test]
fn the_first_block_decides_the_quads_of_all_others() {
    let (plan, mut memory) = (by_variance(), Memory::default());
    conduct(&plan, vec![("native", varies(NOISE))], &mut memory, &NEVER).0.unwrap();
    let chosen = quads(&memory)[1];
    assert!((6..20).contains(&chosen) && memory.trials.len() > 4, "{:?}", quads(&memory));
    assert_eq!(quads(&memory), [&[20][..], &vec![chosen; memory.trials.len() - 1]].concat());
    for (noise, wanted) in [(0.0002, 5), (0.5, 20)] {
        let mut memory = Memory::default();
        conduct(&plan, vec![("native", varies(noise))], &mut memory, &NEVER).0.unwrap();
        assert_eq!(quads(&memory)[1], wanted, "the fewest of the quietest, the most of the noisiest: {noise}");
    }
    assert!(memory.trials.iter().all(|trial| trial.status == TrialStatus::Ok), "{:?}", memory.trials);
    for trial in &memory.trials[1..] {
        let asked = TrialSpec { reps: None, reps_near: None, overwritable: Vec::new(), ..trial.spec.clone() };
        assert_eq!(asked, trial_of(&plan, trial.block, 0, Some(chosen)));
    }
    let document = document(&run(&plan, &memory), &[&WORKLOAD]);
    assert_eq!(document.ratios[0].blocks, memory.trials.len(), "a block is a block, whatever quads it has");
}

#[test]
fn a_study_that_sets_its_quads_keeps_them() {
    let (mut plan, mut memory) = (by_variance(), Memory::default());
    plan.quads_by_variance = false;
    conduct(&plan, vec![("native", varies(NOISE))], &mut memory, &NEVER).0.unwrap();
    assert!(memory.trials.len() > 1 && quads(&memory).iter().all(|quads| *quads == 20), "{:?}", quads(&memory));
}

/// Trials without times say nothing of costs.
#[test]
fn quads_stay_where_the_first_block_does_not_say_what_they_cost() {
    let (plan, mut memory) = (by_variance(), Memory::default());
    let played = Played::new(|_| Answer::Values(vec![1.0, 0.9]));
    conduct(&plan, vec![("native", played)], &mut memory, &NEVER).0.unwrap();
    assert_eq!(quads(&memory)[..2], [20; 2]);
    let void = Arc::new(AtomicU64::new(0));
    let mut memory = Memory::default();
    let first = Played::new(move |_| match void.fetch_add(1, Ordering::SeqCst) {
        0 => Answer::Void("disturbed"),
        _ => Answer::Varying(vec![1.0, 0.9], PHASE_NS, NOISE),
    });
    conduct(&plan, vec![("native", first)], &mut memory, &NEVER).0.unwrap();
    assert!(quads(&memory).iter().all(|quads| *quads == 20), "{:?}", quads(&memory));
}

/// Stopped after each trial, and given another budget: the quads are those that the first block decided.
#[test]
fn a_run_that_is_resumed_or_extended_keeps_its_quads() {
    let plan = by_variance();
    let mut whole = Memory::default();
    conduct(&plan, vec![("native", varies(NOISE))], &mut whole, &NEVER).0.unwrap();
    let mut parts = Memory::default();
    for stop_after in [2, 3, 5, u64::MAX] {
        let interrupt = Arc::new(AtomicBool::new(false));
        let (flag, count) = (Arc::clone(&interrupt), AtomicU64::new(0));
        let played = Played::new(move |_| {
            if count.fetch_add(1, Ordering::SeqCst) + 1 >= stop_after {
                flag.store(true, Ordering::SeqCst);
            }
            Answer::Varying(vec![1.0, 0.9], PHASE_NS, NOISE)
        });
        conduct(&plan, vec![("native", played)], &mut parts, &interrupt).0.unwrap();
    }
    let specs = |memory: &Memory| memory.trials.iter().map(|trial| trial.spec.clone()).collect::<Vec<_>>();
    assert_eq!(specs(&parts), specs(&whole));
    // As if it had decided otherwise then: what its trials have counts, not what would be decided now.
    let decided = 7 + u64::from(quads(&whole)[1] == 7);
    for trial in &mut whole.trials[1..] {
        trial.spec = trial_of(&plan, trial.block, 0, Some(decided));
    }
    let before = whole.trials.len();
    let mut more = plan.clone();
    more.extensions = vec![whole.looks.len()];
    (more.design.most_blocks, more.design.budget) = (12, Nanos(u64::MAX / 2));
    more.design.precision = Share(0.001);
    conduct(&more, vec![("native", varies(NOISE))], &mut whole, &NEVER).0.unwrap();
    let quads = quads(&whole);
    assert!(whole.trials.len() > before && quads[1..].iter().all(|quads| *quads == decided), "{quads:?}");
}

/// A trial may be measured for as long as it takes to start, where that is more than 4 s.
#[test]
fn what_is_long_to_start_is_measured_for_as_long() {
    let (plan, mut memory) = (by_variance(), Memory::default());
    let mut first = plan.clone();
    (first.design.least_blocks, first.design.most_blocks) = (1, 1);
    conduct(&first, vec![("native", varies(0.5))], &mut memory, &NEVER).0.unwrap();
    // 20 quads of 0.2 s, and 8 s before them.
    memory.trials[0].elapsed_ns = 80 * PHASE_NS + 8_000_000_000;
    conduct(&plan, vec![("native", varies(0.5))], &mut memory, &NEVER).0.unwrap();
    assert_eq!(quads(&memory)[..3], [20, 40, 40]);
}

/// The time in which a trial begins further quads is that of its own number, not of the design's.
#[test]
fn a_trial_of_other_quads_is_one_of_the_design_but_for_these() {
    let plan = by_variance();
    let (of_design, other) = (trial(&plan, 3, 0), trial_of(&plan, 3, 0, Some(7)));
    assert_eq!((quads_of(&of_design), quads_of(&other), other.most_ns), (20, 7, Some(8_000_000_000)));
    assert_eq!((&of_design.arms, of_design.phase_ns), (&other.arms, other.phase_ns));
    assert_eq!(trial_of(&plan, 3, 0, None), of_design);
}
