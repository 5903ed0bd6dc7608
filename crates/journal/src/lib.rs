//! An undo log of changes to the host: each is recorded durably before it is made, with how it is undone.
//!
//! [`Journal::make`] records a [`Change`], makes it and returns a [`Held`] that undoes it when dropped. After `kill -9`,
//! [`Journal::recover`] in any later process undoes what dead owners left. A process has one journal, and writes one file that it holds locked
//! for as long as it lives, so that a torn or hostile file affects no other; a lock on the folder serialises recording and recovering.
//!
//! What a change is, is open: a [`Kind`] undoes the changes of its name. [`value::Values`], [`file::Files`], [`group::Groups`] and [`suspended::SuspendedPrograms`] are here, others belong
//! to the crates that make such changes. The journal never undoes what it cannot identify as its own: a kind that finds something else
//! in place reports [`Undone::Foreign`] and changes nothing.
#![forbid(unsafe_code)]

pub mod change;
pub mod error;
pub mod file;
mod folder;
pub mod group;
pub mod journal;
pub mod owner;
mod record;
pub mod recovery;
mod refused;
pub mod registry;
mod shared;
pub mod suspended;
pub mod value;

pub use change::{Change, Kind, Undone};
pub use error::{JournalError, MakeError};
pub use journal::{Held, Journal};
pub use recovery::Recovery;
