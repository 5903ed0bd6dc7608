//! Simulated studies: blocks with a known truth, run through the real rule, estimate and judgement. Shared by the tests and
//! the example `coverage`, so that the table of the documentation is what is tested.

use baremark_stats::interim::{Analysis, Rule, Step};
use baremark_stats::location::Estimate;
use baremark_stats::multiplicity::{Claim, judge_study};
use baremark_stats::outcome::Better;
use baremark_stats::{Rng, quads};
use std::sync::OnceLock;

/// Standard deviation of the log of one arm's trial.
pub const SD: f64 = 0.01;
/// The sizes of the contract.
pub const SIZES: [u32; 5] = [4, 6, 10, 30, 200];
/// Seed of all simulations.
pub const SEED: u64 = 16;

/// What disturbs a block's log ratio.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Noise {
    /// Normal logs in both arms.
    Normal,
    /// Both arms are delayed by log-normal times of large skewness.
    LogNormal,
    /// In one of twenty trials, of either arm, everything takes 1.3 times as long.
    Slow,
    /// The machine's speed is a random walk from phase to phase, common to both arms: five quads a trial, ABBA or BAAB.
    Drift,
    /// Only one arm suffers log-normal delays.
    LogNormalArm,
    /// Only one arm has the slow trials.
    SlowArm,
    /// Normal logs, and the ratio itself wanders: a first-order autoregression from block to block.
    Ar(f64),
}

impl Noise {
    /// The noises of which the contract bounds the coverage at every size.
    pub const INDEPENDENT: [Noise; 4] = [Noise::Normal, Noise::LogNormal, Noise::Slow, Noise::Drift];
    /// Skewed log ratios, whose pseudo-median is neither mean nor mode.
    pub const SKEWED: [Noise; 2] = [Noise::LogNormalArm, Noise::SlowArm];
    /// Correlated blocks.
    pub const CORRELATED: [Noise; 2] = [Noise::Ar(0.5), Noise::Ar(0.8)];

    /// The name in tables.
    pub fn name(self) -> String {
        match self {
            Noise::Normal => "normal".to_owned(),
            Noise::LogNormal => "log-normal delays".to_owned(),
            Noise::Slow => "5 % of trials 1.3 times slower".to_owned(),
            Noise::Drift => "random-walk drift".to_owned(),
            Noise::LogNormalArm => "log-normal delays, one arm only".to_owned(),
            Noise::SlowArm => "5 % slow trials, one arm only".to_owned(),
            Noise::Ar(phi) => format!("AR({phi})"),
        }
    }

    /// The true pseudo-median: 0 by symmetry, or the mean of those of large samples (standard error 0.00002), worked out once.
    pub fn truth(self) -> f64 {
        static TRUTHS: [OnceLock<f64>; Noise::SKEWED.len()] = [const { OnceLock::new() }; Noise::SKEWED.len()];
        let of_sample = |study: u64| {
            let mut source = Source::new(self, u64::MAX - study);
            let sample: Vec<f64> = (0..1_000).map(|_| source.block()).collect();
            Estimate::of(&sample).unwrap().centre
        };
        let skewed = Noise::SKEWED.iter().position(|noise| *noise == self);
        let large = || (0..200).map(of_sample).sum::<f64>() / 200.0;
        skewed.map_or(0.0, |index| *TRUTHS[index].get_or_init(large))
    }
}

/// Blocks of one study.
pub struct Source {
    rng: Rng,
    noise: Noise,
    state: f64,
}

impl Source {
    /// The blocks of study number `study`.
    pub fn new(noise: Noise, study: u64) -> Self {
        let mut rng = Rng::stream(SEED, study);
        let state = rng.normal();
        Self { rng, noise, state }
    }

    /// The next block's log ratio.
    pub fn block(&mut self) -> f64 {
        match self.noise {
            Noise::Normal => self.normal() - self.normal(),
            Noise::LogNormal => self.delayed() - self.delayed(),
            Noise::Slow => self.sometimes_slow() - self.sometimes_slow(),
            Noise::Drift => self.drifting_trial(),
            Noise::LogNormalArm => self.delayed() + 0.2 * self.normal(),
            Noise::SlowArm => self.sometimes_slow() - self.normal(),
            Noise::Ar(phi) => {
                self.state = phi * self.state + (1.0 - phi * phi).sqrt() * self.rng.normal();
                SD * 2f64.sqrt() * self.state
            }
        }
    }

    fn normal(&mut self) -> f64 {
        SD * self.rng.normal()
    }

    fn delayed(&mut self) -> f64 {
        (SD * self.rng.normal().exp()).ln_1p()
    }

    fn sometimes_slow(&mut self) -> f64 {
        let slow = if self.rng.uniform() < 0.05 { 1.3f64.ln() } else { 0.0 };
        self.normal() + slow
    }

