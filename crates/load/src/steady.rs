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
    next_ns: f64,
    gap_ns: f64,
    rng: Option<Rng>,
}

impl Starts {
    /// From `first_ns` on, with a mean gap of `gap_ns`: equal gaps, or exponential ones that `rng` draws.
    #[must_use]
    pub fn new(first_ns: f64, gap_ns: f64, rng: Option<Rng>) -> Starts {
        Starts { next_ns: first_ns, gap_ns, rng }
    }

    /// The next one.
    #[must_use]
    #[inline]
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a moment of this boot in ns")]
    pub fn next_ns(&self) -> u64 {
        self.next_ns as u64
    }

    /// Takes the next one.
    #[inline]
    pub fn take(&mut self) -> u64 {
        let start = self.next_ns();
        self.next_ns += self.gap_ns * self.rng.as_mut().map_or(1.0, Rng::exponential);
        start
    }
}
