//! The one estimate behind headline, stopping, verdict and explanation: Hodges and Lehmann's, with one interval.
//!
//! **Estimand.** The pseudo-median of the blocks: the median of the mean of two independent blocks. For a symmetric
//! distribution it is the centre, and so the mean; for log ratios, `exp` of it is the ratio that is printed.
//!
//! **Why this one.** docs/statistics.md compares it with the mean and Student's t, the 20 % trimmed mean and the exact
//! signed-rank interval (printed by the example `coverage`). On normal blocks it costs 5 to 9 % of width; with one slow trial
//! in twenty it is four times shorter than the t interval from 8 blocks on. The trimmed mean is wider on normal blocks, and
//! the exact interval does not exist for few blocks or high confidence. One block moves a mean by any amount; this estimate is
//! moved so when 29 % of the blocks are bad (Hodges & Lehmann 1963), and its interval when about one in six is. Nothing is
//! chosen by looking at the data.
//!
//! **Interval.** centre - t·below to centre + t·above, with t the two-sided quantile of Student's distribution. The
//! scales follow Lehmann (1963): the distance from the centre to the ends of the 80 % interval of Wilcoxon's signed-rank
//! test, divided by 1.28 ([`REACH`]). Ends at 80 % lie inside the blocks even where 95 % ends would not, so that few
//! blocks have an interval of any confidence and one bad block does not stretch it. Each side has its own scale, which
//! balances the two errors when blocks are skewed. Both are multiplied by
//! - the root of 12 times the variance of the rank scores, which is 1 when the blocks are symmetric (from
//!   [`long_run::FEWEST`] blocks on: 12 times their long-run variance, so that serial correlation lengthens the interval);
//! - a factor for few blocks, fitted to normal samples (`scale_factor`), and 1.02, because a study that ends when its
//!   interval is short ends a little too often when the spread happens to look small.
//!
//! The degrees of freedom are 0.7 (n - 1), 0.8 (n - 1) up to six blocks, or the number of cosines of the long-run
//! variance. The coverage under the stopping rule is in the crate's tests and in the table of the example `coverage`.

use crate::estimate::sorted;
use crate::interval::Interval;
use crate::long_run::{self, long_run};
use crate::special::{normal_sf, student_sf, student_two_sided};
use crate::walsh;

/// Fewest blocks of an estimate with an interval.
pub const SMALLEST: usize = 4;
/// The normal quantile at 0.9: the ends of the 80 % interval from which the scales are read.
pub const REACH: f64 = 1.281_551_565_544_600_4;
/// What makes up for ending a study when its interval is short.
const STOPPING_ALLOWANCE: f64 = 1.02;

/// What an interval rests on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dependence {
    /// Below 30 blocks: successive blocks are taken to be independent. To be said where it matters.
    Assumed,
    /// From 30 blocks on: whatever serial correlation there is, is in the interval.
    Allowed,
}

/// The Hodges-Lehmann estimate alone: the median of the averages of two values, each with itself too (Hodges & Lehmann 1963).
/// Of one value it is that value, of two their mean. For printing where blocks are too few for an [`Estimate`]. `None`
/// without values or for one that is not finite.
pub fn centre(values: &[f64]) -> Option<f64> {
    let usable = !values.is_empty() && values.iter().all(|v| v.is_finite());
    usable.then(|| walsh::at(&sorted(values), middle_of(values.len())))
}

/// An estimate of location with everything its intervals and tests need. Values are of any one unit: natural log ratios,
/// differences, or levels.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// The Hodges-Lehmann estimate.
    pub centre: f64,
    /// Standard error toward smaller values.
    pub below: f64,
    /// Standard error toward larger values.
    pub above: f64,
    /// Degrees of freedom.
    pub freedom: f64,
    /// Blocks.
    pub units: usize,
    /// What the interval says of successive blocks.
    pub dependence: Dependence,
    /// Correlation of neighbouring blocks' rank scores; `None` below 8 blocks or if all are equal.
    pub lag1: Option<f64>,
}

impl Estimate {
    /// From one value a block, in the order measured. `None` below [`SMALLEST`] values or for one that is not finite.
    pub fn of(blocks: &[f64]) -> Option<Self> {
        let n = blocks.len();
        if n < SMALLEST || blocks.iter().any(|v| !v.is_finite()) {
            return None;
        }
        let ordered = sorted(blocks);
        let middle = middle_of(n);
        let reach = REACH * signed_rank_deviation(n);
        let centre = walsh::at(&ordered, middle);
        let scores = rank_scores(blocks, &ordered, centre);
        let (variance, freedom, dependence) = match long_run(&scores) {
            Some(found) => (found.variance, found.freedom, Dependence::Allowed),
            None => (plain_variance(&scores), freedom_of(n), Dependence::Assumed),
        };
        let factor = scale_factor(n) * (12.0 * variance).sqrt() / REACH;
        Some(Self {
            centre,
            below: factor * (centre - walsh::at(&ordered, middle - reach)),
            above: factor * (walsh::at(&ordered, middle + reach) - centre),
            freedom,
            units: n,
            dependence,
            lag1: lag1(&scores),
        })
    }

    /// The two-sided interval at this confidence, 0..1.
    pub fn interval(&self, confidence: f64) -> Interval {
        let factor = student_two_sided(confidence, self.freedom);
        Interval {
            centre: self.centre,
            lo: self.centre - factor * self.below,
            hi: self.centre + factor * self.above,
            confidence,
            units: self.units,
        }
    }

