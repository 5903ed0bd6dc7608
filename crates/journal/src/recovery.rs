//! Undoing what processes left that have ended.

use crate::change::{Change, Undone};
use crate::error::JournalError;
use crate::journal::{ENDING, Journal, Shared, read};
use crate::owner::Life;
use crate::record::{Contents, Record};
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

/// What a recovery did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovery {
    /// Targets whose change was undone.
    pub undone: Vec<String>,
    /// Targets whose change was left, for something else is there now; each with what was found.
    pub foreign: Vec<(String, String)>,
    /// Targets that a reboot had undone, or whose change was never made.
    pub absent: Vec<String>,
    /// Targets that could not be undone, each with why. Their records are kept.
    pub failed: Vec<(String, String)>,
    /// Files with damaged records, each with what is wrong. What is whole in them was undone; the files are kept for a person.
    pub damaged: Vec<(PathBuf, String)>,
    /// Changes that processes hold which are alive.
    pub held: usize,
}

impl Recovery {
    /// Whether there was nothing to do and nothing to say.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        let Recovery { undone, foreign, absent: _, failed, damaged, held: _ } = self;
        undone.is_empty() && foreign.is_empty() && failed.is_empty() && damaged.is_empty()
    }
}

impl Journal {
    /// Undoes what owners left that have ended, newest first, and says what became of each. Safe alongside other processes that make
    /// changes or recover.
    ///
    /// # Errors
    /// When the folder cannot be read or locked. A file that cannot be read is in [`Recovery::damaged`].
    pub fn recover(&self) -> Result<Recovery, JournalError> {
        let shared = &self.shared;
        let _lock = shared.lock()?;
        let mut recovery = Recovery::default();
        for path in files(shared)? {
            match read(&path) {
                Ok(contents) => recovery.of_file(shared, &path, contents)?,
                Err(why) => recovery.damaged.push((path, why.to_string())),
            }
        }
        Ok(recovery)
    }
}

impl Recovery {
    /// Undoes what the file of an owner that has ended records, newest first. Each change that is settled is noted in the file at once: no
    /// later recovery takes the same change of a new owner for this one's.
    fn of_file(&mut self, shared: &Shared, path: &Path, contents: Contents) -> Result<(), JournalError> {
        let life = life(shared, path, &contents);
        if life == Life::Alive {
            self.held += contents.open.len();
            return Ok(());
        }
        let mut file = appendable(path, contents.whole)?;
        let mut kept = false;
        for (id, change) in contents.open.iter().rev() {
            if self.settle(shared, change, life) {
                let line = Record::Undone { id: *id }.line();
                let written = file.write_all(line.as_bytes()).and_then(|()| file.sync_data());
                written.map_err(JournalError::io("writing", path))?;
            } else {
                kept = true;
            }
        }
        if !contents.damage.is_empty() {
            self.damaged.push((path.to_owned(), contents.damage.join("; ")));
        } else if !kept {
            fs::remove_file(path).map_err(JournalError::io("removing", path))?;
        }
        Ok(())
    }

    /// Whether the record is no longer needed.
    fn settle(&mut self, shared: &Shared, change: &Change, life: Life) -> bool {
        let target = change.target.clone();
        match undo(shared, change, life) {
            Ok(Undone::Done) => self.undone.push(target),
            Ok(Undone::Absent) => self.absent.push(target),
            Ok(Undone::Foreign(found)) => self.foreign.push((target, found)),
            Err(why) => {
                self.failed.push((target, why));
                return false;
            }
        }
        true
    }
}

/// A file of records to append to, without an unfinished last line.
fn appendable(path: &Path, whole: u64) -> Result<File, JournalError> {
    let opening = || {
        let file = OpenOptions::new().append(true).open(path)?;
        file.set_len(whole)?;
        Ok(file)
    };
    opening().map_err(JournalError::io("opening", path))
}

fn undo(shared: &Shared, change: &Change, life: Life) -> Result<Undone, String> {
    let kind = shared.kind(&change.kind).map_err(|why| why.to_string())?;
    if life == Life::OtherBoot && !kind.survives_reboot() {
        return Ok(Undone::Absent);
    }
    kind.undo(&change.details).map_err(|why| why.to_string())
}

/// Whether the owner of a file lives. One that has lost its first line is judged by its name.
fn life(shared: &Shared, path: &Path, contents: &Contents) -> Life {
    if let Some(owner) = &contents.owner {
        return owner.life(&shared.owner);
    }
    let name = path.file_stem().and_then(|name| name.to_str()).and_then(|name| name.split_once('-'));
    let Some((Ok(pid), Ok(start))) = name.map(|(pid, start)| (pid.parse(), start.parse())) else { return Life::Dead };
    let owner = crate::owner::Owner { pid, start, ..shared.owner.clone() };
    owner.life(&shared.owner)
}

/// Files of records, this process's own and unfinished ones apart; those are removed when nobody writes them any more.
fn files(shared: &Shared) -> Result<Vec<PathBuf>, JournalError> {
    let listing = JournalError::io("listing", &shared.folder);
    let entries = match fs::read_dir(&shared.folder) {
        Ok(entries) => entries,
        Err(why) => return Err(listing(why)),
    };
    let own = format!("{}-{}", shared.owner.pid, shared.owner.start);
    let mut found = Vec::new();
    for path in entries.flatten().map(|entry| entry.path()) {
        let ending = path.extension().and_then(|ending| ending.to_str());
        let is_own = path.file_stem().is_some_and(|stem| *stem == *own);
        match ending {
            Some(ENDING) if !is_own => found.push(path),
            // Writers hold the lock that is held here: whoever began it is gone.
            Some("new") => drop(fs::remove_file(path)),
            _ => {}
        }
    }
    found.sort();
    Ok(found)
}

/// Makes sure that no other owner holds `target`. The folder is locked.
pub(crate) fn free(shared: &Shared, target: &str) -> Result<(), JournalError> {
    for path in files(shared)? {
        let contents = read(&path)?;
        if !contents.open.iter().any(|(_, change)| change.target == target) {
            continue;
        }
        let pid = contents.owner.as_ref().map_or(0, |owner| owner.pid);
        if life(shared, &path, &contents) == Life::Alive {
            return Err(JournalError::Held { target: target.to_owned(), pid });
        }
        let mut recovery = Recovery::default();
        recovery.of_file(shared, &path, contents)?;
        if let Some((_, why)) = recovery.failed.into_iter().find(|(failed, _)| failed == target) {
            return Err(JournalError::Stuck { target: target.to_owned(), pid, why });
        }
    }
    Ok(())
}
