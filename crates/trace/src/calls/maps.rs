//! The tables that the programs of [`super::CallTrace`] fill.

use crate::error::{TraceError, hash, map_error, template};
use baremark_sys::bpf::Map;

/// Numbers of calls that have a count each; the last of them has all that are larger.
pub const NUMBERS: u32 = 512;
/// Descendants that are known.
pub(super) const MOST_PROCESSES: u32 = 1 << 15;

/// The maps that the programs share with this process.
#[derive(Debug)]
pub(super) struct Maps {
    /// The processes that identified themselves.
    pub(super) marks: Map,
    /// What is stored of each of them.
    pub(super) zero: Map,
    /// By process: 0 for the chosen one, 1 for its descendants.
    pub(super) members: Map,
    /// By number: calls of the descendants.
    pub(super) calls: Map,
}

impl Maps {
    /// Makes them, empty.
    pub(super) fn new() -> Result<Self, TraceError> {
        Ok(Maps {
            marks: hash("marks", 4, 8, MOST_PROCESSES)?,
            zero: template("call_zero", &[0; 8])?,
            members: hash("members", 4, 8, MOST_PROCESSES)?,
            calls: Map::array("calls", 8, NUMBERS).map_err(map_error("calls"))?,
        })
    }
}
