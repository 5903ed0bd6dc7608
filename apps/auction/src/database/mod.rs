//! The door to a database: queries, and transactions as data.
//!
//! A [`Script`] is a list of statements, each with the number of rows that it must touch; the first that touches another number
//! undoes the whole and is named. That is enough for every change this application makes, and it leaves the adapter free in how
//! to run it: SQLite commits many scripts with one sync, PostgreSQL gets all statements of a script in one round trip. SQL
//! is written once, in `store`, with `?` for values (never text pasted together) and `{int}`-like words for what the dialects name differently.

mod dialect;
mod mariadb;
mod postgres;
mod sqlite;
mod value;

pub(crate) use dialect::Dialect;
pub(crate) use postgres::config as postgres_config;
pub(crate) use value::{Row, Value};

use async_trait::async_trait;
use std::sync::Arc;
use std::time::Duration;

/// Why a database did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Fault {
    /// It was not reached or refused for now; nothing was stored.
    #[error("the database is unavailable: {0}")]
    Unavailable(String),
    /// It was lost while it stored something.
    #[error("the database was lost before it confirmed: {0}")]
    Unconfirmed(String),
    /// A unique key is taken; nothing was stored.
    #[error("a row of that key exists: {0}")]
    Taken(String),
    /// It holds something else than this program expects.
    #[error("the database answered what this program does not expect: {0}")]
    Unexpected(String),
}

/// How many rows a statement must touch (or, if it is a query, find).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rows {
    /// Any number.
    Any,
    /// Exactly one.
    One,
}

/// One statement of a script.
#[derive(Debug)]
pub(crate) struct Step {
    pub sql: &'static str,
    pub values: Vec<Value>,
    pub rows: Rows,
}

/// Statements that happen together or not at all.
pub(crate) type Script = Vec<Step>;

/// What became of a script.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Stored; the rows that each statement touched.
    Stored(Vec<u64>),
    /// Nothing stored: the statement of this index touched another number of rows than it must.
    Refused(usize),
}

/// One statement that must touch one row.
pub(crate) fn one(sql: &'static str, values: Vec<Value>) -> Step {
    Step { sql, values, rows: Rows::One }
}

/// One statement that may touch any number of rows.
pub(crate) fn any(sql: &'static str, values: Vec<Value>) -> Step {
    Step { sql, values, rows: Rows::Any }
}

/// A database.
#[async_trait]
pub(crate) trait Database: Send + Sync {
    /// Its dialect, which also names it.
    fn dialect(&self) -> Dialect;
    /// The rows of a query.
    async fn query(&self, sql: &'static str, values: Vec<Value>) -> Result<Vec<Row>, Fault>;
    /// Runs a script in one transaction. Once begun it runs to its end, even if the caller is gone.
    async fn run(&self, script: Script) -> Result<Outcome, Fault>;
    /// Stores one row and returns the id that the database gave it (`INSERT ... RETURNING id`).
    async fn insert(&self, sql: &'static str, values: Vec<Value>) -> Result<i64, Fault> {
        let rows = self.query(sql, values).await?;
        rows.into_iter().next().ok_or_else(|| Fault::Unexpected("no id for a new row".to_owned()))?.int()
    }
    /// Statements without values, such as a schema, one after another.
    async fn define(&self, statements: Vec<String>) -> Result<(), Fault>;
    /// Adds rows to a table in the fastest way there is, without anybody else using it.
    async fn bulk(
        &self,
        table: &'static str,
        columns: &'static [&'static str],
        rows: Vec<Vec<Value>>,
    ) -> Result<(), Fault>;
    /// How often it was asked and answered so far, by the requests that were served; none where that is not counted.
    fn round_trips(&self) -> Option<u64> {
        None
    }
    /// The database's own settings that decide whether a confirmed transaction survives a crash.
    async fn durability(&self) -> Result<String, Fault>;
}

/// Whether confirmed transactions survive a crash of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Durability {
    /// They do.
    On,
    /// The last few may be lost; the database stays consistent.
    Off,
}

/// How to reach a database.
#[derive(Clone, Debug)]
pub(crate) struct Address {
    /// `sqlite:FILE`, `postgres://...` or `mysql://...`; without a password.
    pub url: String,
    /// The password, from a file or the environment.
    pub password: Option<String>,
    pub durability: Durability,
    /// Connections at most.
    pub pool: usize,
    /// How long a statement may take.
    pub patience: Duration,
}

/// Connects to the database at `address`.
pub(crate) async fn open(address: &Address) -> Result<Arc<dyn Database>, Fault> {
    let (scheme, _) = address.url.split_once(':').unwrap_or_default();
    Ok(match scheme {
        "sqlite" => Arc::new(sqlite::Sqlite::open(address)?),
        "postgres" | "postgresql" => Arc::new(postgres::Postgres::open(address)?),
        "mysql" | "mariadb" => Arc::new(mariadb::MariaDb::open(address)?),
        _ => {
            return Err(Fault::Unexpected(
                "no such kind of database; write sqlite:FILE, postgres://USER@HOST:PORT/NAME or mysql://USER@HOST:PORT/NAME"
                    .to_owned(),
            ));
        }
    })
}
