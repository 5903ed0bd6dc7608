//! Network namespaces without a name: held by a descriptor, removed by the kernel.

use crate::NetworkError;
use crate::netlink::Netlink;
use baremark_sys::namespace;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::path::PathBuf;
use std::thread;

/// A network namespace. It lives as long as this, and as programs that were started in it.
#[derive(Debug)]
pub struct Namespace {
    file: File,
}

impl Namespace {
    /// A new one, whose loopback is up.
    ///
    /// # Errors
    /// When the kernel makes none; it wants `CAP_SYS_ADMIN`.
    pub fn new() -> Result<Namespace, NetworkError> {
        let make = || -> io::Result<File> {
            let file = namespace::enter_new_network()?;
            let mut netlink = Netlink::open()?;
            let loopback = netlink.link("lo")?.ok_or_else(|| io::Error::other("a new namespace has no loopback"))?;
            netlink.up(loopback.index)?;
            Ok(file)
        };
        let file = thread::scope(|scope| joined(scope.spawn(make)));
        Ok(Namespace { file: file.map_err(NetworkError::kernel("making a network namespace"))? })
    }

    /// The namespace in which this thread is.
    ///
    /// # Errors
    /// What opening it gives.
    pub fn current() -> Result<Namespace, NetworkError> {
        let file = namespace::this_network().map_err(NetworkError::kernel("opening this network namespace"))?;
        Ok(Namespace { file })
    }

    /// Runs `work` on a thread in this namespace. Sockets that it opens, threads that it starts and programs that it spawns belong to the
    /// namespace, also when they outlive the call.
    ///
    /// # Errors
    /// When the namespace cannot be entered.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T, NetworkError> {
        let inside = || namespace::enter_network(&self.file).map(|()| work());
        let worked = thread::scope(|scope| joined(scope.spawn(inside)));
        worked.map_err(NetworkError::kernel("entering a network namespace"))
    }

    /// Puts the calling thread into this namespace, for the rest of its life.
    ///
    /// # Errors
    /// When it cannot be entered.
    pub fn enter(&self) -> Result<(), NetworkError> {
        namespace::enter_network(&self.file).map_err(NetworkError::kernel("entering a network namespace"))
    }

    /// Where processes of this machine find it in /proc while this lives.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/{}/fd/{}", std::process::id(), self.descriptor()))
    }

    pub(crate) fn descriptor(&self) -> i32 {
        self.file.as_raw_fd()
    }
}

impl AsFd for Namespace {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// What a thread gave; its panic is ours.
fn joined<T>(thread: thread::ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}
