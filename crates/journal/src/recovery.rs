//! Undoing what processes left that have ended.

use crate::change::{Change, Undone};
use crate::error::JournalError;
use crate::folder::{Lock, owned};
use crate::owner::{Ended, Owner};
use crate::record::{Contents, LONGEST, Record};
use crate::refused::Refused;
use crate::shared::{Shared, append};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

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
    /// Files of which nothing was obeyed, each with why: of another format, or not made by this user. They are kept.
    pub refused: Vec<(PathBuf, String)>,
    /// Changes that processes hold which are alive, on this machine or another.
    pub held: usize,
}

impl Recovery {
    /// Whether there was nothing to do and nothing to say.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        let Recovery { undone, foreign, absent: _, failed, damaged, refused, held: _ } = self;
        undone.is_empty() && foreign.is_empty() && failed.is_empty() && damaged.is_empty() && refused.is_empty()
    }
}

/// Undoes what owners left that have ended, newest first; the folder is locked.
pub(crate) fn all(shared: &Shared, _lock: &Lock) -> Result<Recovery, JournalError> {
    let mut recovery = Recovery::default();
    let mut stuck = Vec::new();
    for name in others(shared)? {
        match Found::of(shared, &name) {
            Found::Gone => {}
            Found::Alive(contents) => recovery.held += contents.map_or(0, |contents| contents.open.len()),
            Found::Dead(file, contents) => {
                let (failed, held) = (recovery.failed.len(), recovery.held);
                recovery.of_file(shared, &name, file, contents)?;
                if recovery.failed.len() > failed {
                    stuck.push((name, recovery.failed.split_off(failed), recovery.held - held));
                    recovery.held = held;
                }
            }
            Found::Refused(why) => recovery.refused.push((shared.folder.path().join(name), why.to_string())),
        }
    }
    // What one owner made another may have used, as a container does the folder of the lab that started it: where both have ended, what is in
    // use at first no longer is once the changes of all others are undone.
    for (name, before, held) in stuck {
        match Found::of(shared, &name) {
            Found::Dead(file, Some(contents)) if contents.damage.is_empty() => {
                recovery.of_file(shared, &name, file, Some(contents))?;
            }
            _ => {
                recovery.failed.extend(before);
                recovery.held += held;
            }
        }
    }
    Ok(recovery)
}

/// A file of another owner.
enum Found {
    Gone,
    /// Its owner has it locked.
    Alive(Option<Contents>),
    /// It is locked by this process now. Without contents no change was recorded.
    Dead(File, Option<Contents>),
    /// It is not obeyed.
    Refused(Refused),
}

impl Found {
    fn of(shared: &Shared, name: &str) -> Found {
        let mut file = match shared.folder.file(name) {
            Ok(Some(file)) => file,
            Ok(None) => return Found::Gone,
            Err(why) => return Found::Refused(why),
        };
        // Before it is read: from here on nobody writes it.
        let alive = match owned(&file) {
            Ok(locked) => !locked,
            Err(why) => return Found::Refused(Refused::Locking(why)),
        };
        // An owner whose last change is undone removes the file and then gives up its lock.
        match file.metadata() {
            Ok(facts) if facts.nlink() == 0 => return Found::Gone,
            Ok(_) => {}
            Err(why) => return Found::Refused(why.into()),
        }
        match read(&mut file) {
            Ok(contents) if alive => Found::Alive(contents),
            Ok(contents) => Found::Dead(file, contents),
            Err(_) if alive => Found::Alive(None),
            Err(why) => Found::Refused(why),
        }
    }
}

fn read(file: &mut File) -> Result<Option<Contents>, Refused> {
    let mut bytes = Vec::new();
    let length = file.take(LONGEST + 1).read_to_end(&mut bytes)?;
    if length as u64 > LONGEST {
        return Err(Refused::TooLong);
    }
    Ok(Contents::parse(&bytes)?)
}

impl Recovery {
    /// Undoes what the file of an owner that has ended records, newest first. Each change that is settled is noted in the file at once: no
    /// later recovery takes the same change of a new owner for this one's.
    fn of_file(
        &mut self,
        shared: &Shared,
        name: &str,
        mut file: File,
        contents: Option<Contents>,
    ) -> Result<(), JournalError> {
        let Some(contents) = contents else { return shared.folder.remove(name) };
        let this = Owner::this().map_err(JournalError::io("finding out who this process is", "/proc/self"))?;
        let ended = contents.owner.ended(&this);
        if ended == Ended::OtherMachine {
            self.held += contents.open.len();
            return Ok(());
        }
        let path = shared.folder.path().join(name);
        let writing = || JournalError::io("writing", &path);
        // Without an unfinished last line.
        file.set_len(contents.whole).and_then(|()| file.seek(SeekFrom::End(0))).map_err(writing())?;
        let mut kept = false;
        for (id, change) in contents.open.iter().rev() {
            if self.settle(shared, change, ended) {
                append(&file, &Record::Undone { id: *id }).map_err(writing())?;
            } else {
                kept = true;
            }
        }
        if !contents.damage.is_empty() {
            self.damaged.push((path, contents.damage.join("; ")));
        } else if !kept {
            shared.folder.remove(name)?;
        }
        Ok(())
    }

    /// Whether the record is no longer needed.
    fn settle(&mut self, shared: &Shared, change: &Change, ended: Ended) -> bool {
        let target = change.target.clone();
        let kind = match shared.kind(&change.kind) {
            Ok(kind) => kind,
            Err(why) => {
                self.failed.push((target, why.to_string()));
                return false;
            }
        };
        if ended == Ended::OtherBoot && !kind.survives_reboot() {
            self.absent.push(target);
            return true;
        }
        match kind.undo(&change.details) {
            Ok(Undone::Done) => self.undone.push(target),
            Ok(Undone::Absent) => self.absent.push(target),
            Ok(Undone::Foreign(found)) => self.foreign.push((target, found)),
            // A process that the owner started still has it, and removes it itself or is about to end.
            Err(why) if why.kind() == io::ErrorKind::WouldBlock => {
                self.held += 1;
                return false;
            }
            Err(why) => {
                self.failed.push((target, why.to_string()));
                return false;
            }
        }
        true
    }
}

/// Names of the files of other owners. Whoever makes one has the lock that is held here.
fn others(shared: &Shared) -> Result<Vec<String>, JournalError> {
    let own = shared.own();
    Ok(shared.folder.names()?.into_iter().filter(|name| Some(name) != own.as_ref()).collect())
}

/// Makes sure that no other owner holds `target`. The folder is locked. A file that is not obeyed holds nothing.
pub(crate) fn free(shared: &Shared, target: &str) -> Result<(), JournalError> {
    let holds = |contents: &Contents| contents.open.iter().any(|(_, change)| change.target == target);
    for name in others(shared)? {
        let (file, contents) = match Found::of(shared, &name) {
            Found::Alive(Some(contents)) if holds(&contents) => {
                return Err(JournalError::Held { target: target.to_owned(), pid: contents.owner.pid });
            }
            Found::Dead(file, Some(contents)) if holds(&contents) => (file, contents),
            _ => continue,
        };
        let pid = contents.owner.pid;
        let mut recovery = Recovery::default();
        recovery.of_file(shared, &name, file, Some(contents))?;
        if let Some((_, why)) = recovery.failed.into_iter().find(|(failed, _)| failed == target) {
            return Err(JournalError::Stuck { target: target.to_owned(), pid, why });
        }
    }
    Ok(())
}
