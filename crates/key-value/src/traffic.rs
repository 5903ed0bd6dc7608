//! What is sent to a server, and when.

pub use baremark_load::steady::Drive;
use std::time::Duration;

/// What is sent.
#[derive(Clone, Debug, PartialEq)]
pub struct Traffic {
    /// Keys, those of all threads together.
    pub keys: u64,
    /// The exponent of Zipf's distribution of keys; `None` where all are as likely.
    pub exponent: Option<f64>,
    /// Bytes of a value.
    pub value_bytes: usize,
    /// The share of reads, 0 to 1.
    pub read_share: f64,
    /// The share of keys that are there before the load, 0 to 1.
    pub loaded_share: f64,
    /// Connections.
    pub connections: usize,
    /// Commands under way on a connection, at most.
    pub pipeline: usize,
    /// Threads; at most as many as connections and as keys.
    pub threads: usize,
    /// When commands start.
    pub drive: Drive,
    /// Time under load before the measured time.
    pub warm_up: Duration,
    /// The measured time.
    pub duration: Duration,
    /// Seed of keys, values and arrivals.
    pub seed: u64,
    /// CPUs of the threads; empty leaves them all.
    pub cpus: Vec<usize>,
}

impl Traffic {
    /// Keys that only this thread uses: its number, and every one so many threads further.
    #[must_use]
    pub fn keys_of(&self, thread: usize) -> u64 {
        let (threads, thread) = (self.threads as u64, thread as u64);
        self.keys / threads + u64::from(thread < self.keys % threads)
    }

    /// Connections of a thread.
    #[must_use]
    pub fn connections_of(&self, thread: usize) -> usize {
        self.connections / self.threads + usize::from(thread < self.connections % self.threads)
    }
}
