//! What makes a trial void: anything that was not as asked.

use baremark_model::arm::{ExecutorKind, ResolvedArm};
use baremark_model::seam::{ExecutorFacts, RunRecord, TickRate, Verification};
use std::collections::BTreeMap;

/// The reason for which one run inside a phase does not count, if there is one.
pub fn of_run(facts: &ExecutorFacts, run: &RunRecord, rate: TickRate) -> Option<String> {
    if !facts.virtual_machine {
        return None;
    }
    let seconds = run.times.iter().map(|time| rate.own(time)).sum();
    baremark_microvm::check_clean(run, facts.ranks, seconds).err().map(|unclean| unclean.to_string())
}

/// Whether the hypervisor mapped `bytes` of memory with the pages that the arm asks for. The program's own pages, small ones, are counted
/// too, so small pages of less than the program's size could be missing unseen; the host's half of a page is inspected in addition.
pub fn of_leaves(arm: &ResolvedArm, bytes: u64, counters: &BTreeMap<String, u64>) -> Option<String> {
    if arm.executor != ExecutorKind::Microvm {
        return None;
    }
    let expected = baremark_microvm::expected_leaves(
        &baremark_microvm::mmu_virtualization().mode,
        arm.page,
        arm.buffer_page(),
        bytes,
    )?;
    let seen = *counters.get(expected.counter)?;
    (seen < expected.at_least).then(|| {
        format!(
            "the hypervisor counts {} = {seen}; for this request it must be {} or more",
            expected.counter, expected.at_least
        )
    })
}

/// The reason for which a wrong result voids a trial.
pub fn of_result(verification: &Verification) -> Option<String> {
    match verification {
        Verification::Passed { .. } => None,
        Verification::Failed { detail } => Some(format!("the result is wrong: {detail}")),
    }
}
