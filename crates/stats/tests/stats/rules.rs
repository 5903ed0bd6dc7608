//! The rules of stopping, judging and pricing, by example and by property.

use baremark_stats::estimate::{mean_interval, median_interval};
use baremark_stats::pricing::{Noise, blocks_for, half_width_for, precision_within, price};
use baremark_stats::serial::{batch_means, batch_size, serial};
use baremark_stats::shape::{Shape, shape};
use baremark_stats::special::normal_quantile;
use baremark_stats::{
    Decision, Estimator, Independence, Look, PairedRatio, Reason, Rng, StopReason, StoppingRule, Verdict, judge,
    verdict,
};
use proptest::prelude::*;

/// A ratio of `n` blocks spread evenly over centre ± spread, in an order without positive correlation.
fn steady(centre: f64, spread: f64, n: usize) -> PairedRatio {
    let place = |i: usize| (i * 11 % n) as f64 / (n as f64 - 1.0);
    let blocks: Vec<f64> = (0..n).map(|i| centre + spread * (2.0 * place(i) - 1.0)).collect();
    PairedRatio::new(&blocks).unwrap()
}

#[test]
fn the_four_outcomes() {
    let judged = |centre, delta| verdict(&steady(centre, 0.01, 26), 0.95, delta);
    assert_eq!(judged(0.05, 0.01), Verdict::DiffersByMore);
    assert_eq!(judged(-0.05, 0.01), Verdict::DiffersByMore, "faster counts as well");
    assert_eq!(judged(0.02, 0.05), Verdict::DiffersByLess);
    assert_eq!(judged(0.0, 0.01), Verdict::Equivalent);
    assert!(matches!(judged(0.0, 0.002), Verdict::Undecided { reason: Reason::TooWide, more_blocks: Some(_) }));
    assert!(matches!(judged(0.021, 0.02), Verdict::Undecided { reason: Reason::StraddlesDelta, .. }));
}

#[test]
fn nine_blocks_are_too_few() {
    let found = verdict(&steady(0.5, 0.001, 9), 0.95, 0.01);
    assert_eq!(found, Verdict::Undecided { more_blocks: Some(1), reason: Reason::TooFewBlocks });
}

#[test]
fn correlated_blocks_get_no_verdict_and_no_interval() {
    let blocks: Vec<f64> = (0..40).map(|i| 0.05 + 0.02 * (f64::from(i) / 7.0).sin()).collect();
    let ratio = PairedRatio::new(&blocks).unwrap();
    assert_eq!(ratio.independence(), Independence::Rejected);
    assert_eq!(ratio.interval(0.95), None);
    let found = verdict(&ratio, 0.95, 0.01);
    assert_eq!(found, Verdict::Undecided { more_blocks: None, reason: Reason::NotIndependent });
    let family = judge(&[(&ratio, 0.01)], 0.05);
    assert_eq!((family.judged[0].p_value, family.judged[0].interval), (1.0, None));
}

#[test]
fn mild_correlation_is_batched() {
    let mut rng = Rng::new(4);
    let white: Vec<f64> = (0..401).map(|_| rng.normal()).collect();
    let blocks: Vec<f64> = white.windows(2).map(|pair| pair[1] + 0.4 * pair[0]).collect();
    assert!(serial(&blocks).unwrap().strong);
    let size = batch_size(&blocks).unwrap();
    assert!(size > 1 && !serial(&batch_means(&blocks, size)).unwrap().strong);
    let ratio = PairedRatio::new(&blocks).unwrap();
    assert_eq!((ratio.batch(), ratio.independence()), (size, Independence::Shown));
    let (batched, plain) = (ratio.interval(0.95).unwrap(), mean_interval(&blocks, 0.95).unwrap());
    assert!(batched.half_width() > plain.half_width(), "the plain interval pretends to more than there is");
}

#[test]
fn a_ratio_needs_three_finite_blocks() {
    assert_eq!(PairedRatio::new(&[0.1, 0.2]), None);
    assert_eq!(PairedRatio::new(&[0.1, 0.2, f64::NAN]), None);
    assert_eq!(PairedRatio::new(&[0.1, 0.2, f64::INFINITY]), None);
    assert!(PairedRatio::new(&[0.1, 0.2, 0.3]).is_some());
}

#[test]
fn equal_blocks_do_not_break_anything() {
    let ratio = PairedRatio::new(&[0.0; 30]).unwrap();
    assert_eq!(verdict(&ratio, 0.95, 0.01), Verdict::Equivalent);
    assert_eq!(ratio.p_value(), 1.0);
    let shifted = PairedRatio::new(&[0.3; 30]).unwrap();
    assert_eq!(verdict(&shifted, 0.95, 0.01), Verdict::DiffersByMore);
}

