//! Wall time: when something happened, as people and files write it. Durations and order come from [`crate::clock`].
//!
//! The system's clock may step by any amount at any moment: by hand, by NTP, when a machine wakes up. It is read here alone, in two ways.
//! Stamps on records ([`unix_time_ns`]) read it once a process and go on by `CLOCK_BOOTTIME`, so that stamps of one process keep their
//! order and their distances. What another program has stamped is compared with the system's clock as it is now ([`SystemClock`]), and a
//! step between the two readings is taken out.

use crate::clock::{boot_time_ns, monotonic_ns};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// A variable of tests: by how many seconds the readings of the system's clock are off, in turn, such as `0,3600,-3600`.
pub const STEPS: &str = "BAREMARK_CLOCK_STEPS";

/// Two readings of the system's clock that differ by more than this, beyond the time between them, have a step between them.
const STEP_NS: i128 = 10_000_000;
/// A reading between two of the monotonic clock that are further apart says nothing of steps: the thread was held up.
const BRACKET_NS: u64 = 1_000_000;
/// No machine's clock is off by more, where what it stamped is to be followed by later stamps.
const MOST_AHEAD_NS: u64 = 86_400_000_000_000;

/// Nanoseconds since 1970-01-01 UTC by the system's clock as it is at this moment.
fn system_time_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let now = u64::try_from(since.as_nanos()).unwrap_or(u64::MAX);
    now.saturating_add_signed(next_step_ns())
}

/// What a test adds to the next reading.
fn next_step_ns() -> i64 {
    static PLAYED: OnceLock<Vec<i64>> = OnceLock::new();
    static READ: AtomicUsize = AtomicUsize::new(0);
    let seconds = |text: &str| text.split(',').filter_map(|step| step.parse().ok()).collect::<Vec<i64>>();
    let steps = PLAYED.get_or_init(|| std::env::var(STEPS).map_or_else(|_| Vec::new(), |text| seconds(&text)));
    match steps.as_slice() {
        [] => 0,
        steps => steps[READ.fetch_add(1, Ordering::Relaxed) % steps.len()].saturating_mul(1_000_000_000),
    }
}

/// By how much stamps are ahead of the system's clock as it was read.
static AHEAD_NS: AtomicU64 = AtomicU64::new(0);

/// Nanoseconds since 1970-01-01 UTC, for stamps on records. Within a process they keep their order and their distances, whatever becomes of
/// the system's clock.
#[must_use]
pub fn unix_time_ns() -> u64 {
    static READ: OnceLock<(u64, u64)> = OnceLock::new();
    let (wall, boot) = *READ.get_or_init(|| (system_time_ns(), boot_time_ns()));
    wall.saturating_add(boot_time_ns().saturating_sub(boot)).saturating_add(AHEAD_NS.load(Ordering::Relaxed))
}

/// From now on this process's stamps are later than `stamp`, one that an earlier process left: the clock was set back since then. A stamp
/// that is more than a day ahead is left alone, since the clock was wrong when it was made.
pub fn follow(stamp_ns: u64) {
    let behind = stamp_ns.saturating_add(1).saturating_sub(unix_time_ns());
    if behind > 0 && behind <= MOST_AHEAD_NS {
        AHEAD_NS.fetch_add(behind, Ordering::Relaxed);
    }
}

/// The system's clock as other programs read it, for how long ago they stamped something.
#[derive(Clone, Debug)]
pub struct SystemClock {
    /// The system's clock less the monotonic one, at the last reading.
    offset: i128,
    read_ns: u64,
    step: Option<Step>,
}

/// The last step.
#[derive(Clone, Copy, Debug)]
struct Step {
    by: i128,
    /// The last reading before it, by the monotonic clock.
    after_ns: u64,
}

impl Default for SystemClock {
    fn default() -> Self {
        let (monotonic, wall) = (monotonic_ns(), system_time_ns());
        SystemClock { offset: i128::from(wall) - i128::from(monotonic), read_ns: monotonic, step: None }
    }
}

