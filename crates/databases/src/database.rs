//! The seam between workloads and databases: one connection with prepared statements, and errors as classes.
//!
//! Workloads write SQL once: `?` is a parameter, `{lock}` the row lock of a SELECT, and `{rows}` what follows a CREATE TABLE;
//! [`Dialect::sql`] turns them into what the database takes. Amounts are whole cents and dates whole milliseconds, so
//! that sums are exact and equal in all databases.

use std::fmt;

/// A value that is passed to a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Param<'p> {
    /// No value.
    Null,
    /// A whole number.
    Int(i64),
    /// Text.
    Text(&'p str),
}

impl From<i64> for Param<'_> {
    fn from(number: i64) -> Self {
        Param::Int(number)
    }
}

impl<'p> From<&'p str> for Param<'p> {
    fn from(text: &'p str) -> Self {
        Param::Text(text)
    }
}

/// A value of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cell {
    /// No value.
    Null,
    /// A whole number.
    Int(i64),
    /// Text.
    Text(String),
}

impl Cell {
    /// As a parameter.
    #[must_use]
    pub fn param(&self) -> Param<'_> {
        match self {
            Cell::Null => Param::Null,
            Cell::Int(number) => Param::Int(*number),
            Cell::Text(text) => Param::Text(text),
        }
    }
}

/// The rows that a statement returned.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rows {
    /// Columns of each row.
    pub width: usize,
    /// All cells, row after row.
    pub cells: Vec<Cell>,
}

impl Rows {
    /// Makes room for the rows of a statement with `width` columns.
    pub fn reset(&mut self, width: usize) {
        self.width = width;
        self.cells.clear();
    }

    /// The number of rows.
    #[must_use]
    pub fn len(&self) -> usize {
        self.cells.len().checked_div(self.width).unwrap_or(0)
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.cells.is_empty()
    }

    /// A cell; `None` beyond the rows.
    #[must_use]
    pub fn cell(&self, row: usize, column: usize) -> Option<&Cell> {
        if column < self.width { self.cells.get(row * self.width + column) } else { None }
    }

    /// A whole number; decimals without a fraction arrive as text in some databases and are read too.
    ///
    /// # Errors
    /// [`Class::Other`] where there is no whole number.
    pub fn int(&self, row: usize, column: usize) -> Result<i64, Failure> {
        let number = match self.cell(row, column) {
            Some(Cell::Int(number)) => Some(*number),
            Some(Cell::Text(text)) => text.parse().ok(),
            _ => None,
        };
        number.ok_or_else(|| {
            Failure::other(format!("row {row}, column {column} of {} rows must be a number", self.len()))
        })
    }

    /// Text; empty where there is none.
    #[must_use]
    pub fn text(&self, row: usize, column: usize) -> &str {
        if let Some(Cell::Text(text)) = self.cell(row, column) { text } else { "" }
    }
}

/// What kind of error a statement had.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// The transaction conflicts with another under its isolation level: retried.
    Serialization,
    /// The transaction was the victim of a deadlock, or waited too long for a lock: retried.
    Deadlock,
    /// The connection is lost before the commit was sent: the transaction has no effect; reconnected and retried.
    Lost,
    /// The connection is lost after the commit was sent: whether it took effect is unknown. Never retried.
    Ambiguous,
    /// A constraint was violated.
    Constraint,
    /// Disk, memory or connections are exhausted.
    Resource,
    /// Anything else.
    Other,
}

impl Class {
    /// In words, as the report has it.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Class::Serialization => "serialization failure",
            Class::Deadlock => "deadlock",
            Class::Lost => "connection lost",
            Class::Ambiguous => "connection lost during commit",
            Class::Constraint => "constraint violation",
            Class::Resource => "resource exhausted",
            Class::Other => "error",
        }
    }

    /// Whether the same transaction may be tried again on the same connection.
    #[must_use]
    pub fn is_retried(self) -> bool {
        matches!(self, Class::Serialization | Class::Deadlock)
    }
}

/// Why a statement, a transaction or a connection failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {what}", class.label())]
pub struct Failure {
    /// What kind of error it is.
    pub class: Class,
    /// The database's message.
    pub what: String,
}

impl Failure {
    /// Of this class.
    pub fn new(class: Class, what: impl fmt::Display) -> Failure {
        Failure { class, what: what.to_string() }
    }

    /// Of no particular class.
    pub fn other(what: impl fmt::Display) -> Failure {
        Failure::new(Class::Other, what)
    }

    /// As it counts when it happened while a commit was under way.
    #[must_use]
    pub fn at_commit(self) -> Failure {
        let class = if self.class == Class::Lost { Class::Ambiguous } else { self.class };
        Failure { class, ..self }
    }
}

/// What a transaction does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Reads alone.
    Read,
    /// Reads and writes.
    Write,
}

