//! The time-stamp counter, the one clock that is read inside a measured region, and the rate at which it ticks.
//!
//! Ratios do not need the rate, only that it is constant. Absolute figures do: it is taken from what the processor or the
//! hypervisor declares when a calibration agrees, else from the calibration, whose error is bounded and reported.

use crate::calls::checked;
use baremark_model::machine::{ClockFacts, RateSource};
use baremark_model::seam::TickRate;
use core::arch::x86_64::{__cpuid, _mm_lfence, _rdtsc};
use std::fs;
use std::io;
use std::mem;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

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

/// The time-stamp counter without fences, for loops that do nothing but look at it.
#[inline]
#[must_use]
pub(crate) fn ticks_unordered() -> u64 {
    // SAFETY: RDTSC exists on every x86-64 processor and touches no memory.
    unsafe { _rdtsc() }
}

/// Why the time-stamp counter cannot serve as a clock here.
#[derive(Debug, thiserror::Error)]
pub enum ClockError {
    /// The kernel's clock could not be read.
    #[error("cannot read CLOCK_MONOTONIC_RAW")]
    Read(#[source] io::Error),
    /// The counter did not advance with the time.
    #[error("the time-stamp counter went from {from} to {to} in {elapsed_ns} ns; it cannot serve as a clock here")]
    Stands {
        /// Ticks at first.
        from: u64,
        /// Ticks at last.
        to: u64,
        /// Time between.
        elapsed_ns: u64,
    },
}

/// A calibration that has begun: what is done between its beginning and its end costs it nothing.
#[derive(Debug)]
pub struct Calibration {
    first: Reading,
}

/// What began before anybody asked for it.
static AHEAD: Mutex<Option<Calibration>> = Mutex::new(None);

impl Calibration {
    /// Begins one that [`Calibration::ahead`] gives: where there is other work to do first, nobody waits for it.
    pub fn begin_ahead() {
        *AHEAD.lock().unwrap_or_else(PoisonError::into_inner) = Calibration::begin().ok();
    }

    /// The one that was begun ahead, once; else one that begins now.
    ///
    /// # Errors
    /// As [`Calibration::begin`].
    pub fn ahead() -> Result<Self, ClockError> {
        let ahead = AHEAD.lock().unwrap_or_else(PoisonError::into_inner).take();
        ahead.map_or_else(Calibration::begin, Ok)
    }

    /// Reads both clocks for the first time.
    ///
    /// # Errors
    /// When the kernel's clock cannot be read.
    pub fn begin() -> Result<Self, ClockError> {
        Ok(Calibration { first: Reading::best()? })
    }

    /// The rate of the time-stamp counter, where it comes from and how well it is known. Sleeps for what is left of `span` since
    /// the beginning; 50 ms bound the error to a few parts per million.
    ///
    /// # Errors
    /// When the kernel's clock cannot be read or the counter stands still.
    pub fn end(self, span: Duration) -> Result<(TickRate, ClockFacts), ClockError> {
        let (calibrated_hz, error_ppm) = self.calibrate(span)?;
        let agrees = |declared_hz: f64| (declared_hz / calibrated_hz - 1.0).abs() * 1e6 <= error_ppm + DECLARED_PPM;
        let declared = declared_by_processor().or_else(declared_by_hypervisor).filter(|&(hz, _)| agrees(hz));
        let (hz, source) = declared.unwrap_or((calibrated_hz, RateSource::Calibration));
        let invariant = fs::read_to_string("/proc/cpuinfo").ok().and_then(|text| is_invariant(&text));
        Ok((
            TickRate(hz),
            ClockFacts { tsc_hz: hz, tsc_source: source, tsc_error_ppm: error_ppm, tsc_invariant: invariant },
        ))
    }

