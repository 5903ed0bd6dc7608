//! How a run continues, ends, and is judged.

use crate::played::{Answer, Memory, OVERWRITABLE, Played, conduct, plan, run, with_control};
use baremark_lab::analysis::document;
use baremark_lab::conduct::Ending;
use baremark_lab::gates;
use baremark_model::arm::{ExecutorKind, ResolvedArm};
use baremark_model::comparison::Answer as GateAnswer;
use baremark_model::descriptor::Descriptor;
use baremark_model::document::{Outcome, Size};
use baremark_model::event::{Event, TrialStatus};
use baremark_model::knob::InvalidValue;
use baremark_model::metric::{Aggregate, Better, Metric};
use baremark_model::page_size::PageSize;
use baremark_model::plan::{Cell, Pair, Plan};
use baremark_model::units::{Nanos, Share};
use baremark_model::wire::{DiscardedQuad, Disturbance, MemberRecord, PhaseDisturbance};
use baremark_stats::Rng;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

pub static WORKLOAD: Descriptor = Descriptor {
    kind: "random-access",
    help: "played",
    source: "this test",
    parameters: &[],
    metrics: &[Metric { key: "gups", unit: "GUP/s", better: Better::Higher, together: Aggregate::Sum, help: "played" }],
    executors: &[ExecutorKind::Direct, ExecutorKind::Microvm],
    short_phases: true,
    alternates: |_| true,
    check: sound,
    ..Descriptor::JOB
};

fn sound(_: &ResolvedArm) -> Result<(), InvalidValue> {
    Ok(())
}

/// Agents that keep `ratio` of native, with noise of `sd` in each trial.
fn keeps(ratio: f64, sd: f64) -> Played {
    let mut rng = Rng::new(11);
    Played::new(move |_| Answer::Values(vec![1.0, ratio * (sd * rng.normal()).exp()]))
}

static NEVER: AtomicBool = AtomicBool::new(false);

#[test]
fn a_run_ends_when_the_precision_is_reached_and_confirmed() {
    let (plan, mut memory) = (plan("microvm"), Memory::default());
    let (ending, events) = conduct(&plan, vec![("native", keeps(0.9, 0.005))], &mut memory, &NEVER);
    assert_eq!(ending, Ok(Ending::Complete("precision of 1 % reached and confirmed".to_owned())));
    let analyses: Vec<u64> = memory.looks.iter().map(|look| look.blocks).collect();
    assert_eq!(analyses, [10, 14], "met at the first analysis of 10 blocks, confirmed by a third more");
    assert_eq!(memory.trials.len(), 14);
    assert!(matches!(events.last(), Some(Event::Stopped { blocks: 14, .. })), "{events:?}");
    let document = document(&run(&plan, &memory), &[&WORKLOAD]);
    let ratio = &document.ratios[0];
    assert_eq!((ratio.outcome, ratio.words.as_str()), (Outcome::SlowerByMore, ratio.words.as_str()));
    assert!(ratio.words.starts_with("slower by ") && ratio.size == Size::Percent, "{ratio:?}");
    let (lo, hi) = (ratio.lo.unwrap(), ratio.hi.unwrap());
    assert!(lo < 0.9 && 0.9 < hi && hi - lo < 0.02, "{ratio:?}");
}

/// The budget is what the first trial takes, so that nothing of this is a matter of time.
#[test]
fn a_budget_for_one_block_is_said_after_it() {
    let (mut plan, mut memory) = (plan("microvm"), Memory::default());
    plan.design.budget = Nanos(1);
    let (_, events) = conduct(&plan, vec![("native", keeps(0.9, 0.005))], &mut memory, &NEVER);
    let ended = events.iter().position(|event| matches!(event, Event::TrialEnded { .. })).unwrap();
    let Some(Event::Warning { text }) = events.get(ended + 1) else { panic!("{events:?}") };
    assert!(text.contains("1 of the 10 blocks that an interval needs fit the budget"), "{text}");
    assert_eq!(memory.trials.len(), 1);
}

#[test]
fn a_cell_begins_with_the_repetitions_of_the_same_work_in_another_and_keeps_its_own() {
    let (plan, mut memory) = (plan("container"), Memory::default());
    let asked = Arc::new(Mutex::new(Vec::new()));
    let tells = || {
        let asked = Arc::clone(&asked);
        Played::new(move |spec| {
            asked.lock().unwrap().push((spec.reps, spec.reps_near));
            Answer::Values(vec![1.0])
        })
    };
    conduct(&plan, vec![("native", tells()), ("container", tells())], &mut memory, &NEVER).0.unwrap();
    let asked = asked.lock().unwrap();
    assert_eq!(asked[..4], [(None, None), (None, Some(1)), (Some(1), None), (Some(1), None)]);
    assert!(asked[4..].iter().all(|asked| *asked == (Some(1), None)), "{asked:?}");
}

#[test]
fn work_with_another_page_says_nothing_of_repetitions() {
    let mut plan = plan("container");
    plan.arms[1].arm.page = PageSize::Large;
    plan.arms[0].arm.page = PageSize::Small;
    let mut memory = Memory::default();
    let played = || Played::new(|_| Answer::Values(vec![1.0]));
    conduct(&plan, vec![("native", played()), ("container", played())], &mut memory, &NEVER).0.unwrap();
    assert!(memory.trials.iter().all(|trial| trial.spec.reps_near.is_none()), "{:?}", memory.trials[1].spec);
}

