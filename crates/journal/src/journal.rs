//! The journal of this process: changes are recorded, made, held and undone.

use crate::change::{Change, Kind, Undone};
use crate::error::{JournalError, MakeError};
use crate::owner::Owner;
use crate::record::{Contents, FORMAT, LONGEST, Record};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// The end of the names of files with records.
pub(crate) const ENDING: &str = "journal";
const LOCK: &str = "lock";

/// The journal of this process in a folder that all owners share. Clones are the same journal.
#[derive(Clone)]
pub struct Journal {
    pub(crate) shared: Arc<Shared>,
}

pub(crate) struct Shared {
    pub(crate) folder: PathBuf,
    pub(crate) kinds: Vec<Box<dyn Kind>>,
    pub(crate) owner: Owner,
    writing: Mutex<Writing>,
}

#[derive(Default)]
struct Writing {
    file: Option<(File, PathBuf)>,
    next: u64,
    open: Vec<(u64, Change)>,
}

impl std::fmt::Debug for Journal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Journal").field("folder", &self.shared.folder).field("owner", &self.shared.owner).finish()
    }
}

impl Journal {
    /// The journal in `folder`, which is made when it does not exist. `kinds` are the types of changes that it can make and undo. No
    /// file is written before the first change.
    ///
    /// # Errors
    /// When the folder cannot be made or somebody else can write it.
    pub fn open(folder: impl Into<PathBuf>, kinds: Vec<Box<dyn Kind>>) -> Result<Journal, JournalError> {
        let folder = folder.into();
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&folder)
            .map_err(JournalError::io("making the folder of the journal", &folder))?;
        is_ours(&folder)?;
        let owner = Owner::this().map_err(JournalError::io("finding out who this process is", "/proc/self"))?;
        Ok(Journal { shared: Arc::new(Shared { folder, kinds, owner, writing: Mutex::default() }) })
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
        let _lock = shared.lock()?;
        self.free(&target)?;
        let change = Change { kind, target, details: look().map_err(MakeError::Change)? };
        let id = shared.record(&change)?;
        let mut held = Held { shared: Arc::clone(shared), id: Some(id), change, pid: shared.owner.pid };
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
            return Err(JournalError::Held { target: target.to_owned(), pid: shared.owner.pid });
        }
        crate::recovery::free(shared, target)
    }
}

impl Shared {
    fn writing(&self) -> std::sync::MutexGuard<'_, Writing> {
        self.writing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn kind(&self, name: &str) -> Result<&dyn Kind, JournalError> {
        let found = self.kinds.iter().find(|kind| kind.name() == name);
        found.map(AsRef::as_ref).ok_or_else(|| JournalError::UnknownKind(name.to_owned()))
    }

    /// Held while a change is made or others' are undone; the kernel gives it up when this process ends.
    pub(crate) fn lock(&self) -> Result<File, JournalError> {
        let path = self.folder.join(LOCK);
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(0o600)
            .open(&path)
            .map_err(JournalError::io("opening the lock", &path))?;
        file.lock().map_err(JournalError::io("locking", path))?;
        Ok(file)
    }

    /// Appends a change, durably.
    fn record(&self, change: &Change) -> Result<u64, JournalError> {
        let mut writing = self.writing();
        if writing.file.is_none() {
            writing.file = Some(self.create()?);
        }
        let id = writing.next;
        append(&writing, &Record::Make { id, change: change.clone() })?;
        writing.next += 1;
        writing.open.push((id, change.clone()));
        Ok(id)
    }

    /// Notes that a change is no more; the file goes with the last.
    fn forget(&self, id: u64) -> Result<(), JournalError> {
        let mut writing = self.writing();
        append(&writing, &Record::Undone { id })?;
        writing.open.retain(|(other, _)| *other != id);
        if writing.open.is_empty()
            && let Some((_, path)) = writing.file.take()
        {
            fs::remove_file(&path).map_err(JournalError::io("removing", path))?;
        }
        Ok(())
    }

    /// A file whose first line is complete before it has its name.
    fn create(&self) -> Result<(File, PathBuf), JournalError> {
        let path = self.folder.join(format!("{}-{}.{ENDING}", self.owner.pid, self.owner.start));
        let unfinished = path.with_extension("new");
        let mut file = OpenOptions::new()
            .create(true)
            .truncate(true)
            .write(true)
            .mode(0o600)
            .open(&unfinished)
            .map_err(JournalError::io("making", &unfinished))?;
        let first = Record::Owner { format: FORMAT, owner: self.owner.clone() }.line();
        file.write_all(first.as_bytes())
            .and_then(|()| file.sync_all())
            .and_then(|()| fs::rename(&unfinished, &path))
            .and_then(|()| File::open(&self.folder)?.sync_all())
            .map_err(JournalError::io("writing", &path))?;
        Ok((file, path))
    }
}

fn append(writing: &Writing, record: &Record) -> Result<(), JournalError> {
    let Some((file, path)) = &writing.file else { return Ok(()) };
    let mut file = file;
    let written = file.write_all(record.line().as_bytes()).and_then(|()| file.sync_data());
    written.map_err(JournalError::io("writing", path))
}

/// Refuses a folder that somebody else can write: its records are obeyed.
fn is_ours(folder: &Path) -> Result<(), JournalError> {
    let facts = fs::symlink_metadata(folder).map_err(JournalError::io("looking at", folder))?;
    let this = fs::metadata("/proc/self").map_err(JournalError::io("finding out who this process is", "/proc/self"))?;
    let why = if !facts.is_dir() {
        "it is not a folder".to_owned()
    } else if facts.uid() != this.uid() {
        format!("it belongs to user {}", facts.uid())
    } else if facts.mode() & 0o022 != 0 {
        format!("its mode is {:o}", facts.mode() & 0o777)
    } else {
        return Ok(());
    };
    Err(JournalError::Unsafe { path: folder.to_owned(), why })
}

/// Reads a file of records.
pub(crate) fn read(path: &Path) -> Result<Contents, JournalError> {
    let reading = JournalError::io("reading", path);
    let mut bytes = Vec::new();
    let file = match File::open(path) {
        Ok(file) => file,
        Err(why) => return Err(reading(why)),
    };
    match file.take(LONGEST + 1).read_to_end(&mut bytes) {
        Ok(length) if length as u64 > LONGEST => {
            let what = format!("it is longer than {LONGEST} bytes");
            Err(reading(std::io::Error::new(std::io::ErrorKind::InvalidData, what)))
        }
        Ok(_) => Ok(Contents::parse(&bytes)),
        Err(why) => Err(reading(why)),
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
        let Some(id) = self.id.take() else { return Ok(()) };
        self.shared.forget(id)
    }

    fn end(&mut self) -> Result<Undone, JournalError> {
        let Some(id) = self.id.take() else { return Ok(Undone::Absent) };
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
        // A forked child has a copy of this and not the right to undo it.
        if std::process::id() == self.pid {
            drop(self.end());
        }
    }
}
