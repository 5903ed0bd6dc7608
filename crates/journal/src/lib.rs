//! An undo log of changes to the host: each is recorded durably before it is made, with how it is undone.
//!
//! [`Journal::make`] records a [`Change`], makes it and returns a [`Held`] that undoes it when dropped. After `kill -9`,
//! [`Journal::recover`] in any later process undoes what dead owners left. Every owner writes a file of its own, named after its process
//! and its start time, so that a torn or hostile file affects no other; a lock on the folder serialises making and recovering.
//!
//! What a change is, is open: a [`Kind`] undoes the changes of its name. [`value::Values`] and [`file::Files`] are here, others belong to
//! the crates that make such changes. The journal never undoes what it cannot identify as its own: a kind that finds something else
//! in place reports [`Undone::Foreign`] and changes nothing.
#![forbid(unsafe_code)]

pub mod change;
pub mod error;
pub mod file;
pub mod journal;
pub mod owner;
mod record;
pub mod recovery;
pub mod value;

pub use change::{Change, Kind, Undone};
pub use error::{JournalError, MakeError};
pub use journal::{Held, Journal};
pub use recovery::Recovery;
