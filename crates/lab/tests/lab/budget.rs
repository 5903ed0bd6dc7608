//! Which comparisons have the time where the budget does not suffice for the smallest study of all.

use crate::played::{Answer, Memory, Played, conduct, plan, with_control};
use baremark_lab::conduct::Ending;
use baremark_lab::schedule;
use baremark_model::plan::{Cell, Plan};
use baremark_model::units::Nanos;
use std::sync::atomic::AtomicBool;

static NEVER: AtomicBool = AtomicBool::new(false);
const SECOND: u64 = 1_000_000_000;

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
    let mut memory = Memory::default();
    let mut first = plan.clone();
    (first.design.least_blocks, first.design.most_blocks) = (4, 4);
    first.design.budget = Nanos(u64::MAX / 4);
    conduct(&first, environments(), &mut memory, &NEVER).0.unwrap();
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

fn environments() -> Vec<(&'static str, Played)> {
    let played = || Played::new(|spec| Answer::Values(vec![1.0; spec.arms.len()]));
    vec![("native", played()), ("container", played())]
}

/// Cells of the trials that follow.
fn continued(plan: &Plan, mut memory: Memory) -> Vec<usize> {
    let before = memory.trials.len();
    let ending = conduct(plan, environments(), &mut memory, &NEVER).0;
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
    // Neither has its blocks.
    assert_eq!(after_a_first_block(&plan, &[28, 10])[..6], [1, 1, 1, 0, 0, 0]);
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
