//! A file system that loses what was not synced, for tests of durability.
//!
//! Killing a process leaves its writes in the page cache, so that it proves nothing about `fsync`. This file system holds what is written in
//! its own memory and passes it on to a folder (the stored data) when `fsync`, `fdatasync`, `msync`, or a write to a file that was opened with
//! `O_SYNC` or `O_DSYNC` asks for it. A kill of its process is a power failure: the folder has what was synced, and nothing else.
//!
//! What is volatile are the contents and the length of files. Names, owners and modes are stored at once, as on a file system with a
//! synchronous journal: a file that is renamed before it was synced has its new name and its old content. `sync(2)` passes nothing on.
//! What the page cache of the machine holds of the folder is not written to a disk: this is about a power failure that is simulated.
#![forbid(unsafe_code)]

mod disk;
mod pending;

use fuser::{BackgroundSession, Config, MountOption, SessionACL};
use std::io;
use std::path::Path;

/// A volatile disk that is mounted; dropped in good order it is unmounted, and what was not synced is lost as well.
pub struct Mounted(#[expect(dead_code, reason = "mounted while it lives")] BackgroundSession);

/// Mounts a volatile disk whose stored data is in the folder `stored` at the folder `at`, for all users. The right to mount is needed.
///
/// # Errors
/// Why the folder cannot be read, `/dev/fuse` cannot be opened, or the file system cannot be mounted.
pub fn mount(stored: &Path, at: &Path) -> io::Result<Mounted> {
    let mut config = Config::default();
    let name = MountOption::FSName("baremark-volatile-disk".to_owned());
    config.mount_options = vec![name, MountOption::DefaultPermissions, MountOption::NoDev, MountOption::NoSuid];
    config.acl = SessionACL::All;
    fuser::spawn_mount2(disk::Disk::of(stored)?, at, &config).map(Mounted)
}
