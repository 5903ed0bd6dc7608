//! The random orders of a plan.

use crate::played::plan;
use baremark_lab::schedule::{order, trial};

#[test]
fn a_trial_is_the_same_whenever_it_is_asked_for() {
    let plan = plan("microvm");
    assert_eq!(trial(&plan, 3, 0), trial(&plan, 3, 0));
    assert_ne!(trial(&plan, 3, 0).seed, trial(&plan, 4, 0).seed);
    let mut other = plan.clone();
    other.design.seed += 1;
    assert_ne!(trial(&plan, 3, 0).seed, trial(&other, 3, 0).seed);
}

#[test]
fn quads_are_abba_or_baab_about_equally_often() {
    let mut plan = plan("microvm");
    plan.design.quads = 3;
    let mut first = [0, 0];
    for block in 0..200 {
        let spec = trial(&plan, block, 0);
        assert_eq!(spec.schedule.len(), 12);
        for quad in spec.schedule.chunks(4) {
            assert!(quad == [0, 1, 1, 0] || quad == [1, 0, 0, 1], "{quad:?}");
            first[quad[0]] += 1;
        }
    }
    assert!((230..=370).contains(&first[0]), "of 600 quads {first:?} began with either arm");
}

#[test]
fn the_cells_of_a_block_run_in_every_order() {
    let plan = plan("container");
    let orders: Vec<Vec<usize>> = (0..50).map(|block| order(&plan, block)).collect();
    assert!(orders.contains(&vec![0, 1]) && orders.contains(&vec![1, 0]));
    assert_eq!(order(&plan, 9), order(&plan, 9));
}
