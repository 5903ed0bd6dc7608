//! The rule, the outcomes, and the ratios of a study judged together.

use baremark_stats::interim::{Analysis, Rule, Step, StopReason};
use baremark_stats::multiplicity::{Claim, holm, judge_study};
use baremark_stats::outcome::{Better, Direction, Lack, Outcome, Size, Subject, Verdict, sharper_at};
use baremark_stats::precision::{blocks_for, blocks_to_reach, half_width_for, half_width_within};
use baremark_stats::{Estimate, Interval, Rng};
use proptest::prelude::*;

fn interval(lo: f64, hi: f64) -> Interval {
    let (lo, hi) = (f64::ln(lo), f64::ln(hi));
    let centre = 0.5 * (lo + hi);
    Interval { centre, lo, hi, confidence: 0.95, units: 10 }
}

fn verdict(lo: f64, hi: f64, better: Better, subject: Subject) -> Verdict {
    let interval = interval(lo, hi);
    Verdict::of(&Outcome::of(&interval, 0.02, better), Some(&interval), 0.02, better, subject)
}

#[test]
fn the_outcomes_in_words() {
    let words = |lo, hi, better| verdict(lo, hi, better, Subject::Speed).words;
    assert_eq!(words(0.99, 1.01, Better::Higher), "equivalent within 2 %");
    assert_eq!(words(0.99, 0.995, Better::Higher), "equivalent within 2 %", "a difference that does not matter");
    assert_eq!(words(0.90, 0.95, Better::Higher), "slower by 5 to 10 %");
    assert_eq!(words(0.90, 0.95, Better::Lower), "faster by 5 to 10 %");
    assert_eq!(words(0.959, 0.988, Better::Higher), "slower by 1.2 to 4.1 %");
    assert_eq!(words(1.0123, 1.0267, Better::Lower), "slower by 1.2 to 2.7 %");
    assert_eq!(words(1.01, 1.80, Better::Higher), "faster by 1 to 80 %");
    assert_eq!(words(0.59, 0.5936, Better::Higher), "slower by 40.64 to 41.00 %");
    assert_eq!(words(0.961, 0.9997, Better::Higher), "slower by 0.03 to 3.9 %", "zero would be no difference");
    assert_eq!(words(0.982, 1.025, Better::Higher), "inconclusive: from 1.8 % slower to 2.5 % faster");
    assert_eq!(words(0.982, 1.025, Better::Lower), "inconclusive: from 2.5 % slower to 1.8 % faster");
    assert_eq!(words(0.10, 2.70, Better::Higher), "inconclusive: from 90 % slower to 170 % faster");
    let lacks = |lack| Verdict::of(&Outcome::NotEnough(lack), None, 0.02, Better::Lower, Subject::Speed);
    assert_eq!(lacks(Lack::Blocks { have: 3, need: 4 }).words, "not enough data: 3 of 4 blocks");
    assert_eq!(lacks(Lack::Unusable).words, "not enough data: unusable values");
    assert_eq!(lacks(Lack::Unusable).size, Size::Unknown);
}

#[test]
fn a_large_difference_is_a_factor_and_an_amount_is_not_a_speed() {
    let of = |lo, hi, better, subject| {
        let Verdict { size, words, short } = verdict(lo, hi, better, subject);
        (size, words, short)
    };
    let says = |size, words: &str, short: &str| (size, words.to_owned(), short.to_owned());
    let (speed, amount) = (Subject::Speed, Subject::Amount);
    assert_eq!(
        of(1.5, 3.84, Better::Lower, speed),
        says(Size::Factor, "2.4 times as slow (95 %: 1.5 to 3.8)", "2.4 times as slow")
    );
    assert_eq!(of(0.46, 0.54, Better::Higher, speed).2, "half as fast");
    assert_eq!(of(0.46, 0.54, Better::Lower, speed).2, "twice as fast");
    assert_eq!(of(0.94, 0.96, Better::Higher, speed), says(Size::Percent, "slower by 4 to 6 %", "5 % slower"));
    assert_eq!(of(0.46, 0.98, Better::Lower, amount), says(Size::Percent, "lower by 2 to 54 %", "33 % lower"));
    assert_eq!(of(1.55, 1.69, Better::Lower, amount), says(Size::Percent, "higher by 55 to 69 %", "62 % higher"));
    assert_eq!(of(2.9, 3.1, Better::Higher, amount).1, "3.00 times as much (95 %: 2.90 to 3.10)");
    assert_eq!(of(0.9, 1.2, Better::Lower, amount).1, "inconclusive: from 10 % lower to 20 % higher");
}

