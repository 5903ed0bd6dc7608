//! What can go wrong with a network.

use baremark_journal::{JournalError, MakeError};
use std::io;

/// Why there is no network.
#[derive(Debug, thiserror::Error)]
pub enum NetworkError {
    /// The kernel refused something.
    #[error("{what}: {source}{}", hint(source))]
    Kernel {
        /// What was asked.
        what: String,
        /// Its answer.
        #[source]
        source: io::Error,
    },
    /// The change could not be recorded.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// No private range is left.
    #[error(
        "no free private subnet: each of 10.0.0.0/8 that was tried is used by a route, an address or another run; remove routes to it"
    )]
    NoSubnet,
    /// More nodes than a subnet of the lab has addresses.
    #[error("{0} addresses are more than a network of the lab has; use fewer than 4094 nodes")]
    TooLarge(u32),
    /// No queueing discipline netem.
    #[error("this kernel has no netem; load the module sch_netem, or let the program delay the links")]
    NoNetem,
    /// The subnet is used up.
    #[error("subnet {0} has no address left; use fewer nodes")]
    NoAddress(String),
}

fn hint(why: &io::Error) -> &'static str {
    if why.kind() == io::ErrorKind::PermissionDenied {
        "; run as root, or with CAP_NET_ADMIN and CAP_SYS_ADMIN"
    } else {
        ""
    }
}

impl NetworkError {
    pub(crate) fn kernel(what: impl Into<String>) -> impl FnOnce(io::Error) -> NetworkError {
        let what = what.into();
        move |source| NetworkError::Kernel { what, source }
    }

    pub(crate) fn made(what: impl Into<String>) -> impl FnOnce(MakeError<io::Error>) -> NetworkError {
        let what = what.into();
        move |why| match why {
            MakeError::Journal(why) => NetworkError::Journal(why),
            MakeError::Change(source) => NetworkError::Kernel { what, source },
        }
    }
}