#[test]
fn noise_that_never_settles_ends_at_the_most_blocks_with_a_bound() {
    let (plan, mut memory) = (plan("microvm"), Memory::default());
    let (ending, _) = conduct(&plan, vec![("native", keeps(1.0, 0.2))], &mut memory, &NEVER);
    assert!(matches!(ending, Ok(Ending::Complete(ref why)) if why.contains("60 blocks")), "{ending:?}");
    assert_eq!(memory.trials.len(), 60);
    let document = document(&run(&plan, &memory), &[&WORKLOAD]);
    let ratio = &document.ratios[0];
    assert_eq!(ratio.outcome, Outcome::NoLarger, "{ratio:?}");
    let largest = (ratio.hi.unwrap() - 1.0).max(1.0 - ratio.lo.unwrap());
    assert!(ratio.words.starts_with("inconclusive: from ") && largest < 0.2, "{ratio:?}");
    assert_eq!((ratio.size, ratio.short.as_str()), (Size::Inconclusive, "inconclusive"));
    assert!(ratio.more_blocks.is_some_and(|more| more > 60), "{ratio:?}");
    assert!(!ratio.independence_assumed, "60 blocks allow for correlation");
}

#[test]
fn an_interrupted_run_goes_on_as_if_nothing_had_happened() {
    let plan = plan("microvm");
    let by_seed = || Played::new(|spec| Answer::Values(vec![1.0, 0.9 + 0.01 * (spec.seed % 97) as f64 / 97.0]));
    let mut whole = Memory::default();
    conduct(&plan, vec![("native", by_seed())], &mut whole, &NEVER).0.unwrap();

    let mut parts = Memory::default();
    let mut ending = Ending::Interrupted;
    for stop_after in [1, 4, 9, 13, u64::MAX] {
        let interrupt = Arc::new(AtomicBool::new(false));
        let (flag, count) = (Arc::clone(&interrupt), AtomicU64::new(0));
        let script = Played::new(move |spec| {
            if count.fetch_add(1, Ordering::SeqCst) + 1 >= stop_after {
                flag.store(true, Ordering::SeqCst);
            }
            Answer::Values(vec![1.0, 0.9 + 0.01 * (spec.seed % 97) as f64 / 97.0])
        });
        ending = conduct(&plan, vec![("native", script)], &mut parts, &interrupt).0.unwrap();
    }
    assert!(matches!(ending, Ending::Complete(_)), "{ending:?}");
    let specs =
        |memory: &Memory| memory.trials.iter().map(|trial| (trial.block, trial.spec.clone())).collect::<Vec<_>>();
    assert_eq!(specs(&parts), specs(&whole), "the same trials in the same order");
    assert_eq!(document(&run(&plan, &parts), &[&WORKLOAD]).ratios, document(&run(&plan, &whole), &[&WORKLOAD]).ratios);
}

#[test]
fn void_and_failed_trials_are_kept_and_do_not_count() {
    let (plan, mut memory) = (plan("microvm"), Memory::default());
    let mut turn = 0;
    let script = Played::new(move |_| {
        turn += 1;
        match turn % 6 {
            1 => Answer::Void("other pages than asked"),
            3 => Answer::Failed("no memory"),
            5 => Answer::Dies,
            _ => Answer::Values(vec![1.0, 0.9]),
        }
    });
    conduct(&plan, vec![("native", script)], &mut memory, &NEVER).0.unwrap();
    let counted = memory.trials.iter().filter(|trial| trial.status == TrialStatus::Ok).count();
    assert_eq!(counted * 2, memory.trials.len() / 2 * 2, "every other trial counts");
    let lost = memory.trials.iter().find_map(|trial| match &trial.status {
        TrialStatus::Failed { reason } if reason.contains("lost") => Some(reason.clone()),
        _ => None,
    });
    assert!(lost.unwrap().contains("the last words of a played agent"));
    let document = document(&run(&plan, &memory), &[&WORKLOAD]);
    assert_eq!(document.ratios[0].blocks, counted);
}

#[test]
fn the_smallest_study_measures_another_block_for_each_that_does_not_count() {
    let (mut plan, mut memory) = (plan("microvm"), Memory::default());
    plan.mode.quick = true;
    plan.design.least_blocks = 6;
    let mut turn = 0;
    let script = Played::new(move |_| {
        turn += 1;
        if [2, 5, 7].contains(&turn) { Answer::Void("a page was moved") } else { Answer::Values(vec![1.0, 0.9]) }
    });
    let (ending, _) = conduct(&plan, vec![("native", script)], &mut memory, &NEVER);
    let words = "all 6 blocks of the smallest study are measured, and 3 more for trials that do not count";
    assert_eq!(ending, Ok(Ending::Complete(words.to_owned())));
    assert_eq!((memory.trials.len(), document(&run(&plan, &memory), &[&WORKLOAD]).ratios[0].blocks), (9, 6));
    // Half of them never count: it ends at twice as many.
    let (mut memory, mut turn) = (Memory::default(), 0);
    let script = Played::new(move |_| {
        turn += 1;
        if turn % 2 == 0 { Answer::Void("a page was moved") } else { Answer::Values(vec![1.0, 0.9]) }
    });
    conduct(&plan, vec![("native", script)], &mut memory, &NEVER).0.unwrap();
    assert_eq!(memory.trials.len(), 11);
}

