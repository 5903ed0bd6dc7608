//! Which open files the engine may write: regular files, devices that this process has made, and block devices that the order allows.
//!
//! A target is made of a [`Writable`] alone, and a `Writable` only here, so that there is no path around the check. The decision is taken on what
//! `fstat` gives of the open descriptor, not on a name: symbolic links, names below `/dev/disk` and `/dev/mapper`, and nodes made by hand all lead
//! to it. The descriptor is opened first with `O_PATH`, which has no effect on what it names: a FIFO does not wait, a tape does not rewind.

use crate::device;
use crate::error::EngineError;
use crate::io::loops::LoopDevice;
use crate::io::mapper::MappedDevice;
use baremark_sys::private_folder;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

const PREFIX: &str = "baremark-block-";

/// Block devices whose content may be lost: those that the user has named with `--allow-destructive`, as the order of a trial has them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Consent<'c>(pub &'c [PathBuf]);

impl Consent<'_> {
    /// No device.
    pub const NONE: Consent<'static> = Consent(&[]);

    /// The numbers that these devices have at this site.
    fn devices(self) -> Vec<u64> {
        let number = |path: &PathBuf| fs::metadata(path).ok().filter(|found| found.file_type().is_block_device());
        self.0.iter().filter_map(number).map(|found| found.rdev()).collect()
    }

    /// Whether the device of this name is one of them: by the name itself, or by its number where `is_here`, on this machine.
    #[must_use]
    pub fn covers(self, device: &Path, is_here: bool) -> bool {
        let same = || fs::metadata(device).is_ok_and(|found| self.devices().contains(&found.rdev()));
        self.0.iter().any(|path| path == device) || (is_here && same())
    }
}

/// What `fstat` gives of an open descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// `st_mode`.
    pub mode: u32,
    /// `st_rdev`.
    pub device: u64,
}

impl Reading {
    fn of(file: &File) -> io::Result<Reading> {
        file.metadata().map(|found| Reading { mode: found.mode(), device: found.rdev() })
    }

    fn is_device(self) -> bool {
        self.mode & libc::S_IFMT == libc::S_IFBLK
    }
}

/// Why a file may not be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Denied {
    /// It is a block device that the order does not allow.
    NoConsent,
    /// It is neither a regular file nor a block device, but this.
    Special(&'static str),
}

/// Whether what was opened may be written; `allowed` are the numbers of block devices that may be overwritten.
///
/// # Errors
/// Why not.
pub fn decide(found: Reading, allowed: &[u64]) -> Result<(), Denied> {
    match found.mode & libc::S_IFMT {
        libc::S_IFREG => Ok(()),
        libc::S_IFBLK if allowed.contains(&found.device) => Ok(()),
        libc::S_IFBLK => Err(Denied::NoConsent),
        libc::S_IFCHR => Err(Denied::Special("a character device")),
        libc::S_IFIFO => Err(Denied::Special("a FIFO")),
        libc::S_IFSOCK => Err(Denied::Special("a socket")),
        libc::S_IFDIR => Err(Denied::Special("a folder")),
        _ => Err(Denied::Special("a file of an unknown type")),
    }
}

/// An open file that may be written.
#[derive(Debug)]
pub struct Writable(File);

