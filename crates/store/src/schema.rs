//! The tables, and how a file comes to have them.
//!
//! `application_id` says that a file is ours, `user_version` which schema it has. Migrations are run one after the other
//! in one transaction; a file of a later version, or somebody else's, is refused before anything is written to it.

use crate::error::StoreError;
use rusqlite::{Connection, TransactionBehavior};
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// "bmrk", big-endian, at byte 68 of every store.
const APPLICATION_ID: i64 = 0x626d_726b;
const MAGIC: &[u8; 16] = b"SQLite format 3\0";
const HEADER: usize = 100;

/// The schema's history: the n-th text brings a file from version n to n + 1. Never changed, only added to.
const MIGRATIONS: &[&str] = &[
    "
CREATE TABLE run (
    id          TEXT PRIMARY KEY,
    title       TEXT NOT NULL,
    study_file  TEXT NOT NULL,
    study_text  TEXT NOT NULL,
    plan        TEXT NOT NULL,      -- JSON
    cells       INTEGER NOT NULL,   -- trials in each block
    machine     TEXT NOT NULL,      -- JSON
    version     TEXT NOT NULL,
    started_ns  INTEGER NOT NULL,   -- since 1970-01-01 UTC
    ended_ns    INTEGER,
    stop_reason TEXT
) STRICT;
CREATE INDEX run_started ON run (started_ns);
CREATE TABLE trial (
    run         TEXT NOT NULL REFERENCES run (id) ON DELETE CASCADE,
    seq         INTEGER NOT NULL,   -- place in the run, from 0
    block       INTEGER NOT NULL,
    cell        INTEGER NOT NULL,
    started_ns  INTEGER NOT NULL,
    elapsed_ns  INTEGER NOT NULL,
    status      TEXT NOT NULL,      -- JSON
    spec        TEXT NOT NULL,      -- JSON
    result      TEXT,               -- JSON
    UNIQUE (run, seq)
) STRICT;
CREATE INDEX trial_block ON trial (run, block, cell);
CREATE TABLE look (
    run         TEXT NOT NULL REFERENCES run (id) ON DELETE CASCADE,
    seq         INTEGER NOT NULL,
    blocks      INTEGER NOT NULL,
    half_width  REAL,
    independent INTEGER NOT NULL,
    decision    TEXT NOT NULL,
    UNIQUE (run, seq)
) STRICT;
",
    "
CREATE TABLE load (
    id          TEXT PRIMARY KEY,
    kind        TEXT NOT NULL,      -- the format of its document
    title       TEXT NOT NULL,
    asked       TEXT NOT NULL,      -- JSON
    machine     TEXT NOT NULL,      -- JSON
    version     TEXT NOT NULL,
    started_ns  INTEGER NOT NULL,   -- since 1970-01-01 UTC
    ended_ns    INTEGER,
    stop_reason TEXT,
    document    TEXT                -- JSON
) STRICT;
CREATE INDEX load_started ON load (started_ns);
CREATE TABLE load_second (
    load        TEXT NOT NULL REFERENCES load (id) ON DELETE CASCADE,
    seq         INTEGER NOT NULL,
    row         TEXT NOT NULL,      -- JSON
    UNIQUE (load, seq)
) STRICT;
",
];

/// The schema that this version writes.
pub(crate) fn latest() -> i64 {
    i64::try_from(MIGRATIONS.len()).unwrap_or(i64::MAX)
}

/// Refuses what is plainly somebody else's by its first bytes, before SQLite touches it.
pub(crate) fn peek(path: &Path) -> Result<(), StoreError> {
    let fail = |why| StoreError::Path { what: "read", path: path.to_owned(), why };
    let mut header = Vec::new();
    File::open(path).map_err(fail)?.take(HEADER as u64).read_to_end(&mut header).map_err(fail)?;
    let foreign = |what: &str| Err(StoreError::NotAStore { path: path.to_owned(), what: what.to_owned() });
    if header.is_empty() {
        return Ok(());
    }
    if !header.starts_with(MAGIC) {
        return foreign("no SQLite file");
    }
    if header.len() < HEADER {
        return Err(StoreError::Corrupt { path: path.to_owned(), what: "cut off inside its header".to_owned() });
    }
    let mut id = [0_u8; 4];
    id.copy_from_slice(&header[68..72]);
    if i64::from(u32::from_be_bytes(id)) != APPLICATION_ID {
        return foreign("another program's SQLite file");
    }
    Ok(())
}

/// Brings a file that is ours, or empty, to the latest schema.
pub(crate) fn migrate(connection: &mut Connection, path: &Path) -> Result<(), StoreError> {
    if check(connection, path)? == latest() {
        return Ok(());
    }
    let fail = |why| StoreError::sqlite(path, "bring the schema up to date", why);
    let change = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(fail)?;
    let from = usize::try_from(check(&change, path)?).unwrap_or(MIGRATIONS.len());
    for migration in &MIGRATIONS[from..] {
        change.execute_batch(migration).map_err(fail)?;
    }
    change.pragma_update(None, "application_id", APPLICATION_ID).map_err(fail)?;
    change.pragma_update(None, "user_version", latest()).map_err(fail)?;
    change.commit().map_err(fail)
}

/// The file's schema; refuses a foreign file and a later schema.
pub(crate) fn check(connection: &Connection, path: &Path) -> Result<i64, StoreError> {
    let fail = |why| StoreError::sqlite(path, "read the schema", why);
    let number = |sql: &str| connection.query_row(sql, (), |row| row.get::<_, i64>(0)).map_err(fail);
    let tables = number("SELECT count(*) FROM sqlite_schema")?;
    let (id, version) = (number("PRAGMA application_id")?, number("PRAGMA user_version")?);
    if id != APPLICATION_ID && (id != 0 || version != 0 || tables != 0) {
        let what = "another program's SQLite file".to_owned();
        return Err(StoreError::NotAStore { path: path.to_owned(), what });
    }
    if !(0..=latest()).contains(&version) {
        return Err(StoreError::Newer { path: path.to_owned(), found: version, known: latest() });
    }
    Ok(version)
}
