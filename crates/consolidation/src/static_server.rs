//! The light web server: HTTP/1.1 GET of the files of [`crate::content`] from memory, a thread for each connection.
//!
//! It answers GET and nothing else, keeps connections open, and ends a connection whose request it cannot read. It has no
//! configuration, so that what it costs is what serving costs.

use crate::content;
use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

/// The longest head of a request, in bytes.
const LONGEST_HEAD: usize = 8 << 10;
/// Stack of a connection's thread.
const STACK: usize = 64 << 10;
const NOT_FOUND: &[u8] = b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n";

/// A server that listens.
#[derive(Debug)]
pub struct StaticServer {
    listener: TcpListener,
    /// Whole responses by path.
    responses: Arc<HashMap<&'static str, Vec<u8>>>,
}

impl StaticServer {
    /// A server of the files of [`content::files`] at this address.
    ///
    /// # Errors
    /// What listening gives.
    pub fn bind(address: SocketAddr) -> io::Result<StaticServer> {
        let response = |file: content::File| {
            let (media, length) = (file.media, file.bytes.len());
            let mut bytes =
                format!("HTTP/1.1 200 OK\r\ncontent-type: {media}\r\ncontent-length: {length}\r\n\r\n").into_bytes();
            bytes.extend(file.bytes);
            (file.path, bytes)
        };
        let responses = content::files().into_iter().map(response).collect();
        Ok(StaticServer { listener: TcpListener::bind(address)?, responses: Arc::new(responses) })
    }

    /// Where it listens.
    ///
    /// # Errors
    /// What asking the socket gives.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until accepting fails.
    ///
    /// # Errors
    /// What accepting a connection or starting its thread gives.
    pub fn serve(&self) -> io::Result<()> {
        loop {
            let (stream, _) = self.listener.accept()?;
            let responses = Arc::clone(&self.responses);
            // A connection that breaks is its client's affair.
            let serve = move || drop(converse(stream, &responses));
            thread::Builder::new().stack_size(STACK).spawn(serve)?;
        }
    }
}

/// Answers the requests of one connection until it ends.
fn converse(mut stream: TcpStream, responses: &HashMap<&'static str, Vec<u8>>) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut head = vec![0; LONGEST_HEAD];
    let mut filled = 0;
    loop {
        if let Some(end) = head[..filled].windows(4).position(|four| four == b"\r\n\r\n") {
            let Some(path) = path(&head[..end]) else { return Ok(()) };
            stream.write_all(responses.get(path).map_or(NOT_FOUND, Vec::as_slice))?;
            head.copy_within(end + 4..filled, 0);
            filled -= end + 4;
            continue;
        }
        match stream.read(&mut head[filled..])? {
            // The end, or a head without one.
            0 => return Ok(()),
            read => filled += read,
        }
    }
}

/// The path of a GET request.
fn path(head: &[u8]) -> Option<&str> {
    let line = head.split(|byte| *byte == b'\r').next()?;
    let mut words = std::str::from_utf8(line).ok()?.split(' ');
    (words.next()? == "GET").then(|| words.next())?
}

#[cfg(test)]
mod tests {
    use super::*;

    fn served() -> SocketAddr {
        let server = StaticServer::bind(SocketAddr::from(([127, 0, 0, 1], 0))).expect("a port");
        let address = server.address().expect("an address");
        thread::spawn(move || server.serve());
        address
    }

    fn answer(request: &[u8]) -> Vec<u8> {
        let mut stream = TcpStream::connect(served()).expect("it listens");
        // A server that closes while bytes are unread resets the connection, which each of these may meet.
        drop(stream.write_all(request).and_then(|()| stream.shutdown(std::net::Shutdown::Write)));
        let mut answer = Vec::new();
        drop(stream.read_to_end(&mut answer));
        answer
    }

    #[test]
    fn files_are_served_whole_also_one_after_the_other() {
        let all: Vec<u8> = content::files()
            .iter()
            .flat_map(|file| format!("GET {} HTTP/1.1\r\nhost: x\r\n\r\n", file.path).into_bytes())
            .collect();
        let answer = answer(&all);
        for file in content::files() {
            assert!(answer.windows(file.bytes.len()).any(|part| part == file.bytes), "{}", file.path);
        }
        assert_eq!(answer.windows(15).filter(|part| part == b"HTTP/1.1 200 OK").count(), 3);
    }

    #[test]
    fn what_is_no_get_of_a_file_gets_no_file() {
        assert_eq!(answer(b"GET /other HTTP/1.1\r\n\r\n"), NOT_FOUND);
        for request in
            [&b"POST /index.html HTTP/1.1\r\n\r\n"[..], b"\xff\xfe\r\n\r\n", b"GET /index.html", &[b'x'; 20_000]]
        {
            assert_eq!(answer(request), b"");
        }
    }
}
