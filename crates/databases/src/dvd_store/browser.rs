//! The process of the web front, and connections of browsers to it.

use super::front::{COMMITTED, FAILURE, OUTCOME, Order, ROLLED_BACK};
use crate::database::{Access, Cell, Class, Connection, Database, Dialect, Done, Failure, Param, Rows};
use crate::http::Wire;
use baremark_sys::confine::{self, Held, Limits};
use baremark_sys::{ending, process_tree, subreaper};
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::Duration;

/// How long the front may take to accept a connection.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);
/// How long it may take to answer.
const ANSWER_LIMIT: Duration = Duration::from_secs(60);
/// What its process prints before the address.
pub const LISTENING: &str = "listening ";
/// What it prints before the reason for which there is no front.
pub const FAILED: &str = "failed: ";

/// A front that runs. It ends when this is dropped, or with this process.
#[derive(Debug)]
pub struct Front {
    child: Child,
    /// It ends with its standard input.
    _input: ChildStdin,
    _held: Held,
    address: SocketAddr,
    dialect: Dialect,
}

impl Front {
    /// Starts the front by a command whose process calls [`super::front::serve`] with its first line of input and prints `listening ADDRESS`.
    ///
    /// # Errors
    /// When it cannot be started, or what it says.
    pub fn start(mut command: Command, order: &Order, cpus: &[usize]) -> io::Result<Front> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let limits = Limits { cpus: cpus.to_vec(), ..Limits::default() };
        let held = confine::hold(&mut command, &limits, confine::SIGKILL)?;
        let mut child = subreaper::start(&mut command)?;
        match greeted(&mut child, order) {
            Ok((input, address)) => {
                let dialect = order.endpoint.dialect();
                Ok(Front { child, _input: input, _held: held, address, dialect })
            }
            Err(why) => {
                ending::kill(&mut child);
                Err(why)
            }
        }
    }

    /// CPU time of its process since its start, in ns.
    #[must_use]
    pub fn cpu_ns(&self) -> u64 {
        process_tree::usage(self.child.id()).map_or(0, |usage| usage.cpu_ns)
    }

    /// As browsers reach it.
    #[must_use]
    pub fn browsers(&self) -> Browsers {
        Browsers { address: self.address, dialect: self.dialect }
    }
}

impl Drop for Front {
    fn drop(&mut self) {
        ending::kill(&mut self.child);
    }
}

/// Sends the order and reads where the front listens.
fn greeted(child: &mut Child, order: &Order) -> io::Result<(ChildStdin, SocketAddr)> {
    let (Some(mut input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
        return Err(io::ErrorKind::BrokenPipe.into());
    };
    writeln!(input, "{}", serde_json::to_string(order)?)?;
    for line in BufReader::new(output).lines() {
        let line = line?;
        if let Some(address) = line.split_once(LISTENING).and_then(|(_, address)| address.parse().ok()) {
            return Ok((input, address));
        }
        if let Some((_, why)) = line.split_once(FAILED) {
            return Err(io::Error::other(format!("the web front did not start: {why}")));
        }
    }
    Err(io::Error::other("the web front did not start: its process ended"))
}

/// Opens connections to the front in place of the database.
#[derive(Clone, Copy, Debug)]
pub struct Browsers {
    address: SocketAddr,
    dialect: Dialect,
}

impl Database for Browsers {
    fn dialect(&self) -> Dialect {
        self.dialect
    }

    fn connect(&self) -> Result<Box<dyn Connection>, Failure> {
        let connected = || -> io::Result<Wire> {
            let stream = TcpStream::connect_timeout(&self.address, CONNECT_LIMIT)?;
            stream.set_read_timeout(Some(ANSWER_LIMIT))?;
            Wire::new(stream)
        };
        let wire = connected().map_err(|why| Failure::new(Class::Lost, format!("the web front: {why}")))?;
        Ok(Box::new(Browser { wire }))
    }
}

/// One browser's connection.
struct Browser {
    wire: Wire,
}

impl Browser {
    fn answer(&mut self, page: &str, body: &[u8]) -> io::Result<Result<Done, Failure>> {
        let headers = [("host", "shop"), ("content-type", "application/json")];
        self.wire.send(&format!("POST /{page} HTTP/1.1"), &headers, body)?;
        let answer = self.wire.receive()?.ok_or(io::ErrorKind::UnexpectedEof)?;
        Ok(match (answer.header(OUTCOME), answer.header(FAILURE).and_then(Class::of)) {
            (Some(COMMITTED), _) => Ok(Done::Committed),
            (Some(ROLLED_BACK), _) => Ok(Done::RolledBack),
            (_, Some(class)) => Err(Failure::new(class, String::from_utf8_lossy(&answer.body))),
            _ => Err(Failure::other(format!("/{page} answered {}", answer.word(1)))),
        })
    }
}

fn no_statements<T>() -> Result<T, Failure> {
    Err(Failure::other("a web front takes requests and no statements"))
}

impl Connection for Browser {
    /// The front has prepared its own.
    fn prepare(&mut self, _: &[String]) -> Result<(), Failure> {
        Ok(())
    }

    fn execute(&mut self, _: usize, _: &[Param<'_>], _: &mut Rows) -> Result<u64, Failure> {
        no_statements()
    }

    fn begin(&mut self, _: Access) -> Result<(), Failure> {
        no_statements()
    }

    fn commit(&mut self) -> Result<(), Failure> {
        no_statements()
    }

    /// The front has rolled back what failed.
    fn rollback(&mut self) -> Result<(), Failure> {
        Ok(())
    }

    fn script(&mut self, _: &str) -> Result<(), Failure> {
        no_statements()
    }

    fn query(&mut self, _: &str, _: &mut Rows) -> Result<(), Failure> {
        no_statements()
    }

    fn insert(&mut self, _: &str, _: usize, _: &[Cell]) -> Result<(), Failure> {
        no_statements()
    }

    fn request(&mut self, page: &str, body: &[u8]) -> Result<Done, Failure> {
        let lost = |why| Failure::new(Class::Ambiguous, format!("the answer to /{page} did not arrive: {why}"));
        self.answer(page, body).map_err(lost)?
    }
}
