//! Random values that the inputs of all workloads are made of.

use baremark_stats::Rng;

const LETTERS: &[u8; 62] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";

/// A stream of random values.
pub trait Draws {
    /// The generator behind it.
    fn rng(&mut self) -> &mut Rng;

    /// Uniform in `low..=high`.
    fn uniform(&mut self, low: i64, high: i64) -> i64 {
        low + signed(self.rng().below((high - low + 1).unsigned_abs()))
    }

    /// Whether an event of `percent` happens.
    fn chance(&mut self, percent: i64) -> bool {
        self.uniform(1, 100) <= percent
    }

    /// Exponential, of this mean, cut at ten times it.
    fn exponential(&mut self, mean: f64) -> f64 {
        (mean * self.rng().exponential()).min(10.0 * mean)
    }

    /// Letters and digits, so many of them.
    fn text(&mut self, low: i64, high: i64) -> String {
        let length = self.uniform(low, high);
        (0..length).map(|_| char::from(LETTERS[usize::try_from(self.rng().below(62)).unwrap_or(0)])).collect()
    }

    /// Digits, so many of them.
    fn digits(&mut self, length: i64) -> String {
        (0..length).map(|_| char::from(b'0' + u8::try_from(self.rng().below(10)).unwrap_or(0))).collect()
    }

    /// Puts `items` into a random order.
    fn shuffle<T>(&mut self, items: &mut [T]) {
        self.rng().shuffle(items);
    }
}

/// A number that is known to fit.
pub(crate) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
