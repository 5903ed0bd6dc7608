//! Who is told how a trial comes along.

use crate::gate::{Gate, GateError};
use baremark_model::loading::Loading;
use baremark_model::wire::{FromAgent, Pass, Stretch, write_frame};
use baremark_observe::watch::Watch;
use serde_json::Value;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Someone who is told how a trial comes along. A closure of (position, arm) hears of finished phases alone.
pub trait Progress {
    /// So much of the data is loaded that the trial needs.
    fn loading(&mut self, loading: Loading) {
        let _ = loading;
    }

    /// Everything is prepared; the first phase begins.
    fn phases_begin(&mut self) {}

    /// The same, of a job that measures disks.
    fn disk_phases_begin(&mut self) {}

    /// The phase at `position` of the schedule is over, in which `arm` ran.
    fn phase_done(&mut self, position: usize, arm: usize);

    /// Set when nobody wants the trial's result any more.
    fn interrupt(&self) -> Arc<AtomicBool> {
        Arc::default()
    }

    /// Something of the phase at `position` is to be stored at once.
    fn store(&mut self, position: usize, row: Value) {
        let _ = (position, row);
    }

    /// What was stored of the phase at `position` before the trial was interrupted.
    fn stored(&self, position: usize) -> Vec<Value> {
        let _ = position;
        Vec::new()
    }

    /// Waits for the other sites of an ensemble; `None` where there are no others. `reps` are the repetitions wanted next.
    ///
    /// # Errors
    /// When the others will not come.
    fn gate(&mut self, reps: u64) -> Result<Option<Pass>, GateError> {
        let _ = reps;
        Ok(None)
    }

    /// A stretch of the phase at `position` was timed.
    fn timed(&mut self, position: usize, stretch: Stretch) {
        let _ = (position, stretch);
    }
}

impl<F: FnMut(usize, usize)> Progress for F {
    fn phase_done(&mut self, position: usize, arm: usize) {
        self(position, arm);
    }
}

/// A trial of more phases than this has short ones.
const MANY_PHASES: usize = 16;

/// Tells the lab, and the observers: these read between phases, after those of either arm alike, so that what their
/// reading leaves in the caches favours neither.
pub(crate) struct Told<'o, W> {
    pub output: &'o mut W,
    pub of: usize,
    pub watch: Option<Watch>,
    /// Where this site waits for others; `None` for a trial that is run alone.
    pub gate: Option<Gate<'o>>,
    pub interrupt: Arc<AtomicBool>,
    /// What was stored of the trial before it was interrupted, by the place of the phase.
    pub stored: Vec<(usize, Value)>,
}

impl<W: Write> Progress for Told<'_, W> {
    fn loading(&mut self, loading: Loading) {
        drop(write_frame(self.output, &FromAgent::Loading(loading)));
    }

    fn phases_begin(&mut self) {
        if let Some(watch) = &self.watch {
            watch.begin_phases();
        }
    }

    fn disk_phases_begin(&mut self) {
        // Of several sites none has a hypervisor's counts in its results.
        if self.gate.is_none() {
            drop(write_frame(self.output, &FromAgent::DiskPhases));
        }
    }

    fn phase_done(&mut self, position: usize, arm: usize) {
        if let Some(watch) = &self.watch {
            watch.phase_done(arm);
        }
        // Of many short phases every fourth is reported: the lab would wake up for each, on a CPU that is measured. Sites that
        // wait for each other count theirs.
        if self.of > MANY_PHASES && self.gate.is_none() && !(position + 1).is_multiple_of(4) {
            return;
        }
        // A lab that no longer listens is noticed at the next read; the trial's own time is not its.
        drop(write_frame(self.output, &FromAgent::Phase { position, of: self.of, arm }));
    }

    fn interrupt(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.interrupt)
    }

    fn store(&mut self, position: usize, row: Value) {
        // A trial of several sites is not taken up in its middle.
        if self.gate.is_none() {
            drop(write_frame(self.output, &FromAgent::Progress { position, row }));
        }
    }

    fn stored(&self, position: usize) -> Vec<Value> {
        self.stored.iter().filter(|(phase, _)| *phase == position).map(|(_, row)| row.clone()).collect()
    }

    fn gate(&mut self, reps: u64) -> Result<Option<Pass>, GateError> {
        self.gate.as_ref().map(|gate| gate.pass(reps, self.output)).transpose()
    }

    fn timed(&mut self, position: usize, stretch: Stretch) {
        if let Some(gate) = &mut self.gate {
            gate.timed(position, stretch);
        }
    }
}