#[test]
fn an_open_outcome_knows_what_would_sharpen_it() {
    let at = |lo, hi| sharper_at(&interval(lo, hi), 0.02);
    let band = 0.02f64.ln_1p();
    let wide = interval(0.97, 1.035);
    assert!((at(0.97, 1.035).unwrap() - (band - wide.centre)).abs() < 1e-12, "then it is inside the band");
    let far = interval(0.90, 1.01);
    assert!((at(0.90, 1.01).unwrap() - far.centre.abs()).abs() < 1e-12, "then it excludes 1");
    let across = interval(0.959, 0.988);
    assert!((at(0.959, 0.988).unwrap() - (across.centre.abs() - band)).abs() < 1e-12, "then it is beyond the band");
    assert_eq!([at(0.99, 1.01), at(0.90, 0.95)], [None, None]);
}

fn claim(blocks: &[f64]) -> Claim {
    Claim::of(blocks, 4, 0.1, Better::Lower)
}

#[test]
fn too_few_blocks_are_not_enough_data() {
    let judged = |blocks: &[f64], smallest| judge_study(&[Claim::of(blocks, smallest, 0.1, Better::Lower)], 0.05)[0];
    let lacking = |have, need| Outcome::NotEnough(Lack::Blocks { have, need });
    assert_eq!(judged(&[0.0; 5], 6).outcome, lacking(5, 6), "the study says what its smallest number is");
    assert_eq!(judged(&[0.0; 3], 2).outcome, lacking(3, 4));
    assert_eq!(judged(&[0.0, 0.0, 0.0, f64::NAN], 4).outcome, Outcome::NotEnough(Lack::Unusable));
    assert_eq!(judged(&[0.3; 4], 4).outcome, Outcome::Beyond { direction: Direction::Slower });
}

/// Twenty ratios, six of them with an effect: false ones among those shown, coverage of their intervals, and coverage of
/// all.
#[test]
fn a_study_of_twenty_ratios() {
    let mut rng = Rng::new(16);
    let effect = |i: usize| if i < 6 { 0.006 + 0.002 * i as f64 } else { 0.0 };
    let studies = 1_000;
    let (mut false_share, mut missed_share, mut missed, mut shown) = (0.0, 0.0, 0.0, 0.0);
    for _ in 0..studies {
        let mut blocks = |i| (0..12).map(|_| effect(i) + 0.01 * rng.normal()).collect::<Vec<_>>();
        let claims: Vec<Claim> = (0..20).map(|i| claim(&blocks(i))).collect();
        let judged = judge_study(&claims, 0.05);
        let declared: Vec<usize> = (0..20).filter(|&i| judged[i].outcome.direction().is_some()).collect();
        let among = declared.len().max(1) as f64;
        let misses = |&&i: &&usize| !judged[i].interval.unwrap().contains(effect(i));
        false_share += declared.iter().filter(|&&i| effect(i) == 0.0).count() as f64 / among;
        missed_share += declared.iter().filter(misses).count() as f64 / among;
        missed += (0..20).collect::<Vec<_>>().iter().filter(misses).count() as f64 / 20.0;
        shown += declared.iter().filter(|&&i| effect(i) > 0.0).count() as f64 / 6.0;
    }
    let rate = |sum: f64| sum / f64::from(studies);
    println!(
        "20 ratios: false discovery rate {:.4}, false coverage rate {:.4}, all intervals missed {:.4}, effects shown {:.3}",
        rate(false_share),
        rate(missed_share),
        rate(missed),
        rate(shown)
    );
    assert!((0.01..=0.055).contains(&rate(false_share)), "some are false, or nothing was tested");
    assert!(rate(missed_share) <= 0.055 && rate(missed) <= 0.055 && rate(shown) > 0.5);
}

