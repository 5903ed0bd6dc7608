//! `SQLite`, embedded: the database is in this process, and its data in one file with a write-ahead log alongside it.
//!
//! It has one writer at a time. Writers of this process wait for each other at a lock, first come first served as far as
//! the system wakes them so, because `SQLite` itself lets them poll with sleeps. Its transactions are serializable.

use crate::database::{Access, Cell, Class, Connection, Database, Dialect, Failure, Param, Rows};
use rusqlite::types::ValueRef;
use rusqlite::{CachedStatement, ErrorCode, OpenFlags, Statement, ToSql};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// How long a connection waits for one of another process.
const BUSY_LIMIT: Duration = Duration::from_secs(30);
/// Prepared statements that a connection keeps.
const STATEMENTS: usize = 64;

/// When a commit is on the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Synchronous {
    /// Every commit is synced: durable.
    Full,
    /// Checkpoints are synced: the last commits may be lost when the machine crashes.
    Normal,
    /// Nothing is: the database may be lost when the machine crashes.
    Off,
}

/// A file with a database.
pub struct Sqlite {
    path: PathBuf,
    synchronous: Synchronous,
    cache_bytes: u64,
    writers: Arc<Writers>,
}

/// Lets one writer in at a time.
#[derive(Default)]
struct Writers {
    busy: Mutex<bool>,
    free: Condvar,
}

impl Writers {
    fn enter(&self) {
        let busy = self.busy.lock().unwrap_or_else(PoisonError::into_inner);
        let mut busy = self.free.wait_while(busy, |busy| *busy).unwrap_or_else(PoisonError::into_inner);
        *busy = true;
    }

    fn leave(&self) {
        *self.busy.lock().unwrap_or_else(PoisonError::into_inner) = false;
        self.free.notify_one();
    }
}

impl Sqlite {
    /// The database in the file `path`, which is made when it does not exist; each connection caches `cache_bytes`.
    #[must_use]
    pub fn new(path: PathBuf, synchronous: Synchronous, cache_bytes: u64) -> Sqlite {
        Sqlite { path, synchronous, cache_bytes, writers: Arc::default() }
    }
}

impl Database for Sqlite {
    fn dialect(&self) -> Dialect {
        Dialect::Sqlite
    }

    fn connect(&self) -> Result<Box<dyn Connection>, Failure> {
        let flags = OpenFlags::default() | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = rusqlite::Connection::open_with_flags(&self.path, flags).map_err(failure)?;
        connection.busy_timeout(BUSY_LIMIT).map_err(failure)?;
        connection.set_prepared_statement_cache_capacity(STATEMENTS);
        let synchronous = match self.synchronous {
            Synchronous::Full => "full",
            Synchronous::Normal => "normal",
            Synchronous::Off => "off",
        };
        let settings = format!(
            "pragma journal_mode = wal; pragma synchronous = {synchronous}; pragma cache_size = -{}; pragma temp_store = memory;",
            self.cache_bytes / 1024
        );
        connection.execute_batch(&settings).map_err(failure)?;
        Ok(Box::new(Connected {
            connection,
            statements: Vec::new(),
            writers: Arc::clone(&self.writers),
            writes: false,
        }))
    }
}

struct Connected {
    connection: rusqlite::Connection,
    statements: Vec<String>,
    writers: Arc<Writers>,
    /// It is in a transaction that may write.
    writes: bool,
}

impl Connected {
    fn leave(&mut self) {
        if std::mem::take(&mut self.writes) {
            self.writers.leave();
        }
    }

    fn cached(&self, sql: &str) -> Result<CachedStatement<'_>, Failure> {
        self.connection.prepare_cached(sql).map_err(failure)
    }

    fn run(&self, sql: &str) -> Result<(), Failure> {
        self.cached(sql)?.raw_execute().map(drop).map_err(failure)
    }
}

impl Drop for Connected {
    fn drop(&mut self) {
        self.leave();
    }
}

impl Connection for Connected {
    fn prepare(&mut self, statements: &[String]) -> Result<(), Failure> {
        self.statements = statements.to_vec();
        statements.iter().try_for_each(|sql| self.cached(sql).map(drop))
    }

