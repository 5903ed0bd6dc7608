//! What was acknowledged in a phase, and the numbers from which its clients draw.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Turns of the last minutes that are kept: 15 of 20 s, 5 min.
pub const KEPT_TURNS: i64 = 15;
/// Batches of events that are kept.
pub const KEPT_BATCHES: i64 = 100;
/// Events of a batch.
pub const BATCH_EVENTS: i64 = 100;
/// Tasks of a batch.
pub const BATCH_TASKS: i64 = 10;

/// Who inserted measurements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The operation that inserts those of all entities at once.
    Insert,
    /// The feed: one host after the other.
    Feed,
}

/// The numbers of roll-ups of one period.
#[derive(Clone, Debug, Default)]
pub struct Rolled {
    /// The last that was acknowledged.
    pub known: Option<i64>,
    /// Those of unknown outcome.
    pub unknown: BTreeSet<i64>,
}

/// What was acknowledged.
#[derive(Clone, Debug, Default)]
pub struct Book {
    /// Roll-ups by resolution and beginning of the period.
    pub rolled: BTreeMap<(usize, i64), Rolled>,
    /// Turns that were inserted for all entities.
    pub turns: BTreeSet<i64>,
    /// Reports of hosts by the feed.
    pub reports: BTreeSet<i64>,
    /// Batches of events.
    pub batches: BTreeSet<i64>,
    /// Turns below these may be purged, by source.
    pub purged_turns: [i64; 2],
    /// Batches below this may be purged.
    pub purged_batches: i64,
}

/// What all clients of a phase share.
#[derive(Debug)]
pub struct Ledger {
    book: Mutex<Book>,
    /// The number of the next roll-up.
    pub next_made: AtomicI64,
    /// The next turn of all entities.
    pub next_turn: AtomicI64,
    /// The next report of the feed.
    pub next_report: AtomicI64,
    /// The next batch of events.
    pub next_batch: AtomicI64,
}

impl Default for Ledger {
    fn default() -> Self {
        Ledger {
            book: Mutex::default(),
            next_made: AtomicI64::new(1),
            // The loaded data has those before.
            next_turn: AtomicI64::new(KEPT_TURNS),
            next_report: AtomicI64::new(0),
            next_batch: AtomicI64::new(KEPT_BATCHES),
        }
    }
}

impl Ledger {
    /// What was acknowledged so far.
    pub fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Executions of each operation, and the rows that they inserted, deleted, read or returned.
#[derive(Debug, Default)]
pub struct Counts([[AtomicU64; 2]; 9]);

impl Counts {
    /// Notes an execution of an operation.
    pub fn executed(&self, operation: usize, rows: u64) {
        self.0[operation][0].fetch_add(1, Ordering::Relaxed);
        self.0[operation][1].fetch_add(rows, Ordering::Relaxed);
    }

    /// Mean rows of an execution of an operation; `None` before the first.
    #[must_use]
    pub fn mean_rows(&self, operation: usize) -> Option<f64> {
        let [executions, rows] = [0, 1].map(|part: usize| self.0[operation][part].load(Ordering::Relaxed));
        (executions > 0).then(|| rows as f64 / executions as f64)
    }
}
