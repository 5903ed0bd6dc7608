//! Random numbers that need no state: matrices are filled by any rank in any order, and verified from the same source.

/// Number `index` of `stream`, in [-0.5, 0.5): an element of `SplitMix64`'s sequence, G. Steele and others 2014.
pub fn number(stream: u64, index: u64) -> f64 {
    let state = (stream << 56).wrapping_add(index.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let z = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((z ^ (z >> 31)) >> 11) as f64 * (1.0 / (1_u64 << 53) as f64) - 0.5
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_spread_evenly_around_zero() {
        let count = 100_000;
        let sums = (0..count).map(|index| number(1, index)).fold((0.0, 0.0), |(s, q), x| (s + x, q + x * x));
        assert!((sums.0 / count as f64).abs() < 0.004, "mean 0, standard error 0.0009: {sums:?}");
        assert!((sums.1 / count as f64 - 1.0 / 12.0).abs() < 0.001, "variance 1/12: {sums:?}");
        assert_ne!(number(1, 5).to_bits(), number(2, 5).to_bits());
    }
}
