//! The time-stamp counter, the one clock that is read inside a measured region.

use core::arch::x86_64::{_mm_lfence, _rdtsc};

/// The time-stamp counter, ordered against what stands before and after it.
///
/// `LFENCE; RDTSC; LFENCE` as Intel's SDM, volume 2, RDTSC, gives it: the first fence waits until everything before has
/// completed, the second keeps what follows from starting early. Works in ring 3 of a guest as it does natively.
#[inline]
#[must_use]
pub fn ticks() -> u64 {
    // SAFETY: RDTSC and LFENCE exist on every x86-64 processor and touch no memory.
    unsafe {
        _mm_lfence();
        let now = _rdtsc();
        _mm_lfence();
        now
    }
}