    /// Two-sided p value of the centre being `value`, dual to [`Self::interval`]: it is below 1 - confidence exactly when
    /// the interval excludes `value`.
    pub fn p_value(&self, value: f64) -> f64 {
        let distance = (self.centre - value).abs();
        match self.error_toward(value) {
            _ if distance == 0.0 => 1.0,
            error if error > 0.0 => 2.0 * student_sf(distance / error, self.freedom),
            _ => 0.0,
        }
    }

    /// The standard error on the side of the centre on which `value` lies.
    pub fn error_toward(&self, value: f64) -> f64 {
        if value < self.centre { self.below } else { self.above }
    }

    /// Spread of a block: the standard deviation of normal blocks that give such an interval on average. What a price is
    /// worked out from ([`crate::precision`]).
    pub fn noise(&self) -> f64 {
        0.5 * (self.below + self.above) * (self.units as f64).sqrt() / mean_scale(self.units)
    }

    /// Whether neighbouring blocks are visibly correlated: lag-1 correlation above what independent blocks exceed in one
    /// study of a hundred (Moran 1948). Where it is true and [`Dependence::Assumed`], an interval is shorter than it should
    /// be. `false` below 8 blocks, which cannot tell.
    pub fn visibly_correlated(&self) -> bool {
        let n = self.units as f64;
        let deviation = (n - 2.0) / (n * (n - 1.0).sqrt());
        self.lag1.is_some_and(|lag1| normal_sf((lag1 + 1.0 / n) / deviation) < 0.01)
    }
}

/// √(π/3): standard error of the Hodges-Lehmann estimate over that of the mean, for normal blocks.
const NORMAL_INEFFICIENCY: f64 = 1.023_326_707_946_488_5;

/// Half-width of the interval of `blocks` independent normal blocks of standard deviation 1, on average. `None` below
/// [`SMALLEST`].
pub(crate) fn expected_half_width(blocks: usize, confidence: f64) -> Option<f64> {
    let factor = student_two_sided(confidence, freedom(blocks)) * mean_scale(blocks);
    (blocks >= SMALLEST).then(|| factor / (blocks as f64).sqrt())
}

/// Mean of √n times the standard errors of n normal blocks of standard deviation 1 (fitted; test
/// `expected_widths_are_those_of_normal_samples`).
fn mean_scale(n: usize) -> f64 {
    let few = 1.0 + 0.6 / n as f64;
    let few_cosines = if n < long_run::FEWEST { 1.0 } else { 1.0 - 0.25 / long_run::cosines(n) };
    scale_factor(n) * NORMAL_INEFFICIENCY * few * few_cosines
}

/// Position of the median among the Walsh averages of `n` values.
fn middle_of(n: usize) -> f64 {
    0.5 * walsh::count(n) as f64 - 0.5
}

/// Standard deviation of Wilcoxon's signed-rank sum: √(n(n+1)(2n+1)/24).
fn signed_rank_deviation(n: usize) -> f64 {
    let n = n as f64;
    (n * (n + 1.0) * (2.0 * n + 1.0) / 24.0).sqrt()
}

/// Fitted so that the interval of n independent normal values covers as it says at 90 to 99.8 % (test
/// `the_scale_is_that_of_normal_samples`).
fn scale_factor(n: usize) -> f64 {
    let fitted = match n {
        ..=4 => 0.755,
        5 => 0.762,
        6 => 0.825,
        7 => 0.827,
        _ => 1.0 - 1.1 / n as f64,
    };
    fitted * STOPPING_ALLOWANCE
}

/// Degrees of freedom of the interval of `n` values.
pub(crate) fn freedom(n: usize) -> f64 {
    if n < long_run::FEWEST { freedom_of(n) } else { long_run::cosines(n) }
}

fn freedom_of(n: usize) -> f64 {
    let share = if n <= 6 { 0.8 } else { 0.7 };
    share * (n as f64 - 1.0)
}

/// For each block the share of blocks y with x + y above twice the centre, less 1/2: the influence of a block on the
/// estimate, up to a factor. Uniform on ±1/2, with variance 1/12, when the blocks are symmetric. Sums that equal twice the
/// centre up to a billionth of the range count half, whatever was lost in the last digit.
fn rank_scores(blocks: &[f64], ordered: &[f64], centre: f64) -> Vec<f64> {
    let n = blocks.len() as f64;
    let equal = 1e-9 * (ordered[ordered.len() - 1] - ordered[0]);
    let score = |x: &f64| {
        let mirrored = 2.0 * centre - x;
        let below = ordered.partition_point(|y| *y < mirrored - equal);
        let upto = ordered.partition_point(|y| *y <= mirrored + equal);
        0.5 - 0.5 * (below + upto) as f64 / n
    };
    blocks.iter().map(score).collect()
}

/// Mean square of the scores, made 1/12 for the scores of n symmetric blocks without ties.
fn plain_variance(scores: &[f64]) -> f64 {
    let n = scores.len() as f64;
    scores.iter().map(|score| score * score).sum::<f64>() / n / (1.0 - 1.0 / (n * n))
}

fn lag1(scores: &[f64]) -> Option<f64> {
    let squares: f64 = scores.iter().map(|score| score * score).sum();
    let products: f64 = scores.windows(2).map(|pair| pair[0] * pair[1]).sum();
    (scores.len() >= 8 && squares > 0.0).then(|| products / squares)
}
