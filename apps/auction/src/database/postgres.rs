//! PostgreSQL: a pool of connections, statements prepared once, and a script's statements sent together, so that a transaction
//! is two round trips however many statements it has.

use super::{Address, Database, Dialect, Durability, Fault, Outcome, Row, Rows, Script, Value};
use async_trait::async_trait;
use bytes::{BufMut, Bytes, BytesMut};
use deadpool_postgres::{Manager, ManagerConfig, Object, Pool, RecyclingMethod, Runtime};
use futures_util::future::join_all;
use futures_util::{SinkExt, pin_mut};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use tokio::time::error::Elapsed;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::{IsNull, ToSql, Type, to_sql_checked};
use tokio_postgres::{Config, NoTls};

/// A transaction that had to give way is tried again this often.
const TRIES: usize = 5;

#[derive(Clone)]
pub(super) struct Postgres {
    pool: Pool,
    patience: Duration,
    config: Config,
    /// Round trips, those that prepare a statement for the first time left out.
    trips: Arc<AtomicU64>,
}

/// How to connect.
///
/// # Errors
/// An address that cannot be read, or a host by name: names are not resolved here.
pub(crate) fn config(address: &Address) -> Result<Config, Fault> {
    let mut config: Config = address.url.parse().map_err(|why: tokio_postgres::Error| {
        Fault::Unexpected(format!(
            "{why}; write postgres://USER@HOST:PORT/NAME with a numeric host, or ?host=FOLDER of a socket"
        ))
    })?;
    for host in config.get_hosts() {
        if let tokio_postgres::config::Host::Tcp(name) = host
            && name.parse::<IpAddr>().is_err()
        {
            return Err(Fault::Unexpected(format!("the host `{name}` is a name; write its numeric address")));
        }
    }
    if let Some(password) = &address.password {
        config.password(password);
    }
    let commit = if address.durability == Durability::On { "on" } else { "off" };
    // A server that stalls in a transaction must not keep its locks.
    let patience = address.patience.as_millis();
    config.options(format!(
        "-c synchronous_commit={commit} -c statement_timeout={patience} -c idle_in_transaction_session_timeout={patience}"
    ));
    config
        .application_name("baremark-auction")
        .connect_timeout(Duration::from_secs(3))
        .keepalives_idle(Duration::from_secs(10));
    config.tcp_user_timeout(Duration::from_secs(10));
    Ok(config)
}

impl Postgres {
    pub(super) fn open(address: &Address) -> Result<Self, Fault> {
        let config = config(address)?;
        let manager =
            Manager::from_config(config.clone(), NoTls, ManagerConfig { recycling_method: RecyclingMethod::Fast });
        let pool = Pool::builder(manager)
            .max_size(address.pool)
            .runtime(Runtime::Tokio1)
            .wait_timeout(Some(address.patience))
            .create_timeout(Some(Duration::from_secs(3)))
            .recycle_timeout(Some(Duration::from_secs(3)))
            .build()
            .map_err(|why| Fault::Unexpected(why.to_string()))?;
        Ok(Postgres { pool, patience: address.patience, config, trips: Arc::default() })
    }

    async fn connection(&self) -> Result<Object, Fault> {
        self.pool.get().await.map_err(|why| Fault::Unavailable(chain(&why)))
    }
}

/// What came of work that may take a little longer than the server lets a statement take. A connection that failed or was given
/// up is not used again.
fn settle<T>(client: Object, result: Result<Result<T, Fault>, Elapsed>) -> Result<T, Fault> {
    let result = result.unwrap_or_else(|late| Err(Fault::Unconfirmed(late.to_string())));
    if matches!(result, Err(Fault::Unavailable(_) | Fault::Unconfirmed(_))) {
        drop(Object::take(client));
    }
    result
}

/// An error with its causes.
fn chain(why: &dyn std::error::Error) -> String {
    let mut text = why.to_string();
    let mut source = why.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}

fn fault(why: &tokio_postgres::Error) -> Fault {
    match why.code() {
        Some(&SqlState::UNIQUE_VIOLATION) => Fault::Taken(chain(why)),
        Some(code)
            if code.code().starts_with("57")
                || code.code().starts_with("53")
                || code.code().starts_with("08")
                || code.code().starts_with("40")
                || code.code().starts_with("58") =>
        {
            Fault::Unavailable(chain(why))
        }
        Some(_) => Fault::Unexpected(chain(why)),
        None => Fault::Unavailable(chain(why)),
    }
}

