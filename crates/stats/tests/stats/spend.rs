//! Quads by variance and cost: the choice is about the best of all, and intervals of studies that spend so cover what they say.

use baremark_stats::interim::{Analysis, Rule, Step};
use baremark_stats::location::Estimate;
use baremark_stats::precision::{blocks_for, half_width_for};
use baremark_stats::spend::{Goal, RatioNoise, TrialCost, quads};
use baremark_stats::{Rng, quads as of_trials};

const CONFIDENCE: f64 = 0.95;

fn cost(start_s: f64, quad_s: f64, variance: f64) -> TrialCost {
    TrialCost { start_s, quad_s, variance, least: 1, most: 400 }
}

fn goal(half_width: f64, seconds: f64) -> Goal {
    Goal { half_width, confidence: CONFIDENCE, seconds, smallest: 4, most: 200 }
}

fn alone(between: f64) -> [RatioNoise; 1] {
    [RatioNoise { cells: vec![0], between }]
}

#[test]
fn the_choice_is_about_the_best_of_all() {
    for (start_s, quad_s, deviation, between, half_width) in [
        (1.0, 0.04, 0.12, 0.003, 0.01),
        (0.2, 0.8, 0.015, 0.001, 0.005),
        (2.0, 0.1, 0.1, 0.01, 0.02),
        (0.05, 0.2, 0.06, 0.004, 0.01),
    ] {
        let one = cost(start_s, quad_s, deviation * deviation);
        let seconds = |quads: u32| {
            let noise = f64::hypot(deviation / f64::from(quads).sqrt(), between);
            let blocks = blocks_for(noise, half_width, CONFIDENCE)?.max(4);
            let blocks = blocks + blocks.div_ceil(3).max(2);
            Some(f64::from(blocks - 1) * (start_s + f64::from(quads) * quad_s))
        };
        let best = (1..=400).filter_map(seconds).fold(f64::INFINITY, f64::min);
        let chosen = quads(&[one], &alone(between * between), &goal(half_width, 1e6)).unwrap()[0];
        let reached = seconds(chosen).unwrap();
        assert!(reached <= 1.2 * best, "{chosen} quads take {reached:.1} s, the best {best:.1} s");
        assert!(reached < seconds(1).unwrap_or(f64::INFINITY) || chosen == 1, "{chosen}");
    }
}

#[test]
fn a_ratio_that_lacks_more_has_more_quads_and_a_cell_that_none_needs_the_fewest() {
    let costs = [cost(1.0, 0.05, 1e-2), cost(1.0, 0.05, 1e-4), TrialCost { least: 5, ..cost(1.0, 0.05, 1.0) }];
    let ratios = [0, 1].map(|cell| RatioNoise { cells: vec![cell], between: 0.0 });
    let chosen = quads(&costs, &ratios, &goal(0.01, 60.0)).unwrap();
    assert!(chosen[0] > 10 * chosen[1] && chosen[2] == 5, "{chosen:?}");
    // Of two trials of one ratio the one whose quads are cheaper has more of them.
    let costs = [cost(1.0, 0.05, 1e-2), cost(1.0, 0.8, 1e-2)];
    let chosen = quads(&costs, &[RatioNoise { cells: vec![0, 1], between: 0.0 }], &goal(0.01, 600.0)).unwrap();
    assert!(chosen[0] > 2 * chosen[1] && chosen[1] > 1, "{chosen:?}");
}

#[test]
fn the_smallest_study_fits_the_time_where_it_can() {
    let noisy = cost(1.0, 0.1, 1.0);
    for seconds in [6.0, 20.0, 100.0] {
        let chosen = f64::from(quads(&[noisy], &alone(0.0), &goal(1e-4, seconds)).unwrap()[0]);
        assert!(3.0 * (1.0 + 0.1 * chosen) <= seconds, "{chosen} quads in {seconds} s");
    }
    assert_eq!(quads(&[noisy], &alone(0.0), &goal(1e-4, 1.0)), Some(vec![1]), "the fewest, and too few blocks");
    assert_eq!(quads(&[noisy], &[], &goal(0.01, 60.0)), None);
    assert_eq!(quads(&[cost(1.0, 0.0, 1.0)], &alone(0.0), &goal(0.01, 60.0)), None);
    assert_eq!(quads(&[noisy], &[RatioNoise { cells: vec![1], between: 0.0 }], &goal(0.01, 60.0)), None);
    let quiet = TrialCost { least: 3, ..cost(1.0, 0.1, 0.0) };
    assert_eq!(quads(&[quiet], &alone(0.0), &goal(0.01, 60.0)), Some(vec![3]), "quads that do not vary");
}

