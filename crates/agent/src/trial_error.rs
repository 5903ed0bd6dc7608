//! Why a trial could not be run to its end.

use crate::gate::GateError;
use baremark_model::job::JobError;
use baremark_model::seam::{Fault, MemoryError, WorkloadError};
use baremark_sys::clock;
use baremark_sys::thread_team::CrewError;

/// Why a trial could not be run to its end.
#[derive(Debug, thiserror::Error)]
pub enum TrialError {
    /// The specification asks for what this agent cannot do.
    #[error("{what}; {remedy}")]
    Spec {
        /// What it asks for.
        what: String,
        /// What would be right.
        remedy: String,
    },
    /// A parameter is out of range, or the memory could not be had.
    #[error(transparent)]
    Workload(#[from] WorkloadError),
    /// The memory could not be had.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// The microVM could not be started.
    #[error(transparent)]
    Microvm(#[from] baremark_microvm::Error),
    /// The threads of an executor could not be started.
    #[error(transparent)]
    Crew(#[from] CrewError),
    /// The CPUs that may be used could not be asked for.
    #[error("asking which CPUs may be used: {0}")]
    Affinity(#[source] std::io::Error),
    /// A job gave no result.
    #[error(transparent)]
    Job(#[from] JobError),
    /// A rank did not come back.
    #[error(transparent)]
    Fault(#[from] Fault),
    /// The other sites of its trial did not come.
    #[error(transparent)]
    Gate(#[from] GateError),
    /// The clock cannot be used.
    #[error(transparent)]
    Clock(#[from] clock::ClockError),
}

impl TrialError {
    /// A specification that no lab of this version writes.
    pub(crate) fn spec(what: String) -> Self {
        TrialError::Spec { what, remedy: "use the same version of baremark on both sides".to_owned() }
    }
}
