//! Where loaded data is kept and where databases run, and what is free there.

use baremark_model::job::JobError;
use baremark_sys::file_system::FileSystem;
use baremark_sys::user_folder;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Where loaded data is kept, and where databases run.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Folders {
    /// Absent where this user has no folder for data.
    pub kept: Option<PathBuf>,
    /// Each run makes a folder of its own there.
    pub running: PathBuf,
    /// A study names it; else it is each user's own.
    pub is_named: bool,
}

impl Folders {
    /// One folder for both.
    pub(crate) fn named(folder: PathBuf) -> Folders {
        Folders { kept: Some(folder.clone()), running: folder, is_named: true }
    }

    /// Those of this user.
    pub(crate) fn usual() -> Folders {
        let kept = user_folder::databases();
        let running = user_folder::running().or_else(|| kept.clone()).unwrap_or_else(std::env::temp_dir);
        Folders { kept, running, is_named: false }
    }

    /// Where loaded data is kept.
    ///
    /// # Errors
    /// [`JobError::Missing`] where neither the study nor the user has a folder.
    pub(crate) fn kept(&self) -> Result<&Path, JobError> {
        self.kept.as_deref().ok_or_else(|| JobError::Missing {
            what: "no folder for loaded data: neither XDG_DATA_HOME nor HOME is set".to_owned(),
            remedy: "name one with the parameter data".to_owned(),
        })
    }

    /// How it is named to the user where it is another machine's.
    pub(crate) fn there(&self) -> String {
        match &self.kept {
            Some(kept) if self.is_named => format!("{} there", kept.display()),
            _ => "its user's data folder there".to_owned(),
        }
    }
}

/// What is free in both folders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Room {
    /// Bytes where data is kept.
    pub kept: u64,
    /// Where that is another file system.
    pub running: Option<u64>,
}

impl Room {
    /// Of folders on this machine, which need not be there yet.
    pub(crate) fn of(folders: &Folders) -> io::Result<Room> {
        let missing = || io::Error::from(io::ErrorKind::NotFound);
        let nearest = |path: &Path| path.ancestors().find(|path| path.exists()).map(Path::to_owned).ok_or_else(missing);
        let (kept, running) =
            (nearest(folders.kept.as_deref().unwrap_or(&folders.running))?, nearest(&folders.running)?);
        let apart = fs::metadata(&kept)?.dev() != fs::metadata(&running)?.dev();
        let free = |path: &Path| FileSystem::of(path).map(|system| system.free_bytes);
        Ok(Room { kept: free(&kept)?, running: apart.then(|| free(&running)).transpose()? })
    }
}
