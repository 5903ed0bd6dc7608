//! What became of a load.

use crate::blocking::ConnectionError;
use baremark_load::latency::Latencies;

/// Commands of one kind whose replies were as they can be.
#[derive(Clone, Debug, Default)]
pub struct Commands {
    /// Of those in the measured time: from the start, or the intended start, to the reply.
    pub latencies: Latencies,
    /// All that were sent, loading, warm-up and reading back among them.
    pub sent: u64,
}

/// What became of a load.
#[derive(Clone, Debug, Default)]
pub struct LoadOutcome {
    /// Reads.
    pub get: Commands,
    /// Writes.
    pub set: Commands,
    /// Reads of the measured time that found their key.
    pub hits: u64,
    /// Reads of the measured time of keys that were never written.
    pub misses: u64,
    /// Error replies to commands of the measured time.
    pub errors: u64,
    /// The first error reply of the whole run.
    pub first_error: Option<String>,
    /// Replies of the whole run that cannot be: another value than one that was written, or one that was replaced.
    pub wrong: u64,
    /// The first of them, in words.
    pub first_wrong: Option<String>,
    /// Keys that were read back after the load.
    pub read_back: u64,
    /// Commands whose reply came in each second of the measured time.
    pub seconds: Vec<u64>,
    /// Open arrivals: actual start minus intended start.
    pub lag: Latencies,
    /// Open arrivals that were not started within a second after the measured time.
    pub unserved: u64,
    /// CPU time of the threads in the measured time, in ns.
    pub driver_cpu_ns: u64,
    /// What the meter grew in the measured time.
    pub metered: u64,
    /// When the measured time began, after the call, in ns.
    pub begin_ns: u64,
    /// How long it was, in ns.
    pub elapsed_ns: u64,
}

impl LoadOutcome {
    /// Commands of the measured time with the reply that they should have.
    #[must_use]
    pub fn done(&self) -> u64 {
        self.get.latencies.count() + self.set.latencies.count()
    }

    /// Commands whose reply came within the measured time. Of open arrivals that is not [`LoadOutcome::done`]: of those, replies may come later.
    #[must_use]
    pub fn answered(&self) -> u64 {
        self.seconds.iter().sum()
    }

    /// Commands answered per second.
    #[must_use]
    pub fn per_s(&self) -> f64 {
        self.answered() as f64 * 1e9 / self.elapsed_ns.max(1) as f64
    }

    /// The share of commands of the measured time to which the server replied with an error.
    #[must_use]
    pub fn error_share(&self) -> f64 {
        self.errors as f64 / (self.done() + self.errors).max(1) as f64
    }

    pub(crate) fn found_wrong(&mut self, what: impl FnOnce() -> String) {
        self.wrong += 1;
        self.first_wrong.get_or_insert_with(what);
    }

    pub(crate) fn merge(&mut self, other: LoadOutcome) {
        for (sum, more) in [(&mut self.get, &other.get), (&mut self.set, &other.set)] {
            sum.latencies.merge(&more.latencies);
            sum.sent += more.sent;
        }
        self.lag.merge(&other.lag);
        self.seconds.resize(self.seconds.len().max(other.seconds.len()), 0);
        self.seconds.iter_mut().zip(&other.seconds).for_each(|(sum, more)| *sum += more);
        for (sum, more) in [
            (&mut self.hits, other.hits),
            (&mut self.misses, other.misses),
            (&mut self.errors, other.errors),
            (&mut self.wrong, other.wrong),
            (&mut self.read_back, other.read_back),
            (&mut self.unserved, other.unserved),
            (&mut self.driver_cpu_ns, other.driver_cpu_ns),
        ] {
            *sum += more;
        }
        self.first_error = self.first_error.take().or(other.first_error);
        self.first_wrong = self.first_wrong.take().or(other.first_wrong);
    }
}

/// Why a load has no outcome.
#[derive(Debug, thiserror::Error)]
pub enum DriveError {
    /// A connection, or what came over it.
    #[error("{doing}: {why}")]
    Talk {
        /// What was done.
        doing: &'static str,
        /// Why it failed.
        why: ConnectionError,
    },
    /// A reply too many.
    #[error("the server sent a reply without a command")]
    Unasked,
    /// Replies too few.
    #[error("{0} commands have no reply {1} s after the load")]
    Unanswered(u64, u64),
    /// The threads' own system calls.
    #[error("{0}: {1}")]
    Thread(&'static str, std::io::Error),
    /// The interrupt was raised, or another thread has failed.
    #[error("interrupted")]
    Stopped,
}
