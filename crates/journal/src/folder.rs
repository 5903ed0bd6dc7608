//! The folder of the journal, and its files: reached by descriptors, and refused where somebody else could have made them.
//!
//! Records are obeyed, by the superuser too. So the folder is the user's own, of mode 0700, and no one else can exchange a folder on the way to it
//! ([`Directory`]); a file is a regular file of the user's that no one else can write; links are not followed, and nothing that is opened is
//! waited for: a pipe or a device of that name neither blocks nor is changed.

use crate::error::JournalError;
use baremark_sys::confine::effective_user;
use baremark_sys::private_folder::directory::{Directory, Kind};
use baremark_sys::removal;
use rustix::fs::{AtFlags, CWD, unlinkat};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The end of the names of files with records.
pub(crate) const ENDING: &str = ".journal";
const LOCK: &str = "lock";

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
        let facts = fs::metadata(self.path()).map_err(JournalError::io("examining", self.path()))?;
        Ok((facts.dev(), facts.ino()))
    }

    /// Names of what could be files of records, in order.
    pub(crate) fn names(&self) -> Result<Vec<String>, JournalError> {
        let entries = self.0.entries(Path::new("")).map_err(JournalError::io("listing", self.path()))?;
        let names = entries.into_iter().filter(|(_, kind)| *kind != Kind::Folder);
        let names = names.filter_map(|(name, _)| name.into_string().ok());
        Ok(names.filter(|name| name.ends_with(ENDING)).collect())
    }

    /// The lock of the folder, unlocked.
    pub(crate) fn lock_file(&self) -> Result<File, JournalError> {
        self.0.open_or_create(Path::new(LOCK)).map_err(JournalError::io("opening", self.path().join(LOCK)))
    }

    /// A file of records, to read and append; `None` when it is gone.
    ///
    /// # Errors
    /// Why it is not obeyed.
    pub(crate) fn file(&self, name: &str) -> Result<Option<File>, String> {
        let opened = removal::folder(self.path()).and_then(|folder| removal::regular_file(folder, OsStr::new(name)));
        let opened = opened.map_err(|why| match why.raw_os_error() {
            Some(number) if number == Errno::LOOP.raw_os_error() => "it is a link".to_owned(),
            _ => why.to_string(),
        });
        let Some(file) = opened? else { return Ok(None) };
        let facts = file.metadata().map_err(|why| why.to_string())?;
        match (facts.uid(), facts.mode() & 0o777) {
            (user, _) if user != effective_user() => Err(format!("it belongs to user {user}")),
            (_, mode) if mode & 0o022 != 0 => Err(format!("others may write it (mode {mode:03o})")),
            _ => Ok(Some(file)),
        }
    }

    /// A new file of this name with a first line, locked. Whoever finds it without a whole first line knows that nothing was recorded.
    pub(crate) fn create(&self, name: &str, first: &str) -> Result<File, JournalError> {
        let make = || -> io::Result<File> {
            let mut file = self.0.create_new(Path::new(name))?;
            file.lock()?;
            file.write_all(first.as_bytes())?;
            file.sync_all()?;
            File::open(self.path())?.sync_all()?;
            Ok(file)
        };
        make().map_err(JournalError::io("making", self.path().join(name)))
    }

    pub(crate) fn remove(&self, name: &str) -> Result<(), JournalError> {
        let path = self.path().join(name);
        match unlinkat(CWD, &path, AtFlags::empty()).map_err(io::Error::from) {
            Err(why) if why.kind() != io::ErrorKind::NotFound => Err(JournalError::io("removing", path)(why)),
            _ => Ok(()),
        }
    }
}
