//! The level at which an operation reaches its allowed share, from the windows of a search.
//!
//! Main estimate: a logistic curve of the share over the level, by maximum likelihood (iteratively reweighted least
//! squares, McCullagh & Nelder 1989), inverted at the allowed share. Other estimate, for the sensitivity line: isotonic
//! regression (Ayer et al. 1955) of the share by level, interpolated. With several operations the smallest level
//! counts.

use super::{Approach, Count, Window};
use crate::estimate::{mean, sd, sorted};
use crate::interval::Interval;
use crate::special::student_two_sided;

/// Fewest fresh trials for an interval that counts.
pub const FEWEST_TRIALS: usize = 3;

/// What the interval of a capacity knows of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Basis {
    /// At least [`FEWEST_TRIALS`] searches from a fresh start.
    FreshTrials,
    /// The windows of one search only: what differs between starts is not in it.
    WithinRun,
}

/// The largest level that keeps its limit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Capacity {
    /// The level, with its interval where there is one.
    pub level: f64,
    /// Interval of the level; within a run by the jackknife over windows.
    pub interval: Option<Interval>,
    /// What that interval knows of.
    pub basis: Basis,
}

/// Capacity from the windows of one search. `None` below 6 windows, when no or all operations are bad, or when the
/// share does not rise with the level: then there is no crossing to be found.
pub fn capacity(windows: &[Window], allowed: f64, confidence: f64) -> Option<Capacity> {
    if windows.len() < 6 {
        return None;
    }
    let level = crossing(windows, allowed)?;
    let interval = jackknife(windows, allowed, level, confidence);
    Some(Capacity { level, interval, basis: Basis::WithinRun })
}

/// Capacity over fresh trials: the geometric mean of their levels with a t interval of the logarithm. `None` below
/// [`FEWEST_TRIALS`] trials or for a level that is not positive.
pub fn over_trials(levels: &[f64], confidence: f64) -> Option<Capacity> {
    if levels.len() < FEWEST_TRIALS || levels.iter().any(|&level| level <= 0.0) {
        return None;
    }
    let logs: Vec<f64> = levels.iter().map(|level| level.ln()).collect();
    let (centre, n) = (mean(&logs)?, logs.len() as f64);
    // Searches are few and dear: three have no interval but that of Student.
    let half = student_two_sided(confidence, n - 1.0) * sd(&logs)? / n.sqrt();
    let interval = Interval { centre, lo: centre - half, hi: centre + half, confidence, units: logs.len() }.exp();
    Some(Capacity { level: interval.centre, interval: Some(interval), basis: Basis::FreshTrials })
}

/// ln(capacity reached from above / from below) of one search: below 0 the system remembers its overload. `None` if one
/// side alone gives no capacity.
pub fn hysteresis(windows: &[Window], allowed: f64) -> Option<f64> {
    let from = |side: Approach| -> Vec<Window> { windows.iter().copied().filter(|w| w.approach == side).collect() };
    let (above, below) = (crossing(&from(Approach::Above), allowed)?, crossing(&from(Approach::Below), allowed)?);
    (above > 0.0 && below > 0.0).then(|| (above / below).ln())
}

/// Where the fitted logistic curve reaches `allowed`.
fn crossing(windows: &[Window], allowed: f64) -> Option<f64> {
    let levels: Vec<f64> = windows.iter().map(|w| w.level).collect();
    let (centre, scale) = (mean(&levels)?, sd(&levels).filter(|&s| s > 0.0)?);
    let points: Vec<(f64, Count)> = windows.iter().map(|w| ((w.level - centre) / scale, w.count)).collect();
    let (intercept, slope) = logistic(&points)?;
    (slope > 0.0).then(|| centre + scale * (logit(allowed) - intercept) / slope)
}

