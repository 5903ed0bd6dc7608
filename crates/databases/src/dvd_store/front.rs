//! The web front of the shop: HTTP/1.1 before the database, with a pool of connections to it.
//!
//! A browser asks for a page of each step of an order and sends the step's inputs; the front runs the transaction on a connection of its
//! pool and answers with a page of what it found. It retries nothing: a conflict is an answer, so that retries are counted by whoever
//! measures. It is a process of its own, which reads its order from standard input and ends with it.

use super::orders::Asked;
use super::steps::{Returned, STEPS, Step, prepared};
use crate::database::{Cell, Class, Connection, Database, Done, Failure, Rows};
use crate::endpoint::Endpoint;
use crate::http::{Message, Wire};
use baremark_sys::namespace;
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;
use std::fs::File;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// The header that names how a transaction ended, and its values.
pub(super) const OUTCOME: &str = "outcome";
pub(super) const COMMITTED: &str = "committed";
pub(super) const ROLLED_BACK: &str = "rolled-back";
/// The header that names a failure's class.
pub(super) const FAILURE: &str = "failure";
/// How long a request waits for a database that does not answer.
const CONNECT_LIMIT: Duration = Duration::from_secs(1);
const GLANCE: Duration = Duration::from_millis(20);
/// Stack of a browser's thread.
const STACK: usize = 256 << 10;

/// What a front is to do.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Order {
    /// The database behind it.
    pub endpoint: Endpoint,
    /// Connections to it.
    pub pool: usize,
    /// Where it listens, on any free port.
    pub address: IpAddr,
    /// The network namespace in which it runs, a file of /proc; absent, that of whoever starts it.
    pub network: Option<PathBuf>,
}

/// Why there is no front.
#[derive(Debug, thiserror::Error)]
pub enum FrontError {
    /// The order.
    #[error("the order of the web front: {0}")]
    Order(#[from] serde_json::Error),
    /// The database.
    #[error("the web front's connections: {0}")]
    Database(#[from] Failure),
    /// A socket or a thread.
    #[error("the web front: {0}")]
    Io(#[from] std::io::Error),
}

/// Serves what `order` says, a line of JSON, on threads of its own. Returns where it listens once its connections are open.
///
/// # Errors
/// An order that cannot be read, a database that does not answer, or no socket.
pub fn serve(order: &str) -> Result<SocketAddr, FrontError> {
    let order: Order = serde_json::from_str(order)?;
    if let Some(path) = &order.network {
        // Threads that this one starts are in it, too.
        File::open(path).and_then(namespace::enter_network)?;
    }
    let pool = Arc::new(Pool::open(order.endpoint.open(), order.pool)?);
    let listener = TcpListener::bind((order.address, 0))?;
    let address = listener.local_addr()?;
    thread::Builder::new().spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let pool = Arc::clone(&pool);
            // A connection that breaks is its browser's affair.
            let started = thread::Builder::new().stack_size(STACK).spawn(move || drop(converse(stream, &pool)));
            if started.is_err() {
                break;
            }
        }
    })?;
    Ok(address)
}

/// Connections to the database; `None` is one that was lost.
struct Pool {
    database: Box<dyn Database>,
    statements: Vec<String>,
    idle: Mutex<Vec<Option<Box<dyn Connection>>>>,
    returned: Condvar,
}

impl Pool {
    fn open(database: Box<dyn Database>, connections: usize) -> Result<Pool, Failure> {
        let statements = prepared(database.dialect());
        let pool = Pool { database, statements, idle: Mutex::default(), returned: Condvar::new() };
        for _ in 0..connections.max(1) {
            let connection = pool.connect()?;
            pool.give(Some(connection));
        }
        Ok(pool)
    }

    fn connect(&self) -> Result<Box<dyn Connection>, Failure> {
        let mut connection = self.database.connect()?;
        connection.prepare(&self.statements)?;
        Ok(connection)
    }

    /// The same while the database starts again, for a while.
    fn connect_again(&self) -> Result<Box<dyn Connection>, Failure> {
        let deadline = Instant::now() + CONNECT_LIMIT;
        loop {
            match self.connect() {
                Err(why) if matches!(why.class, Class::Lost | Class::Resource) && Instant::now() < deadline => {
                    thread::sleep(GLANCE);
                }
                // Nothing of the transaction was sent.
                Err(why) if why.class == Class::Resource => return Err(Failure::new(Class::Lost, why.what)),
                other => return other,
            }
        }
    }

