//! What a treatment measured over the time of its phases: rates, percentiles and distributions by stretch of time, trial after trial.

use crate::plan::Treatment;
use crate::seam::Sample;
use serde::{Deserialize, Serialize};

/// Bins of latencies, each wider than the one before by the factor √2: they end beyond an hour.
pub const BINS: usize = 84;
/// Stretches of time that a document has of a treatment, at most; of longer work they are longer.
pub const MOST_STRETCHES: usize = 60;

/// The bin of a latency: bin `n` is of latencies from 2^(n/2) ns to below 2^((n+1)/2) ns. Those of more than an hour are in the last.
#[must_use]
pub fn bin(ns: u64) -> usize {
    let ns = ns.max(1);
    let octave = ns.ilog2();
    let upper = u128::from(ns) * u128::from(ns) >= 1_u128 << (2 * octave + 1);
    (2 * octave as usize + usize::from(upper)).min(BINS - 1)
}

/// Where a bin begins and ends, in ns.
#[must_use]
pub fn bounds(bin: usize) -> [f64; 2] {
    #[expect(clippy::cast_precision_loss, reason = "below 84, unless a stranger wrote it")]
    let at = |half_octaves: usize| (half_octaves as f64 / 2.0).exp2();
    [at(bin), at(bin.saturating_add(1))]
}

/// Counts by bin as text, in bins that have any: `19:3 39:1`.
#[must_use]
pub fn written(counts: impl IntoIterator<Item = u64>) -> String {
    let counts = (0_usize..).zip(counts).filter(|(_, count)| *count > 0);
    counts.map(|(bin, count)| format!("{bin}:{count}")).collect::<Vec<_>>().join(" ")
}

/// The bins and counts of such a text; what is none of the bins that there are is left out.
pub fn read(text: &str) -> impl Iterator<Item = (usize, u64)> {
    text.split(' ').filter_map(|pair| {
        let (bin, count) = pair.split_once(':')?;
        Some((bin.parse().ok().filter(|bin| *bin < BINS)?, count.parse().ok()?))
    })
}

/// What the phases of a treatment measured over their time, those of all its trials one after the other.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct TimelineRow {
    /// The treatment.
    pub treatment: Treatment,
    /// Stretches of its measured time, in order.
    pub stretches: Vec<Stretch>,
}

/// A stretch of the measured time of a treatment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Stretch {
    /// The measured time of the treatment before it, in s.
    pub at_s: f64,
    /// Its length in s.
    pub seconds: f64,
    /// The blocks of the first and the last trial that it is of.
    pub blocks: [u64; 2],
    /// Whether a trial that it is of does not count.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub discarded: bool,
    /// Whether a trial that it is of has a flag.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub flagged: bool,
    /// Rates, the largest percentile of any second, and counts, by metric.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub samples: Vec<Sample>,
    /// Distributions of latencies, one for each kind of operation.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub latencies: Vec<BinnedLatencies>,
}

/// Latencies of one kind of operation, counted in bins.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct BinnedLatencies {
    /// The operation; `all` of every operation together.
    pub name: String,
    /// Pairs of bin and count, ascending. Bin `n` is of latencies from 2^(n/2) ns to below 2^((n+1)/2) ns.
    pub bins: Vec<[u64; 2]>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_latency_is_within_the_bounds_of_its_bin() {
        for ns in [1_u64, 2, 3, 724, 725, 1000, 1023, 1024, 1448, 1449, 5_000_000, 3_600_000_000_000] {
            let [from, to] = bounds(bin(ns));
            assert!(from <= ns as f64 && (ns as f64) < to, "{ns} ns is not in {from} to {to}");
        }
        // 2^9.5 is 724.08 ns.
        assert_eq!([bin(0), bin(1), bin(724), bin(725), bin(1023), bin(1024)], [0, 0, 18, 19, 19, 20]);
        assert_eq!(bin(u64::MAX), BINS - 1);
    }

    #[test]
    fn counts_by_bin_are_one_text() {
        let text = written([0, 7, 0, 1]);
        assert_eq!(text, "1:7 3:1");
        assert_eq!(read(&text).collect::<Vec<_>>(), [(1, 7), (3, 1)]);
        assert_eq!(written([0; BINS]), "");
        assert_eq!(read("").next(), None);
        assert_eq!(read("83:2 84:1 x:1 1:-1 5 :").collect::<Vec<_>>(), [(83, 2)]);
    }
}
