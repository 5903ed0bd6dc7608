//! What of a study fits its budget, and what has the time where not all of it does.

use crate::schedule;
use crate::spend::{self, TrialTime};
use baremark_model::plan::Plan;
use baremark_model::units::Nanos;
use std::ops::Range;
use std::time::Duration;

/// What a budget is short of, where the first block and others that last as long as `later` do not make the smallest study in it: said when that is known,
/// and not when the budget is spent.
pub(super) fn short_of(
    budget: Nanos,
    least: u64,
    [first, later]: [Duration; 2],
    is_one_comparison: bool,
) -> Option<String> {
    let (budget_s, first_s, later_s) = (budget.seconds(), first.as_secs_f64(), later.as_secs_f64().max(1e-9));
    let fit = (1.0 + ((budget_s - first_s) / later_s).floor()).max(1.0);
    let needed_s = (first_s + least.saturating_sub(1) as f64 * later_s).ceil();
    let others =
        if first == later { String::new() } else { format!(", and each further one takes about {later_s:.0} s") };
    let first_served = if is_one_comparison { "" } else { "comparisons that take least have theirs first; " };
    (fit < least as f64).then(|| {
        format!(
            "the first block took {first_s:.0} s{others}: {fit:.0} of the {least} blocks that an interval needs fit the budget of {budget}; \
             {first_served}interrupt, and give it {needed_s:.0} s or more (budget in [design], or --budget)"
        )
    })
}

/// The trials that come next after the first block, of which block and cell are given, where what is `left` of the budget does not suffice for the smallest study
/// of all comparisons, and whether this is asked once more when they are there.
///
/// Those whose trials take least of it have all their blocks first: most comparisons are answered so, in place of none. Of the others a first trial may have
/// taken long for what later ones need not do: where their phases alone would fit, one block shows what they take. What still cannot have its blocks leaves what it
/// would take to those that can. Cells that one ratio needs stay together, in the order of each block. `lacks` says which trials are missing.
pub(super) fn shortest_first(
    plan: &Plan,
    times: &[TrialTime],
    left: Duration,
    lacks: impl Fn(u64, usize) -> bool,
) -> (Vec<(u64, usize)>, bool) {
    let design = &plan.design;
    let smallest = design.least_blocks.min(design.most_blocks);
    let mut groups = spend::connected(plan);
    groups.sort_by_key(|cells| cells.iter().map(|&cell| times[cell].expected).sum::<Duration>());
    let of = |cells: &[usize], blocks: Range<u64>| -> Vec<(u64, usize)> {
        let all = in_blocks(plan, blocks).into_iter();
        all.filter(|&(block, cell)| cells.contains(&cell) && lacks(block, cell)).collect()
    };
    let take = |trials: &[(u64, usize)], time: &dyn Fn(&TrialTime) -> Duration| -> Duration {
        trials.iter().map(|&(_, cell)| time(&times[cell])).sum()
    };
    let mut needed = Duration::ZERO;
    let fits = |cells: &&Vec<usize>| {
        needed += take(&of(cells, 1..smallest), &|time| time.expected);
        needed <= left
    };
    let (within, beyond) = groups.split_at(groups.iter().take_while(fits).count());
    let least = |groups: &[Vec<usize>]| groups.iter().flat_map(|cells| of(cells, 1..smallest)).collect::<Vec<_>>();
    let due = least(within);
    if !due.is_empty() || beyond.is_empty() {
        return (due, !beyond.is_empty());
    }
    let unknown = beyond.iter().map(|cells| (of(cells, 1..2), of(cells, 1..smallest))).find(|(one, all)| {
        let is_new = one.iter().all(|&(_, cell)| !times[cell].is_repeated);
        let fits = take(one, &|time| time.expected) <= left && take(all, &|time| time.phases) <= left;
        is_new && fits && !one.is_empty()
    });
    match unknown {
        Some((one, _)) => (one, true),
        None => ([of(&within.concat(), smallest..design.most_blocks), least(beyond)].concat(), false),
    }
}

