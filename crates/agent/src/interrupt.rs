//! The early end of a trial whose result nobody wants any more.
//!
//! The lab says goodbye, or is gone, while a trial runs. A kernel's trial is ended with its process: it leaves nothing behind.
//! A job that has started servers and made folders is told, and given time to stop and remove them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// What an agent's trial and whoever watches for the end of the lab share.
#[derive(Debug, Default)]
pub struct Interrupt {
    flag: Arc<AtomicBool>,
    stage: Mutex<Stage>,
    changed: Condvar,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    /// No trial runs.
    #[default]
    Idle,
    /// A trial runs that does not look at the flag.
    Deaf,
    /// A trial runs that ends soon after the flag is set.
    Heeding,
}

impl Interrupt {
    /// Asks the trial that runs, and any that is begun later, to end.
    pub fn raise(&self) {
        self.flag.store(true, Ordering::Release);
    }

    /// What a trial looks at.
    pub(crate) fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.flag)
    }

    /// A trial begins; `heeds` where it looks at the flag.
    pub(crate) fn trial_begins(&self, heeds: bool) {
        self.set(if heeds { Stage::Heeding } else { Stage::Deaf });
    }

    /// The trial is over and its result is sent.
    pub(crate) fn trial_ends(&self) {
        self.set(Stage::Idle);
    }

    /// Waits until a trial runs that only the end of this process ends: one that does not look at the flag, or one that was
    /// asked to end and has not for `limit`.
    pub fn wait_for_a_trial_that_goes_on(&self, limit: Duration) {
        self.raise();
        let mut stage = self.lock();
        loop {
            stage = match *stage {
                Stage::Deaf => return,
                Stage::Idle => self.changed.wait(stage).unwrap_or_else(PoisonError::into_inner),
                Stage::Heeding => {
                    let heeding = |stage: &mut Stage| *stage == Stage::Heeding;
                    let waited = self.changed.wait_timeout_while(stage, limit, heeding);
                    let (stage, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
                    if timeout.timed_out() {
                        return;
                    }
                    stage
                }
            };
        }
    }

    fn set(&self, stage: Stage) {
        *self.lock() = stage;
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, Stage> {
        self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;
    use std::thread;
    use std::time::Instant;

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn a_trial_that_does_not_look_is_not_waited_for() {
        let interrupt = Interrupt::default();
        interrupt.trial_begins(false);
        let begun = Instant::now();
        interrupt.wait_for_a_trial_that_goes_on(LONG);
        assert!(begun.elapsed() < LONG / 2 && interrupt.flag().load(Ordering::Acquire));
    }

    #[test]
    fn a_job_has_its_time_and_no_more() {
        let interrupt = Interrupt::default();
        interrupt.trial_begins(true);
        let (begun, limit) = (Instant::now(), Duration::from_millis(30));
        interrupt.wait_for_a_trial_that_goes_on(limit);
        assert!(begun.elapsed() >= limit);
    }

    #[test]
    fn whoever_has_ended_is_left_alone_until_the_next_trial() {
        let interrupt = Interrupt::default();
        interrupt.trial_begins(true);
        thread::scope(|scope| {
            let (sender, waited) = channel();
            let watcher = &interrupt;
            scope.spawn(move || {
                watcher.wait_for_a_trial_that_goes_on(LONG);
                sender.send(()).expect("it is heard");
            });
            while !interrupt.flag().load(Ordering::Acquire) {
                thread::yield_now();
            }
            interrupt.trial_ends();
            assert!(waited.try_recv().is_err(), "nothing runs");
            interrupt.trial_begins(false);
            waited.recv_timeout(LONG / 2).expect("a trial goes on");
        });
    }
}
