//! Proxies for TCP streams and UDP datagrams.

use crate::line::{Delay, Line, Meter, Report};
use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// Bytes that are read at once.
const CHUNK: usize = 64 << 10;
/// How long a datagram socket waits until it checks whether the proxy has ended.
const GLANCE: Duration = Duration::from_millis(50);
/// Ends of datagram traffic that are distinguished at most.
const MOST_CLIENTS: usize = 1024;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// A proxy in the network namespace of the thread that started it. Dropping it closes all its connections.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    meter: Arc<Meter>,
    ending: Arc<AtomicBool>,
    streams: Arc<Mutex<Vec<TcpStream>>>,
    is_stream: bool,
}

impl Proxy {
    /// Forwards TCP connections to `listen` on to `to`, each direction with the delay.
    ///
    /// # Errors
    /// When `listen` cannot be bound.
    pub fn tcp(listen: SocketAddr, to: SocketAddr, delay: Delay) -> io::Result<Proxy> {
        let listener = TcpListener::bind(listen)?;
        let proxy = Proxy::new(listener.local_addr()?, delay, true);
        let (meter, ending, streams) = proxy.shared();
        thread::spawn(move || {
            for client in listener.incoming() {
                if ending.load(Ordering::Relaxed) {
                    return;
                }
                // A connection that fails is closed; the next one may do.
                drop(client.and_then(|client| forward(client, to, delay, &meter, &streams)));
            }
        });
        Ok(proxy)
    }

    /// Forwards UDP datagrams to `listen` on to `to` and their answers back, each direction with the delay.
    ///
    /// # Errors
    /// When `listen` cannot be bound.
    pub fn udp(listen: SocketAddr, to: SocketAddr, delay: Delay) -> io::Result<Proxy> {
        let socket = UdpSocket::bind(listen)?;
        socket.set_read_timeout(Some(GLANCE))?;
        let proxy = Proxy::new(socket.local_addr()?, delay, false);
        let (meter, ending, _) = proxy.shared();
        thread::spawn(move || {
            let mut clients = HashMap::new();
            while let Some((bytes, from)) = next_datagram(&socket, &ending) {
                let known = clients.len();
                if !clients.contains_key(&from) && known < MOST_CLIENTS {
                    let line = line_of_client(&socket, from, to, delay, &meter, &ending);
                    clients.extend(line.ok().map(|line| (from, line)));
                }
                if clients.get(&from).is_some_and(|line| !line.offer(bytes)) {
                    clients.remove(&from);
                }
            }
        });
        Ok(proxy)
    }

    fn new(address: SocketAddr, delay: Delay, is_stream: bool) -> Proxy {
        let meter = Arc::new(Meter::new(delay.overhead));
        Proxy { address, meter, ending: Arc::default(), streams: Arc::default(), is_stream }
    }

    fn shared(&self) -> (Arc<Meter>, Arc<AtomicBool>, Arc<Mutex<Vec<TcpStream>>>) {
        (Arc::clone(&self.meter), Arc::clone(&self.ending), Arc::clone(&self.streams))
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What it has measured so far.
    #[must_use]
    pub fn report(&self) -> Report {
        self.meter.report()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.ending.store(true, Ordering::Relaxed);
        for stream in self.streams.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            drop(stream.shutdown(Shutdown::Both));
        }
        if self.is_stream {
            // Wakes the thread that accepts.
            drop(TcpStream::connect_timeout(&self.address, CONNECT_TIMEOUT));
        }
    }
}

fn forward(
    client: TcpStream,
    to: SocketAddr,
    delay: Delay,
    meter: &Arc<Meter>,
    streams: &Mutex<Vec<TcpStream>>,
) -> io::Result<()> {
    let server = TcpStream::connect_timeout(&to, CONNECT_TIMEOUT)?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let mut kept = streams.lock().unwrap_or_else(PoisonError::into_inner);
    // Those that both sides have closed are of no use any more.
    kept.retain(|stream| stream.peer_addr().is_ok());
    kept.extend([client.try_clone()?, server.try_clone()?]);
    drop(kept);
    one_direction(client.try_clone()?, server.try_clone()?, delay, meter);
    one_direction(server, client, Delay { seed: !delay.seed, ..delay }, meter);
    Ok(())
}

fn one_direction(mut from: TcpStream, to: TcpStream, delay: Delay, meter: &Arc<Meter>) {
    let (reading, ended) = (from.try_clone(), to.try_clone());
    let mut to = to;
    let end = move || {
        drop(ended.map(|stream| stream.shutdown(Shutdown::Write)));
        // Where writing has failed, reading on is of no use.
        drop(reading.map(|stream| stream.shutdown(Shutdown::Read)));
    };
    let line = Line::start(delay, Arc::clone(meter), move |bytes| to.write_all(bytes), end);
    thread::spawn(move || {
        let mut buffer = vec![0; CHUNK];
        while let Ok(length @ 1..) = from.read(&mut buffer) {
            if !line.push(buffer[..length].to_vec()) {
                return;
            }
        }
    });
}

/// The direction of one client's datagrams to the server, and a thread for those that come back.
fn line_of_client(
    socket: &UdpSocket,
    client: SocketAddr,
    to: SocketAddr,
    delay: Delay,
    meter: &Arc<Meter>,
    ending: &Arc<AtomicBool>,
) -> io::Result<Line> {
    let any: SocketAddr = if to.is_ipv4() { ([0, 0, 0, 0], 0).into() } else { ([0_u16; 8], 0).into() };
    let upstream = UdpSocket::bind(any)?;
    upstream.connect(to)?;
    upstream.set_read_timeout(Some(GLANCE))?;
    let (answers, outward, back, ending) = (upstream.try_clone()?, upstream, socket.try_clone()?, Arc::clone(ending));
    // A datagram that cannot be sent is lost, as datagrams are.
    let lose = |sent: io::Result<usize>| sent.map(drop).or(Ok(()));
    let back_delay = Delay { seed: !delay.seed, ..delay };
    let backward = Line::start(back_delay, Arc::clone(meter), move |bytes| lose(back.send_to(bytes, client)), || ());
    thread::spawn(move || {
        while let Some((bytes, _)) = next_datagram(&answers, &ending) {
            backward.offer(bytes);
        }
    });
    Ok(Line::start(delay, Arc::clone(meter), move |bytes| lose(outward.send(bytes)), || ()))
}

/// The next datagram; `None` when the proxy ends.
fn next_datagram(socket: &UdpSocket, ending: &AtomicBool) -> Option<(Vec<u8>, SocketAddr)> {
    let mut buffer = vec![0; 1 << 16];
    while !ending.load(Ordering::Relaxed) {
        if let Ok((length, from)) = socket.recv_from(&mut buffer) {
            buffer.truncate(length);
            return Some((buffer, from));
        }
    }
    None
}