/// Every other trial was void: after 14 blocks the precision was said to be reached and confirmed, and the answer was "not enough data: 7 of 10 blocks".
#[test]
fn blocks_that_do_not_count_neither_reach_a_precision_nor_confirm_it() {
    let (plan, mut memory) = (plan("microvm"), Memory::default());
    let mut turn = 0;
    let script = Played::new(move |_| {
        turn += 1;
        if turn % 2 == 0 { Answer::Void("a page was moved") } else { Answer::Values(vec![1.0, 0.9]) }
    });
    let (ending, _) = conduct(&plan, vec![("native", script)], &mut memory, &NEVER);
    assert_eq!(ending, Ok(Ending::Complete("precision of 1 % reached and confirmed".to_owned())));
    let analyses: Vec<u64> = memory.looks.iter().map(|look| look.blocks).collect();
    assert_eq!(analyses, [19, 27], "with 10 and 14 that count");
    let document = document(&run(&plan, &memory), &[&WORKLOAD]);
    assert_eq!((document.ratios[0].blocks, document.ratios[0].outcome), (14, Outcome::SlowerByMore));
}

#[test]
fn a_comparison_that_fails_again_and_again_is_given_up() {
    let (plan, mut memory) = (plan("microvm"), Memory::default());
    let script = Played::new(|_| Answer::Void("transparent huge pages are off"));
    let (ending, events) = conduct(&plan, vec![("native", script)], &mut memory, &NEVER);
    assert_eq!(ending, Ok(Ending::Failed("transparent huge pages are off".to_owned())));
    assert_eq!(memory.trials.len(), 3);
    let given_up = "3 trials in a row did not count, and no more are run: transparent huge pages are off";
    let told = |text: &str| text.contains("environment microvm") && text.contains(given_up);
    assert!(events.iter().any(|event| matches!(event, Event::Warning { text } if told(text))), "{events:?}");
}

#[test]
fn a_run_ends_early_when_a_place_never_works_and_nothing_is_left_to_compare() {
    let (plan, mut memory) = (plan("container"), Memory::default());
    let agents = vec![
        ("native", Played::new(|_| Answer::Values(vec![1.0]))),
        ("container", Played::new(|_| Answer::Failed("its loader does not exist"))),
    ];
    let (ending, _) = conduct(&plan, agents, &mut memory, &NEVER);
    let Ok(Ending::NothingToCompare(why)) = ending else { panic!("{ending:?}") };
    assert!(why.contains("its loader does not exist"), "{why}");
    let native = memory.trials.iter().filter(|trial| trial.status == TrialStatus::Ok).count();
    assert!(memory.trials.len() - native == 3 && native <= 3, "{native} of {}", memory.trials.len());
}

#[test]
fn the_consent_to_overwrite_devices_travels_with_the_order_of_every_trial_to_every_place() {
    let (plan, mut memory) = (plan("container"), Memory::default());
    let seen: Arc<Mutex<Vec<Vec<PathBuf>>>> = Arc::default();
    let place = || {
        let seen = Arc::clone(&seen);
        Played::new(move |spec| {
            seen.lock().unwrap().push(spec.overwritable.clone());
            Answer::Values(vec![1.0 + 1e-4 * (spec.seed % 7) as f64])
        })
    };
    conduct(&plan, vec![("native", place()), ("container", place())], &mut memory, &NEVER).0.unwrap();
    let seen = seen.lock().unwrap();
    assert!(
        seen.len() == memory.trials.len() && seen.iter().all(|own| *own == [PathBuf::from(OVERWRITABLE)]),
        "{seen:?}"
    );
    // It is stored with what was run.
    assert!(memory.trials.iter().all(|trial| trial.spec.overwritable == [PathBuf::from(OVERWRITABLE)]));
}

/// As in a plan that an earlier version stored.
#[test]
fn a_feature_of_this_host_is_never_set_for_a_trial_on_another_machine() {
    let (mut plan, mut memory) = (plan("container"), Memory::default());
    plan.arms[1].environment = "ssh".to_owned();
    plan.arms[1].treatment.insert("environment".to_owned(), "ssh".to_owned());
    plan.arms[1].treatment.insert("host.swappiness".to_owned(), "10".to_owned());
    let constant = || Played::new(|_| Answer::Values(vec![1.0]));
    let (ending, _) = conduct(&plan, vec![("native", constant()), ("ssh", constant())], &mut memory, &NEVER);
    let Ok(Ending::NothingToCompare(why)) = ending else { panic!("{ending:?}") };
    assert!(why.contains("host.swappiness is set on this machine, and 'ssh' runs on another"), "{why}");
    let counted = |trial: &&baremark_lab::trials::Finished| trial.counted().is_some();
    let is_native = |trial: &baremark_lab::trials::Finished| plan.environments_of(plan.cells[trial.cell]) == ["native"];
    assert!(memory.trials.iter().filter(counted).all(is_native), "those of this machine alone");
}

#[test]
fn an_agent_of_another_version_is_refused_with_the_remedy() {
    let (plan, mut memory) = (plan("microvm"), Memory::default());
    let (ending, _) = conduct(&plan, vec![("native", Played::foreign())], &mut memory, &NEVER);
    assert!(matches!(ending, Ok(Ending::Failed(ref why)) if why.contains("same version")), "{ending:?}");
}

