//! MariaDB, or MySQL: a pool of connections, statements prepared once each.

use super::{Address, Database, Dialect, Fault, Outcome, Row, Rows, Script, Value};
use async_trait::async_trait;
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Error, OptsBuilder, Params, Pool, PoolConstraints, PoolOpts};
use std::net::IpAddr;
use std::time::Duration;

/// A transaction that had to give way is tried again this often.
const TRIES: usize = 5;
/// Parameters of one statement, at most, that add rows in bulk; the protocol knows 65535.
const BULK_VALUES: usize = 20_000;

#[derive(Clone)]
pub(super) struct MariaDb {
    pool: Pool,
    patience: Duration,
}

impl MariaDb {
    pub(super) fn open(address: &Address) -> Result<Self, Fault> {
        let url = address.url.replacen("mariadb:", "mysql:", 1);
        let opts = mysql_async::Opts::from_url(&url).map_err(|why| {
            Fault::Unexpected(format!("{why}; write mysql://USER@HOST:PORT/NAME with a numeric host"))
        })?;
        if opts.socket().is_none() && opts.ip_or_hostname().parse::<IpAddr>().is_err() {
            let name = opts.ip_or_hostname();
            return Err(Fault::Unexpected(format!("the host `{name}` is a name; write its numeric address")));
        }
        let constraints = PoolConstraints::new(0, address.pool.max(1)).unwrap_or_default();
        let mut builder = OptsBuilder::from_opts(opts)
            // A row that is found counts as touched, even if it already was as it should be.
            .client_found_rows(true)
            .prefer_socket(false)
            .stmt_cache_size(128)
            .setup(vec![
                "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
                "SET SESSION sql_mode = 'STRICT_ALL_TABLES'",
                // UNIX_TIMESTAMP goes by way of local time, of which an hour comes twice at the end of summer time.
                "SET SESSION time_zone = '+00:00'",
            ])
            .pool_opts(PoolOpts::default().with_constraints(constraints));
        if let Some(password) = &address.password {
            builder = builder.pass(Some(password));
        }
        Ok(MariaDb { pool: Pool::new(builder), patience: address.patience })
    }

    async fn connection(&self) -> Result<Conn, Fault> {
        let connecting = tokio::time::timeout(self.patience, self.pool.get_conn()).await;
        connecting.map_err(|why| Fault::Unavailable(why.to_string()))?.map_err(|why| fault(&why))
    }

    /// Waits at most as long as a statement may take; a connection given up in the middle is closed.
    async fn in_time<T>(&self, work: impl Future<Output = Result<T, Fault>> + Send) -> Result<T, Fault> {
        tokio::time::timeout(self.patience, work).await.map_err(|why| Fault::Unconfirmed(why.to_string()))?
    }
}

fn fault(why: &Error) -> Fault {
    match why {
        Error::Server(server) if server.code == 1062 => Fault::Taken(why.to_string()),
        // Lock timeouts, deadlocks, a full table or disk, a server that ends, too many connections.
        Error::Server(server) if [1205, 1213, 1114, 1021, 1053, 1927, 1040, 1203].contains(&server.code) => {
            Fault::Unavailable(why.to_string())
        }
        Error::Server(_) => Fault::Unexpected(why.to_string()),
        _ => Fault::Unavailable(why.to_string()),
    }
}

fn gives_way(why: &Error) -> bool {
    matches!(why, Error::Server(server) if server.code == 1213 || server.code == 1205)
}

impl From<Value> for mysql_async::Value {
    fn from(value: Value) -> Self {
        match value {
            Value::Null => mysql_async::Value::NULL,
            Value::Int(value) => mysql_async::Value::Int(value),
            Value::Text(text) => mysql_async::Value::Bytes(text.into_bytes()),
            Value::Bytes(bytes) => mysql_async::Value::Bytes(bytes),
        }
    }
}

fn params(values: &[Value]) -> Params {
    if values.is_empty() {
        return Params::Empty;
    }
    Params::Positional(values.iter().cloned().map(Into::into).collect())
}

fn row(row: mysql_async::Row) -> Result<Row, Fault> {
    let column = |value| {
        Ok(match value {
            mysql_async::Value::NULL => Value::Null,
            mysql_async::Value::Int(value) => Value::Int(value),
            mysql_async::Value::UInt(value) => {
                Value::Int(i64::try_from(value).map_err(|why| Fault::Unexpected(why.to_string()))?)
            }
            mysql_async::Value::Bytes(bytes) => Value::Bytes(bytes),
            other => return Err(Fault::Unexpected(format!("{other:?} as a column"))),
        })
    };
    row.unwrap().into_iter().map(column).collect::<Result<_, _>>().map(Row::new)
}

async fn select(connection: &mut Conn, sql: &str, values: &[Value]) -> Result<Vec<Row>, Fault> {
    let rows: Vec<mysql_async::Row> = connection.exec(sql, params(values)).await.map_err(|why| fault(&why))?;
    rows.into_iter().map(row).collect()
}

