//! What one worker has measured, and how the records of threads and sites become one.
//!
//! A [`Part`] holds counts and histograms only, so that merging is addition and loses nothing: percentiles are first taken
//! from the whole. It is what a site sends home.

use crate::failure::Failure;
use crate::latency::{HistogramError, Latencies};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The name and version of the format of a [`Part`].
pub const PART_FORMAT: &str = "baremark-load-part/4";

/// Everything that one site has measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Part {
    /// [`PART_FORMAT`].
    pub format: String,
    /// One for each operation of the scenario, in its order.
    pub operations: Vec<OperationPart>,
    /// How late the generator began what it meant to begin.
    pub send_lag: Latencies,
    /// One for each second.
    pub seconds: Vec<SecondPart>,
    /// One for each thread.
    pub threads: Vec<ThreadPart>,
    /// Statuses of all answers.
    pub statuses: BTreeMap<u16, u64>,
    /// Those of answers whose status was none of those expected.
    pub failed_statuses: BTreeMap<u16, u64>,
    /// What became of connections and requests.
    pub counts: Counts,
    /// The first failures in words, at most [`MOST_EXAMPLES`].
    pub examples: Vec<String>,
    /// The longest that the measured time was at any thread.
    pub elapsed_ns: u64,
    /// Whether it was interrupted.
    pub interrupted: bool,
}

/// Failures told in words.
pub const MOST_EXAMPLES: usize = 8;

/// Counts of connections and requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Operations that were meant to start in the time.
    pub intended: u64,
    /// Requests answered, by any status, while the time ran.
    pub answered: u64,
    /// Operations that came to an end, well or not, while the time ran.
    pub ended: u64,
    /// Requests that failed.
    pub failed_requests: u64,
    /// Bytes received while the time ran.
    pub received_bytes: u64,
    /// Connections opened.
    pub connections: u64,
    /// Operations begun that had no end when the load ended.
    pub unfinished: u64,
    /// Operations intended that never got a connection, that a late generator had not begun when the time was over, or that users were meant to start in a
    /// window while the server kept them.
    pub unsent: u64,
    /// Operations that had to wait for a free connection.
    pub waited: u64,
    /// Requests sent again because a kept connection had been closed by the server meanwhile; the wait is in the latency.
    pub retried: u64,
    /// Server-sent events received.
    pub events: u64,
}

impl Counts {
    fn add(&mut self, other: &Counts) {
        self.intended += other.intended;
        self.answered += other.answered;
        self.ended += other.ended;
        self.failed_requests += other.failed_requests;
        self.received_bytes += other.received_bytes;
        self.connections += other.connections;
        self.unfinished += other.unfinished;
        self.unsent += other.unsent;
        self.waited += other.waited;
        self.retried += other.retried;
        self.events += other.events;
    }
}

/// One operation's record.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OperationPart {
    /// Its name.
    pub name: String,
    /// From the intended start, successes only. Empty when the loop has no intended starts.
    pub corrected: Latencies,
    /// From the actual start, successes only.
    pub raw: Latencies,
    /// From the moment that an answer reports to its arrival.
    pub delay: Latencies,
    /// Successes whose latency (corrected where there is one) kept the limit; all of them without a limit.
    pub within_limit: u64,
    /// Delays that kept their limit.
    pub delay_within_limit: u64,
    /// Successes that ended while the time ran, whenever they were meant to start; loops alongside users apart.
    #[serde(default)]
    pub in_time: u64,
    /// Those meant to start, loops alongside users apart.
    #[serde(default)]
    pub intended: u64,
    /// Of the operations that users were meant to start in a window while the server kept them, those that came after one of these; a part of
    /// [`Counts::unsent`].
    #[serde(default)]
    pub kept: u64,
    /// Failures by kind, in the order of [`Failure::ALL`].
    pub failures: [u64; Failure::ALL.len()],
}

/// One second's record.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SecondPart {
    /// Operations intended in it.
    pub intended: u64,
    /// Requests answered in it.
    pub answered: u64,
    /// Operations that failed in it.
    pub failed: u64,
    /// Bytes received in it.
    pub received_bytes: u64,
    /// Latencies of its operations, loops alongside users apart, as [`Latencies::to_v2`] at two digits; corrected where there are
    /// intended starts.
    #[serde(with = "text")]
    pub latencies: Vec<u8>,
}

