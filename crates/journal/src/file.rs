//! Files and folders that are there for the time of a run.
//!
//! They survive a reboot, and so does the record. A record is obeyed for what a run makes alone: a name that begins with `baremark-`, of the user
//! who recovers, in a folder whose path has no link, and not in use. What is removed is reached by descriptors from there
//! ([`baremark_sys::removal`]): no link is followed, and nothing outside is touched.

use crate::change::{Change, Kind, Undone, details_of};
use crate::error::MakeError;
use crate::journal::{Held, Journal};
use baremark_sys::confine::effective_user;
use baremark_sys::registry::MARK;
pub use baremark_sys::registry::random_word;
use baremark_sys::{removal, server_memory};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::ffi::{OsStr, OsString};
use std::fs::{File, TryLockError};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Component, Path, PathBuf};

const KIND: &str = "file";
/// The file of a private folder that its owner holds locked; it goes last.
const LOCK: &str = "lock";
/// How the name of a private folder ends until it has its lock.
const NEW: &str = ".new";

/// The kind of files and folders that are made.
#[derive(Clone, Copy, Debug)]
pub struct Files;

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Details {
    path: PathBuf,
}

impl Kind for Files {
    fn name(&self) -> &'static str {
        KIND
    }

    fn survives_reboot(&self) -> bool {
        true
    }

    fn undo(&self, details: &Value) -> io::Result<Undone> {
        let Details { path } = details_of(details)?;
        let (folder, name) = split(&path)?;
        let folder = match removal::folder(folder) {
            Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(Undone::Absent),
            opened => opened?,
        };
        let mut new = OsString::from(name);
        new.push(NEW);
        let both = [remove(&folder, name)?, remove(&folder, &new)?];
        let foreign = both.iter().find(|undone| matches!(undone, Undone::Foreign(_)));
        let done = both.iter().find(|undone| **undone == Undone::Done);
        Ok(foreign.or(done).cloned().unwrap_or(Undone::Absent))
    }
}

/// The folder and the name of what a run has made.
fn split(path: &Path) -> io::Result<(&Path, &OsStr)> {
    let plain = path.is_absolute() && path.components().skip(1).all(|part| matches!(part, Component::Normal(_)));
    let is_ours = |name: &&OsStr| name.to_str().and_then(|name| name.strip_prefix(MARK)).is_some_and(is_plain);
    match (path.parent(), path.file_name().filter(is_ours)) {
        (Some(folder), Some(name)) if plain => Ok((folder, name)),
        _ => {
            let what = format!("{} does not have the name of a file that baremark makes", path.display());
            Err(io::Error::new(io::ErrorKind::InvalidData, what))
        }
    }
}

/// Whether this is what follows the mark in a name of ours: words, and a number or a random word.
fn is_plain(rest: &str) -> bool {
    let plain = rest.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    plain && rest.bytes().any(|byte| byte.is_ascii_digit())
}

fn remove(folder: &OwnedFd, name: &OsStr) -> io::Result<Undone> {
    match removal::owner(folder, name)? {
        None => return Ok(Undone::Absent),
        Some(user) if user != effective_user() => return Ok(Undone::Foreign(format!("it belongs to user {user}"))),
        Some(_) => {}
    }
    let inner = match removal::inner(folder, name) {
        // A file, or a link.
        Err(why) if [Errno::NOTDIR, Errno::LOOP].contains(&errno(&why)) => None,
        Err(why) if errno(&why) == Errno::XDEV => return Err(mounted()),
        opened => Some(opened?),
    };
    // Held until it is gone: whoever looks for folders without an owner leaves it alone.
    let _lock = inner.as_ref().map(lock).transpose()?;
    inner.iter().for_each(server_memory::remove_of);
    let removed = removal::remove(folder, name, OsStr::new(LOCK));
    removed.map(|()| Undone::Done).map_err(|why| if errno(&why) == Errno::XDEV { mounted() } else { why })
}

fn errno(why: &io::Error) -> Errno {
    Errno::from_raw_os_error(why.raw_os_error().unwrap_or(0))
}

fn mounted() -> io::Error {
    io::Error::new(io::ErrorKind::CrossesDevices, "something is mounted in it; unmount it")
}

/// Takes the lock of a private folder; `None` for one that has none.
fn lock(folder: &OwnedFd) -> io::Result<Option<File>> {
    // A program that runs in the folder may have made something else of that name.
    let Ok(Some(file)) = removal::regular_file(folder, OsStr::new(LOCK)) else { return Ok(None) };
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Err(io::Error::new(io::ErrorKind::WouldBlock, "a living process uses it")),
        Err(TryLockError::Error(why)) => Err(why),
    }
}

/// The record of a file or folder. The way to it may have links now, and is recorded without.
///
/// # Errors
/// When it has a name that baremark does not make, or there is no folder that it could be in.
pub(crate) fn change(path: &Path) -> io::Result<Change> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let path = folder.canonicalize()?.join(path.file_name().unwrap_or_default());
    split(&path)?;
    let target = path.display().to_string();
    Ok(Change { kind: KIND.to_owned(), target, details: serde_json::to_value(Details { path })? })
}

/// Makes a file or folder in `folder` by `make`, which is called with its path; it is removed with the hold.
///
/// # Errors
/// When it cannot be recorded or `make` fails.
pub fn make<T>(
    journal: &Journal,
    folder: &Path,
    make: impl FnOnce(&Path) -> io::Result<T>,
) -> Result<(PathBuf, T, Held), MakeError<io::Error>> {
    let word = random_word().map_err(MakeError::Change)?;
    let path = folder.join(format!("{MARK}{word}"));
    let change = change(&path).map_err(MakeError::Change)?;
    let (made, held) = journal.make(change, || make(&path))?;
    Ok((path, made, held))
}
