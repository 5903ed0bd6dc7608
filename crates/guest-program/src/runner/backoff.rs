//! When a thread hands no calls to the polling thread, because one call after the other came back: refused, or not begun in time, as where that
//! thread has no CPU. Each such call takes longer than one that leaves the guest at once.

use std::cell::Cell;

/// Calls that come back in a row before the first pause.
const MISSED: u32 = 4;
/// The longest pause is 2 to this power.
const LONGEST: u32 = 10;

/// Of one thread.
#[derive(Debug, Default)]
pub(crate) struct Backoff {
    /// Calls that came back in a row.
    missed: Cell<u32>,
    /// Entries into the guest until calls are handed over again.
    left: Cell<u32>,
    /// Calls that had been answered when the last one came back.
    answered: Cell<u64>,
}

impl Backoff {
    /// A call came back, of a mailbox in which so many were answered by now.
    pub(crate) fn missed(&self, answered: u64) {
        let in_a_row =
            if self.answered.replace(answered) == answered { self.missed.get().saturating_add(1) } else { 1 };
        self.missed.set(in_a_row);
        if let Some(further) = in_a_row.checked_sub(MISSED) {
            self.left.set(1 << further.min(LONGEST));
        }
    }

    /// Whether the next calls are handed over.
    pub(crate) fn is_over(&self) -> bool {
        self.left.get() == 0
    }

    /// Before an entry into the guest: whether its calls are handed over.
    pub(crate) fn enter(&self) -> bool {
        let left = self.left.get();
        self.left.set(left.saturating_sub(1));
        left == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_begin_after_some_calls_in_a_row_and_become_longer() {
        let backoff = Backoff::default();
        for _ in 1..MISSED {
            backoff.missed(0);
            assert!(backoff.enter());
        }
        let pauses: Vec<usize> = (0..13)
            .map(|_| {
                backoff.missed(0);
                assert!(!backoff.is_over());
                (0..).take_while(|_| !backoff.enter()).count()
            })
            .collect();
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 1024, 1024]);
    }

    #[test]
    fn an_answered_call_ends_the_row() {
        let backoff = Backoff::default();
        for answered in 0..100 {
            (0..MISSED - 1).for_each(|_| backoff.missed(answered));
            assert!(backoff.is_over() && backoff.enter());
        }
        backoff.missed(99);
        assert!(!backoff.is_over());
    }
}
