//! What a search loads.

use baremark_model::qos::{Qos, Reading};
use baremark_model::units::Nanos;
use std::time::Instant;

/// Something whose load can be set and whose behaviour under it can be read.
pub trait UnderLoad {
    /// Starts afresh for trial `trial` (from 0), without load: new connections, and whatever else can be made new.
    ///
    /// # Errors
    /// In words, with the remedy: the search ends with what it has.
    fn start(&mut self, trial: usize) -> Result<(), String>;

    /// Brings the load to `level` and waits for `settle`.
    ///
    /// # Errors
    /// As [`UnderLoad::start`].
    fn set(&mut self, level: f64, settle: Nanos) -> Result<(), String>;

    /// Reads one window at the level set, against the limits of `qos`; what began in it is waited for, within reason, and
    /// what has not ended then has broken its limits. The default is a window that does not count: it is neither a pass nor a failure.
    ///
    /// # Errors
    /// As [`UnderLoad::start`].
    fn read(&mut self, qos: &Qos, lasting: Nanos) -> Result<Reading, String>;

    /// Takes so much load away that nothing of an overload is left: all of it, where coming back costs nothing.
    ///
    /// # Errors
    /// As [`UnderLoad::start`].
    fn drain(&mut self) -> Result<(), String>;

    /// The clock by which a search's deadline is kept: that of a simulation is its own.
    fn now(&self) -> Instant {
        Instant::now()
    }
}
