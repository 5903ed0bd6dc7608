//! Filling an empty database over several connections: the same rows, however many connections load them.

use crate::database::{Cell, Connection, Database, Dialect, Failure, Rows};
use baremark_sys::clock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

/// Rows that are inserted at once, about.
const BATCH: usize = 5000;

/// A table.
pub struct Table {
    /// Its name.
    pub name: &'static str,
    /// Its columns.
    pub columns: usize,
    /// What makes it; see [`crate::database::Dialect::sql`].
    pub create: &'static str,
}

/// Tables and their indexes in addition to the primary keys, which are made once the rows are there.
pub struct Schema {
    /// All tables.
    pub tables: &'static [Table],
    /// Statements that make the indexes.
    pub indexes: &'static [&'static str],
}

/// How an empty database is filled.
pub struct Loader<'l> {
    /// The database.
    pub database: &'l dyn Database,
    /// Connections that insert at the same time.
    pub connections: usize,
    /// Called with the number of parts that are done and the number of all parts.
    pub progress: &'l (dyn Fn(usize, usize) + Sync),
    /// Ends the loading once it is raised.
    pub interrupt: &'l AtomicBool,
}

impl Loader<'_> {
    /// Makes the tables, fills them part by part, and makes the indexes. `fill` inserts the rows of one part.
    ///
    /// # Errors
    /// What the database says; [`crate::database::Class::Other`] when it was interrupted.
    pub fn load<P: Sync>(
        &self,
        schema: &Schema,
        parts: &[P],
        fill: &(dyn Fn(&mut dyn Connection, &P) -> Result<(), Failure> + Sync),
    ) -> Result<(), Failure> {
        let dialect = self.database.dialect();
        let mut first = self.database.connect()?;
        for table in schema.tables {
            first.script(&dialect.sql(table.create))?;
        }
        let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let failure = Mutex::new(None);
        let fail = |why: Failure| *failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(why);
        let work = |connection: &mut dyn Connection| -> Result<(), Failure> {
            while let Some(part) = parts.get(next.fetch_add(1, Ordering::Relaxed)) {
                if self.interrupt.load(Ordering::Acquire) {
                    return Err(Failure::other("loading was interrupted"));
                }
                fill(connection, part)?;
                (self.progress)(done.fetch_add(1, Ordering::Relaxed) + 1, parts.len());
            }
            Ok(())
        };
        thread::scope(|scope| {
            for _ in 1..self.connections.max(1) {
                scope.spawn(|| {
                    let outcome = self.database.connect().and_then(|mut connection| work(&mut *connection));
                    outcome.unwrap_or_else(&fail);
                });
            }
            work(&mut *first).unwrap_or_else(&fail);
        });
        if let Some(why) = failure.into_inner().unwrap_or_else(PoisonError::into_inner) {
            return Err(why);
        }
        schema.indexes.iter().try_for_each(|index| first.script(index))?;
        settle(&mut *first, dialect, schema)
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
            let names: Vec<&str> = schema.tables.iter().map(|table| table.name).collect();
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
    pub(crate) fn new(connection: &'b mut dyn Connection, tables: &[Table], name: &str) -> Result<Batch<'b>, Failure> {
        let table = tables.iter().find(|table| table.name == name).ok_or_else(|| Failure::other("no such table"))?;
        Ok(Batch { connection, table: table.name, width: table.columns, cells: Vec::new() })
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

/// Now, in ms of 1970.
#[must_use]
pub fn now_ms() -> i64 {
    i64::try_from(clock::unix_time_ns() / 1_000_000).unwrap_or(i64::MAX)
}
