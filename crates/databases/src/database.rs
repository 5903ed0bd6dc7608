//! The seam between workloads and databases: one connection with prepared statements, and errors as classes.
//!
//! Workloads write SQL once: `?` is a parameter, `{lock}` the row lock of a SELECT, and `{rows}` what follows a CREATE TABLE;
//! [`Dialect::sql`] turns them into what the database takes. Amounts are whole cents and dates whole milliseconds, so
//! that sums are exact and equal in all databases.

use serde::{Deserialize, Serialize};
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
    /// All of them.
    pub const ALL: [Class; 7] = [
        Class::Serialization,
        Class::Deadlock,
        Class::Lost,
        Class::Ambiguous,
        Class::Constraint,
        Class::Resource,
        Class::Other,
    ];

    /// The class of a [`Class::label`].
    #[must_use]
    pub fn of(label: &str) -> Option<Class> {
        Class::ALL.into_iter().find(|class| class.label() == label)
    }

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

/// How a transaction ended that ran to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Done {
    /// The commit was acknowledged.
    Committed,
    /// It was rolled back, as its inputs demand.
    RolledBack,
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
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

/// Prepared statements with their parameters, none of which depends on what another returned.
#[derive(Clone, Debug, Default)]
pub struct Batch<'p> {
    /// The statement of each, and where its parameters end.
    calls: Vec<(usize, usize)>,
    params: Vec<Param<'p>>,
}