#[test]
fn holm_rejects_step_by_step() {
    assert_eq!(holm(&[0.04, 0.01, 0.03], 0.05), [false, true, false], "0.03 is above 0.05/2, so 0.04 is not reached");
    assert_eq!(holm(&[0.02, 0.01, 0.03], 0.05), [true, true, true]);
    assert_eq!(holm(&[0.02, 0.017], 0.05), [true, true]);
    assert_eq!(holm(&[], 0.05), [false; 0]);
}

fn analysis(blocks: u32, half_width: f64) -> Analysis {
    Analysis { blocks, half_width, correlated: false }
}

#[test]
fn a_width_is_confirmed_once() {
    let rule = Rule::new(0.01, 4, 100);
    assert_eq!(rule.next(&[]), Step::Measure { until: 4 });
    let (met, missed) = (rule.half_width, 2.0 * rule.half_width);
    assert_eq!(rule.next(&[analysis(4, met)]), Step::Confirm { until: 6 });
    assert_eq!(rule.next(&[analysis(4, met), analysis(6, met)]), Step::Stop { reason: StopReason::Precision });
    assert_eq!(
        rule.next(&[analysis(4, met), analysis(5, met)]),
        Step::Confirm { until: 7 },
        "resumed: not a whole one"
    );
    assert_eq!(rule.next(&[analysis(4, met), analysis(6, missed)]), Step::Measure { until: 18 });
    assert_eq!(rule.next(&[analysis(30, met)]), Step::Confirm { until: 40 });
}

#[test]
fn the_next_analysis_is_where_the_width_is_expected() {
    let rule = Rule::new(0.01, 4, 100);
    let after = |blocks, times: f64| rule.next(&[analysis(blocks, times * rule.half_width)]);
    assert_eq!(after(20, 1.05), Step::Measure { until: 25 }, "a quarter more at least");
    assert_eq!(after(20, 1.4), Step::Measure { until: 40 });
    assert_eq!(after(20, 1.9), Step::Measure { until: 60 }, "three times at most");
    assert_eq!(after(20, f64::INFINITY), Step::Measure { until: 60 });
    assert_eq!(after(50, 1.9), Step::Measure { until: 100 }, "within the budget");
    assert_eq!(after(100, 1.9), Step::Stop { reason: StopReason::Budget });
}

#[test]
fn a_study_may_be_of_one_size_and_correlation_waits_for_thirty() {
    let fixed = Rule::new(0.01, 6, 6);
    assert_eq!(fixed.next(&[]), Step::Measure { until: 6 });
    assert_eq!(fixed.next(&[analysis(6, 0.001)]), Step::Stop { reason: StopReason::Budget });
    let rule = Rule::new(0.01, 4, 100);
    let correlated = |blocks| Analysis { correlated: true, ..analysis(blocks, 0.001) };
    assert_eq!(rule.next(&[correlated(20)]), Step::Measure { until: 25 });
    assert_eq!(rule.next(&[correlated(30)]), Step::Confirm { until: 40 });
}

#[test]
fn an_analysis_takes_the_longest_interval() {
    let [narrow, wide] = [0.001, 0.01]
        .map(|step| Estimate::of(&(0..10).map(|i| step * f64::from(i * 7 % 10)).collect::<Vec<_>>()).unwrap());
    let found = Analysis::of(10, 0.95, [Some(&narrow), Some(&wide)]);
    assert_eq!(found.half_width, wide.interval(0.95).half_width());
    assert_eq!(Analysis::of(10, 0.95, [Some(&narrow), None]).half_width, f64::INFINITY);
    assert_eq!(Analysis::of(10, 0.95, []).half_width, f64::INFINITY);
}

#[test]
fn blocks_and_widths_are_inverse() {
    for target in [0.02, 0.012, 0.009, 0.006, 0.004, 0.001] {
        let blocks = blocks_for(0.01, target, 0.95).unwrap();
        assert!(half_width_for(0.01, blocks, 0.95).unwrap() <= target);
        assert!(blocks == 4 || half_width_for(0.01, blocks - 1, 0.95).unwrap() > target, "{target}: {blocks}");
    }
    assert_eq!([blocks_for(0.01, 0.0, 0.95), blocks_for(0.01, 1e-9, 0.95)], [None, None]);
    assert_eq!(half_width_for(0.01, 3, 0.95), None);
    assert_eq!(half_width_within(0.01, 2.0, 0.95, 7.9), None, "three blocks have no interval");
    assert_eq!(half_width_within(0.01, 2.0, 0.95, 20.5), half_width_for(0.01, 10, 0.95));
}

