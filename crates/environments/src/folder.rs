//! A private folder for one site, whose name other sites do not have.
//!
//! It is removed when it is dropped. A lab that was killed could not do that: its folders are found by their locks, which
//! died with it, and whoever starts a site of the same kind next removes them with what else they stand for.

use baremark_model::site::SiteError;
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// The file in a folder that its owner holds locked.
const LOCK: &str = "lock";
/// The folder in a folder that is the site's own.
const INNER: &str = "site";

static NEXT: AtomicU64 = AtomicU64::new(0);

/// A folder that only this user can enter; removed with all that is in it.
pub struct Folder {
    path: PathBuf,
    _lock: File,
}

impl Folder {
    /// A new one, for a site of this kind.
    pub fn create(kind: &str) -> Result<Self, SiteError> {
        Folder::create_in(&std::env::temp_dir(), kind)
    }

    /// A new one in `parent`, for a site of this kind.
    pub fn create_in(parent: &Path, kind: &str) -> Result<Self, SiteError> {
        let lab = std::process::id();
        loop {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let path = parent.join(format!("{}{lab}-{number}", prefix(kind)));
            match Folder::make(&path, &path.with_extension("new")) {
                Ok(lock) => return Ok(Folder { path, _lock: lock }),
                // Left by an earlier process that had our number: the next name.
                Err(why) if matches!(why.kind(), io::ErrorKind::AlreadyExists | io::ErrorKind::DirectoryNotEmpty) => {}
                Err(source) => return Err(SiteError::Io { what: format!("creating {}", path.display()), source }),
            }
        }
    }

    /// Makes it under another name and locks it before anybody can take it for an orphan.
    fn make(path: &Path, new: &Path) -> io::Result<File> {
        DirBuilder::new().mode(0o700).create(new)?;
        let lock = File::create(new.join(LOCK))?;
        lock.lock()?;
        DirBuilder::new().mode(0o700).create(new.join(INNER))?;
        fs::rename(new, path).inspect_err(|_| drop(fs::remove_dir_all(new)))?;
        Ok(lock)
    }

    /// Folders of this kind and user whose owner is gone. They are removed when they are dropped.
    pub fn orphans(kind: &str) -> Vec<Folder> {
        let Ok(entries) = fs::read_dir(std::env::temp_dir()) else { return Vec::new() };
        let own = fs::metadata("/proc/self").map(|meta| meta.uid()).ok();
        let orphaned = |path: PathBuf| -> Option<Folder> {
            let name = path.file_name()?.to_str()?.strip_prefix(&prefix(kind))?;
            let meta = fs::symlink_metadata(&path).ok()?;
            if !meta.is_dir()
                || Some(meta.uid()) != own
                || !name.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-')
            {
                return None;
            }
            let lock = File::open(path.join(LOCK)).ok()?;
            lock.try_lock().ok()?;
            Some(Folder { path, _lock: lock })
        };
        entries.flatten().filter_map(|entry| orphaned(entry.path())).collect()
    }

    /// The folder that is the site's.
    pub fn inner(&self) -> PathBuf {
        self.path.join(INNER)
    }

    /// The whole of it.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its name, which no other site on this machine has.
    pub fn name(&self) -> String {
        self.path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.path));
    }
}

fn prefix(kind: &str) -> String {
    format!("baremark-{kind}-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_private_and_goes_and_only_the_dead_leave_orphans() {
        let folder = Folder::create("test").expect("a folder");
        assert_eq!(fs::metadata(&folder.path).expect("it is there").mode() & 0o777, 0o700);
        fs::write(folder.inner().join("file"), "x").expect("it can be written");
        let dead = std::env::temp_dir().join(format!("baremark-test-{}-999999", std::process::id()));
        fs::create_dir(&dead).expect("a folder of an owner that is gone");
        fs::write(dead.join(LOCK), "").expect("with a lock that nobody holds");
        let orphans = Folder::orphans("test");
        assert_eq!(orphans.iter().map(|folder| folder.path.as_path()).collect::<Vec<_>>(), [dead.as_path()]);
        drop(orphans);
        assert!(!dead.exists() && folder.path.exists());
        let path = folder.path.clone();
        drop(folder);
        assert!(!path.exists());
    }
}
