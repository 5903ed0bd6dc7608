//! Opening the file and writing to it.

use crate::error::{LockError, StoreError};
use crate::lock::{self, RunLock};
use crate::record::{RunRecord, TrialEntry};
use crate::run_id::RunId;
use crate::schema;
use baremark_model::document::LookRow;
use baremark_model::imported::Imported;
use baremark_model::units::UnixTime;
use rusqlite::{Connection, ErrorCode, OpenFlags, params};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(10);
/// Names that are drawn before giving up; two runs that begin in one minute share a name once in 65,536.
const DRAWS: u32 = 8;

/// One file of runs.
#[derive(Debug)]
pub struct Store {
    pub(crate) connection: Connection,
    pub(crate) path: PathBuf,
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
        let store = Store { connection, path: path.to_owned() };
        store.check_writable()?;
        store.check_intact()?;
        Ok(store)
    }

    /// Opens the store at `path` for reading only; makes and changes nothing, and works in a read-only folder too.
    ///
    /// # Errors
    /// When there is no such file, or it is not ours, later than us, or damaged.
    pub fn open_read_only(path: impl AsRef<Path>) -> Result<Store, StoreError> {
        let path = path.as_ref();
        if let Err(why) = fs::metadata(path) {
            return Err(match why.kind() {
                io::ErrorKind::NotFound => StoreError::Missing(path.to_owned()),
                _ => StoreError::Path { what: "read", path: path.to_owned(), why },
            });
        }
        schema::peek(path)?;
        let connection = match read_only(path, "") {
            Err(StoreError::Sqlite { .. } | StoreError::ReadOnly(_)) if !beside(path, "-wal").exists() => {
                read_only(path, "&immutable=1")?
            }
            opened => opened?,
        };
        let store = Store { connection, path: path.to_owned() };
        if schema::check(&store.connection, path)? == 0 {
            return Err(StoreError::Missing(path.to_owned()));
        }
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
        let plan = json("the plan", &record.plan)?;
        let machine = json("the machine's facts", &record.machine)?;
        let insert = |id: &RunId| {
            self.connection.execute(
                "INSERT INTO run (id, title, study_file, study_text, plan, cells, machine, version, started_ns)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
                params![
                    id.as_str(),
                    record.plan.title,
                    record.study_file,
                    record.study_text,
                    plan,
                    whole(record.plan.cells.len()),
                    machine,
                    record.version,
                    whole(record.started.0),
                ],
            )
        };
        for _ in 0..DRAWS {
            let id = record.id.clone().unwrap_or_else(|| RunId::generate(record.started));
            match insert(&id) {
                Ok(_) => return Ok(id),
                Err(why) if why.sqlite_error_code() == Some(ErrorCode::ConstraintViolation) => {
                    if record.id.is_some() {
                        return Err(StoreError::Duplicate(format!("run {id}")));
                    }
                }
                Err(why) => return Err(self.fail("begin a run", why)),
            }
        }
        Err(StoreError::Duplicate(format!("{DRAWS} names drawn for a run at {}", record.started)))
    }

    /// Takes the lock of `run`; the run is live until the lock is dropped or the process dies. The run need not exist
    /// yet: who locks before [`Store::create_run`] never leaves a moment in which the run looks killed.
    ///
    /// # Errors
    /// [`LockError::Live`] when another process, or another lock of this one, holds it.
    pub fn lock(&self, run: &RunId) -> Result<RunLock, LockError> {
        lock::take(&self.path, run)
    }

    /// Stores a trial. When this returns, the trial is on the disk.
    ///
    /// # Errors
    /// When its place is taken, the run is unknown, a value in it cannot be read back (NaN, infinity), or the file
    /// cannot be written; then nothing of it is stored.
    pub fn add_trial(&self, run: &RunId, trial: &TrialEntry<'_>) -> Result<(), StoreError> {
        let what = format!("trial {} of run {run}", trial.seq);
        let (spec, status) = (json(&what, trial.spec)?, json(&what, trial.status)?);
        let result = trial.result.map(|result| json(&what, result)).transpose()?;
        let inserted = self.connection.execute(
            "INSERT INTO trial (run, seq, block, cell, started_ns, elapsed_ns, status, spec, result)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
            params![
                run.as_str(),
                whole(trial.seq),
                whole(trial.block),
                whole(trial.cell),
                whole(trial.started.0),
                whole(trial.elapsed.0),
                status,
                spec,
                result,
            ],
        );
        self.inserted(run, what, inserted)
    }

    /// Stores one look at the estimates.
    ///
    /// # Errors
    /// When the run is unknown or the file cannot be written.
    pub fn add_look(&self, run: &RunId, look: &LookRow) -> Result<(), StoreError> {
        let inserted = self.connection.execute(
            "INSERT INTO look (run, seq, blocks, half_width, independent, decision)
             VALUES (?1, (SELECT count(*) FROM look WHERE run = ?1), ?2, ?3, ?4, ?5)",
            params![run.as_str(), whole(look.blocks), look.half_width, look.independent, look.decision],
        );
        self.inserted(run, format!("a look of run {run}"), inserted)
    }

    /// Stores what another program observed during a run.
    ///
    /// # Errors
    /// When the run is unknown or the file cannot be written.
    pub fn add_imported(&self, run: &RunId, imported: &Imported) -> Result<(), StoreError> {
        let what = format!("what {} observed during run {run}", imported.program);
        let data = json(&what, imported)?;
        let inserted = self.connection.execute(
            "INSERT INTO imported (run, seq, program, data)
             VALUES (?1, (SELECT count(*) FROM imported WHERE run = ?1), ?2, ?3)",
            params![run.as_str(), imported.program, data],
        );
        self.inserted(run, what, inserted)
    }

    /// Ends a run. A run that is resumed later ends again, and the last end counts.
    ///
    /// # Errors
    /// When the run is unknown or the file cannot be written.
    pub fn finish(&self, run: &RunId, ended: UnixTime, stop_reason: &str) -> Result<(), StoreError> {
        let changed = self.connection.execute(
            "UPDATE run SET ended_ns = ?2, stop_reason = ?3 WHERE id = ?1",
            params![run.as_str(), whole(ended.0), stop_reason],
        );
        match changed.map_err(|why| self.fail("end the run", why))? {
            0 => Err(self.no_such(run)),
            _ => Ok(()),
        }
    }

    /// Deletes a run with everything that was stored of it.
    ///
    /// # Errors
    /// When it is live or unknown, or the file cannot be written.
    pub fn delete(&self, run: &RunId) -> Result<(), StoreError> {
        let _held = self.lock(run)?;
        let changed = self.connection.execute("DELETE FROM run WHERE id = ?1", [run.as_str()]);
        match changed.map_err(|why| self.fail("delete the run", why))? {
            0 => Err(self.no_such(run)),
            _ => Ok(()),
        }
    }

    pub(crate) fn fail(&self, what: &'static str, why: rusqlite::Error) -> StoreError {
        StoreError::sqlite(&self.path, what, why)
    }

    fn inserted(&self, run: &RunId, what: String, inserted: rusqlite::Result<usize>) -> Result<(), StoreError> {
        let Err(why) = inserted else { return Ok(()) };
        match why.sqlite_error().map(|failure| failure.extended_code) {
            Some(rusqlite::ffi::SQLITE_CONSTRAINT_FOREIGNKEY) => Err(self.no_such(run)),
            Some(rusqlite::ffi::SQLITE_CONSTRAINT_UNIQUE) => Err(StoreError::Duplicate(what)),
            _ => Err(self.fail("add to the run", why)),
        }
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
            self.connection.query_row("PRAGMA integrity_check(run)", (), |row| row.get(0)).map_err(fail)?;
        if sound != "ok" || pages == 0 {
            return Err(StoreError::Corrupt { path: self.path.clone(), what: sound });
        }
        Ok(())
    }
}

