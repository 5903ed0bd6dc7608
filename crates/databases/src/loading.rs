//! Filling an empty database over several connections: the same rows, however many connections load them.

use crate::database::{Access, Cell, Connection, Database, Dialect, Failure, Param, Rows};
use baremark_model::loading::Loading;
use baremark_sys::wall;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Rows that are inserted at once, about.
const BATCH: usize = 5000;
/// How often the rows that are loaded are reported.
const REPORTED_EVERY: Duration = Duration::from_millis(500);

/// Tables and their indexes in addition to the primary keys, which are made once the rows are there.
pub struct Schema {
    /// Statements that make the tables; see [`crate::database::Dialect::sql`].
    pub tables: &'static [&'static str],
    /// Statements that make the indexes.
    pub indexes: &'static [&'static str],
}

/// The name of the table that a statement of a [`Schema`] makes; empty of any other statement.
#[must_use]
pub fn table_of(create: &str) -> &str {
    let mut words = create.split(' ');
    if (words.next(), words.next()) == (Some("create"), Some("table")) { words.next().unwrap_or_default() } else { "" }
}

/// How many columns it has: all in its list but the primary key.
fn columns_of(create: &str) -> usize {
    let mut depth = 0;
    let separates = move |c: char| {
        depth += i32::from(c == '(') - i32::from(c == ')');
        c == ',' && depth == 1
    };
    create.split(separates).filter(|part| part.split_whitespace().next() != Some("primary")).count()
}

/// How an empty database is filled.
pub struct Loader<'l> {
    /// The database.
    pub database: &'l dyn Database,
    /// Connections that insert at the same time.
    pub connections: usize,
    /// Called twice a second with what all connections have loaded, and once with all rows.
    pub report: &'l dyn Fn(Loading),
    /// Ends the loading once it is raised.
    pub interrupt: &'l AtomicBool,
}

impl Loader<'_> {
    /// Makes the tables, fills them part by part, and makes the indexes. `fill` inserts the rows of one part; `rows` is about how
    /// many there are in all.
    ///
    /// # Errors
    /// What the database says; [`crate::database::Class::Other`] when it was interrupted.
    pub fn load<P: Sync>(
        &self,
        schema: &Schema,
        (parts, rows): (&[P], u64),
        fill: &(dyn Fn(&mut dyn Connection, &P) -> Result<(), Failure> + Sync),
    ) -> Result<(), Failure> {
        let Loader { database, connections, report, interrupt } = *self;
        let dialect = database.dialect();
        let mut first = database.connect()?;
        for table in schema.tables {
            first.script(&dialect.sql(table))?;
        }
        let (next, done) = (AtomicUsize::new(0), AtomicU64::new(0));
        let failure = Mutex::new(None);
        let fail = |why: Failure| *failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(why);
        let work = |connection: &mut dyn Connection| -> Result<(), Failure> {
            let mut counted = Counted { connection, rows: &done };
            while let Some(part) = parts.get(next.fetch_add(1, Ordering::Relaxed)) {
                if interrupt.load(Ordering::Acquire) {
                    return Err(Failure::other("loading was interrupted"));
                }
                fill(&mut counted, part)?;
            }
            Ok(())
        };
        let begun = Instant::now();
        let so_far = |of: u64| {
            let rows = done.load(Ordering::Relaxed);
            let elapsed_ns = u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
            Loading { rows, of: of.max(rows), elapsed_ns }
        };
        thread::scope(|scope| {
            // Nothing is sent: a thread that ends, however it does, drops its sender, and the last one ends the waiting.
            let (running, ended) = channel::<()>();
            let (work, fail, first, of_first) = (&work, &fail, &mut first, running.clone());
            scope.spawn(move || {
                let _running = of_first;
                work(&mut **first).unwrap_or_else(fail);
            });
            for _ in 1..connections.max(1) {
                let running = running.clone();
                scope.spawn(move || {
                    let _running = running;
                    let outcome = database.connect().and_then(|mut connection| work(&mut *connection));
                    outcome.unwrap_or_else(fail);
                });
            }
            drop(running);
            while ended.recv_timeout(REPORTED_EVERY) == Err(RecvTimeoutError::Timeout) {
                // Their number may be a guess: all are loaded only when the threads have ended.
                report(so_far(rows.max(done.load(Ordering::Relaxed) + 1)));
            }
        });
        if let Some(why) = failure.into_inner().unwrap_or_else(PoisonError::into_inner) {
            return Err(why);
        }
        report(so_far(0));
        schema.indexes.iter().try_for_each(|index| first.script(index))?;
        settle(&mut *first, dialect, schema)
    }
}

/// A connection whose inserted rows are counted together with those of others.
struct Counted<'c> {
    connection: &'c mut dyn Connection,
    rows: &'c AtomicU64,
}

