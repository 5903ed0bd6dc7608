//! Latency histograms: how they are recorded, merged exactly, written down, and summarised with refusals.
//!
//! HDR histograms of three significant digits over 1 ns to 1 h. Merging adds counts and loses nothing, so that threads and
//! sites merge to what one recorder would have held. Written as [`baremark_model::hdr`] writes them, in base64.

use baremark_model::hdr::{self, Digits};
pub use baremark_model::hdr::{HistogramError, LONGEST_NS};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A histogram of nanoseconds.
#[derive(Clone, Debug, PartialEq)]
pub struct Latencies(Histogram<u64>);

impl Default for Latencies {
    fn default() -> Latencies {
        Latencies::digits(3)
    }
}

impl Latencies {
    fn digits(digits: u8) -> Latencies {
        Latencies(Histogram::new_with_bounds(1, LONGEST_NS, digits).expect("1 ns to 1 h at 0 to 5 digits are bounds"))
    }

    /// Coarse (two digits, 1 %) and small: for the series per second.
    #[must_use]
    pub fn coarse() -> Latencies {
        Latencies::digits(2)
    }

    /// Records one latency.
    #[inline]
    pub fn record(&mut self, ns: u64) {
        self.0.saturating_record(ns.max(1));
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.0.reset();
    }

    /// How many were recorded.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// How many were longer than `ns`, to the histogram's precision.
    #[must_use]
    pub fn count_above(&self, ns: u64) -> u64 {
        if ns >= LONGEST_NS { 0 } else { self.0.count_between(self.0.next_non_equivalent(ns), u64::MAX) }
    }

    /// Adds all of `other`, exactly.
    pub fn merge(&mut self, other: &Latencies) {
        // Both have the same bounds, or auto-resizing makes room: an addition cannot fail.
        self.0.auto(true);
        self.0.add(&other.0).expect("a histogram that resizes takes any other");
    }

    /// The latency of the share `p` of the samples, in ns; `None` below the sample floor of `p` (see [`sample_floor`]).
    #[must_use]
    pub fn percentile(&self, p: f64) -> Option<u64> {
        (self.count() >= sample_floor(p)).then(|| self.0.value_at_quantile(p))
    }

    /// The largest, in ns, to the histogram's precision; `None` when empty.
    #[must_use]
    pub fn largest(&self) -> Option<u64> {
        (self.count() > 0).then(|| self.0.max())
    }

    /// The summary for a document; `None` when empty.
    #[must_use]
    pub fn summary(&self) -> Option<Summary> {
        let largest = self.largest()?;
        Some(Summary {
            samples: self.count(),
            mean_ns: self.0.mean(),
            p50_ns: self.percentile(0.5),
            p90_ns: self.percentile(0.9),
            p95_ns: self.percentile(0.95),
            p99_ns: self.percentile(0.99),
            p999_ns: self.percentile(0.999),
            max_ns: largest,
        })
    }

    /// Latency at each of `shares`, for a curve; those below their floor are left out.
    #[must_use]
    pub fn curve(&self, shares: &[f64]) -> Vec<(f64, u64)> {
        shares.iter().filter_map(|&share| Some((share, self.percentile(share)?))).collect()
    }

    /// The same as counts by value.
    #[must_use]
    pub fn counts(&self) -> baremark_model::histogram::Histogram {
        self.0.iter_recorded().map(|bucket| (bucket.value_iterated_to(), bucket.count_at_value())).collect()
    }

    /// `HdrHistogram`'s V2 format, uncompressed.
    #[must_use]
    pub fn to_v2(&self) -> Vec<u8> {
        hdr::write(if self.0.sigfig() == Digits::Two.number() { Digits::Two } else { Digits::Three }, &self.counts())
    }

    /// Reads what [`Latencies::to_v2`] wrote.
    ///
    /// # Errors
    /// What is wrong with it, as a phrase.
    pub fn from_v2(bytes: &[u8]) -> Result<Latencies, HistogramError> {
        let (digits, counts) = hdr::read(bytes)?;
        let mut latencies = Latencies::digits(digits.number());
        for (value, count) in counts.counts() {
            latencies.0.saturating_record_n(*value, *count);
        }
        Ok(latencies)
    }
}

