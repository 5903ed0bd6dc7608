//! Files and folders that are there for the time of a run.
//!
//! They survive a reboot, and so does the record. What identifies them is a random word in their name, which is recorded before they are
//! made: nothing else is removed, and a symbolic link is not followed.

use crate::change::{Change, Kind, Undone, details_of};
use crate::error::MakeError;
use crate::journal::{Held, Journal};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

const KIND: &str = "file";
const MARK: &str = "baremark-";

/// The kind of files and folders that are made.
#[derive(Clone, Copy, Debug)]
pub struct Files;

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Details {
    path: PathBuf,
    word: String,
}

impl Kind for Files {
    fn name(&self) -> &'static str {
        KIND
    }

    fn survives_reboot(&self) -> bool {
        true
    }

    fn undo(&self, details: &Value) -> io::Result<Undone> {
        let Details { path, word } = details_of(details)?;
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if word.len() != 36 || name != format!("{MARK}{word}") {
            let what = format!("{} does not have the name of a file that baremark makes", path.display());
            return Err(io::Error::new(io::ErrorKind::InvalidData, what));
        }
        let removed = match fs::symlink_metadata(&path) {
            Ok(facts) if facts.is_dir() => fs::remove_dir_all(&path),
            Ok(_) => fs::remove_file(&path),
            Err(why) => Err(why),
        };
        match removed {
            Err(why) if why.kind() == io::ErrorKind::NotFound => Ok(Undone::Absent),
            removed => removed.map(|()| Undone::Done),
        }
    }
}

/// Makes a file or folder in `folder` by `make`, which is called with its path; it is removed with the hold.
///
/// # Errors
/// When it cannot be recorded or `make` fails.
pub fn make<T>(
    journal: &Journal,
    folder: &Path,
    make: impl FnOnce(&Path) -> io::Result<T>,
) -> Result<(PathBuf, T, Held), MakeError<io::Error>> {
    let word = random_word().map_err(MakeError::Change)?;
    let path = folder.join(format!("{MARK}{word}"));
    let details =
        serde_json::to_value(Details { path: path.clone(), word }).map_err(|why| MakeError::Change(why.into()))?;
    let change = Change { kind: KIND.to_owned(), target: path.display().to_string(), details };
    let (made, held) = journal.make(change, || make(&path))?;
    Ok((path, made, held))
}

/// A word that nobody has chosen before, of 36 characters.
///
/// # Errors
/// What reading /proc gives.
pub fn random_word() -> io::Result<String> {
    Ok(fs::read_to_string("/proc/sys/kernel/random/uuid")?.trim().to_owned())
}
