//! Lost time: gaps in a thread that does nothing but look at the clock.
//!
//! Whatever keeps a pinned thread from running (a host that steals its processor, an interrupt, another process, system
//! management mode) shows as a gap between two readings of the time-stamp counter. `/proc/stat` counts steal in ticks of
//! 10 ms and interrupts not at all; this sees two microseconds.

use crate::clock::ticks_unordered;
use baremark_model::seam::TickRate;
use std::time::Duration;

/// What one look at the clock found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gaps {
    /// How long was looked, in seconds.
    pub seconds: f64,
    /// Gaps longer than the threshold.
    pub count: u64,
    /// Their total as a share of the time looked.
    pub lost_share: f64,
    /// The longest, in nanoseconds; 0 when there was none.
    pub longest_ns: f64,
}

/// A gap longer than this was not a cache miss: an interrupt's way in and out takes about as long.
pub const THRESHOLD: Duration = Duration::from_micros(2);

/// Looks at the clock for `duration` on the calling thread, which should be pinned, and counts gaps over `threshold`.
#[must_use]
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a duration in ticks, far below 2^53")]
#[expect(clippy::cast_precision_loss, reason = "counts of ticks far below 2^53")]
pub fn measure(duration: Duration, threshold: Duration, rate: TickRate) -> Gaps {
    let in_ticks = |time: Duration| (time.as_secs_f64() * rate.0) as u64;
    let found = spin(in_ticks(duration), in_ticks(threshold), ticks_unordered);
    let share = if found.elapsed == 0 { 0.0 } else { found.lost as f64 / found.elapsed as f64 };
    Gaps {
        seconds: rate.seconds(found.elapsed),
        count: found.count,
        lost_share: share,
        longest_ns: rate.seconds(found.longest) * 1e9,
    }
}

/// What was found, in ticks.
#[derive(Default)]
struct Found {
    elapsed: u64,
    count: u64,
    lost: u64,
    longest: u64,
}

/// `now` reads the clock.
#[inline(never)]
fn spin(duration: u64, threshold: u64, mut now: impl FnMut() -> u64) -> Found {
    let start = now();
    let mut last = start;
    let mut found = Found::default();
    while found.elapsed < duration {
        let reading = now();
        // Saturating: unordered readings may swap by a few ticks.
        let gap = reading.saturating_sub(last);
        if gap > threshold {
            found.count += 1;
            found.lost += gap;
            found.longest = found.longest.max(gap);
        }
        last = reading;
        found.elapsed = reading.saturating_sub(start);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::tick_rate;

    #[test]
    fn gaps_are_a_part_of_the_time() {
        let (rate, _) = tick_rate(Duration::from_millis(50)).expect("a clock");
        let gaps = measure(Duration::from_millis(20), THRESHOLD, rate);
        assert!(gaps.seconds >= 0.0199, "{gaps:?}");
        assert!((0.0..=1.0).contains(&gaps.lost_share), "{gaps:?}");
        assert_eq!(gaps.count == 0, gaps.longest_ns <= 0.0, "{gaps:?}");
    }

    /// What is found in these readings of a clock.
    fn found(duration: u64, threshold: u64, readings: &[u64]) -> (u64, u64, u64, u64) {
        let mut left = readings.iter();
        let found = spin(duration, threshold, || *left.next().expect("it reads no further than it has to"));
        assert_eq!(left.next(), None, "all are read");
        (found.elapsed, found.count, found.lost, found.longest)
    }

    #[test]
    fn gaps_over_the_threshold_are_counted_and_added_up() {
        assert_eq!(found(100, 20, &[1000, 1010, 1040, 1060, 1081, 1100]), (100, 2, 51, 30));
        assert_eq!(found(100, 20, &[1000, 1500]), (500, 1, 500, 500));
        // Every reading is one where there is no threshold, but for two at the same tick; readings may swap by a tick.
        assert_eq!(found(20, 0, &[1000, 1005, 1005, 1004, 1010, 1020]), (20, 3, 21, 10));
    }

    #[test]
    fn over_no_threshold_all_of_the_time_is_lost() {
        let (rate, _) = tick_rate(Duration::from_millis(50)).expect("a clock");
        let gaps = measure(Duration::from_millis(5), Duration::ZERO, rate);
        assert!(gaps.count >= 1 && gaps.lost_share >= 1.0 && gaps.seconds >= 0.0049, "{gaps:?}");
        assert!(gaps.longest_ns <= gaps.seconds * 1e9 * 1.001, "{gaps:?}");
    }
}
