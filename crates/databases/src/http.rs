//! Messages of HTTP/1.1 over one connection that stays open: a head, and a body whose length it states.
//!
//! Both ends are of this program: nothing is chunked, compressed or cached. What is too long or has no length is refused.

use std::io::{self, Read, Write};
use std::net::TcpStream;

/// The longest head, in bytes.
const LONGEST_HEAD: usize = 8 << 10;
/// The longest body, in bytes.
const LONGEST_BODY: usize = 1 << 20;
/// What one read takes at most.
const READ: usize = 8 << 10;

/// A request or an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Message {
    /// Its first line, and the lines of its headers.
    head: String,
    /// What follows.
    pub body: Vec<u8>,
}

impl Message {
    /// A word of its first line, from 0: method, path or status.
    pub(crate) fn word(&self, number: usize) -> &str {
        self.head.lines().next().and_then(|line| line.split(' ').nth(number)).unwrap_or_default()
    }

    /// A header's value; its name in lower case.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().skip(1).filter_map(|line| line.split_once(':'));
        lines.filter(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim()).next()
    }

    fn length(head: &str) -> io::Result<usize> {
        let message = Message { head: head.to_owned(), body: Vec::new() };
        let length = message.header("content-length").map_or(Ok(0), str::parse).map_err(wrong)?;
        if length <= LONGEST_BODY { Ok(length) } else { Err(wrong(format!("a body of {length} bytes is too long"))) }
    }
}

/// A connection.
#[derive(Debug)]
pub(crate) struct Wire {
    stream: TcpStream,
    inbound: Vec<u8>,
}

impl Wire {
    /// Over a stream that is connected.
    pub(crate) fn new(stream: TcpStream) -> io::Result<Wire> {
        stream.set_nodelay(true)?;
        Ok(Wire { stream, inbound: Vec::new() })
    }

    /// Sends a first line, headers and a body, all at once.
    pub(crate) fn send(&mut self, first: &str, headers: &[(&str, &str)], body: &[u8]) -> io::Result<()> {
        let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let mut bytes = format!("{first}\r\n{headers}content-length: {}\r\n\r\n", body.len()).into_bytes();
        bytes.extend_from_slice(body);
        self.stream.write_all(&bytes)
    }

    /// The next message; `None` where the other end closed the connection between two.
    pub(crate) fn receive(&mut self) -> io::Result<Option<Message>> {
        let end = loop {
            if let Some(at) = self.inbound.windows(4).position(|four| four == b"\r\n\r\n") {
                break at;
            }
            if self.inbound.len() > LONGEST_HEAD {
                return Err(wrong("the head is too long"));
            }
            if self.fill()? == 0 {
                return if self.inbound.is_empty() { Ok(None) } else { Err(io::ErrorKind::UnexpectedEof.into()) };
            }
        };
        let head = String::from_utf8(self.inbound[..end].to_vec()).map_err(wrong)?;
        let whole = end + 4 + Message::length(&head)?;
        while self.inbound.len() < whole {
            if self.fill()? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        let body = self.inbound[end + 4..whole].to_vec();
        self.inbound.drain(..whole);
        Ok(Some(Message { head, body }))
    }

    fn fill(&mut self) -> io::Result<usize> {
        let filled = self.inbound.len();
        self.inbound.resize(filled + READ, 0);
        let read = loop {
            match self.stream.read(&mut self.inbound[filled..]) {
                Err(why) if why.kind() == io::ErrorKind::Interrupted => {}
                read => break read,
            }
        };
        self.inbound.truncate(filled + *read.as_ref().unwrap_or(&0));
        read
    }
}

fn wrong(what: impl std::fmt::Display) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, TcpListener};

    fn pair() -> (Wire, TcpStream) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let stream = TcpStream::connect(listener.local_addr().expect("it listens")).expect("it listens");
        (Wire::new(listener.accept().expect("a connection").0).expect("a wire"), stream)
    }

    #[test]
    fn messages_that_come_together_are_taken_one_by_one() {
        let (mut wire, stream) = pair();
        let mut other = Wire::new(stream).expect("a wire");
        other.send("POST /login HTTP/1.1", &[("host", "shop")], b"abc").expect("it is open");
        other.send("GET / HTTP/1.1", &[], b"").expect("it is open");
        drop(other);
        let first = wire.receive().expect("whole").expect("a message");
        assert_eq!((first.word(0), first.word(1), first.header("Host")), ("POST", "/login", Some("shop")));
        assert_eq!(first.body, b"abc");
        let second = wire.receive().expect("whole").expect("a message");
        assert_eq!((second.word(1), second.body.len(), second.header("host")), ("/", 0, None));
        assert_eq!(wire.receive().expect("closed between messages"), None);
    }

    #[test]
    fn what_is_cut_or_too_long_is_an_error() {
        for text in [
            "POST / HTTP/1.1\r\ncontent-length: 5\r\n\r\nabc".to_owned(),
            "POST / HTTP/1.1\r\ncont".to_owned(),
            "POST / HTTP/1.1\r\ncontent-length: 5000000\r\n\r\n".to_owned(),
            "POST / HTTP/1.1\r\ncontent-length: -1\r\n\r\n".to_owned(),
            "x".repeat(20_000),
        ] {
            let (mut wire, mut stream) = pair();
            stream.write_all(text.as_bytes()).expect("it is open");
            stream.shutdown(std::net::Shutdown::Write).expect("it is open");
            assert!(wire.receive().is_err(), "{text:.40}");
        }
    }
}
