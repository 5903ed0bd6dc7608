//! A running load whose level is changed by hand, and what windows of it show.
//!
//! A search for a maximum changes the rate or the number of users again and again; stopping and starting would measure
//! handshakes. A window's operations are those *meant to start* in it: they are waited for after its end, and what has not
//! ended then has broken every limit, so that a server that stands still cannot look good by answering nobody.

use crate::control::{Control, NumberedPart, Order};
use crate::load::{Drive, Engine, Load, LoadError, Progress, Stop};
use crate::record::Part;
use crate::worker::LOOK_NS;
use baremark_model::units::Nanos;
use baremark_sys::clock::monotonic_ns;
use baremark_sys::wake::sleep_unless;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// A load under way.
pub struct RateControl {
    control: Arc<Control>,
    interrupt: Arc<AtomicBool>,
    runner: Option<JoinHandle<Result<Part, LoadError>>>,
    parts: Receiver<NumberedPart>,
    threads: usize,
    names: Vec<String>,
    highest: f64,
    windows: u64,
    /// What some threads have told of the latest window, and how many have not.
    gathered: Option<(u64, Part, usize)>,
    /// How often somebody has looked for the latest window in vain after it should have come.
    vain: u32,
}

/// A window that has been requested; times of this machine's monotonic clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    id: u64,
    /// Its begin.
    pub begin_ns: u64,
    /// Its end.
    pub end_ns: u64,
    /// Until when what began in it is waited for.
    pub close_ns: u64,
}

/// Changes and windows begin so long after they were requested: every thread has heard of them by then.
const NOTICE_NS: u64 = 120_000_000;
/// With less than this some thread may hear of a window when it has begun: they look for orders no more often.
const LEAST_NOTICE_NS: u64 = LOOK_NS;
/// How often somebody who waits looks up.
const GLANCE: Duration = Duration::from_millis(20);
/// So often, each time for 20 ms, somebody looks for a window that should have come. Looks are counted and not time: of a process that was stopped, or on
/// a machine that stood still, the threads of the load have not run either.
pub const MOST_LOOKS: u32 = 500;

impl RateControl {
    /// Starts a load of a rate or of users at level 0. Its profile says how high the level may go; its end does not count.
    ///
    /// # Errors
    /// Whatever makes the load impossible; a closed loop of connections has no level.
    pub fn start(load: Load) -> Result<RateControl, LoadError> {
        RateControl::start_watched(load, |_| {})
    }

    /// As [`RateControl::start`]; each second that has passed goes to `watch`, on a thread of its own.
    ///
    /// # Errors
    /// As [`RateControl::start`].
    pub fn start_watched(load: Load, watch: impl FnMut(&Progress) + Send + 'static) -> Result<RateControl, LoadError> {
        RateControl::start_at(load, monotonic_ns() + NOTICE_NS, watch)
    }

    /// The same, beginning at a moment of this machine's monotonic clock, so that loads at several sites begin together.
    ///
    /// # Errors
    /// As [`RateControl::start`].
    pub fn start_at(
        mut load: Load,
        begin: u64,
        mut watch: impl FnMut(&Progress) + Send + 'static,
    ) -> Result<RateControl, LoadError> {
        let highest = match &load.drive {
            Drive::Open { profile, .. } | Drive::Users { profile } => profile.curve()?.highest(),
            Drive::Closed => {
                return Err(LoadError::Refused {
                    what: "a closed loop of connections has no level to change".to_owned(),
                    remedy: "drive it by a rate or by users",
                });
            }
        };
        load.stop = Stop::Count(u64::MAX);
        let interrupt = Arc::new(AtomicBool::new(false));
        let mut engine = Engine::new(load, Arc::clone(&interrupt))?;
        let (sender, parts) = mpsc::channel();
        let threads = engine.load.threads;
        let control = Arc::new(Control::new(begin, threads, sender));
        let names = engine.load.scenario.operation_names();
        engine.control = Some(Arc::clone(&control));
        let run = move || engine.run_from(begin, &mut watch);
        let runner = thread::Builder::new().name("load dial".to_owned()).spawn(run).map_err(LoadError::Thread)?;
        Ok(RateControl {
            control,
            interrupt,
            runner: Some(runner),
            parts,
            threads,
            names,
            highest,
            windows: 0,
            gathered: None,
            vain: 0,
        })
    }

