//! The tables, and how a file comes to have them.
//!
//! `application_id` says that a file is ours, `user_version` which schema it has. Migrations are run one after the other
//! in one transaction; a file of a later version, or somebody else's, is refused before anything is written to it.

use crate::error::StoreError;
use crate::heads;
use rusqlite::{Connection, TransactionBehavior};
use std::fs::{self, File};
use std::io::{self, Read};
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
    "
CREATE TABLE imported (
    run         TEXT NOT NULL REFERENCES run (id) ON DELETE CASCADE,
    seq         INTEGER NOT NULL,
    program     TEXT NOT NULL,
    data        TEXT NOT NULL,      -- JSON
    UNIQUE (run, seq)
) STRICT;
",
    "
CREATE TABLE document (             -- texts that a list does not need
    owner       TEXT NOT NULL,      -- a run or load
    part        TEXT NOT NULL,      -- study, plan, machine; asked and result of a load
    text        TEXT NOT NULL,      -- JSON, but for study
    checksum    INTEGER,            -- of the row, as in every table; NULL in rows of an earlier version
    UNIQUE (owner, part)
) STRICT;
INSERT INTO document (owner, part, text)
    SELECT id, 'study', study_text FROM run UNION ALL
    SELECT id, 'plan', plan FROM run UNION ALL
    SELECT id, 'machine', machine FROM run UNION ALL
    SELECT id, 'asked', asked FROM load UNION ALL
    SELECT id, 'machine', machine FROM load UNION ALL
    SELECT id, 'result', document FROM load WHERE document IS NOT NULL;
DROP INDEX run_started;
ALTER TABLE run ADD COLUMN format     INTEGER NOT NULL DEFAULT 1;   -- of the documents that belong to it
ALTER TABLE run ADD COLUMN kind       TEXT NOT NULL DEFAULT 'study'; -- of a load the format of its result
ALTER TABLE run ADD COLUMN outcome    TEXT;                         -- complete, interrupted or failed
ALTER TABLE run ADD COLUMN trials     INTEGER NOT NULL DEFAULT 0;
ALTER TABLE run ADD COLUMN blocks     INTEGER NOT NULL DEFAULT 0;   -- complete ones
ALTER TABLE run ADD COLUMN looks      INTEGER NOT NULL DEFAULT 0;
ALTER TABLE run ADD COLUMN imports    INTEGER NOT NULL DEFAULT 0;
ALTER TABLE run ADD COLUMN seconds    INTEGER NOT NULL DEFAULT 0;
ALTER TABLE run ADD COLUMN unverified INTEGER NOT NULL DEFAULT 0;   -- rows without a checksum
ALTER TABLE run ADD COLUMN contents   INTEGER NOT NULL DEFAULT 0;   -- sum of the checksums of all its rows, modulo 2^32
ALTER TABLE run ADD COLUMN checksum   INTEGER;
UPDATE run SET
    outcome = CASE WHEN ended_ns IS NULL THEN NULL ELSE 'complete' END,
    trials = (SELECT count(*) FROM trial WHERE run = run.id),
    blocks = (SELECT count(*) FROM (SELECT 1 FROM trial WHERE run = run.id
                                    GROUP BY block HAVING count(DISTINCT cell) >= run.cells)),
    looks = (SELECT count(*) FROM look WHERE run = run.id),
    imports = (SELECT count(*) FROM imported WHERE run = run.id);
ALTER TABLE run DROP COLUMN study_text;
ALTER TABLE run DROP COLUMN plan;
ALTER TABLE run DROP COLUMN machine;
CREATE TABLE second (
    run         TEXT NOT NULL REFERENCES run (id) ON DELETE CASCADE,
    seq         INTEGER NOT NULL,
    row         TEXT NOT NULL,      -- JSON
    checksum    INTEGER,
    UNIQUE (run, seq)
) STRICT;
INSERT INTO run (id, kind, title, study_file, cells, version, started_ns, ended_ns, stop_reason, outcome, seconds)
    SELECT id, kind, title, '', 0, version, started_ns, ended_ns, stop_reason,
           CASE WHEN ended_ns IS NULL THEN NULL ELSE 'complete' END,
           (SELECT count(*) FROM load_second WHERE load = load.id)
    FROM load;
INSERT INTO second (run, seq, row) SELECT load, seq, row FROM load_second;
DROP TABLE load_second;
DROP TABLE load;
UPDATE run SET
    unverified = trials + looks + imports + seconds + (SELECT count(*) FROM document WHERE owner = run.id);
