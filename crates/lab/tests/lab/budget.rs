//! Which comparisons have the time where the budget does not suffice for the smallest study of all.

use crate::played::{Answer, Memory, Played, conduct, plan, with_control};
use baremark_lab::conduct::Ending;
use baremark_lab::schedule;
use baremark_model::plan::{Cell, Plan};
use baremark_model::units::Nanos;
use std::sync::atomic::AtomicBool;

static NEVER: AtomicBool = AtomicBool::new(false);
/// What stands for a second: an hour, for trials that are played count with the time that they take.
const SECOND: u64 = 3600 * 1_000_000_000;

/// Two comparisons in four blocks, each in trials of its own cell, or of a cell for each of its arms.
fn two_comparisons(other: &str) -> Plan {
    let mut plan = with_control(&plan(other));
    if !plan.pairs[0].interleaved {
        plan.cells = (0..4).map(Cell::Single).collect();
    }
    (plan.design.least_blocks, plan.design.most_blocks) = (4, 4);
    plan.design.budget = Nanos(60 * SECOND);
    plan
}

/// What a run has of these trials, of which cell and seconds are given, when it was interrupted after the first block or later.
fn interrupted(plan: &Plan, seconds: &[u64], later: &[(usize, u64)]) -> Memory {
    interrupted_with(plan, seconds, later, None)
}

/// As `interrupted`, of trials whose phases last so many nanoseconds each.
fn interrupted_with(plan: &Plan, seconds: &[u64], later: &[(usize, u64)], phase_ns: Option<u64>) -> Memory {
    let mut memory = Memory::default();
    let mut first = plan.clone();
    (first.design.least_blocks, first.design.most_blocks) = (4, 4);
    first.design.budget = Nanos(u64::MAX / 4);
    conduct(&first, environments(phase_ns), &mut memory, &NEVER).0.unwrap();
    memory.looks.clear();
    let mut left = later.to_vec();
    memory.trials.retain_mut(|trial| {
        let of_later = left.iter().position(|(cell, _)| *cell == trial.cell);
        let taken = match trial.block {
            0 => Some(seconds[trial.cell]),
            _ => of_later.map(|place| left.remove(place).1),
        };
        trial.elapsed_ns = taken.unwrap_or(0) * SECOND;
        taken.is_some()
    });
    memory
}

fn environments(phase_ns: Option<u64>) -> Vec<(&'static str, Played)> {
    let played = || {
        Played::new(move |spec| {
            let values = vec![1.0; spec.arms.len()];
            phase_ns.map_or(Answer::Values(values.clone()), |phase_ns| Answer::Varying(values, phase_ns, 0.0))
        })
    };
    vec![("native", played()), ("container", played())]
}

/// Cells of the trials that follow.
fn continued(plan: &Plan, mut memory: Memory) -> Vec<usize> {
    let before = memory.trials.len();
    let ending = conduct(plan, environments(None), &mut memory, &NEVER).0;
    assert!(matches!(ending, Ok(Ending::Complete(_))), "{ending:?}");
    memory.trials[before..].iter().map(|trial| trial.cell).collect()
}

fn after_a_first_block(plan: &Plan, seconds: &[u64]) -> Vec<usize> {
    continued(plan, interrupted(plan, seconds, &[]))
}

#[test]
fn comparisons_that_take_least_have_their_blocks_first_where_not_all_fit_the_budget() {
    let mut plan = two_comparisons("microvm");
    assert_eq!(after_a_first_block(&plan, &[50, 1]), [1, 1, 1, 0, 0, 0]);
    assert_eq!(after_a_first_block(&plan, &[1, 50]), [0, 0, 0, 1, 1, 1]);
    let in_blocks: Vec<usize> = (1..4).flat_map(|block| schedule::order(&plan, block)).collect();
    assert_eq!(after_a_first_block(&plan, &[5, 1]), in_blocks, "four blocks of 6 s fit");
    // What the other cannot have.
    plan.design.most_blocks = 6;
    assert_eq!(after_a_first_block(&plan, &[50, 1])[..8], [1, 1, 1, 1, 1, 0, 0, 0]);
    // Neither would have its blocks by what the first took; later ones of the one that takes less show that it has.
    assert_eq!(after_a_first_block(&plan, &[28, 10])[..6], [1, 1, 1, 1, 1, 0]);
}

/// A first trial looks for its repetitions, checks its whole result and may start a site: what others take is seen from one of them, where the phases, which all have, fit.
#[test]
fn a_comparison_is_not_given_up_for_what_its_first_trial_alone_took() {
    let mut plan = two_comparisons("microvm");
    plan.design.most_blocks = 6;
    let phases = schedule::trial(&plan, 0, 0).schedule.len() as u64;
    let next = |measured_s: u64| {
        let memory = interrupted_with(&plan, &[20, 1], &[], Some(measured_s * SECOND / phases));
        continued(&plan, memory)[..6].to_vec()
    };
    // Of 39 s that are left; three of 20 s would not fit.
    assert_eq!(next(12), [1, 1, 1, 0, 0, 0]);
    assert_eq!(next(14), [1, 1, 1, 1, 1, 0], "its phases alone take 42 s");
    // What it showed counts: this one takes 15 s again and again.
    let memory = interrupted_with(&plan, &[20, 1], &[(0, 15)], Some(SECOND));
    assert_eq!(continued(&plan, memory)[..5], [1, 1, 1, 1, 1]);
    let memory = interrupted_with(&plan, &[20, 1], &[(0, 10)], Some(SECOND));
    let mut blocks = (1..4).flat_map(|block| schedule::order(&plan, block)).collect::<Vec<_>>();
    blocks.remove(blocks.iter().position(|&cell| cell == 0).unwrap());
    assert_eq!(continued(&plan, memory)[..5], blocks, "of 10 s each all fit");
}

/// What it has is not needed again.
#[test]
fn a_run_that_is_resumed_gives_the_time_to_the_same_comparisons() {
    let mut plan = two_comparisons("microvm");
    plan.design.most_blocks = 6;
    let memory = interrupted(&plan, &[50, 2], &[(1, 2), (1, 2), (1, 2)]);
    assert_eq!(continued(&plan, memory)[..3], [1, 1, 0]);
}

/// A ratio of two cells needs both of a block.
#[test]
fn cells_of_one_ratio_stay_together() {
    let plan = two_comparisons("container");
    for (seconds, first, second) in [([20, 20, 1, 5], [2, 3], [0, 1]), ([1, 5, 20, 20], [0, 1], [2, 3])] {
        let of = |group: [usize; 2], block: u64| {
            schedule::order(&plan, block).into_iter().filter(move |cell| group.contains(cell))
        };
        let wanted: Vec<usize> =
            [first, second].iter().flat_map(|group| (1..4).flat_map(move |block| of(*group, block))).collect();
        assert_eq!(after_a_first_block(&plan, &seconds), wanted);
    }
}
