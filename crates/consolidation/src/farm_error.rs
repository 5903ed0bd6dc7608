//! Why servers do not run, or their links are not in the mode that is requested.

use baremark_journal::JournalError;
use baremark_lab::search::SubjectError;
use baremark_networks::NetworkError;
use std::error::Error;
use std::fmt::{self, Display, Formatter};
use std::io;
use std::net::SocketAddr;
use std::process::ExitStatus;
use std::sync::Arc;

/// Why a farm cannot be had, or not be changed.
#[derive(Debug)]
pub enum FarmError {
    /// The network and its namespaces.
    Network(NetworkError),
    /// The record of control groups.
    Journal(JournalError),
    /// Something that the system refuses.
    Io {
        /// What was being done.
        what: String,
        /// What the system said.
        source: io::Error,
    },
    /// The settings of a link were unknown as it was made: dense mode needs them.
    Link(Arc<FarmError>),
    /// The kernel keeps other settings of a link.
    Kept {
        /// The link.
        link: String,
        /// Its settings.
        found: String,
        /// Those that were set.
        wanted: String,
    },
    /// A server.
    Server {
        /// Its number, from 1.
        number: usize,
        /// What is wrong with it.
        fault: ServerFault,
    },
}

/// What is wrong with a server that was started.
#[derive(Debug)]
pub enum ServerFault {
    /// It has ended.
    Ended(ExitStatus),
    /// Nothing listens where it should.
    Unreachable(SocketAddr, io::Error),
    /// It did not send the bytes of this path.
    OtherBytes(&'static str),
}

impl FarmError {
    /// That the system refused `what`.
    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> FarmError {
        let what = what.into();
        move |source| FarmError::Io { what, source }
    }
}

impl Display for FarmError {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            FarmError::Network(why) => why.fmt(f),
            FarmError::Journal(why) => why.fmt(f),
            FarmError::Io { what, source } => write!(f, "{what}: {source}"),
            FarmError::Link(why) => why.fmt(f),
            FarmError::Kept { link, found, wanted } => write!(f, "{link} has {found}, and not {wanted}"),
            FarmError::Server { number, fault } => write!(f, "web server {number} {fault}"),
        }
    }
}

impl Display for ServerFault {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            ServerFault::Ended(status) => write!(f, "ended as it started: {status}"),
            ServerFault::Unreachable(address, why) => write!(f, "does not listen at {address}: {why}"),
            ServerFault::OtherBytes(path) => write!(f, "did not send the bytes of {path}"),
        }
    }
}

impl Error for FarmError {}

impl From<NetworkError> for FarmError {
    fn from(why: NetworkError) -> FarmError {
        FarmError::Network(why)
    }
}

impl From<JournalError> for FarmError {
    fn from(why: JournalError) -> FarmError {
        FarmError::Journal(why)
    }
}

impl From<FarmError> for SubjectError {
    fn from(why: FarmError) -> SubjectError {
        SubjectError::of(why)
    }
}
