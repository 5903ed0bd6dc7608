//! A private folder for the services of one run, removed with all that is in it.
//!
//! It is the user's alone. A program that gives up the superuser's rights has its own part of it, and is let through to that
//! by name (see [`crate::users`]). A run that was killed could not remove its folder: the next run finds it by its lock,
//! which died with its owner.

use baremark_sys::private_folder::PrivateFolder;
use std::io;
use std::path::Path;

const PREFIX: &str = "baremark-services-";

/// The folder of a run.
#[derive(Debug)]
pub struct Folder(PrivateFolder);

impl Folder {
    /// A new one below `parent`, after those that killed runs have left there were removed.
    ///
    /// # Errors
    /// What making it gave.
    pub fn create(parent: &Path) -> io::Result<Folder> {
        drop(PrivateFolder::orphans(parent, PREFIX));
        PrivateFolder::create(parent, PREFIX).map(Folder)
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.0.path()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_folder_is_private_and_goes_and_so_do_those_of_the_dead() {
        let parent = tempfile::tempdir().expect("a folder");
        let dead = [true, false].map(|lock| {
            let dead = parent.path().join(format!("{PREFIX}1-{}", u8::from(lock)));
            fs::create_dir(&dead).expect("a folder whose owner is gone");
            if lock {
                fs::write(dead.join("lock"), "").expect("with a lock that is not held");
            }
            dead
        });
        let first = Folder::create(parent.path()).expect("a folder");
        assert!(dead.iter().all(|path| !path.exists()));
        let mode = fs::metadata(first.path()).expect("it is there").permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
        let second = Folder::create(parent.path()).expect("another");
        assert!(first.path().exists() && second.path().exists());
        let path = first.path().to_owned();
        drop(first);
        assert!(!path.exists());
    }
}
