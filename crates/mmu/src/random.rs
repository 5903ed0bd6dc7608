//! A seeded generator: the same seed gives the same draws in every version and build.
//!
//! `SplitMix64` (Steele, Lea & Flood 2014). Its period of 2^64 is ample for draws of parameters and of victims; it is not
//! for secrets.

/// The generator.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// A generator from any seed, 0 included.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Random(mix(seed ^ 0x6a09_e667_f3bc_c909))
    }

    /// The next 64 random bits.
    #[inline]
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// Uniform in [0, 1).
    pub fn uniform(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Uniform in `low..=high`.
    pub fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.uniform()
    }

    /// Uniform in `0..n`, 0 for `n` = 0; the bias is below `n` / 2^64.
    #[inline]
    pub fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(n)) >> 64) as u64
    }
}

/// Spreads the bits of `x`: a bijection of 64 bits.
#[inline]
#[must_use]
pub fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}