impl Connection for Counted<'_> {
    fn prepare(&mut self, statements: &[String]) -> Result<(), Failure> {
        self.connection.prepare(statements)
    }

    fn execute(&mut self, statement: usize, params: &[Param<'_>], rows: &mut Rows) -> Result<u64, Failure> {
        self.connection.execute(statement, params, rows)
    }

    fn begin(&mut self, access: Access) -> Result<(), Failure> {
        self.connection.begin(access)
    }

    fn commit(&mut self) -> Result<(), Failure> {
        self.connection.commit()
    }

    fn rollback(&mut self) -> Result<(), Failure> {
        self.connection.rollback()
    }

    fn script(&mut self, sql: &str) -> Result<(), Failure> {
        self.connection.script(sql)
    }

    fn query(&mut self, sql: &str, rows: &mut Rows) -> Result<(), Failure> {
        self.connection.query(sql, rows)
    }

    fn insert(&mut self, table: &str, width: usize, cells: &[Cell]) -> Result<(), Failure> {
        self.connection.insert(table, width, cells)?;
        self.rows.fetch_add((cells.len() / width.max(1)) as u64, Ordering::Relaxed);
        Ok(())
    }
}

/// Statistics for the planner, and a log that is written back.
fn settle(connection: &mut dyn Connection, dialect: Dialect, schema: &Schema) -> Result<(), Failure> {
    match dialect {
        Dialect::Sqlite => connection.script("analyze; pragma wal_checkpoint(truncate);"),
        Dialect::Postgres => {
            connection.script("vacuum analyze")?;
            connection.script("checkpoint").or(Ok(()))
        }
        Dialect::Mariadb => {
            let names: Vec<&str> = schema.tables.iter().map(|create| table_of(create)).collect();
            connection.query(&format!("analyze table {}", names.join(", ")), &mut Rows::default())
        }
    }
}

/// Rows of one table on their way into it.
pub(crate) struct Batch<'b> {
    connection: &'b mut dyn Connection,
    table: &'static str,
    width: usize,
    cells: Vec<Cell>,
}

impl<'b> Batch<'b> {
    /// For the table `name` of these.
    ///
    /// # Errors
    /// When there is no such table.
    pub(crate) fn new(
        connection: &'b mut dyn Connection,
        tables: &[&'static str],
        name: &str,
    ) -> Result<Batch<'b>, Failure> {
        let create = tables.iter().find(|create| table_of(create) == name);
        let create = *create.ok_or_else(|| Failure::other("no such table"))?;
        Ok(Batch { connection, table: table_of(create), width: columns_of(create), cells: Vec::new() })
    }

    /// Adds a row, and inserts all that are waiting once there are enough.
    ///
    /// # Errors
    /// What the database says.
    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = Cell>) -> Result<(), Failure> {
        self.cells.extend(cells);
        if self.cells.len() >= BATCH * self.width { self.flush() } else { Ok(()) }
    }

    /// Inserts the rows that are waiting.
    ///
    /// # Errors
    /// What the database says.
    pub(crate) fn flush(&mut self) -> Result<(), Failure> {
        if self.cells.is_empty() {
            return Ok(());
        }
        self.connection.insert(self.table, self.width, &self.cells)?;
        self.cells.clear();
        Ok(())
    }
}

/// A whole number as a cell.
pub(crate) fn int(number: i64) -> Cell {
    Cell::Int(number)
}

/// Text as a cell.
pub(crate) fn text(text: impl Into<String>) -> Cell {
    Cell::Text(text.into())
}

/// How far [`step_wall_clock`] has stepped the wall clock, in ms.
static STEPPED_MS: AtomicI64 = AtomicI64::new(0);

/// Now, in ms of 1970. Dates in the database come from here; whatever is measured comes from the monotonic clock.
#[must_use]
pub fn now_ms() -> i64 {
    let now = i64::try_from(wall::unix_time_ns() / 1_000_000).unwrap_or(i64::MAX);
    now.saturating_add(STEPPED_MS.load(Ordering::Relaxed))
}

/// Steps the wall clock of [`now_ms`] by so many ms, in this whole process: what a correction by hand or by NTP does, for tests.
pub fn step_wall_clock(by_ms: i64) {
    STEPPED_MS.fetch_add(by_ms, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{dvd_store, management_db, order_entry};
    use std::collections::BTreeSet;

    #[test]
    fn a_table_has_the_name_and_the_columns_of_the_statement_that_makes_it() {
        let of = |create: &'static str| (table_of(create), columns_of(create));
        assert_eq!(of("create table t (id integer not null primary key)"), ("t", 1));
        assert_eq!(of(order_entry::schema::TABLES[2]), ("customer", 21));
        assert_eq!(of(order_entry::schema::TABLES[3]), ("history", 8));
        assert_eq!(of(dvd_store::schema::TABLES[2]), ("customers", 20));
        assert_eq!(of(management_db::schema::TABLES[9]), ("samples_20s", 5));
        assert_eq!(table_of("create index i on t (id)"), "");
    }

    #[test]
    fn no_table_of_a_schema_stands_there_twice() {
        for tables in [&order_entry::schema::TABLES[..], &dvd_store::schema::TABLES, &management_db::schema::TABLES] {
            let names: BTreeSet<&str> = tables.iter().map(|create| table_of(create)).collect();
            assert!(names.len() == tables.len() && !names.contains(""), "{names:?}");
        }
    }
}
