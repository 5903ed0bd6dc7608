//! Latency histograms: how they are recorded, merged exactly, written down, and summarised with refusals.
//!
//! HDR histograms of three significant digits over 1 ns to 1 h. Merging adds counts and loses nothing, so that threads and
//! sites merge to what one recorder would have held. Written as `HdrHistogram`'s V2 format in base64, which its tools read;
//! written here because the crate's own feature brings three more crates.

use hdrhistogram::{Counter, Histogram};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A histogram of nanoseconds.
#[derive(Clone, Debug, PartialEq)]
pub struct Latencies(Histogram<u64>);

/// The longest latency that is distinguished, one hour; what took longer counts as this.
pub const LONGEST_NS: u64 = 3_600_000_000_000;

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
        let counts = &self.0;
        let mut payload = Vec::new();
        let used = if counts.is_empty() { 0 } else { counts.index(counts.max()) + 1 };
        let mut zeros = 0_i64;
        for index in 0..used {
            let count = counts.at(index);
            if count == 0 {
                zeros += 1;
                continue;
            }
            if zeros > 0 {
                zigzag(-zeros, &mut payload);
                zeros = 0;
            }
            zigzag(i64::try_from(count.as_u64()).unwrap_or(i64::MAX), &mut payload);
        }
        let mut bytes = Vec::with_capacity(payload.len() + 40);
        bytes.extend(COOKIE.to_be_bytes());
        bytes.extend(u32::try_from(payload.len()).unwrap_or(u32::MAX).to_be_bytes());
        bytes.extend(0_u32.to_be_bytes());
        bytes.extend(u32::from(counts.sigfig()).to_be_bytes());
        bytes.extend(counts.low().to_be_bytes());
        bytes.extend(counts.high().to_be_bytes());
        bytes.extend(1.0_f64.to_be_bytes());
        bytes.extend(payload);
        bytes
    }

    /// Reads what [`Latencies::to_v2`] wrote.
    ///
    /// # Errors
    /// What is wrong with it, as a phrase.
    pub fn from_v2(bytes: &[u8]) -> Result<Latencies, HistogramError> {
        let (head, mut payload) = bytes.split_at_checked(40).ok_or(HistogramError("is shorter than its head"))?;
        let word = |at: usize| u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        if word(0) != COOKIE {
            return Err(HistogramError("is not a histogram of HdrHistogram's V2 format"));
        }
        if word(4) as usize != payload.len() {
            return Err(HistogramError("has another length than its head says"));
        }
        let mut latencies = match word(12) {
            2 => Latencies::coarse(),
            3 => Latencies::default(),
            _ => return Err(HistogramError("has neither 2 nor 3 significant digits")),
        };
        if u64::from_be_bytes(head[24..32].try_into().unwrap_or_default()) != LONGEST_NS {
            return Err(HistogramError("has other bounds than 1 ns to 1 h"));
        }
        let mut index = 0_u64;
        while !payload.is_empty() {
            let (value, rest) = unzigzag(payload).ok_or(HistogramError("has a torn count"))?;
            payload = rest;
            if value < 0 {
                index = index.saturating_add(value.unsigned_abs());
            } else {
                latencies.put(index, value.unsigned_abs())?;
                index += 1;
            }
        }
        Ok(latencies)
    }

    fn put(&mut self, index: u64, count: u64) -> Result<(), HistogramError> {
        let slots = self.0.distinct_values() as u64;
        if index >= slots {
            return Err(HistogramError("has a count beyond its bounds"));
        }
        let value = self.0.value_of(usize::try_from(index).unwrap_or(0));
        self.0.saturating_record_n(value, count);
        Ok(())
    }
}

/// What `HdrHistogram` calls the counts' slots, by its index arithmetic.
trait Slots<T: Counter> {
    fn index(&self, value: u64) -> usize;
    fn value_of(&self, index: usize) -> u64;
    fn at(&self, index: usize) -> T;
}

