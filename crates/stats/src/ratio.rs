//! The paired ratio: what a study is about.
//!
//! Each block gives one log ratio of two arms (ln of the quotient of their trial medians). The estimand is the mean of
//! these logarithms, so the ratio printed is a geometric mean over blocks; it is the median of them when shape says
//! that a mean would mislead. Estimator and batching are chosen from shape and order alone, never from where the values
//! lie, so that shifting all of them shifts the interval and changes nothing else.

use crate::estimate::{mean, mean_interval, median, median_interval, median_sorted, sd, sorted};
use crate::interval::{Estimator, Interval};
use crate::serial::{Independence, SHOWN_INDEPENDENT, Serial, batch_means, batch_size, serial};
use crate::shape::{Shape, shape};
use crate::special::{binomial_cdf, normal_quantile, student_sf};

/// Fewest blocks on which a verdict may rest. Intervals exist from 3 on.
pub const SMALLEST_STUDY: usize = 10;

/// ln(median of `arm` / median of `reference`) of one block, from the repetitions of all its phases. `None` without
/// repetitions on either side or if a median is not positive.
pub fn block_log_ratio(arm: &[f64], reference: &[f64]) -> Option<f64> {
    let (above, below) = (median(arm)?, median(reference)?);
    (above > 0.0 && below > 0.0).then(|| (above / below).ln())
}

/// The log ratios of a pair of arms, one a block, in the order measured, with what was found out about them.
#[derive(Debug, Clone, PartialEq)]
pub struct PairedRatio {
    units: Vec<f64>,
    blocks: usize,
    batch: usize,
    shape: Shape,
    serial: Option<Serial>,
    independence: Independence,
}

impl PairedRatio {
    /// From ln(arm / reference) of each block, in order. `None` below 3 blocks or if a value is not finite.
    pub fn new(log_ratios: &[f64]) -> Option<Self> {
        if log_ratios.len() < 3 || log_ratios.iter().any(|v| !v.is_finite()) {
            return None;
        }
        let found = batch_size(log_ratios);
        let batch = found.unwrap_or(1);
        let units = batch_means(log_ratios, batch);
        Some(Self {
            blocks: log_ratios.len(),
            batch,
            shape: shape(&units),
            serial: serial(&units),
            independence: match found {
                None => Independence::Rejected,
                Some(1) if log_ratios.len() < SHOWN_INDEPENDENT => Independence::Assumed,
                Some(_) => Independence::Shown,
            },
            units,
        })
    }

    /// Blocks measured.
    pub fn blocks(&self) -> usize {
        self.blocks
    }

    /// Blocks a batch, 1 when the blocks stand for themselves.
    pub fn batch(&self) -> usize {
        self.batch
    }

    /// Log ratios of the units (blocks or batches) that the intervals rest on.
    pub fn units(&self) -> &[f64] {
        &self.units
    }

    /// Shape of the log ratios.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// Serial correlation of the units; `None` below 8 of them or if all are equal.
    pub fn serial(&self) -> Option<Serial> {
        self.serial
    }

    /// What is known about the independence of successive units; unless rejected, a verdict is possible.
    pub fn independence(&self) -> Independence {
        self.independence
    }

    /// The estimator that the shape calls for.
    pub fn estimator(&self) -> Estimator {
        match self.shape {
            Shape::Plain => Estimator::Mean,
            Shape::Skewed | Shape::Bimodal => Estimator::Median,
        }
    }

    /// The headline interval on the log scale, by [`Self::estimator`]. `None` when the units are too few for the median
    /// at this confidence, and when independence is rejected: such an interval covers far less than it says.
    pub fn interval(&self, confidence: f64) -> Option<Interval> {
        if self.independence == Independence::Rejected {
            return None;
        }
        self.interval_by(self.estimator(), confidence)
    }

    /// The interval by a given estimator: the sensitivity line asks for the others.
    pub fn interval_by(&self, estimator: Estimator, confidence: f64) -> Option<Interval> {
        match estimator {
            Estimator::Mean => mean_interval(&self.units, confidence),
            Estimator::Median => median_interval(&self.units, confidence),
            Estimator::HodgesLehmann => hodges_lehmann_interval(&self.units, confidence),
        }
    }

