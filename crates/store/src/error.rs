//! What can go wrong with a store, named by the file and with the remedy.

use crate::run_id::RunId;
use baremark_model::problem::near;
use rusqlite::ErrorCode;
use std::path::{Path, PathBuf};
use std::{fs, io};

/// A store could not be opened, read or written.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// No file is there and none may be made.
    #[error("{0} does not exist: no run has been stored there yet; run a study, or name another file with --store")]
    Missing(PathBuf),
    /// The folder or the file could not be made or looked at.
    #[error("cannot {what} {path}: {why}; name another file with --store", path = path.display())]
    Path {
        /// What was tried.
        what: &'static str,
        /// On what.
        path: PathBuf,
        /// What went wrong.
        #[source]
        why: io::Error,
    },
    /// The file is something else.
    #[error("{path} is not a baremark store ({what}); name another file with --store", path = path.display())]
    NotAStore {
        /// The file.
        path: PathBuf,
        /// What it is instead.
        what: String,
    },
    /// A later version of baremark wrote the file.
    #[error("{path} has schema {found}, this baremark knows up to {known}; use the newer baremark or another --store", path = path.display())]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its schema.
        found: i64,
        /// The latest schema that is known here.
        known: i64,
    },
    /// The file is damaged.
    #[error("{path} is damaged ({what}); save what can be read with `sqlite3 {path} .recover`, then move it away", path = path.display())]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// What was found.
        what: String,
    },
    /// The file may be read only.
    #[error("{0} cannot be written: it, its folder or its file system is read-only; name another file with --store")]
    ReadOnly(PathBuf),
    /// The disk took no more.
    #[error("{path} cannot grow ({what}): the disk, a quota or a file size limit is full; what was stored before is intact. Free some space and resume", path = path.display())]
    Full {
        /// The file.
        path: PathBuf,
        /// What SQLite said.
        what: String,
    },
    /// Another process writes and does not come to an end.
    #[error(
        "{0} is being written by another process for longer than 10 s; wait for it or name another file with --store"
    )]
    Busy(PathBuf),
    /// No run has this name or a name that begins so.
    #[error("no run is called '{name}'; {remedy}")]
    Unknown {
        /// What was requested.
        name: String,
        /// What would be right.
        remedy: String,
    },
    /// Several runs have names that begin so.
    #[error("'{name}' may be any of {}; type more of the name", candidates.join(", "))]
    Ambiguous {
        /// What was requested.
        name: String,
        /// What it may be.
        candidates: Vec<String>,
    },
    /// A row of this name is there already.
    #[error("{0} is stored already; a place in the record is given once")]
    Duplicate(String),
    /// Something was changed after it was stored.
    #[error("{what}: {why}; {path} was damaged after this was written: restore it from a copy", path = path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What of it, such as `run 20261121-0405-3fa9c21b, trial block 3 cell 1`.
        what: String,
        /// What is wrong with it.
        why: String,
    },
    /// A run of another version.
    #[error("run {run} has format {found}, this baremark {does} format {known}; {remedy}")]
    Format {
        /// The run.
        run: RunId,
        /// Its format.
        found: i64,
        /// `reads up to` or `writes`.
        does: &'static str,
        /// The format that is known here.
        known: i64,
        /// What to do.
        remedy: &'static str,
    },
    /// A stored text cannot be read.
    #[error("run {run}: its {what} cannot be read ({why}); delete the run, or restore the file")]
    Garbled {
        /// The run.
        run: RunId,
        /// Which part.
        what: &'static str,
        /// Why.
        why: String,
    },
    /// A value cannot be stored so that it reads back alike.
    #[error("{what} cannot be stored: {why}")]
    Unwritable {
        /// What.
        what: String,
        /// Why.
        why: String,
    },
    /// A living process works on the run.
    #[error(transparent)]
    Locked(#[from] LockError),
    /// Anything else that SQLite says.
    #[error("{path}: cannot {what}: {why}", path = path.display())]
    Sqlite {
        /// The file.
        path: PathBuf,
        /// What was tried.
        what: &'static str,
        /// What went wrong.
        #[source]
        why: rusqlite::Error,
    },
}

/// A run could not be locked.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// A living process holds the lock.
    #[error("run {run} is live: {holder} works on it; wait for it to end, or end it", holder = holder(*pid))]
    Live {
        /// The run.
        run: RunId,
        /// The process, where it left its number.
        pid: Option<u32>,
    },
    /// The lock file cannot be made or locked.
    #[error("cannot lock {path}: {why}; the store's folder must be writable and local", path = path.display())]
    File {
        /// The lock file.
        path: PathBuf,
        /// What went wrong.
        #[source]
        why: io::Error,
    },
}

fn holder(pid: Option<u32>) -> String {
    pid.map_or_else(|| "another process".to_owned(), |pid| format!("process {pid}"))
}

impl StoreError {
    /// Sorts what SQLite said while trying to `what`.
    pub(crate) fn sqlite(path: &Path, what: &'static str, why: rusqlite::Error) -> Self {
        let at = path.to_owned();
        let said = why.to_string();
        let Some(failure) = why.sqlite_error() else { return StoreError::Sqlite { path: at, what, why } };
        match failure.code {
            ErrorCode::NotADatabase => StoreError::NotAStore { path: at, what: "no SQLite file".to_owned() },
            ErrorCode::DatabaseCorrupt => StoreError::Corrupt { path: at, what: said },
            ErrorCode::ReadOnly | ErrorCode::PermissionDenied => StoreError::ReadOnly(at),
            // What SQLite says when it may not make its log next to the file.
            ErrorCode::CannotOpen if refuses_writing(path) => StoreError::ReadOnly(at),
            ErrorCode::DiskFull => StoreError::Full { path: at, what: said },
            ErrorCode::SystemIoFailure if refused_growth(failure.extended_code) => {
                StoreError::Full { path: at, what: said }
            }
            ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => StoreError::Busy(at),
            _ => StoreError::Sqlite { path: at, what, why },
        }
    }

    /// The run named `name` is not among `known`.
    pub(crate) fn unknown(name: &str, known: &[&str]) -> Self {
        const SHOWN: usize = 5;
        let remedy = match known {
            [] => "no run has been stored yet".to_owned(),
            _ => match near(name, known) {
                Some(near) => format!("did you mean '{near}'?"),
                None => format!("the latest are {}", known[..known.len().min(SHOWN)].join(", ")),
            },
        };
        StoreError::Unknown { name: name.to_owned(), remedy }
    }
}

/// Whether the system lets nobody, or not us, write to the file.
fn refuses_writing(path: &Path) -> bool {
    let refused = [io::ErrorKind::ReadOnlyFilesystem, io::ErrorKind::PermissionDenied];
    fs::OpenOptions::new().append(true).open(path).is_err_and(|why| refused.contains(&why.kind()))
}

/// Whether an I/O error of SQLite is one of those that a disk without room shows: a write, a sync, or the growth of the
/// shared memory. A limit on file sizes arrives as the first.
fn refused_growth(extended: i32) -> bool {
    use rusqlite::ffi;
    matches!(
        extended,
        ffi::SQLITE_IOERR_WRITE | ffi::SQLITE_IOERR_FSYNC | ffi::SQLITE_IOERR_TRUNCATE | ffi::SQLITE_IOERR_SHMSIZE
    )
}
