//! An agent of this machine that holds the frames of much memory stays until another trial needs as much.

use crate::played::{Answer, Memory, Played, conduct, plan, with_control};
use baremark_model::wire::MUCH_BYTES;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

static NEVER: AtomicBool = AtomicBool::new(false);

/// How many agents were there in each trial of random access, whose two arms have so much memory each, and of fma, which has none; from the second block on.
fn agents(bytes: u64) -> [Vec<usize>; 2] {
    let mut plan = with_control(&plan("microvm"));
    (plan.design.least_blocks, plan.design.most_blocks) = (5, 5);
    let (seen, there) = (Arc::new(Mutex::new(Vec::new())), Arc::new(OnceLock::<Arc<AtomicUsize>>::new()));
    let (notes, counter) = (Arc::clone(&seen), Arc::clone(&there));
    let played = Played::new(move |spec| {
        let much = spec.workload == "random-access";
        notes.lock().unwrap().push((much, counter.get().unwrap().load(Ordering::SeqCst)));
        Answer::In(if much { bytes } else { 0 }, vec![1.0, 0.9])
    });
    there.set(played.there()).unwrap();
    conduct(&plan, vec![("native", played)], &mut Memory::default(), &NEVER).0.unwrap();
    assert_eq!(there.get().unwrap().load(Ordering::SeqCst), 0, "none is left when the run ends");
    let seen = seen.lock().unwrap();
    [true, false].map(|much| seen.iter().skip(2).filter(|trial| trial.0 == much).map(|trial| trial.1).collect())
}

#[test]
fn frames_of_much_memory_are_held_until_a_trial_needs_as_much() {
    assert_eq!(agents(MUCH_BYTES / 2), [vec![1; 4], vec![2; 4]]);
    assert_eq!(agents(MUCH_BYTES / 2 - 1), [vec![1; 4], vec![1; 4]], "little is not held");
}