impl Writable {
    /// A regular file, which is made where it does not exist.
    ///
    /// # Errors
    /// When it is anything else, or cannot be opened.
    pub fn file(path: &Path) -> Result<Writable, EngineError> {
        if let Some(found) = Writable::existing(path)? {
            return Ok(found);
        }
        let options = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).clone();
        options.open(path).map(Writable).map_err(|why| EngineError::io(format!("opening {}", path.display()), why))
    }

    /// A regular file; `None` where it does not exist.
    ///
    /// # Errors
    /// When it is anything else, or cannot be opened.
    pub fn existing(path: &Path) -> Result<Option<Writable>, EngineError> {
        match named(path) {
            Ok(found) => reopened(&found, path, &[], 0).map(|file| Some(Writable(file))),
            Err(why) if why.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(why) => Err(EngineError::io(format!("opening {}", path.display()), why)),
        }
    }

    /// A block device that nothing uses, that holds nothing known, and that `consent` covers.
    ///
    /// # Errors
    /// When one of these is not so, or it cannot be opened.
    pub fn device(path: &Path, consent: Consent<'_>) -> Result<Writable, EngineError> {
        let failed = |why| EngineError::io(format!("opening {}", path.display()), why);
        let found = named(path).map_err(failed)?;
        let reading = Reading::of(&found).map_err(failed)?;
        if !reading.is_device() {
            return Err(EngineError::Missing {
                what: format!("device = '{}' is not a block device", path.display()),
                remedy: "name one such as /dev/sdb".to_owned(),
            });
        }
        let allowed = consent.devices();
        permitted(reading, path, &allowed)?;
        device::unused(path, reading.device)?;
        // Exclusively: the kernel refuses a device that is mounted or in use.
        let file = reopened(&found, path, &allowed, libc::O_EXCL)?;
        device::empty(path, &file)?;
        Ok(Writable(file))
    }

    /// A new file that no name leads to. Where the file system has none from the start, it has a name in a locked folder for a moment.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn nameless(folder: &Path) -> Result<Writable, EngineError> {
        let failed = |why| EngineError::io(format!("creating a file in {}", folder.display()), why);
        if folder == std::env::temp_dir() {
            // A container of this program alone has no such folder yet.
            fs::create_dir_all(folder).map_err(failed)?;
        }
        private_folder::nameless_file(folder, PREFIX).map(Writable).map_err(failed)
    }

    /// A new file of this name.
    ///
    /// # Errors
    /// When there is anything of this name.
    pub(crate) fn new_file(path: &Path) -> io::Result<Writable> {
        OpenOptions::new().read(true).write(true).create_new(true).open(path).map(Writable)
    }

    /// A loop device that this process has made.
    ///
    /// # Errors
    /// What `dup(2)` gives.
    pub(crate) fn of_loop(device: &LoopDevice) -> io::Result<Writable> {
        device.file().map(Writable)
    }

    /// A device of device-mapper that this process has made.
    ///
    /// # Errors
    /// What `dup(2)` gives.
    pub(crate) fn of_mapped(device: &MappedDevice) -> io::Result<Writable> {
        device.file().map(Writable)
    }

    /// The open file.
    #[must_use]
    pub fn open(&self) -> &File {
        &self.0
    }

    /// A descriptor more of it.
    ///
    /// # Errors
    /// What `dup(2)` gives.
    pub(crate) fn try_clone(&self) -> io::Result<Writable> {
        self.0.try_clone().map(Writable)
    }

    /// The open file alone.
    #[must_use]
    pub fn into_file(self) -> File {
        self.0
    }
}

/// What a path leads to, over symbolic links, without opening it.
fn named(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).custom_flags(libc::O_PATH).open(path)
}

/// Opens what `found` names for reading and writing. What was opened is looked at again before anything is written.
fn reopened(found: &File, path: &Path, allowed: &[u64], flags: i32) -> Result<File, EngineError> {
    let failed = |why: io::Error| match why.raw_os_error() {
        Some(libc::EBUSY) if flags & libc::O_EXCL != 0 => EngineError::Missing {
            what: format!("{} is mounted or in use", path.display()),
            remedy: "unmount it, or name a device that nothing uses".to_owned(),
        },
        _ => EngineError::io(format!("opening {}", path.display()), why),
    };
    permitted(Reading::of(found).map_err(failed)?, path, allowed)?;
    let link = format!("/proc/self/fd/{}", found.as_raw_fd());
    let file = OpenOptions::new().read(true).write(true).custom_flags(flags).open(link).map_err(failed)?;
    permitted(Reading::of(&file).map_err(failed)?, path, allowed)?;
    Ok(file)
}

