//! Opening the file and writing to it.

use crate::apart::{self, PATIENCE, beside, read_only};
use crate::error::{LockError, StoreError};
use crate::heads::{self, Head};
use crate::lock::{self, RunLock, Turn};
use crate::record::{EXAMINED, FORMAT, RunRecord, TrialEntry};
use crate::rows;
use crate::run_id::RunId;
use crate::schema;
use baremark_model::document::LookRow;
use baremark_model::imported::Imported;
use baremark_model::plan::Plan;
use baremark_model::second_look::SecondLook;
use baremark_model::units::UnixTime;
use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension, Transaction, TransactionBehavior, params};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeSet;
use std::fs::{DirBuilder, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Names that are drawn before giving up; two runs that begin in one minute are given one name once in 4,294,967,296.
const DRAWS: u32 = 8;

/// One file of runs.
#[derive(Debug)]
pub struct Store {
    pub(crate) connection: Connection,
    pub(crate) path: PathBuf,
    /// Whether its rows have checksums: those of a file of an earlier schema that is only read have none.
    pub(crate) checksummed: bool,
}

impl Store {
    /// Opens the store at `path` for reading and writing; makes the folder (0700) and the file (0600) where they are
    /// missing, and brings an older schema up to date.
    ///
    /// # Errors
    /// When the file is not ours, later than us, damaged, read-only, or cannot be made; each with what to do.
    pub fn open(path: impl AsRef<Path>) -> Result<Store, StoreError> {
        let path = path.as_ref();
        make(path)?;
        schema::regular(path)?;
        let interrupted = beside(path, "-journal").exists();
        if !interrupted {
            schema::peek(path)?;
        }
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let fail = |why| StoreError::sqlite(path, "open the store", why);
        let mut connection = Connection::open_with_flags(path, flags).map_err(fail)?;
        connection.busy_timeout(PATIENCE).map_err(fail)?;
        schema::migrate(&mut connection, path)?;
        let settings = "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON;";
        connection.execute_batch(settings).map_err(fail)?;
        let store = Store { connection, path: path.to_owned(), checksummed: true };
        store.check_writable()?;
        store.check_intact()?;
        lock::sweep(path);
        Ok(store)
    }

    /// Opens the store at `path` for reading only; changes nothing, and works in a read-only folder and on a full disk too.
    ///
    /// # Errors
    /// When there is no such file, or it is not ours, later than us, or damaged.
    pub fn open_read_only(path: impl AsRef<Path>) -> Result<Store, StoreError> {
        let path = path.as_ref();
        schema::regular(path)?;
        schema::peek(path)?;
        let connection = match read_only(path, "") {
            Err(StoreError::Sqlite { .. } | StoreError::ReadOnly(_) | StoreError::Full { .. }) => apart::open(path)?,
            opened => opened?,
        };
        let version = schema::check(&connection, path)?;
        if version == 0 {
            return Err(StoreError::Missing(path.to_owned()));
        }
        let checksummed = schema::present(&connection, path, version)?;
        let store = Store { connection, path: path.to_owned(), checksummed };
        store.check_intact()?;
        Ok(store)
    }

    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Begins a run. Its name is the record's own, or drawn here.
    ///
    /// # Errors
    /// When a run of that name is there, or the file cannot be written.
    pub fn create_run(&self, record: &RunRecord) -> Result<RunId, StoreError> {
        let documents = documents_of(record)?;
        for _ in 0..DRAWS {
            let id = record.id.clone().unwrap_or_else(|| RunId::generate(record.started));
            match self.create(head_of(record, &id), &documents) {
                Err(StoreError::Duplicate(_)) if record.id.is_none() => {}
                created => return created.map(|()| id),
            }
        }
        Err(none_free(record))
    }

    /// Begins a run under a name that is drawn, and holds its lock before anybody can see it.
    ///
    /// # Errors
    /// When the lock cannot be taken, or the file cannot be written.
    pub fn begin_run(&self, record: &RunRecord) -> Result<(RunId, RunLock), StoreError> {
        self.begin_named(record, || RunId::generate(record.started))
    }

    /// The same with names from `draw`. One that is taken, or whose lock is held, is drawn again.
    fn begin_named(&self, record: &RunRecord, mut draw: impl FnMut() -> RunId) -> Result<(RunId, RunLock), StoreError> {
        let documents = documents_of(record)?;
        for _ in 0..DRAWS {
            let id = draw();
            let lock = match self.lock(&id) {
                Err(LockError::Live { .. }) => continue,
                lock => lock?,
            };
            match self.create(head_of(record, &id), &documents) {
                Err(StoreError::Duplicate(_)) => {}
                created => return created.map(|()| (id, lock)),
            }
        }
        Err(none_free(record))
    }

    /// Stores a new head with its documents.
    pub(crate) fn create(&self, mut head: Head, documents: &[(&str, String)]) -> Result<(), StoreError> {
        let id = head.id.clone();
        let mut store = || {
            let change = self.change()?;
            for (part, text) in documents {
                head.add(put_document(&change, &id, part, text)?);
            }
            head.insert(&change)?;
            change.commit()
        };
        let stored: rusqlite::Result<()> = store();
        stored.map_err(|why| match why.sqlite_error_code() {
            Some(ErrorCode::ConstraintViolation) => StoreError::Duplicate(format!("run {id}")),
            _ => self.fail("begin a run", why),
        })
    }

    /// Takes the lock of `run`; the run is live until the lock is dropped or the process dies. The run need not exist
    /// yet: who locks before [`Store::create_run`] never leaves a moment in which the run looks killed.
    ///
    /// # Errors
    /// [`LockError::Live`] when another process, or another lock of this one, holds it.
    pub fn lock(&self, run: &RunId) -> Result<RunLock, LockError> {
        lock::take(&self.path, run)
    }

    /// The names of the runs on which living processes work, in order.
    #[must_use]
    pub fn live(&self) -> BTreeSet<String> {
        lock::held(&self.path)
    }

    /// Takes the turn of those who wait for other runs to end; `None` while another process has it. Whoever has it waits until
    /// [`Store::live`] is empty, locks a run, and drops it.
    ///
    /// # Errors
    /// When the file of the queue cannot be made or locked.
    pub fn turn(&self) -> Result<Option<Turn>, LockError> {
        lock::turn(&self.path)
    }

    /// Stores a trial. When this returns, the trial is on the disk.
    ///
    /// # Errors
    /// When its place is taken, the run is unknown or damaged, a value in it cannot be read back (NaN, infinity), or the
    /// file cannot be written; then nothing of it is stored.
    pub fn add_trial(&self, run: &RunId, trial: &TrialEntry<'_>) -> Result<(), StoreError> {
        self.batch(run, |batch| batch.add_trial(trial))
    }

    /// Why a row called `what` was not added.
    pub(crate) fn not_added(&self, why: rusqlite::Error, what: String) -> StoreError {
        match why.sqlite_error().map(|failure| failure.extended_code) {
            Some(rusqlite::ffi::SQLITE_CONSTRAINT_UNIQUE) => StoreError::Duplicate(what),
            _ => self.fail("add to the run", why),
        }
    }

    /// Stores one interim analysis.
    ///
    /// # Errors
    /// When the run is unknown or damaged, or the file cannot be written.
    pub fn add_look(&self, run: &RunId, look: &LookRow) -> Result<(), StoreError> {
        self.append(run, format!("a look of run {run}"), |connection, head| {
            let (blocks, independent) = (whole(look.blocks), i64::from(!look.correlated));
            let checksum = rows::look(run, [head.looks, blocks, independent], look.half_width, &look.decision);
            connection.execute(
                "INSERT INTO look (run, seq, blocks, half_width, independent, decision, checksum)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
                params![run.as_str(), head.looks, blocks, look.half_width, independent, look.decision, checksum],
            )?;
            head.looks += 1;
            Ok(checksum)
        })
    }

    /// Stores what was examined after the last block of a run, in the place of what was before it was extended.
    ///
    /// # Errors
    /// When the run is unknown or damaged, a value cannot be read back (NaN, infinity), or the file cannot be written.
    pub fn set_examined(&self, run: &RunId, examined: &SecondLook) -> Result<(), StoreError> {
        let text = json("what was examined", examined)?;
        let fail = |why| self.fail("add to the run", why);
        let change = self.change().map_err(fail)?;
        let mut head = self.writable(&change, run)?;
        replace_document(&change, &mut head, EXAMINED, &text).map_err(fail)?;
        head.update(&change).and_then(|()| change.commit()).map_err(fail)
    }

    /// Stores what another program observed during a run.
    ///
    /// # Errors
    /// When the run is unknown or damaged, or the file cannot be written.
    pub fn add_imported(&self, run: &RunId, imported: &Imported) -> Result<(), StoreError> {
        let what = format!("what {} observed during run {run}", imported.program);
        let data = json(&what, imported)?;
        self.append(run, what, |connection, head| {
            let checksum = rows::imported(run, head.imports, &imported.program, &data);
            connection.execute(
                "INSERT INTO imported (run, seq, program, data, checksum) VALUES (?1, ?2, ?3, ?4, ?5)",
                params![run.as_str(), head.imports, imported.program, data, checksum],
            )?;
            head.imports += 1;
            Ok(checksum)
        })
    }

    /// Ends a run. A run that is resumed later ends again, and the last end counts.
    ///
    /// # Errors
    /// When the run is unknown or damaged, or the file cannot be written.
    pub fn finish(&self, run: &RunId, ended: UnixTime, stop_reason: &str) -> Result<(), StoreError> {
        self.amend(run, |head| head.end(heads::COMPLETE, Some(whole(ended.0)), stop_reason))
    }

    /// Notes that the user stopped a run, which has not come to its end and can be resumed.
    ///
    /// # Errors
    /// When the run is unknown or damaged, or the file cannot be written.
    pub fn interrupt(&self, run: &RunId, stop_reason: &str) -> Result<(), StoreError> {
        self.amend(run, |head| head.end(heads::INTERRUPTED, None, stop_reason))
    }

    /// Ends a run in which nothing could be measured; it can be resumed when the cause is gone.
    ///
    /// # Errors
    /// When the run is unknown or damaged, or the file cannot be written.
    pub fn fail_run(&self, run: &RunId, ended: UnixTime, stop_reason: &str) -> Result<(), StoreError> {
        self.amend(run, |head| head.end(heads::FAILED, Some(whole(ended.0)), stop_reason))
    }

    /// Whether this version may add to a run.
    ///
    /// # Errors
    /// When it is unknown or damaged, or of another format than this version writes.
    pub fn may_be_resumed(&self, run: &RunId) -> Result<(), StoreError> {
        self.writable(&self.connection, run).map(drop)
    }

    /// Notes that a run continues.
    ///
    /// # Errors
    /// When it is unknown or damaged, of another format than this version writes, or the file cannot be written.
    pub fn reopen(&self, run: &RunId) -> Result<(), StoreError> {
        self.amend(run, Head::reopen)
    }

    /// Gives a run another study and plan, of the same trials, and notes that it continues. All of it is stored, or nothing.
    ///
    /// # Errors
    /// When the run is unknown or damaged, of another format than this version writes, or the file cannot be written.
    pub fn extend(&self, run: &RunId, study_text: &str, plan: &Plan) -> Result<(), StoreError> {
        let plan = json("the plan", plan)?;
        let fail = |why| self.fail("extend the run", why);
        let change = self.change().map_err(fail)?;
        let mut head = self.writable(&change, run)?;
        let mut replace = |part, text: &str| replace_document(&change, &mut head, part, text);
        replace("study", study_text).and_then(|()| replace("plan", &plan)).map_err(fail)?;
        head.reopen();
        head.update(&change).and_then(|()| change.commit()).map_err(fail)
    }

    /// Deletes a run with everything that was stored of it.
    ///
    /// # Errors
    /// When it is live or unknown, or the file cannot be written.
    pub fn delete(&self, run: &RunId) -> Result<(), StoreError> {
        let _held = self.lock(run)?;
        let fail = |why| self.fail("delete the run", why);
        let change = self.change().map_err(fail)?;
        let Some(found) = heads::one(&change, run).map_err(fail)? else { return Err(self.no_such(run)) };
        change.execute("DELETE FROM document WHERE owner = ?1", [run.as_str()]).map_err(fail)?;
        found.head.delete(&change).and_then(|()| change.commit()).map_err(fail)
    }

    /// Adds a row to a run: `insert` stores it, counts it in the head, and gives its checksum. All of it is stored, or
    /// nothing.
    pub(crate) fn append(
        &self,
        run: &RunId,
        what: String,
        insert: impl FnOnce(&Connection, &mut Head) -> rusqlite::Result<u32>,
    ) -> Result<(), StoreError> {
        let fail = |why: rusqlite::Error| self.not_added(why, what.clone());
        let change = self.change().map_err(fail)?;
        let mut head = self.writable(&change, run)?;
        let checksum = insert(&change, &mut head).map_err(fail)?;
        head.add(checksum);
        head.update(&change).and_then(|()| change.commit()).map_err(fail)
    }

    /// Changes a head.
    pub(crate) fn amend(&self, run: &RunId, alter: impl FnOnce(&mut Head)) -> Result<(), StoreError> {
        let fail = |why| self.fail("end the run", why);
        let change = self.change().map_err(fail)?;
        let mut head = self.writable(&change, run)?;
        alter(&mut head);
        head.update(&change).and_then(|()| change.commit()).map_err(fail)
    }

    /// The head of a run to which this version may add.
    pub(crate) fn writable(&self, connection: &Connection, run: &RunId) -> Result<Head, StoreError> {
        let head = self.head(connection, run)?;
        if head.format != FORMAT {
            let remedy = "it can be shown and compared; to measure, begin a new run";
            let (run, found) = (run.clone(), head.format);
            return Err(StoreError::Format { run, found, does: "writes", known: FORMAT, remedy });
        }
        Ok(head)
    }

    pub(crate) fn change(&self) -> rusqlite::Result<Transaction<'_>> {
        Transaction::new_unchecked(&self.connection, TransactionBehavior::Immediate)
    }

    pub(crate) fn fail(&self, what: &'static str, why: rusqlite::Error) -> StoreError {
        StoreError::sqlite(&self.path, what, why)
    }

    /// A store that is opened for writing and cannot be written is told so now, not after the first trial.
    fn check_writable(&self) -> Result<(), StoreError> {
        match self.connection.execute_batch("BEGIN IMMEDIATE; ROLLBACK") {
            Ok(()) if self.connection.is_readonly("main").unwrap_or(false) => {
                Err(StoreError::ReadOnly(self.path.clone()))
            }
            Ok(()) => Ok(()),
            Err(why) => Err(self.fail("write to the store", why)),
        }
    }

    /// The page structure of the small tables: finds a file that was cut off or overwritten, at a cost that does not grow
    /// with the trials in it.
    fn check_intact(&self) -> Result<(), StoreError> {
        let fail = |why| self.fail("check the store", why);
        let pages: i64 = self.connection.query_row("PRAGMA page_count", (), |row| row.get(0)).map_err(fail)?;
        let sound: String =
            self.connection.query_row("PRAGMA main.integrity_check(run)", (), |row| row.get(0)).map_err(fail)?;
        if sound != "ok" || pages == 0 {
            return Err(StoreError::Corrupt { path: self.path.clone(), what: sound });
        }
        Ok(())
    }
}