impl SystemClock {
    /// Nanoseconds since the system's clock showed `then_ns`, to whoever stamped that. A step of the clock meanwhile is not counted. 0
    /// where the stamp is from the future: the clocks of two machines differ.
    pub fn since(&mut self, then_ns: u64) -> u64 {
        let (before, wall) = (monotonic_ns(), system_time_ns());
        self.since_at(then_ns, wall, (before, monotonic_ns()))
    }

    fn since_at(&mut self, then_ns: u64, wall_ns: u64, (before, after): (u64, u64)) -> u64 {
        let offset = i128::from(wall_ns) - i128::from(before);
        if after.saturating_sub(before) <= BRACKET_NS {
            let by = offset - self.offset;
            if by.abs() > STEP_NS {
                self.step = Some(Step { by, after_ns: self.read_ns });
            }
            (self.offset, self.read_ns) = (offset, before);
        }
        let apparent = i128::from(wall_ns) - i128::from(then_ns);
        let passed = match self.step {
            // Stamped after the step, it is not older than that.
            Some(step) if !(0..=i128::from(before.saturating_sub(step.after_ns))).contains(&apparent) => {
                let without = apparent - step.by;
                if without.abs() < apparent.abs() { without } else { apparent }
            }
            _ => apparent,
        };
        u64::try_from(passed.max(0)).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: u64 = 3_600_000_000_000;
    const NOW: u64 = 1_790_000_000_000_000_000;

    #[test]
    fn a_step_of_the_clock_is_no_part_of_how_long_ago_something_was_stamped() {
        for (by, name) in [(i128::from(HOUR), "forward"), (-i128::from(HOUR), "back")] {
            let stepped = |wall: u64| u64::try_from(i128::from(wall) + by).expect("a time after 1970");
            let mut clock = SystemClock { offset: i128::from(NOW), read_ns: 0, step: None };
            let mut since = |then: u64, wall: u64, at: u64| clock.since_at(then, wall, (at, at));
            assert_eq!(since(NOW + 1_000, NOW + 6_000, 6_000), 5_000, "{name}");
            // Stamped before the step and read after it.
            assert_eq!(since(NOW + 7_000, stepped(NOW + 9_000), 9_000), 2_000, "{name}");
            // Both after it.
            assert_eq!(since(stepped(NOW + 20_000), stepped(NOW + 23_000), 23_000), 3_000, "{name}");
            assert_eq!(
                since(stepped(NOW + 20_000) + 5_000, stepped(NOW + 24_000), 24_000),
                0,
                "{name}: another machine's"
            );
            // And back to where it was.
            assert_eq!(since(stepped(NOW + 25_000), NOW + 26_000, 26_000), 1_000, "{name}");
            assert_eq!(
                since(NOW + 27_000, NOW + 2 * HOUR, 2 * HOUR),
                2 * HOUR - 27_000,
                "{name}: it did take that long"
            );
        }
    }

    /// A thread that is held up between its readings sees no step.
    #[test]
    fn a_reading_that_was_interrupted_says_nothing_of_steps() {
        let mut clock = SystemClock { offset: i128::from(NOW), read_ns: 0, step: None };
        let late = 50_000_000;
        assert_eq!(clock.since_at(NOW, NOW + late, (0, late)), late);
        assert!(clock.step.is_none());
    }

    #[test]
    fn stamps_keep_their_order_and_follow_those_of_others() {
        let first = unix_time_ns();
        assert!(first > 1_700_000_000_000_000_000);
        follow(first + HOUR);
        let second = unix_time_ns();
        assert!(second > first + HOUR, "the clock was set back by an hour");
        follow(second + 2 * MOST_AHEAD_NS);
        assert!(unix_time_ns() < second + MOST_AHEAD_NS, "the clock was wrong when that was stamped");
    }
}
