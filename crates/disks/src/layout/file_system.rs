//! File systems that a layout can have: how each is made and mounted.

use crate::error::EngineError;
use crate::io::detached::Detached;
use baremark_sys::process;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    Ext4,
    Xfs,
    Btrfs,
    BtrfsRaid5,
}

impl Format {
    /// The kernel's name of it.
    pub(super) fn kind(self) -> &'static str {
        match self {
            Format::Ext4 => "ext4",
            Format::Xfs => "xfs",
            Format::Btrfs | Format::BtrfsRaid5 => "btrfs",
        }
    }

    /// The program that makes it, its arguments, and the package that has it.
    pub(super) fn maker(self) -> (&'static str, &'static [&'static str], &'static str) {
        match self {
            // Tables that are written later would be written while somebody measures.
            Format::Ext4 => ("mkfs.ext4", &["-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0"], "e2fsprogs"),
            Format::Xfs => ("mkfs.xfs", &["-q", "-f"], "xfsprogs"),
            Format::Btrfs => ("mkfs.btrfs", &["-q", "-f", "-d", "single", "-m", "single"], "btrfs-progs"),
            Format::BtrfsRaid5 => ("mkfs.btrfs", &["-q", "-f", "-d", "raid5", "-m", "raid1"], "btrfs-progs"),
        }
    }

    /// Makes it on these devices.
    ///
    /// # Errors
    /// When the program is missing or fails, with its words.
    pub(super) fn make(self, devices: &[&Path]) -> Result<(), EngineError> {
        let (program, arguments, package) = self.maker();
        let path = found(program).unwrap_or_else(|| PathBuf::from(program));
        let ran = Command::new(path).args(arguments).args(devices).stdin(Stdio::null()).output();
        let output = ran.map_err(|why| match why.kind() {
            ErrorKind::NotFound => EngineError::Missing {
                what: format!("{program} was not found"),
                remedy: format!("install it: apt-get install {package}"),
            },
            _ => EngineError::io(format!("running {program}"), why),
        })?;
        if output.status.success() {
            return Ok(());
        }
        let words = String::from_utf8_lossy(&output.stderr);
        let last = words.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("no message").trim().to_owned();
        Err(EngineError::io(format!("{program} on {} devices", devices.len()), io::Error::other(last)))
    }

    /// Mounts it where nobody else sees it.
    ///
    /// # Errors
    /// What the kernel gives.
    pub(super) fn mount(self, devices: &[&Path]) -> Result<Detached, EngineError> {
        let names: Vec<String> = devices.iter().map(|path| path.display().to_string()).collect();
        let mut options = vec![("source", names.first().map(String::as_str))];
        if self.kind() == "btrfs" {
            options.extend(names.iter().map(|name| ("device", Some(name.as_str()))));
            // An array writes in place and keeps no checksums; with them direct writes would go through the page cache.
            options.push(("nodatacow", None));
        }
        let mounted = Detached::mount(self.kind(), &options);
        mounted.map_err(|why| EngineError::io(format!("mounting {}", self.kind()), why))
    }
}

/// A program, also where administrators' programs lie, which the paths of ordinary users leave out.
pub(super) fn found(program: &str) -> Option<PathBuf> {
    process::installed(program, &["/usr/sbin", "/sbin"])
}
