//! Private folders: entered by their user alone, removed with all that is in them, and found again when their owner was
//! killed.
//!
//! The owner holds a file in the folder locked, and the kernel lets go of that lock when the owner dies, however it dies. That
//! file is made before the folder gets its name and is removed last, so that a folder whose removal was cut short is as easily
//! found as one that was never removed.
//!
//! A folder that has no lock yet may be a killed process's or that of one which is just making it, and it cannot be known which. So whoever
//! looks for orphans takes it at once: the other, which has not used it, sees that, and makes another.
//!
//! This module makes all folders of this program that are at a place others know (a test of `testing/structure` holds that): [`PrivateFolder`] those
//! of a run, [`directory::Directory`] those that stay.

pub mod directory;

use crate::point;
use crate::registry::{self, Made, Record};
use crate::{removal, server_memory};
use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// The file in a folder that its owner holds locked.
const LOCK: &str = "lock";
/// The name's ending of a folder that has no lock yet.
const NEW: &str = "new";

static NEXT: AtomicU64 = AtomicU64::new(0);

/// A folder of mode 0700 that is removed when this is dropped.
#[derive(Debug)]
pub struct PrivateFolder {
    path: PathBuf,
    _lock: File,
    record: Option<Box<dyn Record>>,
}

impl PrivateFolder {
    /// Makes one in `parent`; its name is `prefix`, the number of this process and another number.
    ///
    /// # Errors
    /// A parent in which every user may exchange what others have made; what making and locking it gave.
    pub fn create(parent: &Path, prefix: &str) -> io::Result<PrivateFolder> {
        PrivateFolder::create_after(parent, prefix, |_| Ok(())).map(|(folder, ())| folder)
    }

    /// The same, with what `before` gives, which is called with the path of each folder before that is made: for whoever has to know it by then.
    ///
    /// # Errors
    /// As [`PrivateFolder::create`], and what `before` gave.
    pub fn create_after<T>(
        parent: &Path,
        prefix: &str,
        before: impl Fn(&Path) -> io::Result<T>,
    ) -> io::Result<(PrivateFolder, T)> {
        holds(parent)?;
        loop {
            let path = next(parent, prefix);
            // Of one who has our number in another PID namespace: neither `before` nor a record is to be about that.
            if fs::symlink_metadata(&path).is_ok() {
                continue;
            }
            // One that cannot be recorded, as by a user without a home, is found by its lock.
            let record = registry::record(Made::Folder(&path)).ok().flatten();
            point::reached("folder-recorded");
            let made = before(&path).and_then(|given| Ok((make(&path, &path.with_extension(NEW))?, given)));
            match made {
                Ok((Some(lock), given)) => return Ok((PrivateFolder { path, _lock: lock, record }, given)),
                // Nothing of ours has that name.
                Ok((None, _)) => record.into_iter().for_each(Record::gone),
                Err(why) => {
                    record.into_iter().for_each(Record::gone);
                    return Err(why);
                }
            }
        }
    }

