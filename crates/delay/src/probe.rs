//! The delay from end to end, as two programs meet it.

use crate::line::{Delay, Overhead};
use crate::proxy::Proxy;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

const LOOPBACK: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// One-way times from before a write at one end until after the read at the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measured {
    /// Messages.
    pub count: usize,
    /// Their median.
    pub median: Duration,
    /// 90th percentile.
    pub p90: Duration,
    /// Largest.
    pub largest: Duration,
}

/// Sends `count` messages of 8 bytes, one at a time, through a proxy with this delay on loopback.
///
/// # Errors
/// What sockets give.
pub fn measure(delay: Delay, count: usize) -> io::Result<Measured> {
    let listener = TcpListener::bind(LOOPBACK)?;
    let proxy = Proxy::tcp(LOOPBACK, listener.local_addr()?, delay)?;
    let mut sender = TcpStream::connect(proxy.address())?;
    sender.set_nodelay(true)?;
    let (mut receiver, _) = listener.accept()?;
    let arrivals = thread::spawn(move || -> io::Result<Vec<Instant>> {
        let mut arrivals = Vec::new();
        let mut message = [0; 8];
        for _ in 0..count {
            receiver.read_exact(&mut message)?;
            arrivals.push(Instant::now());
        }
        Ok(arrivals)
    });
    // One at a time: the next when the last has long arrived.
    let gap = delay.one_way + delay.jitter + Duration::from_millis(1);
    let mut sent = Vec::new();
    for _ in 0..count {
        sent.push(Instant::now());
        sender.write_all(&[7; 8])?;
        thread::sleep(gap);
    }
    let arrivals = arrivals.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
    let mut times: Vec<Duration> = arrivals.iter().zip(&sent).map(|(came, sent)| *came - *sent).collect();
    times.sort_unstable();
    let at = |share: usize| times.get((times.len() * share / 100).min(count.saturating_sub(1))).copied();
    let none = || io::Error::new(io::ErrorKind::InvalidInput, "no message was to be sent");
    Ok(Measured {
        count,
        median: at(50).ok_or_else(none)?,
        p90: at(90).ok_or_else(none)?,
        largest: at(100).ok_or_else(none)?,
    })
}

impl Overhead {
    /// Measures it on this machine's loopback: the median over what was asked for.
    ///
    /// # Errors
    /// What sockets give.
    pub fn measure() -> io::Result<Overhead> {
        let one_way = Duration::from_millis(1);
        let measured = measure(Delay { one_way, ..Delay::default() }, 200)?;
        Ok(Overhead(measured.median.saturating_sub(one_way)))
    }
}
