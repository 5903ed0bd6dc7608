//! The delay from end to end, as two programs meet it.

use crate::line::{Delay, Overhead, Wait};
use crate::proxy::Proxy;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

const LOOPBACK: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// Times from before a write at one end until after the read at the other, or at the same one for a round trip.
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
    measured(arrivals.iter().zip(&sent).map(|(came, sent)| *came - *sent).collect())
}

/// Sends `count` messages of 8 bytes to and fro, one at a time, through a proxy with this delay on loopback: the time of both ways.
///
/// # Errors
/// What sockets give.
pub fn round_trip(delay: Delay, count: usize) -> io::Result<Measured> {
    let listener = TcpListener::bind(LOOPBACK)?;
    let proxy = Proxy::tcp(LOOPBACK, listener.local_addr()?, delay)?;
    let mut sender = TcpStream::connect(proxy.address())?;
    sender.set_nodelay(true)?;
    let (mut receiver, _) = listener.accept()?;
    receiver.set_nodelay(true)?;
    let echo = thread::spawn(move || -> io::Result<()> {
        let mut message = [0; 8];
        for _ in 0..count {
            receiver.read_exact(&mut message)?;
            receiver.write_all(&message)?;
        }
        Ok(())
    });
    let mut times = Vec::with_capacity(count);
    for _ in 0..count {
        let sent = Instant::now();
        sender.write_all(&[7; 8])?;
        sender.read_exact(&mut [0; 8])?;
        times.push(sent.elapsed());
    }
    echo.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
    measured(times)
}

fn measured(mut times: Vec<Duration>) -> io::Result<Measured> {
    times.sort_unstable();
    let count = times.len();
    let at = |share: usize| times.get((count * share / 100).min(count.saturating_sub(1))).copied();
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
        Overhead::measure_with(Wait::default(), 200)
    }

    /// The same with this way of waiting, by `count` messages.
    ///
    /// # Errors
    /// What sockets give.
    pub fn measure_with(wait: Wait, count: usize) -> io::Result<Overhead> {
        let one_way = Duration::from_millis(1);
        let measured = measure(Delay { one_way, wait, ..Delay::default() }, count)?;
        Ok(Overhead(measured.median.saturating_sub(one_way)))
    }
}
