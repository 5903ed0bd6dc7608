//! A file system that loses what was not synced, for tests of durability.
//!
//! Killing a process leaves its writes in the page cache, so that it proves nothing about `fsync`. This file system holds what is written in
//! its own memory and passes it on to a folder (the stored data) when `fsync`, `fdatasync`, `msync`, or a write to a file that was opened with
//! `O_SYNC` or `O_DSYNC` asks for it. A kill of its process is a power failure: the folder has what was synced, and nothing else.
//!
//! What is volatile are the contents and the length of files. Names, owners and modes are stored at once, as on a file system with a
//! synchronous journal: a file that is renamed before it was synced has its new name and its old content. `sync(2)` passes nothing on.
//! What the page cache of the machine holds of the folder is not written to a disk: this is about a power failure that is simulated.
//!
//! The same file system is also a replicated disk ([`mount_replicated`]): what is synced is written to this machine's disk and, over TCP, to a
//! second copy ([`SecondSite`]) at the same time, and is acknowledged when both have it. Reads are answered here. What is not synced is the
//! page cache above a disk: it is at neither site. Changes of names are sent at once and are at the second site with the next sync, in order.
#![forbid(unsafe_code)]

mod disk;
mod link;
mod operation;
mod pending;
mod replication;
mod second_site;

pub use replication::Seen;
pub use second_site::SecondSite;

use fuser::{BackgroundSession, Config, MountOption, SessionACL};
use link::Link;
use replication::{Meter, Replication};
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

/// A volatile disk that is mounted; dropped in good order it is unmounted, and what was not synced is lost as well.
pub struct Mounted(#[expect(dead_code, reason = "mounted while it lives")] BackgroundSession);

/// Mounts a volatile disk whose stored data is in the folder `stored` at the folder `at`, for all users. The right to mount is needed.
///
/// # Errors
/// Why the folder cannot be read, `/dev/fuse` cannot be opened, or the file system cannot be mounted.
pub fn mount(stored: &Path, at: &Path) -> io::Result<Mounted> {
    session(disk::Disk::of(stored, None)?, at, "baremark-volatile-disk").map(Mounted)
}

/// A replicated disk that is mounted; it is unmounted when this is dropped, and what was not synced is at neither site then.
pub struct Replicated {
    #[expect(dead_code, reason = "mounted while it lives")]
    session: BackgroundSession,
    meter: Arc<Meter>,
}

impl Replicated {
    /// What the disk's users have seen so far.
    #[must_use]
    pub fn seen(&self) -> Seen {
        self.meter.seen()
    }
}

/// Mounts a replicated disk whose first copy is the folder `stored` at the folder `at`, for all users. Its second copy is reached at the
/// address, which may be that of a proxy before the site; without one there is the first copy alone, for what the file system itself costs.
///
/// # Errors
/// As [`mount`], or why the second site cannot be reached.
pub fn mount_replicated(stored: &Path, second: Option<(&SecondSite, SocketAddr)>, at: &Path) -> io::Result<Replicated> {
    let link = second.map(|(site, address)| Link::connect(address, &site.secret())).transpose()?;
    let replication = Arc::new(Replication::new(stored, link));
    let meter = Arc::clone(&replication.meter);
    let session = session(disk::Disk::of(stored, Some(replication))?, at, "baremark-replicated-disk")?;
    Ok(Replicated { session, meter })
}

fn session(disk: disk::Disk, at: &Path, name: &str) -> io::Result<BackgroundSession> {
    let mut config = Config::default();
    let name = MountOption::FSName(name.to_owned());
    config.mount_options = vec![name, MountOption::DefaultPermissions, MountOption::NoDev, MountOption::NoSuid];
    config.acl = SessionACL::All;
    fuser::spawn_mount2(disk, at, &config)
}
