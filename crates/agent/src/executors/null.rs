//! Not at all: an empty region on the same threads, with the same barriers and the same clock.
//!
//! What it measures is the floor of our own timing. A metric computed from its times is not a result of the workload.

use super::direct::Direct;
use baremark_model::arm::ExecutorKind;
use baremark_model::seam::{Body, Executor, ExecutorFacts, Fault, RunRecord, Work};
use baremark_model::team::Team;
use baremark_sys::affinity::Seat;
use baremark_sys::thread_team::CrewError;

/// Times an empty region.
#[derive(Debug)]
pub struct Null {
    threads: Direct,
}

impl Null {
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
        Ok(Null { threads: Direct::named(ExecutorKind::Null, seats)? })
    }
}

impl Executor for Null {
    fn facts(&self) -> &ExecutorFacts {
        self.threads.facts()
    }

    fn run(&mut self, body: &dyn Body, reps: u64) -> Result<RunRecord, Fault> {
        self.threads.run(&Empty { gate: body.gate() }, reps)
    }
}

/// The empty region.
struct Empty<'g> {
    gate: Option<&'g Team>,
}

impl Body for Empty<'_> {
    fn work(&self, _ranks: usize) -> Work {
        Work::default()
    }

    fn rank(&self, _rank: usize, _team: &Team, _reps: u64) {}

    fn gate(&self) -> Option<&Team> {
        self.gate
    }
}
