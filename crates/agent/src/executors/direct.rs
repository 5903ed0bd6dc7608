//! On threads of this process, with nothing between.
//!
//! One thread for each rank, started and pinned once and asleep between runs. Every run has a fresh team; a body that
//! panics breaks it, so that no rank waits for ever, and the next run finds everything as new. There is no watchdog: a
//! thread cannot be killed without the process, so that a body which does not end keeps the run for ever, and whoever
//! started the agent must bound its time.

use baremark_model::arm::ExecutorKind;
use baremark_model::seam::{Audit, Body, Executor, ExecutorFacts, Fault, RankTime, RunRecord, timed_region};
use baremark_model::team::Team;
use baremark_sys::affinity::Seat;
use baremark_sys::clock::ticks;
use baremark_sys::crew::{Crew, CrewError};
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
        let team = Team::new(self.facts.ranks);
        let times: Vec<OnceLock<RankTime>> = (0..self.facts.ranks).map(|_| OnceLock::new()).collect();
        let result = self.crew.run(&|rank| {
            let region = || timed_region(body, rank, &team, reps, ticks);
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
        let times: Vec<RankTime> = times.into_iter().filter_map(OnceLock::into_inner).collect();
        Ok(RunRecord { audit: Audit { ranks_inside: times.len(), ..Audit::default() }, times })
    }
}