/// One thread's own cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadPart {
    /// The CPU to which it was pinned.
    pub cpu: Option<usize>,
    /// Its processor time.
    pub cpu_ns: u64,
    /// The time in which it used that.
    pub wall_ns: u64,
    /// The longest time in a window for which it did not run though it was to look at the clock.
    #[serde(default)]
    pub away_ns: u64,
}

/// Why two parts do not belong together.
#[derive(Debug, thiserror::Error)]
pub enum MergeError {
    /// Another format.
    #[error("a site sent '{0}' instead of {PART_FORMAT}; use one version of the program at all sites")]
    Format(String),
    /// Another scenario.
    #[error("a site measured other operations ({0}); give all sites one scenario")]
    Operations(String),
    /// A histogram that cannot be read.
    #[error("a site's series cannot be read")]
    Histogram(#[source] HistogramError),
}

impl Part {
    /// Operations that succeeded while the time ran, loops alongside users apart.
    #[must_use]
    pub fn succeeded(&self) -> u64 {
        self.operations.iter().map(|operation| operation.in_time).sum()
    }

    /// CPUs that the generator's threads used together.
    #[must_use]
    pub fn cpus_used(&self) -> f64 {
        self.threads.iter().fold(0.0, |sum, thread| sum + thread.cpu_ns as f64 / thread.wall_ns.max(1) as f64)
    }

    /// An empty record of these operations.
    #[must_use]
    pub fn new(names: &[String]) -> Part {
        let operations = names.iter().map(|name| OperationPart { name: name.clone(), ..OperationPart::default() });
        Part { format: PART_FORMAT.to_owned(), operations: operations.collect(), ..Part::default() }
    }

    /// Adds all of `other`, exactly.
    ///
    /// # Errors
    /// When `other` is of another format or scenario, or torn; then nothing has been added.
    pub fn merge(&mut self, other: &Part) -> Result<(), MergeError> {
        let names = |part: &Part| part.operations.iter().map(|one| one.name.clone()).collect::<Vec<_>>();
        if other.format != self.format {
            return Err(MergeError::Format(other.format.clone()));
        }
        if names(self) != names(other) {
            return Err(MergeError::Operations(names(other).join(", ")));
        }
        let mut seconds = self.seconds.clone();
        seconds.resize_with(seconds.len().max(other.seconds.len()), SecondPart::default);
        for (second, theirs) in seconds.iter_mut().zip(&other.seconds) {
            second.merge(theirs).map_err(MergeError::Histogram)?;
        }
        self.seconds = seconds;
        for (operation, theirs) in self.operations.iter_mut().zip(&other.operations) {
            operation.merge(theirs);
        }
        self.send_lag.merge(&other.send_lag);
        self.threads.extend(&other.threads);
        for (status, count) in &other.statuses {
            *self.statuses.entry(*status).or_default() += count;
        }
        for (status, count) in &other.failed_statuses {
            *self.failed_statuses.entry(*status).or_default() += count;
        }
        self.counts.add(&other.counts);
        self.examples.extend(other.examples.iter().cloned());
        self.examples.dedup();
        self.examples.truncate(MOST_EXAMPLES);
        self.elapsed_ns = self.elapsed_ns.max(other.elapsed_ns);
        self.interrupted |= other.interrupted;
        Ok(())
    }
}

impl OperationPart {
    fn merge(&mut self, other: &OperationPart) {
        self.corrected.merge(&other.corrected);
        self.raw.merge(&other.raw);
        self.delay.merge(&other.delay);
        self.within_limit += other.within_limit;
        self.in_time += other.in_time;
        self.intended += other.intended;
        self.kept += other.kept;
        self.delay_within_limit += other.delay_within_limit;
        for (count, theirs) in self.failures.iter_mut().zip(&other.failures) {
            *count += theirs;
        }
    }

    /// All failures.
    #[must_use]
    pub fn failed(&self) -> u64 {
        self.failures.iter().sum()
    }
}

impl SecondPart {
    /// Adds all of `other`, exactly.
    ///
    /// # Errors
    /// When a histogram is torn; then nothing has been added.
    pub fn merge(&mut self, other: &SecondPart) -> Result<(), HistogramError> {
        let mut latencies = self.histogram()?;
        latencies.merge(&other.histogram()?);
        self.latencies = latencies.to_v2();
        self.intended += other.intended;
        self.answered += other.answered;
        self.failed += other.failed;
        self.received_bytes += other.received_bytes;
        Ok(())
    }

