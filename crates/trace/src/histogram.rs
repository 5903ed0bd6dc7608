//! Histograms with four bins for each power of two, the same in programs and here.
//!
//! Values below 4 have a bin each. Above, a bin is at most a quarter as wide as its lower end, so that a percentile read from it is at
//! most 25 % too high, and the middle of its bin at most 12.5 % off. The last bin takes all that is larger than 2^36 (69 s in nanoseconds).

use serde::Serialize;

/// Bins of a histogram: up to the one that begins at 7/4 of 2^36.
pub const BINS: usize = 144;

/// The bin of a value.
#[must_use]
pub fn bin(value: u64) -> usize {
    if value < 4 {
        return usize::try_from(value).unwrap_or(0);
    }
    let power = value.ilog2();
    let quarter = usize::try_from(value >> (power - 2) & 3).unwrap_or(0);
    ((power as usize - 1) * 4 + quarter).min(BINS - 1)
}

/// The smallest value of a bin.
#[must_use]
pub fn lower(bin: usize) -> u64 {
    let (power, quarter) = (bin / 4 + 1, bin as u64 % 4);
    if bin < 4 { bin as u64 } else { (4 + quarter) << (power - 2) }
}

/// The smallest value above a bin; `None` of the last, which has no end.
#[must_use]
pub fn upper(bin: usize) -> Option<u64> {
    (bin + 1 < BINS).then(|| lower(bin + 1))
}

/// How many values fell into each bin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram {
    counts: Vec<u64>,
}

impl Default for Histogram {
    fn default() -> Self {
        Histogram { counts: vec![0; BINS] }
    }
}

/// One bin that is not empty, for documents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Bin {
    /// The smallest value of the bin.
    pub from: u64,
    /// The smallest value above it; absent of the last bin, which has no end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<u64>,
    /// How many values.
    pub count: u64,
}

impl Histogram {
    /// From eight bytes a bin, as programs keep them.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Self {
        let words = bytes.chunks_exact(8).take(BINS);
        let mut counts: Vec<u64> = words.map(|word| word.try_into().map_or(0, u64::from_ne_bytes)).collect();
        counts.resize(BINS, 0);
        Histogram { counts }
    }

    /// Adds a value.
    pub fn add(&mut self, value: u64) {
        self.counts[bin(value)] += 1;
    }

    /// Adds the values of another.
    pub fn merge(&mut self, other: &Histogram) {
        self.counts.iter_mut().zip(&other.counts).for_each(|(to, from)| *to += from);
    }

    /// What was added since `before`.
    #[must_use]
    pub fn since(&self, before: &Histogram) -> Histogram {
        let grown = self.counts.iter().zip(&before.counts).map(|(now, then)| now.saturating_sub(*then));
        Histogram { counts: grown.collect() }
    }

    /// How many values.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The upper end of the bin with the value that `share` (0 to 1) of all do not exceed, less one: no smaller than the true one and at
    /// most 25 % larger. Of the last bin, its lower end. `None` without values.
    #[must_use]
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a rank of counts"
    )]
    pub fn percentile(&self, share: f64) -> Option<u64> {
        let total = self.total();
        if total == 0 {
            return None;
        }
        let rank = ((share * total as f64).ceil() as u64).clamp(1, total);
        let mut seen = 0;
        let reached = self.counts.iter().position(|count| {
            seen += count;
            seen >= rank
        })?;
        Some(upper(reached).map_or(lower(reached), |end| end - 1))
    }

    /// The bins that are not empty, in order.
    #[must_use]
    pub fn bins(&self) -> Vec<Bin> {
        let full = self.counts.iter().enumerate().filter(|(_, count)| **count > 0);
        full.map(|(bin, &count)| Bin { from: lower(bin), to: upper(bin), count }).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_are_without_gaps_and_narrow() {
        for bin_number in 0..BINS - 1 {
            let (from, to) = (lower(bin_number), upper(bin_number).expect("not the last"));
            assert!(from < to && (bin_number < 4 || (to - from) * 4 <= from), "{bin_number}: {from} to {to}");
            assert_eq!((bin(from), bin(to - 1), bin(to)), (bin_number, bin_number, bin_number + 1));
        }
        assert_eq!(bin(u64::MAX), BINS - 1);
        assert_eq!(upper(BINS - 1), None);
    }

    #[test]
    fn percentiles_are_not_below_and_at_most_a_quarter_above() {
        let mut histogram = Histogram::default();
        assert_eq!(histogram.percentile(0.5), None);
        (1..=1000).for_each(|value| histogram.add(value * 1000));
        for (share, exact) in [(0.5, 500_000), (0.99, 990_000), (1.0, 1_000_000)] {
            let shown = histogram.percentile(share).expect("values");
            assert!((exact..=exact * 5 / 4).contains(&shown), "{share}: {shown}");
        }
        let before = histogram.clone();
        histogram.add(7);
        assert_eq!(histogram.since(&before).bins(), [Bin { from: 7, to: Some(8), count: 1 }]);
        let bytes: Vec<u8> = before.counts.iter().flat_map(|count| count.to_ne_bytes()).collect();
        assert_eq!(Histogram::from_bytes(&bytes), before);
    }
}