#[test]
fn a_full_disk_ends_the_run() {
    let plan = plan("microvm");
    let mut memory = Memory { full_after: Some(4), ..Memory::default() };
    let (ending, _) = conduct(&plan, vec![("native", keeps(0.9, 0.01))], &mut memory, &NEVER);
    assert_eq!(ending.unwrap_err().to_string(), "the disk is full");
    assert_eq!(memory.trials.len(), 4);
}

#[test]
fn places_that_share_no_process_are_compared_within_blocks() {
    let plan = plan("container");
    // The machine slows down from block to block; within a block the container keeps nine tenths.
    let slow = |block: u64| 1.0 / (1.0 + 0.1 * block as f64);
    let place = |factor: f64| {
        let mut block = 0;
        Played::new(move |_| {
            block += 1;
            Answer::Values(vec![factor * slow(block) * (1.0 + 0.001 * (block % 3) as f64)])
        })
    };
    let mut memory = Memory::default();
    let agents = vec![("native", place(1.0)), ("container", place(0.9))];
    conduct(&plan, agents, &mut memory, &NEVER).0.unwrap();
    let document = document(&run(&plan, &memory), &[&WORKLOAD]);
    let ratio = &document.ratios[0];
    assert!((ratio.ratio.unwrap() - 0.9).abs() < 0.002, "{ratio:?}");
    assert_eq!(ratio.blocks * 2, memory.trials.len());
}

#[test]
fn an_emulated_machine_never_gives_a_verdict() {
    let mut plan = plan("container");
    plan.arms[1].emulated = true;
    let constant =
        |value: f64| Played::new(move |spec| Answer::Values(vec![value * (1.0 + 1e-4 * (spec.seed % 7) as f64)]));
    let mut memory = Memory::default();
    conduct(&plan, vec![("native", constant(1.0)), ("container", constant(0.1))], &mut memory, &NEVER).0.unwrap();
    let document = document(&run(&plan, &memory), &[&WORKLOAD]);
    assert_eq!(document.ratios[0].outcome, Outcome::Emulated);
    assert!(document.ratios[0].words.contains("emulated"), "{}", document.ratios[0].words);
}

/// Runs a pair and its control, whose virtual arms keep these shares of native and take so many exits a second; the rows of the
/// pair's own workload, as (what, value, hi, advice).
fn with_exits(keeps: f64, exits: u64, control_keeps: f64, control_exits: u64) -> Vec<(String, f64, f64, String)> {
    let (plan, mut memory) = (with_control(&plan("microvm")), Memory::default());
    let mut rng = Rng::new(5);
    let played = Played::new(move |spec| {
        let ratio = if spec.workload == "fma" { control_keeps } else { keeps };
        Answer::Values(vec![1.0, ratio * (0.0005 * rng.normal()).exp()])
    });
    conduct(&plan, vec![("native", played)], &mut memory, &NEVER).0.unwrap();
    for trial in &mut memory.trials {
        let exits = if trial.spec.workload == "fma" { control_exits } else { exits };
        let result = trial.result.as_mut().unwrap();
        result.arms[1].executor.virtual_machine = true;
        result.arms[1].empty_run_ns = 185_000.0;
        for run in result.series.iter_mut().filter(|phase| phase.arm == 1).flat_map(|phase| &mut phase.runs) {
            run.times[0].end_ticks = 1_000_000_000;
            run.audit.counters = [("exits".to_owned(), exits), ("irq_exits".to_owned(), exits)].into();
        }
    }
    let control = Descriptor { kind: "fma", ..WORKLOAD };
    let rows = document(&run(&plan, &memory), &[&WORKLOAD, &control]).explanations;
    let own = rows.into_iter().filter(|row| row.treatment["workload"] == "random-access");
    own.map(|row| (row.what, row.value, row.hi, row.advice)).collect()
}

fn exits_row(rows: &[(String, f64, f64, String)]) -> (f64, f64, &str) {
    let found: Vec<_> = rows.iter().filter(|(what, ..)| what.starts_with("cost of VM exits")).collect();
    let [(_, value, hi, advice)] = found[..] else { panic!("one row: {rows:?}") };
    (*value, *hi, advice)
}

/// As it was found: 335 exits a second, 185 us to start a run, and a control that loses 0.1 %. The product of the first two is
/// 6.2 %, more than sixty times what exits can cost.
#[test]
fn what_exits_cost_is_bounded_by_the_control_and_not_by_what_starting_a_run_costs() {
    let rows = with_exits(0.9, 335, 0.999, 335);
    let (value, hi, advice) = exits_row(&rows);
    assert!((value - 0.1).abs() < 0.03 && hi < 0.2, "{value} to {hi}");
    assert_eq!(advice, "less than the 2 % that matter");
    let start = rows.iter().find(|(what, ..)| what.starts_with("start of a run")).expect("it is still shown");
    assert!((start.1 - 185.0).abs() < 1e-9, "{start:?}");
}

