//! What can be wrong with a call.

use crate::runner::sys::Errno;

/// What is wrong with a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wrong {
    /// It names a descriptor that natively is not open, and fails with this.
    Fails(Errno),
    /// The same of a list of which that many entries are reported as not open.
    Reported(u64),
    /// It is not in the table.
    Unlisted,
    /// This request of `ioctl` is not in the table.
    UnlistedControl,
}

pub(crate) const BAD: Errno = Errno(libc::EBADF);