/// Intercept and slope of logit(share) by iteratively reweighted least squares; `None` if it does not settle.
fn logistic(points: &[(f64, Count)]) -> Option<(f64, f64)> {
    let (bad, all) = points.iter().fold((0, 0), |(bad, all), (_, count)| (bad + count.bad, all + count.all));
    if bad == 0 || bad == all {
        return None;
    }
    let (mut a, mut b) = (logit(bad as f64 / all as f64), 0.0);
    for _ in 0..100 {
        let (mut s0, mut s1, mut s2, mut g0, mut g1) = (0.0, 0.0, 0.0, 0.0, 0.0);
        for (x, count) in points {
            let share = 1.0 / (1.0 + (-(a + b * x)).exp());
            let weight = count.all as f64 * share * (1.0 - share);
            let excess = count.bad as f64 - count.all as f64 * share;
            s0 += weight;
            s1 += weight * x;
            s2 += weight * x * x;
            g0 += excess;
            g1 += excess * x;
        }
        let determinant = s0 * s2 - s1 * s1;
        if !(determinant > 0.0 && determinant.is_finite()) {
            return None;
        }
        let steps = ((s2 * g0 - s1 * g1) / determinant, (s0 * g1 - s1 * g0) / determinant);
        a += steps.0.clamp(-2.0, 2.0);
        b += steps.1.clamp(-2.0, 2.0);
        if steps.0.abs() + steps.1.abs() < 1e-10 {
            return Some((a, b));
        }
    }
    None
}

fn logit(share: f64) -> f64 {
    (share / (1.0 - share)).ln()
}

/// Interval by leaving out each window in turn (Tukey 1958), t with one degree of freedom less than there are windows.
fn jackknife(windows: &[Window], allowed: f64, level: f64, confidence: f64) -> Option<Interval> {
    let n = windows.len() as f64;
    let without = |i: usize| -> Vec<Window> {
        windows.iter().enumerate().filter(|&(j, _)| j != i).map(|(_, window)| *window).collect()
    };
    let left_out: Option<Vec<f64>> = (0..windows.len()).map(|i| crossing(&without(i), allowed)).collect();
    let left_out = left_out?;
    let centre = mean(&left_out)?;
    let squares: f64 = left_out.iter().map(|v| (v - centre).powi(2)).sum();
    let half = student_two_sided(confidence, n - 1.0) * ((n - 1.0) / n * squares).sqrt();
    Some(Interval { centre: level, lo: level - half, hi: level + half, confidence, units: windows.len() })
}

/// Capacity by isotonic regression: the shares by level made monotone (pool adjacent violators), interpolated linearly at `allowed` between
/// neighbouring levels. `None` if the shares stay on one side of it.
pub fn capacity_isotonic(windows: &[Window], allowed: f64) -> Option<f64> {
    let mut levels = sorted(&windows.iter().map(|w| w.level).collect::<Vec<_>>());
    levels.dedup();
    let mut pools: Vec<Pool> = Vec::new();
    for level in levels {
        let mut pool = Pool::at(level, windows);
        while let Some(before) = pools.pop_if(|before| before.share() >= pool.share()) {
            pool = before.joined(&pool);
        }
        pools.push(pool);
    }
    let above = pools.iter().position(|pool| pool.share() > allowed)?;
    let (low, high) = (pools[..above].last()?, &pools[above]);
    let part = (allowed - low.share()) / (high.share() - low.share());
    Some(low.highest + part * (high.lowest - low.highest))
}

/// Neighbouring levels with a common share.
struct Pool {
    lowest: f64,
    highest: f64,
    bad: f64,
    all: f64,
}

impl Pool {
    fn at(level: f64, windows: &[Window]) -> Self {
        let here = windows.iter().filter(|w| w.level == level);
        let (bad, all) = here.fold((0.0, 0.0), |(b, a), w| (b + w.count.bad as f64, a + w.count.all as f64));
        Self { lowest: level, highest: level, bad, all }
    }

    fn joined(&self, next: &Self) -> Self {
        Self { lowest: self.lowest, highest: next.highest, bad: self.bad + next.bad, all: self.all + next.all }
    }

    fn share(&self) -> f64 {
        self.bad / self.all.max(f64::MIN_POSITIVE)
    }
}
