//! Times taken *inside* a measured region, for kernels whose figure is of a part of it.
//!
//! The seam times a region from outside, which is all that most kernels need. STREAM is four kernels in turn, each with a
//! best time of its own, and a solver destroys the matrix that the next repetition needs again: such kernels are handed a
//! clock and note when each part began and ended. The clock is a function that works wherever the region runs (the
//! processor's time-stamp counter), so that this crate still knows none. Memory for the laps is taken before.

/// The time in ticks, ordered against what stands before and after.
pub type Clock = fn() -> u64;

/// When one part of the region began and ended, on the rank that keeps the laps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lap {
    /// Which part, by the kernel's own numbers.
    pub part: usize,
    /// When it began.
    pub start_ticks: u64,
    /// When every rank had done it.
    pub end_ticks: u64,
}

/// The last laps of one rank.
#[derive(Debug)]
pub struct Laps {
    clock: Clock,
    ring: Vec<Lap>,
    next: usize,
}

impl Laps {
    /// Room for the laps to come.
    #[must_use]
    pub fn new(clock: Clock) -> Self {
        Laps { clock, ring: vec![Lap::default(); KEPT], next: 0 }
    }

    /// Begins a region: its laps go where those of the region before went. Else a region would write memory that none has written
    /// before, and pay for the page faults.
    pub fn begin(&mut self) {
        self.next = 0;
    }

    /// The time.
    #[must_use]
    pub fn now(&self) -> u64 {
        (self.clock)()
    }

    /// Notes that `part`, begun at `start_ticks`, ends now.
    pub fn end(&mut self, part: usize, start_ticks: u64) {
        let end_ticks = self.now();
        if let Some(lap) = self.ring.get_mut(self.next) {
            *lap = Lap { part, start_ticks, end_ticks };
        }
        self.next = if self.next + 1 < KEPT { self.next + 1 } else { 0 };
    }

    /// The laps that began at `start_ticks` or later, oldest first, as far as they are still kept.
    #[must_use]
    pub fn since(&self, start_ticks: u64) -> Vec<Lap> {
        let (newer, older) = self.ring.split_at(self.next);
        let laps = older.iter().chain(newer).copied();
        laps.filter(|lap| lap.end_ticks > 0 && lap.start_ticks >= start_ticks).collect()
    }
}

/// Laps that are kept; when more are taken the oldest go.
const KEPT: usize = 1 << 15;

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    static TICKS: AtomicU64 = AtomicU64::new(0);

    #[test]
    fn the_last_laps_are_kept_in_order() {
        let mut laps = Laps::new(|| TICKS.fetch_add(1, Ordering::Relaxed) + 1);
        assert!(laps.since(0).is_empty());
        for part in 0..KEPT + 3 {
            let start = laps.now();
            laps.end(part, start);
        }
        let all = laps.since(0);
        assert!(all.iter().map(|lap| lap.part).eq(3..KEPT + 3));
        let start = all[KEPT - 2].start_ticks;
        assert!(laps.since(start).iter().map(|lap| lap.part).eq(KEPT + 1..KEPT + 3));
        assert!(all.iter().all(|lap| lap.end_ticks == lap.start_ticks + 1));
    }

    #[test]
    fn every_region_writes_the_same_memory() {
        let mut laps = Laps::new(|| TICKS.fetch_add(1, Ordering::Relaxed) + 1);
        let mut region = |parts: std::ops::Range<usize>| {
            laps.begin();
            let begin = laps.now();
            for part in parts.clone() {
                let start = laps.now();
                laps.end(part, start);
            }
            assert!(laps.since(begin).iter().map(|lap| lap.part).eq(parts));
            laps.ring.iter().filter(|lap| lap.end_ticks > 0).count()
        };
        assert_eq!([region(0..9), region(20..27), region(30..39)], [9, 9, 9]);
    }
}
