//! Namespaces: network namespaces of this thread alone, and how that of the whole machine is known.

use crate::calls::checked;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// The link in `/proc/PID/ns/pid` of the PID namespace of the whole machine, which has this number in every kernel (`PROC_PID_INIT_INO`).
pub const FIRST_PROCESSES: &str = "pid:[4026531836]";

/// Puts this thread into a new network namespace and gives a descriptor of it. The namespace lives as long as a descriptor, a thread or
/// a mount of it. Needs `CAP_SYS_ADMIN`.
///
/// # Errors
/// What `unshare(2)` gives.
pub fn enter_new_network() -> io::Result<File> {
    // SAFETY: unshare(2) touches no memory; a network namespace is a thread's own.
    checked(unsafe { libc::unshare(libc::CLONE_NEWNET) })?;
    this_network()
}

/// A descriptor of the network namespace of this thread.
///
/// # Errors
/// What opening it in /proc gives.
pub fn this_network() -> io::Result<File> {
    File::open("/proc/thread-self/ns/net")
}

/// Puts this thread into the network namespace of a descriptor.
///
/// # Errors
/// What `setns(2)` gives.
pub fn enter_network(namespace: impl AsFd) -> io::Result<()> {
    // SAFETY: setns(2) touches no memory, and the descriptor is open for the time of the call.
    checked(unsafe { libc::setns(namespace.as_fd().as_raw_fd(), libc::CLONE_NEWNET) }).map(drop)
}
