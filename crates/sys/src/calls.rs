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

/// Makes a call again as long as signals interrupt it. The kernel does not do so by itself for sockets whose reads have a time limit: stopping a
/// process and having it go on is enough to interrupt those (signal(7)).
///
/// # Errors
/// What the call gives otherwise.
pub fn again_after_signals<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(why) if why.kind() == io::ErrorKind::Interrupted => {}
            other => return other,
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_made_again_after_signals_alone() {
        let outcomes = [Err(io::ErrorKind::Interrupted), Err(io::ErrorKind::Interrupted), Ok(7), Ok(8)];
        let mut next = outcomes.into_iter().map(|outcome| outcome.map_err(io::Error::from));
        assert_eq!(again_after_signals(|| next.next().expect("one more")).expect("it succeeds"), 7);
        let mut calls = 0;
        let refused = again_after_signals(|| {
            calls += 1;
            Err::<(), _>(io::Error::from(io::ErrorKind::WouldBlock))
        });
        assert_eq!((refused.map_err(|why| why.kind()), calls), (Err(io::ErrorKind::WouldBlock), 1));
    }
}
