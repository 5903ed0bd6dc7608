//! A fingerprint of a table that follows exclusive-or: what a table must have become is known without a second table.
//!
//! The fingerprint of a table is the sum, over GF(2), of the carry-less products of each word with a coefficient that a
//! random key gives its index. An update `table[i] ^= r` changes it by the product of `r` and the coefficient of `i`,
//! whatever the word holds. So the sum over all updates, which needs no table and waits for no memory, must equal the sum
//! over the words of the table, which is one pass in order.
//!
//! *Which faults are found:* the difference of two tables is a set of wrong words. Its fingerprint is zero for at most one of
//! the 2^64 values that the coefficient of any one wrong word can have, since polynomials over GF(2) have no divisors of
//! zero. With coefficients that are independent and uniform, a fault of any shape (one bit, a lost update, a word that was
//! updated in place of another, a page of stale words) is missed with a probability of at most 2^-64, if it does not depend
//! on the key. The key is drawn when the check begins. The coefficients are not truly random: they are the finalizer of
//! MurmurHash3 (A. Appleby, public domain; as in SplitMix64) over key and index.

use std::arch::x86_64::{__m128i, _mm_clmulepi64_si128, _mm_extract_epi64};
use std::arch::x86_64::{_mm_set_epi64x, _mm_setzero_si128, _mm_xor_si128};
use std::hash::{BuildHasher, RandomState};

/// What gives each index its coefficient.
#[derive(Clone, Copy, Debug)]
pub struct Key(u64);

/// A sum of products: the lower and the upper word of a polynomial over GF(2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fingerprint([u64; 2]);

/// Whether this processor multiplies without carry (PCLMULQDQ; Intel since 2010, AMD since 2011).
#[must_use]
pub fn is_available() -> bool {
    std::is_x86_feature_detected!("pclmulqdq") && std::is_x86_feature_detected!("sse4.1")
}

impl Key {
    /// A key that nobody knew before.
    #[must_use]
    pub fn fresh() -> Self {
        Key(RandomState::new().hash_one(0x626d_u64))
    }

    #[inline]
    fn coefficient(self, index: u64) -> u64 {
        let z = self.0.wrapping_add(index.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

/// A fingerprint that grows by one change after the other.
///
/// Its functions are called in loops of functions with the same instructions, into which they are inlined. What an iterator's adapter calls is not: each word took a call,
/// and the sum went through memory.
#[derive(Clone, Copy, Debug)]
pub struct Growing {
    key: Key,
    sum: __m128i,
}

impl Growing {
    /// That of no change.
    #[must_use]
    #[inline]
    #[target_feature(enable = "pclmulqdq,sse2,sse4.1")]
    pub(crate) fn new(key: Key) -> Self {
        Growing { key, sum: _mm_setzero_si128() }
    }

    /// Adds what was added at `index` by exclusive-or.
    #[inline]
    #[target_feature(enable = "pclmulqdq,sse2,sse4.1")]
    pub(crate) fn add(&mut self, index: u64, change: u64) {
        let pair = _mm_set_epi64x(self.key.coefficient(index).cast_signed(), change.cast_signed());
        self.sum = _mm_xor_si128(self.sum, _mm_clmulepi64_si128::<0x10>(pair, pair));
    }

    /// The fingerprint of all changes.
    #[must_use]
    #[inline]
    #[target_feature(enable = "pclmulqdq,sse2,sse4.1")]
    pub(crate) fn whole(self) -> Fingerprint {
        Fingerprint([
            _mm_extract_epi64::<0>(self.sum).cast_unsigned(),
            _mm_extract_epi64::<1>(self.sum).cast_unsigned(),
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    /// Whether there can be fingerprints; if not, that is printed. Not by a macro: those are captured, and a skip must be seen.
    fn can_be_made() -> bool {
        if !is_available() {
            std::io::stderr().write_all(b"skipped: this processor has no PCLMULQDQ\n").expect("an open stream");
        }
        is_available()
    }

    fn of(key: Key, changes: &[(u64, u64)]) -> Fingerprint {
        #[target_feature(enable = "pclmulqdq,sse2,sse4.1")]
        fn sum(key: Key, changes: &[(u64, u64)]) -> Fingerprint {
            let mut sum = Growing::new(key);
            for &(index, change) in changes {
                sum.add(index, change);
            }
            sum.whole()
        }
        assert!(is_available());
        // SAFETY: by the line above.
        unsafe { sum(key, changes) }
    }

    /// The product by the definition, bit by bit.
    fn product(a: u64, b: u64) -> [u64; 2] {
        let whole = (0..64).filter(|bit| a >> bit & 1 == 1).fold(0, |sum, bit| sum ^ (u128::from(b) << bit));
        [whole as u64, (whole >> 64) as u64]
    }

    #[test]
    fn a_fingerprint_is_the_sum_of_products_by_their_definition() {
        if !can_be_made() {
            return;
        }
        let key = Key(7);
        let changes = [(0, 1), (5, u64::MAX), (1 << 40, 0x8000_0000_0000_0001), (5, 3)];
        let expected = changes.iter().fold([0; 2], |sum, &(index, change)| {
            let more = product(change, key.coefficient(index));
            [sum[0] ^ more[0], sum[1] ^ more[1]]
        });
        assert_eq!(of(key, &changes), Fingerprint(expected));
    }

    #[test]
    fn every_single_bit_and_every_exchange_of_two_words_is_found() {
        if !can_be_made() {
            return;
        }
        let key = Key::fresh();
        for bit in 0..64 {
            assert_ne!(of(key, &[(77, 1 << bit)]), Fingerprint::default(), "bit {bit}");
        }
        for other in (0..10_000).filter(|&other| other != 77) {
            assert_ne!(of(key, &[(77, 9), (other, 9)]), Fingerprint::default(), "an update of {other} instead of 77");
        }
        assert_eq!(of(key, &[(77, 9), (77, 9)]), Fingerprint::default(), "an update that was undone");
    }

    #[test]
    fn coefficients_are_apart_and_half_of_their_bits_are_set() {
        let key = Key::fresh();
        let mut all: Vec<u64> = (0..100_000).map(|index| key.coefficient(index)).collect();
        let bits: u32 = all.iter().map(|coefficient| coefficient.count_ones()).sum();
        assert!((f64::from(bits) / 100_000.0 - 32.0).abs() < 0.1, "{bits} bits; the standard error is 0.013 a word");
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 100_000);
    }
}
