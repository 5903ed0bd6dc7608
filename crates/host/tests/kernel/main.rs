//! Features of this machine: probed, set, undone, also after a kill. They take the superuser.
#![allow(clippy::unwrap_used, clippy::print_stderr, clippy::allow_attributes, reason = "a test")]

mod live;
mod machines;

use live::{ALL, Moment, killed_at, root_user};
use std::hash::BuildHasher;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Tests that change this host take turns, where they share a process.
fn turn() -> MutexGuard<'static, ()> {
    static HOST: Mutex<()> = Mutex::new(());
    HOST.lock().unwrap_or_else(PoisonError::into_inner)
}

#[test]
fn each_feature_that_this_machine_has_is_set_and_undone() {
    if root_user() {
        let _turn = turn();
        live::are_set_and_undone();
    }
}

#[test]
fn each_feature_of_this_machine_passes_its_trial() {
    if root_user() {
        let _turn = turn();
        live::pass_their_trials();
    }
}

#[test]
fn what_a_killed_process_has_set_is_undone_by_the_next() {
    if root_user() {
        let _turn = turn();
        killed_at(Moment::Reached(ALL));
    }
}

/// Kills at ten moments, one after each of ten features.
#[test]
#[ignore = "soak"]
fn soak_kills_at_ten_features_and_twenty_random_moments() {
    if !root_user() {
        return;
    }
    let _turn = turn();
    let here = live::features_here();
    for moment in 0..10 {
        killed_at(Moment::Reached(here[moment % here.len()].0));
    }
    // Within a call that sets one, or between its record and its effect.
    let all = killed_at(Moment::Reached(ALL));
    let mut random = std::collections::hash_map::RandomState::new().hash_one(0);
    for _ in 0..20 {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        killed_at(Moment::After(all.mul_f64((random >> 40) as f64 / f64::from(1 << 24))));
    }
}
