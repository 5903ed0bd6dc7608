//! What a search loads.

use baremark_model::problem::chain;
use baremark_model::qos::{Qos, Reading};
use baremark_model::units::Nanos;
use std::time::Instant;

/// Why a load could not be set or read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SubjectError {
    /// The user stopped it.
    #[error("interrupted")]
    Interrupted,
    /// What is loaded, or what loads it, has failed: in its own words, with the remedy.
    #[error("{0}")]
    Failed(String),
}

impl SubjectError {
    /// Of what it says, and of its causes.
    pub fn of(why: impl std::error::Error) -> SubjectError {
        SubjectError::Failed(chain(&why))
    }
}

impl From<String> for SubjectError {
    fn from(why: String) -> SubjectError {
        SubjectError::Failed(why)
    }
}

impl From<&str> for SubjectError {
    fn from(why: &str) -> SubjectError {
        SubjectError::Failed(why.to_owned())
    }
}

/// Something whose load can be set and whose behaviour under it can be read.
pub trait UnderLoad {
    /// Starts afresh for trial `trial` (from 0), without load: new connections, and whatever else can be made new.
    ///
    /// # Errors
    /// The search ends with what it has.
    fn start(&mut self, trial: usize) -> Result<(), SubjectError>;

    /// Brings the load to `level` and waits for `settle`.
    ///
    /// # Errors
    /// As [`UnderLoad::start`].
    fn set(&mut self, level: f64, settle: Nanos) -> Result<(), SubjectError>;

    /// Reads one window at the level set, against the limits of `qos`; what began in it is waited for, within reason, and
    /// what has not ended then has broken its limits. The default is a window that does not count: it is neither a pass nor a failure.
    ///
    /// # Errors
    /// As [`UnderLoad::start`].
    fn read(&mut self, qos: &Qos, lasting: Nanos) -> Result<Reading, SubjectError>;

    /// Takes so much load away that nothing of an overload is left: all of it, where coming back costs nothing.
    ///
    /// # Errors
    /// As [`UnderLoad::start`].
    fn drain(&mut self) -> Result<(), SubjectError>;

    /// The clock by which a search's deadline is kept: that of a simulation is its own.
    fn now(&self) -> Instant {
        Instant::now()
    }
}
