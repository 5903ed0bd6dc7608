//! How long it takes until everybody knows: a value that one user's answer tells of, found again in what others hear.
//!
//! Both moments are read from the generator's own clock, so that no server's clock has to be right. It counts from when the
//! request was *sent* whose answer reports the value: the moment of acceptance lies between that and the answer, so that
//! the delay is an upper bound and nothing is flattered. Others may hear of it before the answer comes; what they heard is
//! kept until it does. Sites of a generator do not know each other's values: theirs find no match and count nowhere.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, PoisonError};

/// Values under way between all threads of a generator.
#[derive(Debug, Default)]
pub(crate) struct Propagation {
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    values: HashMap<Box<str>, Value>,
    /// In the order of their arrival, to forget them.
    order: VecDeque<(u64, Box<str>)>,
    /// About the bytes that all of them take.
    bytes: usize,
}

#[derive(Debug, Default)]
struct Value {
    sent: Option<u64>,
    /// Heard before the answer came: when, and the operation in which.
    early: Vec<(u64, usize)>,
}

/// A value is forgotten after this.
const KEPT_NS: u64 = 60_000_000_000;
/// At most about so many bytes are kept, whatever servers answer: some 500,000 identifiers.
const MOST_BYTES: usize = 96 << 20;
/// What a value takes in addition to its text, of which there are two.
const ENTRY: usize = 192;
/// What it takes to note that it was heard early.
const EARLY: usize = 16;

impl Propagation {
    /// An answer that came at `now` reports `value`, to a request sent at `sent`. Returns the delays of those who had heard
    /// of it already, each with its operation.
    pub(crate) fn tell(&self, value: &str, sent: u64, now: u64) -> Vec<(u64, usize)> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = known.entry(value, now);
        entry.sent = Some(sent);
        let early = std::mem::take(&mut entry.early);
        early.into_iter().map(|(at, operation)| (at.saturating_sub(sent), operation)).collect()
    }

    /// `value` was heard at `now` in an operation. Returns the delay if it is known by now.
    pub(crate) fn hear(&self, value: &str, now: u64, operation: usize) -> Option<u64> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = known.entry(value, now);
        let sent = entry.sent;
        if sent.is_none() {
            entry.early.push((now, operation));
            known.bytes += EARLY;
        }
        sent.map(|sent| now.saturating_sub(sent))
    }
}

impl Known {
    fn entry(&mut self, value: &str, now: u64) -> &mut Value {
        while self.order.front().is_some_and(|(at, _)| at + KEPT_NS < now) || self.bytes > MOST_BYTES {
            let Some((_, old)) = self.order.pop_front() else { break };
            let early = self.values.remove(&old).map_or(0, |value| value.early.len());
            self.bytes = self.bytes.saturating_sub(weight(&old) + EARLY * early);
        }
        if !self.values.contains_key(value) {
            self.order.push_back((now, value.into()));
            self.bytes += weight(value);
        }
        self.values.entry(value.into()).or_default()
    }
}

fn weight(value: &str) -> usize {
    2 * value.len() + ENTRY
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_count_from_the_sending_whoever_is_first() {
        let propagation = Propagation::default();
        assert_eq!(propagation.hear("7", 150, 3), None, "nobody has told yet");
        assert_eq!(propagation.tell("7", 100, 200), [(50, 3)], "the early one counts when the answer comes");
        assert_eq!(propagation.hear("7", 260, 3), Some(160));
        assert_eq!(propagation.hear("8", 260, 3), None);
    }

    /// Servers may make up as many values as they like, long ones and ones that nobody tells.
    #[test]
    fn what_is_kept_is_bounded() {
        let propagation = Propagation::default();
        let long = "x".repeat(1000);
        for value in 0..100_000 {
            propagation.hear(&format!("{long}{value}"), 1, 0);
            propagation.hear("the same", 1, 0);
        }
        let known = propagation.known.lock().expect("no panic");
        let text: usize = known.values.keys().map(|value| 2 * value.len()).sum();
        assert!(known.bytes <= MOST_BYTES + weight(&long) && text < MOST_BYTES && known.values.len() > 20_000);
        assert_eq!(known.values.len(), known.order.len());
    }

    #[test]
    fn old_values_are_forgotten() {
        let propagation = Propagation::default();
        for value in 0..1000 {
            propagation.tell(&value.to_string(), 0, 1);
        }
        assert_eq!(propagation.hear("new", 2 * KEPT_NS, 0), None);
        assert_eq!(propagation.known.lock().expect("no panic").values.len(), 1);
        assert_eq!(propagation.hear("5", 2 * KEPT_NS, 0), None, "too late to be matched");
    }
}
