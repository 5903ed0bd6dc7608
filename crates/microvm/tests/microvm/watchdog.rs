//! A rank that does not come back is stopped in time, and the machine can be used again.

use crate::bodies::Each;
use crate::faults::works;
use crate::support::{LONG, turn, two};
use baremark_model::seam::{Executor, Fault};
use baremark_model::team::Team;
use std::hint::{black_box, spin_loop};
use std::time::{Duration, Instant};

/// The limit of what never ends.
const SHORT: Duration = Duration::from_millis(200);
/// How far beyond its limit a run may go on a busy machine.
const GRACE: Duration = Duration::from_secs(60);

fn timed_out(body: impl Fn(usize, &Team) + Sync) {
    let mut vm = two();
    for _ in 0..2 {
        vm.set_watchdog(SHORT);
        let begun = Instant::now();
        let fault = vm.run(&Each(|rank, team: &Team, _| body(rank, team)), 1).unwrap_err();
        assert!(matches!(fault, Fault::TimedOut { limit_ms: 200, .. }), "{fault}");
        assert!(begun.elapsed() >= SHORT && begun.elapsed() < SHORT + GRACE, "{:?}", begun.elapsed());
        vm.set_watchdog(LONG);
        works(&mut vm);
    }
}

#[test]
fn an_endless_loop_in_every_rank() {
    let Some(_turn) = turn() else { return };
    timed_out(|_, _| {
        while black_box(true) {
            spin_loop();
        }
    });
}

#[test]
fn an_endless_loop_in_one_rank_while_the_other_waits() {
    let Some(_turn) = turn() else { return };
    timed_out(|rank, team| {
        while black_box(rank == 1) {
            spin_loop();
        }
        team.barrier();
    });
}

#[test]
fn a_system_call_that_does_not_return() {
    let Some(_turn) = turn() else { return };
    timed_out(|_, _| {
        let hour = libc::timespec { tv_sec: 3600, tv_nsec: 0 };
        // SAFETY: sleeps; the time is read only.
        unsafe { libc::syscall(libc::SYS_nanosleep, &raw const hour, std::ptr::null_mut::<libc::timespec>()) };
    });
}

#[test]
fn an_endless_stream_of_system_calls() {
    let Some(_turn) = turn() else { return };
    timed_out(|_, _| {
        while black_box(true) {
            // SAFETY: asks for a number.
            unsafe { libc::syscall(libc::SYS_getppid) };
        }
    });
}
