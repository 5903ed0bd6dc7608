//! The proof: thousands of studies a case, with fixed seeds, through the real stopping rule and the real judgement.
//!
//! `delta` is 10 %, far above the noise: every interval that excludes 1 could then become a "differs", so false ones
//! are counted at their worst. Lines are printed with `--nocapture`.

use baremark_stats::estimate::{mean, mean_interval};
use baremark_stats::pricing::{Noise, price};
use baremark_stats::shape::{Shape, shape};
use baremark_stats::{Independence, Interval, PairedRatio, Rng, StoppingRule, Verdict, judge};

use crate::machine::{Arm, Bench, Machine, NOISE};
use crate::studies::{Plan, Tally};

const SEED: u64 = 1;
const STUDIES: u64 = 3000;

fn plan(machine: Machine, arm: Arm) -> Plan {
    Plan { machine, arm, rule: StoppingRule::quick(0.01), delta: 0.1 }
}

/// Ten blocks without a look; an easy target, which the confirmation decides; a hard one, which the looks decide.
fn rules() -> [(&'static str, StoppingRule); 3] {
    [
        ("10 blocks", StoppingRule::quick(0.01)),
        ("to 1 %", StoppingRule::new(0.01, 60)),
        ("to 0.5 %", StoppingRule::new(0.005, 60)),
    ]
}

/// What confirmation is for: the standard rule, also with much budget.
fn confirming() -> [(&'static str, StoppingRule); 3] {
    let [_, easy, hard] = rules();
    [easy, hard, ("to 0.4 %, long", StoppingRule::new(0.004, 120))]
}

fn tally(name: &str, plan: &Plan, truth: (f64, f64)) -> Tally {
    let tally = Tally::of(plan, STUDIES, SEED, truth);
    println!("{}", tally.line(name));
    tally
}

/// Noise of the machine falls on both arms, and random order makes the log ratio symmetric: its centre is 0.
fn symmetric(name: &str, machine: Machine, coverage: bool) {
    for (goal, rule) in rules() {
        let name = format!("{name}, {goal}");
        let found = tally(&name, &plan(machine, Arm::Constant).with(rule), (0.0, 0.0));
        found.assert_few_false(&name);
        assert!(!coverage || (0.93..=0.97).contains(&found.coverage()), "{name}: coverage {}", found.coverage());
    }
}

#[test]
fn normal_noise() {
    symmetric("normal", Machine::Normal, true);
}

#[test]
fn log_normal_noise() {
    symmetric("log-normal", Machine::LogNormal, true);
}

#[test]
fn heavy_tails() {
    symmetric("t3", Machine::StudentT3, true);
}

#[test]
fn drift_within_blocks() {
    symmetric("drift in blocks", Machine::Drift, true);
}

#[test]
fn one_sided_noise() {
    symmetric("one-sided", Machine::OneSided, false);
}

#[test]
fn correlated_machine() {
    symmetric("AR(0.3)", Machine::Ar(0.3), true);
    symmetric("AR(0.6)", Machine::Ar(0.6), true);
    symmetric("random walk", Machine::Walk, true);
}

/// Only one arm suffers: skewed and bimodal log ratios, where the median's interval takes over.
fn lopsided(name: &str, machine: Machine, arm: Arm) {
    let truth = plan(machine, arm).truth(300_000, SEED);
    for (goal, rule) in confirming() {
        let name = format!("{name}, {goal}");
        let found = tally(&name, &plan(machine, arm).with(rule), truth);
        found.assert_few_false(&name);
        found.assert_medians_cover(&name);
    }
}

#[test]
fn skewed_arm() {
    lopsided("arm one-sided", Machine::Quiet, Arm::OneSided);
    lopsided("arm log-normal", Machine::Quiet, Arm::LogNormal);
}

#[test]
fn bimodal_arm() {
    lopsided("arm slow in 3 of 10", Machine::Normal, Arm::Modes(0.3));
    lopsided("arm slow in 1 of 2", Machine::Normal, Arm::Modes(0.5));
    lopsided("arm slow in 1 of 10", Machine::Normal, Arm::Modes(0.1));
}

/// The effect itself wanders from block to block: no randomisation helps, so no confident verdict may come out.
#[test]
fn wandering_effect() {
    for (phi, least_refused) in [(0.3, 0.0), (0.45, 0.5), (0.6, 0.7), (0.75, 0.9), (0.9, 0.9)] {
        for (goal, rule) in confirming() {
            let name = format!("effect AR({phi}), {goal}");
            let found = tally(&name, &plan(Machine::Quiet, Arm::Ar(phi)).with(rule), (0.0, 0.0));
            found.assert_few_false(&name);
            let refused = (found.not_independent + found.unproven) / found.studies;
            assert!(rule.budget_blocks > 60 || refused >= least_refused, "{name}: only {refused} undecided");
        }
    }
}

/// What hardly moves while a study lasts is an effect to that study, whatever it is over weeks: only runs at other times,
/// and the spread between them, can tell. Printed and bounded, so that nobody believes otherwise.
#[test]
fn what_stays_put_is_an_effect() {
    for (goal, rule) in confirming() {
        let name = format!("effect AR(0.98), {goal}");
        let found = tally(&name, &plan(Machine::Quiet, Arm::Ar(0.98)).with(rule), (0.0, 0.0));
        let share = found.false_differs / found.studies;
        assert!((0.05..0.2).contains(&share), "{name}: {share}");
    }
}

/// The known limit: few blocks cannot show that an effect does not wander, nor that it is not very skewed. What a
/// verdict on them is worth is printed here, bounded, and marked on every such study as assumed.
#[test]
fn limits_of_few_blocks() {
    // limits at 10 blocks and, where the budget ends a study early, at 15 and 20
    let cases = [
        ("effect AR(0.3)", Machine::Quiet, Arm::Ar(0.3), [0.06, 0.06, 0.06]),
        ("effect AR(0.6)", Machine::Quiet, Arm::Ar(0.6), [0.13, 0.08, 0.06]),
        ("effect AR(0.9)", Machine::Quiet, Arm::Ar(0.9), [0.40, 0.15, 0.09]),
        ("arm log-normal", Machine::Quiet, Arm::LogNormal, [0.09, 0.06, 0.06]),
        ("arm slow in 1 of 10", Machine::Normal, Arm::Modes(0.1), [0.06, 0.07, 0.06]),
    ];
    for (name, machine, arm, limits) in cases {
        let truth = plan(machine, arm).truth(300_000, SEED);
        for (blocks, limit) in [10, 15, 20].into_iter().zip(limits) {
            let rule = if blocks == 10 { StoppingRule::quick(0.01) } else { StoppingRule::new(1e-5, blocks) };
            let plan = plan(machine, arm).with(rule);
            let found = tally(&format!("{name}, {blocks} blocks"), &plan, truth);
            assert!(found.false_differs <= limit * found.studies, "{name}");
            let marked = (0..100).all(|study| plan.run(0.0, SEED, study).ratio.independence() != Independence::Shown);
            assert!(marked, "{name}: {blocks} blocks never show independence");
        }
    }
}

#[test]
fn two_percent_under_one_percent_noise() {
    let plan = plan(Machine::Normal, Arm::Constant);
    let found = (0..STUDIES).filter(|&study| differs(plan.run(1.02f64.ln(), SEED, study).judged.verdict)).count();
    println!("2 % under 1 % noise found in 10 blocks: {:.2} %", 100.0 * found as f64 / STUDIES as f64);
    assert!(found as f64 >= 0.95 * STUDIES as f64, "{found} of {STUDIES}");
}

fn differs(verdict: Verdict) -> bool {
    matches!(verdict, Verdict::DiffersByMore | Verdict::DiffersByLess)
}

/// The simulation can tell a bad rule from a good one: a t interval looked at after each block from 5 on.
#[test]
fn a_naive_rule_fails() {
    let (normal, correlated) =
        (naive(Machine::Normal, Arm::Constant, 0.006), naive(Machine::Quiet, Arm::Ar(0.6), 0.006));
    println!("a look after each block: normal covered {normal:.3}, effect AR(0.6) covered {correlated:.3}");
    assert!(normal < 0.93 && correlated < 0.75);
}

fn naive(machine: Machine, arm: Arm, half_width: f64) -> f64 {
    let covers = |study: u64| {
        let mut bench = Bench::new(machine, arm, SEED, study);
        let mut blocks: Vec<f64> = (0..4).map(|_| bench.block(0.0)).collect();
        let short = |interval: &Interval| interval.half_width() <= half_width;
        std::iter::repeat_with(|| {
            blocks.push(bench.block(0.0));
            mean_interval(&blocks, 0.95).unwrap()
        })
        .take(60)
        .find(short)
        .is_some_and(|interval| interval.contains(0.0))
    };
    (0..STUDIES).filter(|&study| covers(study)).count() as f64 / STUDIES as f64
}

#[test]
fn a_price_is_what_a_study_takes() {
    let rule = StoppingRule::new(0.004, 200);
    let noise = Noise { sd: NOISE, seconds_per_block: 2.0 };
    let priced = price(noise, 0.004, 0.95, &rule).unwrap();
    let taken = tally("price of 0.4 %", &plan(Machine::Normal, Arm::Constant).with(rule), (0.0, 0.0));
    let quotient = taken.blocks / taken.studies / f64::from(priced.blocks_with_confirmation);
    println!("priced {priced:?}, taken over priced {quotient:.3}");
    assert!((0.85..1.15).contains(&quotient), "{quotient}");
}

/// Twenty ratios, six of them with an effect: false ones among those declared, and coverage of the printed intervals.
#[test]
fn family_of_twenty() {
    let mut rng = Rng::new(SEED);
    let effect = |i: usize| if i < 6 { 0.008 } else { 0.0 };
    let (mut false_share, mut missed_share, studies) = (0.0, 0.0, 1500);
    for _ in 0..studies {
        let ratios: Vec<PairedRatio> = (0..20)
            .map(|i| PairedRatio::new(&(0..25).map(|_| effect(i) + NOISE * rng.normal()).collect::<Vec<_>>()).unwrap())
            .collect();
        let family = judge(&ratios.iter().map(|ratio| (ratio, 0.1)).collect::<Vec<_>>(), 0.05);
        let declared: Vec<usize> = (0..20).filter(|&i| differs(family.judged[i].verdict)).collect();
        let among = declared.len().max(1) as f64;
        false_share += declared.iter().filter(|&&i| effect(i) == 0.0).count() as f64 / among;
        let missed = |&&i: &&usize| !family.judged[i].interval.unwrap().contains(effect(i));
        missed_share += declared.iter().filter(missed).count() as f64 / among;
    }
    let rate = |sum: f64| sum / f64::from(studies);
    println!("20 ratios: false discovery rate {:.4}, false coverage rate {:.4}", rate(false_share), rate(missed_share));
    assert!(rate(false_share) <= 0.055 && rate(missed_share) <= 0.055);
    assert!(mean(&[rate(false_share)]).is_some_and(|share| share > 0.0), "some are false, or nothing was tested");
}

/// The threshold for two modes is a fitted formula: one normal sample in a hundred falls below it, whatever its size.
#[test]
fn normal_samples_are_seldom_called_bimodal() {
    let mut rng = Rng::new(SEED);
    for n in [10, 15, 25, 40, 100] {
        let mut called = || shape(&(0..n).map(|_| rng.normal()).collect::<Vec<_>>()) == Shape::Bimodal;
        let share = (0..10_000).filter(|_| called()).count() as f64 / 10_000.0;
        println!("normal samples of {n} called bimodal: {:.2} %", 100.0 * share);
        assert!((0.006..0.016).contains(&share), "{n}: {share}");
    }
}
