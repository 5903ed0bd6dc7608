//! Runs against runs, the permutation test of paired blocks, and changes over a history.

use baremark_stats::Rng;
use baremark_stats::changes::{self, changes};
use baremark_stats::permutation::{fewest_blocks, signed_rank};
use baremark_stats::runs::{FEWEST, Run, compare};
use proptest::prelude::*;

fn side(rng: &mut Rng, runs: usize, between: f64, within: f64) -> Vec<Run> {
    (0..runs)
        .map(|_| {
            let run = between * rng.normal();
            Run::of(&(0..8).map(|_| run + within * rng.normal()).collect::<Vec<_>>()).unwrap()
        })
        .collect()
}

#[test]
fn three_runs_a_side_are_needed() {
    let runs = |n: usize| (0..n).map(|run| Run { centre: run as f64, error: 0.1 }).collect::<Vec<_>>();
    assert_eq!(compare(&runs(2), &runs(9)), None);
    assert_eq!(compare(&runs(9), &runs(2)), None);
    assert!(compare(&runs(FEWEST), &runs(FEWEST)).is_some());
    assert_eq!(Run::of(&[]), None);
    assert_eq!(Run::of(&[1.0, f64::NAN]), None);
    assert_eq!(Run::of(&[1.0, 2.0]), Some(Run { centre: 1.5, error: 0.0 }), "too few blocks for an error of their own");
}

/// Blocks agree inside a run and runs do not: many blocks must not make the interval short.
#[test]
fn intervals_cover_with_a_component_between_runs() {
    for (runs, between, within) in [(3, 0.03, 0.01), (4, 0.03, 0.01), (3, 0.0, 0.01), (8, 0.01, 0.03)] {
        let mut rng = Rng::new(77);
        let (mut covered, mut component, studies) = (0.0, 0.0, 3_000.0);
        for _ in 0..3_000 {
            let found =
                compare(&side(&mut rng, runs, between, within), &side(&mut rng, runs, between, within)).unwrap();
            covered += f64::from(u8::from(found.interval(0.95).contains(0.0))) / studies;
            component += found.between.powi(2) / studies;
        }
        println!(
            "{runs} runs a side, between {between}, within {within}: covered {covered:.3}, {:.4}",
            component.sqrt()
        );
        assert!(covered >= 0.94, "{covered}");
        assert!(between < 0.02 || (component.sqrt() / between - 1.0).abs() < 0.06, "{component}");
    }
}

#[test]
fn agreement_by_chance_is_not_certainty() {
    let runs = |centre: f64| vec![Run { centre, error: 0.01 }; 3];
    let found = compare(&runs(0.0), &runs(0.004)).unwrap();
    assert!(
        (found.error - (2.0f64 / 3.0).sqrt() * 0.01).abs() < 1e-12,
        "three equal runs keep the error of their blocks"
    );
    assert!(found.interval(0.95).contains(0.0));
}

/// All sign choices by hand, with ties and zeros.
#[test]
fn the_permutation_test_counts_sign_choices() {
    let ranks_of = |values: &[f64]| -> Vec<f64> {
        let rank = |v: &f64| {
            let below = values.iter().filter(|w| w.abs() < v.abs()).count() as f64;
            below + 0.5 * (values.iter().filter(|w| w.abs() == v.abs()).count() as f64 + 1.0)
        };
        values.iter().map(rank).collect()
    };
    for values in [
        vec![1.0, 2.0, 3.0, 4.0, 5.0],
        vec![1.0, 1.0, -1.0, 2.0, 2.0, 0.0, 3.0],
        vec![-3.0, 0.5, 0.5, 0.5, -0.5, 8.0, 0.0, 0.0, 9.0],
    ] {
        let ranks = ranks_of(&values);
        let signed: Vec<f64> = values.iter().zip(&ranks).filter(|(v, _)| **v != 0.0).map(|(_, rank)| *rank).collect();
        let seen: f64 = values.iter().zip(&ranks).filter(|(v, _)| **v > 0.0).map(|(_, rank)| *rank).sum();
        let sum = |choice: u32| -> f64 {
            signed.iter().enumerate().filter(|(i, _)| choice >> i & 1 == 1).map(|(_, rank)| *rank).sum()
        };
        let choices = 1u32 << signed.len();
        let as_large = (0..choices).filter(|choice| sum(*choice) >= seen - 1e-9).count();
        let expected = as_large as f64 / f64::from(choices);
        assert!((signed_rank(&values).unwrap() - expected).abs() < 1e-12, "{values:?}");
    }
    assert_eq!([signed_rank(&[]), signed_rank(&[f64::NAN])], [None, None]);
    assert_eq!(signed_rank(&[0.0; 5]), Some(1.0));
    assert_eq!([0.05, 0.0025].map(fewest_blocks), [5, 9]);
}

