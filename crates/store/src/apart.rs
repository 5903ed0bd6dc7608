//! Reading a store where nothing may be written next to it: on a full disk, or a read-only one.
//!
//! SQLite reads a file with a write-ahead log through an index in shared memory, which is one more file next to the store.
//! Where that cannot be made, a store whose log is empty is read as one that nobody changes; one with a log is copied with
//! it to a place that has room, and the copy is read.

use crate::error::StoreError;
use rusqlite::{Connection, OpenFlags};
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
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
        match Copy::make(path, &log, &place) {
            // Open files outlive their names: the copy takes no room when the connection is closed.
            Ok(copy) => return read_only(&copy.0.join("store"), ""),
            Err(why) => last = why,
        }
    }
    Err(StoreError::Path {
        what: "copy, to read it where its folder cannot be written,",
        path: path.to_owned(),
        why: last,
    })
}

/// A private folder with a copy, removed when dropped.
struct Copy(PathBuf);

impl Copy {
    fn make(path: &Path, log: &Path, place: &Path) -> io::Result<Copy> {
        let folder = (0..1000_u32)
            .map(|number| place.join(format!("baremark-store-{}-{number}", std::process::id())))
            .find_map(|folder| match DirBuilder::new().mode(0o700).create(&folder) {
                Ok(()) => Some(Ok(Copy(folder))),
                Err(why) if why.kind() == io::ErrorKind::AlreadyExists => None,
                Err(why) => Some(Err(why)),
            });
        let copy = folder.ok_or_else(|| io::Error::other("every name is taken"))??;
        fs::copy(log, copy.0.join("store-wal"))?;
        fs::copy(path, copy.0.join("store"))?;
        Ok(copy)
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
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
