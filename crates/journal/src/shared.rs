//! What a process has open and has written in a journal's folder.

use crate::change::{Change, Kind};
use crate::error::JournalError;
use crate::folder::{ENDING, Folder};
use crate::owner::Owner;
use crate::record::{FORMAT, Record};
use baremark_sys::registry::random_word;
use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What the clones of a journal share.
pub(crate) struct Shared {
    pub(crate) folder: Folder,
    kinds: Mutex<Vec<Arc<dyn Kind>>>,
    writing: Mutex<Writing>,
}

/// What this process has written. A copy of it that fork(2) made begins anew: the file is its parent's.
pub(crate) struct Writing {
    pid: u32,
    file: Option<(File, String)>,
    next: u64,
    pub(crate) open: Vec<(u64, Change)>,
}

impl Writing {
    fn new() -> Writing {
        Writing { pid: std::process::id(), file: None, next: 0, open: Vec::new() }
    }
}

impl Shared {
    /// Of a process that has written nothing in `folder` yet.
    pub(crate) fn new(folder: Folder) -> Shared {
        Shared { folder, kinds: Mutex::default(), writing: Mutex::new(Writing::new()) }
    }

    pub(crate) fn add(&self, kinds: Vec<Box<dyn Kind>>) {
        let mut known = self.kinds.lock().unwrap_or_else(PoisonError::into_inner);
        for kind in kinds {
            if known.iter().all(|other| other.name() != kind.name()) {
                known.push(kind.into());
            }
        }
    }

    pub(crate) fn writing(&self) -> MutexGuard<'_, Writing> {
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
    pub(crate) fn record(&self, change: &Change) -> Result<u64, JournalError> {
        let mut writing = self.writing();
        if writing.file.is_none() {
            writing.file = Some(self.create()?);
        }
        let id = writing.next;
        writing.next += 1;
        self.append(&writing, &Record::Make { id, change: change.clone() })?;
        writing.open.push((id, change.clone()));
        Ok(id)
    }

    /// Notes that a change is no more; the file goes with the last.
    pub(crate) fn forget(&self, id: u64) -> Result<(), JournalError> {
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

/// Appends a line, durably, or nothing: the next line would be damaged by a part of one that a full disk took, and a line that is there stands for a change.
pub(crate) fn append(mut file: &File, record: &Record) -> std::io::Result<()> {
    let before = file.stream_position()?;
    let written = file.write_all(record.line().as_bytes()).and_then(|()| file.sync_data());
    if written.is_err() {
        // Why it was not written says more.
        drop(file.set_len(before).and_then(|()| file.seek(SeekFrom::Start(before))));
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};

    /// As on a disk that becomes full: the change that was recorded next, when there was room again, was not undone after a kill.
    #[test]
    fn of_a_line_that_does_not_fit_nothing_stays() {
        const PAGE: u64 = 4096;
        let made = memfd_create("baremark-journal", MemfdFlags::ALLOW_SEALING | MemfdFlags::CLOEXEC);
        let file = File::from(made.expect("in memory"));
        file.set_len(PAGE).expect("room for a page");
        fcntl_add_seals(&file, SealFlags::GROW).expect("and for no more");
        let before = PAGE - 8;
        let mut place = &file;
        place.seek(SeekFrom::Start(before)).expect("there is room for 8 bytes");
        append(&file, &Record::Undone { id: 7 }).expect_err("a line is longer");
        assert_eq!(file.metadata().expect("it is open").len(), before);
        assert_eq!(place.stream_position().expect("it is open"), before);
    }
}
