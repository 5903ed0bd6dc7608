//! Who is told how a trial comes along.

use baremark_model::wire::{FromAgent, write_frame};
use baremark_observe::watch::Watch;
use std::io::Write;

/// Someone who is told how a trial comes along. A closure of (position, arm) hears of finished phases alone.
pub trait Progress {
    /// Everything is prepared; the first phase begins.
    fn phases_begin(&mut self) {}

    /// The phase at `position` of the schedule is over, in which `arm` ran.
    fn phase_done(&mut self, position: usize, arm: usize);
}

impl<F: FnMut(usize, usize)> Progress for F {
    fn phase_done(&mut self, position: usize, arm: usize) {
        self(position, arm);
    }
}

/// Tells the lab, and the observers: these read between phases, before the next warm-in, so that what their reading leaves
/// in the caches is washed out before anything is timed.
pub(crate) struct Told<'o, W> {
    pub output: &'o mut W,
    pub of: usize,
    pub watch: Option<Watch>,
}

impl<W: Write> Progress for Told<'_, W> {
    fn phases_begin(&mut self) {
        if let Some(watch) = &self.watch {
            watch.begin_phases();
        }
    }

    fn phase_done(&mut self, position: usize, arm: usize) {
        if let Some(watch) = &self.watch {
            watch.phase_done(arm);
        }
        // A lab that no longer listens is noticed at the next read; the trial's own time is not its.
        drop(write_frame(self.output, &FromAgent::Phase { position, of: self.of, arm }));
    }
}