/// The isolation of all transactions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Isolation {
    /// READ COMMITTED.
    #[default]
    ReadCommitted,
    /// REPEATABLE READ.
    RepeatableRead,
    /// SERIALIZABLE.
    Serializable,
}

impl Isolation {
    /// The words of a study, in the order of the levels.
    pub const WORDS: &'static [&'static str] = &["read committed", "repeatable read", "serializable"];

    /// The level of a word.
    #[must_use]
    pub fn of(word: &str) -> Option<Isolation> {
        let levels = [Isolation::ReadCommitted, Isolation::RepeatableRead, Isolation::Serializable];
        Isolation::WORDS.iter().zip(levels).find(|(known, _)| **known == word).map(|(_, level)| level)
    }

    /// In SQL.
    #[must_use]
    pub fn sql(self) -> &'static str {
        Isolation::WORDS[self as usize]
    }
}

/// How a database writes what the workloads leave open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// `SQLite`.
    Sqlite,
    /// PostgreSQL.
    Postgres,
    /// MariaDB with `InnoDB`.
    Mariadb,
}

impl Dialect {
    /// A statement of a workload in this dialect.
    #[must_use]
    pub fn sql(self, text: &str) -> String {
        let (lock, rows) = match self {
            Dialect::Sqlite => ("", "without rowid"),
            Dialect::Postgres => ("for update", ""),
            Dialect::Mariadb => ("for update", "engine = innodb"),
        };
        let text = text.replace("{lock}", lock).replace("{rows}", rows);
        if self != Dialect::Postgres {
            return text;
        }
        let mut numbered = String::with_capacity(text.len() + 16);
        for (number, part) in text.split('?').enumerate() {
            if number > 0 {
                numbered.push_str(&format!("${number}"));
            }
            numbered.push_str(part);
        }
        numbered
    }
}

/// One connection.
pub trait Connection: Send {
    /// Prepares statements in the database's dialect; they are numbered from 0 in this order and replace all earlier ones.
    ///
    /// # Errors
    /// What the database says of them.
    fn prepare(&mut self, statements: &[String]) -> Result<(), Failure>;

    /// Executes a prepared statement; `rows` has its rows then. Returns how many rows it changed or returned.
    ///
    /// # Errors
    /// What the database says; inside a transaction, that has to be rolled back then.
    fn execute(&mut self, statement: usize, params: &[Param<'_>], rows: &mut Rows) -> Result<u64, Failure>;

    /// Begins a transaction.
    ///
    /// # Errors
    /// What the database says.
    fn begin(&mut self, access: Access) -> Result<(), Failure>;

    /// Commits it. A connection that is lost here leaves the outcome unknown ([`Class::Ambiguous`]).
    ///
    /// # Errors
    /// What the database says.
    fn commit(&mut self) -> Result<(), Failure>;

    /// Rolls it back.
    ///
    /// # Errors
    /// When the connection is lost.
    fn rollback(&mut self) -> Result<(), Failure>;

    /// Executes statements that are not prepared, separated by semicolons, without rows.
    ///
    /// # Errors
    /// What the database says of the first that fails.
    fn script(&mut self, sql: &str) -> Result<(), Failure>;

    /// Executes one statement that is not prepared and returns its rows.
    ///
    /// # Errors
    /// What the database says.
    fn query(&mut self, sql: &str, rows: &mut Rows) -> Result<(), Failure>;

    /// Inserts rows of `width` columns into a table in one transaction, the fastest way that the database has.
    ///
    /// # Errors
    /// What the database says.
    fn insert(&mut self, table: &str, width: usize, cells: &[Cell]) -> Result<(), Failure>;
}

/// A database that can be connected to.
pub trait Database: Send + Sync {
    /// How it writes SQL.
    fn dialect(&self) -> Dialect;

    /// Opens a connection.
    ///
    /// # Errors
    /// Why there is none: [`Class::Lost`] where nobody listens, [`Class::Resource`] where there are too many.
    fn connect(&self) -> Result<Box<dyn Connection>, Failure>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_are_written_in_each_dialect() {
        let text = "select a from t where b = ? and c = ? {lock}";
        assert_eq!(Dialect::Postgres.sql(text), "select a from t where b = $1 and c = $2 for update");
        assert_eq!(Dialect::Mariadb.sql(text), "select a from t where b = ? and c = ? for update");
        assert_eq!(Dialect::Sqlite.sql(text), "select a from t where b = ? and c = ? ");
    }

    #[test]
    fn a_connection_lost_at_the_commit_is_ambiguous_and_another_failure_stays_what_it_is() {
        assert_eq!(Failure::new(Class::Lost, "reset").at_commit().class, Class::Ambiguous);
        assert_eq!(Failure::new(Class::Deadlock, "x").at_commit().class, Class::Deadlock);
    }
}