impl<'p> Batch<'p> {
    /// Adds a statement and returns its number in the batch, counted from 0.
    pub fn add(&mut self, statement: usize, params: &[Param<'p>]) -> usize {
        self.params.extend_from_slice(params);
        self.calls.push((statement, self.params.len()));
        self.calls.len() - 1
    }

    /// The number of statements.
    #[must_use]
    pub fn len(&self) -> usize {
        self.calls.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// The statement with this number, and its parameters; `None` beyond the last.
    #[must_use]
    pub fn call(&self, number: usize) -> Option<(usize, &[Param<'p>])> {
        let &(statement, end) = self.calls.get(number)?;
        let begin = number.checked_sub(1).map_or(0, |before| self.calls[before].1);
        Some((statement, &self.params[begin..end]))
    }

    /// Empties it for parameters that are borrowed from elsewhere, in the same memory.
    fn emptied<'q>(mut self) -> Batch<'q> {
        self.calls.clear();
        self.params.clear();
        // Of none of them: what collects a vector's own elements stays in its memory.
        let params = self.params.into_iter().map(|_| Param::Null).collect();
        Batch { calls: self.calls, params }
    }
}

/// What the statements of a [`Batch`] returned, by number. Reused, it allocates no more.
#[derive(Clone, Debug, Default)]
pub struct Answers {
    rows: Vec<Rows>,
    counts: Vec<u64>,
    /// The memory of the last batch, for the next.
    room: Batch<'static>,
}

impl Answers {
    /// An empty batch, in the memory of the one before it.
    pub fn batch<'p>(&mut self) -> Batch<'p> {
        std::mem::take(&mut self.room)
    }

    /// Executes a batch as [`Connection::batch`] does; these are its answers then.
    ///
    /// # Errors
    /// As [`Connection::batch`].
    pub fn execute(&mut self, connection: &mut dyn Connection, batch: Batch<'_>) -> Result<(), Failure> {
        let done = connection.batch(&batch, self);
        self.room = batch.emptied();
        done
    }

    /// Makes room for the answers of this many statements.
    pub fn reset(&mut self, statements: usize) {
        self.rows.resize_with(self.rows.len().max(statements), Rows::default);
        self.rows.iter_mut().for_each(|rows| rows.reset(0));
        self.counts.clear();
        self.counts.resize(statements, 0);
    }

    /// The rows of a statement; none beyond the last.
    #[must_use]
    pub fn rows(&self, number: usize) -> &Rows {
        static NONE: Rows = Rows { width: 0, cells: Vec::new() };
        self.rows.get(number).unwrap_or(&NONE)
    }

    /// How many rows a statement changed or returned.
    #[must_use]
    pub fn count(&self, number: usize) -> u64 {
        self.counts.get(number).copied().unwrap_or(0)
    }

    /// Where the rows and the count of a statement are written.
    pub fn of(&mut self, number: usize) -> Option<(&mut Rows, &mut u64)> {
        self.rows.get_mut(number).zip(self.counts.get_mut(number))
    }
}

/// Executes the statements of a batch one after the other; the first failure ends it.
///
/// # Errors
/// As [`Connection::execute`].
pub fn one_after_the_other(
    connection: &mut (impl Connection + ?Sized),
    batch: &Batch<'_>,
    answers: &mut Answers,
) -> Result<(), Failure> {
    answers.reset(batch.len());
    for number in 0..batch.len() {
        if let Some(((statement, params), (rows, count))) = batch.call(number).zip(answers.of(number)) {
            *count = connection.execute(statement, params, rows)?;
        }
    }
    Ok(())
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

    /// Executes the statements of a batch in their order, inside a transaction. They are sent one after the other, each when the one before it
    /// is answered, unless [`Connection::pipeline`] has made the connection send them together. After a failure none of those that follow has an effect.
    ///
    /// # Errors
    /// The first failure; the transaction has to be rolled back then.
    fn batch(&mut self, batch: &Batch<'_>, answers: &mut Answers) -> Result<(), Failure> {
        one_after_the_other(self, batch, answers)
    }

    /// From now on statements of a batch are sent together, before the first of them is answered.
    ///
    /// # Errors
    /// [`Class::Other`] where the protocol, or its client, cannot.
    fn pipeline(&mut self) -> Result<(), Failure> {
        Err(Failure::other(
            "this connection sends one statement at a time; use database = \"postgres\", or remove pipeline",
        ))
    }

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

    /// Asks a web front for one of its pages, with the inputs of the transaction behind it. A database has none.
    ///
    /// # Errors
    /// What the front says of the transaction; [`Class::Ambiguous`] when its answer did not arrive.
    fn request(&mut self, page: &str, _body: &[u8]) -> Result<Done, Failure> {
        Err(Failure::other(format!("{page}: a database takes statements and no requests")))
    }
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

/// A database whose connections send statements of a batch together; see [`Connection::pipeline`].
pub struct Pipelined<'d>(pub &'d dyn Database);

impl Database for Pipelined<'_> {
    fn dialect(&self) -> Dialect {
        self.0.dialect()
    }

    fn connect(&self) -> Result<Box<dyn Connection>, Failure> {
        let mut connection = self.0.connect()?;
        connection.pipeline()?;
        Ok(connection)
    }
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
    fn a_batch_has_the_parameters_of_each_statement() {
        let mut batch = Batch::default();
        assert!(batch.is_empty() && batch.call(0).is_none());
        assert_eq!([batch.add(7, &[1.into(), "a".into()]), batch.add(3, &[]), batch.add(7, &[2.into()])], [0, 1, 2]);
        assert_eq!(batch.len(), 3);
        assert_eq!(batch.call(0), Some((7, &[Param::Int(1), Param::Text("a")][..])));
        assert_eq!(batch.call(1), Some((3, &[][..])));
        assert_eq!(batch.call(2), Some((7, &[Param::Int(2)][..])));
        assert!(batch.call(3).is_none());
    }

    #[test]
    fn a_batch_that_is_emptied_keeps_its_memory() {
        let text = "a".to_owned();
        let mut batch = Batch::default();
        for number in 0..100 {
            batch.add(number, &[text.as_str().into(), 1.into()]);
        }
        let memory = (batch.calls.as_ptr() as usize, batch.params.as_ptr() as usize, batch.params.capacity());
        let batch: Batch<'static> = batch.emptied();
        drop(text);
        assert!(batch.is_empty() && batch.params.is_empty());
        let emptied = (batch.calls.as_ptr() as usize, batch.params.as_ptr() as usize, batch.params.capacity());
        assert_eq!(memory, emptied);
    }

    #[test]
    fn answers_of_an_earlier_batch_are_gone() {
        let mut answers = Answers::default();
        answers.reset(2);
        let (rows, count) = answers.of(1).expect("the second");
        rows.reset(1);
        rows.cells.push(Cell::Int(4));
        *count = 9;
        assert_eq!((answers.rows(1).int(0, 0), answers.count(1), answers.count(2)), (Ok(4), 9, 0));
        answers.reset(2);
        assert!(answers.rows(1).is_empty() && answers.rows(5).is_empty());
        assert_eq!(answers.count(1), 0);
        answers.reset(1);
        assert!(answers.of(1).is_none());
    }

    #[test]
    fn a_connection_lost_at_the_commit_is_ambiguous_and_another_failure_stays_what_it_is() {
        assert_eq!(Failure::new(Class::Lost, "reset").at_commit().class, Class::Ambiguous);
        assert_eq!(Failure::new(Class::Deadlock, "x").at_commit().class, Class::Deadlock);
    }
}