#[test]
fn the_variance_of_a_quad_is_that_of_the_trimmed_mean_times_their_number() {
    let mut rng = Rng::new(3);
    for (tail, count) in [(1.0, 20), (10.0, 20), (1.0, 7), (1.0, 9)] {
        let mut draw = || if rng.uniform() < 0.05 { tail * rng.normal() } else { rng.normal() };
        let trials: Vec<Vec<f64>> = (0..4000).map(|_| (0..count).map(|_| draw()).collect()).collect();
        let summaries: Vec<f64> = trials.iter().filter_map(|quads| of_trials::summary(quads)).collect();
        let squares = summaries.iter().map(|found| found * found).sum::<f64>() / summaries.len() as f64;
        let said = trials.iter().filter_map(|quads| of_trials::variance(quads)).sum::<f64>() / trials.len() as f64;
        let of_mean = said / f64::from(count);
        assert!((of_mean / squares - 1.0).abs() < 0.15, "{count}, tails of {tail}: {of_mean} against {squares}");
    }
    assert_eq!(of_trials::variance(&[1.0, 2.0, 3.0, 4.0]), None);
    assert_eq!(of_trials::variance(&[7.0; 6]), Some(0.0));
}

/// Quads and trials of a study whose true log ratio is 0.
struct Simulated {
    rng: Rng,
    /// Of one quad in twenty everything is so many times larger.
    tail: f64,
}

impl Simulated {
    const QUAD: f64 = 0.06;
    const TRIAL: f64 = 0.003;

    fn quads(&mut self, count: u32) -> Vec<f64> {
        let trial = Self::TRIAL * self.rng.normal();
        let mut quad = || {
            let scale = if self.rng.uniform() < 0.05 { self.tail } else { 1.0 };
            trial + Self::QUAD * scale * self.rng.normal()
        };
        (0..count).map(|_| quad()).collect()
    }

    /// The blocks of a study of at most so many at 20 quads a trial: of the first the others follow.
    fn study(&mut self, size: u32, half_width: f64) -> Vec<f64> {
        const FIRST: u32 = 20;
        let first = self.quads(FIRST);
        let variance = of_trials::variance(&first).unwrap();
        let costs = [TrialCost { least: 5, most: 80, ..cost(1.0, 0.05, variance) }];
        let block_s = |quads: u32| 1.0 + 0.05 * f64::from(quads);
        let seconds = f64::from(size - 1) * block_s(FIRST);
        let chosen = quads(&costs, &alone(variance / 400.0), &goal(half_width, seconds)).unwrap()[0];
        let affordable = 1 + (seconds / block_s(chosen)).floor() as u32;
        let rule = Rule::new(half_width.exp_m1(), 4, affordable);
        let (mut blocks, mut analyses) = (vec![of_trials::summary(&first).unwrap()], Vec::new());
        while let Step::Measure { until } | Step::Confirm { until } = rule.next(&analyses) {
            while blocks.len() < until as usize {
                let trial = self.quads(chosen);
                blocks.push(of_trials::summary(&trial).unwrap());
            }
            let estimate = Estimate::of(&blocks);
            analyses.push(Analysis::of(until, CONFIDENCE, [estimate.as_ref()]));
        }
        blocks
    }
}

fn covered(tail: f64, size: u32, studies: u32) -> f64 {
    let mut simulated = Simulated { rng: Rng::stream(36, u64::from(size)), tail };
    let noise = f64::hypot(Simulated::QUAD / 20_f64.sqrt(), Simulated::TRIAL);
    let half_width = half_width_for(noise, size, CONFIDENCE).unwrap();
    let holds = |_: &u32| {
        let blocks = simulated.study(size, half_width);
        Estimate::of(&blocks).unwrap().interval(CONFIDENCE).contains(0.0)
    };
    f64::from(u32::try_from((0..studies).filter(holds).count()).unwrap()) / f64::from(studies)
}

fn covers(studies: u32) {
    for tail in [1.0, 8.0] {
        for size in [4, 10, 30] {
            let found = covered(tail, size, studies);
            println!("tails of {tail}, {size} blocks at 20 quads: covered {found:.4}");
            let error = (0.93 * 0.07 / f64::from(studies)).sqrt();
            assert!(found >= 0.93 - 3.0 * error, "tails of {tail}, {size} blocks: {found}");
        }
    }
}

#[test]
fn intervals_of_studies_that_spend_by_variance_cover_what_they_say() {
    covers(300);
}

#[test]
#[ignore = "10,000 studies of each kind and size"]
fn soak() {
    covers(10_000);
}
