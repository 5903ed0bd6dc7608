//! The time that a run may take in all: a hard limit, which ends what is under way as an interrupt of the user's does.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// How often the clock and the user are looked at.
const GLANCE: Duration = Duration::from_millis(20);

/// Time that runs.
pub(crate) struct Budget {
    begin: Instant,
    deadline: Option<Instant>,
    /// Raised when the time is over, or when the user wants it to stop.
    stop: Arc<AtomicBool>,
    over: Arc<AtomicBool>,
    done: Arc<AtomicBool>,
    guard: Option<JoinHandle<()>>,
}

impl Budget {
    /// Begins now; `None` for as long as it takes. `user` is raised when the user wants it to stop.
    pub(crate) fn begin(seconds: Option<f64>, user: &Arc<AtomicBool>) -> Budget {
        let begin = Instant::now();
        let deadline = seconds.map(|seconds| begin + Duration::from_secs_f64(seconds.clamp(0.0, 1e9)));
        let (stop, over, done) = <(Arc<AtomicBool>, Arc<AtomicBool>, Arc<AtomicBool>)>::default();
        let guard = {
            let (user, stop, over, done) = (Arc::clone(user), Arc::clone(&stop), Arc::clone(&over), Arc::clone(&done));
            thread::spawn(move || {
                while !done.load(Ordering::Relaxed) {
                    let late = deadline.is_some_and(|deadline| Instant::now() >= deadline);
                    if late || user.load(Ordering::Relaxed) {
                        over.store(late, Ordering::Relaxed);
                        stop.store(true, Ordering::Relaxed);
                        return;
                    }
                    thread::sleep(GLANCE);
                }
            })
        };
        Budget { begin, deadline, stop, over, done, guard: Some(guard) }
    }

    /// What everything that can be cut short looks at.
    pub(crate) fn stop(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.stop)
    }

    /// Whether it was the clock that ended it.
    pub(crate) fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    /// What was allowed, in s.
    pub(crate) fn seconds(&self) -> Option<f64> {
        self.deadline.map(|deadline| (deadline - self.begin).as_secs_f64())
    }

    /// The moment so many seconds before its end; `None` without one.
    pub(crate) fn before_end(&self, seconds: f64) -> Option<Instant> {
        let rest = Duration::from_secs_f64(seconds.clamp(0.0, 1e9));
        self.deadline.map(|deadline| deadline.checked_sub(rest).unwrap_or(self.begin).max(self.begin))
    }
}

impl Drop for Budget {
    fn drop(&mut self) {
        self.done.store(true, Ordering::Relaxed);
        drop(self.guard.take().map(JoinHandle::join));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn soon(what: &str, condition: impl Fn() -> bool) {
        let limit = Instant::now() + Duration::from_secs(60);
        while !condition() {
            assert!(Instant::now() < limit, "{what}");
            thread::sleep(GLANCE);
        }
    }

    #[test]
    fn time_and_the_user_end_a_run_and_it_knows_which() {
        let user = Arc::new(AtomicBool::new(false));
        let short = Budget::begin(Some(0.05), &user);
        soon("the time is over", || short.stop().load(Ordering::Relaxed));
        assert!(short.is_over());

        let long = Budget::begin(Some(1e6), &user);
        assert!(!long.stop().load(Ordering::Relaxed));
        user.store(true, Ordering::Relaxed);
        soon("the user is heard", || long.stop().load(Ordering::Relaxed));
        assert!(!long.is_over(), "it was the user");
    }

    #[test]
    fn a_moment_before_the_end_is_never_before_the_begin() {
        let user = Arc::new(AtomicBool::new(false));
        let budget = Budget::begin(Some(10.0), &user);
        let end = budget.before_end(0.0).expect("it has an end");
        assert_eq!(end - budget.before_end(4.0).expect("it has an end"), Duration::from_secs(4));
        assert_eq!(budget.before_end(100.0), Some(budget.begin));
        assert_eq!(Budget::begin(None, &user).before_end(4.0), None);
    }
}
