//! Output that is held back until the secondary has acknowledged the epoch in which it was sent.
//!
//! A proxy stands before a server. What clients send passes at once. What the server sends is marked with the epoch that runs when it
//! has been read here, which is that of its sending or a later one, so that nothing is ever released too early.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Bytes that are read at once, and how many such reads of one connection may wait.
const CHUNK: usize = 64 << 10;
const WAITING: usize = 1024;
/// How long a server may take until it listens.
const PATIENCE: Duration = Duration::from_secs(10);
const GLANCE: Duration = Duration::from_millis(2);
/// How long clients wait when one cannot be accepted.
const PAUSE: Duration = Duration::from_millis(20);
/// Of an open gate, which holds nothing back.
const ALL: u64 = u64::MAX;

/// Which epoch runs, and up to which one output may leave.
#[derive(Debug, Default)]
pub struct Gate {
    running: AtomicU64,
    released: Mutex<u64>,
    changed: Condvar,
    /// Bytes that were marked with the epoch that ran.
    marked: AtomicU64,
    /// Bytes that have left.
    passed: AtomicU64,
}

impl Gate {
    /// A gate that holds nothing back, for a program that is not protected.
    #[must_use]
    pub fn open() -> Gate {
        Gate { released: Mutex::new(ALL), ..Gate::default() }
    }

    /// A gate before the first epoch, which has the number 1.
    #[must_use]
    pub fn closed() -> Gate {
        Gate { running: AtomicU64::new(1), ..Gate::default() }
    }

    /// The number of the epoch that runs.
    #[must_use]
    pub fn running(&self) -> u64 {
        self.running.load(Ordering::Acquire)
    }

    /// Begins the next epoch. Must be called while the program stands, after its memory was copied.
    pub fn next(&self) {
        self.running.fetch_add(1, Ordering::AcqRel);
    }

    /// Lets go what was sent up to an epoch.
    pub fn release(&self, epoch: u64) {
        let mut released = self.released.lock().unwrap_or_else(PoisonError::into_inner);
        *released = (*released).max(epoch);
        self.changed.notify_all();
    }

    /// Lets go everything: the program has ended, and its last output with it.
    pub fn release_all(&self) {
        self.release(ALL);
    }

    /// Bytes that servers have sent and that have left.
    #[must_use]
    pub fn passed(&self) -> u64 {
        self.passed.load(Ordering::Relaxed)
    }

    fn wait_for(&self, epoch: u64) {
        let released = self.released.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.changed.wait_while(released, |released| *released < epoch).unwrap_or_else(PoisonError::into_inner));
    }
}

/// Connections whose output has not all left.
#[derive(Debug, Default)]
struct Leaving {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    connections: u64,
    /// Bytes that clients have taken.
    taken: u64,
}

impl Leaving {
    fn change(&self, how: impl FnOnce(&mut State)) {
        how(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner));
        self.changed.notify_all();
    }
}

/// Counts as a connection whose output has not all left, until it is dropped.
struct Counted(Arc<Leaving>);

impl Counted {
    fn new(leaving: &Arc<Leaving>) -> Counted {
        leaving.change(|state| state.connections += 1);
        Counted(Arc::clone(leaving))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.change(|state| state.connections -= 1);
    }
}

/// A proxy, which goes on as long as this process lives.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    leaving: Arc<Leaving>,
}