    fn drifting_trial(&mut self) -> f64 {
        let mut quad = || {
            let begins = self.rng.below(2) == 1;
            let mut arms = [Vec::new(), Vec::new()];
            for place in 0..4 {
                self.state += SD * self.rng.normal();
                let first = begins == (place == 0 || place == 3);
                arms[usize::from(!first)].push((self.state + 0.1 * SD * self.rng.normal()).exp());
            }
            quads::log_ratio(&arms[0], &arms[1]).unwrap()
        };
        let quads: Vec<f64> = (0..5).map(|_| quad()).collect();
        // the walk itself cancels; brought back so that its exponential stays near 1
        self.state = 0.0;
        quads::summary(&quads).unwrap()
    }
}

/// How a study of some size is run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Start {
    /// Begins with 4 blocks and may end at any analysis up to the size.
    AtFour,
    /// The size is the study's smallest number of blocks; it may go on to twice as many.
    AtSize,
}

/// What many studies came to.
#[derive(Clone, Copy, Debug, Default)]
pub struct Coverage {
    /// Share whose 95 % interval holds the truth.
    pub covered: f64,
    /// Share in which a difference is shown although there is none.
    pub differs: f64,
    /// Mean blocks.
    pub blocks: f64,
    /// Mean number of analyses.
    pub analyses: f64,
}

/// Runs `studies` studies without a difference. The precision requested is `stretch` times the half-width that is typical of
/// `size` blocks: at 1, half of the studies meet it there, the worst case of optional stopping.
pub fn coverage(noise: Noise, size: u32, start: Start, stretch: f64, studies: u64) -> Coverage {
    let truth = noise.truth();
    let (smallest, budget) = match start {
        Start::AtFour => (4.min(size), size),
        Start::AtSize => (size, 2 * size),
    };
    let rule = Rule { half_width: stretch * typical_half_width(noise, size), smallest, budget };
    let mut sum = Coverage::default();
    for study in 0..studies {
        let (blocks, analyses) = run(noise, &rule, study);
        let moved: Vec<f64> = blocks.iter().map(|block| block - truth).collect();
        let judged = judge_study(&[Claim::of(&moved, rule.smallest as usize, 0.02, Better::Lower)], 0.05)[0];
        let share = |yes: bool| f64::from(u8::from(yes)) / studies as f64;
        sum.covered += share(judged.interval.unwrap().contains(0.0));
        sum.differs += share(judged.outcome.direction().is_some());
        sum.blocks += blocks.len() as f64 / studies as f64;
        sum.analyses += analyses as f64 / studies as f64;
    }
    sum
}

/// One study under the rule: its blocks, and the number of analyses.
fn run(noise: Noise, rule: &Rule, study: u64) -> (Vec<f64>, usize) {
    let mut source = Source::new(noise, study);
    let (mut blocks, mut analyses) = (Vec::new(), Vec::new());
    loop {
        match rule.next(&analyses) {
            Step::Measure { until } | Step::Confirm { until } => {
                blocks.extend((blocks.len()..until as usize).map(|_| source.block()));
            }
            Step::Stop { .. } => return (blocks, analyses.len()),
        }
        let estimate = Estimate::of(&blocks);
        analyses.push(Analysis::of(blocks.len() as u32, 0.95, [estimate.as_ref()]));
    }
}

/// The share of studies of `size` blocks without a difference whose interval covers the truth when each is extended to twice its blocks, at most
/// `most` times, as long as its interval does not show a difference: what somebody does who wants one. `rate` gives the error rate after so many
/// extensions.
pub fn coverage_extended(noise: Noise, size: usize, most: usize, rate: fn(usize) -> f64, studies: u64) -> f64 {
    let truth = noise.truth();
    let covers = |study: u64| {
        let mut source = Source::new(noise, (1 << 41) + study);
        let mut blocks: Vec<f64> = Vec::new();
        let mut extensions = 0;
        loop {
            blocks.extend((blocks.len()..size << extensions).map(|_| source.block() - truth));
            let interval = Estimate::of(&blocks).unwrap().interval(1.0 - rate(extensions));
            if extensions == most || !interval.contains(0.0) {
                return interval.contains(0.0);
            }
            extensions += 1;
        }
    };
    (0..studies).filter(|study| covers(*study)).count() as f64 / studies as f64
}

/// Median half-width of 101 studies of exactly `size` blocks.
fn typical_half_width(noise: Noise, size: u32) -> f64 {
    let half_width = |study: u64| {
        let mut source = Source::new(noise, (1 << 40) + study);
        let blocks: Vec<f64> = (0..size).map(|_| source.block()).collect();
        Estimate::of(&blocks).unwrap().interval(0.95).half_width()
    };
    let mut widths: Vec<f64> = (0..101).map(half_width).collect();
    widths.sort_by(f64::total_cmp);
    widths[50]
}