#[test]
fn many_blocks_take_the_normal_approximation() {
    let mut rng = Rng::new(6);
    let blocks: Vec<f64> = (0..201).map(|_| rng.normal() + 0.1).collect();
    let (approximate, exact) = (signed_rank(&blocks).unwrap(), signed_rank(&blocks[..200]).unwrap());
    assert!((0.3..3.0).contains(&(approximate / exact)), "{approximate} {exact}");
    let balanced: Vec<f64> = (0..400).map(|i| if i % 2 == 0 { f64::from(i) + 1.0 } else { -f64::from(i) }).collect();
    assert!((signed_rank(&balanced).unwrap() - 0.5).abs() < 0.02);
}

/// A history: a level that changes, with what disturbs it.
fn history(rng: &mut Rng, n: usize, step_at: usize, step: f64, kind: usize) -> Vec<f64> {
    let mut state = rng.normal();
    (0..n)
        .map(|i| {
            let noise = match kind {
                0 => rng.normal(),
                1 => rng.normal() + if rng.uniform() < 0.05 { 10.0 } else { 0.0 },
                2 => rng.normal().exp(),
                _ => {
                    state = 0.3 * state + 0.91f64.sqrt() * rng.normal();
                    state
                }
            };
            noise + if i >= step_at { step } else { 0.0 }
        })
        .collect()
}

/// Share of histories without a change that show one.
fn false_changes_of(n: usize, kind: usize, histories: u64) -> f64 {
    let mut rng = Rng::new(40 + kind as u64);
    let shows = |seed: u64, rng: &mut Rng| !changes(&history(rng, n, n, 0.0, kind), 0.05, seed).unwrap().is_empty();
    (0..histories).filter(|&seed| shows(seed, &mut rng)).count() as f64 / histories as f64
}

#[test]
fn false_changes() {
    for (kind, name) in ["normal", "5 % outliers", "log-normal", "AR(0.3)"].into_iter().enumerate() {
        for n in [10, 40] {
            let share = false_changes_of(n, kind, 400);
            println!("history of {n}, {name}: {share:.3} with a false change at level 0.05");
            let limit = 0.05 + 3.0 * (0.05f64 * 0.95 / 400.0).sqrt();
            // neighbours that resemble each other are not exchangeable: the share is bounded, not kept
            assert!(share <= if kind == 3 { 0.3 } else { limit }, "{name} {n}: {share}");
        }
    }
}

#[test]
#[ignore = "5,000 histories of each kind"]
fn false_changes_soak() {
    for (kind, name) in ["normal", "5 % outliers", "log-normal", "AR(0.3)"].into_iter().enumerate() {
        for n in [8, 20, 50, 100] {
            let share = false_changes_of(n, kind, 5_000);
            println!("history of {n}, {name}: {share:.4} with a false change at level 0.05");
            assert!(kind == 3 || share <= 0.06, "{name} {n}: {share}");
        }
    }
}

#[test]
fn changes_are_found_where_they_are() {
    let mut rng = Rng::new(8);
    let (mut found, mut near) = (0, 0);
    for seed in 0..100 {
        let shown = changes(&history(&mut rng, 40, 25, 3.0, 0), 0.01, seed).unwrap();
        found += i32::from(shown.len() == 1);
        near += i32::from(shown.iter().any(|change| change.at.abs_diff(25) <= 1 && change.p_value <= 0.01));
    }
    assert!(found >= 90 && near >= 90, "{found} {near}");
    let steps: Vec<f64> = (0..45).map(|i| f64::from(i / 15 * i / 15) * 4.0 + 0.3 * rng.normal()).collect();
    let at: Vec<usize> = changes(&steps, 0.01, 1).unwrap().iter().map(|change| change.at).collect();
    assert!(at.contains(&15) && at.contains(&30), "{at:?}");
    let shown = changes(&history(&mut rng, 20, 17, 8.0, 0), 0.05, 1).unwrap();
    assert_eq!(shown.iter().map(|change| change.at).collect::<Vec<_>>(), [17], "three runs at the end");
    assert!((shown[0].shift.centre - 8.0).abs() < 2.0);
}

#[test]
fn a_history_is_at_least_eight_runs() {
    assert_eq!(changes(&[1.0; changes::FEWEST - 1], 0.01, 1), None);
    assert_eq!(changes(&[1.0; 8], 0.01, 1), Some(Vec::new()), "equal runs have no change");
    assert_eq!(changes(&[f64::NAN; 8], 0.01, 1), None);
    assert_eq!(changes(&[1.0; 8], 0.0, 1), None);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn exchanged_sides_mirror(a in prop::collection::vec((-1.0f64..1.0, 0.0f64..0.1), 3..9),
                              b in prop::collection::vec((-1.0f64..1.0, 0.0f64..0.1), 3..9)) {
        let side = |runs: &[(f64, f64)]| runs.iter().map(|&(centre, error)| Run { centre, error }).collect::<Vec<_>>();
        let (one, two) = (compare(&side(&a), &side(&b)).unwrap(), compare(&side(&b), &side(&a)).unwrap());
        prop_assert!((one.centre + two.centre).abs() < 1e-12 && (one.error - two.error).abs() < 1e-12);
        prop_assert!((one.p_value() - two.p_value()).abs() < 1e-9);
        prop_assert_eq!(one.interval(0.9).contains(0.0), one.p_value() > 0.1);
    }
}
