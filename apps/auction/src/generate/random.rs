//! A small seeded generator (SplitMix64, Steele, Lea and Flood, OOPSLA 2014): any number of independent streams by key.

/// One stream.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    /// The stream of `keys` under `seed`.
    pub(crate) fn of(seed: u64, keys: &[u64]) -> Self {
        let mut random = Random(seed ^ 0x6a09_e667_f3bc_c909);
        for key in keys {
            random = Random(random.next() ^ key.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        }
        random
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Uniform in `0..n`; 0 for `n` = 0. The bias of the multiplication is below n / 2^64.
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        u64::try_from((u128::from(self.next()) * u128::from(n)) >> 64).unwrap_or(0)
    }

    /// Uniform in `low..=high`.
    pub(crate) fn between(&mut self, low: i64, high: i64) -> i64 {
        low + i64::try_from(self.below(high.abs_diff(low) + 1)).unwrap_or(0)
    }

    /// Uniform in `0..n`, as an index.
    pub(crate) fn index(&mut self, n: usize) -> usize {
        usize::try_from(self.below(u64::try_from(n).unwrap_or(u64::MAX))).unwrap_or(0)
    }

    /// One of `all`, which is not empty.
    pub(crate) fn pick<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.index(all.len())]
    }

    /// A whole number near N(mean, deviation): the sum of twelve uniforms, within six deviations.
    pub(crate) fn normal(&mut self, mean: i64, deviation: i64) -> i64 {
        const UNIT: i64 = 1 << 20;
        let sum: i64 = (0..12).map(|_| self.between(0, UNIT)).sum();
        mean + (sum - 6 * UNIT) * deviation / UNIT
    }

    pub(crate) fn shuffle<T>(&mut self, all: &mut [T]) {
        for last in (1..all.len()).rev() {
            all.swap(last, self.index(last + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Random;

    #[test]
    fn streams_repeat_and_differ() {
        let mut a = Random::of(1, &[2, 3]);
        assert_eq!(a.next(), Random::of(1, &[2, 3]).next());
        assert_ne!(Random::of(1, &[2, 3]).next(), Random::of(1, &[3, 2]).next());
    }

    #[test]
    fn normal_has_its_mean_and_deviation() {
        let mut random = Random::of(7, &[]);
        let all: Vec<i64> = (0..20_000).map(|_| random.normal(20_000, 5_000)).collect();
        let mean = all.iter().sum::<i64>() / 20_000;
        let variance = all.iter().map(|x| (x - mean) * (x - mean)).sum::<i64>() / 20_000;
        assert!((19_800..20_200).contains(&mean), "{mean}");
        assert!((4_800 * 4_800..5_200 * 5_200).contains(&variance), "{variance}");
    }
}
