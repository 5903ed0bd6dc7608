//! A private folder for the services of one run, removed with all that is in it.
//!
//! Programs that refuse the superuser must get at their own part of it, so that the outer folder can be passed through but
//! not read, and each part belongs to its program's user. A run that was killed could not remove its folder: the next run
//! finds it by its lock, which died with its owner.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

const PREFIX: &str = "baremark-services-";
const LOCK: &str = "lock";

static NEXT: AtomicU64 = AtomicU64::new(0);

/// The folder of a run.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    _lock: File,
}

impl Folder {
    /// A new one below `parent`, after those that killed runs have left there were removed.
    ///
    /// # Errors
    /// What making it gave.
    pub fn create(parent: &Path) -> io::Result<Folder> {
        remove_orphans(parent);
        loop {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let path = parent.join(format!("{PREFIX}{}-{number}", std::process::id()));
            let new = path.with_extension("new");
            DirBuilder::new().mode(0o711).create(&new)?;
            let lock = File::create(new.join(LOCK)).and_then(|lock| lock.lock().map(|()| lock));
            let made = lock.and_then(|lock| fs::rename(&new, &path).map(|()| lock));
            match made {
                Ok(lock) => return Ok(Folder { path, _lock: lock }),
                Err(why) => {
                    drop(fs::remove_dir_all(&new));
                    if !matches!(why.kind(), io::ErrorKind::AlreadyExists | io::ErrorKind::DirectoryNotEmpty) {
                        return Err(why);
                    }
                }
            }
        }
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.path));
    }
}

fn remove_orphans(parent: &Path) {
    let own = fs::metadata("/proc/self").map(|meta| meta.uid()).ok();
    let Ok(entries) = fs::read_dir(parent) else { return };
    for path in entries.flatten().map(|entry| entry.path()) {
        let ours = path.file_name().and_then(|name| name.to_str()).is_some_and(|name| {
            let rest = name.strip_prefix(PREFIX).unwrap_or("x");
            rest.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-')
        });
        let meta = fs::symlink_metadata(&path);
        if ours && meta.is_ok_and(|meta| meta.is_dir() && Some(meta.uid()) == own) {
            let free = File::open(path.join(LOCK)).is_ok_and(|lock| lock.try_lock().is_ok());
            if free {
                drop(fs::remove_dir_all(&path));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_goes_and_so_do_those_of_the_dead() {
        let parent = tempfile::tempdir().expect("a folder");
        let dead = parent.path().join(format!("{PREFIX}1-0"));
        fs::create_dir(&dead).expect("a folder whose owner is gone");
        fs::write(dead.join(LOCK), "").expect("with a lock that nobody holds");
        let first = Folder::create(parent.path()).expect("a folder");
        assert!(!dead.exists());
        let second = Folder::create(parent.path()).expect("another");
        assert!(first.path().exists() && second.path().exists());
        let path = first.path().to_owned();
        drop(first);
        assert!(!path.exists());
    }
}
