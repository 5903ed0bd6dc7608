//! Ways to sleep and to be woken: an absolute time, and an event counter (`eventfd(2)`). A futex is in [`crate::futex`], a pipe in the
//! standard library.

use crate::calls::{checked, new_descriptor};
use crate::clock::monotonic_ns;
use std::fs::File;
use std::io::{self, Read, Write};
use std::thread;
use std::time::{Duration, Instant};

/// Between two looks at what ends a sleep.
const GLANCE: Duration = Duration::from_millis(20);

/// Sleeps until CLOCK_MONOTONIC has reached `deadline_ns`, whatever signals come. How much later the thread runs is its wake-up latency:
/// the kernel's slack of timers (50 us for ordinary threads) is part of it, see [`no_slack`].
pub fn sleep_until(deadline_ns: u64) {
    while monotonic_ns() < deadline_ns {
        #[expect(clippy::cast_possible_wrap, reason = "seconds and nanoseconds since the machine started")]
        let until = libc::timespec {
            tv_sec: (deadline_ns / 1_000_000_000) as i64,
            tv_nsec: (deadline_ns % 1_000_000_000) as i64,
        };
        // SAFETY: the time lives through the call, and nothing is written where no rest is asked for.
        unsafe {
            libc::clock_nanosleep(libc::CLOCK_MONOTONIC, libc::TIMER_ABSTIME, &raw const until, std::ptr::null_mut())
        };
    }
}

/// Sleeps for `time` unless `stopped`, which is asked every 20 ms; whether the time is over.
pub fn sleep_unless(stopped: impl Fn() -> bool, time: Duration) -> bool {
    let begun = Instant::now();
    while !stopped() {
        let left = time.saturating_sub(begun.elapsed());
        if left.is_zero() {
            return true;
        }
        thread::sleep(left.min(GLANCE));
    }
    false
}

/// Takes the kernel's slack from the timers of this thread, as cyclictest does: it would be most of what is measured.
///
/// # Errors
/// What `prctl(2)` gives.
pub fn no_slack() -> io::Result<()> {
    // SAFETY: PR_SET_TIMERSLACK takes a number and touches no memory.
    checked(unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1_u64) }).map(drop)
}

/// An event counter: a reader sleeps while it is 0.
#[derive(Debug)]
pub struct Event(File);

impl Event {
    /// A counter of 0.
    ///
    /// # Errors
    /// What `eventfd(2)` gives.
    pub fn new() -> io::Result<Event> {
        // SAFETY: takes two numbers; the descriptor that it makes is nobody else's.
        let made = unsafe { new_descriptor(libc::eventfd(0, libc::EFD_CLOEXEC)) };
        made.map(|event| Event(File::from(event)))
    }

    /// Adds one and wakes a reader.
    ///
    /// # Errors
    /// What `write(2)` gives.
    pub fn signal(&self) -> io::Result<()> {
        (&self.0).write_all(&1_u64.to_ne_bytes())
    }

    /// Sleeps until the counter is not 0, and makes it 0.
    ///
    /// # Errors
    /// What `read(2)` gives.
    pub fn wait(&self) -> io::Result<u64> {
        let mut count = [0; 8];
        (&self.0).read_exact(&mut count)?;
        Ok(u64::from_ne_bytes(count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn a_sleeper_wakes_at_its_time_and_not_before() {
        let deadline = monotonic_ns() + 2_000_000;
        no_slack().expect("the kernel takes it");
        sleep_until(deadline);
        assert!(monotonic_ns() >= deadline);
        sleep_until(0);
    }

    #[test]
    fn a_sleep_is_over_or_is_stopped() {
        let stop = AtomicBool::new(false);
        let stopped = || stop.load(Ordering::Relaxed);
        let begun = Instant::now();
        assert!(sleep_unless(stopped, Duration::from_millis(30)) && begun.elapsed() >= Duration::from_millis(30));
        thread::scope(|scope| {
            let asleep = scope.spawn(|| sleep_unless(stopped, Duration::MAX));
            stop.store(true, Ordering::Relaxed);
            assert!(!asleep.join().expect("no panic"));
        });
        assert!(!sleep_unless(stopped, Duration::ZERO), "it was stopped before");
    }

    #[test]
    fn an_event_wakes_its_reader_and_counts() {
        let event = Event::new().expect("an event");
        event.signal().expect("it is written");
        event.signal().expect("it is written");
        assert_eq!(event.wait().expect("it is read"), 2);
        thread::scope(|scope| {
            let woken = scope.spawn(|| event.wait().expect("it is read"));
            event.signal().expect("it is written");
            assert_eq!(woken.join().expect("no panic"), 1);
        });
    }
}
