//! What system calls return through the C library.

use std::io;

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
