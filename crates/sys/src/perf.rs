//! Hardware counters of whole CPUs, by `perf_event_open(2)`.
//!
//! A counter counts everything that its CPU does, in user mode, kernel and guests. Where there are more counters than the
//! processor can hold at once, the kernel takes turns and reports how long each was counting. What came since the last reading is scaled by that:
//! where the whole is, what was counted before grows or shrinks as the share changes.

use crate::calls::new_descriptor;
use core::arch::x86_64::__cpuid;
use std::fs::File;
use std::io::{self, Read};
use std::mem;

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Cycles of the core.
    Cycles,
    /// Instructions completed.
    Instructions,
    /// Loads that missed the first data TLB.
    DtlbLoadMisses,
    /// Fetches that missed the instruction TLB.
    ItlbMisses,
    /// Misses of the last cache.
    LlcMisses,
    /// Cycles in which a page walk for a load was at work.
    WalkCycles,
}

/// `struct perf_event_attr` as it was first (`PERF_ATTR_SIZE_VER0`), which every kernel takes.
#[repr(C)]
#[derive(Default)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    bp_type: u32,
    bp_addr: u64,
}

const TYPE_HARDWARE: u32 = 0;
const TYPE_CACHE: u32 = 3;
const TYPE_RAW: u32 = 4;
/// Cache, operation (read 0) and result (miss 1), as `PERF_TYPE_HW_CACHE` packs them.
const DTLB_READ_MISS: u64 = 3 | 1 << 16;
const ITLB_READ_MISS: u64 = 4 | 1 << 16;
/// `PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING`.
const TIMES: u64 = 1 | 2;
const FLAG_CLOEXEC: libc::c_ulong = 8;

/// A counter of one CPU.
#[derive(Debug)]
pub struct Counter {
    file: File,
    counted: Scaled,
}

impl Counter {
    /// Starts counting `event` on `cpu`.
    ///
    /// # Errors
    /// What `perf_event_open(2)` gives; `Unsupported` where this processor has no such counter that we know of.
    pub fn start(event: Event, cpu: usize) -> io::Result<Self> {
        let (kind, config) = selector(event)?;
        let size = u32::try_from(mem::size_of::<Attributes>()).unwrap_or(0);
        let attributes = Attributes { kind, size, config, read_format: TIMES, ..Attributes::default() };
        let cpu = libc::c_int::try_from(cpu).map_err(|why| io::Error::new(io::ErrorKind::InvalidInput, why))?;
        // SAFETY: the attributes have the size that they name and live through the call; -1 are "all processes" and "no
        // group". The descriptor that it makes is nobody else's.
        let made = unsafe {
            new_descriptor(libc::syscall(libc::SYS_perf_event_open, &raw const attributes, -1, cpu, -1, FLAG_CLOEXEC))
        };
        made.map(|counter| Counter { file: File::from(counter), counted: Scaled::default() })
    }

    /// The count so far, scaled up from reading to reading to the time in which it was not counting; `None` where it has not counted yet.
    ///
    /// # Errors
    /// What `read(2)` gives.
    pub fn read(&mut self) -> io::Result<Option<u64>> {
        let mut bytes = [0; 24];
        self.file.read_exact(&mut bytes)?;
        let mut words = [0_u64; 3];
        for (word, chunk) in words.iter_mut().zip(bytes.as_chunks::<8>().0) {
            *word = u64::from_ne_bytes(*chunk);
        }
        Ok(self.counted.take(words))
    }
}

/// What was counted, scaled from reading to reading.
#[derive(Clone, Copy, Debug, Default)]
struct Scaled {
    /// Count, time enabled and time running at the last reading before which it was running.
    last: [u64; 3],
    /// Over the time enabled until then.
    sum: u64,
}

impl Scaled {
    /// Takes a reading. Time in which it was not running is scaled with what it counts next.
    fn take(&mut self, now: [u64; 3]) -> Option<u64> {
        let [count, enabled, running] = std::array::from_fn(|at| u128::from(now[at].saturating_sub(self.last[at])));
        if let Some(grown) = (count * enabled).checked_div(running) {
            self.sum = self.sum.saturating_add(u64::try_from(grown).unwrap_or(u64::MAX));
            self.last = now;
        }
        (self.last[2] > 0).then_some(self.sum)
    }
}

fn selector(event: Event) -> io::Result<(u32, u64)> {
    Ok(match event {
        Event::Cycles => (TYPE_HARDWARE, 0),
        Event::Instructions => (TYPE_HARDWARE, 1),
        Event::LlcMisses => (TYPE_HARDWARE, 3),
        Event::DtlbLoadMisses => (TYPE_CACHE, DTLB_READ_MISS),
        Event::ItlbMisses => (TYPE_CACHE, ITLB_READ_MISS),
        Event::WalkCycles => (TYPE_RAW, walk_active()?),
    })
}

/// Intel's `DTLB_LOAD_MISSES.WALK_ACTIVE` (event, umask 0x10, counter mask 1), whose number depends on the model.
fn walk_active() -> io::Result<u64> {
    let unknown = |why: &str| Err(io::Error::new(io::ErrorKind::Unsupported, why.to_owned()));
    let vendor = __cpuid(0);
    if (vendor.ebx, vendor.edx, vendor.ecx) != (0x756e_6547, 0x4965_6e69, 0x6c65_746e) {
        return unknown("this processor counts no cycles of page walks that we know of");
    }
    let signature = __cpuid(1).eax;
    let model = (signature >> 4 & 0xf) | (signature >> 12 & 0xf0);
    let event = match (signature >> 8 & 0xf, model) {
        (6, 0x4e | 0x5e | 0x55 | 0x8e | 0x9e | 0x6a | 0x6c | 0x7d | 0x7e | 0x8c | 0x8d | 0xa5 | 0xa6 | 0xa7) => 0x08,
        (6, 0x8f | 0xcf | 0x97 | 0x9a | 0xb7 | 0xba | 0xbf | 0xad | 0xae) => 0x12,
        _ => return unknown("the number of this model's counter of page-walk cycles is not known to us"),
    };
    Ok(event | 0x10 << 8 | 1 << 24)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_scaled_to_the_time_enabled() {
        let scaled = |reading| Scaled::default().take(reading);
        assert_eq!(scaled([100, 10, 10]), Some(100));
        assert_eq!(scaled([100, 30, 10]), Some(300));
        assert_eq!(scaled([0, 30, 0]), None, "it never ran");
        assert_eq!(scaled([u64::MAX, u64::MAX, 1]), Some(u64::MAX));
    }

    /// 1000 at first, then nothing while it ran for half of the time: 333 came of the change of the share, or went where it ran for longer.
    #[test]
    fn what_was_counted_before_does_not_grow_with_the_time_in_which_others_count() {
        let mut counted = Scaled::default();
        let readings = [[1000, 10, 10], [1000, 20, 15], [1000, 30, 15], [1010, 40, 20], [1020, 50, 30]];
        let grown = readings.map(|reading| counted.take(reading));
        assert_eq!(grown, [1000, 1000, 1000, 1040, 1050].map(Some), "10 in 5 of 20, then 10 in all of 10");
    }

    #[test]
    fn a_counter_counts_or_says_why_not() {
        match Counter::start(Event::Cycles, 0) {
            Ok(mut counter) => drop(counter.read().expect("it was opened")),
            Err(why) => assert!(why.raw_os_error().is_some(), "{why}"),
        }
    }

    #[test]
    fn a_cpu_that_there_is_not_is_refused() {
        assert!(Counter::start(Event::Cycles, 1 << 20).is_err());
    }
}
