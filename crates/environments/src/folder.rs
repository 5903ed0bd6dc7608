//! A private folder for one site, whose name other sites do not have.
//!
//! It is removed when it is dropped. A lab that was killed could not do that: its folders are found by their locks, which
//! died with it, and whoever starts a site of the same kind next removes them with what else they stand for.

use baremark_model::site::SiteError;
use baremark_sys::private_folder::PrivateFolder;
use baremark_sys::private_folder::directory::Directory;
use std::path::{Path, PathBuf};

/// The folder in a folder that is the site's own.
const INNER: &str = "site";

/// A folder that only this user can enter; removed with all that is in it.
pub struct Folder(PrivateFolder);

impl Folder {
    /// A new one, for a site of this kind.
    pub fn create(kind: &str) -> Result<Self, SiteError> {
        Folder::create_in(&std::env::temp_dir(), kind)
    }

    /// A new one in `parent`, for a site of this kind.
    pub fn create_in(parent: &Path, kind: &str) -> Result<Self, SiteError> {
        let made = PrivateFolder::create(parent, &prefix(kind)).map(Folder).and_then(|folder| {
            Directory::make_new(&folder.inner())?;
            Ok(folder)
        });
        made.map_err(SiteError::io(format!("creating a folder in {}", parent.display())))
    }

    /// Folders of this kind and user whose owner is gone. They are removed when they are dropped.
    pub fn orphans(kind: &str) -> Vec<Folder> {
        PrivateFolder::orphans(&std::env::temp_dir(), &prefix(kind)).into_iter().map(Folder).collect()
    }

    /// The folder that is the site's.
    pub fn inner(&self) -> PathBuf {
        self.path().join(INNER)
    }

    /// The whole of it.
    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// Its name, which no other site on this machine has.
    pub fn name(&self) -> String {
        self.path().file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
    }
}

fn prefix(kind: &str) -> String {
    format!("baremark-{kind}-")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_folder_is_private_and_goes_and_only_the_dead_leave_orphans() {
        // Of this process alone: another run of the test may have left some.
        let kind = format!("test{}", std::process::id());
        let folder = Folder::create(&kind).expect("a folder");
        let mode = fs::metadata(folder.path()).expect("it is there").permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
        fs::write(folder.inner().join("file"), "x").expect("it can be written");
        let dead = [true, false].map(|lock| {
            let name = format!("{}{}-99999{}", prefix(&kind), std::process::id(), u8::from(lock));
            let dead = std::env::temp_dir().join(name);
            fs::create_dir(&dead).expect("a folder of an owner that is gone");
            fs::write(dead.join("file"), "").expect("with a file");
            if lock {
                fs::write(dead.join("lock"), "").expect("and a lock that is not held");
            }
            dead
        });
        let orphans = Folder::orphans(&kind);
        let mut found: Vec<&Path> = orphans.iter().map(Folder::path).collect();
        found.sort_unstable();
        assert_eq!(found, [dead[1].as_path(), dead[0].as_path()]);
        drop(orphans);
        assert!(dead.iter().all(|path| !path.exists()) && folder.path().exists());
        let path = folder.path().to_owned();
        drop(folder);
        assert!(!path.exists());
    }
}