#[test]
fn shapes() {
    let quantile = |i: u32| normal_quantile((f64::from(i) + 0.5) / 40.0);
    let normal: Vec<f64> = (0..40).map(quantile).collect();
    let skewed: Vec<f64> = normal.iter().map(|z| z.exp()).collect();
    let modes: Vec<f64> = (0..40).map(|i| 0.1 * quantile(i * 7 % 40) + f64::from(i % 3 / 2)).collect();
    assert_eq!([shape(&normal), shape(&skewed), shape(&modes)], [Shape::Plain, Shape::Skewed, Shape::Bimodal]);
    assert_eq!(shape(&skewed[..7]), Shape::Plain, "too few to say");
    let ratio = PairedRatio::new(&modes).unwrap();
    let interval = ratio.interval(0.95).unwrap();
    assert_eq!(interval.estimator, Estimator::Median);
    assert!(interval.coverage >= 0.95 && interval.coverage < 0.98);
}

fn look(blocks: u32, half_width: f64) -> Look {
    Look { blocks, half_width, independent: true }
}

#[test]
fn looks_start_at_ten_and_come_every_five() {
    let rule = StoppingRule::new(0.01, 100);
    assert_eq!(rule.next(&[]), Decision::Continue { until: 10 });
    assert_eq!(rule.next(&[look(10, 0.03)]), Decision::Continue { until: 15 });
    assert_eq!(rule.next(&[look(10, 0.03), look(15, 0.02)]), Decision::Continue { until: 20 });
}

#[test]
fn a_met_width_is_confirmed() {
    let rule = StoppingRule::new(0.01, 100);
    assert_eq!(rule.next(&[look(10, 0.004)]), Decision::Confirm { until: 25 });
    assert_eq!(rule.next(&[look(10, 0.004), look(25, 0.005)]), Decision::Stop { reason: StopReason::Precision });
    assert_eq!(rule.next(&[look(30, 0.02), look(35, 0.009)]), Decision::Confirm { until: 40 });
    assert_eq!(
        rule.next(&[look(35, 0.009), look(40, 0.011)]),
        Decision::Continue { until: 45 },
        "the confirmation disagreed"
    );
}

#[test]
fn correlated_blocks_do_not_stop_a_study() {
    let doubtful = Look { independent: false, ..look(30, 0.001) };
    assert_eq!(StoppingRule::new(0.01, 100).next(&[doubtful]), Decision::Continue { until: 35 });
}

#[test]
fn the_budget_ends_everything() {
    let rule = StoppingRule::new(0.01, 23);
    assert_eq!(rule.next(&[look(20, 0.02)]), Decision::Continue { until: 23 });
    assert_eq!(rule.next(&[look(20, 0.004)]), Decision::Confirm { until: 23 });
    assert_eq!(rule.next(&[look(20, 0.004), look(23, 0.004)]), Decision::Stop { reason: StopReason::Budget });
    assert_eq!(StoppingRule::new(0.01, 6).next(&[]), Decision::Continue { until: 6 });
    assert_eq!(StoppingRule::quick(0.01).next(&[look(10, 9.0)]), Decision::Stop { reason: StopReason::Fewest });
}

#[test]
fn prices() {
    // t(33) = 2.0345: 34 blocks of 2.86 % noise give ±1 %
    assert_eq!(blocks_for(0.0286, 0.01, 0.95), Some(34));
    assert!(half_width_for(0.0286, 33, 0.95).unwrap() > 0.01);
    assert_eq!(half_width_for(0.01, 2, 0.95), None);
    assert_eq!(blocks_for(0.01, 0.0, 0.95), None);
    assert_eq!(blocks_for(0.0, 0.01, 0.95), Some(3));
    let noise = Noise { sd: 0.0286, seconds_per_block: 7.0 };
    let priced = price(noise, 0.01, 0.95, &StoppingRule::new(0.01, 1000)).unwrap();
    assert_eq!((priced.blocks, priced.blocks_with_confirmation, priced.seconds), (35, 40, 280.0));
    assert!((precision_within(noise, 60.0, 0.95).unwrap() - 0.0242).abs() < 0.0002);
    assert_eq!(precision_within(noise, 20.0, 0.95), None, "two blocks say nothing");
}