fn gives_way(why: &tokio_postgres::Error) -> bool {
    matches!(why.code(), Some(&SqlState::T_R_DEADLOCK_DETECTED | &SqlState::T_R_SERIALIZATION_FAILURE))
}

impl ToSql for Value {
    fn to_sql(&self, ty: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        match self {
            Value::Null => Ok(IsNull::Yes),
            Value::Int(value) if *ty == Type::INT4 => i32::try_from(*value)?.to_sql(ty, out),
            Value::Int(value) => value.to_sql(ty, out),
            Value::Text(value) => value.to_sql(ty, out),
            Value::Bytes(value) => value.to_sql(ty, out),
        }
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
}

fn row(row: &tokio_postgres::Row) -> Result<Row, Fault> {
    let column = |index: usize| -> Result<Value, tokio_postgres::Error> {
        Ok(match *row.columns()[index].type_() {
            Type::INT8 => row.try_get::<_, Option<i64>>(index)?.into(),
            Type::INT4 => row.try_get::<_, Option<i32>>(index)?.map(i64::from).into(),
            Type::BYTEA => row.try_get::<_, Option<Vec<u8>>>(index)?.map_or(Value::Null, Value::Bytes),
            _ => row.try_get::<_, Option<String>>(index)?.map_or(Value::Null, Value::Text),
        })
    };
    let columns: Result<Vec<Value>, _> = (0..row.len()).map(column).collect();
    columns.map(Row::new).map_err(|why| Fault::Unexpected(chain(&why)))
}

fn values(values: &[Value]) -> Vec<&(dyn ToSql + Sync)> {
    values.iter().map(|value| value as _).collect()
}

async fn select(client: &Object, sql: &str, given: &[Value]) -> Result<Vec<Row>, Fault> {
    let statement = client.prepare_cached(sql).await.map_err(|why| fault(&why))?;
    let rows = client.query(&statement, &values(given)).await.map_err(|why| fault(&why))?;
    rows.iter().map(row).collect()
}

/// What a try of a script came to.
enum Tried {
    Done(Result<Outcome, Fault>),
    Again(Fault),
}

/// BEGIN and all statements in one go, then COMMIT or ROLLBACK.
async fn attempt(client: &Object, script: &Script, trips: &AtomicU64) -> Tried {
    let mut statements = Vec::with_capacity(script.len());
    for step in script {
        match client.prepare_cached(&Dialect::Postgres.translate(step.sql)).await {
            Ok(statement) => statements.push(statement),
            Err(why) => return Tried::Done(Err(fault(&why))),
        }
    }
    let run = |index: usize| {
        let (statement, step) = (&statements[index], &script[index]);
        async move { client.execute(statement, &values(&step.values)).await }
    };
    let mut touched = Vec::with_capacity(script.len());
    // The end is a trip of its own, however it ends.
    trips.fetch_add(1, Relaxed);
    // Statements are sent in the order in which they are polled first, which join_all keeps for few.
    for chunk in (0..script.len()).collect::<Vec<_>>().chunks(16) {
        let steps = join_all(chunk.iter().map(|&index| run(index)));
        trips.fetch_add(1, Relaxed);
        let answers = if chunk.first() == Some(&0) {
            let (begun, answers) = tokio::join!(biased; client.batch_execute("BEGIN"), steps);
            if let Err(why) = begun {
                return Tried::Done(Err(fault(&why)));
            }
            answers
        } else {
            steps.await
        };
        // Once one has failed the rest fail as a consequence: the first counts.
        for answer in answers {
            match answer {
                Ok(rows) => touched.push(rows),
                Err(why) => {
                    let again = gives_way(&why);
                    let fault = fault(&why);
                    if let Err(why) = client.batch_execute("ROLLBACK").await {
                        return Tried::Done(Err(Fault::Unavailable(chain(&why))));
                    }
                    return if again { Tried::Again(fault) } else { Tried::Done(Err(fault)) };
                }
            }
        }
    }
    let refused = script.iter().zip(&touched).position(|(step, &rows)| step.rows == Rows::One && rows != 1);
    if let Some(index) = refused {
        let undone = client.batch_execute("ROLLBACK").await;
        return Tried::Done(undone.map(|()| Outcome::Refused(index)).map_err(|why| fault(&why)));
    }
    let committed = client.batch_execute("COMMIT").await;
    // A connection lost now leaves open whether it is stored; an answer with a code says that it is not.
    Tried::Done(committed.map(|()| Outcome::Stored(touched)).map_err(|why| match why.code() {
        Some(_) => fault(&why),
        None => Fault::Unconfirmed(chain(&why)),
    }))
}

async fn script(client: &Object, script: &Script, trips: &AtomicU64) -> Result<Outcome, Fault> {
    let mut last = Fault::Unavailable("serialization failure or deadlock, retries exhausted".to_owned());
    for _ in 0..TRIES {
        match attempt(client, script, trips).await {
            Tried::Done(outcome) => return outcome,
            Tried::Again(why) => last = why,
        }
    }
    Err(last)
}

/// A value in COPY's text format.
fn copy(out: &mut BytesMut, value: &Value) {
    match value {
        Value::Null => out.put_slice(b"\\N"),
        Value::Int(value) => out.put_slice(value.to_string().as_bytes()),
        Value::Text(text) => {
            for byte in text.bytes() {
                match byte {
                    b'\\' => out.put_slice(b"\\\\"),
                    b'\n' => out.put_slice(b"\\n"),
                    b'\r' => out.put_slice(b"\\r"),
                    b'\t' => out.put_slice(b"\\t"),
                    other => out.put_u8(other),
                }
            }
        }
        Value::Bytes(bytes) => {
            out.put_slice(b"\\\\x");
            out.put_slice(crate::password::hex(bytes).as_bytes());
        }
    }
}

#[async_trait]
impl Database for Postgres {
    fn dialect(&self) -> Dialect {
        Dialect::Postgres
    }

