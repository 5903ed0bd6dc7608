//! A permutation test of paired blocks: exact, whatever the distribution.
//!
//! When the order of two builds is drawn at random in every block, their labels in a block could as well be exchanged if
//! they do not differ: each of the 2^n ways to choose the signs of the differences is equally likely. The statistic is the
//! sum of the ranks of the positive differences (Wilcoxon 1945), which a few bad blocks do not move and whose distribution
//! over all sign choices needs no enumeration.

use crate::special::normal_sf;

/// Blocks up to which the distribution is exact; beyond, it is the normal approximation with the variance of the tied ranks
/// and a continuity correction.
const EXACT: usize = 200;

/// One-sided p value that positive differences prevail: the share of sign choices whose rank sum is at least the one seen.
/// Equal differences share their mean rank; a difference of 0 has a rank and no sign (Pratt 1959). The smallest possible
/// value is 2^-n. `None` without differences or for one that is not finite.
pub fn signed_rank(differences: &[f64]) -> Option<f64> {
    if differences.is_empty() || differences.iter().any(|v| !v.is_finite()) {
        return None;
    }
    let doubled = doubled_ranks(differences);
    let signed: Vec<usize> = differences.iter().zip(&doubled).filter(|(v, _)| **v != 0.0).map(|(_, r)| *r).collect();
    let seen: usize = differences.iter().zip(&doubled).filter(|(v, _)| **v > 0.0).map(|(_, r)| *r).sum();
    Some(if signed.len() <= EXACT { exact(&signed, seen) } else { approximate(&signed, seen) })
}

/// Fewest blocks whose smallest p value is at most `alpha`: log2(1/alpha), rounded up.
pub fn fewest_blocks(alpha: f64) -> usize {
    (-alpha.log2()).ceil().max(1.0) as usize
}

/// Twice the mid-rank of each absolute value, from 2.
fn doubled_ranks(values: &[f64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&one, &two| values[one].abs().total_cmp(&values[two].abs()));
    let mut ranks = vec![0; values.len()];
    let mut first = 0;
    while first < order.len() {
        let size = order[first..].iter().take_while(|&&i| values[i].abs() == values[order[first]].abs()).count();
        for &i in &order[first..first + size] {
            ranks[i] = 2 * first + size + 1;
        }
        first += size;
    }
    ranks
}

/// P(W >= seen) where every rank counts with chance 1/2.
fn exact(ranks: &[usize], seen: usize) -> f64 {
    let mut chances = vec![0.0; ranks.iter().sum::<usize>() + 1];
    chances[0] = 1.0;
    let mut top = 0;
    for &rank in ranks {
        top += rank;
        for sum in (0..=top).rev() {
            let moved = if sum >= rank { chances[sum - rank] } else { 0.0 };
            chances[sum] = 0.5 * (chances[sum] + moved);
        }
    }
    chances[seen..].iter().rev().sum::<f64>().min(1.0)
}

fn approximate(ranks: &[usize], seen: usize) -> f64 {
    let mean = 0.5 * ranks.iter().sum::<usize>() as f64;
    let variance = 0.25 * ranks.iter().map(|&rank| (rank as f64).powi(2)).sum::<f64>();
    // ranks are doubled, so the sums are two apart without ties
    normal_sf((seen as f64 - 1.0 - mean) / variance.sqrt())
}
