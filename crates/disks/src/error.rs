//! Why an engine gave no result.

use std::io;

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The site lacks something.
    #[error("{what}; {remedy}")]
    Missing {
        /// What.
        what: String,
        /// What would help.
        remedy: String,
    },
    /// An I/O failed.
    #[error("{what}: {source}")]
    Io {
        /// What was tried.
        what: String,
        /// What it gave.
        source: io::Error,
    },
    /// It was told to stop.
    #[error("interrupted")]
    Interrupted,
}

impl EngineError {
    pub(crate) fn io(what: impl Into<String>, source: io::Error) -> EngineError {
        EngineError::Io { what: what.into(), source }
    }
}

impl From<EngineError> for io::Error {
    fn from(why: EngineError) -> io::Error {
        match why {
            EngineError::Io { source, .. } => source,
            other => io::Error::other(other),
        }
    }
}
