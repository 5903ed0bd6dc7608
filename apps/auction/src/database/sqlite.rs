//! SQLite: the embedded default. One thread writes and commits whatever has queued up with a single sync (group commit);
//! queries run on connections of their own, which never wait for the writer (WAL).
//!
//! Several servers on one machine may share a file: transactions begin IMMEDIATE and wait for each other.

use super::{Address, Database, Dialect, Durability, Fault, Outcome, Row, Rows, Script, Step, Value};
use async_trait::async_trait;
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, ErrorCode, OpenFlags, ToSql, params_from_iter};
use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Duration;
use tokio::sync::oneshot;

/// Scripts that share one commit, at most.
const GROUP: usize = 256;

enum Work {
    Script(Script),
    Insert(&'static str, Vec<Value>),
    Define(Vec<String>),
    Bulk(&'static str, &'static [&'static str], Vec<Vec<Value>>),
}

enum Done {
    Outcome(Outcome),
    Id(i64),
}

struct Job {
    work: Work,
    reply: oneshot::Sender<Result<Done, Fault>>,
}

pub(super) struct Sqlite {
    path: PathBuf,
    durability: Durability,
    patience: Duration,
    readers: Arc<Mutex<Vec<Connection>>>,
    /// As many queries at once as there are connections.
    turn: Arc<tokio::sync::Semaphore>,
    writer: mpsc::Sender<Job>,
}

impl Sqlite {
    pub(super) fn open(address: &Address) -> Result<Self, Fault> {
        let path = PathBuf::from(address.url.strip_prefix("sqlite:").unwrap_or(&address.url));
        create_private(&path)?;
        let connection = connect(&path, address.durability, address.patience)?;
        let (writer, jobs) = mpsc::channel();
        std::thread::Builder::new()
            .name("sqlite-writer".to_owned())
            .spawn(move || write_all(&connection, &jobs))
            .map_err(|why| Fault::Unavailable(why.to_string()))?;
        Ok(Sqlite {
            path,
            durability: address.durability,
            patience: address.patience,
            readers: Arc::default(),
            turn: Arc::new(tokio::sync::Semaphore::new(address.pool.clamp(1, 64))),
            writer,
        })
    }

    async fn write(&self, work: Work) -> Result<Done, Fault> {
        let (reply, answer) = oneshot::channel();
        let gone = || Fault::Unavailable("the writer has ended".to_owned());
        self.writer.send(Job { work, reply }).map_err(|_closed| gone())?;
        answer.await.map_err(|_closed| gone())?
    }
}

/// Makes a database that is not there yet, for its user alone: it holds password hashes, sessions and the servers' common
/// secret. SQLite gives the files next to it the same permissions.
fn create_private(path: &Path) -> Result<(), Fault> {
    // One that exists is not opened: closing it again would let go of locks that this process holds on it.
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Err(why) if why.kind() != io::ErrorKind::AlreadyExists => {
            Err(Fault::Unavailable(format!("{}: {why}", path.display())))
        }
        _ => Ok(()),
    }
}

fn connect(path: &Path, durability: Durability, patience: Duration) -> Result<Connection, Fault> {
    let open = || -> rusqlite::Result<Connection> {
        // The path is one, even if it looks like a URI.
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(path, flags)?;
        connection.busy_timeout(patience)?;
        connection.pragma_update(None, "journal_mode", "WAL")?;
        connection.pragma_update(None, "synchronous", if durability == Durability::On { "FULL" } else { "OFF" })?;
        connection.pragma_update(None, "cache_size", -8192)?;
        connection.set_prepared_statement_cache_capacity(128);
        Ok(connection)
    };
    open().map_err(|why| Fault::Unavailable(format!("{}: {why}", path.display())))
}

fn fault(why: rusqlite::Error) -> Fault {
    match why.sqlite_error_code() {
        Some(ErrorCode::ConstraintViolation) => Fault::Taken(why.to_string()),
        Some(
            ErrorCode::DiskFull
            | ErrorCode::SystemIoFailure
            | ErrorCode::DatabaseBusy
            | ErrorCode::DatabaseLocked
            | ErrorCode::CannotOpen
            | ErrorCode::ReadOnly,
        ) => Fault::Unavailable(why.to_string()),
        _ => Fault::Unexpected(why.to_string()),
    }
}

impl ToSql for Value {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Value::Null => ValueRef::Null,
            Value::Int(value) => ValueRef::Integer(*value),
            Value::Text(value) => ValueRef::Text(value.as_bytes()),
            Value::Bytes(value) => ValueRef::Blob(value),
        }))
    }
}

