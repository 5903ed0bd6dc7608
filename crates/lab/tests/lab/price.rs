//! What precision is said to cost, from runs whose noise is known.

use crate::played::{Answer, Memory, Played, conduct, plan, run, with_control};
use baremark_lab::analysis::Run;
use baremark_lab::price::{Source, by_pilot, price};
use baremark_model::plan::{Contrast, Mode, Pair, Plan};
use baremark_model::units::{Nanos, Share};
use baremark_stats::Rng;
use std::sync::atomic::AtomicBool;

static NEVER: AtomicBool = AtomicBool::new(false);

/// A run of `plan` whose log ratios have this spread from block to block.
fn noisy(id: &str, plan: &Plan, sd: f64) -> Run {
    let mut rng = Rng::new(5);
    let mut memory = Memory::default();
    let script = Played::new(move |_| Answer::Values(vec![1.0, (sd * rng.normal()).exp()]));
    conduct(plan, vec![("native", script)], &mut memory, &NEVER).0.unwrap();
    memory.trials.iter_mut().for_each(|trial| trial.elapsed_ns = 203_000_000);
    Run { id: id.to_owned(), ..run(plan, &memory) }
}

fn self_check(of: &Plan) -> Plan {
    let pair =
        |arm| Pair { numerator: arm, denominator: arm, contrast: Contrast::SelfCheck, interleaved: true, asked: true };
    let mode = Mode { quick: false, self_check: true };
    let mut check = of.clone();
    (check.pairs, check.mode) = (vec![pair(0)], mode);
    check
}

fn other_work(of: &Plan) -> Plan {
    let mut other = of.clone();
    other.arms.iter_mut().for_each(|arm| arm.arm.ranks = 7);
    other
}

#[test]
fn the_price_follows_from_the_noise() {
    let plan = plan("microvm");
    let found = price(&plan, &[noisy("check", &self_check(&plan), 0.02)]).unwrap();
    assert_eq!((found.source, found.run.as_str()), (Source::SelfCheck, "check"));
    assert!((0.012..0.03).contains(&found.noise), "{found:?}");
    let requested = *found.requested().unwrap();
    let blocks = requested.blocks.unwrap();
    assert!((13..=60).contains(&blocks), "about 24 blocks and their confirmation: {found:?}");
    assert_eq!(requested.seconds, Some(f64::from(blocks) * found.seconds_per_block));
    assert!(requested.seconds_low < requested.seconds && requested.seconds < requested.seconds_high, "{found:?}");
    let times: Vec<Option<f64>> = found.levels.iter().map(|level| level.seconds).collect();
    assert!(times.is_sorted() && times.len() >= 5, "narrower takes longer: {times:?}");
    // Four phases of 50 ms, and what a trial took besides.
    assert!((found.seconds_per_block - 0.203).abs() < 1e-9, "{found:?}");
    let minute = found.in_a_minute.unwrap();
    assert!((0.0013..0.0045).contains(&minute), "about 300 blocks: {found:?}");
    let mut dear = plan.clone();
    (dear.design.precision, dear.design.budget) = (Share(0.000_001), Nanos(3_000_000_000));
    let dear = price(&dear, &[noisy("check", &self_check(&plan), 0.02)]).unwrap();
    assert_eq!(dear.requested().unwrap().blocks, None, "twenty thousand blocks would not do");
    assert!(dear.in_the_budget.unwrap() > minute);
}

/// Blocks of the plan's own cells last as long as the pilot's did, whatever the design says of phases.
#[test]
fn a_pilot_is_taken_for_what_it_found() {
    let plan = plan("microvm");
    let mut pilot = noisy("pilot", &plan, 0.02);
    pilot.trials.iter_mut().for_each(|trial| trial.elapsed_ns = 3_000_000_000);
    let found = by_pilot(&plan, &pilot).unwrap();
    assert_eq!((found.source, found.seconds_per_block), (Source::Pilot, 3.0));
    let level = found.requested().unwrap();
    assert_eq!(level.seconds, level.blocks.map(|blocks| 3.0 * f64::from(blocks)));
}

/// Where the budget of a pilot is short, comparisons that take least have their blocks first: the time to a precision was that of these, though it needs all.
#[test]
fn a_comparison_that_had_too_few_blocks_is_not_priced_by_the_others() {
    let plan = with_control(&plan("microvm"));
    let mut pilot = noisy("pilot", &plan, 0.02);
    assert!(by_pilot(&plan, &pilot).is_some());
    pilot.trials.retain(|trial| trial.cell == 0 || trial.block < 2);
    assert_eq!(by_pilot(&plan, &pilot), None);
    assert_eq!(price(&plan, &[pilot]), None);
}

#[test]
fn a_self_check_of_the_same_arms_is_trusted_before_anything_else() {
    let plan = plan("microvm");
    let all = [
        noisy("other pairs", &other_work(&plan), 0.04),
        noisy("other check", &self_check(&other_work(&plan)), 0.03),
        noisy("ordinary", &plan, 0.02),
        noisy("check", &self_check(&plan), 0.01),
    ];
    let order = [Source::OtherPairs, Source::OtherSelfCheck, Source::SamePairs, Source::SelfCheck];
    for (count, source) in (1..).zip(order) {
        let found = price(&plan, &all[..count]).unwrap();
        assert_eq!((found.source, &found.run), (source, &all[count - 1].id));
    }
}

#[test]
fn without_runs_or_ratios_there_is_no_price() {
    let plan = plan("microvm");
    assert_eq!(price(&plan, &[]), None);
    assert_eq!(price(&plan, &[run(&plan, &Memory::default())]), None, "a run without trials tells nothing");
    let mut alone = plan.clone();
    alone.pairs.clear();
    assert_eq!(price(&alone, &[noisy("check", &self_check(&plan), 0.02)]), None);
}