#[test]
fn extra_exits_are_named_after_a_control_that_names_none() {
    let rows = with_exits(0.999, 335, 0.999, 335);
    let (value, hi, advice) = exits_row(&rows);
    assert!(value < 0.2 && hi < 0.2 && advice.starts_with("less than"), "the control: {value} {hi} {advice}");
    // 10 times as many exits: 0.1 % x 10 = 1 % at most.
    let rows = with_exits(0.5, 3_350, 0.999, 335);
    let (value, hi, _) = exits_row(&rows);
    assert!((0.6..1.4).contains(&value) && hi > value && hi < 2.0, "{value} {hi}");
    // 300 times as many: 30 % at most is no bound, for the control's noise is 300 times in it.
    let rows = with_exits(0.5, 100_500, 0.999, 335);
    assert!(rows.iter().all(|(what, ..)| !what.starts_with("cost of VM exits")), "{rows:?}");
    // As many as the control has: whatever the work loses, it is not to exits.
    let rows = with_exits(0.5, 335, 0.999, 335);
    let (_, hi, advice) = exits_row(&rows);
    assert!(hi < 0.2 && advice.starts_with("less than"), "{hi} {advice}");
}

#[test]
fn without_a_control_nothing_is_said_of_what_exits_cost() {
    let (plan, mut memory) = (plan("microvm"), Memory::default());
    conduct(&plan, vec![("native", keeps(0.9, 0.005))], &mut memory, &NEVER).0.unwrap();
    assert!(document(&run(&plan, &memory), &[&WORKLOAD]).explanations.is_empty(), "nothing was counted in a machine");
    for trial in &mut memory.trials {
        let result = trial.result.as_mut().unwrap();
        result.arms[1].executor.virtual_machine = true;
        result.arms[1].empty_run_ns = 90_000.0;
        for half in result.series.iter_mut().filter(|phase| phase.arm == 1).flat_map(|phase| &mut phase.runs) {
            half.times[0].end_ticks = 500_000_000;
            half.audit.counters = [("exits".to_owned(), 300), ("irq_exits".to_owned(), 125)].into();
        }
    }
    let document = document(&run(&plan, &memory), &[&WORKLOAD]);
    let found: Vec<(&str, f64)> = document.explanations.iter().map(|row| (row.unit.as_str(), row.value)).collect();
    assert_eq!(found, [("/s per rank", 600.0), ("/s per rank", 250.0), ("us", 90.0)]);
    assert!(document.explanations.iter().all(|row| row.treatment["environment"] == "microvm"));
}

/// A CPU hog is named by how long ranks waited for it, where the interval says that this matters; after a control without one.
#[test]
fn a_hog_on_the_cpus_is_named_and_a_quiet_machine_names_none() {
    let named = |shares: [f64; 2]| {
        let (plan, mut memory) = (plan("microvm"), Memory::default());
        conduct(&plan, vec![("native", keeps(0.9, 0.005))], &mut memory, &NEVER).0.unwrap();
        for (place, trial) in memory.trials.iter_mut().enumerate() {
            let queued = shares.map(|share| Some(share * (1.0 + 0.01 * (place % 3) as f64))).to_vec();
            trial.result.as_mut().unwrap().disturbance = Some(Disturbance { queued, ..Disturbance::default() });
        }
        let rows = document(&run(&plan, &memory), &[&WORKLOAD]).explanations;
        let told = rows.into_iter().filter(|row| row.what.starts_with("ready to run while others"));
        told.map(|row| (row.treatment["environment"].clone(), row.advice)).collect::<Vec<_>>()
    };
    assert_eq!(named([0.0005, 0.0002]), [], "the control");
    let advice = "other programs use these CPUs: stop them, or give the ranks CPUs of their own";
    assert_eq!(named([0.5, 0.0002]), [("native".to_owned(), advice.to_owned())]);
    assert_eq!(named([0.5, 0.01]), [("native".to_owned(), advice.to_owned()), ("microvm".to_owned(), String::new())]);
}

/// A neighbour that uses memory (CPU time of others, phase by phase) while one arm's phases run halves that arm; after a control in which it
/// runs all the time, for which nothing is to blame it.
#[test]
fn a_slow_memory_neighbour_is_named_where_it_runs_beside_one_arm_alone() {
    let named = |shares: [f64; 2]| {
        let (plan, mut memory) = (plan("microvm"), Memory::default());
        conduct(&plan, vec![("native", keeps(0.5, 0.005))], &mut memory, &NEVER).0.unwrap();
        for (place, trial) in memory.trials.iter_mut().enumerate() {
            let result = trial.result.as_mut().unwrap();
            let of = |arm: usize| Some(shares[arm] * (1.0 + 0.01 * (place % 3) as f64));
            let phase = |arm| PhaseDisturbance { others: of(arm), ..PhaseDisturbance::default() };
            let phases = result.series.iter().map(|series| phase(series.arm)).collect();
            result.disturbance = Some(Disturbance { others: Some(0.3), phases, ..Disturbance::default() });
        }
        let rows = document(&run(&plan, &memory), &[&WORKLOAD]).explanations;
        let own = rows.into_iter().filter(|row| row.what == "CPU use by other programs in timed phases beyond native");
        own.map(|row| (row.treatment["environment"].clone(), row.value.round(), row.advice)).collect::<Vec<_>>()
    };
    assert_eq!(named([0.45, 0.45]), [], "the control: it runs beside both");
    let advice = "other programs disturbed it more: stop them, or repeat the run on a quiet machine";
    assert_eq!(named([0.02, 0.5]), [("microvm".to_owned(), 48.0, advice.to_owned())]);
    assert_eq!(named([0.5, 0.02]), [("microvm".to_owned(), -48.0, String::new())], "it does not explain a loss");
}

