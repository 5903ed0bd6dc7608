//! Whether a requested rate was reached.

/// Of a requested rate that was not reached, what ended of it within the measured time, in words. `what` is counted, such as "commands"; the
/// rate is per second, and its arrivals are random (Poisson) or have equal gaps.
#[must_use]
pub fn missed(what: &str, (rate, poisson): (f64, bool), ended: u64, elapsed_ns: u64) -> Option<String> {
    let seconds = elapsed_ns.max(1) as f64 / 1e9;
    // By how much a number of random arrivals differs from its mean: three times its root in 1 of 740 phases. Of equal gaps a window may have
    // one fewer.
    let chance = if poisson { 3.0 * (rate * seconds).sqrt() } else { 1.0 };
    let reached = ended as f64 / seconds;
    (reached < 0.95 * rate - chance / seconds)
        .then(|| format!("throughput {reached:.0} of the requested {rate:.0} {what}/s"))
}

#[cfg(test)]
mod tests {
    use super::missed;

    /// 80 of 100 random arrivals are two standard deviations below their mean, and 60 are four.
    #[test]
    fn arrivals_that_are_few_by_chance_are_not_missed() {
        let is_missed = |ended, poisson| missed("I/Os", (100.0, poisson), ended, 1_000_000_000).is_some();
        let cases = [(80, true), (60, true), (80, false), (94, false), (93, false)];
        assert_eq!(cases.map(|(ended, poisson)| is_missed(ended, poisson)), [false, true, true, false, true]);
        // Nine of ten equal gaps.
        assert_eq!(missed("I/Os", (10.0, false), 9, 1_000_000_000), None);
        let words = missed("I/Os", (100.0, false), 700, 10_000_000_000);
        assert_eq!(words.as_deref(), Some("throughput 70 of the requested 100 I/Os/s"));
    }
}