fn select(connection: &Connection, sql: &str, values: &[Value]) -> rusqlite::Result<Vec<Row>> {
    let mut statement = connection.prepare_cached(sql)?;
    let width = statement.column_count();
    let mut rows = statement.query(params_from_iter(values))?;
    let mut all = Vec::new();
    while let Some(row) = rows.next()? {
        let columns = (0..width).map(|column| {
            Ok(match row.get_ref(column)? {
                ValueRef::Null => Value::Null,
                ValueRef::Integer(value) => Value::Int(value),
                ValueRef::Real(value) => Value::Text(value.to_string()),
                ValueRef::Text(value) => Value::Text(String::from_utf8_lossy(value).into_owned()),
                ValueRef::Blob(value) => Value::Bytes(value.to_vec()),
            })
        });
        all.push(Row::new(columns.collect::<rusqlite::Result<_>>()?));
    }
    Ok(all)
}

fn step(connection: &Connection, step: &Step) -> rusqlite::Result<u64> {
    let sql = Dialect::Sqlite.translate(step.sql);
    let mut statement = connection.prepare_cached(&sql)?;
    if statement.column_count() == 0 {
        return Ok(u64::try_from(statement.execute(params_from_iter(&step.values))?).unwrap_or(u64::MAX));
    }
    let mut rows = statement.query(params_from_iter(&step.values))?;
    let mut found = 0;
    while rows.next()?.is_some() {
        found += 1;
    }
    Ok(found)
}

fn script(connection: &Connection, steps: &Script) -> rusqlite::Result<Outcome> {
    let mut touched = Vec::with_capacity(steps.len());
    for (index, it) in steps.iter().enumerate() {
        let rows = step(connection, it)?;
        if it.rows == Rows::One && rows != 1 {
            return Ok(Outcome::Refused(index));
        }
        touched.push(rows);
    }
    Ok(Outcome::Stored(touched))
}

fn bulk(connection: &Connection, table: &str, columns: &[&str], rows: &[Vec<Value>]) -> rusqlite::Result<()> {
    let marks = vec!["?"; columns.len()].join(",");
    let mut statement =
        connection.prepare_cached(&format!("INSERT INTO {table} ({}) VALUES ({marks})", columns.join(",")))?;
    for row in rows {
        statement.execute(params_from_iter(row))?;
    }
    Ok(())
}

fn work(connection: &Connection, work: &Work) -> rusqlite::Result<Done> {
    match work {
        Work::Script(steps) => script(connection, steps).map(Done::Outcome),
        Work::Insert(sql, values) => {
            let sql = Dialect::Sqlite.translate(sql);
            connection.prepare_cached(&sql)?.query_row(params_from_iter(values), |row| row.get(0)).map(Done::Id)
        }
        Work::Define(statements) => {
            statements.iter().try_for_each(|sql| connection.execute_batch(&Dialect::Sqlite.translate(sql)))?;
            Ok(Done::Id(0))
        }
        Work::Bulk(table, columns, rows) => bulk(connection, table, columns, rows).map(|()| Done::Id(0)),
    }
}

/// One job inside the open transaction: undone alone if it fails or is refused.
fn guarded(connection: &Connection, job: &Work) -> rusqlite::Result<Done> {
    connection.execute_batch("SAVEPOINT job")?;
    let done = work(connection, job);
    if matches!(done, Err(_) | Ok(Done::Outcome(Outcome::Refused(_)))) {
        connection.execute_batch("ROLLBACK TO job")?;
    }
    connection.execute_batch("RELEASE job")?;
    done
}

fn write_all(connection: &Connection, jobs: &mpsc::Receiver<Job>) {
    while let Ok(first) = jobs.recv() {
        let group: Vec<Job> = std::iter::once(first).chain(jobs.try_iter().take(GROUP - 1)).collect();
        if let Err(why) = connection.execute_batch("BEGIN IMMEDIATE") {
            let text = why.to_string();
            group.into_iter().for_each(|job| drop(job.reply.send(Err(Fault::Unavailable(text.clone())))));
            continue;
        }
        let mut answers = Vec::with_capacity(group.len());
        for job in group {
            // A full or failing disk may end the whole transaction: what comes after it would be stored alone, while COMMIT says that nothing was.
            let done = match connection.is_autocommit() {
                true => Err(Fault::Unavailable("the transaction was rolled back".to_owned())),
                false => guarded(connection, &job.work).map_err(fault),
            };
            answers.push((job.reply, done));
        }
        // A commit that fails (full disk) stores nothing: SQLite rolls it back, now or when the file is opened next.
        let committed = connection.execute_batch("COMMIT").map_err(|why| why.to_string());
        if committed.is_err() {
            let _ = connection.execute_batch("ROLLBACK");
        }
        for (reply, done) in answers {
            let answer = match &committed {
                Ok(()) => done,
                Err(why) => Err(Fault::Unavailable(why.clone())),
            };
            // A caller that is gone does not need its answer.
            let _ = reply.send(answer);
        }
    }
}