    /// The factor by which the interval must be lengthened for a verdict to survive undetected serial correlation.
    pub fn inflation(&self) -> f64 {
        self.serial.map_or(1.0, |found| found.inflation)
    }

    /// Half-width for the stopping rule: that of the t interval, whatever the estimator. It depends on the spread
    /// alone; an order-statistic interval of two modes is short just when the sample is lopsided, and stopping on it
    /// would pick the wrong samples.
    pub fn stopping_half_width(&self, confidence: f64) -> Option<f64> {
        Some(mean_interval(&self.units, confidence)?.half_width())
    }

    /// Two-sided p value of ratio 1, dual to [`Self::interval`]: p <= 1 - confidence exactly when the interval at that
    /// confidence excludes 0 (t test, or sign test for the median).
    pub fn p_value(&self) -> f64 {
        match self.estimator() {
            Estimator::Mean => self.t_test(),
            _ => sign_test(&self.units),
        }
    }

    fn t_test(&self) -> f64 {
        let n = self.units.len() as f64;
        let Some((centre, spread)) = mean(&self.units).zip(sd(&self.units)) else { return 1.0 };
        if spread <= 0.0 {
            return if centre == 0.0 { 1.0 } else { 0.0 };
        }
        2.0 * student_sf(centre.abs() * n.sqrt() / spread, n - 1.0)
    }
}

/// Sign test of median 0 (Arbuthnott 1710): twice the smaller binomial tail; zeros count against both sides.
fn sign_test(values: &[f64]) -> f64 {
    let not_above = values.iter().filter(|&&v| v <= 0.0).count();
    let not_below = values.iter().filter(|&&v| v >= 0.0).count();
    (2.0 * binomial_cdf(not_above.min(not_below) as i64, values.len() as u64, 0.5)).min(1.0)
}

/// Hodges and Lehmann's (1963) estimate, the median of all means of two, with the interval that inverts Wilcoxon's
/// signed-rank test (Tukey 1949). Needs symmetry, not normality. Exact distribution up to 60 values, normal
/// approximation beyond; smallest n where the extremes suffice, 6 at 95 %.
pub fn hodges_lehmann_interval(values: &[f64], confidence: f64) -> Option<Interval> {
    let n = values.len();
    let (rank, coverage) = signed_rank(n, confidence)?;
    let walsh = sorted(
        &(0..n)
            .flat_map(|i| (i..n).map(move |j| (i, j)))
            .map(|(i, j)| 0.5 * (values[i] + values[j]))
            .collect::<Vec<_>>(),
    );
    Some(Interval {
        centre: median_sorted(&walsh)?,
        lo: walsh[rank - 1],
        hi: walsh[walsh.len() - rank],
        confidence,
        coverage,
        units: n,
        estimator: Estimator::HodgesLehmann,
    })
}

/// Rank (from 1) among the n(n+1)/2 Walsh averages, and the coverage it gives.
fn signed_rank(n: usize, confidence: f64) -> Option<(usize, f64)> {
    let tail = 0.5 * (1.0 - confidence);
    if n > 60 {
        let n = n as f64;
        let centre = n * (n + 1.0) / 4.0;
        let spread = (n * (n + 1.0) * (2.0 * n + 1.0) / 24.0).sqrt();
        let rank = (centre + normal_quantile(tail) * spread).floor();
        return (rank >= 1.0).then_some((rank as usize, confidence));
    }
    let mut below = 0.0;
    let mut best = None;
    for (sum, chance) in signed_rank_chances(n).into_iter().enumerate() {
        below += chance;
        if below > tail + 1e-12 {
            break;
        }
        best = Some((sum + 1, 1.0 - 2.0 * below));
    }
    best
}

/// P(W = w) of Wilcoxon's signed-rank sum for w = 0, 1, ...: each rank counts with chance 1/2.
fn signed_rank_chances(n: usize) -> Vec<f64> {
    let mut chances = vec![0.0; n * (n + 1) / 2 + 1];
    chances[0] = 1.0;
    for rank in 1..=n {
        for sum in (0..chances.len()).rev() {
            let moved = if sum >= rank { chances[sum - rank] } else { 0.0 };
            chances[sum] = 0.5 * (chances[sum] + moved);
        }
    }
    chances
}
