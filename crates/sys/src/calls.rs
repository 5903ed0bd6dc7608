//! What system calls return through the C library.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

/// What a call has returned, where that is not the -1 with which it fails. It allocates nothing, so that it may be used between fork and exec.
///
/// # Errors
/// What the call has left.
pub fn checked<T: PartialEq + From<i8>>(returned: T) -> io::Result<T> {
    if returned == T::from(-1) { Err(io::Error::last_os_error()) } else { Ok(returned) }
}

/// After a call that has failed: whether it is to be made again, since a signal interrupted it.
///
/// # Errors
/// What the call has left, where that is something else.
pub fn was_interrupted() -> io::Result<()> {
    match io::Error::last_os_error() {
        why if why.kind() == io::ErrorKind::Interrupted => Ok(()),
        why => Err(why),
    }
}

/// The descriptor that a call has made.
///
/// # Safety
/// What is given was returned by a call that makes a descriptor, and nobody else has taken it.
///
/// # Errors
/// What the call has left.
pub unsafe fn new_descriptor(returned: impl Into<libc::c_long>) -> io::Result<OwnedFd> {
    let made = i32::try_from(checked(returned.into())?).map_err(io::Error::other)?;
    // SAFETY: it is new and nobody else's, as the caller says.
    Ok(unsafe { OwnedFd::from_raw_fd(made) })
}
