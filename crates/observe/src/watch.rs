//! Observing alongside a trial: a thread that reads when a point is due, and the trial itself, which reads between its phases.
//!
//! Where phases are shorter than the interval the thread never reads: the phases' own readings make the points, and no
//! reading falls into what is timed.

use crate::recorder::Recorder;
use crate::{LIST, Root, Row};
use baremark_model::observation::Observation;
use baremark_model::observer::{Absence, ObserveSpec};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

struct State {
    recorder: Option<Recorder>,
    /// When a phase last ended.
    phase_ended: Option<Instant>,
    over: bool,
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

impl Shared {
    /// A panic while it was held has spoiled at most one reading.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Observers at work alongside a trial. Dropped, it stops them.
pub struct Watch {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    absent: Vec<Absence>,
}

impl Watch {
    /// Starts observing this machine.
    #[must_use]
    pub fn start(spec: &ObserveSpec) -> Self {
        Watch::start_of(LIST, spec)
    }

    /// The same with the observers of another list.
    #[must_use]
    pub fn start_of(list: &[Row], spec: &ObserveSpec) -> Self {
        let recorder = Some(Recorder::start_of(list, spec, &Root::default()));
        let state = Mutex::new(State { recorder, phase_ended: None, over: false });
        let shared = Arc::new(Shared { state, changed: Condvar::new() });
        let beside = Arc::clone(&shared);
        let interval = Duration::from_nanos(spec.interval.0);
        let started = thread::Builder::new().name("observer".to_owned()).spawn(move || points(&beside, interval));
        match started {
            Ok(thread) => Watch { shared, thread: Some(thread), absent: Vec::new() },
            Err(why) => {
                let absence =
                    Absence::new("series", format!("the thread that reads for it could not be started: {why}"));
                Watch { shared, thread: None, absent: vec![absence] }
            }
        }
    }

    /// Says that phases begin.
    pub fn begin_phases(&self) {
        if let Some(recorder) = &mut self.shared.lock().recorder {
            recorder.begin_phases();
        }
    }

    /// Says that so many `phases` of `arm` are over.
    pub fn phase_done(&self, arm: usize, phases: u32) {
        let mut state = self.shared.lock();
        state.phase_ended = Some(Instant::now());
        if let Some(recorder) = &mut state.recorder {
            recorder.phase_done(arm, phases);
        }
    }

    /// Stops, and reports what was observed.
    #[must_use]
    pub fn stop(mut self) -> Observation {
        let recorder = self.end();
        let mut observation = recorder.map(Recorder::finish).unwrap_or_default();
        observation.absent.append(&mut self.absent);
        observation
    }

    fn end(&mut self) -> Option<Recorder> {
        let recorder = {
            let mut state = self.shared.lock();
            state.over = true;
            state.recorder.take()
        };
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has told so on standard error.
            drop(thread.join());
        }
        recorder
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        drop(self.end());
    }
}

fn points(shared: &Shared, interval: Duration) {
    let mut state = shared.lock();
    while !state.over {
        let Some(recorder) = &mut state.recorder else { return };
        let due = recorder.point_due();
        // While phases are short, the next one ends soon and reads without disturbing one.
        let phases = state.phase_ended.is_some_and(|ended| ended.elapsed() < interval);
        let due = if phases { due + interval / 2 } else { due };
        let wait = due.saturating_duration_since(Instant::now());
        if wait.is_zero() {
            if let Some(recorder) = &mut state.recorder {
                recorder.point();
            }
            continue;
        }
        state = match shared.changed.wait_timeout(state, wait) {
            Ok((state, _)) => state,
            Err(poisoned) => poisoned.into_inner().0,
        };
    }
}
