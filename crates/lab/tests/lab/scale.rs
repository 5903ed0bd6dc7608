//! Known costs on blinded arms, with agents that are as slow as their injected costs say.

use crate::played::{Answer, Memory, Played, conduct, plan, run};
use baremark_lab::scale::{COSTS, blind, open, recover};
use baremark_model::metric::Better;
use baremark_model::plan::Cell;
use baremark_model::scale::{InjectedCosts, PARAMETER, ScaleDocument};
use baremark_model::units::Share;
use baremark_model::value::Value;
use baremark_stats::Rng;
use std::sync::atomic::AtomicBool;

static NEVER: AtomicBool = AtomicBool::new(false);

/// Eight blinded arms, two of each cost, weighed by a scale that shows `shown` of a cost.
fn weighed(seed: u64, shown: fn(f64) -> f64) -> ScaleDocument {
    let labels: Vec<String> = (0..8).map(|arm| format!("label-{arm}")).collect();
    let injected = InjectedCosts(labels.iter().cloned().zip(COSTS.iter().cycle().copied()).collect());
    let plan = blind(plan("microvm"), 0, &labels, 20);
    assert_eq!((plan.arms.len(), plan.pairs.len()), (9, 8));
    let inside = injected.clone();
    let mut rng = Rng::new(seed);
    let script = Played::new(move |spec| {
        let Some(Value::Text(label)) = spec.arms[1].members[0].arm.parameters.get(PARAMETER) else {
            panic!("a blinded arm: {spec:?}")
        };
        let Share(cost) = inside.0[label];
        Answer::Values(vec![1.0, (0.01 * rng.normal()).exp() / (1.0 + shown(cost))])
    });
    let mut memory = Memory::default();
    conduct(&plan, vec![("native", script)], &mut memory, &NEVER).0.unwrap();
    for trial in &mut memory.trials {
        trial.result.as_mut().unwrap().series.iter_mut().for_each(|phase| phase.reps = 1000);
    }
    let run = run(&plan, &memory);
    open(&run, "bare metal", recover(&run, Better::Higher), &injected)
}

#[test]
fn a_true_scale_covers_what_was_injected() {
    let (mut covered, mut intervals) = (0, 0);
    for seed in 0..20 {
        let document = weighed(seed, |cost| cost);
        assert_eq!((document.rows.len(), document.blocks), (8, 20));
        // Independent noise looks dependent now and then, and then there is no interval.
        intervals += document.intervals;
        covered += document.covered;
        for row in &document.rows {
            assert!((row.injected - row.asked).abs() < 1e-12, "a thousand repetitions split evenly: {row:?}");
            let Some(recovered) = row.recovered else { continue };
            assert!((recovered - row.asked).abs() < 0.012, "{row:?}");
            assert!(row.asked < 0.04 || row.told_from_none == Some(true), "{row:?}");
        }
    }
    let share = covered as f64 / intervals as f64;
    assert!(intervals > 145 && (0.91..0.99).contains(&share), "{covered} of {intervals}");
}

#[test]
fn a_scale_that_shows_half_is_found_out() {
    let document = weighed(1, |cost| cost / 2.0);
    assert!(document.covered <= 5 && document.chance < 0.01, "{document:#?}");
}

/// Everything that the analysis is given says nothing of the costs: the same trials under any injected costs.
#[test]
fn the_plan_and_the_trials_hold_labels_alone() {
    let labels: Vec<String> = (0..4).map(|arm| format!("label-{arm}")).collect();
    let plan = blind(plan("microvm"), 0, &labels, 10);
    let text = serde_json::to_string(&plan).unwrap();
    assert!(labels.iter().all(|label| text.contains(label)) && !text.contains('%'), "{text}");
    assert!(plan.cells.iter().all(|cell| matches!(cell, Cell::Pair(_))));
}
