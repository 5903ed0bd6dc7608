//! Private folders: entered by their user alone, removed with all that is in them, and found again when their owner was
//! killed.
//!
//! The owner holds a file in the folder locked, and the kernel lets go of that lock when the owner dies, however it dies. That
//! file is made before the folder gets its name and is removed last, so that a folder whose removal was cut short is as easily
//! found as one that was never removed.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The file in a folder that its owner holds locked.
const LOCK: &str = "lock";
/// The name's ending of a folder that has no lock yet.
const NEW: &str = "new";
/// Nobody takes as long to lock a new folder.
const NEW_LIMIT: Duration = Duration::from_secs(60);

static NEXT: AtomicU64 = AtomicU64::new(0);

/// A folder of mode 0700 that is removed when this is dropped.
#[derive(Debug)]
pub struct PrivateFolder {
    path: PathBuf,
    _lock: File,
}

impl PrivateFolder {
    /// Makes one in `parent`; its name is `prefix`, the number of this process and another number.
    ///
    /// # Errors
    /// What making and locking it gave.
    pub fn create(parent: &Path, prefix: &str) -> io::Result<PrivateFolder> {
        loop {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let path = parent.join(format!("{prefix}{}-{number}", std::process::id()));
            match make(&path, &path.with_extension(NEW)) {
                Ok(lock) => return Ok(PrivateFolder { path, _lock: lock }),
                // Left by an earlier process that had our number: the next name.
                Err(why) if matches!(why.kind(), io::ErrorKind::AlreadyExists | io::ErrorKind::DirectoryNotEmpty) => {}
                Err(why) => return Err(why),
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
    }
}

/// Makes it under another name and locks it before anybody can take it for an orphan.
fn make(path: &Path, new: &Path) -> io::Result<File> {
    DirBuilder::new().mode(0o700).create(new)?;
    let locked = lock_file(new).and_then(|lock| lock.lock().map(|()| lock));
    let made = locked.and_then(|lock| fs::rename(new, path).map(|()| lock));
    made.inspect_err(|_| drop(fs::remove_dir_all(new)))
}

fn lock_file(folder: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(folder.join(LOCK))
}

fn orphaned(path: PathBuf, prefix: &str) -> Option<PrivateFolder> {
    let rest = path.file_name()?.to_str()?.strip_prefix(prefix)?;
    let (number, new) = match rest.strip_suffix(NEW).and_then(|rest| rest.strip_suffix('.')) {
        Some(number) => (number, true),
        None => (rest, false),
    };
    let meta = fs::symlink_metadata(&path).ok()?;
    let ours = number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-') && meta.uid() == own_user();
    if !ours || !meta.is_dir() || (new && meta.modified().ok()?.elapsed().ok()? < NEW_LIMIT) {
        return None;
    }
    // Made where it is missing, so that whoever has the lock alone removes it.
    let lock = lock_file(&path).ok()?;
    lock.try_lock().ok()?;
    Some(PrivateFolder { path, _lock: lock })
}

/// Removes a folder, its lock last. What cannot be removed stays, for the next who looks for orphans.
fn remove(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten().filter(|entry| entry.file_name() != LOCK) {
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        drop(if is_folder { fs::remove_dir_all(entry.path()) } else { fs::remove_file(entry.path()) });
    }
    drop(fs::remove_dir_all(folder));
}

fn own_user() -> u32 {
    // SAFETY: has no arguments and cannot fail.
    unsafe { libc::geteuid() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;
    use std::time::Instant;

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
        let old = std::time::SystemTime::now() - 2 * NEW_LIMIT;
        for path in &dead[2..] {
            File::open(path).and_then(|folder| folder.set_modified(old)).expect("it is ours");
        }
        let kept = [make("1-4.new", true), make("x", true), make("1-5.old", false)];
        let orphans = PrivateFolder::orphans(parent.path(), PREFIX);
        let mut found: Vec<&Path> = orphans.iter().map(PrivateFolder::path).collect();
        found.sort_unstable();
        assert_eq!(found, dead);
        assert!(PrivateFolder::orphans(parent.path(), PREFIX).is_empty(), "somebody removes them already");
        drop(orphans);
        assert!(dead.iter().all(|path| !path.exists()) && kept.iter().all(|path| path.exists()));
    }

    /// Started again by the next test, as a process that is killed while it removes its folder.
    #[test]
    fn removes_a_folder_with_many_files() {
        let Some(parent) = std::env::var_os(CHILD) else { return };
        let folder = PrivateFolder::create(parent.as_ref(), PREFIX).expect("a folder");
        for number in 0..20_000 {
            File::create(folder.path().join(number.to_string())).expect("it is ours");
        }
        drop(folder);
    }

    #[test]
    fn a_removal_that_was_cut_short_is_finished_by_the_next() {
        let parent = tempfile::tempdir().expect("a folder");
        let mut child = Command::new(std::env::current_exe().expect("a test"))
            .args(["--exact", "private_folder::tests::removes_a_folder_with_many_files"])
            .env(CHILD, parent.path())
            .spawn()
            .expect("it starts");
        let deadline = Instant::now() + Duration::from_secs(60);
        let files = || {
            let folder = fs::read_dir(parent.path()).ok()?.flatten().next()?.path();
            Some((fs::read_dir(&folder).ok()?.count(), folder))
        };
        let mut most = 0;
        let folder = loop {
            assert!(Instant::now() < deadline, "it was not removed");
            let Some((count, folder)) = files() else {
                assert!(most == 0, "it was removed before it could be killed");
                continue;
            };
            if count < most {
                break folder;
            }
            most = count;
        };
        child.kill().expect("it is ours");
        child.wait().expect("it is ours");
        assert!(folder.exists(), "nothing was cut short");
        drop(PrivateFolder::orphans(parent.path(), PREFIX));
        assert!(!folder.exists());
    }
}
