//! Order statistics of the Walsh averages (x(i) + x(j))/2, i <= j, without forming all n(n+1)/2 of them.
//!
//! Random-pivot selection in the implicit sorted matrix (Monahan 1984): a round counts the averages below a pivot with
//! two pointers in O(n) and drops the rest, so that a rank is found in O(n log n) expected time and O(n) memory. The
//! pivots come from a fixed seed and do not change the result.

use crate::rng::Rng;

/// The value at the continuous 0-based `position` among the ascending Walsh averages of `sorted`, interpolated linearly
/// between neighbours and clamped to the ends. `sorted` is ascending, finite and not empty.
pub(crate) fn at(sorted: &[f64], position: f64) -> f64 {
    let last = count(sorted.len()) - 1;
    let position = position.clamp(0.0, last as f64);
    let rank = position.floor() as usize;
    let share = position - rank as f64;
    let (below, above) = select(sorted, rank);
    if share > 0.0 && rank < last { below + share * (above - below) } else { below }
}

/// Number of Walsh averages of `n` values: n(n+1)/2.
pub(crate) fn count(n: usize) -> usize {
    n * (n + 1) / 2
}

/// The Walsh average of 0-based `rank`, in ascending order, and the following one; after the last comes the last.
fn select(sorted: &[f64], rank: usize) -> (f64, f64) {
    let (found, following) = found(sorted, rank);
    let last = count(sorted.len()) - 1;
    (found, following.unwrap_or_else(|| if rank < last { self::found(sorted, rank + 1).0 } else { found }))
}

/// The average of `rank`, and the following one where it was met on the way.
fn found(sorted: &[f64], rank: usize) -> (f64, Option<f64>) {
    let n = sorted.len();
    let mut pivots = Rng::new(0);
    // row i still holds the averages of i with lo[i] <= j < hi[i]; `dropped` smaller ones lie before them
    let (mut lo, mut hi): (Vec<usize>, Vec<usize>) = ((0..n).collect(), vec![n; n]);
    let (mut below, mut upto) = (vec![0; n], vec![0; n]);
    let mut dropped = 0;
    loop {
        let left: usize = lo.iter().zip(&hi).map(|(lo, hi)| hi - lo).sum();
        if left <= 4 * n {
            return smallest_of_rest(sorted, &lo, &hi, rank - dropped);
        }
        let pivot = pick(sorted, &lo, &hi, pivots.below(left as u64) as usize);
        split(sorted, pivot, &mut below, &mut upto);
        let total = |ends: &[usize]| ends.iter().enumerate().map(|(i, end)| end - i).sum::<usize>();
        if rank < total(&below) {
            hi.copy_from_slice(&below);
        } else if rank < total(&upto) {
            return (0.5 * pivot, (rank + 1 < total(&upto)).then_some(0.5 * pivot));
        } else {
            lo.copy_from_slice(&upto);
            dropped = total(&upto);
        }
    }
}

/// For each row the first column whose sum is not below, and the first whose sum is above the pivot.
fn split(sorted: &[f64], pivot: f64, below: &mut [usize], upto: &mut [usize]) {
    let (mut first, mut second) = (sorted.len(), sorted.len());
    for (i, low) in sorted.iter().enumerate() {
        while first > i && low + sorted[first - 1] >= pivot {
            first -= 1;
        }
        while second > i && low + sorted[second - 1] > pivot {
            second -= 1;
        }
        (below[i], upto[i]) = (first.max(i), second.max(i));
    }
}

/// The sum at `place` among those left, row by row.
fn pick(sorted: &[f64], lo: &[usize], hi: &[usize], mut place: usize) -> f64 {
    for i in 0..sorted.len() {
        if place < hi[i] - lo[i] {
            return sorted[i] + sorted[lo[i] + place];
        }
        place -= hi[i] - lo[i];
    }
    2.0 * sorted[sorted.len() - 1]
}

fn smallest_of_rest(sorted: &[f64], lo: &[usize], hi: &[usize], rank: usize) -> (f64, Option<f64>) {
    let row = |i: usize| sorted[lo[i]..hi[i]].iter().map(move |high| sorted[i] + high);
    let mut sums: Vec<f64> = (0..sorted.len()).flat_map(row).collect();
    let (_, found, larger) = sums.select_nth_unstable_by(rank, f64::total_cmp);
    (0.5 * *found, larger.iter().copied().min_by(f64::total_cmp).map(|sum| 0.5 * sum))
}

#[cfg(test)]
mod tests {
    use super::{at, count, select};
    use crate::rng::Rng;

    fn all(sorted: &[f64]) -> Vec<f64> {
        let n = sorted.len();
        let mut averages: Vec<f64> = (0..n).flat_map(|i| (i..n).map(move |j| 0.5 * (sorted[i] + sorted[j]))).collect();
        averages.sort_by(f64::total_cmp);
        averages
    }

    /// Every rank, also of tied values and of values 300 orders of magnitude apart.
    #[test]
    fn selection_agrees_with_sorting() {
        let mut rng = Rng::new(3);
        for n in [1, 2, 3, 4, 9, 17, 40] {
            for kind in 0..3 {
                let mut draw = || match kind {
                    0 => rng.normal(),
                    1 => rng.below(4) as f64,
                    _ => rng.normal() * if rng.below(2) == 1 { 1e-150 } else { 1e150 },
                };
                let mut sorted: Vec<f64> = (0..n).map(|_| draw()).collect();
                sorted.sort_by(f64::total_cmp);
                let expected = all(&sorted);
                for (rank, value) in expected.iter().enumerate() {
                    let following = expected.get(rank + 1).unwrap_or(value);
                    assert_eq!(select(&sorted, rank), (*value, *following), "n {n} kind {kind} rank {rank}");
                }
                assert_eq!(at(&sorted, -3.0), expected[0]);
                assert_eq!(at(&sorted, 1e9), expected[count(n) - 1]);
            }
        }
    }

    #[test]
    fn positions_between_ranks_are_interpolated() {
        assert_eq!(at(&[0.0, 1.0], 0.5), 0.25);
        assert_eq!(at(&[0.0, 1.0], 1.0), 0.5);
    }
}
