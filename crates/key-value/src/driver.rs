//! A load from its first connection to its last reply.

use crate::blocking::{BlockingConnection, ConnectionError};
use crate::driver_thread::{self, SharedRun};
use crate::outcome::{DriveError, LoadOutcome};
use crate::traffic::Traffic;
use crate::values::TaggedValues;
use baremark_model::units::Nanos;
use baremark_sys::clock;
use baremark_sys::wake::sleep_unless;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Barrier, OnceLock};
use std::thread;
use std::time::Duration;

/// Fills the server with keys, puts the load on it and reads keys back. `connect` makes a connection on which the server knows who asks; `meter`
/// is read at both ends of the measured time, for what is counted alongside (the server's CPU time).
///
/// # Errors
/// The first failure of a connection, or the interrupt.
pub fn run(
    traffic: &Traffic,
    connect: &(dyn Fn() -> Result<BlockingConnection, ConnectionError> + Sync),
    meter: &mut dyn FnMut() -> u64,
    interrupt: &AtomicBool,
) -> Result<LoadOutcome, DriveError> {
    let called_ns = clock::monotonic_ns();
    let values = TaggedValues::new(traffic.value_bytes, traffic.seed);
    let shared = SharedRun {
        traffic,
        values: &values,
        connect,
        connected: Barrier::new(traffic.threads + 1),
        begun: Barrier::new(traffic.threads + 1),
        window: OnceLock::new(),
        metered: AtomicBool::new(false),
        over: AtomicBool::new(false),
        interrupt,
    };
    let sleep_until = |moment: u64| {
        let left = Duration::from_nanos(moment.saturating_sub(clock::monotonic_ns()));
        sleep_unless(|| shared.is_stopped(), left);
    };
    let mut outcome = LoadOutcome::default();
    let mut failure = None;
    thread::scope(|scope| {
        let shared = &shared;
        let threads: Vec<_> =
            (0..traffic.threads).map(|number| scope.spawn(move || driver_thread::live(shared, number))).collect();
        shared.connected.wait();
        let begin = clock::monotonic_ns() + Nanos::from(traffic.warm_up).0;
        let end = begin + Nanos::from(traffic.duration).0;
        shared.window.get_or_init(|| (begin, end));
        shared.begun.wait();
        sleep_until(begin);
        let before = meter();
        sleep_until(end);
        outcome.metered = meter().saturating_sub(before);
        shared.metered.store(true, Ordering::Release);
        (outcome.begin_ns, outcome.elapsed_ns) = (begin.saturating_sub(called_ns), end - begin);
        for thread in threads {
            match thread.join() {
                Ok(Ok(part)) => outcome.merge(part),
                // What stopped a thread says more than that another was stopped.
                Ok(Err(why)) => {
                    failure = failure.take().filter(|first| !matches!(first, DriveError::Stopped)).or(Some(why))
                }
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
    });
    match failure {
        _ if interrupt.load(Ordering::Acquire) => Err(DriveError::Stopped),
        Some(why) => Err(why),
        None => Ok(outcome),
    }
}
