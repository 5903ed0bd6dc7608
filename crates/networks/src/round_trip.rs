//! The round trip between two nodes, as a program on them meets it.

use crate::{NetworkError, Node};
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

/// Bytes of a message.
const MESSAGE: usize = 64;
/// Exchanges before the measured ones.
const FIRST: usize = 10;
/// How long an exchange may take.
const LONGEST: Duration = Duration::from_secs(20);

/// Round trips over TCP, one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoundTrip {
    /// How many were measured.
    pub count: usize,
    /// Their median.
    pub median: Duration,
    /// 90th percentile.
    pub p90: Duration,
}

/// Measures `count` exchanges of 64 bytes between two nodes, at least one.
///
/// # Errors
/// What namespaces and sockets give.
pub fn measure(one: &Node, other: &Node, count: usize) -> Result<RoundTrip, NetworkError> {
    let measuring = || NetworkError::kernel("measuring the round trip between two nodes");
    let listener = other.namespace.run(|| TcpListener::bind((other.address, 0)))?.map_err(measuring())?;
    let to = listener.local_addr().map_err(measuring())?;
    let exchange = || {
        let mut stream = TcpStream::connect_timeout(&to, LONGEST)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(LONGEST))?;
        let mut message = [7; MESSAGE];
        let mut times = Vec::new();
        for _ in 0..FIRST + count.max(1) {
            let began = Instant::now();
            stream.write_all(&message)?;
            stream.read_exact(&mut message)?;
            times.push(began.elapsed());
        }
        Ok(times.split_off(FIRST))
    };
    let answer = move || -> io::Result<()> {
        let (mut stream, _) = listener.accept()?;
        stream.set_nodelay(true)?;
        let mut message = [0; MESSAGE];
        loop {
            stream.read_exact(&mut message)?;
            stream.write_all(&message)?;
        }
    };
    let times = thread::scope(|scope| {
        // It ends when the other end closes the connection, and an end that fails is seen there.
        scope.spawn(|| drop(answer()));
        one.namespace.run(|| {
            exchange().inspect_err(|_: &io::Error| {
                // Whoever still waits for a connection gets one.
                drop(TcpStream::connect_timeout(&to, LONGEST));
            })
        })
    });
    let mut times: Vec<Duration> = times?.map_err(measuring())?;
    times.sort_unstable();
    Ok(RoundTrip { count: times.len(), median: times[times.len() / 2], p90: times[times.len() * 9 / 10] })
}