#[test]
fn where_the_time_of_trials_went_adds_up_to_their_wall_time() {
    let (plan, mut memory) = (plan("microvm"), Memory::default());
    conduct(&plan, vec![("native", keeps(0.9, 0.005))], &mut memory, &NEVER).0.unwrap();
    assert!(document(&run(&plan, &memory), &[&WORKLOAD]).time.is_empty(), "nothing was recorded");
    for trial in &mut memory.trials {
        trial.elapsed_ns = 1000;
        let result = trial.result.as_mut().unwrap();
        result.elapsed_ns = 900;
        let spent = [("memory", 200), ("phases", 700), ("measured", 600), ("waits", 50)];
        result.spent_ns = spent.map(|(part, ns)| (part.to_owned(), ns)).into();
    }
    let rows = document(&run(&plan, &memory), &[&WORKLOAD]).time;
    let all: Vec<(&str, f64)> =
        rows.iter().filter(|row| row.workload.is_empty()).map(|row| (row.part.as_str(), row.share)).collect();
    assert_eq!(all, [("between phases", 0.1), ("measured", 0.6), ("memory", 0.2), ("start", 0.1)]);
    assert_eq!(rows.len(), 8, "the same of the one workload: {rows:?}");
}

/// A run of trials of six quads, in which the arms have these values.
fn six_quads(values: [f64; 2]) -> (Plan, Memory) {
    let mut plan = plan("microvm");
    plan.design.quads = 6;
    let mut memory = Memory::default();
    let played = Played::new(move |_| Answer::Values(values.to_vec()));
    conduct(&plan, vec![("native", played)], &mut memory, &NEVER).0.unwrap();
    (plan, memory)
}

/// Half of the phases were slow, in quads that did not count, and the values of the arms and of their members were made of them.
#[test]
fn phases_of_quads_that_the_record_discards_are_in_no_value() {
    let (plan, mut memory) = six_quads([2.0, 1.0]);
    let trial = &mut memory.trials[0];
    let result = trial.result.as_mut().unwrap();
    result.series.iter_mut().take(12).for_each(|phase| phase.samples[0].value = 0.1);
    result.discarded = (0..3).map(|quad| DiscardedQuad { quad, why: "its ranks waited".to_owned() }).collect();
    for (arm, expected) in [(0, 2.0), (1, 1.0)] {
        let value = trial.value(arm, "gups").unwrap();
        assert!((value - expected).abs() < 1e-9, "{value} of arm {arm}");
    }
    for phase in memory.trials.iter_mut().flat_map(|trial| &mut trial.result.as_mut().unwrap().series) {
        phase.members = vec![MemberRecord { member: 0, samples: phase.samples.clone() }];
    }
    let row = document(&run(&plan, &memory), &[&WORKLOAD]).trials.remove(0);
    for (arm, expected) in row.arms.iter().zip([2.0, 1.0]) {
        let member = arm.members[0].iter().find(|sample| sample.metric == "gups").unwrap();
        assert!((member.value - expected).abs() < 1e-9, "{member:?}");
    }
}

#[test]
fn quads_that_the_record_discards_are_left_out_whichever_arm_was_disturbed() {
    let (_, mut memory) = six_quads([2.0, 1.0]);
    let trial = &mut memory.trials[0];
    for phase in trial.result.as_mut().unwrap().series.iter_mut().filter(|phase| phase.arm == 1 && phase.phase / 4 == 2)
    {
        phase.samples[0].value = 0.1;
    }
    assert_eq!(trial.quads(0, 1, "gups").len(), 6);
    let why = "its ranks waited".to_owned();
    trial.result.as_mut().unwrap().discarded = vec![DiscardedQuad { quad: 2, why }];
    let quads = trial.quads(0, 1, "gups");
    assert!(quads.len() == 5 && quads.iter().all(|quad| (quad - 0.5_f64.ln()).abs() < 1e-9), "{quads:?}");
}

/// The reference counted nothing in two of six quads and 1 in the others. Those two were left out, so that 4 times as much was found.
#[test]
fn no_quad_is_left_out_for_its_values() {
    let (plan, mut memory) = six_quads([1.0, 4.0]);
    let found = |memory: &Memory| document(&run(&plan, memory), &[&WORKLOAD]).ratios[0].ratio.unwrap();
    assert!((found(&memory) - 4.0).abs() < 1e-9);
    for trial in &mut memory.trials {
        let phases = &mut trial.result.as_mut().unwrap().series;
        for phase in phases.iter_mut().filter(|phase| phase.arm == 0 && phase.phase / 4 < 2) {
            phase.samples[0].value = 0.0;
        }
    }
    assert!(memory.trials[0].quads(0, 1, "gups").is_empty());
    // The trimmed mean of four zeros and eight ones is 0.75.
    assert!((found(&memory) - 4.0 / 0.75).abs() < 1e-9, "{}", found(&memory));
}