    fn take(&self) -> Option<Box<dyn Connection>> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let mut idle = self.returned.wait_while(idle, |idle| idle.is_empty()).unwrap_or_else(PoisonError::into_inner);
        idle.pop().flatten()
    }

    fn give(&self, connection: Option<Box<dyn Connection>>) {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
        self.returned.notify_one();
    }

    /// Runs a step on a connection that is free. One on which it failed is kept where it can be rolled back.
    fn run(&self, customer: i64, step: &Step, returned: &mut Returned) -> Result<Done, Failure> {
        let connection = self.take().map_or_else(|| self.connect_again(), Ok);
        let mut connection = connection.inspect_err(|_| self.give(None))?;
        let done = step.perform(customer, &mut *connection, returned);
        let usable = match &done {
            Ok(_) => true,
            Err(why) if matches!(why.class, Class::Lost | Class::Ambiguous) => false,
            Err(_) => connection.rollback().is_ok(),
        };
        self.give(usable.then_some(connection));
        done
    }
}

/// Answers the requests of one browser until it ends.
fn converse(stream: TcpStream, pool: &Pool) -> std::io::Result<()> {
    let (mut wire, mut returned) = (Wire::new(stream)?, Returned::default());
    while let Some(request) = wire.receive()? {
        let Some((title, asked)) = understood(&request) else {
            wire.send("HTTP/1.1 400 Bad Request", &[], b"")?;
            continue;
        };
        returned.rows.reset(0);
        match pool.run(asked.customer, &asked.step, &mut returned) {
            Ok(done) => {
                let outcome = if done == Done::Committed { COMMITTED } else { ROLLED_BACK };
                let headers = [("content-type", "text/html"), (OUTCOME, outcome)];
                wire.send("HTTP/1.1 200 OK", &headers, page(title, &returned.rows).as_bytes())?;
            }
            Err(why) => {
                wire.send(status(why.class), &[(FAILURE, why.class.label())], why.what.as_bytes())?;
            }
        }
    }
    Ok(())
}

/// What a request asks for; `None` where it is none of the shop's.
fn understood(request: &Message) -> Option<(&'static str, Asked<Step>)> {
    let page = request.word(1).strip_prefix('/').filter(|_| request.word(0) == "POST")?;
    let asked: Asked<Step> = serde_json::from_slice(&request.body).ok()?;
    let title = STEPS[asked.step.index()];
    (title == page).then_some((title, asked))
}

fn status(class: Class) -> &'static str {
    match class {
        Class::Serialization | Class::Deadlock => "HTTP/1.1 409 Conflict",
        Class::Lost | Class::Ambiguous | Class::Resource => "HTTP/1.1 503 Service Unavailable",
        Class::Constraint => "HTTP/1.1 422 Unprocessable Content",
        Class::Other => "HTTP/1.1 500 Internal Server Error",
    }
}

/// What the database found, as a table.
fn page(title: &str, rows: &Rows) -> String {
    let mut page = format!("<!doctype html><html><head><title>{title}</title></head><body><h1>{title}</h1><table>\n");
    for row in rows.cells.chunks(rows.width.max(1)) {
        page.push_str("<tr>");
        for cell in row {
            let _ = match cell {
                Cell::Null => write!(page, "<td></td>"),
                Cell::Int(number) => write!(page, "<td>{number}</td>"),
                Cell::Text(text) => write!(page, "<td>{}</td>", text.replace('&', "&amp;").replace('<', "&lt;")),
            };
        }
        page.push_str("</tr>\n");
    }
    page.push_str("</table></body></html>\n");
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_shows_each_row_and_no_text_is_markup() {
        let cells = vec![Cell::Int(3), Cell::Text("a<b".to_owned()), Cell::Null, Cell::Text("x".to_owned())];
        let text = page("login", &Rows { width: 2, cells });
        assert!(text.contains("<tr><td>3</td><td>a&lt;b</td></tr>\n<tr><td></td><td>x</td></tr>"), "{text}");
    }
}
