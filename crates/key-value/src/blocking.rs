//! One connection on which commands are sent and their replies awaited: to log in, to ask the server about itself, to fill it, to read back.

use crate::resp::{self, ProtocolError, Received, Reply};
use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// How long a reply may take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);
/// The longest reply about the server itself.
const LONGEST_INFO: usize = 1 << 20;

/// Why a server does not answer as it should.
#[derive(Debug, thiserror::Error)]
pub enum ConnectionError {
    /// The socket.
    #[error("{0}")]
    Socket(#[from] io::Error),
    /// The end of the connection.
    #[error("the server has closed the connection")]
    Closed,
    /// What is no reply.
    #[error(transparent)]
    Protocol(#[from] ProtocolError),
    /// Another reply than can be.
    #[error("{asked}: the server replied {found}")]
    Reply {
        /// The command.
        asked: &'static str,
        /// The reply.
        found: String,
    },
}

/// A connection with one question at a time, or several that are answered in order.
#[derive(Debug)]
pub struct BlockingConnection {
    stream: TcpStream,
    received: Received,
}

impl BlockingConnection {
    /// Over a new connection, on which it logs in.
    ///
    /// # Errors
    /// What the server says.
    pub fn log_in(stream: TcpStream, password: &str) -> Result<BlockingConnection, ConnectionError> {
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let mut connection = BlockingConnection { stream, received: Received::default() };
        if !password.is_empty() {
            connection.expect_ok("AUTH", &[b"AUTH", password.as_bytes()])?;
        }
        Ok(connection)
    }

    /// The connection, on which no reply is awaited.
    #[must_use]
    pub fn into_stream(self) -> TcpStream {
        self.stream
    }

    /// Sends what is a whole number of commands.
    ///
    /// # Errors
    /// What the socket gives.
    pub fn send(&mut self, commands: &[u8]) -> Result<(), ConnectionError> {
        Ok(self.stream.write_all(commands)?)
    }

    /// The next reply, whose strings have at most `most` bytes.
    ///
    /// # Errors
    /// The end of the connection, or what is no reply.
    pub fn next<T>(&mut self, most: usize, read: impl FnOnce(Reply<'_>) -> T) -> Result<T, ConnectionError> {
        loop {
            if let Some(reply) = self.received.next(most)? {
                return Ok(read(reply));
            }
            match self.stream.read(self.received.room()) {
                Ok(0) => return Err(ConnectionError::Closed),
                Ok(count) => self.received.took(count),
                Err(why) if why.kind() == io::ErrorKind::Interrupted => {}
                Err(why) => return Err(why.into()),
            }
        }
    }

    fn expect_ok(&mut self, asked: &'static str, words: &[&[u8]]) -> Result<(), ConnectionError> {
        let mut out = Vec::new();
        resp::command(&mut out, words);
        self.send(&out)?;
        self.next(LONGEST_INFO, |reply| match reply {
            Reply::Status(b"OK") => Ok(()),
            other => Err(ConnectionError::Reply { asked, found: other.shown() }),
        })?
    }

    /// What the server says of itself in a section, by its names. A line of several values, as those of commands are, has them as it is.
    ///
    /// # Errors
    /// What is no answer.
    pub fn info(&mut self, section: &str) -> Result<ServerInfo, ConnectionError> {
        let mut out = Vec::new();
        resp::command(&mut out, &[b"INFO", section.as_bytes()]);
        self.send(&out)?;
        self.next(LONGEST_INFO, |reply| match reply {
            Reply::Bulk(text) => Ok(ServerInfo::of(&String::from_utf8_lossy(text))),
            other => Err(ConnectionError::Reply { asked: "INFO", found: other.shown() }),
        })?
    }
}

/// What a server says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerInfo(BTreeMap<String, String>);

impl ServerInfo {
    /// The lines `name:value` of a text.
    #[must_use]
    pub fn of(text: &str) -> ServerInfo {
        let pairs = text.lines().filter_map(|line| line.trim_end().split_once(':'));
        ServerInfo(pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
    }

    /// A value, as text.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// A number.
    #[must_use]
    pub fn number(&self, name: &str) -> Option<u64> {
        self.text(name)?.parse().ok()
    }

    /// How often a command came, by the server's own count: those that it carried out, and those that it refused for a lack of memory and
    /// the like. 0 of one that never came.
    #[must_use]
    pub fn commands(&self, name: &str) -> u64 {
        let line = self.text(&format!("cmdstat_{name}")).unwrap_or_default();
        let counted = |field: &str| {
            let (key, count) = field.split_once('=')?;
            ["calls", "rejected_calls"].contains(&key).then(|| count.parse::<u64>().ok())?
        };
        line.split(',').filter_map(counted).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_servers_count_is_of_what_it_did_and_what_it_refused() {
        let told = ServerInfo::of(
            "# Commandstats\r\ncmdstat_set:calls=7,usec=31,usec_per_call=4.43,rejected_calls=2,failed_calls=1\r\n\
             used_memory:1024\r\nredis_version:7.0.15\r\n",
        );
        assert_eq!((told.commands("set"), told.commands("get")), (9, 0));
        assert_eq!((told.number("used_memory"), told.number("nothing")), (Some(1024), None));
        assert_eq!(told.text("redis_version"), Some("7.0.15"));
    }
}