/// The documents of a run that begins.
fn documents_of(record: &RunRecord) -> Result<[(&'static str, String); 3], StoreError> {
    Ok([
        ("study", record.study_text.clone()),
        ("plan", json("the plan", &record.plan)?),
        ("machine", json("the machine's facts", &record.machine)?),
    ])
}

/// The head of a run that begins.
fn head_of(record: &RunRecord, id: &RunId) -> Head {
    Head {
        format: FORMAT,
        kind: heads::STUDY.to_owned(),
        title: record.plan.title.clone(),
        study_file: record.study_file.clone(),
        version: record.version.clone(),
        cells: whole(record.plan.cells.len()),
        started_ns: whole(record.started.0),
        ..Head::empty(id.clone())
    }
}

fn none_free(record: &RunRecord) -> StoreError {
    StoreError::Duplicate(format!("{DRAWS} names drawn for a run at {}", record.started))
}

/// Makes the folder and the file, private to the user, where they are missing. SQLite gives its side files the same mode.
fn make(path: &Path) -> Result<(), StoreError> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    if let Some(folder) = folder.filter(|folder| !folder.exists()) {
        DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(|why| refused("make", folder, why))?;
    }
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Ok(_) => Ok(()),
        // What it is, is looked at before it is opened.
        Err(why) if why.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(why) => Err(refused("make", path, why)),
    }
}

