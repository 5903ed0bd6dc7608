//! The lock of a live run: `flock` on a file next to the store, named by the run.
//!
//! The kernel frees it when its holder dies, however it dies, so nothing has to be cleaned up before a run is resumed. A
//! lock file is removed by its holder while it still holds it; who locks therefore makes sure afterwards that the file
//! at the path is still the one that it locked.

use crate::error::LockError;
use crate::run_id::RunId;
use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

/// Tries before a lock counts as held: whoever only checks whether a run is live holds it shared for an instant.
const TRIES: u32 = 10;
const PAUSE: Duration = Duration::from_millis(10);

/// A run held by this process; dropped, the run is free again.
#[derive(Debug)]
pub struct RunLock {
    path: PathBuf,
    /// Kept open: closing it frees the lock.
    _file: File,
}

impl Drop for RunLock {
    fn drop(&mut self) {
        // A file that stays behind is locked by nobody and does no harm.
        let _ = fs::remove_file(&self.path);
    }
}

/// The lock file of `run` alongside the store at `store`.
fn path_of(store: &Path, run: &RunId) -> PathBuf {
    let mut name = store.as_os_str().to_owned();
    name.push(format!("-{run}.lock"));
    PathBuf::from(name)
}

/// Takes the lock of `run`.
pub(crate) fn take(store: &Path, run: &RunId) -> Result<RunLock, LockError> {
    let path = path_of(store, run);
    let fail = |why| LockError::File { path: path.clone(), why };
    for _ in 0..TRIES {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&path)
            .map_err(fail)?;
        match file.try_lock() {
            Ok(()) if is_at(&file, &path).map_err(fail)? => {
                sign(&file).map_err(fail)?;
                return Ok(RunLock { path, _file: file });
            }
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => thread::sleep(PAUSE),
            Err(TryLockError::Error(why)) => return Err(fail(why)),
        }
    }
    Err(LockError::Live { run: run.clone(), pid: signed(&path) })
}

/// The names of the runs whose locks living processes hold. Makes no file.
pub(crate) fn held(store: &Path) -> BTreeSet<String> {
    let is_held = |path: &Path| match File::open(path) {
        Ok(file) => matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)),
        Err(_) => false,
    };
    files(store).into_iter().filter(|(_, path)| is_held(path)).map(|(run, _)| run).collect()
}

/// A place in the queue of runs that wait for each other; dropped, the next has its turn.
#[derive(Debug)]
pub struct Turn {
    /// Kept open: closing it gives the turn away.
    _file: File,
}

/// Takes the turn at this store; `None` when another process has it.
pub(crate) fn turn(store: &Path) -> Result<Option<Turn>, LockError> {
    let mut name = store.as_os_str().to_owned();
    name.push(".queue");
    let path = PathBuf::from(name);
    let fail = |why| LockError::File { path: path.clone(), why };
    let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&path).map_err(fail)?;
    match file.try_lock() {
        Ok(()) => Ok(Some(Turn { _file: file })),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(why)) => Err(fail(why)),
    }
}

/// Removes the lock files that killed processes left alongside the store.
pub(crate) fn sweep(store: &Path) {
    for (_, path) in files(store) {
        let Ok(file) = File::open(&path) else { continue };
        // Whoever takes the lock meanwhile finds out that its file is gone, and makes another.
        if file.try_lock().is_ok() && is_at(&file, &path).unwrap_or(false) {
            drop(fs::remove_file(&path));
        }
    }
}

/// The lock files next to the store, with the names of their runs.
fn files(store: &Path) -> Vec<(String, PathBuf)> {
    let folder = store.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let Some(name) = store.file_name().and_then(|name| name.to_str()) else { return Vec::new() };
    let run_of = |file: &str| Some(file.strip_prefix(name)?.strip_prefix('-')?.strip_suffix(".lock")?.to_owned());
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| Some((run_of(entry.file_name().to_str()?)?, entry.path()))).collect()
}

/// Whether `file` is what stands at `path`.
fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    let ours = file.metadata()?;
    match fs::metadata(path) {
        Ok(theirs) => Ok(ours.dev() == theirs.dev() && ours.ino() == theirs.ino()),
        Err(why) if why.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(why) => Err(why),
    }
}

/// Writes this process's number, for the message that others will print.
fn sign(mut file: &File) -> io::Result<()> {
    file.set_len(0)?;
    writeln!(file, "{}", std::process::id())
}

fn signed(path: &Path) -> Option<u32> {
    let mut text = String::new();
    File::open(path).ok()?.take(32).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}
