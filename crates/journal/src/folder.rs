//! The folder of the journal, and its files: reached by descriptors, and refused where somebody else could have made them.
//!
//! Records are obeyed, by the superuser too. So the folder is the user's own, of mode 0700, and no one else can exchange a folder on the way to it
//! ([`Directory`]); a file is a regular file of the user's that no one else can write; links are not followed, and nothing that is opened is
//! waited for: a pipe or a device of that name neither blocks nor is changed.

use crate::error::JournalError;
use crate::refused::Refused;
use baremark_sys::confine::effective_user;
use baremark_sys::private_folder::directory::{Directory, Kind};
use baremark_sys::removal;
use rustix::fs::{AtFlags, FlockOperation, fcntl_lock, fstat, fsync, unlinkat};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::fs::{File, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The end of the names of files with records.
pub(crate) const ENDING: &str = ".journal";
const LOCK: &str = "lock";

/// The lock of the folder, held. A process that is started meanwhile has a copy of its descriptor until it executes its program, so dropping it
/// unlocks the file for all of them.
#[derive(Debug)]
pub(crate) struct Lock(File);

impl Drop for Lock {
    fn drop(&mut self) {
        // What cannot be unlocked is so when its last descriptor is closed.
        drop(self.0.unlock());
    }
}

/// Takes the lock of an owner's file: `false` where another process has it. It is a record lock (`fcntl(2)`), which a copy of the process does
/// not have. It is given up when the process closes any descriptor of the file: one process opens its own file once.
pub(crate) fn owned(file: &File) -> io::Result<bool> {
    match fcntl_lock(file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(true),
        Err(Errno::AGAIN | Errno::ACCESS) => Ok(false),
        Err(why) => Err(why.into()),
    }
}

/// An open folder.
#[derive(Debug)]
pub(crate) struct Folder(Directory);

impl Folder {
    /// Opens it; made when it does not exist.
    pub(crate) fn open(path: &Path) -> Result<Folder, JournalError> {
        let opening = JournalError::io("opening the folder of the journal", path);
        let name = path.file_name().map(Path::new).ok_or(io::ErrorKind::InvalidInput);
        let parent = path.parent().unwrap_or(Path::new("/"));
        let opened = name.map_err(io::Error::from).and_then(|name| Directory::own(parent)?.make_folder(name));
        opened.map(Folder).map_err(|why| match why.kind() {
            io::ErrorKind::PermissionDenied if why.raw_os_error().is_none() => JournalError::Unsafe(why),
            _ => opening(why),
        })
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// What no other folder has, whatever the path that leads to it.
    pub(crate) fn identity(&self) -> Result<(u64, u64), JournalError> {
        let facts = fstat(&self.0).map_err(|why| JournalError::io("examining", self.path())(why.into()))?;
        Ok((facts.st_dev, facts.st_ino))
    }

    /// Names of what could be files of records, in order.
    pub(crate) fn names(&self) -> Result<Vec<String>, JournalError> {
        let entries = self.0.entries(Path::new("")).map_err(JournalError::io("listing", self.path()))?;
        let names = entries.into_iter().filter(|(_, kind)| *kind != Kind::Folder);
        let names = names.filter_map(|(name, _)| name.into_string().ok());
        Ok(names.filter(|name| name.ends_with(ENDING)).collect())
    }

    /// Waits for the lock of the folder.
    pub(crate) fn lock(&self) -> Result<Lock, JournalError> {
        let file = self.lock_file()?;
        file.lock().map_err(JournalError::io("locking", self.path()))?;
        Ok(Lock(file))
    }

    /// As [`Folder::lock`]; `None` where another process has it.
    pub(crate) fn lock_at_once(&self) -> Result<Option<Lock>, JournalError> {
        let file = self.lock_file()?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Lock(file))),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(why)) => Err(JournalError::io("locking", self.path())(why)),
        }
    }

    fn lock_file(&self) -> Result<File, JournalError> {
        self.0.open_or_create(Path::new(LOCK)).map_err(JournalError::io("opening", self.path().join(LOCK)))
    }

    /// A file of records, to read and append; `None` when it is gone.
    ///
    /// # Errors
    /// Why it is not obeyed.
    pub(crate) fn file(&self, name: &str) -> Result<Option<File>, Refused> {
        let opened = removal::regular_file(&self.0, OsStr::new(name)).map_err(|why| match why.raw_os_error() {
            Some(number) if number == Errno::LOOP.raw_os_error() => Refused::Link,
            _ => why.into(),
        });
        let Some(file) = opened? else { return Ok(None) };
        let facts = file.metadata()?;
        match (facts.uid(), facts.mode() & 0o777) {
            (user, _) if user != effective_user() => Err(Refused::OtherUser(user)),
            (_, mode) if mode & 0o022 != 0 => Err(Refused::Writable(mode)),
            _ => Ok(Some(file)),
        }
    }

    /// A new file of this name with a first line, locked. Whoever finds it without a whole first line knows that nothing was recorded.
    pub(crate) fn create(&self, name: &str, first: &str) -> Result<File, JournalError> {
        let make = || -> io::Result<File> {
            let mut file = self.0.create_new(Path::new(name))?;
            owned(&file)?;
            file.write_all(first.as_bytes())?;
            file.sync_all()?;
            fsync(&self.0)?;
            Ok(file)
        };
        make().map_err(JournalError::io("making", self.path().join(name)))
    }

    pub(crate) fn remove(&self, name: &str) -> Result<(), JournalError> {
        match unlinkat(&self.0, name, AtFlags::empty()) {
            Err(why) if why != Errno::NOENT => Err(JournalError::io("removing", self.path().join(name))(why.into())),
            _ => Ok(()),
        }
    }
}
