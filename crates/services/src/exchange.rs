//! One question and its answer over a socket, with a limit on time and size.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(5);
const MOST: u64 = 4 << 20;

/// Sends `question` and returns the first `length` bytes of the answer, fewer when it ends before.
pub fn beginning(address: SocketAddr, question: &[u8], length: usize) -> io::Result<Vec<u8>> {
    let mut stream = connected(address)?;
    stream.write_all(question)?;
    let mut answer = Vec::new();
    stream.take(length as u64).read_to_end(&mut answer)?;
    Ok(answer)
}

/// Whether somebody accepts connections there.
pub fn listens(address: SocketAddr) -> bool {
    TcpStream::connect_timeout(&address, LIMIT).is_ok()
}

/// Sends `question` and reads the answer to its end.
pub fn whole(address: SocketAddr, question: &[u8]) -> io::Result<String> {
    whole_within(address, question, LIMIT)
}

/// The same where an answer may take longer to begin.
pub fn whole_within(address: SocketAddr, question: &[u8], limit: Duration) -> io::Result<String> {
    let mut stream = connected(address)?;
    stream.set_read_timeout(Some(limit))?;
    stream.write_all(question)?;
    text(stream)
}

/// As [`whole`], over a Unix socket.
pub fn whole_unix(path: &Path, question: &str) -> io::Result<String> {
    let mut stream = UnixStream::connect(path)?;
    stream.set_read_timeout(Some(LIMIT))?;
    stream.write_all(question.as_bytes())?;
    text(stream)
}

/// The body of a GET.
pub fn get(address: SocketAddr, path: &str) -> io::Result<String> {
    let question = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    let answer = whole(address, question.as_bytes())?;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((answer.as_str(), ""));
    let status = head.split_whitespace().nth(1).unwrap_or_default();
    if status == "200" { Ok(body.to_owned()) } else { Err(io::Error::other(format!("{path} answered {status}"))) }
}

fn connected(address: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&address, LIMIT)?;
    stream.set_read_timeout(Some(LIMIT))?;
    stream.set_write_timeout(Some(LIMIT))?;
    Ok(stream)
}

fn text(stream: impl Read) -> io::Result<String> {
    let mut answer = Vec::new();
    stream.take(MOST).read_to_end(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}