fn refused(what: &'static str, path: &Path, why: io::Error) -> StoreError {
    match why.kind() {
        io::ErrorKind::ReadOnlyFilesystem => StoreError::ReadOnly(path.to_owned()),
        io::ErrorKind::StorageFull => StoreError::Full { path: path.to_owned(), what: why.to_string() },
        _ => StoreError::Path { what, path: path.to_owned(), why },
    }
}

/// Stores a text that belongs to a run; its checksum.
pub(crate) fn put_document(connection: &Connection, owner: &RunId, part: &str, text: &str) -> rusqlite::Result<u32> {
    let checksum = rows::document(owner, part, text);
    connection.execute(
        "INSERT INTO document (owner, part, text, checksum) VALUES (?1, ?2, ?3, ?4)",
        params![owner.as_str(), part, text, checksum],
    )?;
    Ok(checksum)
}

/// Stores a text that belongs to a run in the place of the one that was there, if there was one, and counts it in the head.
fn replace_document(connection: &Connection, head: &mut Head, part: &str, text: &str) -> rusqlite::Result<()> {
    let owner = head.id.clone();
    let of_part = "owner = ?1 AND part = ?2";
    let key = params![owner.as_str(), part];
    let old = format!("SELECT checksum FROM document WHERE {of_part}");
    match connection.query_row(&old, key, |row| row.get::<_, Option<u32>>(0)).optional()? {
        Some(Some(checksum)) => head.remove(checksum),
        Some(None) => head.unverified -= 1,
        None => {}
    }
    connection.execute(&format!("DELETE FROM document WHERE {of_part}"), key)?;
    head.add(put_document(connection, &owner, part, text)?);
    Ok(())
}

