//! On threads of this process, with nothing between.
//!
//! One thread for each rank, started and pinned once and asleep between runs. Every run has a fresh team; a body that
//! panics breaks it, so that no rank waits for ever, and the next run finds everything as new. There is no watchdog: a
//! thread cannot be killed without the process, so that a body which does not end keeps the run for ever, and whoever
//! started the agent must bound its time.

use baremark_model::arm::ExecutorKind;
use baremark_model::seam::{Audit, Body, Executor, ExecutorFacts, Fault, RankTime, RunRecord, timed_region};
use baremark_model::team::{Rest, Team};
use baremark_sys::affinity::Seat;
use baremark_sys::clock::ticks;
use baremark_sys::thread_team::{Crew, CrewError};
use baremark_sys::{futex, run_queue};
use std::collections::BTreeMap;
use std::panic::{self, AssertUnwindSafe};
use std::sync::OnceLock;

/// Runs bodies on pinned threads.
#[derive(Debug)]
pub struct Direct {
    crew: Crew,
    facts: ExecutorFacts,
}

impl Direct {
    /// One rank on each of `cpus`.
    ///
    /// # Errors
    /// When no CPU is named, one is named twice, or a thread cannot be started or pinned.
    pub fn new(cpus: &[usize]) -> Result<Self, CrewError> {
        Self::seated(&cpus.iter().map(|&cpu| Seat::Cpu(cpu)).collect::<Vec<_>>())
    }

    /// One rank on each of `seats`.
    ///
    /// # Errors
    /// When there is no seat, a CPU is named twice, or a thread cannot be started or pinned.
    pub fn seated(seats: &[Seat]) -> Result<Self, CrewError> {
        Self::named(ExecutorKind::Direct, seats)
    }

    /// The same threads under another executor's name.
    pub(super) fn named(kind: ExecutorKind, seats: &[Seat]) -> Result<Self, CrewError> {
        let facts = ExecutorFacts {
            name: kind.to_string(),
            ranks: seats.len(),
            cpus: seats.iter().filter_map(|seat| seat.cpu()).collect(),
            runs_body: kind != ExecutorKind::Null,
            virtual_machine: false,
            mmu: None,
            translation: None,
            notes: BTreeMap::new(),
        };
        Ok(Direct { crew: Crew::seated(seats)?, facts })
    }
}

impl Executor for Direct {
    fn facts(&self) -> &ExecutorFacts {
        &self.facts
    }

    fn run(&mut self, body: &dyn Body, reps: u64) -> Result<RunRecord, Fault> {
        let team = Team::resting(self.facts.ranks, self.rest());
        let times: Vec<OnceLock<(RankTime, Option<u64>)>> = (0..self.facts.ranks).map(|_| OnceLock::new()).collect();
        let result = self.crew.run(&|rank| {
            let region = || {
                let before = run_queue::waited_ns();
                let time = timed_region(body, rank, &team, reps, ticks);
                (time, run_queue::waited_ns().zip(before).map(|(after, before)| after.saturating_sub(before)))
            };
            match panic::catch_unwind(AssertUnwindSafe(region)) {
                // Set once: each rank is one thread of the crew.
                Ok(time) => drop(times[rank].set(time)),
                Err(payload) => {
                    team.break_up();
                    panic::resume_unwind(payload);
                }
            }
        });
        if let Err(panics) = result {
            return Err(Fault::Panicked { rank: panics.iter().map(|panic| panic.member).min().unwrap_or(0) });
        }
        let (times, queued): (Vec<_>, Vec<_>) = times.into_iter().filter_map(OnceLock::into_inner).unzip();
        let audit = Audit {
            ranks_inside: times.len(),
            queued_ns: queued.into_iter().sum(),
            rests: team.rests(),
            ..Audit::default()
        };
        Ok(RunRecord { audit, times })
    }

    fn rest(&self) -> Option<Rest> {
        Some(futex::REST)
    }
}
