//! What can go wrong with a journal.

use std::io;
use std::path::PathBuf;

/// Why a journal could not be used.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// A file or folder of the journal cannot be read or written.
    #[error("{what}: {path}: {source}; changes to this host need a journal that can be written", path = path.display())]
    Io {
        /// What was tried.
        what: &'static str,
        /// Of what.
        path: PathBuf,
        /// Why it failed.
        #[source]
        source: io::Error,
    },
    /// Somebody else could write records that would be obeyed.
    #[error("the journal of changes to this host must be yours alone: {0}")]
    Unsafe(#[source] io::Error),
    /// No kind of this name was given to [`crate::Journal::open`].
    #[error("unknown type of change: '{0}'; this version cannot undo it")]
    UnknownKind(String),
    /// A live process holds a change of the same target.
    #[error("{target} is already changed by process {pid}; wait until it ends, or end it")]
    Held {
        /// The target.
        target: String,
        /// The owner.
        pid: u32,
    },
    /// A dead process changed the same target and that cannot be undone.
    #[error("{target} is still changed by process {pid}, which has ended: {why}; undo it by hand")]
    Stuck {
        /// The target.
        target: String,
        /// The owner that has ended.
        pid: u32,
        /// Why it cannot be undone.
        why: String,
    },
    /// Undoing failed; the record is kept and the next start tries again.
    #[error("undoing the change of {target}: {source}; the next start tries again")]
    Undo {
        /// The target.
        target: String,
        /// Why.
        #[source]
        source: io::Error,
    },
}

impl JournalError {
    pub(crate) fn io(what: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> JournalError {
        let path = path.into();
        move |source| JournalError::Io { what, path, source }
    }
}

/// Of the kind that the file system gave, where a file or folder of the journal cannot be read or written; of no kind otherwise.
impl From<JournalError> for io::Error {
    fn from(why: JournalError) -> io::Error {
        let kind = match &why {
            JournalError::Io { source, .. } => source.kind(),
            _ => io::ErrorKind::Other,
        };
        io::Error::new(kind, why)
    }
}

/// Why a change was not made.
#[derive(Debug, thiserror::Error)]
pub enum MakeError<E> {
    /// It was not tried, for it could not be recorded.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// It was recorded, tried and failed; what had been made of it is undone.
    #[error("{0}")]
    Change(E),
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Its kind shows whether a journal cannot be there at all or could not be written.
    #[test]
    fn an_error_of_the_file_system_keeps_its_kind() {
        for kind in [io::ErrorKind::ReadOnlyFilesystem, io::ErrorKind::StorageFull] {
            let why = JournalError::io("writing", "/changes")(kind.into());
            let text = why.to_string();
            let given = io::Error::from(why);
            assert_eq!((given.kind(), given.to_string()), (kind, text));
        }
        let others = JournalError::Unsafe(io::ErrorKind::PermissionDenied.into());
        assert_eq!(io::Error::from(others).kind(), io::ErrorKind::Other, "it is there, and somebody else's");
    }
}