#[async_trait]
impl Database for Sqlite {
    fn dialect(&self) -> Dialect {
        Dialect::Sqlite
    }

    async fn query(&self, sql: &'static str, values: Vec<Value>) -> Result<Vec<Row>, Fault> {
        let turn = Arc::clone(&self.turn).acquire_owned().await.map_err(|why| Fault::Unavailable(why.to_string()))?;
        let (path, durability, patience) = (self.path.clone(), self.durability, self.patience);
        let readers = Arc::clone(&self.readers);
        let task = tokio::task::spawn_blocking(move || {
            let idle = readers.lock().unwrap_or_else(PoisonError::into_inner).pop();
            let connection = idle.map_or_else(|| connect(&path, durability, patience), Ok)?;
            let rows = select(&connection, &Dialect::Sqlite.translate(sql), &values).map_err(fault);
            readers.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
            drop(turn);
            rows
        });
        task.await.map_err(|why| Fault::Unavailable(why.to_string()))?
    }

    async fn run(&self, script: Script) -> Result<Outcome, Fault> {
        match self.write(Work::Script(script)).await? {
            Done::Outcome(outcome) => Ok(outcome),
            Done::Id(_) => Err(Fault::Unexpected("an id for a script".to_owned())),
        }
    }

    async fn insert(&self, sql: &'static str, values: Vec<Value>) -> Result<i64, Fault> {
        match self.write(Work::Insert(sql, values)).await? {
            Done::Id(id) => Ok(id),
            Done::Outcome(_) => Err(Fault::Unexpected("an outcome for a row".to_owned())),
        }
    }

    async fn define(&self, statements: Vec<String>) -> Result<(), Fault> {
        self.write(Work::Define(statements)).await.map(drop)
    }

    async fn bulk(
        &self,
        table: &'static str,
        columns: &'static [&'static str],
        rows: Vec<Vec<Value>>,
    ) -> Result<(), Fault> {
        self.write(Work::Bulk(table, columns, rows)).await.map(drop)
    }

    async fn durability(&self) -> Result<String, Fault> {
        let level = if self.durability == Durability::On { "FULL" } else { "OFF" };
        Ok(format!("journal_mode=WAL synchronous={level}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::database::any;

    /// The bid after an image for which there was no room was stored, and answered as one that was not.
    #[test]
    fn what_follows_a_job_that_ended_the_transaction_is_not_stored() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("site.db");
        create_private(&path).unwrap();
        let connection = connect(&path, Durability::Off, Duration::from_secs(60)).unwrap();
        let tables = "CREATE TABLE bid (id INTEGER PRIMARY KEY); CREATE TABLE image (jpeg BLOB NOT NULL)";
        connection.execute_batch(tables).unwrap();
        // As a disk that is full: SQLite has no more pages then.
        connection.pragma_update(None, "max_page_count", 32).unwrap();
        let (jobs, queue) = mpsc::channel();
        let ask = |sql: &'static str, value: Value| {
            let (reply, answer) = oneshot::channel();
            jobs.send(Job { work: Work::Script(vec![any(sql, vec![value])]), reply }).unwrap();
            answer
        };
        const BID: &str = "INSERT INTO bid (id) VALUES (?)";
        let large = Value::Bytes(vec![0; 1 << 20]);
        let answers =
            [ask(BID, Value::Int(1)), ask("INSERT INTO image (jpeg) VALUES (?)", large), ask(BID, Value::Int(2))];
        drop(jobs);
        write_all(&connection, &queue);
        for answer in answers {
            assert!(matches!(answer.blocking_recv(), Ok(Err(Fault::Unavailable(_)))));
        }
        let stored = || connection.query_row("SELECT COUNT(*) FROM bid", [], |row| row.get::<_, i64>(0)).unwrap();
        assert_eq!(stored(), 0, "as each of them was told");
        let (reply, answer) = oneshot::channel();
        let (jobs, queue) = mpsc::channel();
        jobs.send(Job { work: Work::Script(vec![any(BID, vec![Value::Int(3)])]), reply }).unwrap();
        drop(jobs);
        write_all(&connection, &queue);
        assert!(matches!(answer.blocking_recv(), Ok(Ok(Done::Outcome(Outcome::Stored(_))))));
        assert_eq!(stored(), 1, "the next group is a transaction again");
    }
}
