//! Reading a store where nothing may be written next to it: on a full disk, or a read-only one.
//!
//! SQLite reads a file with a write-ahead log through an index in shared memory, which is one more file next to the store.
//! Where that cannot be made, a store whose log is empty is read as one that nobody changes; one with a log is copied with
//! it to a place that has room, and the copy is read.

use crate::error::StoreError;
use baremark_sys::private_folder::PrivateFolder;
use rusqlite::{Connection, OpenFlags};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long SQLite waits for the locks of other processes.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// Opens the store at `path`, next to which nothing can be made.
pub(crate) fn open(path: &Path) -> Result<Connection, StoreError> {
    let log = beside(path, "-wal");
    if fs::metadata(&log).map_or(0, |log| log.len()) == 0 {
        return read_only(path, "&immutable=1");
    }
    let places = [std::env::temp_dir(), PathBuf::from("/dev/shm")];
    let mut last = io::Error::other("there is no other place");
    for place in places {
        match copied(path, &log, &place) {
            // Open files outlive their names: the copy takes no room when the connection is closed.
            Ok(copy) => return read_only(&copy.path().join("store"), ""),
            Err(why) => last = why,
        }
    }
    Err(StoreError::Path {
        what: "copy, to read it where its folder cannot be written,",
        path: path.to_owned(),
        why: last,
    })
}

/// How names of folders with a copy begin.
const PREFIX: &str = "baremark-store-";

/// A private folder with a copy; those of killed processes are removed first.
fn copied(path: &Path, log: &Path, place: &Path) -> io::Result<PrivateFolder> {
    drop(PrivateFolder::orphans(place, PREFIX));
    let copy = PrivateFolder::create(place, PREFIX)?;
    fs::copy(log, copy.path().join("store-wal"))?;
    fs::copy(path, copy.path().join("store"))?;
    Ok(copy)
}

/// `path` with `suffix`: SQLite's own side files.
pub(crate) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

pub(crate) fn read_only(path: &Path, extra: &str) -> Result<Connection, StoreError> {
    let fail = |why| StoreError::sqlite(path, "open the store", why);
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let address = format!("file:{}?mode=ro{extra}", escaped(path));
    let connection = Connection::open_with_flags(address, flags).map_err(fail)?;
    connection.busy_timeout(PATIENCE).map_err(fail)?;
    connection.query_row("SELECT count(*) FROM sqlite_schema", (), |_| Ok(())).map_err(fail)?;
    Ok(connection)
}

/// A path as SQLite's `file:` names want it: everything but the plainest characters in percent form.
fn escaped(path: &Path) -> String {
    use std::fmt::Write;
    use std::os::unix::ffi::OsStrExt;
    path.as_os_str().as_bytes().iter().fold(String::new(), |mut text, &byte| {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' => text.push(char::from(byte)),
            _ => drop(write!(text, "%{byte:02x}")),
        }
        text
    })
}