ALTER TABLE trial ADD COLUMN checksum INTEGER;
ALTER TABLE look ADD COLUMN checksum INTEGER;
ALTER TABLE imported ADD COLUMN checksum INTEGER;
CREATE TABLE tally (                -- one row: how many runs there are
    runs        INTEGER NOT NULL,
    ids         INTEGER NOT NULL,   -- sum of the checksums of their names, modulo 2^32
    checksum    INTEGER NOT NULL
) STRICT;
",
];

/// The first schema whose rows have checksums.
const CHECKSUMMED: i64 = 4;

/// The schema that this version writes.
pub(crate) fn latest() -> i64 {
    i64::try_from(MIGRATIONS.len()).unwrap_or(i64::MAX)
}

/// Refuses what is not a regular file: a pipe would be waited for, and a device read for ever.
pub(crate) fn regular(path: &Path) -> Result<(), StoreError> {
    match fs::metadata(path) {
        Ok(it) if it.is_file() => Ok(()),
        Ok(_) => Err(StoreError::NotAStore { path: path.to_owned(), what: "not a regular file".to_owned() }),
        Err(why) if why.kind() == io::ErrorKind::NotFound => Err(StoreError::Missing(path.to_owned())),
        Err(why) => Err(StoreError::Path { what: "read", path: path.to_owned(), why }),
    }
}

/// Refuses what is plainly somebody else's by its first bytes, before SQLite touches it.
pub(crate) fn peek(path: &Path) -> Result<(), StoreError> {
    let fail = |why| StoreError::Path { what: "read", path: path.to_owned(), why };
    let foreign = |what: &str| Err(StoreError::NotAStore { path: path.to_owned(), what: what.to_owned() });
    let mut header = Vec::new();
    File::open(path).map_err(fail)?.take(HEADER as u64).read_to_end(&mut header).map_err(fail)?;
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
    if from < usize::try_from(CHECKSUMMED).unwrap_or(usize::MAX) {
        heads::seal(&change).map_err(fail)?;
    }
    change.pragma_update(None, "application_id", APPLICATION_ID).map_err(fail)?;
    change.pragma_update(None, "user_version", latest()).map_err(fail)?;
    change.commit().map_err(fail)
}

/// Lets a file of an earlier schema, opened for reading only, be read as one of the latest: by temporary views of the names
/// and columns that it lacks. Whether its rows have checksums.
pub(crate) fn present(connection: &Connection, path: &Path, version: i64) -> Result<bool, StoreError> {
    if version >= CHECKSUMMED {
        return Ok(true);
    }
    let fail = |why| StoreError::sqlite(path, "read the earlier schema", why);
    connection.execute_batch("PRAGMA temp_store = MEMORY").map_err(fail)?;
    connection.execute_batch(&views(version)).map_err(fail)?;
    Ok(false)
}

/// The temporary views for a file of schema 1 to 3.
fn views(version: i64) -> String {
    let (loads, imports) = (version >= 2, version >= 3);
    let imported = if imports { "(SELECT count(*) FROM main.imported AS i WHERE i.run = r.id)" } else { "0" };
    let documents = "
CREATE TEMP VIEW document AS
    SELECT id AS owner, 'study' AS part, study_text AS text, NULL AS checksum FROM main.run UNION ALL
    SELECT id, 'plan', plan, NULL FROM main.run UNION ALL
    SELECT id, 'machine', machine, NULL FROM main.run";
    let of_loads = " UNION ALL
    SELECT id, 'asked', asked, NULL FROM main.load UNION ALL
    SELECT id, 'machine', machine, NULL FROM main.load UNION ALL
    SELECT id, 'result', document, NULL FROM main.load WHERE document IS NOT NULL";
    let heads = format!(
        "
CREATE TEMP VIEW run AS
    SELECT id, 1 AS format, 'study' AS kind, title, study_file, version, cells, started_ns, ended_ns,
           CASE WHEN ended_ns IS NULL THEN NULL ELSE 'complete' END AS outcome, stop_reason,
           (SELECT count(*) FROM main.trial AS t WHERE t.run = r.id) AS trials,
           (SELECT count(*) FROM (SELECT 1 FROM main.trial AS t WHERE t.run = r.id
                                  GROUP BY block HAVING count(DISTINCT cell) >= r.cells)) AS blocks,
           (SELECT count(*) FROM main.look AS l WHERE l.run = r.id) AS looks,
           {imported} AS imports, 0 AS seconds, 1 AS unverified, 0 AS contents, NULL AS checksum
    FROM main.run AS r"
    );
    let heads_of_loads = " UNION ALL
    SELECT id, 1, kind, title, '', version, 0, started_ns, ended_ns,
           CASE WHEN ended_ns IS NULL THEN NULL ELSE 'complete' END, stop_reason, 0, 0, 0, 0,
           (SELECT count(*) FROM main.load_second AS s WHERE s.load = r.id), 1, 0, NULL
    FROM main.load AS r";
    let seconds = if loads { "load AS run, seq, row, NULL AS checksum FROM main.load_second" } else { NOTHING };
    let imported = if imports { "*, NULL AS checksum FROM main.imported" } else { NOTHING };
    let with = |first: &str, then: &str| format!("{first}{};", if loads { then } else { "" });
    format!(
        "{}{}
CREATE TEMP VIEW second AS SELECT {seconds};
CREATE TEMP VIEW imported AS SELECT {imported};
CREATE TEMP VIEW trial AS SELECT *, NULL AS checksum FROM main.trial;
CREATE TEMP VIEW look AS SELECT *, NULL AS checksum FROM main.look;",
        with(documents, of_loads),
        with(&heads, heads_of_loads),
    )
}