    /// Changes the level; returns from when on, of this machine's monotonic clock.
    ///
    /// # Errors
    /// When the level is negative or above the highest that the load was started for, or the load has ended.
    pub fn set(&mut self, level: f64) -> Result<u64, LoadError> {
        self.set_at(level, monotonic_ns() + NOTICE_NS)
    }

    /// The same from a moment of this machine's monotonic clock on; one that has passed is now.
    ///
    /// # Errors
    /// As [`RateControl::set`].
    pub fn set_at(&mut self, level: f64, at: u64) -> Result<u64, LoadError> {
        self.check_alive()?;
        if !(0.0..=self.highest * (1.0 + 1e-9)).contains(&level) {
            let what = format!("a level of {level} for a load of at most {}", self.highest);
            return Err(LoadError::Refused { what, remedy: "start the load with a higher profile" });
        }
        self.control.change(at, level);
        Ok(at)
    }

    /// Asks for a window of this length that begins soon; what is meant to start in it is waited for until `patience` after.
    ///
    /// # Errors
    /// When the load has ended.
    pub fn ask(&mut self, lasting: Nanos, patience: Nanos) -> Result<Asked, LoadError> {
        loop {
            // Later, where this thread was kept from running meanwhile.
            if let Some(asked) = self.open(monotonic_ns() + NOTICE_NS, lasting, patience)? {
                return Ok(asked);
            }
        }
    }

    /// The same for a window that begins at a moment of this machine's monotonic clock.
    ///
    /// # Errors
    /// When the load has ended, or the moment is too near for every thread to hear of it.
    pub fn ask_at(&mut self, begin_ns: u64, lasting: Nanos, patience: Nanos) -> Result<Asked, LoadError> {
        self.open(begin_ns, lasting, patience)?.ok_or_else(|| {
            let what = "a window was requested too late to count all that starts in it".to_owned();
            LoadError::Refused { what, remedy: "use a site with a quicker connection" }
        })
    }

    /// Asks every thread for a window; `None` where it begins so soon that one may not have heard of it by then.
    fn open(&mut self, begin_ns: u64, lasting: Nanos, patience: Nanos) -> Result<Option<Asked>, LoadError> {
        self.check_alive()?;
        self.windows += 1;
        self.vain = 0;
        let end_ns = begin_ns + lasting.0;
        let asked = Asked { id: self.windows, begin_ns, end_ns, close_ns: end_ns + patience.0 };
        self.control.open(Order { id: asked.id, begin: begin_ns, end: end_ns, close: asked.close_ns });
        Ok((begin_ns >= monotonic_ns() + LEAST_NOTICE_NS).then_some(asked))
    }

    /// Asks for a window and waits for it, and reads `meter` at its begin and at its end; `None` when interrupted.
    ///
    /// # Errors
    /// When the load has ended.
    pub fn metered<T>(
        &mut self,
        (lasting, patience): (Nanos, Nanos),
        interrupt: &AtomicBool,
        mut meter: impl FnMut() -> T,
    ) -> Result<Option<(Part, T, T)>, LoadError> {
        let asked = self.ask(lasting, patience)?;
        wait_until(asked.begin_ns, interrupt);
        let before = meter();
        wait_until(asked.end_ns, interrupt);
        let after = meter();
        Ok(self.collect(asked, interrupt)?.map(|part| (part, before, after)))
    }

    /// Waits for a window and returns what all threads have seen of it; `None` when interrupted.
    ///
    /// # Errors
    /// When the load has ended.
    pub fn collect(&mut self, asked: Asked, interrupt: &AtomicBool) -> Result<Option<Part>, LoadError> {
        while !interrupt.load(Ordering::Relaxed) {
            if let Some(part) = self.gather(asked, GLANCE)? {
                return Ok(Some(part));
            }
        }
        Ok(None)
    }

    /// What all threads have seen of the latest window, if they have told it within this time.
    ///
    /// # Errors
    /// When the load has ended.
    pub fn gather(&mut self, asked: Asked, within: Duration) -> Result<Option<Part>, LoadError> {
        let (mut whole, mut missing) = match self.gathered.take() {
            Some((id, part, missing)) if id == asked.id => (part, missing),
            _ => (Part::new(&self.names), self.threads),
        };
        match self.parts.recv_timeout(within) {
            Ok((id, part)) if id == asked.id => {
                whole.merge(&part)?;
                missing -= 1;
            }
            // Of a window that nobody waited for.
            Ok(_) => {}
            Err(RecvTimeoutError::Timeout) if self.vain < MOST_LOOKS => {
                self.vain += u32::from(monotonic_ns() >= asked.close_ns);
                self.check_alive()?;
            }
            Err(_) => return Err(self.end()),
        }
        if missing == 0 {
            return Ok(Some(whole));
        }
        self.gathered = Some((asked.id, whole, missing));
        Ok(None)
    }