    async fn query(&self, sql: &'static str, values: Vec<Value>) -> Result<Vec<Row>, Fault> {
        let sql = Dialect::Postgres.translate(sql);
        let client = self.connection().await?;
        self.trips.fetch_add(1, Relaxed);
        let rows = select(&client, &sql, &values);
        let rows = tokio::time::timeout(self.patience * 2, rows).await;
        settle(client, rows)
    }

    async fn run(&self, steps: Script) -> Result<Outcome, Fault> {
        let this = self.clone();
        // In a task of its own: a caller that goes away leaves no transaction half done.
        let task = tokio::spawn(async move {
            let client = this.connection().await?;
            let outcome = tokio::time::timeout(this.patience * 2, script(&client, &steps, &this.trips)).await;
            settle(client, outcome)
        });
        task.await.map_err(|why| Fault::Unconfirmed(why.to_string()))?
    }

    async fn define(&self, statements: Vec<String>) -> Result<(), Fault> {
        // On a connection of its own: a schema or an index may take longer than a request.
        let (client, connection) = self.config.connect(NoTls).await.map_err(|why| fault(&why))?;
        let task = tokio::spawn(connection);
        let mut result = client.batch_execute("SET statement_timeout = 0").await;
        for statement in &statements {
            if result.is_ok() {
                result = client.batch_execute(&Dialect::Postgres.translate(statement)).await;
            }
        }
        task.abort();
        result.map_err(|why| fault(&why))
    }

    async fn bulk(
        &self,
        table: &'static str,
        columns: &'static [&'static str],
        rows: Vec<Vec<Value>>,
    ) -> Result<(), Fault> {
        let client = self.connection().await?;
        let sql = format!("COPY {table} ({}) FROM STDIN", columns.join(", "));
        let sink = client.copy_in::<_, Bytes>(sql.as_str()).await.map_err(|why| fault(&why))?;
        pin_mut!(sink);
        let mut out = BytesMut::with_capacity(1 << 17);
        for row in &rows {
            for (index, value) in row.iter().enumerate() {
                if index > 0 {
                    out.put_u8(b'\t');
                }
                copy(&mut out, value);
            }
            out.put_u8(b'\n');
            if out.len() > 100_000 {
                sink.send(out.split().freeze()).await.map_err(|why| fault(&why))?;
            }
        }
        sink.send(out.freeze()).await.map_err(|why| fault(&why))?;
        sink.finish().await.map(drop).map_err(|why| fault(&why))
    }

    fn round_trips(&self) -> Option<u64> {
        Some(self.trips.load(Relaxed))
    }

    async fn durability(&self) -> Result<String, Fault> {
        const SQL: &str = "SELECT name, setting FROM pg_settings
            WHERE name IN ('fsync', 'full_page_writes', 'synchronous_commit') ORDER BY name";
        let mut settings = Vec::new();
        for mut row in self.query(SQL, Vec::new()).await? {
            settings.push(format!("{}={}", row.text()?, row.text()?));
        }
        Ok(settings.join(" "))
    }
}
