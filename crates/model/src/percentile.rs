//! Percentiles by their metrics' keys: `latency_p99_9_us` is the 99.9th percentile of the distribution `latency_us`.
//!
//! Percentiles of one distribution are in order whatever was measured, which is why whoever estimates or checks them asks which belong
//! together. A key has the percentile between underscores; `median` and `max` are read as the 50th and the 100th.

/// A percentile.
#[derive(Clone, Debug, PartialEq)]
pub struct Percentile {
    /// The distribution: the key without the percentile.
    pub of: String,
    /// The share of values at or below it, 0 to 1.
    pub share: f64,
}

impl Percentile {
    /// The nanoseconds of the distribution's unit, by which its name ends; `None` of what is not a time.
    #[must_use]
    pub fn unit_ns(&self) -> Option<f64> {
        match self.of.rsplit('_').next()? {
            "ns" => Some(1.0),
            "us" => Some(1e3),
            "ms" => Some(1e6),
            "s" => Some(1e9),
            _ => None,
        }
    }

    /// The percentile that a metric's key names; `None` for any other metric.
    #[must_use]
    pub fn of_key(key: &str) -> Option<Percentile> {
        // Most keys are no percentile's, and a run of many trials asks often.
        if !key.split('_').any(names_share) {
            return None;
        }
        let parts: Vec<&str> = key.split('_').collect();
        (0..parts.len()).find_map(|at| {
            let (share, used) = share_at(&parts[at..])?;
            let rest: Vec<&str> = parts[..at].iter().chain(&parts[at + used..]).copied().collect();
            (!rest.is_empty()).then(|| Percentile { of: rest.join("_"), share })
        })
    }
}

/// The share that the first parts name, and how many they are.
fn share_at(parts: &[&str]) -> Option<(f64, usize)> {
    let whole = match *parts.first()? {
        "median" => return Some((0.5, 1)),
        "max" => return Some((1.0, 1)),
        part => digits_of(part)?,
    };
    // p999 is written without the point.
    let (tens, nines) = whole.split_at(2);
    let decimals = parts.get(1).filter(|part| nines.is_empty() && is_number(part));
    let digits = decimals.map_or(nines, |part| part);
    let percent: f64 = format!("{tens}.{digits}0").parse().ok()?;
    Some((percent / 100.0, if decimals.is_some() { 2 } else { 1 }))
}

/// Whether a share begins with this part.
fn names_share(part: &str) -> bool {
    part == "median" || part == "max" || digits_of(part).is_some()
}

/// The digits of `p99`.
fn digits_of(part: &str) -> Option<&str> {
    part.strip_prefix('p').filter(|digits| digits.len() >= 2 && is_number(digits))
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|digit| digit.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_says_of_which_distribution_it_is_which_percentile() {
        let of = |key: &str| Percentile::of_key(key).map(|found| (found.of, format!("{:.3}", found.share)));
        let is = |of: &str, share: &str| Some((of.to_owned(), share.to_owned()));
        assert_eq!(of("latency_p50_us"), is("latency_us", "0.500"));
        assert_eq!(of("latency_p99_9_us"), is("latency_us", "0.999"));
        assert_eq!(of("p999_ns"), is("ns", "0.999"));
        assert_eq!(of("qemu_read_p95_us"), is("qemu_read_us", "0.950"));
        assert_eq!(of("latency_max_us"), is("latency_us", "1.000"));
        let unit = |key: &str| Percentile::of_key(key).and_then(|found| found.unit_ns());
        assert_eq!(["p999_ns", "latency_p99_ms", "users_p99"].map(unit), [Some(1.0), Some(1e6), None]);
        assert_eq!(
            [of("latency_mean_us"), of("p99"), of("pages"), of("peak_memory_bytes"), of("requests_per_s")],
            [const { None }; 5]
        );
    }
}
