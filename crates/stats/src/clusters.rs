//! Percentiles of samples that come in clusters: the requests of several trials are not so many independent requests.
//!
//! The percentile is that of all samples together. How well the share of samples below it is known follows from how much that share
//! differs between trials (a ratio estimator's variance over clusters; Cochran 1977, section 9.7, with Student's distribution), and the
//! limits of the share, which are formed on the logit scale so that they stay within 0 and 1, are read from the distribution of all
//! samples as limits of the percentile (Woodruff 1952).

use crate::location::SMALLEST;
use crate::special::student_two_sided;

/// Samples of one cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cluster {
    /// Samples that are not above the percentile.
    pub below: u64,
    /// All samples.
    pub all: u64,
}

/// Shares, 0..1, whose percentiles of all samples together are the limits of the percentile `share` at this confidence; `None` below
/// [`SMALLEST`] clusters with samples, and for what is not a share.
#[must_use]
pub fn limits(share: f64, clusters: &[Cluster], confidence: f64) -> Option<(f64, f64)> {
    let clusters: Vec<&Cluster> = clusters.iter().filter(|cluster| cluster.all > 0).collect();
    if clusters.len() < SMALLEST || share <= 0.0 || share >= 1.0 {
        return None;
    }
    let all: f64 = clusters.iter().map(|cluster| cluster.all as f64).sum();
    let below: f64 = clusters.iter().map(|cluster| cluster.below as f64).sum();
    let (found, count) = (below / all, clusters.len() as f64);
    let apart = |cluster: &&&Cluster| (cluster.below as f64 - found * cluster.all as f64) / all;
    let between = count / (count - 1.0) * clusters.iter().map(|cluster| apart(&cluster).powi(2)).sum::<f64>();
    // Clusters that happen to be alike do not make samples better than independent ones.
    let error = between.max(share * (1.0 - share) / all).sqrt();
    let reach = student_two_sided(confidence, count - 1.0) * error / (share * (1.0 - share));
    let logit = (share / (1.0 - share)).ln();
    let inverse = |logit: f64| 1.0 / (1.0 + (-logit).exp());
    Some((inverse(logit - reach), inverse(logit + reach)))
}

/// By how much clusters of unequal sizes lengthen the interval of a mean of theirs, in comparison with clusters of one size: 1 where all have one.
/// The root of Kish's design effect for weights (Kish 1965, section 11.7).
#[must_use]
pub fn unequal(sizes: &[u64]) -> f64 {
    let all: f64 = sizes.iter().map(|size| *size as f64).sum();
    let squares: f64 = sizes.iter().map(|size| (*size as f64).powi(2)).sum();
    if all > 0.0 { (sizes.len() as f64 * squares).sqrt() / all } else { 1.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(below: &[u64], all: u64) -> Vec<Cluster> {
        below.iter().map(|below| Cluster { below: *below, all }).collect()
    }

    #[test]
    fn limits_hold_the_share_and_widen_with_what_differs_between_clusters() {
        let alike = limits(0.9, &of(&[900; 6], 1000), 0.95).expect("limits");
        let apart = limits(0.9, &of(&[950, 850, 940, 860, 900, 900], 1000), 0.95).expect("limits");
        for (lo, hi) in [alike, apart] {
            assert!(0.0 < lo && lo < 0.9 && 0.9 < hi && hi < 1.0, "{lo} {hi}");
        }
        assert!(apart.1 - apart.0 > 2.0 * (alike.1 - alike.0), "{alike:?} {apart:?}");
        // One cluster that is far off: nearly everything is possible, and no share is beyond the whole.
        let (lo, hi) = limits(0.99, &of(&[1000, 1000, 1000, 960], 1000), 0.95).expect("limits");
        assert!(lo < 0.93 && hi > 0.998 && hi < 1.0, "{lo} {hi}");
    }

    #[test]
    fn few_clusters_and_what_is_no_share_have_no_limits() {
        assert_eq!(limits(0.9, &of(&[900; 3], 1000), 0.95), None);
        assert_eq!(limits(0.9, &[of(&[900; 3], 1000), of(&[0], 0)].concat(), 0.95), None, "a cluster without samples");
        assert_eq!(
            [0.0, 1.0, f64::NAN]
                .map(|share| limits(share, &of(&[1; 6], 1), 0.95).is_some_and(|(lo, _)| lo.is_finite())),
            [false; 3]
        );
    }

    #[test]
    fn unequal_sizes_count_as_fewer_clusters() {
        assert_eq!([unequal(&[5; 7]), unequal(&[])], [1.0, 1.0]);
        // One cluster has nearly everything: as if there were one, whose interval is sqrt(4) times that of four.
        assert!((unequal(&[1_000_000, 1, 1, 1]) - 2.0).abs() < 1e-3);
    }
}
