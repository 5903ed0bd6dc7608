//! The journal of this process: changes are recorded, made, held and undone.

use crate::change::{Change, Kind, Undone};
use crate::error::{JournalError, MakeError};
use crate::folder::{ENDING, Folder};
use crate::owner::Owner;
use crate::record::{FORMAT, Record};
use baremark_sys::point;
use baremark_sys::registry::random_word;
use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// The journal of this process in a folder that all owners share. Clones are the same journal, and so is what is opened again.
#[derive(Clone)]
pub struct Journal {
    pub(crate) shared: Arc<Shared>,
}

/// The journals of this process that are open, by the identity of their folder.
static OPEN: Mutex<Vec<(Identity, Weak<Shared>)>> = Mutex::new(Vec::new());
/// Device and number of a folder.
type Identity = (u64, u64);

pub(crate) struct Shared {
    pub(crate) folder: Folder,
    kinds: Mutex<Vec<Arc<dyn Kind>>>,
    writing: Mutex<Writing>,
}

/// What this process has written. A copy of it that fork(2) made begins anew: the file is its parent's.
struct Writing {
    pid: u32,
    file: Option<(File, String)>,
    next: u64,
    open: Vec<(u64, Change)>,
}

impl Writing {
    fn new() -> Writing {
        Writing { pid: std::process::id(), file: None, next: 0, open: Vec::new() }
    }
}

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
            let new = Shared { folder, kinds: Mutex::default(), writing: Mutex::new(Writing::new()) };
            let new = Arc::new(new);
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

    /// Whether nobody else holds `target`; what a dead owner left of it is undone. The folder is locked.
    fn free(&self, target: &str) -> Result<(), JournalError> {
        let shared = &self.shared;
        if shared.writing().open.iter().any(|(_, change)| change.target == target) {
            return Err(JournalError::Held { target: target.to_owned(), pid: std::process::id() });
        }
        crate::recovery::free(shared, target)
    }
}

impl Shared {
    fn add(&self, kinds: Vec<Box<dyn Kind>>) {
        let mut known = self.kinds.lock().unwrap_or_else(PoisonError::into_inner);
        for kind in kinds {
            if known.iter().all(|other| other.name() != kind.name()) {
                known.push(kind.into());
            }
        }
    }

    fn writing(&self) -> MutexGuard<'_, Writing> {
        let mut writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        if writing.pid != std::process::id() {
            *writing = Writing::new();
        }
        writing
    }

    pub(crate) fn kind(&self, name: &str) -> Result<Arc<dyn Kind>, JournalError> {
        let kinds = self.kinds.lock().unwrap_or_else(PoisonError::into_inner);
        let found = kinds.iter().find(|kind| kind.name() == name).map(Arc::clone);
        found.ok_or_else(|| JournalError::UnknownKind(name.to_owned()))
    }

    /// The name of this process's own file, if it has one.
    pub(crate) fn own(&self) -> Option<String> {
        self.writing().file.as_ref().map(|(_, name)| name.clone())
    }

    /// Appends a change, durably.
    fn record(&self, change: &Change) -> Result<u64, JournalError> {
        let mut writing = self.writing();
        if writing.file.is_none() {
            writing.file = Some(self.create()?);
        }
        let id = writing.next;
        self.append(&writing, &Record::Make { id, change: change.clone() })?;
        writing.next += 1;
        writing.open.push((id, change.clone()));
        Ok(id)
    }

    /// Notes that a change is no more; the file goes with the last.
    fn forget(&self, id: u64) -> Result<(), JournalError> {
        let mut writing = self.writing();
        if writing.open.iter().any(|(other, _)| *other != id) {
            self.append(&writing, &Record::Undone { id })?;
        }
        writing.open.retain(|(other, _)| *other != id);
        if writing.open.is_empty()
            && let Some((file, name)) = writing.file.take()
        {
            // It is locked until it has no name any more: who opened it before sees that.
            self.folder.remove(&name)?;
            drop(file);
        }
        Ok(())
    }

    /// A file with its first line, locked for as long as this process lives.
    fn create(&self) -> Result<(File, String), JournalError> {
        let owner = Owner::this().map_err(JournalError::io("finding out who this process is", "/proc/self"))?;
        let word = random_word().map_err(JournalError::io("reading", "/proc/sys/kernel/random/uuid"))?;
        let name = format!("{}-{word}{ENDING}", owner.pid);
        let file = self.folder.create(&name, &Record::Owner { format: FORMAT, owner }.line())?;
        Ok((file, name))
    }

    fn append(&self, writing: &Writing, record: &Record) -> Result<(), JournalError> {
        let Some((file, name)) = &writing.file else { return Ok(()) };
        append(file, record).map_err(JournalError::io("writing", self.folder.path().join(name)))
    }
}

/// Appends a line, durably.
pub(crate) fn append(mut file: &File, record: &Record) -> std::io::Result<()> {
    file.write_all(record.line().as_bytes())?;
    file.sync_data()
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
