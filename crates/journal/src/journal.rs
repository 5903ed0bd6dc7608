//! The journal of this process: changes are recorded, made, held and undone.

use crate::change::{Change, Kind, Undone};
use crate::error::{JournalError, MakeError};
use crate::folder::Folder;
use crate::recovery::{self, Recovery};
use crate::shared::Shared;
use baremark_sys::point;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// The journal of this process in a folder that all owners share. Clones are the same journal, and so is what is opened again.
#[derive(Clone)]
pub struct Journal {
    shared: Arc<Shared>,
}

/// The journals of this process that are open, by the identity of their folder.
static OPEN: Mutex<Vec<(Identity, Weak<Shared>)>> = Mutex::new(Vec::new());
/// Device and number of a folder.
type Identity = (u64, u64);

impl std::fmt::Debug for Journal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Journal").field("folder", &self.shared.folder).finish_non_exhaustive()
    }
}

impl Journal {
    /// The journal in `folder`, which is made when it does not exist. `kinds` are the types of changes that it can make and undo. A process has
    /// one journal in a folder: opened again it is the same, which can undo the kinds of both. No file is written before the first change.
    ///
    /// # Errors
    /// When the folder cannot be made or somebody else can write it.
    pub fn open(folder: impl Into<PathBuf>, kinds: Vec<Box<dyn Kind>>) -> Result<Journal, JournalError> {
        let folder = Folder::open(&folder.into())?;
        let identity = folder.identity()?;
        let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|(_, journal)| journal.strong_count() > 0);
        let there = open.iter().find(|(other, _)| *other == identity).and_then(|(_, journal)| journal.upgrade());
        let shared = there.unwrap_or_else(|| {
            let new = Arc::new(Shared::new(folder));
            open.push((identity, Arc::downgrade(&new)));
            new
        });
        shared.add(kinds);
        Ok(Journal { shared })
    }

    /// Records `change`, then makes it by `make`. What `make` returns comes with the hold on the change. When `make` fails, whatever it
    /// had made is undone.
    ///
    /// # Errors
    /// When the change cannot be recorded, a live process holds the same target, or `make` fails.
    pub fn make<T, E>(&self, change: Change, make: impl FnOnce() -> Result<T, E>) -> Result<(T, Held), MakeError<E>> {
        let Change { kind, target, details } = change;
        self.make_from(kind, target, || Ok(details), |_| make())
    }

    /// As [`Journal::make`], of a change whose details depend on what is there: `look` is called when nobody else holds the target and
    /// what a dead owner left of it is undone.
    ///
    /// # Errors
    /// As [`Journal::make`], and when `look` fails.
    pub fn make_from<T, E>(
        &self,
        kind: String,
        target: String,
        look: impl FnOnce() -> Result<serde_json::Value, E>,
        make: impl FnOnce(&serde_json::Value) -> Result<T, E>,
    ) -> Result<(T, Held), MakeError<E>> {
        let shared = &self.shared;
        shared.kind(&kind)?;
        let mut held = {
            let _lock = shared.folder.lock()?;
            self.free(&target)?;
            let change = Change { kind, target, details: look().map_err(MakeError::Change)? };
            let (id, pid) = (shared.record(&change)?, std::process::id());
            Held { shared: Arc::clone(shared), id: Some(id), change, pid }
        };
        point::reached("change-recorded");
        match make(&held.change.details) {
            Ok(made) => Ok((made, held)),
            Err(why) => {
                held.end()?;
                Err(MakeError::Change(why))
            }
        }
    }

    /// Undoes what owners left that have ended, newest first, and says what became of each. Safe alongside other processes that make
    /// changes or recover.
    ///
    /// # Errors
    /// When the folder cannot be read or locked. A file that cannot be read is in [`Recovery::refused`].
    pub fn recover(&self) -> Result<Recovery, JournalError> {
        let lock = self.shared.folder.lock()?;
        recovery::all(&self.shared, &lock)
    }

    /// As [`Journal::recover`], without waiting: `None` where another process records a change or recovers.
    ///
    /// # Errors
    /// As [`Journal::recover`].
    pub fn recover_at_once(&self) -> Result<Option<Recovery>, JournalError> {
        self.shared.folder.lock_at_once()?.map(|lock| recovery::all(&self.shared, &lock)).transpose()
    }

    /// Whether nobody else holds `target`; what a dead owner left of it is undone. The folder is locked.
    fn free(&self, target: &str) -> Result<(), JournalError> {
        let shared = &self.shared;
        if shared.writing().open.iter().any(|(_, change)| change.target == target) {
            return Err(JournalError::Held { target: target.to_owned(), pid: std::process::id() });
        }
        recovery::free(shared, target)
    }
}

/// A change that was made. Dropping it undoes it; what cannot be undone stays recorded, and the next start tries again.
#[must_use = "dropping this undoes the change"]
pub struct Held {
    shared: Arc<Shared>,
    id: Option<u64>,
    change: Change,
    pid: u32,
}

impl std::fmt::Debug for Held {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Held").field("change", &self.change).finish_non_exhaustive()
    }
}

impl Held {
    /// The change.
    #[must_use]
    pub fn change(&self) -> &Change {
        &self.change
    }

    /// Undoes the change and says what was found.
    ///
    /// # Errors
    /// When it cannot be undone now; the record is kept.
    pub fn undo(mut self) -> Result<Undone, JournalError> {
        self.end()
    }

    /// Notes that the change is there no more: what made it has undone it.
    ///
    /// # Errors
    /// When that cannot be written; the record is kept.
    pub fn gone(mut self) -> Result<(), JournalError> {
        match self.id.take() {
            Some(id) if self.is_ours() => self.shared.forget(id),
            _ => Ok(()),
        }
    }

    /// A forked child has a copy of this and not the right to undo it.
    fn is_ours(&self) -> bool {
        std::process::id() == self.pid
    }

    fn end(&mut self) -> Result<Undone, JournalError> {
        let Some(id) = self.id.take().filter(|_| self.is_ours()) else { return Ok(Undone::Absent) };
        let kind = self.shared.kind(&self.change.kind)?;
        let undone = kind
            .undo(&self.change.details)
            .map_err(|source| JournalError::Undo { target: self.change.target.clone(), source })?;
        self.shared.forget(id)?;
        Ok(undone)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        drop(self.end());
    }
}
