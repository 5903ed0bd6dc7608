//! A seeded generator whose sequence is fixed for ever: randomised orders must be the same in every version and build.
//!
//! xoshiro256** 1.0 (Blackman & Vigna 2018), its state filled by `SplitMix64` as its authors advise. `next_u64`,
//! `below` and `shuffle` are integer arithmetic only, so orders are identical on every platform; `normal` uses the
//! platform's logarithm and is meant for simulation. Not for secrets.

/// A generator; equal seeds give equal sequences.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rng {
    state: [u64; 4],
}

impl Rng {
    /// A generator from any seed, 0 included.
    pub fn new(seed: u64) -> Self {
        let mut mix = seed;
        Self { state: std::array::from_fn(|_| split_mix(&mut mix)) }
    }

    /// An independent stream for `label`: the same (seed, label) always gives the same stream, whatever else is drawn.
    pub fn stream(seed: u64, label: u64) -> Self {
        let mut mix = seed;
        let first = split_mix(&mut mix);
        let mut other = label ^ 0x6a09_e667_f3bc_c909;
        Self::new(first ^ split_mix(&mut other))
    }

    /// The next 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
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

    /// Uniform in [0, 1), a multiple of 2^-53.
    pub fn uniform(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Uniform in 0..n without bias (Lemire 2019: widening multiplication with rejection). `n` = 0 gives 0.
    pub fn below(&mut self, n: u64) -> u64 {
        if n == 0 {
            return 0;
        }
        let reject_under = n.wrapping_neg() % n;
        loop {
            let product = u128::from(self.next_u64()) * u128::from(n);
            if product as u64 >= reject_under {
                return (product >> 64) as u64;
            }
        }
    }

    /// Puts `items` into a uniformly random order (Fisher and Yates, from the last item down).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            let other = self.below(last as u64 + 1) as usize;
            items.swap(last, other);
        }
    }

    /// A standard normal deviate (Box & Muller 1958; one of the pair, so that the state is the whole state).
    pub fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.uniform()).ln()).sqrt();
        radius * (2.0 * std::f64::consts::PI * self.uniform()).cos()
    }

    /// An exponential deviate of mean 1.
    pub fn exponential(&mut self) -> f64 {
        -(1.0 - self.uniform()).ln()
    }
}

/// One step of `SplitMix64` (Steele, Lea & Flood 2014).
fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