    /// Sets the level to 0 and waits until nothing is on its way any more; `false` when something still is after `within`, or
    /// when interrupted.
    ///
    /// # Errors
    /// When the load has ended.
    pub fn drain(&mut self, within: Nanos, interrupt: &AtomicBool) -> Result<bool, LoadError> {
        let from = self.set(0.0)? + NOTICE_NS;
        let until = from + within.0;
        loop {
            thread::sleep(GLANCE);
            self.check_alive()?;
            let now = monotonic_ns();
            if now >= from && self.in_flight() == 0 {
                return Ok(true);
            }
            if now >= until || interrupt.load(Ordering::Relaxed) {
                return Ok(false);
            }
        }
    }

    /// Operations on their way, as last told by each thread.
    #[must_use]
    pub fn in_flight(&self) -> u64 {
        self.control.in_flight()
    }

    /// Ends the load and returns all that it has measured.
    ///
    /// # Errors
    /// When it had failed meanwhile.
    pub fn stop(mut self) -> Result<Part, LoadError> {
        self.interrupt.store(true, Ordering::Relaxed);
        self.join()
    }

    fn check_alive(&mut self) -> Result<(), LoadError> {
        if self.runner.as_ref().is_some_and(|runner| !runner.is_finished()) { Ok(()) } else { Err(self.end()) }
    }

    /// Why a load has ended that should go on.
    fn end(&mut self) -> LoadError {
        self.interrupt.store(true, Ordering::Relaxed);
        self.join().err().unwrap_or(LoadError::Panicked)
    }

    fn join(&mut self) -> Result<Part, LoadError> {
        match self.runner.take() {
            Some(runner) => runner.join().unwrap_or(Err(LoadError::Panicked)),
            None => Err(LoadError::Panicked),
        }
    }
}

impl Drop for RateControl {
    fn drop(&mut self) {
        self.interrupt.store(true, Ordering::Relaxed);
        // Whoever drops it has no use for what it measured.
        drop(self.runner.take().map(JoinHandle::join));
    }
}

/// Sleeps until a moment of this machine's monotonic clock, unless interrupted.
pub fn wait_until(at_ns: u64, interrupt: &AtomicBool) {
    let left = Duration::from_nanos(at_ns.saturating_sub(monotonic_ns()));
    sleep_unless(|| interrupt.load(Ordering::Relaxed), left);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of a process that was stopped for longer than ten seconds, "a thread of the load engine has panicked" was said.
    #[test]
    fn a_window_that_is_late_by_the_clock_is_looked_for_again() {
        let (sender, parts) = mpsc::channel();
        let interrupt = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&interrupt);
        let runner = thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                thread::sleep(Duration::from_millis(1));
            }
            Ok(Part::default())
        });
        let names = vec!["one".to_owned()];
        let mut dial = RateControl {
            control: Arc::new(Control::new(0, 1, sender.clone())),
            interrupt,
            runner: Some(runner),
            parts,
            threads: 1,
            names: names.clone(),
            highest: 1.0,
            windows: 0,
            gathered: None,
            vain: 0,
        };
        let mut late = || {
            let asked = dial.ask(Nanos(1), Nanos(0)).expect("the load lives");
            Asked { begin_ns: 0, end_ns: 0, close_ns: 0, ..asked }
        };
        let (first, second) = (late(), late());
        assert!(dial.gather(second, Duration::ZERO).is_ok_and(|part| part.is_none()));
        for asked in [first, second] {
            sender.send((asked.id, Box::new(Part::new(&names)))).expect("it is listened to");
        }
        assert!(dial.gather(second, Duration::ZERO).is_ok_and(|part| part.is_none()), "it is of the first");
        assert!(dial.gather(second, Duration::ZERO).is_ok_and(|part| part.is_some()));
        // A thread that has panicked tells nothing.
        assert!((0..=MOST_LOOKS).any(|_| dial.gather(second, Duration::ZERO).is_err()));
    }
}
