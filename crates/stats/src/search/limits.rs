//! Whether one level keeps the limits of all operations, with one-sided limits over windows.
//!
//! An operation's limit is a share: "p95 below 200 ms" is "at most 5 % slower than 200 ms". The share over windows is a
//! ratio of sums (Cochran 1977, ch. 6), its standard error comes from the windows, so bursts inside a window count
//! once.

use super::Count;
use super::mean::tails_of_mean;
use crate::percentile::one_sided_floor;
use crate::special::{binomial_cdf, student_sf};

/// An operation at one level.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Operation<'a> {
    /// One count a window.
    pub windows: &'a [Count],
    /// Largest share of bad ones, 0..1.
    pub allowed: f64,
}

/// A mean with a ceiling at one level, such as a utilization.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MeanLimit<'a> {
    /// One mean a window.
    pub windows: &'a [f64],
    /// What it may be at most.
    pub ceiling: f64,
}

/// What can be said of a level.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LevelVerdict {
    /// Every operation's upper limit lies below what is allowed.
    Pass,
    /// These operations (by position) are above what is allowed, with Holm's correction.
    Fail(Vec<usize>),
    /// More windows are needed.
    Undecided,
    /// This operation has too few samples or windows to be judged.
    Insufficient {
        /// Position of the operation.
        operation: usize,
        /// Samples there are.
        have: u64,
        /// Samples needed.
        need: u64,
    },
}

impl LevelVerdict {
    /// Its name in documents.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            LevelVerdict::Pass => "pass",
            LevelVerdict::Fail(_) => "fail",
            LevelVerdict::Undecided => "undecided",
            LevelVerdict::Insufficient { .. } => "insufficient",
        }
    }
}

/// Judges a level; neither a false pass nor a false failure is to be more frequent than `alpha`. To pass, each
/// operation must (an intersection-union test needs no correction, Berger 1982), at half of `alpha`: shares of few
/// bursty windows are so skewed that the nominal level is reached only so. To fail, one must exceed its share with
/// Holm's (1979) correction.
///
/// Needs 3 windows and, per operation, so many samples that all of them good would show the share: the floors of
/// [`crate::percentile::sample_floor`], 72 for p95 at alpha 0.05.
pub fn judge_level(operations: &[Operation], alpha: f64) -> LevelVerdict {
    judge_limits(operations, &[], alpha)
}

/// [`judge_level`] with ceilings on means in addition to the shares; their positions follow those of the operations.
pub fn judge_limits(operations: &[Operation], means: &[MeanLimit], alpha: f64) -> LevelVerdict {
    let mut tests = Vec::with_capacity(operations.len() + means.len());
    for (position, operation) in operations.iter().enumerate() {
        let have = operation.windows.iter().map(|count| count.all).sum();
        let need = one_sided_floor(1.0 - operation.allowed, 0.5 * alpha);
        if have < need || operation.windows.len() < FEWEST_WINDOWS {
            return LevelVerdict::Insufficient { operation: position, have, need };
        }
        tests.push(tails(operation));
    }
    for (position, limit) in means.iter().enumerate() {
        let Some(tails) = tails_of_mean(limit.windows, limit.ceiling) else {
            let (have, need) = (limit.windows.len() as u64, FEWEST_WINDOWS as u64);
            return LevelVerdict::Insufficient { operation: operations.len() + position, have, need };
        };
        tests.push(tails);
    }
    let failed = holm(&tests.iter().map(|&(above, _)| above).collect::<Vec<_>>(), alpha);
    if !failed.is_empty() {
        return LevelVerdict::Fail(failed);
    }
    if !tests.is_empty() && tests.iter().all(|&(_, below)| below <= 0.5 * alpha) {
        return LevelVerdict::Pass;
    }
    LevelVerdict::Undecided
}

const FEWEST_WINDOWS: usize = 3;

/// One-sided p values of "at most the allowed share" and "at least the allowed share". Each is the larger of the t test
/// over windows and the binomial test over samples: windows that all show nothing have no spread, but are not
/// infinitely sure.
///
/// Bursts make shares skewed to the right, so that few windows with a small share also show too small a spread, and on
/// the plain scale a level right at its limit passes too often. The test of failing therefore compares
/// logarithms; the test of passing takes the spread in proportion to the share, as it would be at the allowed share.
fn tails(operation: &Operation) -> (f64, f64) {
    let bad: u64 = operation.windows.iter().map(|count| count.bad).sum();
    let all: u64 = operation.windows.iter().map(|count| count.all).sum();
    let share = bad as f64 / all as f64;
    let windows = operation.windows.len() as f64;
    let residuals: f64 =
        operation.windows.iter().map(|count| (count.bad as f64 - share * count.all as f64).powi(2)).sum();
    let error = (residuals * windows / (windows - 1.0)).sqrt() / all as f64;
    let relative = share / operation.allowed;
    let by_windows = |excess: f64| if error > 0.0 { student_sf(excess * share / error, windows - 1.0) } else { 0.0 };
    let at_most = 1.0 - binomial_cdf(bad as i64 - 1, all, operation.allowed);
    let at_least = binomial_cdf(bad as i64, all, operation.allowed);
    (by_windows(relative.ln()).max(at_most), by_windows((1.0 - relative) / relative.sqrt()).max(at_least))
}

/// Positions rejected by Holm's step-down procedure, in ascending order.
fn holm(p_values: &[f64], alpha: f64) -> Vec<usize> {
    let mut order: Vec<usize> = (0..p_values.len()).collect();
    order.sort_by(|&a, &b| p_values[a].total_cmp(&p_values[b]));
    let m = p_values.len();
    let rejected = order.iter().enumerate().take_while(|&(k, &i)| p_values[i] <= alpha / (m - k) as f64).count();
    order.truncate(rejected);
    order.sort_unstable();
    order
}