/// One statement: the rows that it touched, or found.
async fn step(connection: &mut Conn, sql: &str, values: &[Value]) -> Result<u64, Error> {
    let result = connection.exec_iter(sql, params(values)).await?;
    let touched = result.affected_rows();
    if result.is_empty() {
        result.drop_result().await?;
        return Ok(touched);
    }
    let rows: Vec<mysql_async::Row> = result.collect_and_drop().await?;
    Ok(u64::try_from(rows.len()).unwrap_or(u64::MAX))
}

enum Tried {
    Done(Outcome),
    Again(Fault),
}

async fn attempt(connection: &mut Conn, script: &Script) -> Result<Tried, Fault> {
    connection.query_drop("BEGIN").await.map_err(|why| fault(&why))?;
    let mut touched = Vec::with_capacity(script.len());
    for (index, it) in script.iter().enumerate() {
        match step(connection, &Dialect::MariaDb.translate(it.sql), &it.values).await {
            Ok(rows) if it.rows == Rows::One && rows != 1 => {
                connection.query_drop("ROLLBACK").await.map_err(|why| fault(&why))?;
                return Ok(Tried::Done(Outcome::Refused(index)));
            }
            Ok(rows) => touched.push(rows),
            Err(why) => {
                connection.query_drop("ROLLBACK").await.map_err(|why| fault(&why))?;
                return if gives_way(&why) { Ok(Tried::Again(fault(&why))) } else { Err(fault(&why)) };
            }
        }
    }
    match connection.query_drop("COMMIT").await {
        Ok(()) => Ok(Tried::Done(Outcome::Stored(touched))),
        Err(Error::Server(why)) => Err(fault(&Error::Server(why))),
        Err(why) => Err(Fault::Unconfirmed(why.to_string())),
    }
}

async fn script(connection: &mut Conn, script: &Script) -> Result<Outcome, Fault> {
    let mut last = Fault::Unavailable("serialization failure or deadlock, retries exhausted".to_owned());
    for _ in 0..TRIES {
        match attempt(connection, script).await? {
            Tried::Done(outcome) => return Ok(outcome),
            Tried::Again(why) => last = why,
        }
    }
    Err(last)
}

#[async_trait]
impl Database for MariaDb {
    fn dialect(&self) -> Dialect {
        Dialect::MariaDb
    }

    async fn query(&self, sql: &'static str, values: Vec<Value>) -> Result<Vec<Row>, Fault> {
        let mut connection = self.connection().await?;
        let sql = Dialect::MariaDb.translate(sql);
        self.in_time(async move { select(&mut connection, &sql, &values).await }).await
    }

    async fn run(&self, steps: Script) -> Result<Outcome, Fault> {
        let this = self.clone();
        // In a task of its own: a caller that goes away leaves no transaction half done.
        let task = tokio::spawn(async move {
            let mut connection = this.connection().await?;
            this.in_time(async move { script(&mut connection, &steps).await }).await
        });
        task.await.map_err(|why| Fault::Unconfirmed(why.to_string()))?
    }

    async fn define(&self, statements: Vec<String>) -> Result<(), Fault> {
        let mut connection = self.connection().await?;
        for statement in statements {
            connection.query_drop(Dialect::MariaDb.translate(&statement)).await.map_err(|why| fault(&why))?;
        }
        Ok(())
    }

    async fn bulk(
        &self,
        table: &'static str,
        columns: &'static [&'static str],
        rows: Vec<Vec<Value>>,
    ) -> Result<(), Fault> {
        let mut connection = self.connection().await?;
        let marks = format!("({})", vec!["?"; columns.len()].join(","));
        connection.query_drop("BEGIN").await.map_err(|why| fault(&why))?;
        for chunk in rows.chunks((BULK_VALUES / columns.len()).max(1)) {
            let all = vec![marks.as_str(); chunk.len()].join(",");
            let sql = format!("INSERT INTO {table} ({}) VALUES {all}", columns.join(","));
            let values = chunk.iter().flatten().cloned().map(Into::into).collect();
            connection.exec_drop(sql, Params::Positional(values)).await.map_err(|why| fault(&why))?;
        }
        connection.query_drop("COMMIT").await.map_err(|why| fault(&why))
    }

    async fn durability(&self) -> Result<String, Fault> {
        const SQL: &str = "SELECT LOWER(variable_name), variable_value FROM information_schema.global_variables
            WHERE variable_name IN ('innodb_flush_log_at_trx_commit', 'innodb_doublewrite', 'sync_binlog') ORDER BY 1";
        let mut settings = Vec::new();
        for mut row in self.query(SQL, Vec::new()).await? {
            settings.push(format!("{}={}", row.text()?, row.text()?));
        }
        Ok(settings.join(" "))
    }
}