/// Makes the folder and the file, private to the user, where they are missing. SQLite gives its side files the same mode.
fn make(path: &Path) -> Result<(), StoreError> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    if let Some(folder) = folder.filter(|folder| !folder.exists()) {
        DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(|why| refused("make", folder, why))?;
    }
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Ok(_) => Ok(()),
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

/// `path` with `suffix`: SQLite's own side files.
fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

fn read_only(path: &Path, extra: &str) -> Result<Connection, StoreError> {
    let fail = |why| StoreError::sqlite(path, "open the store", why);
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let address = format!("file:{}?mode=ro{extra}", escaped(path));
    let connection = Connection::open_with_flags(address, flags).map_err(fail)?;
    connection.busy_timeout(PATIENCE).map_err(fail)?;
    connection.query_row("SELECT count(*) FROM sqlite_schema", (), |_| Ok(())).map_err(fail)?;
    Ok(connection)
}

/// A path as SQLite's `file:` names want it: everything but the plainest characters in percent form.
fn escaped(path: &Path) -> String {
    use std::fmt::Write;
    use std::os::unix::ffi::OsStrExt;
    path.as_os_str().as_bytes().iter().fold(String::new(), |mut text, &byte| {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' => text.push(char::from(byte)),
            _ => drop(write!(text, "%{byte:02x}")),
        }
        text
    })
}

/// A count as SQLite holds it. What is counted here (trials, nanoseconds since 1970) stays below 2^63.
fn whole(count: impl TryInto<i64>) -> i64 {
    count.try_into().unwrap_or(i64::MAX)
}

/// `value` as JSON that reads back: JSON has no NaN and no infinity, and what cannot be read later is refused now.
fn json<T: Serialize + DeserializeOwned>(what: &str, value: &T) -> Result<String, StoreError> {
    let written = serde_json::to_string(value);
    let read = written.and_then(|text| serde_json::from_str::<T>(&text).map(|_| text));
    read.map_err(|why| StoreError::Unwritable {
        what: what.to_owned(),
        why: format!("{why} (NaN and infinity have no JSON)"),
    })
}