fn log_ratios() -> impl Strategy<Value = Vec<f64>> {
    (0u64..u64::MAX, 10usize..60, -0.05f64..0.05, 0.0f64..0.9).prop_map(|(seed, n, centre, memory)| {
        let mut rng = Rng::new(seed);
        let mut state = 0.0;
        (0..n)
            .map(|_| {
                state = memory * state + 0.01 * rng.normal();
                centre + state
            })
            .collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn interval_and_verdict_never_contradict(
        family in prop::collection::vec(log_ratios(), 1..8), delta in 0.001f64..0.1
    ) {
        let ratios: Vec<PairedRatio> = family.iter().map(|blocks| PairedRatio::new(blocks).unwrap()).collect();
        let judged = judge(&ratios.iter().map(|ratio| (ratio, delta)).collect::<Vec<_>>(), 0.05);
        prop_assert!(judged.confidence >= 0.95 - 1e-12);
        let band = delta.ln_1p();
        for (one, ratio) in judged.judged.iter().zip(&ratios) {
            let inside = one.interval.is_some_and(|i| i.lo >= -band && i.hi <= band);
            let beyond = one.interval.is_some_and(|i| i.lo > band || i.hi < -band);
            let zero = one.interval.is_some_and(|i| i.contains(0.0));
            match one.verdict {
                Verdict::DiffersByMore => prop_assert!(beyond && !zero),
                Verdict::DiffersByLess => prop_assert!(inside && !zero),
                Verdict::Equivalent => prop_assert!(inside && zero),
                Verdict::Undecided { reason: Reason::NotIndependent, .. } => {
                    prop_assert_eq!(ratio.independence(), Independence::Rejected);
                }
                Verdict::Undecided { .. } => {}
            }
            let declared = one.p_value <= 1.0 - judged.confidence;
            prop_assert_eq!(declared, one.interval.is_some() && !zero, "p {} {:?}", one.p_value, one.interval);
        }
    }

    #[test]
    fn shifting_all_blocks_shifts_the_interval(blocks in log_ratios(), shift in -1.0f64..1.0) {
        let moved: Vec<f64> = blocks.iter().map(|v| v + shift).collect();
        let (here, there) = (PairedRatio::new(&blocks).unwrap(), PairedRatio::new(&moved).unwrap());
        prop_assert_eq!(here.estimator(), there.estimator());
        let (a, b) = (here.interval(0.95), there.interval(0.95));
        prop_assert_eq!(a.is_some(), b.is_some());
        if let Some((a, b)) = a.zip(b) {
            prop_assert!((a.lo + shift - b.lo).abs() < 1e-9 && (a.hi + shift - b.hi).abs() < 1e-9);
        }
    }

    #[test]
    fn exchanging_the_arms_mirrors_everything(blocks in log_ratios(), delta in 0.001f64..0.1) {
        let mirrored: Vec<f64> = blocks.iter().map(|v| -v).collect();
        let (a, b) = (PairedRatio::new(&blocks).unwrap(), PairedRatio::new(&mirrored).unwrap());
        prop_assert_eq!(verdict(&a, 0.95, delta), verdict(&b, 0.95, delta));
        for estimator in [Estimator::Mean, Estimator::Median, Estimator::HodgesLehmann] {
            let (a, b) = (a.interval_by(estimator, 0.9).unwrap(), b.interval_by(estimator, 0.9).unwrap());
            prop_assert!((a.lo + b.hi).abs() < 1e-12 && (a.hi + b.lo).abs() < 1e-12);
        }
    }

    #[test]
    fn more_confidence_is_a_longer_interval(blocks in log_ratios()) {
        for interval in [mean_interval, median_interval] {
            let (short, long) = (interval(&blocks, 0.8).unwrap(), interval(&blocks, 0.99).unwrap());
            prop_assert!(long.lo <= short.lo && short.hi <= long.hi);
            prop_assert!(short.contains(short.centre) && long.coverage >= 0.99);
        }
    }

    #[test]
    fn every_study_ends(
        widths in prop::collection::vec((0.0f64..0.05, any::<bool>()), 100), budget in 1u32..300
    ) {
        let rule = StoppingRule::new(0.01, budget);
        let mut looks: Vec<Look> = Vec::new();
        for (half_width, independent) in widths {
            let blocks = match rule.next(&looks) {
                Decision::Continue { until } | Decision::Confirm { until } => until,
                Decision::Stop { reason } => {
                    let last = looks.last().unwrap();
                    prop_assert!(reason == StopReason::Budget || (last.blocks >= 25 && rule.met(last)));
                    return Ok(());
                }
            };
            prop_assert!(blocks <= budget && looks.last().is_none_or(|look| look.blocks < blocks));
            looks.push(Look { blocks, half_width, independent });
        }
        prop_assert!(false, "did not stop");
    }
}
