//! Time limits of calls that are interrupted for a checkpoint and made again: they end when they would have ended.
//!
//! A limit is relative in most calls. When a thread makes such a call for the first time, its end is noted in the record; when it makes
//! the call again, the limit is what is left until then.

use crate::runner::sys;
use crate::runner::thread::Process;
use crate::runner::user;
use crate::snapshot::{self, Slot};

/// `futex`'s command without its flags, and the absolute flag of `clock_nanosleep`.
const FUTEX_COMMAND: u64 = 127;
const TIMER_ABSTIME: u64 = 1;
const SECOND: u64 = 1_000_000_000;

/// Where a call has its limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Limit {
    /// Milliseconds in this argument; negative is none.
    Millis(usize),
    /// Seconds and nanoseconds at the address in this argument; 0 is none.
    Nanos(usize),
    /// Seconds and microseconds there.
    Micros(usize),
}

fn limit_of(number: i64, arguments: &[u64; 6]) -> Option<Limit> {
    match number {
        libc::SYS_nanosleep => Some(Limit::Nanos(0)),
        libc::SYS_clock_nanosleep if arguments[1] & TIMER_ABSTIME == 0 => Some(Limit::Nanos(2)),
        libc::SYS_poll => Some(Limit::Millis(2)),
        libc::SYS_epoll_wait | libc::SYS_epoll_pwait => Some(Limit::Millis(3)),
        libc::SYS_epoll_pwait2 => Some(Limit::Nanos(3)),
        libc::SYS_ppoll | libc::SYS_rt_sigtimedwait => Some(Limit::Nanos(2)),
        libc::SYS_select => Some(Limit::Micros(4)),
        libc::SYS_pselect6 => Some(Limit::Nanos(4)),
        libc::SYS_futex if arguments[1] & FUTEX_COMMAND == libc::FUTEX_WAIT as u64 => Some(Limit::Nanos(3)),
        _ => None,
    }
}

/// The nanoseconds of a limit; `None` where there is none, or no memory to read it from.
fn nanos(process: &Process, limit: Limit, arguments: &[u64; 6]) -> Option<u64> {
    let pair = |at: usize| match arguments[at] {
        0 => None,
        address => user::read_words::<2>(process, address).ok(),
    };
    match limit {
        Limit::Millis(at) => {
            let millis = i64::from((arguments[at] as u32).cast_signed());
            u64::try_from(millis).ok().map(|millis| millis * (SECOND / 1000))
        }
        Limit::Nanos(at) => pair(at).map(|[seconds, nanos]| seconds.saturating_mul(SECOND).saturating_add(nanos)),
        Limit::Micros(at) => {
            pair(at).map(|[seconds, micros]| seconds.saturating_mul(SECOND).saturating_add(micros.saturating_mul(1000)))
        }
    }
}

/// Makes the limit of a call at `rip` what is left of it; `room` takes a time that the kernel reads. Whether the call has one.
pub(crate) fn adapt(
    process: &Process,
    slot: &Slot,
    rip: u64,
    (number, arguments): (i64, &mut [u64; 6]),
    room: &mut [u64; 2],
) -> bool {
    let Some(limit) = limit_of(number, arguments) else { return false };
    let Some(whole) = nanos(process, limit, arguments) else { return false };
    let now = sys::monotonic_ns();
    let [at, known] = snapshot::load(&slot.deadline);
    let end = if at == rip { known } else { now.saturating_add(whole) };
    snapshot::store(&slot.deadline, [rip, end]);
    if at != rip {
        return true;
    }
    let left = end.saturating_sub(now);
    match limit {
        Limit::Millis(at) => arguments[at] = left.div_ceil(SECOND / 1000),
        Limit::Nanos(at) => {
            *room = [left / SECOND, left % SECOND];
            arguments[at] = room.as_ptr() as u64;
        }
        Limit::Micros(at) => {
            *room = [left / SECOND, left % SECOND / 1000];
            arguments[at] = room.as_ptr() as u64;
        }
    }
    true
}

/// Forgets the end of a call that has come to one.
pub(crate) fn forget(slot: &Slot) {
    snapshot::store(&slot.deadline, [0; 2]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering;

    #[test]
    fn a_call_that_is_made_again_has_what_is_left_of_its_limit() {
        let process = Process::new();
        process.pid.store(std::process::id(), Ordering::Relaxed);
        let snapshot = crate::record::zeroed::<crate::snapshot::Snapshot>();
        let (slot, mut room) = (&snapshot.slots[0], [0; 2]);
        // Makes a call, and gives the readings of the clock before and after it.
        let made = |rip: u64, number: i64, arguments: &mut [u64; 6], room: &mut [u64; 2]| {
            let before = sys::monotonic_ns();
            assert!(adapt(&process, slot, rip, (number, arguments), room));
            (before, sys::monotonic_ns())
        };
        let end_of = |(before, after): (u64, u64), limit: u64| {
            let [_, end] = snapshot::load(&slot.deadline);
            assert!((before + limit..=after + limit).contains(&end), "{end} is not {limit} after {before} to {after}");
            end
        };
        let mut poll = [0, 0, 10_000, 0, 0, 0];
        let first = made(64, libc::SYS_poll, &mut poll, &mut room);
        assert_eq!(poll[2], 10_000, "made for the first time");
        // As if it had been made 4 s ago.
        let end = end_of(first, 10 * SECOND) - 4 * SECOND;
        snapshot::store(&slot.deadline, [64, end]);
        let (before, after) = made(64, libc::SYS_poll, &mut poll, &mut room);
        let left = [after, before].map(|now| end.saturating_sub(now).div_ceil(SECOND / 1000));
        assert!((left[0]..=left[1]).contains(&poll[2]), "{} is not in {left:?}", poll[2]);
        let time = [30_u64, 5];
        let mut sleep = [time.as_ptr() as u64, 0, 0, 0, 0, 0];
        let first = made(128, libc::SYS_nanosleep, &mut sleep, &mut room);
        assert_eq!(sleep[0], time.as_ptr() as u64, "another place, another limit");
        let end = end_of(first, 30 * SECOND + 5);
        let (before, after) = made(128, libc::SYS_nanosleep, &mut sleep, &mut room);
        assert_eq!(sleep[0], room.as_ptr() as u64);
        let left = room[0] * SECOND + room[1];
        assert!((end.saturating_sub(after)..=end.saturating_sub(before)).contains(&left), "{room:?}");
        forget(slot);
        let mut endless = [0, 0, u64::from(u32::MAX), 0, 0, 0];
        assert!(!adapt(&process, slot, 64, (libc::SYS_poll, &mut endless), &mut room));
        assert!(!adapt(&process, slot, 64, (libc::SYS_getpid, &mut endless), &mut room));
    }
}
