//! MariaDB by the crate `mysql`: a blocking connection, prepared statements, values in binary.

use crate::database::{Access, Cell, Class, Connection, Database, Dialect, Failure, Param, Rows};
use crate::login::Login;
use mysql::consts::CapabilityFlags;
use mysql::prelude::Queryable;
use mysql::{Conn, Opts, OptsBuilder, Params, Statement, Value};
use std::fmt::Write as _;
use std::time::Duration;

/// How long the server may take to accept a connection.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);
/// Prepared statements of a connection at most.
const STATEMENTS: usize = 1024;
/// Rows of one INSERT while loading.
const INSERTED: usize = 500;

/// How a server is reached.
#[derive(Clone)]
pub struct Mariadb(pub Login);

impl Database for Mariadb {
    fn dialect(&self) -> Dialect {
        Dialect::Mariadb
    }

    fn connect(&self) -> Result<Box<dyn Connection>, Failure> {
        let Login { address, user, password, database, isolation } = &self.0;
        let options: Opts = OptsBuilder::new()
            .ip_or_hostname(Some(address.ip().to_string()))
            .tcp_port(address.port())
            .user(Some(user))
            .pass(Some(password))
            .db_name(Some(database))
            .prefer_socket(false)
            .tcp_nodelay(true)
            .tcp_connect_timeout(Some(CONNECT_LIMIT))
            // A statement that falls out of the cache is closed.
            .stmt_cache_size(Some(STATEMENTS))
            .additional_capabilities(CapabilityFlags::CLIENT_FOUND_ROWS)
            .init(vec![format!("set session transaction isolation level {}", isolation.sql())])
            .into();
        let connection = Conn::new(options).map_err(failure)?;
        Ok(Box::new(Connected { connection, statements: Vec::new() }))
    }
}

struct Connected {
    connection: Conn,
    statements: Vec<Statement>,
}

impl Connected {
    /// A statement without parameters, prepared at its first use: the server parses it once.
    fn prepared(&mut self, sql: &str) -> Result<(), Failure> {
        self.connection.exec_drop(sql, Params::Empty).map_err(failure)
    }
}

impl Connection for Connected {
    fn prepare(&mut self, statements: &[String]) -> Result<(), Failure> {
        self.statements =
            statements.iter().map(|sql| self.connection.prep(sql)).collect::<Result<_, _>>().map_err(failure)?;
        Ok(())
    }

    fn execute(&mut self, statement: usize, params: &[Param<'_>], rows: &mut Rows) -> Result<u64, Failure> {
        let statement = self.statements.get(statement).ok_or_else(|| Failure::other("no such statement"))?;
        let params = if params.is_empty() {
            Params::Empty
        } else {
            Params::Positional(params.iter().copied().map(value).collect())
        };
        let result = self.connection.exec_iter(statement, params).map_err(failure)?;
        take(result, rows)
    }

    fn begin(&mut self, access: Access) -> Result<(), Failure> {
        self.prepared(if access == Access::Read { "start transaction read only" } else { "begin" })
    }

    fn commit(&mut self) -> Result<(), Failure> {
        self.prepared("commit").map_err(Failure::at_commit)
    }

    fn rollback(&mut self) -> Result<(), Failure> {
        self.prepared("rollback")
    }

    fn script(&mut self, sql: &str) -> Result<(), Failure> {
        for part in sql.split(';').map(str::trim).filter(|part| !part.is_empty()) {
            self.connection.query_drop(part).map_err(failure)?;
        }
        Ok(())
    }

    fn query(&mut self, sql: &str, rows: &mut Rows) -> Result<(), Failure> {
        let result = self.connection.query_iter(sql).map_err(failure)?;
        take(result, rows).map(drop)
    }

    fn insert(&mut self, table: &str, width: usize, cells: &[Cell]) -> Result<(), Failure> {
        self.begin(Access::Write)?;
        for rows in cells.chunks(width * INSERTED) {
            self.connection.query_drop(literal_insert(table, width, rows)).map_err(failure)?;
        }
        self.commit()
    }
}

/// An INSERT of rows as literals; the texts of workloads have neither quotes nor backslashes.
fn literal_insert(table: &str, width: usize, cells: &[Cell]) -> String {
    let mut sql = format!("insert into {table} values ");
    for (index, cell) in cells.iter().enumerate() {
        sql.push_str(match index % width {
            0 if index == 0 => "(",
            0 => ",(",
            _ => ",",
        });
        let _ = match cell {
            Cell::Null => write!(sql, "null"),
            Cell::Int(number) => write!(sql, "{number}"),
            Cell::Text(text) => write!(sql, "'{text}'"),
        };
        if (index + 1).is_multiple_of(width) {
            sql.push(')');
        }
    }
    sql
}

fn value(param: Param<'_>) -> Value {
    match param {
        Param::Null => Value::NULL,
        Param::Int(number) => Value::Int(number),
        Param::Text(text) => Value::Bytes(text.as_bytes().to_vec()),
    }
}

fn take<P: mysql::prelude::Protocol>(
    result: mysql::QueryResult<'_, '_, '_, P>,
    rows: &mut Rows,
) -> Result<u64, Failure> {
    let affected = result.affected_rows();
    let width = result.columns().as_ref().len();
    rows.reset(width);
    for row in result {
        for value in row.map_err(failure)?.unwrap() {
            rows.cells.push(match value {
                Value::NULL => Cell::Null,
                Value::Int(number) => Cell::Int(number),
                Value::UInt(number) => Cell::Int(i64::try_from(number).unwrap_or(i64::MAX)),
                Value::Bytes(bytes) => Cell::Text(text(bytes)),
                other => Cell::Text(other.as_sql(true)),
            });
        }
    }
    Ok(if width > 0 { rows.len() as u64 } else { affected })
}

/// Without a copy where it is UTF-8.
fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|why| String::from_utf8_lossy(why.as_bytes()).into_owned())
}

/// By the code that the server gives; see MariaDB's list of error codes.
fn failure(why: mysql::Error) -> Failure {
    let class = match &why {
        mysql::Error::MySqlError(error) => match error.code {
            1205 | 1213 => Class::Deadlock,
            1020 => Class::Serialization,
            1022 | 1048 | 1062 | 1169 | 1451 | 1452 => Class::Constraint,
            1021 | 1037 | 1038 | 1040 | 1041 | 1114 => Class::Resource,
            1053 | 1077 | 1152 | 1158..=1161 | 1184 | 1927 => Class::Lost,
            _ => Class::Other,
        },
        mysql::Error::IoError(_) | mysql::Error::CodecError(_) => Class::Lost,
        mysql::Error::DriverError(error) if is_connecting(error) => Class::Lost,
        _ => Class::Other,
    };
    Failure::new(class, why)
}

fn is_connecting(error: &mysql::DriverError) -> bool {
    use mysql::DriverError as Error;
    matches!(error, Error::ConnectTimeout | Error::CouldNotConnect(_) | Error::PacketOutOfSync | Error::Timeout)
}
