//! How long a study will take: its stopping rule, played with the noise of a pilot.
//!
//! A pilot knows the noise of a block only roughly, and a study that stops on precision takes more blocks when its own
//! spread happens to look large. Both are in the forecast: each of many simulated studies draws its noise from what the pilot
//! leaves possible, then runs the stopping rule with interim analyses and confirmation on normal blocks. What is returned are
//! quantiles of the blocks that those studies took.

use crate::estimate::mean;
use crate::interim::{Analysis, Rule, Step};
use crate::location::{Estimate, expected_half_width, freedom};
use crate::long_run;
use crate::quads;
use crate::rng::Rng;

/// Studies that are simulated.
const STUDIES: usize = 200;
/// From so many blocks on a simulated analysis draws its width instead of computing it from simulated blocks.
const COMPUTED: u32 = 400;
/// The confidence of a study's intervals.
const CONFIDENCE: f64 = 0.95;
/// How many degrees of freedom quads may add for each that blocks have: that trials add nothing to quads is never certain.
const MOST_BORROWED: f64 = 1.0;

/// The noise of a block's log ratio: how large, and how well that is known.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Noise {
    /// Standard deviation of normal blocks that give such intervals.
    pub deviation: f64,
    /// Degrees of freedom of its square.
    pub freedom: f64,
}

impl Noise {
    /// From a pilot: one log ratio for each block, and the log ratios of the quads of each block, where there are any.
    ///
    /// What quads vary inside their trials is known far better than what blocks vary. Where blocks do not vary visibly more
    /// than the trimmed means of their quads should, the two are pooled (Bancroft 1944: a preliminary test at 10 %). From 30
    /// blocks on the noise is that of parts of fewer, because the long-run variance of so few is known badly. `None`
    /// where the blocks have no estimate (fewer than four) or do not vary.
    pub fn of(blocks: &[f64], quads: &[Vec<f64>]) -> Option<Self> {
        let parts = blocks.len().div_ceil(long_run::FEWEST - 1);
        let squares: Option<Vec<f64>> = blocks
            .chunks(blocks.len().div_ceil(parts.max(1)).max(1))
            .map(|part| Some(Estimate::of(part)?.noise().powi(2)))
            .collect();
        let own = mean(&squares?)?;
        let known = 0.7 * (blocks.len() - parts) as f64;
        let within: Vec<(f64, f64)> = quads.iter().filter_map(|quads| variance_of_trimmed_mean(quads)).collect();
        let expected = mean(&within.iter().map(|(variance, _)| *variance).collect::<Vec<_>>());
        let visibly_more = |expected: f64| own > expected * (1.0 + 1.28 * (2.0 / known).sqrt());
        let (square, freedom) = match expected.filter(|expected| *expected > 0.0 && !visibly_more(*expected)) {
            Some(expected) => {
                let borrowed = within.iter().map(|(_, freedom)| freedom).sum::<f64>().min(MOST_BORROWED * known);
                ((known * own + borrowed * expected) / (known + borrowed), known + borrowed)
            }
            None => (own, known),
        };
        (square > 0.0).then(|| Self { deviation: square.sqrt(), freedom })
    }

    /// A deviation that the pilot leaves possible: its square times the degrees of freedom over a chi-squared draw.
    fn drawn(&self, rng: &mut Rng) -> f64 {
        self.deviation * (self.freedom / chi_squared(self.freedom, rng)).sqrt()
    }
}

/// Variance of the 20 % trimmed mean of `quads`, with its degrees of freedom ([`quads::variance`]).
fn variance_of_trimmed_mean(of: &[f64]) -> Option<(f64, f64)> {
    let n = of.len();
    let cut = (quads::TRIMMED * n as f64).floor() as usize;
    Some((quads::variance(of)? / n as f64, (n - 2 * cut) as f64 - 1.0))
}

/// Blocks of simulated studies: half of them took at most `blocks`, one in ten at most `low`, nine in ten at most `high`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Forecast {
    /// The median.
    pub blocks: u32,
    /// The first decile.
    pub low: u32,
    /// The ninth.
    pub high: u32,
}

/// How many blocks a study of ratios with these noises takes by `rule`. The same arguments give the same forecast. `None`
/// without a ratio, and where half of the studies use up the rule's budget.
pub fn forecast(noises: &[Noise], rule: &Rule) -> Option<Forecast> {
    let studies = (0..STUDIES).map(|study| {
        let mut rng = Rng::stream(1, study as u64);
        let deviations: Vec<f64> = noises.iter().map(|noise| noise.drawn(&mut rng)).collect();
        taken(&deviations, rule, &mut rng)
    });
    let mut blocks: Vec<u32> = studies.collect();
    blocks.sort_unstable();
    let [low, median, high] = [STUDIES / 10, STUDIES / 2, STUDIES - 1 - STUDIES / 10].map(|rank| blocks[rank]);
    let reached = !noises.is_empty() && median < rule.budget;
    reached.then_some(Forecast { blocks: median, low, high })
}

/// The blocks that one simulated study of ratios with these deviations takes.
pub fn taken(deviations: &[f64], rule: &Rule, rng: &mut Rng) -> u32 {
    let mut blocks: Vec<Vec<f64>> = vec![Vec::new(); deviations.len()];
    let mut analyses: Vec<Analysis> = Vec::new();
    loop {
        let until = match rule.next(&analyses) {
            Step::Measure { until } | Step::Confirm { until } => until,
            Step::Stop { .. } => return analyses.last().map_or(0, |analysis| analysis.blocks),
        };
        let width = |(of, deviation): (&mut Vec<f64>, &f64)| match until <= COMPUTED {
            true => {
                of.extend((of.len()..until as usize).map(|_| deviation * rng.normal()));
                Estimate::of(of).map_or(f64::INFINITY, |estimate| estimate.interval(CONFIDENCE).half_width())
            }
            false => deviation * drawn_width(until as usize, rng),
        };
        let half_width = blocks.iter_mut().zip(deviations).map(width).fold(0.0, f64::max);
        analyses.push(Analysis { blocks: until, half_width, correlated: false });
    }
}

/// A half-width of `n` independent normal blocks of deviation 1, as scales of so many degrees of freedom vary.
fn drawn_width(n: usize, rng: &mut Rng) -> f64 {
    let freedom = freedom(n);
    expected_half_width(n, CONFIDENCE)
        .map_or(f64::INFINITY, |width| width * (chi_squared(freedom, rng) / freedom).sqrt())
}

/// A draw of the chi-squared distribution, by Wilson and Hilferty's (1931) normal approximation of its cube root.
fn chi_squared(freedom: f64, rng: &mut Rng) -> f64 {
    let spread = 2.0 / (9.0 * freedom);
    freedom * (1.0 - spread + spread.sqrt() * rng.normal()).max(0.05).powi(3)
}
