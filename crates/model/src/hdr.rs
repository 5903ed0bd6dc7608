//! `HdrHistogram`'s V2 format, uncompressed, of 1 ns to 1 h at two or three significant digits, which its tools read. Written here because
//! the crate's own feature brings three more crates, and because who analyses trials records nothing.

use crate::histogram::Histogram;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// The longest latency that is distinguished, one hour in ns; what took longer counts as this.
pub const LONGEST_NS: u64 = 3_600_000_000_000;

const COOKIE: u32 = 0x1c84_9313;
/// Length of what is before the counts, in bytes.
const HEAD: usize = 40;

/// Why a written histogram was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the histogram {0}; was it cut short or made by another program?")]
pub struct HistogramError(&'static str);

/// Significant digits, by which latencies share a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Digits {
    /// 1 %: for the series per second.
    Two,
    /// 0.1 %.
    Three,
}

impl Digits {
    /// How many.
    #[must_use]
    pub fn number(self) -> u8 {
        match self {
            Digits::Two => 2,
            Digits::Three => 3,
        }
    }

    /// The logarithm of half the number of sub-buckets: 10 at three digits (2,048 sub-buckets), 7 at two (256).
    fn half_bits(self) -> u32 {
        match self {
            Digits::Two => 7,
            Digits::Three => 10,
        }
    }

    /// The slot of a latency.
    fn slot(self, ns: u64) -> u64 {
        let half_bits = self.half_bits();
        let bucket = self.bucket(ns);
        (u64::from(bucket + 1) << half_bits) + (ns >> bucket) - (1 << half_bits)
    }

    fn bucket(self, ns: u64) -> u32 {
        let half_bits = self.half_bits();
        (u64::BITS - half_bits - 1).saturating_sub((ns | ((2 << half_bits) - 1)).leading_zeros())
    }

    /// The longest latency of a slot, which represents it.
    fn latency(self, slot: u64) -> u64 {
        let half_bits = self.half_bits();
        let (bucket, sub) = (slot >> half_bits, slot & ((1 << half_bits) - 1));
        if bucket == 0 { sub } else { ((sub + (1 << half_bits) + 1) << (bucket - 1)) - 1 }
    }
}

/// A histogram in the format. Latencies that share a slot are counted together.
#[must_use]
pub fn write(digits: Digits, histogram: &Histogram) -> Vec<u8> {
    let mut payload = Vec::new();
    let mut next = 0;
    let mut counts =
        histogram.counts().iter().map(|(ns, count)| (digits.slot((*ns).min(LONGEST_NS)), *count)).peekable();
    while let Some((slot, mut count)) = counts.next() {
        while let Some((_, more)) = counts.next_if(|(other, _)| *other == slot) {
            count = count.saturating_add(more);
        }
        if slot > next {
            zigzag(-i64::try_from(slot - next).unwrap_or(i64::MAX), &mut payload);
        }
        zigzag(i64::try_from(count).unwrap_or(i64::MAX), &mut payload);
        next = slot + 1;
    }
    let mut bytes = Vec::with_capacity(payload.len() + HEAD);
    bytes.extend(COOKIE.to_be_bytes());
    bytes.extend(u32::try_from(payload.len()).unwrap_or(u32::MAX).to_be_bytes());
    bytes.extend(0_u32.to_be_bytes());
    bytes.extend(u32::from(digits.number()).to_be_bytes());
    bytes.extend(1_u64.to_be_bytes());
    bytes.extend(LONGEST_NS.to_be_bytes());
    bytes.extend(1.0_f64.to_be_bytes());
    bytes.extend(payload);
    bytes
}

/// Reads what [`write`] wrote.
///
/// # Errors
/// What is wrong with it, as a phrase.
pub fn read(bytes: &[u8]) -> Result<(Digits, Histogram), HistogramError> {
    let (head, mut payload) = bytes.split_at_checked(HEAD).ok_or(HistogramError("is shorter than its head"))?;
    let word = |at: usize| u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
    if word(0) != COOKIE {
        return Err(HistogramError("is not a histogram of HdrHistogram's V2 format"));
    }
    if word(4) as usize != payload.len() {
        return Err(HistogramError("has another length than its head says"));
    }
    let digits = match word(12) {
        2 => Digits::Two,
        3 => Digits::Three,
        _ => return Err(HistogramError("has neither 2 nor 3 significant digits")),
    };
    if u64::from_be_bytes(head[24..32].try_into().unwrap_or_default()) != LONGEST_NS {
        return Err(HistogramError("has other bounds than 1 ns to 1 h"));
    }
    let last = digits.slot(LONGEST_NS);
    let (mut slot, mut counts) = (0_u64, Vec::new());
    while !payload.is_empty() {
        let (value, rest) = unzigzag(payload).ok_or(HistogramError("has a torn count"))?;
        payload = rest;
        if value < 0 {
            slot = slot.saturating_add(value.unsigned_abs());
        } else if slot > last {
            return Err(HistogramError("has a count beyond its bounds"));
        } else {
            counts.push((digits.latency(slot), value.unsigned_abs()));
            slot += 1;
        }
    }
    Ok((digits, counts.into_iter().collect()))
}

/// As a part of a phase carries it: at three digits, in base64; `None` of none.
#[must_use]
pub fn encoded(histogram: &Histogram) -> Option<String> {
    (!histogram.counts().is_empty()).then(|| STANDARD.encode(write(Digits::Three, histogram)))
}

/// Reads what [`encoded`] wrote, or what a recorder of two digits did.
///
/// # Errors
/// What is wrong with it, as a phrase.
pub fn decoded(text: &str) -> Result<Histogram, HistogramError> {
    let bytes = STANDARD.decode(text).map_err(|_why| HistogramError("is not base64"))?;
    Ok(read(&bytes)?.1)
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read_by_the_slots_of_its_digits() {
        let counts = [(1, 3), (2047, 1), (2048, 1), (2049, 1), (5_000_001, 7), (LONGEST_NS, 2), (u64::MAX, 1)];
        let histogram: Histogram = counts.into_iter().collect();
        let read = decoded(&encoded(&histogram).expect("some")).expect("as written");
        // 2048 and 2049 share a slot, whose longest latency stands for both; what took longer than an hour counts as one.
        let slots: Vec<u64> = read.counts().iter().map(|(_, count)| *count).collect();
        assert_eq!((slots, read.count()), (vec![3, 1, 2, 7, 3], histogram.count()));
        for ((written, _), (read, _)) in [counts[0], counts[1], counts[3], counts[4]].iter().zip(read.counts()) {
            assert!(written <= read && *read as f64 <= *written as f64 * 1.001, "{written} as {read}");
        }
        assert_eq!(decoded(&encoded(&read).expect("some")), Ok(read.clone()), "slots are their own");
        assert_eq!(encoded(&Histogram::default()), None);
        assert!([decoded("?"), decoded("AAAA")].iter().all(Result::is_err));
    }
}
