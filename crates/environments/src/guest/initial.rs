//! The initial file system of a guest: the program as the first process, and the kernel modules that it loads. It lies in
//! memory, on no disk.

use baremark_model::site::{Missing, SiteError};
use baremark_sys::cpio::{self, Cpio};
use baremark_sys::loaded_program;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};

/// Made once, for all guests of the same kernel and program.
#[derive(Default)]
pub(crate) struct Initial {
    made: OnceLock<File>,
    /// Held while it is made: guests that start at once wait for one.
    making: Mutex<()>,
}

impl Initial {
    /// A path by which other processes of this user open it while this process lives. Modules are loaded in their order;
    /// `search_path` is that of programs in a guest that has programs.
    ///
    /// # Errors
    /// What cannot be found, read or written.
    pub(crate) fn path(
        &self,
        program: &Path,
        modules: impl FnOnce() -> Result<Vec<PathBuf>, Missing>,
        search_path: Option<&OsStr>,
    ) -> Result<PathBuf, SiteError> {
        let _alone = self.making.lock().unwrap_or_else(PoisonError::into_inner);
        let file = match self.made.get() {
            Some(made) => made,
            None => {
                let made = make(program, &modules()?, search_path)?;
                self.made.get_or_init(|| made)
            }
        };
        Ok(PathBuf::from(format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd())))
    }
}

fn make(program: &Path, modules: &[PathBuf], search_path: Option<&OsStr>) -> Result<File, SiteError> {
    let read = |path: &Path| fs::read(path).map_err(SiteError::io(format!("reading {}", path.display())));
    let program = loaded_program::loaded(read(program)?);
    let modules = modules.iter().map(|path| read(path)).collect::<Result<Vec<_>, _>>()?;
    let write = || {
        let mut cpio = Cpio::new(io::BufWriter::new(cpio::in_memory()?));
        for folder in ["dev", "proc", "sys", "tmp", "modules"] {
            cpio.folder(folder)?;
        }
        // What the first process says before it has mounted anything goes here.
        cpio.character_device("dev/console", 5, 1)?;
        if let Some(path) = search_path {
            cpio.file("path", path.as_encoded_bytes())?;
        }
        for (place, module) in modules.iter().enumerate() {
            cpio.file(&format!("modules/{place:03}"), module)?;
        }
        cpio.program("init", &program)?;
        cpio.finish()?.into_inner().map_err(io::IntoInnerError::into_error)
    };
    write().map_err(SiteError::io("making the guest's initial file system"))
}