impl Slots<u64> for Histogram<u64> {
    fn index(&self, value: u64) -> usize {
        let half_bits = half_bits(self);
        let bucket = (64 - half_bits - 1).saturating_sub((value | ((2 << half_bits) - 1)).leading_zeros());
        let sub = value >> bucket;
        usize::try_from((u64::from(bucket + 1) << half_bits) + sub - (1 << half_bits)).unwrap_or(usize::MAX)
    }

    fn value_of(&self, index: usize) -> u64 {
        let half_bits = half_bits(self);
        let (bucket, sub) = ((index >> half_bits) as u64, (index & ((1 << half_bits) - 1)) as u64);
        if bucket == 0 { sub } else { (sub + (1 << half_bits)) << (bucket - 1) }
    }

    fn at(&self, index: usize) -> u64 {
        self.count_at(self.value_of(index))
    }
}

/// The logarithm of half the number of sub-buckets: 10 at three digits (2,048 sub-buckets), 7 at two (256).
fn half_bits(histogram: &Histogram<u64>) -> u32 {
    let single = 2 * 10_u64.pow(u32::from(histogram.sigfig()));
    single.next_power_of_two().trailing_zeros() - 1
}

const COOKIE: u32 = 0x1c84_9313;

fn zigzag(value: i64, bytes: &mut Vec<u8>) {
    let mut rest = ((value << 1) ^ (value >> 63)).cast_unsigned();
    for _ in 0..8 {
        let low = (rest & 0x7f) as u8;
        rest >>= 7;
        if rest == 0 {
            bytes.push(low);
            return;
        }
        bytes.push(low | 0x80);
    }
    #[expect(clippy::cast_possible_truncation, reason = "8 x 7 bits went before, eight are left")]
    bytes.push(rest as u8);
}

fn unzigzag(bytes: &[u8]) -> Option<(i64, &[u8])> {
    let mut value = 0_u64;
    for (index, &byte) in bytes.iter().enumerate().take(9) {
        if index == 8 {
            value |= u64::from(byte) << 56;
        } else {
            value |= u64::from(byte & 0x7f) << (7 * index);
        }
        if byte & 0x80 == 0 || index == 8 {
            return Some(((value >> 1).cast_signed() ^ -(value & 1).cast_signed(), &bytes[index + 1..]));
        }
    }
    None
}

/// Why a written histogram was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the histogram {0}; was it cut short or made by another program?")]
pub struct HistogramError(&'static str);

impl Serialize for Latencies {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&base64(&self.to_v2()))
    }
}

impl<'de> Deserialize<'de> for Latencies {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Latencies, D::Error> {
        let text = String::deserialize(deserializer)?;
        let bytes = unbase64(&text).ok_or_else(|| serde::de::Error::custom("a histogram is not base64"))?;
        Latencies::from_v2(&bytes).map_err(serde::de::Error::custom)
    }
}

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// RFC 4648, section 4, with padding.
pub(crate) fn base64(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for three in bytes.chunks(3) {
        let word = three.iter().enumerate().fold(0_u32, |word, (at, byte)| word | u32::from(*byte) << (16 - 8 * at));
        for place in 0..4 {
            let digit = ALPHABET[(word >> (18 - 6 * place) & 63) as usize];
            text.push(if place <= three.len() { digit as char } else { '=' });
        }
    }
    text
}

pub(crate) fn unbase64(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    if !text.len().is_multiple_of(4) {
        return None;
    }
    for four in text.as_bytes().chunks(4) {
        let digits = four.iter().take_while(|byte| **byte != b'=').count();
        if digits < 2 {
            return None;
        }
        let mut word = 0_u32;
        for (at, byte) in four[..digits].iter().enumerate() {
            let value = ALPHABET.iter().position(|digit| digit == byte)?;
            word |= u32::try_from(value).ok()? << (18 - 6 * at);
        }
        bytes.extend_from_slice(&word.to_be_bytes()[1..digits]);
    }
    Some(bytes)
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

    #[test]
    fn base64_is_that_of_the_rfc() {
        for (plain, text) in [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")] {
            assert_eq!(base64(plain.as_bytes()), text);
            assert_eq!(unbase64(text), Some(plain.as_bytes().to_vec()));
        }
        assert_eq!(unbase64("a"), None);
        assert_eq!(unbase64("????"), None);
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
