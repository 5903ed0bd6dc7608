//! Who is told how a trial comes along.

use crate::gate::{Gate, GateError};
use crate::turns::Turns;
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

    /// Everything is prepared; the repetitions that all sites of the trial run, where there are others. `reps` are those that this one has found;
    /// `None` of work that has none.
    ///
    /// # Errors
    /// When the others will not come.
    fn agree(&mut self, reps: Option<u64>) -> Result<Option<u64>, GateError> {
        Ok(self.gate(reps.unwrap_or(1))?.map(|pass| pass.reps))
    }

    /// Waits until the phase at `position` of `of` may run; `false` where the trial has no further one. `resting_cpu_ns` is read at both ends of the wait: CPU
    /// time in ns of processes that work for this site and should rest.
    ///
    /// # Errors
    /// When that will not be told any more.
    fn turn(&mut self, position: usize, of: usize, resting_cpu_ns: &mut dyn FnMut() -> u64) -> Result<bool, GateError> {
        let _ = resting_cpu_ns;
        Ok(position < of)
    }

    /// Whether this is one side of a trial, whose phases alternate with those of another site.
    fn is_one_side(&self) -> bool {
        false
    }

    /// Whether other sites of this trial work at the same time, which may be on this machine.
    fn is_one_of_several(&self) -> bool {
        false
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

/// How a trial is run.
pub(crate) enum Way<'o> {
    /// At this site alone.
    Alone,
    /// As one of several sites, which wait for each other.
    Together(Gate<'o>),
    /// As one of two sites, whose phases alternate.
    InTurns(Turns<'o>),
}

/// Tells the lab, and the observers: these read between phases, after those of either arm alike, so that what their
/// reading leaves in the caches favours neither.
pub(crate) struct Told<'o, W> {
    pub output: &'o mut W,
    pub of: usize,
    pub watch: Option<Watch>,
    /// Where this site waits for others.
    pub way: Way<'o>,
    pub interrupt: Arc<AtomicBool>,
    /// What was stored of the trial before it was interrupted, by the place of the phase.
    pub stored: Vec<(usize, Value)>,
}

impl<W> Told<'_, W> {
    fn is_alone(&self) -> bool {
        matches!(self.way, Way::Alone)
    }
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
        if self.is_alone() {
            drop(write_frame(self.output, &FromAgent::DiskPhases));
        }
    }

    fn phase_done(&mut self, position: usize, arm: usize) {
        if let Some(watch) = &self.watch {
            watch.phase_done(if let Way::InTurns(turns) = &self.way { turns.arm } else { arm }, 1);
        }
        // The lab gives the turns, and knows.
        if self.is_one_side() {
            return;
        }
        // Of many short phases every fourth is reported: the lab would wake up for each, on a CPU that is measured. Sites that
        // wait for each other count theirs.
        if self.of > MANY_PHASES && self.is_alone() && !(position + 1).is_multiple_of(4) {
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
        if self.is_alone() {
            drop(write_frame(self.output, &FromAgent::Progress { position, row }));
        }
    }

    fn stored(&self, position: usize) -> Vec<Value> {
        self.stored.iter().filter(|(phase, _)| *phase == position).map(|(_, row)| row.clone()).collect()
    }

    fn gate(&mut self, reps: u64) -> Result<Option<Pass>, GateError> {
        match &self.way {
            Way::Together(gate) => gate.pass(reps, self.output).map(Some),
            Way::Alone | Way::InTurns(_) => Ok(None),
        }
    }

    fn agree(&mut self, reps: Option<u64>) -> Result<Option<u64>, GateError> {
        match &self.way {
            Way::InTurns(turns) => turns.prepared(reps, self.output).map(Some),
            Way::Alone | Way::Together(_) => Ok(self.gate(reps.unwrap_or(1))?.map(|pass| pass.reps)),
        }
    }

    fn turn(&mut self, position: usize, of: usize, resting_cpu_ns: &mut dyn FnMut() -> u64) -> Result<bool, GateError> {
        match &mut self.way {
            Way::InTurns(turns) => turns.next(self.watch.as_ref(), self.output, resting_cpu_ns),
            Way::Alone | Way::Together(_) => Ok(position < of),
        }
    }

    fn is_one_side(&self) -> bool {
        matches!(self.way, Way::InTurns(_))
    }

    fn is_one_of_several(&self) -> bool {
        matches!(self.way, Way::Together(_))
    }

    fn timed(&mut self, position: usize, stretch: Stretch) {
        if let Way::Together(gate) = &mut self.way {
            gate.timed(position, stretch);
        }
    }
}