    /// Its latencies.
    ///
    /// # Errors
    /// When they are torn.
    pub fn histogram(&self) -> Result<Latencies, HistogramError> {
        if self.latencies.is_empty() { Ok(Latencies::coarse()) } else { Latencies::from_v2(&self.latencies) }
    }
}

/// Seconds of one load that several make, threads or sites: each is handed on, in order, once all its parts are there.
#[derive(Debug, Default)]
pub struct MergedSeconds(BTreeMap<usize, (usize, SecondPart)>);

impl MergedSeconds {
    /// Adds one of the `of` parts of a second; `whole` gets every second that has all of its parts.
    pub fn add(&mut self, second: usize, part: &SecondPart, of: usize, whole: &mut dyn FnMut(usize, SecondPart)) {
        let (parts, sum) = self.0.entry(second).or_default();
        *parts += 1;
        // A part that cannot be read is missing from what is shown of this second, not from the result.
        let _ = sum.merge(part);
        while let Some(first) = self.0.first_entry().filter(|first| first.get().0 >= of) {
            let (second, (_, part)) = first.remove_entry();
            whole(second, part);
        }
    }
}

/// A histogram's bytes as base64.
mod text {
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&STANDARD.encode(bytes))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
        let text = String::deserialize(deserializer)?;
        STANDARD.decode(&text).map_err(|_why| serde::de::Error::custom("a histogram is not base64"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(latencies: &[u64], lost: u64) -> Part {
        let mut part = Part::new(&["a".to_owned(), "b".to_owned()]);
        let mut second = Latencies::coarse();
        for ns in latencies {
            part.operations[1].corrected.record(*ns);
            second.record(*ns);
        }
        part.operations[0].failures[2] = lost;
        part.counts.answered = latencies.len() as u64;
        part.seconds.push(SecondPart { answered: 1, latencies: second.to_v2(), ..SecondPart::default() });
        part.statuses.insert(200, latencies.len() as u64);
        part.failed_statuses.insert(503, lost);
        part
    }

    #[test]
    fn sites_merge_to_what_one_would_have_measured_also_by_way_of_json() {
        let mut left = part(&[10, 2_000, 3_000_000], 1);
        let right = serde_json::to_string(&part(&[77, 5_000_000_000], 2)).expect("JSON");
        left.merge(&serde_json::from_str(&right).expect("a part")).expect("one scenario");
        let mut whole = part(&[10, 2_000, 3_000_000, 77, 5_000_000_000], 3);
        whole.seconds[0].answered = 2;
        assert_eq!(left, whole);
    }

    #[test]
    fn a_second_goes_on_when_all_that_are_left_have_told_of_it() {
        let mut seconds = MergedSeconds::default();
        let mut heard = Vec::new();
        let mut tell = |second, answered, of| {
            let part = SecondPart { answered, ..SecondPart::default() };
            seconds.add(second, &part, of, &mut |second, part| heard.push((second, part.answered)));
        };
        tell(0, 1, 2);
        tell(1, 2, 2);
        tell(1, 20, 2);
        tell(0, 10, 2);
        tell(2, 3, 2);
        // One of the two is lost: what the other told alone is all there will be.
        tell(3, 4, 1);
        assert_eq!(heard, [(0, 11), (1, 22), (2, 3), (3, 4)]);
    }

    #[test]
    fn parts_of_other_scenarios_or_versions_are_refused() {
        let mut one = part(&[1], 0);
        let other = Part::new(&["c".to_owned()]);
        assert!(one.merge(&other).expect_err("other operations").to_string().contains("other operations (c)"));
        let newer = Part { format: "baremark-load-part/9".to_owned(), ..part(&[1], 0) };
        assert!(one.merge(&newer).expect_err("other format").to_string().contains("one version"));
        let mut torn = part(&[1], 0);
        torn.seconds[0].latencies.truncate(9);
        assert!(one.merge(&torn).is_err());
        assert_eq!(one, part(&[1], 0), "nothing was added");
    }
}