#[test]
fn what_sharpens_an_interval_is_more_blocks() {
    let estimate = Estimate::of(&(0..12).map(|i| 0.001 * f64::from(i * 7 % 12)).collect::<Vec<_>>()).unwrap();
    let have = estimate.interval(0.95).half_width();
    assert_eq!(blocks_to_reach(&estimate, have, 0.95), Some(12));
    let more = blocks_to_reach(&estimate, 0.7 * have, 0.95).unwrap();
    assert!((18..30).contains(&more), "half the variance of the mean takes about twice the blocks: {more}");
    assert_eq!(blocks_to_reach(&estimate, 0.0, 0.95), None);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn an_outcome_never_contradicts_its_interval(lo in 0.8f64..1.2, length in 1.0f64..1.3, delta in 0.001f64..0.1) {
        let found = interval(lo, lo * length);
        let band = delta.ln_1p();
        let inside = -band <= found.lo && found.hi <= band;
        let outcome = Outcome::of(&found, delta, Better::Higher);
        prop_assert_eq!(outcome.direction().is_some(), !found.contains(0.0));
        prop_assert_eq!(matches!(outcome, Outcome::Equivalent { .. }), inside);
        prop_assert_eq!(matches!(outcome, Outcome::Beyond { .. }), found.lo > band || found.hi < -band);
        match Outcome::of(&found, delta, Better::Lower).direction() {
            None => prop_assert_eq!(outcome.direction(), None),
            other => prop_assert_ne!(outcome.direction(), other),
        }
        if let Some(half) = sharper_at(&found, delta) {
            let sharper = Interval { lo: found.centre - 0.999 * half, hi: found.centre + 0.999 * half, ..found };
            let after = Outcome::of(&sharper, delta, Better::Higher);
            prop_assert!(!matches!(after, Outcome::NoLarger { .. }), "{after:?}");
        }
    }

    #[test]
    fn a_printed_interval_decides(effects in prop::collection::vec(-0.02f64..0.02, 1..12), seed: u64) {
        let mut rng = Rng::new(seed);
        let mut blocks = |effect: f64| (0..8).map(|_| effect + 0.01 * rng.normal()).collect::<Vec<_>>();
        let claims: Vec<Claim> = effects.iter().map(|effect| claim(&blocks(*effect))).collect();
        let shown = judge_study(&claims, 0.05);
        let discoveries = shown.iter().filter(|judged| judged.outcome.direction().is_some()).count();
        for (claim, judged) in claims.iter().zip(shown) {
            let interval = judged.interval.unwrap();
            prop_assert!(interval.confidence >= 0.95 - 1e-12);
            prop_assert_eq!(Outcome::of(&interval, claim.delta, claim.better), judged.outcome);
            let level = 0.05 * discoveries.max(1) as f64 / claims.len() as f64;
            prop_assert_eq!(judged.outcome.direction().is_some(), judged.p_value.unwrap() < level);
        }
    }

    #[test]
    fn every_study_ends(widths in prop::collection::vec((0.0f64..0.05, any::<bool>()), 200), budget in 1u32..300) {
        let rule = Rule::new(0.01, 4, budget);
        let mut analyses: Vec<Analysis> = Vec::new();
        for (half_width, correlated) in widths {
            let blocks = match rule.next(&analyses) {
                Step::Measure { until } | Step::Confirm { until } => until,
                Step::Stop { reason } => {
                    let last = analyses.last().unwrap();
                    prop_assert!(reason == StopReason::Budget || rule.met(last));
                    prop_assert!(reason == StopReason::Precision || last.blocks == budget);
                    return Ok(());
                }
            };
            prop_assert!(blocks <= budget && analyses.last().is_none_or(|last| last.blocks < blocks));
            analyses.push(Analysis { blocks, half_width, correlated });
        }
        prop_assert!(false, "did not stop");
    }
}