#[test]
fn the_control_of_the_same_blocks_says_what_computing_alone_loses() {
    let (plan, mut memory) = (with_control(&plan("microvm")), Memory::default());
    let mut rng = Rng::new(5);
    let played = Played::new(move |spec| {
        let ratio = if spec.workload == "fma" { 0.99 } else { 0.9 };
        Answer::Values(vec![1.0, ratio * (0.002 * rng.normal()).exp()])
    });
    conduct(&plan, vec![("native", played)], &mut memory, &NEVER).0.unwrap();
    let control = Descriptor { kind: "fma", ..WORKLOAD };
    let document = document(&run(&plan, &memory), &[&WORKLOAD, &control]);
    assert_eq!(document.run.workloads.len(), 2);
    let of = |workload: &str| -> Vec<&baremark_model::document::ExplanationRow> {
        document.explanations.iter().filter(|row| row.treatment["workload"] == workload).collect()
    };
    let [total, tax, rest] = of("random-access").try_into().expect("three rows");
    for (row, cost) in [(total, 1.0 / 0.9), (tax, 1.0 / 0.99), (rest, 0.99 / 0.9)] {
        let cost = (cost - 1.0) * 100.0;
        assert!(row.lo < cost && cost < row.hi && row.hi - row.lo < 0.8, "{row:?} should hold {cost}");
    }
    assert!(rest.advice.contains("translation"), "{rest:?}");
    // What needs a system may lose to the system.
    let asking = Descriptor { executors: &[ExecutorKind::Direct], ..WORKLOAD };
    let told = baremark_lab::analysis::document(&run(&plan, &memory), &[&asking, &control]).explanations;
    let rest = told.iter().find(|row| row.what.contains("does not explain")).expect("it is told all the same");
    assert!(rest.advice.starts_with("most of it goes to system activity"), "{rest:?}");
    let [alone] = of("fma").try_into().expect("one row");
    assert!(alone.what.contains("computing alone"), "{alone:?}");
    assert_eq!(alone.advice, format!("VM exits cost at most {:.1} % (bound from fma)", alone.hi));
    // Causes have the interval of the ratio that they are of: the one that decides.
    for (workload, row) in [("random-access", total), ("fma", alone)] {
        let ratio = document.ratios.iter().find(|ratio| ratio.treatment["workload"] == workload).expect("a ratio");
        let cost = |ratio: f64| 100.0 * (1.0 / ratio - 1.0);
        let (lo, hi) = (cost(ratio.hi.unwrap()), cost(ratio.lo.unwrap()));
        assert!((row.lo - lo).abs() < 1e-9 && (row.hi - hi).abs() < 1e-9, "{row:?} of {ratio:?}");
    }
}

/// Where not every ratio is shown to differ, one that is has a longer interval than the plain one; its cause has the same.
#[test]
fn a_cause_has_the_interval_that_decides_also_where_that_is_not_the_plain_one() {
    let (plan, mut memory) = (with_control(&plan("microvm")), Memory::default());
    let (mut rng, mut above) = (Rng::new(5), None);
    // The control is below native in every other block, by as much as it was above it in the block before: no difference can be shown.
    let played = Played::new(move |spec| {
        let ratio = match spec.workload.as_str() {
            "fma" => match above.take() {
                Some(above) => 1.0 / above,
                None => *above.insert((0.002 * rng.normal()).exp()),
            },
            _ => 0.9 * (0.002 * rng.normal()).exp(),
        };
        Answer::Values(vec![1.0, ratio])
    });
    conduct(&plan, vec![("native", played)], &mut memory, &NEVER).0.unwrap();
    let control = Descriptor { kind: "fma", ..WORKLOAD };
    let document = document(&run(&plan, &memory), &[&WORKLOAD, &control]);
    let of =
        |workload: &str| document.ratios.iter().find(|row| row.treatment["workload"] == workload).expect("a ratio");
    let ratio = of("random-access");
    assert!(of("fma").lo.unwrap() < 1.0 && of("fma").hi.unwrap() > 1.0, "{:?}", of("fma"));
    assert!((ratio.confidence - 0.975).abs() < 1e-9, "one of two is shown: {ratio:?}");
    let total =
        document.explanations.iter().find(|row| row.treatment["workload"] == "random-access").expect("its cost");
    let cost = |ratio: f64| 100.0 * (1.0 / ratio - 1.0);
    let (lo, hi) = (cost(ratio.hi.unwrap()), cost(ratio.lo.unwrap()));
    assert!((total.lo - lo).abs() < 1e-9 && (total.hi - hi).abs() < 1e-9, "{total:?} of {ratio:?}");
}

/// "VM exits cost at most 27 %" was said of containers, and of virtual machines where it was noise alone.
#[test]
fn a_bound_of_vm_exits_is_named_below_2_percent_and_where_there_are_exits() {
    let advice = |place: &'static str, noise: f64| {
        let (plan, mut memory) = (with_control(&plan(place)), Memory::default());
        let mut rng = Rng::new(5);
        let mut played = || {
            let mut rng = Rng::new(rng.below(1000));
            Played::new(move |spec| {
                let values = [1.0, 0.995].map(|value| value * (noise * rng.normal()).exp());
                Answer::Values(values[..spec.arms.len()].to_vec())
            })
        };
        let agents = vec![("native", played()), (place, played())];
        conduct(&plan, agents, &mut memory, &NEVER).0.unwrap();
        let control = Descriptor { kind: "fma", ..WORKLOAD };
        let rows = document(&run(&plan, &memory), &[&WORKLOAD, &control]).explanations;
        let alone = rows.into_iter().find(|row| row.what.starts_with("overhead of computing alone over"));
        alone.expect("the control's row").advice
    };
    assert!(advice("microvm", 0.001).starts_with("VM exits cost at most 0."), "{}", advice("microvm", 0.001));
    assert_eq!(advice("microvm", 0.2), "", "that bounds nothing");
    assert_eq!(advice("container", 0.001), "", "a container has no exits");
}

