//! Latencies counted by value: what windows of load must hand on so that several of them have percentiles together.
//!
//! Neither a mean nor a median of the windows' own percentiles is a percentile of anything. Counts are added, which is exact
//! where all come from recorders with the same buckets.

/// Counts of latencies in ns, ascending; each represents the bucket of a recorder that ends with it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histogram(Vec<(u64, u64)>);

impl FromIterator<(u64, u64)> for Histogram {
    /// From latencies in ns and how often each was seen, in any order.
    fn from_iter<T: IntoIterator<Item = (u64, u64)>>(counts: T) -> Histogram {
        let mut counts: Vec<(u64, u64)> = counts.into_iter().filter(|(_, count)| *count > 0).collect();
        counts.sort_unstable();
        counts.dedup_by(|next, before| {
            let same = next.0 == before.0;
            before.1 = before.1.saturating_add(if same { next.1 } else { 0 });
            same
        });
        Histogram(counts)
    }
}

impl Histogram {
    /// All of these together.
    #[must_use]
    pub fn merged<'h>(all: impl IntoIterator<Item = &'h Histogram>) -> Histogram {
        all.into_iter().flat_map(|one| one.0.iter().copied()).collect()
    }

    /// Adds the counts of another one. Very many short ones may be added to a long one: what one of them takes grows with its own length.
    pub fn add(&mut self, other: &Histogram) {
        if other.0.len() > self.0.len() / 16 {
            *self = Histogram(both(&self.0, &other.0));
            return;
        }
        for &(ns, count) in &other.0 {
            match self.0.binary_search_by_key(&ns, |(value, _)| *value) {
                Ok(at) => self.0[at].1 = self.0[at].1.saturating_add(count),
                Err(at) => self.0.insert(at, (ns, count)),
            }
        }
    }

    /// The latencies in ns, ascending, and how often each was seen.
    #[must_use]
    pub fn counts(&self) -> &[(u64, u64)] {
        &self.0
    }

    /// How many latencies.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count_up_to(u64::MAX)
    }

    /// How many latencies of at most `ns`.
    #[must_use]
    pub fn count_up_to(&self, ns: u64) -> u64 {
        self.0.iter().take_while(|(value, _)| *value <= ns).fold(0, |sum, (_, count)| sum.saturating_add(*count))
    }

    /// The mean in ns and the standard deviation, with the number of latencies less one, `None` of a single one; `None` when empty.
    #[must_use]
    pub fn mean_and_deviation(&self) -> Option<(f64, Option<f64>)> {
        let count = self.count() as f64;
        let mean = self.0.iter().map(|(ns, seen)| *ns as f64 * *seen as f64).sum::<f64>() / count;
        let squares = self.0.iter().map(|(ns, seen)| (*ns as f64 - mean).powi(2) * *seen as f64).sum::<f64>();
        (count > 0.0).then(|| (mean, (count > 1.0).then(|| (squares / (count - 1.0)).sqrt())))
    }

    /// The smallest latency in ns with at least the share `p` (0 to 1) of all at or below it (nearest rank); `None` when empty.
    /// Whether there are enough for that percentile is the caller's to judge.
    #[must_use]
    pub fn value_at(&self, p: f64) -> Option<u64> {
        let mut left = (p * self.count() as f64 - 1e-9).ceil().max(1.0);
        for (value, count) in &self.0 {
            left -= *count as f64;
            if left <= 0.0 {
                return Some(*value);
            }
        }
        self.0.last().map(|(value, _)| *value)
    }
}

/// Two ascending lists of values with their counts as one.
fn both(ours: &[(u64, u64)], theirs: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let mut all = Vec::with_capacity(ours.len() + theirs.len());
    let mut rest = theirs;
    for &(ns, count) in ours {
        let (less, others) = rest.split_at(rest.iter().take_while(|(value, _)| *value < ns).count());
        all.extend_from_slice(less);
        let same = others.first().filter(|(value, _)| *value == ns);
        rest = &others[usize::from(same.is_some())..];
        all.push((ns, same.map_or(count, |(_, more)| count.saturating_add(*more))));
    }
    all.extend_from_slice(rest);
    all
}

#[cfg(test)]
mod tests {
    use super::Histogram;

    #[test]
    fn percentiles_are_of_all_counts_together() {
        let slow: Histogram = [(900, 6), (800, 4)].into_iter().collect();
        let fast: Histogram = [(5, 45), (6, 0), (5, 45)].into_iter().collect();
        let all = Histogram::merged([&slow, &fast]);
        assert_eq!((slow.count(), fast.count(), all.count()), (10, 90, 100));
        // Much longer than what is added, and not.
        let long: Histogram = (0..64).map(|ns| (2 * ns, 1)).collect();
        let other: Histogram = [(3, 2), (4, 1), (500, 1)].into_iter().collect();
        for (one, other) in [(&slow, &fast), (&fast, &slow), (&long, &other), (&other, &long), (&all, &all)] {
            let mut sum = one.clone();
            sum.add(other);
            assert_eq!(sum, Histogram::merged([one, other]));
        }
        assert_eq!([4, 5, 800, 899, 900].map(|ns| all.count_up_to(ns)), [0, 90, 94, 94, 100]);
        let of = |share: f64| all.value_at(share);
        assert_eq!(
            [of(0.0), of(0.5), of(0.9), of(0.91), of(0.94), of(0.95), of(1.0)],
            [5, 5, 5, 800, 800, 900, 900].map(Some)
        );
        assert_eq!(Histogram::default().value_at(0.5), None);
    }

    #[test]
    fn mean_and_deviation_are_of_every_latency() {
        // 2, 4, 4, 4, 5, 5, 7, 9: mean 5, squares of differences 32.
        let all: Histogram = [(2, 1), (4, 3), (5, 2), (7, 1), (9, 1)].into_iter().collect();
        let (mean, deviation) = all.mean_and_deviation().expect("eight latencies");
        assert!((mean - 5.0).abs() < 1e-12, "{mean}");
        assert!(deviation.is_some_and(|of| (of - (32.0_f64 / 7.0).sqrt()).abs() < 1e-12), "{deviation:?}");
        let one: Histogram = [(3, 1)].into_iter().collect();
        assert_eq!((one.mean_and_deviation(), Histogram::default().mean_and_deviation()), (Some((3.0, None)), None));
    }
}