    /// Folders in `parent` of this prefix and user whose owner is gone. They are removed when they are dropped.
    #[must_use]
    pub fn orphans(parent: &Path, prefix: &str) -> Vec<PrivateFolder> {
        let Ok(entries) = fs::read_dir(parent) else { return Vec::new() };
        entries.flatten().filter_map(|entry| orphaned(entry.path(), prefix)).collect()
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for PrivateFolder {
    fn drop(&mut self) {
        remove(&self.path);
        if fs::symlink_metadata(&self.path).is_err() {
            self.record.take().into_iter().for_each(Record::gone);
        }
    }
}

/// A new file in `parent` that no name leads to, for its user alone. Where the file system has none from the start, as overlayfs before
/// Linux 6.1, it has a name in a private folder of this prefix for a moment.
///
/// # Errors
/// What making it gives.
pub fn nameless_file(parent: &Path, prefix: &str) -> io::Result<File> {
    drop(PrivateFolder::orphans(parent, prefix));
    match new_file().custom_flags(libc::O_TMPFILE).open(parent) {
        Err(why) if matches!(why.raw_os_error(), Some(libc::EOPNOTSUPP | libc::EISDIR | libc::EINVAL)) => {
            unnamed_file(parent, prefix)
        }
        made => made,
    }
}

/// A file that had a name.
fn unnamed_file(parent: &Path, prefix: &str) -> io::Result<File> {
    let folder = PrivateFolder::create(parent, prefix)?;
    let path = folder.path().join("data");
    let file = new_file().create_new(true).open(&path)?;
    fs::remove_file(&path)?;
    Ok(file)
}

fn new_file() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(0o600);
    options
}

/// Refuses a parent in which every user may exchange what others have made.
fn holds(parent: &Path) -> io::Result<()> {
    if fs::metadata(parent)?.mode() & 0o1002 != 0o002 {
        return Ok(());
    }
    let what = format!("every user may exchange what is in {}; chmod +t {0}, or chmod o-w {0}", parent.display());
    Err(io::Error::new(io::ErrorKind::PermissionDenied, what))
}

/// A path that this process has not used.
fn next(parent: &Path, prefix: &str) -> PathBuf {
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    parent.join(format!("{prefix}{}-{number}", std::process::id()))
}

/// Whether there is something of that name: left by an earlier process that had our number.
fn is_taken(why: &io::Error) -> bool {
    matches!(why.kind(), io::ErrorKind::AlreadyExists | io::ErrorKind::DirectoryNotEmpty)
}

/// Makes it under another name, locks it and gives it its own; `None` where another name is to be tried.
fn make(path: &Path, new: &Path) -> io::Result<Option<File>> {
    match DirBuilder::new().mode(0o700).create(new) {
        Ok(()) => finish(path, new),
        Err(why) if is_taken(&why) => Ok(None),
        Err(why) => Err(why),
    }
}

/// Locks a folder that has just been made and gives it its own name; `None` where that is taken, or the folder has been taken for an orphan.
/// Nobody removes the lock as long as the folder has its first name: what is locked here is in the folder.
fn finish(path: &Path, new: &Path) -> io::Result<Option<File>> {
    let lock = match lock_file(new) {
        Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened,
    };
    let locked = lock.and_then(|lock| match lock.try_lock() {
        Ok(()) => Ok(Some(lock)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(why)) => Err(why),
    });
    let made = match locked {
        // Whoever has the lock renames the folder.
        Ok(None) => return Ok(None),
        Ok(Some(lock)) => fs::rename(new, path).map(|()| lock),
        Err(why) => Err(why),
    };
    match made {
        Ok(lock) => Ok(Some(lock)),
        Err(why) if why.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(why) => {
            drop(fs::remove_dir_all(new));
            if is_taken(&why) { Ok(None) } else { Err(why) }
        }
    }
}

/// Neither by a link nor waiting for the other end of a pipe.
fn lock_file(folder: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false).mode(0o600).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
    options.open(folder.join(LOCK))
}

fn orphaned(path: PathBuf, prefix: &str) -> Option<PrivateFolder> {
    let rest = path.file_name()?.to_str()?.strip_prefix(prefix)?;
    let (number, new) = match rest.strip_suffix(NEW).and_then(|rest| rest.strip_suffix('.')) {
        Some(number) => (number, true),
        None => (rest, false),
    };
    let meta = fs::symlink_metadata(&path).ok()?;
    let ours = number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-') && meta.uid() == own_user();
    if !ours || !meta.is_dir() {
        return None;
    }
    // Made where it is missing, so that whoever has the lock alone removes it.
    let lock = lock_file(&path).ok()?;
    lock.try_lock().ok()?;
    let path = if new { taken_over(&path, prefix)? } else { path };
    Some(PrivateFolder { path, _lock: lock, record: None })
}

/// Gives a folder without a name of its own one of ours, from which on whoever has just made it does not have it any more.
fn taken_over(new: &Path, prefix: &str) -> Option<PathBuf> {
    loop {
        let path = next(new.parent()?, prefix);
        match fs::rename(new, &path) {
            Ok(()) => return Some(path),
            Err(why) if is_taken(&why) => {}
            // Its maker was faster.
            Err(_) => return None,
        }
    }
}

/// Removes a folder, its lock last. What cannot be removed stays, for the next who looks for orphans.
fn remove(path: &Path) {
    let (Ok(parent), Some(name)) = (removal::parent(path), path.file_name()) else { return };
    let none = OsStr::new("");
    if let Ok(folder) = removal::inner(&parent, name) {
        server_memory::remove_of(&folder);
        for entry in removal::names(&folder).unwrap_or_default().iter().filter(|entry| *entry != LOCK) {
            drop(removal::remove(&folder, entry, none));
            point::reached("folder-entry-removed");
        }
    }
    point::reached("folder-emptied");
    drop(removal::remove(&parent, name, LOCK.as_ref()));
}

