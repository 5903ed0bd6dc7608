//! What a read of a key may return: how often each was written, which of these writes were acknowledged, and which others they replaced.
//!
//! Writes of one key may be under way at once, over several connections, and only the server knows their order. So a read must return
//! a version that was sent, and none that was surely replaced before the read began: one that was acknowledged before a write began which
//! itself was acknowledged before the read. With one write of a key at a time that is the last one, exactly.

/// What became of one key.
#[derive(Clone, Copy, Debug, Default)]
struct KeyState {
    /// Versions that were sent: 1, 2, ...
    sent: u64,
    /// Versions up to this have an outcome.
    settled: u64,
    /// The least version that a read which begins now may return; 0 where the key may be missing.
    least: u64,
    /// Writes under way of versions up to this are counted as older, the others as newer: a key that always has some is settled in turns.
    boundary: u64,
    older: u32,
    newer: u32,
}

/// A write that begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PendingWrite {
    /// Its version.
    pub version: u64,
    /// Versions up to this it replaces.
    pub replaces: u64,
}

impl KeyState {
    /// A write of this version has an outcome.
    fn ended(&mut self, version: u64) {
        let of = if version <= self.boundary { &mut self.older } else { &mut self.newer };
        *of -= 1;
    }
}

/// What became of all keys of one thread, which no other thread writes.
#[derive(Debug)]
pub struct History(Vec<KeyState>);

impl History {
    /// Of so many keys, none of which was written.
    #[must_use]
    pub fn new(keys: usize) -> History {
        History(vec![KeyState::default(); keys])
    }

    /// How many keys.
    #[must_use]
    pub fn keys(&self) -> usize {
        self.0.len()
    }

    /// A write of a key begins.
    pub fn begin(&mut self, key: usize) -> PendingWrite {
        let past = &mut self.0[key];
        if past.older == 0 {
            // All up to the boundary have an outcome. The newer ones are the older ones from now on.
            (past.settled, past.boundary) = (past.boundary, past.sent);
            (past.older, past.newer) = (past.newer, 0);
            if past.older == 0 {
                past.settled = past.sent;
            }
        }
        past.sent += 1;
        past.newer += 1;
        PendingWrite { version: past.sent, replaces: past.settled }
    }

    /// A write was acknowledged.
    pub fn acknowledged(&mut self, key: usize, write: PendingWrite) {
        self.0[key].ended(write.version);
        self.0[key].least = self.0[key].least.max(write.replaces + 1);
    }

    /// A write of this version was refused.
    pub fn refused(&mut self, key: usize, version: u64) {
        self.0[key].ended(version);
    }

    /// The least version that a read which begins now may return; 0 where it may find nothing.
    #[must_use]
    pub fn least(&self, key: usize) -> u64 {
        self.0[key].least
    }

    /// Whether a read that had `least` when it began may return this version.
    #[must_use]
    pub fn permits(&self, key: usize, least: u64, version: u64) -> bool {
        (least.max(1)..=self.0[key].sent).contains(&version)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_writes_one_after_the_other_the_last_is_read() {
        let mut history = History::new(2);
        assert_eq!((history.least(0), history.permits(0, 0, 0)), (0, false));
        for version in 1..4 {
            let write = history.begin(0);
            assert_eq!(write, PendingWrite { version, replaces: version - 1 });
            // A read that is under way with the write may find either, and if none was there, nothing.
            let least = history.least(0);
            assert_eq!(least, version - 1);
            assert!(history.permits(0, least, version) && !history.permits(0, least, version + 1));
            history.acknowledged(0, write);
            assert_eq!(history.least(0), version);
            assert!(history.permits(0, version, version) && !history.permits(0, version, version - 1));
        }
        assert_eq!(history.least(1), 0, "the other key was not written");
    }

    #[test]
    fn writes_that_overlap_may_end_in_either_order_and_replace_what_was_before_both() {
        let mut history = History::new(1);
        let first = history.begin(0);
        history.acknowledged(0, first);
        let [second, third] = [history.begin(0), history.begin(0)];
        assert_eq!((second.replaces, third.replaces), (1, 1));
        history.acknowledged(0, third);
        // The second may have come after the third, and the first before both.
        let least = history.least(0);
        assert_eq!([1, 2, 3].map(|version| history.permits(0, least, version)), [false, true, true]);
        history.acknowledged(0, second);
        let fourth = history.begin(0);
        assert_eq!(fourth.replaces, 3);
        history.acknowledged(0, fourth);
        assert_eq!(history.least(0), 4);
    }

    /// A popular key always has a write under way.
    #[test]
    fn a_key_that_always_has_a_write_under_way_is_settled_all_the_same() {
        let mut history = History::new(1);
        let [first, second] = [history.begin(0), history.begin(0)];
        history.acknowledged(0, first);
        let third = history.begin(0);
        history.acknowledged(0, third);
        let least = history.least(0);
        assert_eq!(
            [1, 2, 3].map(|version| history.permits(0, least, version)),
            [false, true, true],
            "the first was acknowledged before the third began"
        );
        // One after the other begins before the one before it ends.
        let mut last = second;
        for version in 4..100 {
            let next = history.begin(0);
            history.acknowledged(0, last);
            assert_eq!(next.version, version);
            last = next;
            assert!(history.least(0) + 4 > version, "{} of {version}", history.least(0));
        }
    }

    #[test]
    fn a_write_that_was_refused_replaces_nothing() {
        let mut history = History::new(1);
        let first = history.begin(0);
        history.acknowledged(0, first);
        let second = history.begin(0);
        history.refused(0, second.version);
        assert_eq!(history.least(0), 1);
        let third = history.begin(0);
        assert_eq!(third, PendingWrite { version: 3, replaces: 2 });
    }
}