/// A count as SQLite holds it. What is counted here (trials, nanoseconds since 1970) stays below 2^63.
pub(crate) fn whole(count: impl TryInto<i64>) -> i64 {
    count.try_into().unwrap_or(i64::MAX)
}

/// `value` as JSON that reads back: JSON has no NaN and no infinity, and what cannot be read later is refused now.
pub(crate) fn json<T: Serialize + DeserializeOwned>(what: &str, value: &T) -> Result<String, StoreError> {
    let written = serde_json::to_string(value);
    let read = written.and_then(|text| serde_json::from_slice::<T>(text.as_bytes()).map(|_| text));
    read.map_err(|why| StoreError::Unwritable {
        what: what.to_owned(),
        why: format!("{why} (NaN and infinity have no JSON)"),
    })
}

/// `value` as JSON of which nothing is read back.
pub(crate) fn written(what: &str, value: &impl Serialize) -> Result<String, StoreError> {
    serde_json::to_string(value).map_err(|why| StoreError::Unwritable { what: what.to_owned(), why: why.to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_taken_or_held_is_drawn_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = Store::open(folder.path().join("db")).expect("opens");
        let id = |text: &str| text.parse::<RunId>().expect("a name");
        store.create(Head { format: FORMAT, ..Head::empty(id("taken")) }, &[]).expect("stored");
        let held = store.lock(&id("held")).expect("free");
        let mut names = ["taken", "held", "free", "other"].map(id).into_iter();
        let (drawn, lock) = store.begin_named(&record(), || names.next().expect("a name")).expect("begun");
        assert_eq!(drawn, id("free"));
        assert!(store.live().contains("free") && !store.live().contains("taken"));
        drop((held, lock));
        let never = store.begin_named(&record(), || id("taken")).expect_err("eight times taken").to_string();
        assert!(never.starts_with("8 names drawn for a run at 1970-01-01"), "{never}");
        let (other, _lock) = store.begin_run(&record()).expect("begun");
        assert!(other.as_str().starts_with("19700101-0000-"), "{other}");
    }

    fn record() -> RunRecord {
        let plan = "{\"title\":\"t\",\"published\":null,\"workload\":\"w\",\"metric\":\"m\",\"factors\":[],\"rows\":null,\"columns\":\"c\",\
                    \"arms\":[],\"pairs\":[],\"cells\":[],\"absent\":[],\"cpus\":[],\"mode\":{\"quick\":false,\"self_check\":false},\
                    \"design\":{\"precision\":0.01,\"delta\":0.02,\"budget_ns\":0,\"phase_ns\":0,\"quads\":1,\"least_blocks\":1,\
                    \"most_blocks\":1,\"seed\":1}}";
        RunRecord {
            id: None,
            study_file: String::new(),
            study_text: String::new(),
            plan: serde_json::from_str(plan).expect("a plan"),
            machine: Default::default(),
            version: String::new(),
            started: UnixTime(0),
        }
    }

    #[test]
    fn a_run_of_another_format_is_refused_with_both() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = Store::open(folder.path().join("db")).expect("opens");
        let id = "a".parse::<RunId>().expect("a name");
        let head = Head { format: FORMAT, kind: heads::STUDY.to_owned(), started_ns: 1, ..Head::empty(id.clone()) };
        store.create(head, &[]).expect("stored");
        store.may_be_resumed(&id).expect("its own format");
        let said = |format| {
            let mut head = heads::one(&store.connection, &id).expect("read").expect("there").head;
            head.format = format;
            store.connection.execute("DELETE FROM run", ()).expect("deleted");
            store.connection.execute("UPDATE tally SET runs = 0", ()).expect("counted");
            head.insert(&store.connection).expect("stored");
            let why = store.may_be_resumed(&id).expect_err("another format");
            (why.to_string(), store.head(&store.connection, &id).is_ok())
        };
        let older = format!(
            "run a has format {}, this baremark writes format {FORMAT}; it can be shown and compared; to measure, begin a new run",
            FORMAT - 1
        );
        assert_eq!(said(FORMAT - 1), (older, true));
        let newer = format!(
            "run a has format {}, this baremark reads up to format {FORMAT}; use the newer baremark",
            FORMAT + 1
        );
        assert_eq!(said(FORMAT + 1), (newer, false));
    }
}
