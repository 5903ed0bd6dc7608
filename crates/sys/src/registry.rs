//! Where this process records what it makes outside of itself, before it is made: folders, control groups and programs that it stops, which `kill -9` would
//! leave.
//!
//! This crate makes them and has no journal; the program installs one. Libraries and tests that install none make things without a record.

use crate::process_tree::Process;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::Path;
use std::sync::OnceLock;

/// What is about to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Made<'m> {
    /// A folder or file whose name begins with [`MARK`].
    Folder(&'m Path),
    /// A control group whose name begins with [`MARK`].
    Group {
        /// Its folder.
        path: &'m Path,
        /// Whether groups next to it are offered the controller for memory for its sake.
        offers_memory: bool,
    },
    /// A program that is stopped again and again ([`crate::suspended`]).
    Suspended {
        /// Its processes; the first has started all others.
        processes: &'m [Process],
        /// The PID namespace in which they have these numbers.
        namespace: &'m str,
    },
}

/// How the names of all that is made begin: nothing else is ever removed by a record.
pub const MARK: &str = "baremark-";

/// The record of something that was made. Dropped without [`Record::gone`], it has the thing removed, or keeps the record where that fails.
pub trait Record: Send + Sync + fmt::Debug {
    /// What was made is no longer there.
    fn gone(self: Box<Self>);
}

/// Records what is about to be made, durably.
pub type Recorder = fn(Made<'_>) -> io::Result<Box<dyn Record>>;

static RECORDER: OnceLock<Recorder> = OnceLock::new();

/// Has everything recorded from now on. The first recorder stays.
pub fn install(recorder: Recorder) {
    RECORDER.get_or_init(|| recorder);
}

/// Records what is about to be made; `None` where no recorder is installed.
///
/// # Errors
/// When it cannot be recorded.
pub fn record(made: Made<'_>) -> io::Result<Option<Box<dyn Record>>> {
    RECORDER.get().map(|record| record(made)).transpose()
}

/// 128 random bits in hexadecimal: a secret.
///
/// # Errors
/// What reading /dev/urandom gives.
pub fn random_secret() -> io::Result<String> {
    let mut bytes = [0; 16];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// A word that no other name has, of 36 characters.
///
/// # Errors
/// What reading /proc gives.
pub fn random_word() -> io::Result<String> {
    Ok(fs::read_to_string("/proc/sys/kernel/random/uuid")?.trim().to_owned())
}