    /// Ticks per second against `CLOCK_MONOTONIC_RAW` over `span` or more, and the bound of the error in parts per million: the
    /// widths of the two readings' brackets over the span.
    fn calibrate(self, span: Duration) -> Result<(f64, f64), ClockError> {
        let first = self.first;
        let gone_ns = clock_ns(libc::CLOCK_MONOTONIC_RAW).map_err(ClockError::Read)?.saturating_sub(first.raw_ns);
        thread::sleep(span.saturating_sub(Duration::from_nanos(gone_ns)));
        let last = Reading::best()?;
        let elapsed_ns = last.raw_ns.saturating_sub(first.raw_ns);
        let elapsed_ticks = last.ticks.saturating_sub(first.ticks);
        if elapsed_ticks == 0 || elapsed_ns == 0 {
            return Err(ClockError::Stands { from: first.ticks, to: last.ticks, elapsed_ns });
        }
        let hz = float(elapsed_ticks) * 1e9 / float(elapsed_ns);
        Ok((hz, float(first.width + last.width) / float(elapsed_ticks) * 1e6))
    }
}

/// The same as a [`Calibration`] that nothing is done in.
///
/// # Errors
/// When the kernel's clock cannot be read or the counter stands still.
pub fn tick_rate(span: Duration) -> Result<(TickRate, ClockFacts), ClockError> {
    Calibration::begin()?.end(span)
}

/// Whether the counter ticks at one rate whatever the frequency and the sleep states; `None` when the kernel's list of
/// flags cannot be found.
fn is_invariant(cpuinfo: &str) -> Option<bool> {
    let flags = cpuinfo.lines().find_map(|line| line.strip_prefix("flags")?.split_once(':'))?.1;
    let has = |name: &str| flags.split_ascii_whitespace().any(|flag| flag == name);
    Some(has("constant_tsc") && has("nonstop_tsc"))
}

/// The two clocks at one moment: ticks in the middle of a bracket around the kernel's clock.
#[derive(Debug)]
struct Reading {
    ticks: u64,
    raw_ns: u64,
    width: u64,
}

impl Reading {
    /// The reading with the narrowest bracket of some; the others were interrupted.
    fn best() -> Result<Reading, ClockError> {
        let mut best: Option<Reading> = None;
        for _ in 0..READINGS {
            let before = ticks();
            let raw_ns = clock_ns(libc::CLOCK_MONOTONIC_RAW).map_err(ClockError::Read)?;
            let width = ticks().saturating_sub(before);
            if best.as_ref().is_none_or(|best| width < best.width) {
                best = Some(Reading { ticks: before + width / 2, raw_ns, width });
            }
        }
        best.ok_or_else(|| ClockError::Read(io::Error::other("no reading was made")))
    }
}

/// Intel's leaf 0x15: ratio of the counter to the crystal, and the crystal's rate where the processor knows it.
fn declared_by_processor() -> Option<(f64, RateSource)> {
    if __cpuid(0).eax < 0x15 {
        return None;
    }
    let leaf = __cpuid(0x15);
    let known = leaf.eax != 0 && leaf.ebx != 0 && leaf.ecx != 0;
    known.then(|| (f64::from(leaf.ecx) * f64::from(leaf.ebx) / f64::from(leaf.eax), RateSource::Processor))
}

/// Leaf 0x40000010, which VMware began and KVM and others follow: the counter's rate in kHz.
fn declared_by_hypervisor() -> Option<(f64, RateSource)> {
    hypervisor_vendor().filter(|_| __cpuid(0x4000_0000).eax >= 0x4000_0010)?;
    let khz = __cpuid(0x4000_0010).eax;
    (khz != 0).then(|| (f64::from(khz) * 1e3, RateSource::Hypervisor))
}

/// The hypervisor's signature, such as `KVMKVMKVM`, when the processor says that there is one.
#[must_use]
pub fn hypervisor_vendor() -> Option<String> {
    if __cpuid(1).ecx & (1 << 31) == 0 {
        return None;
    }
    let leaf = __cpuid(0x4000_0000);
    let bytes: Vec<u8> = [leaf.ebx, leaf.ecx, leaf.edx].into_iter().flat_map(u32::to_le_bytes).collect();
    Some(String::from_utf8_lossy(&bytes).trim_matches(['\0', ' ']).to_owned())
}

/// Nanoseconds of `CLOCK_BOOTTIME`, which goes on while the machine sleeps.
///
/// # Panics
/// Never on Linux, which has had this clock since 2.6.39.
pub(crate) fn boot_time_ns() -> u64 {
    clock_ns(libc::CLOCK_BOOTTIME).expect("Linux always has CLOCK_BOOTTIME")
}

/// Nanoseconds of `CLOCK_MONOTONIC`, one clock for all processes of a machine: for order and durations among them.
///
/// # Panics
/// Never on Linux, which has had this clock since 2.6.
#[must_use]
pub fn monotonic_ns() -> u64 {
    clock_ns(libc::CLOCK_MONOTONIC).expect("Linux always has CLOCK_MONOTONIC")
}

/// Processor time that the calling thread has used, in nanoseconds, the kernel's work for it included.
///
/// # Panics
/// Never on Linux, which has had this clock since 2.6.12.
#[must_use]
pub fn thread_cpu_ns() -> u64 {
    clock_ns(libc::CLOCK_THREAD_CPUTIME_ID).expect("Linux always has CLOCK_THREAD_CPUTIME_ID")
}

/// Processor time that all threads of this process have used, in nanoseconds, the kernel's work for them included.
///
/// # Panics
/// Never on Linux, which has had this clock since 2.6.12.
#[must_use]
pub fn process_cpu_ns() -> u64 {
    clock_ns(libc::CLOCK_PROCESS_CPUTIME_ID).expect("Linux always has CLOCK_PROCESS_CPUTIME_ID")
}

fn clock_ns(clock: libc::clockid_t) -> io::Result<u64> {
    // SAFETY: a timespec is plain numbers; all zeros is a valid one.
    let mut time: libc::timespec = unsafe { mem::zeroed() };
    // SAFETY: `time` is a timespec that lives through the call.
    checked(unsafe { libc::clock_gettime(clock, &raw mut time) })?;
    #[expect(clippy::cast_sign_loss, reason = "clocks that count from a start in the past")]
    Ok(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

#[expect(clippy::cast_precision_loss, reason = "differences of clocks stay far below 2^53")]
fn float(value: u64) -> f64 {
    value as f64
}

/// Of this many readings the best counts.
const READINGS: usize = 32;
/// How far a declared rate may be from the calibrated one: NTP does not steer the raw clock, but the kernel's own idea of
/// the rate may be this far off.
const DECLARED_PPM: f64 = 500.0;

#[cfg(test)]
mod tests {
    use super::*;

    /// However long either was interrupted: each says how far off it may be.
    #[test]
    fn the_rate_is_plausible_and_two_calibrations_agree_within_their_errors() {
        let (first, facts) = tick_rate(Duration::from_millis(50)).expect("a clock");
        let (second, later) = tick_rate(Duration::from_millis(50)).expect("a clock");
        assert!((5e8..1e10).contains(&first.0), "{first:?}");
        assert!(facts.tsc_error_ppm >= 0.0 && later.tsc_error_ppm >= 0.0, "{facts:?} {later:?}");
        // A declared rate is taken where it agrees with the calibration, which only one of the two may do.
        let bound_ppm = 2.0 * (facts.tsc_error_ppm + later.tsc_error_ppm + DECLARED_PPM);
        let apart_ppm = (first.0 / second.0 - 1.0).abs() * 1e6;
        assert!(apart_ppm <= bound_ppm, "{first:?} {second:?}: {apart_ppm} of {bound_ppm} ppm");
    }

    #[test]
    fn invariance_needs_both_flags() {
        assert_eq!(is_invariant("processor : 0\nflags\t\t: fpu constant_tsc nonstop_tsc\n"), Some(true));
        assert_eq!(is_invariant("flags\t\t: fpu constant_tsc nonstop_tsc_s3\n"), Some(false));
        assert_eq!(is_invariant("Features : fp asimd\n"), None);
    }

    #[test]
    fn the_clocks_go_forward() {
        let (ticks_before, ns_before) = (ticks(), monotonic_ns());
        thread::sleep(Duration::from_millis(2));
        assert!(ticks() > ticks_before);
        assert!(monotonic_ns() - ns_before >= 2_000_000);
    }
}
