//! Why a command of the application has no result.

use crate::database::Fault;

/// Why a command ended without its result.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The database.
    #[error(transparent)]
    Database(#[from] Fault),
    /// A setting, a file, a server or another run: what is wrong, with the remedy.
    #[error("{0}")]
    Refused(String),
}

impl From<String> for Failure {
    fn from(why: String) -> Failure {
        Failure::Refused(why)
    }
}

impl From<&str> for Failure {
    fn from(why: &str) -> Failure {
        Failure::Refused(why.to_owned())
    }
}
