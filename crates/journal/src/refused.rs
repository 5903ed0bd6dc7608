//! Why a file of records is not obeyed.

use crate::record::{LONGEST, RecordError};
use std::io;

/// What is wrong with a file.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Refused {
    /// It cannot be opened or read.
    #[error(transparent)]
    System(#[from] io::Error),
    /// Whether its owner lives cannot be seen.
    #[error("locking it: {0}")]
    Locking(#[source] io::Error),
    /// It leads elsewhere.
    #[error("it is a link")]
    Link,
    /// It is another user's: whose.
    #[error("it belongs to user {0}")]
    OtherUser(u32),
    /// Others may write it: its mode.
    #[error("others may write it (mode {0:03o})")]
    Writable(u32),
    /// It is longer than what is read of a file.
    #[error("it is longer than {LONGEST} bytes")]
    TooLong,
    /// Its first line says not whose it is, or that its format is another one.
    #[error(transparent)]
    Record(#[from] RecordError),
}
