//! What a transfer is asked for, and what its threads share.

use hdrhistogram::Histogram;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// What the ends do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// One end sends, the other takes.
    Stream,
    /// One end sends a message and waits until it has come back.
    RequestResponse,
    /// The same, with a connection for each message.
    ConnectClose,
    /// One end sends UDP datagrams.
    Datagrams,
}

/// Which end sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// End 0.
    Forward,
    /// Both, each on connections of its own.
    Both,
}

/// A transfer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    /// What the ends do.
    pub pattern: Pattern,
    /// Bytes of a message: of one write, request or datagram.
    pub message: usize,
    /// Bytes of the socket buffers as setsockopt(2) takes them; none for those that the kernel adapts.
    pub buffer: Option<usize>,
    /// Connections in each direction, each with a thread at each end.
    pub streams: usize,
    /// Which end sends.
    pub direction: Direction,
    /// Send the pages of a file without copying them.
    pub zero_copy: bool,
    /// The CPUs of end 0 and of end 1; none for any.
    pub cpus: Option<[usize; 2]>,
    /// Time before the window.
    pub warm_up: Duration,
    /// The window.
    pub duration: Duration,
}

pub(crate) const WAITING: u8 = 0;
/// Round trips that end are counted.
pub(crate) const MEASURING: u8 = 1;
/// They are not any more, and threads go on until their times were read.
pub(crate) const COUNTED: u8 = 2;
pub(crate) const MEASURED: u8 = 3;

/// What one thread of a transfer shares with the others.
pub(crate) struct Worker<'w> {
    pub(crate) stage: &'w AtomicU8,
    pub(crate) stopped: &'w AtomicBool,
    pub(crate) bytes: Arc<AtomicU64>,
    pub(crate) trips: &'w Mutex<Histogram<u64>>,
}

impl Worker<'_> {
    /// Whether more is to be done.
    pub(crate) fn goes_on(&self) -> bool {
        !self.stopped.load(Ordering::Relaxed)
    }

    /// Counts bytes. Only this worker writes its counter.
    pub(crate) fn count(&self, bytes: usize) {
        self.bytes.store(self.bytes.load(Ordering::Relaxed) + bytes as u64, Ordering::Relaxed);
    }

    /// Counts a round trip.
    pub(crate) fn trip(&self, took: Duration, bytes: usize) {
        if self.stage.load(Ordering::Relaxed) == MEASURING {
            let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX).max(1);
            self.trips.lock().unwrap_or_else(PoisonError::into_inner).saturating_record(nanos);
        }
        self.count(bytes);
    }
}