    fn execute(&mut self, statement: usize, params: &[Param<'_>], rows: &mut Rows) -> Result<u64, Failure> {
        let sql = self.statements.get(statement).ok_or_else(|| Failure::other("no such statement"))?;
        let mut statement = self.cached(sql)?;
        for (index, param) in params.iter().enumerate() {
            let bound = match param {
                Param::Null => statement.raw_bind_parameter(index + 1, rusqlite::types::Null),
                Param::Int(number) => statement.raw_bind_parameter(index + 1, number),
                Param::Text(text) => statement.raw_bind_parameter(index + 1, text),
            };
            bound.map_err(failure)?;
        }
        if statement.column_count() == 0 {
            rows.reset(0);
            return statement.raw_execute().map(|count| count as u64).map_err(failure);
        }
        read(&mut statement, rows)
    }

    fn begin(&mut self, access: Access) -> Result<(), Failure> {
        if access == Access::Read {
            return self.run("begin");
        }
        self.writers.enter();
        self.writes = true;
        self.run("begin immediate").inspect_err(|_| self.leave())
    }

    fn commit(&mut self) -> Result<(), Failure> {
        let done = self.run("commit");
        if done.is_ok() {
            self.leave();
        }
        done
    }

    fn rollback(&mut self) -> Result<(), Failure> {
        // Some errors have rolled back already.
        let done = if self.connection.is_autocommit() { Ok(()) } else { self.run("rollback") };
        self.leave();
        done
    }

    fn script(&mut self, sql: &str) -> Result<(), Failure> {
        self.connection.execute_batch(sql).map_err(failure)
    }

    fn query(&mut self, sql: &str, rows: &mut Rows) -> Result<(), Failure> {
        let mut statement = self.connection.prepare(sql).map_err(failure)?;
        read(&mut statement, rows).map(drop)
    }

    fn insert(&mut self, table: &str, width: usize, cells: &[Cell]) -> Result<(), Failure> {
        self.begin(Access::Write)?;
        let sql = format!("insert into {table} values ({})", vec!["?"; width].join(","));
        let inserted = insert_rows(&self.connection, &sql, width, cells);
        match inserted {
            Ok(()) => self.commit(),
            Err(why) => {
                self.rollback()?;
                Err(why)
            }
        }
    }
}

fn insert_rows(connection: &rusqlite::Connection, sql: &str, width: usize, cells: &[Cell]) -> Result<(), Failure> {
    let mut statement = connection.prepare_cached(sql).map_err(failure)?;
    for row in cells.chunks_exact(width) {
        for (index, cell) in row.iter().enumerate() {
            let value: &dyn ToSql = match cell {
                Cell::Null => &rusqlite::types::Null,
                Cell::Int(number) => number,
                Cell::Text(text) => text,
            };
            statement.raw_bind_parameter(index + 1, value).map_err(failure)?;
        }
        statement.raw_execute().map_err(failure)?;
    }
    Ok(())
}

fn read(statement: &mut Statement<'_>, rows: &mut Rows) -> Result<u64, Failure> {
    let width = statement.column_count();
    rows.reset(width);
    let mut found = statement.raw_query();
    while let Some(row) = found.next().map_err(failure)? {
        for column in 0..width {
            rows.cells.push(match row.get_ref(column).map_err(failure)? {
                ValueRef::Integer(number) => Cell::Int(number),
                ValueRef::Text(bytes) | ValueRef::Blob(bytes) => {
                    Cell::Text(String::from_utf8_lossy(bytes).into_owned())
                }
                ValueRef::Real(number) => Cell::Text(number.to_string()),
                ValueRef::Null => Cell::Null,
            });
        }
    }
    Ok(rows.len() as u64)
}

fn failure(why: rusqlite::Error) -> Failure {
    // What cannot be written, or what connections share cannot be made larger.
    let unwritten = [rusqlite::ffi::SQLITE_IOERR_WRITE, rusqlite::ffi::SQLITE_IOERR_SHMSIZE];
    if why.sqlite_error().is_some_and(|error| unwritten.contains(&error.extended_code)) {
        return Failure::new(Class::Resource, format!("{why}; the disk may be full"));
    }
    let class = match why.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Class::Serialization,
        Some(ErrorCode::ConstraintViolation) => Class::Constraint,
        Some(ErrorCode::DiskFull | ErrorCode::OutOfMemory) => Class::Resource,
        _ => Class::Other,
    };
    Failure::new(class, why)
}