#[test]
fn a_drift_inside_trials_is_flagged_in_words_for_people() {
    let mut plan = plan("microvm");
    plan.design.quads = 6;
    let mut memory = Memory::default();
    let played = Played::new(|spec| Answer::Values(vec![3.0; spec.arms.len()]));
    conduct(&plan, vec![("native", played)], &mut memory, &NEVER).0.unwrap();
    for trial in &mut memory.trials {
        let phases = &mut trial.result.as_mut().unwrap().series;
        for phase in phases.iter_mut().filter(|phase| phase.arm == 1).skip(6) {
            phase.samples[0].value = 2.0;
        }
    }
    let flags = document(&run(&plan, &memory), &[&WORKLOAD]).flags;
    let [flag] = &flags[..] else { panic!("{flags:?}") };
    assert_eq!(flag.text, "the second halves of trials differ from the first by -33.3 %");
    assert_eq!(flag.treatment["environment"], "microvm");
}

/// Containers of two settings alongside native: what the settings give is told block by block, past what both lose.
#[test]
fn what_settings_of_its_own_give_a_place_is_told_with_its_interval() {
    let told = |like: f64, own: f64, emulated: bool| {
        let mut plan = plan("container");
        let mut tuned = plan.arms[1].clone();
        tuned.treatment.insert("environment".to_owned(), "tuned".to_owned());
        (tuned.environment, tuned.like, tuned.emulated) = ("tuned".to_owned(), Some("container".to_owned()), emulated);
        plan.arms.push(tuned);
        plan.pairs.push(Pair { numerator: 2, ..plan.pairs[0] });
        plan.cells.push(Cell::Single(2));
        // Blocks differ by far more than the arms do.
        let values = |of: f64| {
            let mut trials = 0;
            Played::new(move |_| {
                trials += 1;
                let noise = 1.0 + 0.001 * f64::from(trials % 3);
                Answer::Values(vec![of * noise * (1.0 + f64::from(trials / 4))])
            })
        };
        let mut memory = Memory::default();
        let places = vec![("native", values(10.0)), ("container", values(like)), ("tuned", values(own))];
        conduct(&plan, places, &mut memory, &NEVER).0.unwrap();
        let document = document(&run(&plan, &memory), &[&WORKLOAD]);
        let mut rows = document.explanations.into_iter().filter(|row| row.what.contains("own settings"));
        let row = rows.next();
        assert!(rows.next().is_none());
        row.map(|row| {
            assert_eq!((row.what.as_str(), row.unit.as_str()), ("speedup over container by its own settings", "%"));
            assert_eq!(row.treatment["environment"], "tuned");
            assert!(row.lo <= row.value && row.value <= row.hi && row.hi - row.lo < 1.0, "{row:?}");
            (row.value.round(), row.advice)
        })
    };
    let words = |value: f64, advice: &str| Some((value, advice.to_owned()));
    assert_eq!(told(8.0, 10.0, false), words(25.0, "the settings that differ from container's gain that"));
    assert_eq!(told(8.0, 8.0, false), words(0.0, "the settings that differ from container's matter less than 2 %"));
    assert_eq!(
        told(10.0, 8.0, false),
        words(-20.0, "the settings that differ from container's cost that: keep container's")
    );
    assert_eq!(told(8.0, 10.0, true), None, "an emulated machine tells nothing");
}

#[test]
fn a_gate_of_one_run_answers_by_its_margin_and_power() {
    let found = |ratio: f64, sd: f64, margin: f64| {
        let (plan, mut memory) = (plan("microvm"), Memory::default());
        conduct(&plan, vec![("native", keeps(ratio, sd))], &mut memory, &NEVER).0.unwrap();
        let found = gates::of_run(&run(&plan, &memory), Better::Higher, Share(margin));
        assert_eq!(found.rows.len(), 1, "{found:?}");
        (found.answer, found.rows[0])
    };
    let (answer, row) = found(1.0, 0.005, 0.05);
    assert!(answer == GateAnswer::Passed && row.power > Some(0.9) && row.smallest_detectable < Some(0.05), "{row:?}");
    assert_eq!(found(0.9, 0.005, 0.05).0, GateAnswer::Loss);
    assert_eq!(
        found(0.98, 0.003, 0.05).0,
        GateAnswer::Passed,
        "a loss is shown, and shown to be smaller than the margin"
    );
    assert_eq!(found(1.0 / 1.05, 0.02, 0.05).0, GateAnswer::Undecided, "it may be smaller or larger");
    let (answer, row) = found(1.0, 0.2, 0.02);
    assert!(answer == GateAnswer::Undecided && row.power < Some(0.8) && row.needed > Some(60), "{row:?}");
}

/// A run of 5 of its 10 blocks had "not enough data" in its table, and failed the gate below it.
#[test]
fn a_gate_answers_nothing_below_the_smallest_study() {
    let (mut plan, mut memory) = (plan("microvm"), Memory::default());
    plan.design.most_blocks = 5;
    conduct(&plan, vec![("native", keeps(0.9, 0.005))], &mut memory, &NEVER).0.unwrap();
    let run = run(&plan, &memory);
    assert_eq!(document(&run, &[&WORKLOAD]).ratios[0].outcome, Outcome::NotEnough);
    assert_eq!(gates::of_run(&run, Better::Higher, Share(0.05)).answer, GateAnswer::Undecided);
}
