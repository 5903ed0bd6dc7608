//! Why servers do not run, or their links are not in the mode that is requested.

use baremark_journal::JournalError;
use baremark_lab::search::SubjectError;
use baremark_networks::NetworkError;
use std::io;
use std::net::SocketAddr;
use std::process::ExitStatus;
use std::sync::Arc;

/// Why a farm cannot be had, or not be changed.
#[derive(Debug, thiserror::Error)]
pub enum FarmError {
    /// The network and its namespaces.
    #[error(transparent)]
    Network(#[from] NetworkError),
    /// The record of control groups.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// Something that the system refuses.
    #[error("{what}: {source}")]
    Io {
        /// What was being done.
        what: String,
        /// What the system said.
        source: io::Error,
    },
    /// The settings of a link were unknown as it was made: dense mode needs them.
    #[error(transparent)]
    Link(Arc<FarmError>),
    /// The kernel keeps other settings of a link.
    #[error("{link} has {found}, and not {wanted}")]
    Kept {
        /// The link.
        link: String,
        /// Its settings.
        found: String,
        /// Those that were set.
        wanted: String,
    },
    /// A server.
    #[error("web server {number} {fault}")]
    Server {
        /// Its number, from 1.
        number: usize,
        /// What is wrong with it.
        fault: ServerFault,
    },
}

/// What is wrong with a server that was started.
#[derive(Debug, thiserror::Error)]
pub enum ServerFault {
    /// It has ended.
    #[error("ended as it started: {0}")]
    Ended(ExitStatus),
    /// Nothing listens where it should.
    #[error("does not listen at {0}: {1}")]
    Unreachable(SocketAddr, #[source] io::Error),
    /// It did not send the bytes of this path.
    #[error("did not send the bytes of {0}")]
    OtherBytes(&'static str),
}

impl FarmError {
    /// That the system refused `what`.
    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> FarmError {
        let what = what.into();
        move |source| FarmError::Io { what, source }
    }
}

impl From<FarmError> for SubjectError {
    fn from(why: FarmError) -> SubjectError {
        SubjectError::of(why)
    }
}
