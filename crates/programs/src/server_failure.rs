//! Why a small server does not start, answer or end.

use std::io;

/// What went wrong with a server.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ServerFailure {
    /// The system refused something that needs no further word.
    #[error(transparent)]
    System(#[from] io::Error),
    /// The system refused something.
    #[error("{what}: {source}")]
    Io {
        /// What was done.
        what: String,
        /// Why it failed.
        source: io::Error,
    },
    /// A part of it is missing: which.
    #[error("it {0}")]
    Lacks(&'static str),
    /// It printed something that cannot be read.
    #[error("'{text}': {why}")]
    Unread {
        /// What it printed.
        text: String,
        /// Why it cannot be read.
        why: String,
    },
    /// It printed something else.
    #[error("it printed '{line}' instead of '{word}'")]
    Other {
        /// What it printed.
        line: String,
        /// How the line should have begun.
        word: String,
    },
    /// It printed nothing that it should have in time.
    #[error("it printed no line in time that begins with '{word}'{last}")]
    Silent {
        /// How the line should have begun.
        word: String,
        /// What came last instead; empty, or a part of a sentence.
        last: String,
    },
    /// It ended before it printed what it should have.
    #[error("it ended before it printed '{word}'{last}")]
    Ended {
        /// How the line should have begun.
        word: String,
        /// What came last instead; empty, or a part of a sentence.
        last: String,
    },
    /// The moments that it prints are by another clock.
    #[error("its clock is not this machine's")]
    Clock,
    /// It does not end.
    #[error("it did not end within {limit_s} s of its input")]
    Endless {
        /// How long it was waited for, in seconds.
        limit_s: u64,
    },
    /// One of the threads that load servers has panicked.
    #[error("a thread has ended")]
    Panicked,
    /// It did not come up, and has said something.
    #[error("{failure}: {said}")]
    Complaint {
        /// What went wrong.
        failure: Box<ServerFailure>,
        /// What it printed of errors.
        said: String,
    },
}

impl ServerFailure {
    /// That the system refused `what`.
    pub(crate) fn io(what: &'static str) -> impl Fn(io::Error) -> ServerFailure {
        move |source| ServerFailure::Io { what: what.to_owned(), source }
    }

    /// That `text`, which it printed, cannot be read.
    pub(crate) fn unread(text: &str, why: impl std::fmt::Display) -> ServerFailure {
        ServerFailure::Unread { text: text.to_owned(), why: why.to_string() }
    }
}