/// The columns of tables that an early schema lacks, of no row.
const NOTHING: &str = "'' AS run, 0 AS seq, '' AS program, '' AS data, '' AS row, NULL AS checksum WHERE 0";

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

#[cfg(test)]
mod tests {
    use super::*;

    /// A file of an earlier schema with what that could hold: a finished run with a trial and a look, and a load.
    fn earlier(version: usize) -> Connection {
        let connection = Connection::open_in_memory().expect("memory");
        let run = |sql: &str| connection.execute_batch(sql).expect("valid SQL");
        MIGRATIONS[..version].iter().for_each(|migration| run(migration));
        run(
            "INSERT INTO run VALUES ('a', 'title', 'file', 'text', '{}', 2, '{\"hostname\":null}', '0.1.0', 5, 9, 'done')",
        );
        run("INSERT INTO trial VALUES ('a', 0, 0, 0, 5, 1, '{}', '{}', NULL), ('a', 1, 0, 1, 6, 1, '{}', '{}', '{}')");
        run("INSERT INTO look VALUES ('a', 0, 1, 0.5, 1, 'continue')");
        if version >= 2 {
            run("INSERT INTO load VALUES ('b', 'kind', 'url', '{}', '{}', '0.1.0', 7, NULL, NULL, NULL)");
            run("INSERT INTO load_second VALUES ('b', 0, '{}')");
        }
        if version >= 3 {
            run("INSERT INTO imported VALUES ('a', 0, 'esxtop', '{}')");
        }
        run(&format!("PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {version}"));
        connection
    }

    /// Everything in the tables of the latest schema but for checksums and what only the migrated file counts.
    fn told(connection: &Connection) -> Vec<String> {
        [
            "SELECT id, format, kind, title, study_file, version, cells, started_ns, ended_ns, outcome, stop_reason,
                    trials, blocks, looks, imports, seconds FROM run ORDER BY id",
            "SELECT owner, part, text FROM document ORDER BY owner, part",
            "SELECT run, seq, block, cell, started_ns, elapsed_ns, status, spec, result FROM trial ORDER BY seq",
            "SELECT run, seq, blocks, half_width, independent, decision FROM look",
            "SELECT run, seq, program, data FROM imported",
            "SELECT run, seq, row FROM second",
        ]
        .iter()
        .map(|sql| {
            let mut select = connection.prepare(sql).expect("the column is there");
            let columns = select.column_count();
            let row =
                |row: &rusqlite::Row<'_>| (0..columns).map(|at| row.get::<_, rusqlite::types::Value>(at)).collect();
            let rows: Vec<Vec<_>> = select.query_map((), row).expect("rows").collect::<Result<_, _>>().expect("values");
            format!("{rows:?}")
        })
        .collect()
    }

    #[test]
    fn a_file_of_any_earlier_schema_tells_the_same_when_only_read_as_when_brought_up_to_date() {
        for version in 1..MIGRATIONS.len() {
            let (read, mut migrated) = (earlier(version), earlier(version));
            let path = Path::new("memory");
            let number = i64::try_from(version).expect("small");
            assert!(!present(&read, path, number).expect("views"), "no row has a checksum");
            migrate(&mut migrated, path).expect("migrates");
            assert_eq!(told(&read), told(&migrated), "schema {version}");
            assert!(told(&read)[0].contains("Integer(2), Integer(1), Integer(1)"), "{:?}", told(&read)[0]);
            let all = heads::all(&migrated, true).expect("read");
            assert_eq!((all.heads.len(), all.damaged), (1 + usize::from(version >= 2), Vec::new()));
            assert!(all.heads.iter().all(|head| head.unverified > 0));
        }
    }
}