impl Proxy {
    /// Where clients connect.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Waits until the servers' output has left on all connections that they have closed or will close, but no longer than `patience` in
    /// which no client takes anything. For a program that has ended, when its gate holds nothing back.
    pub fn settle(&self, patience: Duration) {
        let mut state = self.leaving.state.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut taken, mut since) = (state.taken, Instant::now());
        while state.connections > 0 {
            if state.taken != taken {
                (taken, since) = (state.taken, Instant::now());
            }
            let left = patience.saturating_sub(since.elapsed());
            if left.is_zero() {
                return;
            }
            let waited = self.leaving.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// Forwards connections to `listen` on to `server`, whose answers pass the gate, as long as this process lives.
///
/// # Errors
/// When `listen` cannot be bound.
pub fn forward(listen: SocketAddr, server: SocketAddr, gate: Arc<Gate>) -> io::Result<Proxy> {
    let listener = TcpListener::bind(listen)?;
    let proxy = Proxy { address: listener.local_addr()?, leaving: Arc::default() };
    let leaving = Arc::clone(&proxy.leaving);
    thread::spawn(move || {
        for client in listener.incoming() {
            let Ok(client) = client else {
                // Clients wait, such as for a descriptor.
                thread::sleep(PAUSE);
                continue;
            };
            let (gate, leaving) = (Arc::clone(&gate), Arc::clone(&leaving));
            // A connection that fails is closed; the next one may do.
            thread::spawn(move || drop(connect(&client, server, &gate, &leaving)));
        }
    });
    Ok(proxy)
}

fn connect(client: &TcpStream, server: SocketAddr, gate: &Arc<Gate>, leaving: &Arc<Leaving>) -> io::Result<()> {
    let deadline = Instant::now() + PATIENCE;
    let (server, counted) = loop {
        // Before the server can send anything; one that waits for a server is not counted.
        let counted = Counted::new(leaving);
        match TcpStream::connect(server) {
            Err(why) if why.kind() == io::ErrorKind::ConnectionRefused && Instant::now() < deadline => {
                drop(counted);
                thread::sleep(GLANCE);
            }
            connected => break (connected?, counted),
        }
    };
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (mut from_client, mut to_server) = (client.try_clone()?, server.try_clone()?);
    thread::spawn(move || {
        drop(io::copy(&mut from_client, &mut to_server));
        drop(to_server.shutdown(Shutdown::Write));
    });
    let (held, output) = sync_channel(WAITING);
    let (to_client, writers_gate) = (client.try_clone()?, Arc::clone(gate));
    let ended = client.try_clone()?;
    thread::spawn(move || {
        drop(release(&writers_gate, &output, to_client, &counted.0));
        drop(ended.shutdown(Shutdown::Both));
        drop(counted);
    });
    let mut server = server;
    let mut buffer = vec![0; CHUNK];
    while let Ok(length @ 1..) = server.read(&mut buffer) {
        let sent = held.send((gate.running(), buffer[..length].to_vec()));
        gate.marked.fetch_add(length as u64, Ordering::Release);
        if sent.is_err() {
            break;
        }
    }
    Ok(())
}

fn release(gate: &Gate, output: &Receiver<(u64, Vec<u8>)>, mut client: TcpStream, leaving: &Leaving) -> io::Result<()> {
    for (epoch, bytes) in output {
        gate.wait_for(epoch);
        gate.passed.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        client.write_all(&bytes)?;
        leaving.change(|state| state.taken += bytes.len() as u64);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    /// Whatever takes longer than this hangs.
    const LIMIT: Duration = Duration::from_secs(90);
    const LOOPBACK: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

    /// A server that repeats what it gets, behind a gate, and a client of it.
    fn echo_behind(gate: &Arc<Gate>) -> TcpStream {
        let listener = TcpListener::bind(LOOPBACK).expect("a port");
        let server = listener.local_addr().expect("an address");
        thread::spawn(move || {
            let (stream, _) = listener.accept()?;
            io::copy(&mut stream.try_clone()?, &mut &stream)
        });
        let proxy = forward(LOOPBACK, server, Arc::clone(gate)).expect("a proxy");
        TcpStream::connect(proxy.address()).expect("a client")
    }

    /// Waits until so many bytes of the server have the number of the epoch in which they came.
    fn marked(gate: &Gate, bytes: u64) {
        let deadline = Instant::now() + LIMIT;
        while gate.marked.load(Ordering::Acquire) < bytes {
            assert!(Instant::now() < deadline, "{bytes} bytes have not come");
            thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn output_waits_for_the_acknowledgement_of_its_epoch() {
        let gate = Arc::new(Gate::closed());
        let mut client = echo_behind(&gate);
        client.write_all(b"1").expect("written");
        marked(&gate, 1);
        let mut byte = [0];
        client.set_read_timeout(Some(Duration::from_millis(100))).expect("a limit");
        client.read_exact(&mut byte).expect_err("epoch 1 is not acknowledged");
        gate.next();
        client.read_exact(&mut byte).expect_err("a new epoch acknowledges nothing");
        client.set_read_timeout(Some(LIMIT)).expect("a limit");
        gate.release(1);
        client.read_exact(&mut byte).expect("epoch 1 is acknowledged");
        assert_eq!((byte, gate.passed()), (*b"1", 1));
        // What is sent in epoch 2 does not leave with the acknowledgement of epoch 1.
        client.write_all(b"2").expect("written");
        marked(&gate, 2);
        client.set_read_timeout(Some(Duration::from_millis(100))).expect("a limit");
        gate.release(1);
        client.read_exact(&mut byte).expect_err("epoch 2 is not acknowledged");
        gate.release_all();
        client.set_read_timeout(Some(LIMIT)).expect("a limit");
        client.read_exact(&mut byte).expect("the program has ended");
        assert_eq!(byte, *b"2");
    }

    #[test]
    fn an_open_gate_holds_nothing_back() {
        let mut client = echo_behind(&Arc::new(Gate::open()));
        client.write_all(b"abc").expect("written");
        let mut bytes = [0; 3];
        client.read_exact(&mut bytes).expect("an answer");
        assert_eq!(bytes, *b"abc");
        client.shutdown(Shutdown::Write).expect("closed");
        assert_eq!(client.read(&mut bytes).expect("the end"), 0);
    }

    /// A server that sends so many bytes to one client, closes the connection and ends, behind an open gate, and the client.
    fn sender_of(bytes: usize) -> (Arc<Gate>, Proxy, TcpStream) {
        let listener = TcpListener::bind(LOOPBACK).expect("a port");
        let server = listener.local_addr().expect("an address");
        let gate = Arc::new(Gate::open());
        let proxy = forward(LOOPBACK, server, Arc::clone(&gate)).expect("a proxy");
        let client = TcpStream::connect(proxy.address()).expect("a client");
        let (mut stream, _) = listener.accept().expect("the proxy");
        thread::spawn(move || stream.write_all(&vec![7_u8; bytes]));
        (gate, proxy, client)
    }

    #[test]
    fn a_client_that_reads_late_gets_everything_before_the_proxy_has_settled() {
        // More than both ends keep.
        let bytes = 64 << 20;
        let (gate, proxy, mut client) = sender_of(bytes);
        let reading = thread::spawn(move || {
            thread::sleep(Duration::from_millis(200));
            client.read_to_end(&mut Vec::new())
        });
        proxy.settle(LIMIT);
        assert_eq!(gate.passed(), bytes as u64);
        assert_eq!(reading.join().expect("a thread").expect("all of it"), bytes);
    }

    #[test]
    fn a_client_that_takes_nothing_is_not_waited_for_any_longer() {
        let (gate, proxy, _client) = sender_of(64 << 20);
        proxy.settle(Duration::from_millis(200));
        assert!(gate.passed() < 64 << 20);
    }
}