/// The trials of these blocks, each block's in its own order.
pub(super) fn in_blocks(plan: &Plan, blocks: Range<u64>) -> Vec<(u64, usize)> {
    blocks.flat_map(|block| schedule::order(plan, block).into_iter().map(move |cell| (block, cell))).collect()
}

/// The mean time of trials, of which block and nanoseconds are given: of those of later blocks where these have as many as the first, which may have other
/// quads. Fewer may be of quick cells alone.
pub(super) fn usual(trials: impl Iterator<Item = (u64, u64)> + Clone) -> Duration {
    let later = trials.clone().filter(|(block, _)| *block > 0).count();
    let alone = later > 0 && 2 * later >= trials.clone().count();
    let alike = trials.filter(|(block, _)| !alone || *block > 0);
    let (count, ns) = alike.fold((0_u64, 0_u64), |(count, sum), (_, ns)| (count + 1, sum.saturating_add(ns)));
    Duration::from_nanos(ns / count.max(1))
}

/// How many blocks fit into a budget of which so much is spent on `blocks`, `first_s` of it on the first.
pub(super) fn fitting(budget_s: f64, blocks: u32, (spent_s, first_s): (f64, f64)) -> u32 {
    let fit = if blocks > 1 && spent_s > first_s {
        1.0 + f64::from(blocks - 1) * (budget_s - first_s) / (spent_s - first_s)
    } else {
        f64::from(blocks) * budget_s / spent_s
    };
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "saturates, and a negative one is none"
    )]
    let fit = fit as u32;
    fit.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// After a long first block further ones are planned at their own time.
    #[test]
    fn a_long_first_block_is_not_taken_for_the_time_of_the_others() {
        let seconds = |all: &[(u64, u64)]| usual(all.iter().map(|&(block, s)| (block, s * 1_000_000_000))).as_secs();
        assert_eq!((seconds(&[]), seconds(&[(0, 30), (0, 20)])), (0, 25));
        assert_eq!(seconds(&[(0, 30), (1, 9), (2, 9)]), 9);
        assert_eq!(seconds(&[(0, 1), (0, 100), (1, 1)]), 34, "one cell of a later block is not the others");
        // Of 60 s after 30 and 9: at 9 s each three more, with the first four.
        assert_eq!(fitting(60.0, 2, (39.0, 30.0)), 4);
        assert_eq!((fitting(60.0, 1, (25.0, 25.0)), fitting(60.0, 3, (30.0, 10.0))), (2, 6));
        assert_eq!(fitting(5.0, 2, (12.0, 8.0)), 1, "what has passed the budget");
    }

    /// A study of 6 blocks of 48 s with a budget of 100 s said so after 96 s.
    #[test]
    fn a_budget_below_the_smallest_study_is_known_after_its_first_block() {
        let budget = Nanos(100_000_000_000);
        let of = |least, block_s| short_of(budget, least, [Duration::from_secs(block_s); 2], true);
        let said = of(6, 48).expect("two of six fit");
        assert!(said.starts_with("the first block took 48 s: 2 of the 6 blocks that an interval needs fit "), "{said}");
        assert!(said.contains("; interrupt, and give it 288 s or more") && !said.contains("comparisons"), "{said}");
        assert_eq!((of(6, 16), of(1, 300)), (None, None));
        // Blocks of fewer quads than the first.
        let after = |later_s| short_of(budget, 6, [48, later_s].map(Duration::from_secs), false);
        assert_eq!(after(10), None);
        let said = after(20).expect("three of six fit");
        assert!(said.contains(" 48 s, and each further one takes about 20 s: 3 of the 6 blocks "), "{said}");
        assert!(
            said.contains("; comparisons that take least have theirs first; interrupt, and give it 148 s or more"),
            "{said}"
        );
    }
}
