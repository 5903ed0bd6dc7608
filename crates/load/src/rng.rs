//! Arrivals, choices and cycle times drawn from a seed: equal seeds give equal loads.
//!
//! Each user has a stream of the generator of `stats`, so that what one does never changes what another draws. Not for
//! secrets.

/// A generator; equal (seed, label) give equal sequences.
#[derive(Clone, Debug)]
pub(crate) struct Rng(baremark_stats::Rng);

impl Rng {
    pub(crate) fn stream(seed: u64, label: u64) -> Rng {
        Rng(baremark_stats::Rng::stream(seed, label))
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Uniform in [0, 1).
    pub(crate) fn uniform(&mut self) -> f64 {
        self.0.uniform()
    }

    /// An index below `n`, which is not 0.
    #[expect(clippy::cast_possible_truncation, reason = "below n")]
    pub(crate) fn below(&mut self, n: usize) -> usize {
        self.0.below(n as u64) as usize
    }

    /// Exponential of mean 1.
    pub(crate) fn exponential(&mut self) -> f64 {
        self.0.exponential()
    }

    /// Normal with this mean and deviation, drawn again until it lies in the limits (truncated, not clamped: no pile-up at
    /// the ends). Limits that exclude nearly everything give the nearer limit after 64 draws.
    pub(crate) fn truncated_normal(&mut self, mean: f64, deviation: f64, limits: (f64, f64)) -> f64 {
        let mut drawn = mean;
        for _ in 0..64 {
            drawn = mean + deviation * self.0.normal();
            if (limits.0..=limits.1).contains(&drawn) {
                return drawn;
            }
        }
        drawn.max(limits.0).min(limits.1)
    }
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