impl Serialize for Latencies {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&STANDARD.encode(self.to_v2()))
    }
}

impl<'de> Deserialize<'de> for Latencies {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Latencies, D::Error> {
        let text = String::deserialize(deserializer)?;
        let bytes = STANDARD.decode(&text).map_err(|_why| serde::de::Error::custom("a histogram is not base64"))?;
        Latencies::from_v2(&bytes).map_err(serde::de::Error::custom)
    }
}

/// The fewest samples from which the percentile `p` (0..1) is given: below it not even the largest bounds the percentile
/// at 95 % confidence, two-sided. ln(0.025) / ln(max(p, 1 - p)), rounded up: p50 6, p90 36, p95 72, p99 368, p99.9 3,688
/// (the distribution-free interval of Hahn & Meeker 1991). Assumes independent samples, which those of one run are only
/// about: intervals belong over trials.
#[must_use]
pub fn sample_floor(p: f64) -> u64 {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "float casts saturate")]
    let floor = (0.025_f64.ln() / p.max(1.0 - p).ln()).ceil() as u64;
    floor
}

/// Percentiles of one histogram; absent below their sample floor, which is never 0.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// How many latencies.
    pub samples: u64,
    /// Their mean.
    pub mean_ns: f64,
    /// The median; from 6 samples.
    pub p50_ns: Option<u64>,
    /// From 36 samples.
    pub p90_ns: Option<u64>,
    /// From 72 samples.
    pub p95_ns: Option<u64>,
    /// From 368 samples.
    pub p99_ns: Option<u64>,
    /// From 3,688 samples.
    pub p999_ns: Option<u64>,
    /// The largest, to three digits.
    pub max_ns: u64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn percentiles_are_refused_below_their_floor() {
        let mut latencies = Latencies::default();
        (0..367).for_each(|at| latencies.record(1000 + at));
        let summary = latencies.summary().expect("some");
        assert!(summary.p95_ns.is_some() && summary.p99_ns.is_none(), "{summary:?}");
        latencies.record(5);
        assert!(latencies.percentile(0.99).is_some());
        let floors = [0.5, 0.9, 0.95, 0.99, 0.999].map(sample_floor);
        assert_eq!(floors, [6, 36, 72, 368, 3688]);
        assert_eq!(Latencies::default().summary(), None);
    }

    #[test]
    fn an_hour_is_the_longest() {
        let mut latencies = Latencies::default();
        latencies.record(u64::MAX);
        latencies.record(0);
        assert_eq!(latencies.count(), 2);
        assert!(latencies.largest().is_some_and(|ns| ns >= LONGEST_NS));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn written_and_read_is_the_same_and_parts_merge_to_the_whole(
            values in proptest::collection::vec((1..4_000_000_000_000_u64, 1..5_u8), 0..200), split in 0..200_usize, coarse: bool,
        ) {
            let empty = if coarse { Latencies::coarse() } else { Latencies::default() };
            let (mut whole, mut left, mut right) = (empty.clone(), empty.clone(), empty);
            for (index, (value, times)) in values.iter().enumerate() {
                for _ in 0..*times {
                    whole.record(*value);
                    if index < split { left.record(*value) } else { right.record(*value) }
                }
            }
            let read = |part: &Latencies| Latencies::from_v2(&part.to_v2()).expect("as written");
            let mut merged = read(&left);
            merged.merge(&read(&right));
            prop_assert_eq!(merged.count(), whole.count());
            prop_assert_eq!(merged.to_v2(), whole.to_v2());
        }

        #[test]
        fn strange_bytes_are_refused_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..80), head: bool) {
            let mut bytes = bytes;
            if head {
                let mut whole = Latencies::default().to_v2();
                whole.append(&mut bytes);
                let length = u32::try_from(whole.len() - 40).expect("short");
                whole[4..8].copy_from_slice(&length.to_be_bytes());
                bytes = whole;
            }
            let _ = Latencies::from_v2(&bytes);
        }
    }
}
