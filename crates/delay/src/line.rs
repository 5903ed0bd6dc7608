//! One direction: chunks that wait for their time.

use hdrhistogram::Histogram;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Chunks that may wait in one direction.
const WAITING: usize = 1024;
/// The last part of a wait, which spins.
const SPIN: Duration = Duration::from_micros(300);

/// What is asked of a direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Delay {
    /// From a write at one end until the bytes are readable at the other.
    pub one_way: Duration,
    /// Each chunk's delay is drawn evenly from `one_way` ± this; no chunk overtakes another.
    pub jitter: Duration,
    /// What the path takes without waiting.
    pub overhead: Overhead,
    /// Seed of the jitter.
    pub seed: u64,
    /// How the wait is made.
    pub wait: Wait,
}

/// How a direction waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wait {
    /// It sleeps, and spins in the last part: exact, for the CPU time of that part with each chunk.
    #[default]
    Spinning,
    /// It sleeps alone: late by the timer's error, which [`Overhead::measure_with`] takes off in the median. For machines whose CPUs
    /// the measured work needs.
    Sleeping,
}

/// What a path through the proxy takes by itself, which is taken off each wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Overhead(pub Duration);

/// What was measured of a direction or a proxy, from reading a chunk until it was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Chunks that were written.
    pub chunks: u64,
    /// Chunks that were dropped because too many waited.
    pub dropped: u64,
    /// Median time that a chunk spent in the proxy, with the path's own share; `None` without chunks.
    pub median: Option<Duration>,
    /// 99th percentile of it; `None` below 368 chunks.
    pub p99: Option<Duration>,
}

/// What all directions of a proxy share.
#[derive(Debug)]
pub(crate) struct Meter {
    times: Mutex<Histogram<u64>>,
    dropped: AtomicU64,
    overhead: Duration,
}

impl Meter {
    pub(crate) fn new(overhead: Overhead) -> Meter {
        let times = Histogram::new_with_bounds(1, 60_000_000_000, 3).expect("1 ns to 1 min at 3 digits are bounds");
        Meter { times: Mutex::new(times), dropped: AtomicU64::new(0), overhead: overhead.0 }
    }

    pub(crate) fn record(&self, took: Duration) {
        let nanos = u64::try_from((took + self.overhead).as_nanos()).unwrap_or(u64::MAX).max(1);
        self.times.lock().unwrap_or_else(PoisonError::into_inner).saturating_record(nanos);
    }

    pub(crate) fn drop_one(&self) {
        self.dropped.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn report(&self) -> Report {
        let times = self.times.lock().unwrap_or_else(PoisonError::into_inner);
        let at = |quantile: f64, floor: u64| {
            (times.len() >= floor).then(|| Duration::from_nanos(times.value_at_quantile(quantile)))
        };
        let dropped = self.dropped.load(Ordering::Relaxed);
        Report { chunks: times.len(), dropped, median: at(0.5, 1), p99: at(0.99, 368) }
    }
}

struct Chunk {
    came: Instant,
    bytes: Vec<u8>,
}

/// Where a direction begins.
pub(crate) struct Line {
    sender: SyncSender<Chunk>,
    meter: Arc<Meter>,
}

impl Line {
    /// Starts a direction whose chunks are written by `write`, on a thread that ends with the line or when `write` fails.
    pub(crate) fn start(
        delay: Delay,
        meter: Arc<Meter>,
        write: impl FnMut(&[u8]) -> io::Result<()> + Send + 'static,
        end: impl FnOnce() + Send + 'static,
    ) -> Line {
        let (sender, chunks) = sync_channel(WAITING);
        let line = Line { sender, meter: Arc::clone(&meter) };
        thread::spawn(move || {
            release(delay, &meter, &chunks, write);
            end();
        });
        line
    }

    /// Adds a chunk, waiting for room; whether the direction still writes.
    pub(crate) fn push(&self, bytes: Vec<u8>) -> bool {
        self.sender.send(Chunk { came: Instant::now(), bytes }).is_ok()
    }

    /// Adds a chunk or drops it where too many wait; whether the direction still writes.
    pub(crate) fn offer(&self, bytes: Vec<u8>) -> bool {
        match self.sender.try_send(Chunk { came: Instant::now(), bytes }) {
            Err(TrySendError::Disconnected(_)) => return false,
            Err(TrySendError::Full(_)) => self.meter.drop_one(),
            Ok(()) => {}
        }
        true
    }
}

fn release(delay: Delay, meter: &Meter, chunks: &Receiver<Chunk>, mut write: impl FnMut(&[u8]) -> io::Result<()>) {
    let mut draw = Draw::new(delay.seed);
    for Chunk { came, bytes } in chunks {
        wait_until(came + draw.wait(&delay), delay.wait);
        if write(&bytes).is_err() {
            return;
        }
        meter.record(came.elapsed());
    }
}

fn wait_until(due: Instant, wait: Wait) {
    let spin = if wait == Wait::Spinning { SPIN } else { Duration::ZERO };
    loop {
        let left = due.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        match left.checked_sub(spin) {
            Some(asleep) if !asleep.is_zero() => thread::sleep(asleep),
            _ => std::hint::spin_loop(),
        }
    }
}

/// Evenly distributed numbers (xorshift64*, Vigna 2016).
#[derive(Debug)]
pub(crate) struct Draw(u64);

impl Draw {
    pub(crate) fn new(seed: u64) -> Draw {
        // The golden ratio: seeds that follow each other, as of the ends of a link, are far apart. None may be 0.
        Draw(seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15).max(1))
    }

    pub(crate) fn wait(&mut self, delay: &Delay) -> Duration {
        let least = delay.one_way.saturating_sub(delay.jitter);
        let width = delay.one_way + delay.jitter - least;
        let drawn = if width.is_zero() { least } else { least + width.mul_f64(self.next()) };
        drawn.saturating_sub(delay.overhead.0)
    }

    /// From 0 to 1.
    fn next(&mut self) -> f64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        #[expect(clippy::cast_precision_loss, reason = "53 bits")]
        let number = (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11) as f64;
        number / (1_u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 0 and 1 were one seed: the jitter of the first two nodes was the same, frame by frame.
    #[test]
    fn seeds_that_follow_each_other_have_numbers_of_their_own() {
        let first = |seed: u64| Draw::new(seed).next().to_bits();
        let all: std::collections::BTreeSet<u64> = (0..64).chain([u64::MAX - 1, u64::MAX]).map(first).collect();
        assert_eq!(all.len(), 66);
    }

    #[test]
    fn waits_are_drawn_around_the_delay_and_never_below_zero() {
        let millis = Duration::from_millis;
        let delay = Delay { one_way: millis(10), jitter: millis(4), ..Delay::default() };
        let mut draw = Draw(1);
        let waits: Vec<Duration> = (0..10_000).map(|_| draw.wait(&delay)).collect();
        let mean = waits.iter().sum::<Duration>() / 10_000;
        assert!(waits.iter().all(|wait| (millis(6)..=millis(14)).contains(wait)));
        assert!((mean.as_secs_f64() - 0.01).abs() < 1e-4, "{mean:?}");
        let even = Delay { jitter: Duration::ZERO, overhead: Overhead(millis(1)), ..delay };
        assert_eq!(draw.wait(&even), millis(9));
        assert_eq!(draw.wait(&Delay { one_way: Duration::ZERO, ..even }), Duration::ZERO);
        let wide = Delay { one_way: millis(1), jitter: millis(5), ..Delay::default() };
        assert!((0..1000).all(|_| draw.wait(&wide) <= millis(6)));
    }
}