/// [`decide`], with the remedy.
fn permitted(found: Reading, path: &Path, allowed: &[u64]) -> Result<(), EngineError> {
    let name = path.display();
    decide(found, allowed).map_err(|denied| match denied {
        Denied::NoConsent => EngineError::Missing {
            what: format!("{name} is a block device and would be overwritten"),
            remedy: format!("if its content can go, write device = \"{name}\" and add --allow-destructive {name}"),
        },
        Denied::Special(what) => EngineError::Missing {
            what: format!("{name} is {what}"),
            remedy: "name a regular file, or a block device with --allow-destructive".to_owned(),
        },
    })
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;

    type Judged = Result<(), Denied>;

    /// Every type that `st_mode` can have, and whether it may be written: without consent, and with consent for number 7.
    const TYPES: [(u32, Judged, Judged); 7] = [
        (libc::S_IFREG, Ok(()), Ok(())),
        (libc::S_IFBLK, Err(Denied::NoConsent), Ok(())),
        (libc::S_IFCHR, Err(Denied::Special("a character device")), Err(Denied::Special("a character device"))),
        (libc::S_IFIFO, Err(Denied::Special("a FIFO")), Err(Denied::Special("a FIFO"))),
        (libc::S_IFSOCK, Err(Denied::Special("a socket")), Err(Denied::Special("a socket"))),
        (libc::S_IFDIR, Err(Denied::Special("a folder")), Err(Denied::Special("a folder"))),
        (0, Err(Denied::Special("a file of an unknown type")), Err(Denied::Special("a file of an unknown type"))),
    ];

    #[test]
    fn a_block_device_needs_consent_for_its_own_number_and_special_files_are_never_written() {
        for (kind, without, with) in TYPES {
            for permissions in [0, 0o600, 0o7777] {
                let found = Reading { mode: kind | permissions, device: 7 };
                assert_eq!(decide(found, &[]), without, "{kind:o}");
                assert_eq!(decide(found, &[3, 7]), with, "{kind:o}");
                let other = decide(Reading { device: 8, ..found }, &[3, 7]);
                assert_eq!(other, without, "{kind:o}: consent for another device is none for this one");
            }
        }
    }

    #[test]
    fn special_files_are_refused_without_being_opened_by_any_name() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let made = std::process::Command::new("mkfifo").arg(at("fifo")).status().unwrap();
        assert!(made.success());
        let _listener = UnixListener::bind(at("socket")).unwrap();
        fs::create_dir(at("folder")).unwrap();
        symlink("/dev/null", at("link")).unwrap();
        symlink(at("fifo"), at("link-to-fifo")).unwrap();
        let kinds = [
            ("fifo", "a FIFO"),
            ("socket", "a socket"),
            ("folder", "a folder"),
            ("link", "a character device"),
            ("link-to-fifo", "a FIFO"),
        ];
        // Consent for it changes nothing. A FIFO that was opened for writing would not end this test.
        for (name, what) in kinds {
            let path = at(name);
            let why = Writable::file(&path).expect_err(name).to_string();
            assert_eq!(
                why,
                format!(
                    "{} is {what}; name a regular file, or a block device with --allow-destructive",
                    path.display()
                )
            );
            let why = Writable::device(&path, Consent(std::slice::from_ref(&path))).expect_err(name).to_string();
            assert!(why.contains("is not a block device"), "{why}");
        }
    }

    #[test]
    fn a_file_is_made_where_it_does_not_exist_and_is_found_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data");
        assert_eq!(Writable::file(&path).unwrap().open().metadata().unwrap().len(), 0);
        fs::write(&path, "content").unwrap();
        symlink(&path, folder.path().join("link")).unwrap();
        let found = Writable::file(&folder.path().join("link")).unwrap();
        assert_eq!(found.open().metadata().unwrap().len(), 7, "its content is still there");
        assert!(Writable::new_file(&path).is_err());
    }
}
