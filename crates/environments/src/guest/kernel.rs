//! The kernel of a guest and its modules, as files of this machine.

use super::modules::Modules;
use baremark_model::site::Missing;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

/// This machine's own kernel.
pub(crate) fn of_this_machine() -> PathBuf {
    PathBuf::from(format!("/boot/vmlinuz-{}", release()))
}

/// All modules that a guest loads, in order: these files, then those of these names with all that they need, from a
/// folder, or from where those of this machine's own kernel are.
///
/// # Errors
/// Which module is not there, and who needs it.
pub(crate) fn module_files(
    files: &[PathBuf],
    names: &[String],
    folder: Option<&Path>,
) -> Result<Vec<PathBuf>, Missing> {
    let mut files = files.to_vec();
    if names.is_empty() {
        return Ok(files);
    }
    let folder = folder.map_or_else(|| PathBuf::from("/lib/modules").join(release()), Path::to_owned);
    for file in Modules::under(&folder).files_of(names)? {
        if !files.contains(&file) {
            files.push(file);
        }
    }
    Ok(files)
}

/// Says which file of the guest's kernel cannot be read.
///
/// # Errors
/// The first such file, with the remedy.
pub(crate) fn are_readable(files: impl IntoIterator<Item = PathBuf>) -> Result<(), Missing> {
    for file in files {
        File::open(&file).map_err(|why| Missing {
            what: format!("a file of the guest's kernel, {}, cannot be read: {why}", file.display()),
            remedy: "run `baremark setup guest-kernel`, or set kernel to a bzImage that has its modules".to_owned(),
        })?;
    }
    Ok(())
}

/// Says which of these is not one word of a kernel's command line.
///
/// # Errors
/// The first such word, with the remedy.
pub(crate) fn are_words(options: &[String]) -> Result<(), Missing> {
    match options.iter().find(|word| *word == "--" || word.contains(char::is_whitespace)) {
        None => Ok(()),
        Some(word) => Err(Missing {
            what: format!("'{word}' is not one word of a kernel's command line"),
            remedy: "give the words one by one, and no --".to_owned(),
        }),
    }
}

/// The release of this machine's kernel.
fn release() -> String {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    release.trim().to_owned()
}
