//! What a call of the program comes to: a result, an error, or that it is made again.

use crate::runner::counters;
use crate::runner::handler::AGAIN;
use crate::runner::signals;
use crate::runner::sys::Errno;
use crate::runner::thread::Thread;
use crate::shared::UnsupportedKind;

/// What a call comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// A result, or a negative error number.
    Returns(i64),
    /// The program makes the call again, after the handler of a signal.
    Repeats,
    /// The program's registers were replaced.
    Jumped,
}

impl From<Result<u64, Errno>> for Outcome {
    #[inline]
    fn from(result: Result<u64, Errno>) -> Self {
        Outcome::Returns(result.map_or_else(Errno::result, u64::cast_signed))
    }
}

/// Refuses a call.
#[inline]
pub(crate) fn refuse(errno: i32) -> Outcome {
    Outcome::Returns(-i64::from(errno))
}

/// Refuses a call by name: whoever started the program is told.
pub(crate) fn refuse_by_name(what: UnsupportedKind, detail: u64, errno: i32) -> Outcome {
    counters::shared().refuse(what, detail);
    refuse(errno)
}

/// Has the host carry the call out.
#[inline]
pub(crate) fn forward(thread: &'static Thread, number: u64, arguments: &[u64; 6]) -> Outcome {
    match signals::forward(thread, number, arguments) {
        AGAIN => Outcome::Repeats,
        result => Outcome::Returns(result),
    }
}
