//! The random orders of a plan.

use crate::conduct::WORKLOAD;
use crate::played::{Answer, Memory, Played, conduct, plan, result, run};
use baremark_lab::analysis::document;
use baremark_lab::schedule::{order, trial};
use baremark_lab::trials::Finished;
use baremark_model::event::TrialStatus;
use baremark_model::plan::{Duet, Plan};
use baremark_model::verify::Verify;
use std::sync::atomic::AtomicBool;

static NEVER: AtomicBool = AtomicBool::new(false);

#[test]
fn a_trial_is_the_same_whenever_it_is_asked_for() {
    let plan = plan("microvm");
    assert_eq!(trial(&plan, 3, 0), trial(&plan, 3, 0));
    assert_ne!(trial(&plan, 3, 0).seed, trial(&plan, 4, 0).seed);
    let mut other = plan.clone();
    other.design.seed += 1;
    assert_ne!(trial(&plan, 3, 0).seed, trial(&other, 3, 0).seed);
}

/// Which blocks of a study check their results as a whole.
fn whole(plan: &Plan, blocks: u64) -> Vec<u64> {
    let wholly = |&block: &u64| (0..plan.cells.len()).all(|cell| trial(plan, block, cell).verify == Verify::Whole);
    (0..blocks).filter(wholly).collect()
}

#[test]
fn results_are_checked_as_a_whole_in_the_first_block_every_eighth_and_the_last() {
    let mut study = plan("microvm");
    (study.design.least_blocks, study.design.most_blocks) = (4, 21);
    assert_eq!(whole(&study, 21), [0, 8, 16, 20]);
    let Verify::Ranges(seed) = trial(&study, 3, 0).verify else { panic!("block 3 is checked in ranges") };
    assert_eq!(seed, trial(&study, 3, 0).seed);
    assert_ne!(trial(&study, 3, 0).verify, trial(&study, 4, 0).verify);
    study.mode.quick = true;
    assert_eq!(whole(&study, 4), [0, 3], "a quick study ends with its smallest number of blocks");
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

/// The phases of a duet begin two by two, the first on the first CPU.
#[test]
fn both_arms_of_a_duet_are_on_each_cpu_once_within_every_quad() {
    let mut plan = plan("microvm");
    plan.design.quads = 3;
    let turns = trial(&plan, 5, 0);
    plan.duet = Some(Duet { cpus: [2, 4], one_core: false });
    let spec = trial(&plan, 5, 0);
    assert_eq!((turns.duet, spec.duet), (None, Some([2, 4])));
    assert_eq!((&spec.schedule, spec.seed), (&turns.schedule, turns.seed), "nothing else is drawn");
    for quad in spec.schedule.chunks(4) {
        let on = |cpu: usize| quad.iter().skip(cpu).step_by(2).sum::<usize>();
        assert_eq!([on(0), on(1)], [1, 1], "{quad:?}");
    }
}

#[test]
fn a_program_warms_up_once_on_this_machine_and_in_every_trial_elsewhere() {
    use baremark_model::command;
    use baremark_model::value::{Program, Value};
    let warmups = |environment: &str| {
        let mut plan = plan(environment);
        for planned in &mut plan.arms {
            let program = Program { argv: vec!["true".to_owned()], warmup: 3, ..Program::default() };
            planned.arm.parameters.insert(command::KIND.to_owned(), Value::Program(Box::new(program)));
        }
        let of_block = |block: u64| -> Vec<u64> {
            let of_cell =
                |cell| trial(&plan, block, cell).arms.iter().map(|arm| arm.members[0].arm.clone()).collect::<Vec<_>>();
            let arms = (0..plan.cells.len()).flat_map(of_cell);
            arms.map(|arm| command::of_arm(&arm).expect("a program").warmup).collect()
        };
        [of_block(0), of_block(1)]
    };
    assert_eq!(warmups("microvm"), [vec![3, 3], vec![0, 0]]);
    assert_eq!(warmups("container"), [vec![3, 3], vec![0, 3]], "native and the container");
}

#[test]
fn the_cells_of_a_block_run_in_every_order() {
    let plan = plan("container");
    let orders: Vec<Vec<usize>> = (0..50).map(|block| order(&plan, block)).collect();
    assert!(orders.contains(&vec![0, 1]) && orders.contains(&vec![1, 0]));
    assert_eq!(order(&plan, 9), order(&plan, 9));
}

#[test]
fn a_stall_in_some_phases_moves_neither_the_trials_values_nor_its_ratio() {
    let mut plan = plan("microvm");
    plan.design.quads = 20;
    let spec = trial(&plan, 0, 0);
    assert_eq!(spec.schedule.len(), 80);
    let mut result = result(&spec, &[2.0, 1.0]);
    for stalled in result.series.iter_mut().filter(|phase| phase.arm == 0).take(6) {
        stalled.samples[0].value = 0.5;
    }
    let trial = Finished {
        block: 0,
        cell: 0,
        place: 0,
        spec: spec.clone(),
        status: TrialStatus::Ok,
        result: Some(result),
        elapsed_ns: 1,
        percentiles: Default::default(),
    };
    let near = |found: Option<f64>, wanted: f64| assert!((found.unwrap() - wanted).abs() < 1e-12, "{found:?}");
    near(trial.value(0, "gups"), 2.0);
    near(trial.value(1, "gups"), 1.0);
    let quads = trial.quads(0, 1, "gups");
    assert_eq!(quads.len(), 20);
    near(baremark_stats::quads::summary(&quads), 0.5_f64.ln());
}

#[test]
fn quads_are_balanced_and_in_random_order() {
    let mut plan = plan("microvm");
    plan.design.quads = 20;
    let forward = |block| {
        let schedule = trial(&plan, block, 0).schedule;
        let quads: Vec<bool> = schedule.chunks(4).map(|quad| quad == [0, 1, 1, 0]).collect();
        assert!(schedule.chunks(4).all(|quad| quad == [0, 1, 1, 0] || quad == [1, 0, 0, 1]), "{schedule:?}");
        quads
    };
    for block in 0..20 {
        assert_eq!(forward(block).iter().filter(|forward| **forward).count(), 10, "ten of each order");
    }
    assert_ne!(forward(0), forward(1));
}

/// Phases of minutes: one of each arm, whose ratio is that of the two values, and one of an arm alone.
#[test]
fn without_quads_each_arm_has_one_phase() {
    let mut pair = plan("microvm");
    pair.design.quads = 0;
    let mut first = [0, 0];
    for block in 0..200 {
        let schedule = trial(&pair, block, 0).schedule;
        assert!(schedule == [0, 1] || schedule == [1, 0], "{schedule:?}");
        first[schedule[0]] += 1;
    }
    assert!((70..=130).contains(&first[0]), "of 200 trials {first:?} began with either arm");
    let mut memory = Memory::default();
    let played = Played::new(|_| Answer::Values(vec![2.0, 1.0]));
    conduct(&pair, vec![("native", played)], &mut memory, &NEVER).0.unwrap();
    let ratio = &document(&run(&pair, &memory), &[&WORKLOAD]).ratios[0];
    assert!(ratio.ratio.is_some_and(|ratio| (ratio - 0.5).abs() < 1e-9), "{ratio:?}");
    let mut apart = plan("container");
    apart.design.quads = 0;
    assert_eq!((0..2).map(|cell| trial(&apart, 0, cell).schedule).collect::<Vec<_>>(), [vec![0], vec![0]]);
}
