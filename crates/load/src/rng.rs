//! A seeded generator for arrivals, choices and cycle times: equal seeds give equal loads.
//!
//! xoshiro256** 1.0 (Blackman & Vigna 2018), its state filled by `SplitMix64` as its authors advise. Each user has a stream of
//! its own, so that what one does never changes what another draws. Not for secrets.

/// A generator; equal (seed, label) give equal sequences.
#[derive(Clone, Debug)]
pub(crate) struct Rng {
    state: [u64; 4],
}

impl Rng {
    pub(crate) fn stream(seed: u64, label: u64) -> Rng {
        let mut mix = seed;
        let first = split_mix(&mut mix);
        let mut other = label ^ 0x6a09_e667_f3bc_c909;
        let mut state = first ^ split_mix(&mut other);
        Rng { state: std::array::from_fn(|_| split_mix(&mut state)) }
    }

    pub(crate) fn next(&mut self) -> u64 {
        let s = &mut self.state;
        let result = s[1].wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        result
    }

    /// Uniform in [0, 1).
    pub(crate) fn uniform(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// An index below `n`, which is not 0; the bias of 2^-40 for n < 2^24 is below what any load could show.
    #[expect(clippy::cast_possible_truncation, reason = "the product's upper half is below n")]
    pub(crate) fn below(&mut self, n: usize) -> usize {
        ((u128::from(self.next()) * n as u128) >> 64) as usize
    }

    /// Exponential of mean 1.
    pub(crate) fn exponential(&mut self) -> f64 {
        -(1.0 - self.uniform()).ln()
    }

    /// Normal with this mean and deviation, drawn again until it lies in the limits (truncated, not clamped: no pile-up at
    /// the ends). Limits that exclude nearly everything give the nearer limit after 64 draws.
    pub(crate) fn truncated_normal(&mut self, mean: f64, deviation: f64, limits: (f64, f64)) -> f64 {
        let mut drawn = mean;
        for _ in 0..64 {
            let radius = (-2.0 * (1.0 - self.uniform()).ln()).sqrt();
            drawn = mean + deviation * radius * (2.0 * std::f64::consts::PI * self.uniform()).cos();
            if (limits.0..=limits.1).contains(&drawn) {
                return drawn;
            }
        }
        drawn.max(limits.0).min(limits.1)
    }
}

fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_truncated_normal_keeps_its_limits_and_its_mean() {
        let mut rng = Rng::stream(7, 1);
        let drawn: Vec<f64> = (0..20_000).map(|_| rng.truncated_normal(5.0, 1.25, (2.5, 7.5))).collect();
        assert!(drawn.iter().all(|value| (2.5..=7.5).contains(value)));
        let mean = drawn.iter().sum::<f64>() / drawn.len() as f64;
        assert!((mean - 5.0).abs() < 0.03, "{mean}");
    }

    #[test]
    fn streams_are_repeatable_and_differ() {
        let draw = |seed, label| Rng::stream(seed, label).next();
        assert_eq!(draw(1, 2), draw(1, 2));
        assert_ne!(draw(1, 2), draw(1, 3));
        assert_ne!(draw(1, 2), draw(2, 2));
        let mut rng = Rng::stream(1, 1);
        assert!((0..1000).all(|_| rng.below(3) < 3));
    }
}
