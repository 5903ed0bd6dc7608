//! A change to the host and the seam of its types.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::io;

/// A change to the host, as recorded before it is made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Change {
    /// The type of change: the name of its [`Kind`].
    pub kind: String,
    /// What is changed, unique on this host: only one owner at a time may hold a target.
    pub target: String,
    /// What its kind needs to undo it.
    pub details: Value,
}

/// What undoing a change found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Undone {
    /// The change was there and is undone.
    Done,
    /// The change was not there (any more): it was never made, or is undone already.
    Absent,
    /// Something else is there now. It was left as it is; the text says what was found.
    Foreign(String),
}

/// A type of change. Undoing must be idempotent, for a process may be killed in the middle of it.
pub trait Kind: Send + Sync {
    /// Its name in records.
    fn name(&self) -> &'static str;

    /// Whether a change of this kind is still there after a reboot.
    fn survives_reboot(&self) -> bool {
        false
    }

    /// Undoes a change, if what is there is what the change made.
    ///
    /// # Errors
    /// What the system gives, or `InvalidData` for details that are not of this kind. The record is kept.
    fn undo(&self, details: &Value) -> io::Result<Undone>;
}

/// Reads the details of a change of this kind.
///
/// # Errors
/// `InvalidData` when they are not.
pub fn details_of<'d, T: Deserialize<'d>>(details: &'d Value) -> io::Result<T> {
    T::deserialize(details).map_err(|why| io::Error::new(io::ErrorKind::InvalidData, format!("details: {why}")))
}