fn own_user() -> u32 {
    // SAFETY: has no arguments and cannot fail.
    unsafe { libc::geteuid() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{FileExt, PermissionsExt};
    use std::process::{Command, Stdio};
    use std::sync::atomic::AtomicBool;
    use std::thread;
    use std::time::{Duration, Instant};

    const PREFIX: &str = "baremark-test-";
    const CHILD: &str = "BAREMARK_TEST_REMOVAL";

    #[test]
    fn a_folder_is_its_owners_alone_and_goes() {
        let parent = tempfile::tempdir().expect("a folder");
        let folder = PrivateFolder::create(parent.path(), PREFIX).expect("a folder");
        let mode = |path: &Path| fs::metadata(path).expect("it is there").mode() & 0o777;
        assert_eq!(mode(folder.path()), 0o700);
        assert_eq!(mode(&folder.path().join(LOCK)), 0o600);
        fs::create_dir(folder.path().join("inner")).expect("it is ours");
        fs::write(folder.path().join("inner/file"), "x").expect("it is ours");
        assert!(PrivateFolder::orphans(parent.path(), PREFIX).is_empty());
        let path = folder.path().to_owned();
        drop(folder);
        assert!(!path.exists());
    }

    #[test]
    fn a_file_without_a_name_is_its_users_alone_and_leaves_nothing_in_its_folder() {
        let parent = tempfile::tempdir().expect("a folder");
        for make in [nameless_file, unnamed_file] {
            let file = make(parent.path(), PREFIX).expect("a file");
            let found = file.metadata().expect("it is open");
            assert_eq!((found.mode(), found.nlink()), (0o100_600, 0));
            file.write_all_at(b"kept", 7).expect("it may be written");
            let mut bytes = [1; 11];
            file.read_exact_at(&mut bytes, 0).expect("and read");
            assert_eq!(&bytes, b"\0\0\0\0\0\0\0kept");
            assert_eq!(fs::read_dir(parent.path()).expect("it is ours").count(), 0);
        }
        let why = nameless_file(Path::new("/nowhere"), PREFIX).expect_err("there is no such folder");
        assert_eq!(why.kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn no_folder_is_made_where_every_user_may_exchange_it() {
        let parent = tempfile::tempdir().expect("a folder");
        let mode = |mode| fs::set_permissions(parent.path(), fs::Permissions::from_mode(mode)).expect("it is ours");
        mode(0o777);
        let why = PrivateFolder::create(parent.path(), PREFIX).expect_err("others could exchange it");
        assert!(why.kind() == io::ErrorKind::PermissionDenied && why.to_string().contains("; chmod +t "), "{why}");
        mode(0o1777);
        PrivateFolder::create(parent.path(), PREFIX).expect("as in /tmp");
    }

    #[test]
    fn what_the_dead_have_left_is_found_whatever_they_were_doing() {
        let parent = tempfile::tempdir().expect("a folder");
        let make = |name: &str, lock: bool| {
            let path = parent.path().join(format!("{PREFIX}{name}"));
            fs::create_dir(&path).expect("a folder");
            fs::write(path.join("file"), "x").expect("with something in it");
            if lock {
                fs::write(path.join(LOCK), "").expect("with a lock that is not held");
            }
            path
        };
        let dead = [make("1-0", true), make("1-1", false), make("1-2.new", true), make("1-3.new", false)];
        let kept = [make("1-4.new", true), make("1-5.old", false), make("x", true)];
        let live = lock_file(&kept[0]).expect("it is ours");
        live.lock().expect("nobody else has it");
        let orphans = PrivateFolder::orphans(parent.path(), PREFIX);
        let keeps_name = |path: &&Path| dead[..2].iter().any(|dead| dead == *path);
        let named: Vec<&Path> = orphans.iter().map(PrivateFolder::path).filter(keeps_name).collect();
        assert_eq!((orphans.len(), named.len()), (dead.len(), 2), "{orphans:?}");
        assert!(dead[2..].iter().all(|path| !path.exists()), "a folder that was just made is taken at once");
        assert!(PrivateFolder::orphans(parent.path(), PREFIX).is_empty(), "somebody removes them already");
        drop(orphans);
        let entries = fs::read_dir(parent.path()).expect("it is ours").flatten();
        let mut left: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
        left.sort();
        assert_eq!(left, kept);
    }

    #[test]
    fn a_folder_that_is_taken_for_an_orphan_before_it_is_locked_is_made_again() {
        let parent = tempfile::tempdir().expect("a folder");
        let path = parent.path().join(format!("{PREFIX}1-0"));
        let new = path.with_extension(NEW);
        let begin = || DirBuilder::new().mode(0o700).create(&new).expect("the name is free");
        let finished = || finish(&path, &new).expect("no error");
        begin();
        let orphans = PrivateFolder::orphans(parent.path(), PREFIX);
        assert_eq!(orphans.len(), 1);
        assert!(finished().is_none() && !path.exists(), "it is somebody else's");
        drop(orphans);
        assert!(finished().is_none() && !path.exists(), "it is gone");
        begin();
        // Somebody else has it, who has not renamed it yet.
        let lock = lock_file(&new).expect("it is ours");
        lock.lock().expect("nobody else has it");
        assert!(finished().is_none() && new.exists());
        lock.unlock().expect("it is ours");
        // The name is taken by one who had our number.
        fs::create_dir(&path).expect("the name is free");
        fs::write(path.join(LOCK), "").expect("it is ours");
        assert!(finished().is_none() && !new.exists());
        fs::remove_dir_all(&path).expect("it is ours");
        begin();
        assert!(finished().is_some() && path.join(LOCK).exists() && !new.exists());
    }

    #[test]
    fn a_live_folder_is_never_removed_however_often_orphans_are_looked_for() {
        let parent = tempfile::tempdir().expect("a folder");
        let over = AtomicBool::new(false);
        let looks = || {
            let mut mistaken = 0;
            while !over.load(Ordering::Relaxed) {
                mistaken += PrivateFolder::orphans(parent.path(), PREFIX).len();
            }
            mistaken
        };
        let makes = || {
            let makes = || {
                let folder = PrivateFolder::create(parent.path(), PREFIX)?;
                fs::write(folder.path().join("file"), "x").and_then(|()| fs::metadata(folder.path().join(LOCK)))
            };
            let failed = (0..500).find_map(|_| makes().err());
            over.store(true, Ordering::Relaxed);
            failed
        };
        let (failed, mistaken) = thread::scope(|scope| {
            let looking = [scope.spawn(looks), scope.spawn(looks)];
            (makes(), looking.map(|thread| thread.join().expect("no panic")))
        });
        assert!(failed.is_none(), "{failed:?}, taken for orphans: {mistaken:?}");
        assert_eq!(fs::read_dir(parent.path()).expect("it is ours").count(), 0);
    }

    #[test]
    fn a_parent_that_is_not_there_is_an_error() {
        let why = PrivateFolder::create(Path::new("/nowhere"), PREFIX).expect_err("there is no such folder");
        assert_eq!(why.kind(), io::ErrorKind::NotFound);
    }

    /// Not a test: what the next test starts, a process that is killed while it removes its folder.
    #[test]
    fn removes_a_folder_with_files() {
        let Some(parent) = std::env::var_os(CHILD) else { return };
        let folder = PrivateFolder::create(parent.as_ref(), PREFIX).expect("a folder");
        for number in 0..5 {
            File::create(folder.path().join(number.to_string())).expect("it is ours");
        }
        fs::create_dir(folder.path().join("inner")).expect("it is ours");
        drop(folder);
    }

    /// Whether a process has stopped itself.
    fn is_stopped(pid: u32) -> bool {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).expect("it is a child of ours");
        stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('T'))
    }

    #[test]
    fn a_removal_that_was_cut_short_is_finished_by_the_next() {
        for (at, left) in [("folder-entry-removed", 6), ("folder-entry-removed:4", 3), ("folder-emptied", 1)] {
            let parent = tempfile::tempdir().expect("a folder");
            let mut child = Command::new(std::env::current_exe().expect("a test"))
                .args(["--exact", "private_folder::tests::removes_a_folder_with_files"])
                .env(CHILD, parent.path())
                .env(point::STOP_AT, at)
                .stdout(Stdio::null())
                .spawn()
                .expect("it starts");
            let deadline = Instant::now() + Duration::from_secs(60);
            while !is_stopped(child.id()) {
                assert!(Instant::now() < deadline, "it does not come to {at}");
                // For an event of another process that nobody reports.
                thread::sleep(Duration::from_millis(1));
            }
            child.kill().expect("it is ours");
            child.wait().expect("it is ours");
            let mut folders = fs::read_dir(parent.path()).expect("it is ours").flatten().map(|entry| entry.path());
            let folder = folders.next().expect("its removal was cut short");
            let entries = fs::read_dir(&folder).expect("it is ours").count();
            assert_eq!((entries, folder.join(LOCK).exists()), (left, true), "{at}: the lock goes last");
            drop(PrivateFolder::orphans(parent.path(), PREFIX));
            assert!(!folder.exists(), "{at}");
        }
    }
}
