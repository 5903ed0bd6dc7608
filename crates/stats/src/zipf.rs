//! Popularity by rank: Zipf's distribution, and places for its ranks.

use crate::rng::Rng;

/// A fixed place below `n` for each rank; different ranks below `n` have different places.
#[must_use]
pub fn scatter(rank: u64, n: u64) -> u64 {
    // A prime above 2^61 shares no factor with any n below it.
    const PRIME: u128 = 2_305_843_009_213_693_967;
    let place = u128::from(rank % n) * PRIME % u128::from(n);
    u64::try_from(place).unwrap_or(0)
}

/// Ranks 0..n with probabilities proportional to 1 / (rank + 1)^exponent, by rejection inversion (Hoermann & Derflinger 1996),
/// which needs no table.
#[derive(Clone, Debug, PartialEq)]
pub struct Zipf {
    exponent: f64,
    low: f64,
    high: f64,
    n: u64,
}

impl Zipf {
    /// Of `n` ranks, at least one, with an exponent above 0.
    #[must_use]
    pub fn new(n: u64, exponent: f64) -> Zipf {
        let zipf = Zipf { exponent, low: 0.0, high: 0.0, n };
        let (low, high) = (zipf.integral(1.5) - 1.0, zipf.integral(n as f64 + 0.5));
        Zipf { low, high, ..zipf }
    }

    /// Of x^-exponent, from 1.
    fn integral(&self, x: f64) -> f64 {
        let power = 1.0 - self.exponent;
        if power.abs() < 1e-9 { x.ln() } else { (x.powf(power) - 1.0) / power }
    }

    fn inverse(&self, area: f64) -> f64 {
        let power = 1.0 - self.exponent;
        if power.abs() < 1e-9 { area.exp() } else { (1.0 + area * power).max(f64::MIN_POSITIVE).powf(1.0 / power) }
    }

    /// A rank, from 0 on.
    pub fn draw(&self, rng: &mut Rng) -> u64 {
        loop {
            let area = self.high + rng.uniform() * (self.low - self.high);
            let rank = self.inverse(area).round().clamp(1.0, self.n as f64);
            if area >= self.integral(rank + 0.5) - rank.powf(-self.exponent) {
                return rank as u64 - 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zipf_has_the_frequencies_of_its_formula_and_uses_each_place_once() {
        let (n, exponent, draws) = (1000_u64, 0.9, 200_000_u32);
        let zipf = Zipf::new(n, exponent);
        let mut rng = Rng::stream(3, 3);
        let mut counts = vec![0_u32; 1000];
        for _ in 0..draws {
            counts[usize::try_from(zipf.draw(&mut rng)).expect("it is below 1000")] += 1;
        }
        let sum: f64 = (1..=n).map(|rank| (rank as f64).powf(-exponent)).sum();
        for rank in [1_u32, 2, 10, 100] {
            let expected = f64::from(draws) * f64::from(rank).powf(-exponent) / sum;
            let found = f64::from(counts[rank as usize - 1]);
            assert!((found - expected).abs() < 5.0 * expected.sqrt(), "rank {rank}: {found}, expected {expected}");
        }
        let mut places: Vec<u64> = (0..n).map(|rank| scatter(rank, n)).collect();
        places.sort_unstable();
        assert!(places.iter().copied().eq(0..n));
    }
}
