//! A closed loop, or an open one at a steady rate, for drivers of other protocols that count operations themselves.

use baremark_stats::Rng;

/// When operations start.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Drive {
    /// Each connection starts the next when the last has ended, after the client's own waits.
    Closed,
    /// At this rate, whatever the server does.
    Open {
        /// Starts per second, of all connections together.
        rate: f64,
        /// Exponential gaps instead of equal ones.
        poisson: bool,
    },
}

/// Intended starts, one after the other; each is a moment of this boot in ns.
#[derive(Debug)]
pub struct Starts {
    base_ns: u64,
    /// After the base: above 2^53 a float no longer has every ns of a moment.
    next_ns: f64,
    gap_ns: f64,
    rng: Option<Rng>,
}

impl Starts {
    /// From `first_ns` after `base_ns` on, with a mean gap of `gap_ns`: equal gaps, or exponential ones that `rng` draws.
    #[must_use]
    pub fn new(base_ns: u64, first_ns: f64, gap_ns: f64, rng: Option<Rng>) -> Starts {
        Starts { base_ns, next_ns: first_ns, gap_ns, rng }
    }

    /// The next one.
    #[must_use]
    #[inline]
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a moment of this boot in ns")]
    pub fn next_ns(&self) -> u64 {
        self.base_ns.saturating_add(self.next_ns as u64)
    }

    /// Takes the next one.
    #[inline]
    pub fn take(&mut self) -> u64 {
        let start = self.next_ns();
        self.next_ns += self.gap_ns * self.rng.as_mut().map_or(1.0, Rng::exponential);
        start
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn starts_are_exact_however_long_the_machine_has_run() {
        let base = (1 << 53) + 1;
        let mut starts = Starts::new(base, 2.0, 3.0, None);
        assert_eq!([starts.take(), starts.take(), starts.next_ns()], [base + 2, base + 5, base + 8]);
    }
}
