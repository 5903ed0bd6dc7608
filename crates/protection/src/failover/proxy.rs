//! Clients of a protected program, and the standard streams: they outlive the program's processes.
//!
//! What a client sends is kept until a checkpoint says that the program has read it. What the program sends comes here only when its
//! epoch was acknowledged, and goes out by a thread of its own, so that a slow client holds nothing else up.

use super::control::Output;
use baremark_sys::ready::Ready;
use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Bytes that a client may send before the program has read them.
const MOST_UNREAD: u64 = 1 << 20;
const CHUNK: usize = 64 << 10;
/// How long a client may refuse to take output when the program has ended.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long clients wait when one cannot be accepted.
const PAUSE: Duration = Duration::from_millis(20);
/// How long a writer waits for a stream that takes nothing.
const GLANCE: Duration = Duration::from_millis(1);

/// What comes from outside.
pub enum Outside {
    /// A client, to the server with this address.
    Client { server: String, stream: TcpStream },
    /// Bytes from a connection; none is its end.
    Input { channel: u64, bytes: Vec<u8> },
    /// A client that has reset its connection, or a stream that takes no more output.
    Lost { channel: u64 },
}

/// How much of a connection's input is not read yet.
#[derive(Default)]
struct Unread {
    bytes: Mutex<u64>,
    /// The program reads no more, and nobody waits for that.
    is_over: AtomicBool,
    changed: Condvar,
}

impl Unread {
    fn add(&self, more: u64) {
        let mut bytes = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        *bytes += more;
        let full = |bytes: &mut u64| *bytes > MOST_UNREAD && !self.is_over.load(Ordering::Relaxed);
        drop(self.changed.wait_while(bytes, full).unwrap_or_else(PoisonError::into_inner));
    }

    fn take(&self, less: u64) {
        let mut bytes = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        *bytes = bytes.saturating_sub(less);
        self.changed.notify_all();
    }

    fn give_up(&self) {
        let _bytes = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        self.is_over.store(true, Ordering::Relaxed);
        self.changed.notify_all();
    }
}

/// A client or a standard stream.
#[derive(Default)]
pub struct Connection {
    pub server: String,
    pub client: String,
    /// Input that no checkpoint has, from byte `kept_from` on.
    kept: VecDeque<u8>,
    pub kept_from: u64,
    pub input_ended: bool,
    /// Whether it takes no more output.
    pub is_lost: bool,
    unread: Arc<Unread>,
    /// Bytes of output that were released.
    released: u64,
    output: Option<Sender<Vec<u8>>>,
    writer: Option<JoinHandle<()>>,
    /// Whether the program has ended.
    is_over: Arc<AtomicBool>,
    socket: Option<TcpStream>,
}

impl Connection {
    /// A standard stream of this process: one to which output is written, or none for the input. `lost` is called when it takes no more.
    pub fn of_stream(writes_to: Option<Box<dyn Write + Send>>, lost: impl FnOnce() + Send + 'static) -> Connection {
        let mut connection = Connection::default();
        if let Some(stream) = writes_to {
            connection.write_to(stream, lost);
        }
        connection
    }

    /// A client. `lost` is called when it takes no more output.
    ///
    /// # Errors
    /// What its socket gives.
    pub fn of_client(
        server: String,
        stream: TcpStream,
        lost: impl FnOnce() + Send + 'static,
    ) -> io::Result<Connection> {
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let client = digits(stream.peer_addr()?);
        let mut connection = Connection { server, client, ..Connection::default() };
        connection.write_to(Box::new(stream.try_clone()?), lost);
        connection.socket = Some(stream);
        Ok(connection)
    }

    fn write_to(&mut self, mut stream: Box<dyn Write + Send>, lost: impl FnOnce() + Send + 'static) {
        let (output, released) = channel::<Vec<u8>>();
        let is_over = Arc::clone(&self.is_over);
        self.output = Some(output);
        self.writer = Some(thread::spawn(move || {
            for bytes in released {
                // A client that is gone needs no output.
                if write_all(&mut stream, &bytes, &is_over).is_err() {
                    return lost();
                }
            }
        }));
    }

    /// Reads input until its end, by a thread of its own; what is read goes to `events`. A client whose connection fails is lost; another
    /// stream that fails has ended.
    pub fn read<E: Send + 'static>(
        &self,
        channel: u64,
        mut from: impl Read + Send + 'static,
        events: Sender<E>,
        wrap: impl Fn(Outside) -> E + Send + 'static,
    ) {
        let (unread, is_client) = (Arc::clone(&self.unread), self.socket.is_some());
        thread::spawn(move || {
            let mut buffer = vec![0; CHUNK];
            loop {
                let length = match from.read(&mut buffer) {
                    Ok(length) => length,
                    Err(why) if why.kind() == ErrorKind::Interrupted => continue,
                    Err(_) if is_client => {
                        drop(events.send(wrap(Outside::Lost { channel })));
                        return;
                    }
                    Err(_) => 0,
                };
                let bytes = buffer[..length].to_vec();
                if events.send(wrap(Outside::Input { channel, bytes })).is_err() || length == 0 {
                    return;
                }
                unread.add(length as u64);
            }
        });
    }

    /// Its socket, of a client.
    pub fn socket(&self) -> Option<&TcpStream> {
        self.socket.as_ref()
    }

    /// Keeps input; gives where it begins.
    pub fn keep(&mut self, bytes: &[u8]) -> u64 {
        let offset = self.kept_from + self.kept.len() as u64;
        self.kept.extend(bytes);
        self.input_ended |= bytes.is_empty();
        offset
    }

    /// It takes no more output, and nothing more comes from it; false where that is known already.
    pub fn lose(&mut self) -> bool {
        if std::mem::replace(&mut self.is_lost, true) {
            return false;
        }
        self.input_ended = true;
        self.unread.give_up();
        if let Some(socket) = &self.socket {
            // One that the client has reset is shut already.
            drop(socket.shutdown(Shutdown::Both));
        }
        true
    }

    /// Input that no checkpoint has.
    pub fn kept(&mut self) -> &[u8] {
        self.kept.make_contiguous()
    }

    /// Forgets input that the program has read in a checkpoint.
    pub fn forget(&mut self, consumed: u64) {
        let read = usize::try_from(consumed.saturating_sub(self.kept_from)).unwrap_or(0).min(self.kept.len());
        self.kept.drain(..read);
        self.kept_from += read as u64;
        self.unread.take(read as u64);
    }

    /// Lets output go.
    ///
    /// # Errors
    /// `InvalidData` where it does not follow what has been released before: output would be lost or repeated.
    pub fn release(&mut self, output: &Output, bytes: &[u8]) -> io::Result<()> {
        if output.offset != self.released {
            let Output { channel, offset, .. } = output;
            let why =
                format!("connection {channel}: output from byte {offset} follows {} released bytes", self.released);
            return Err(io::Error::new(io::ErrorKind::InvalidData, why));
        }
        self.released += bytes.len() as u64;
        if !bytes.is_empty()
            && let Some(output) = &self.output
        {
            // A writer that has left has no client any more.
            drop(output.send(bytes.to_vec()));
        }
        if output.ended || output.closed {
            self.end(output.closed);
        }
        Ok(())
    }

    /// No more output: the client sees the end after what was released, and where the program has closed the connection, all of it ends.
    fn end(&mut self, closed: bool) {
        self.output = None;
        let writer = self.writer.take();
        let socket =
            if closed { self.socket.take() } else { self.socket.as_ref().and_then(|socket| socket.try_clone().ok()) };
        let Some(socket) = socket else {
            self.writer = writer;
            return;
        };
        if closed {
            self.unread.give_up();
        }
        self.writer = Some(thread::spawn(move || {
            drop(writer.map(JoinHandle::join));
            drop(socket.shutdown(if closed { Shutdown::Both } else { Shutdown::Write }));
        }));
    }

    /// Whether everything that was released has left, of a connection that the program has closed.
    pub fn has_left(&self) -> bool {
        self.writer.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// The program has ended: who takes nothing any more loses the rest.
    pub fn hurry(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }

    /// Waits until everything that was released has left.
    pub fn settle(mut self) {
        self.output = None;
        drop(self.writer.take().map(JoinHandle::join));
    }
}

/// Writes all of it, however long the stream refuses to take it while the program runs.
fn write_all(mut stream: impl Write, mut bytes: &[u8], is_over: &AtomicBool) -> io::Result<()> {
    let mut taken = Instant::now();
    while !bytes.is_empty() {
        match stream.write(bytes) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(length) => {
                bytes = &bytes[length..];
                taken = Instant::now();
            }
            Err(why) if why.kind() == ErrorKind::Interrupted => {}
            Err(why) if why.kind() == ErrorKind::WouldBlock => {
                if is_over.load(Ordering::Relaxed) && taken.elapsed() >= PATIENCE {
                    return Err(why);
                }
                thread::sleep(GLANCE);
            }
            Err(why) => return Err(why),
        }
    }
    stream.flush()
}

/// An address at which clients are accepted, until this is dropped.
pub struct Listening {
    stop: Option<UnixStream>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.stop = None;
        // Afterwards another one can have the address.
        drop(self.thread.take().map(JoinHandle::join));
    }
}

/// Accepts clients at an address, by a thread of its own.
///
/// # Errors
/// When it cannot be bound.
pub fn listen<E: Send + 'static>(
    server: &str,
    events: Sender<E>,
    wrap: impl Fn(Outside) -> E + Send + 'static,
) -> io::Result<Listening> {
    let unknown = || io::Error::new(io::ErrorKind::InvalidInput, format!("no address: '{server}'"));
    let address = address(server).ok_or_else(unknown)?;
    let listener = TcpListener::bind(address).map_err(|why| io::Error::new(why.kind(), format!("{address}: {why}")))?;
    listener.set_nonblocking(true)?;
    let (stop, stopped) = UnixStream::pair()?;
    let server = server.to_owned();
    let take = move |stream| events.send(wrap(Outside::Client { server: server.clone(), stream })).is_ok();
    let thread = thread::spawn(move || accept_all(&listener, &stopped, take));
    Ok(Listening { stop: Some(stop), thread: Some(thread) })
}

/// Accepts clients until `stopped` has ended, or `take` is false. `listener` does not block.
fn accept_all(listener: &TcpListener, stopped: &UnixStream, take: impl Fn(TcpStream) -> bool) {
    loop {
        let mut ready = Ready::of(vec![stopped.as_fd(), listener.as_fd()]);
        if ready.wait(None).is_err() || ready.is(0) {
            return;
        }
        match listener.accept() {
            Ok((stream, _)) => {
                if !take(stream) {
                    return;
                }
            }
            Err(why) if matches!(why.kind(), ErrorKind::WouldBlock | ErrorKind::ConnectionAborted) => {}
            // Clients wait, such as for a descriptor.
            Err(_) => drop(Ready::of(vec![stopped.as_fd()]).wait(Some(PAUSE))),
        }
    }
}

/// The numbers of address families, `AF_INET` and `AF_INET6`, and the lengths of their addresses.
const INET: ([u8; 2], usize) = ([2, 0], 16);
const INET6: ([u8; 2], usize) = ([10, 0], 28);

/// A socket address from the hexadecimal digits of the kernel's structure.
fn address(digits: &str) -> Option<SocketAddr> {
    let byte = |at: usize| digits.get(2 * at..2 * at + 2).and_then(|pair| u8::from_str_radix(pair, 16).ok());
    let bytes: Vec<u8> = (0..digits.len() / 2).map_while(byte).collect();
    let port = u16::from_be_bytes([*bytes.get(2)?, *bytes.get(3)?]);
    let ip = match (bytes.get(..2)?, bytes.len()) {
        (family, length) if family == INET.0 && length >= INET.1 => {
            IpAddr::V4(Ipv4Addr::from(<[u8; 4]>::try_from(&bytes[4..8]).ok()?))
        }
        (family, length) if family == INET6.0 && length >= INET6.1 => {
            IpAddr::V6(Ipv6Addr::from(<[u8; 16]>::try_from(&bytes[8..24]).ok()?))
        }
        _ => return None,
    };
    Some(SocketAddr::new(ip, port))
}

/// The hexadecimal digits of the kernel's structure of an address.
fn digits(address: SocketAddr) -> String {
    let port = address.port().to_be_bytes();
    let bytes = match address.ip() {
        IpAddr::V4(ip) => [INET.0.as_slice(), &port, &ip.octets(), &[0; 8]].concat(),
        IpAddr::V6(ip) => [INET6.0.as_slice(), &port, &[0; 4], &ip.octets(), &[0; 4]].concat(),
    };
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use baremark_sys::network::HeldPort;

    /// Whatever takes longer than this hangs.
    const LIMIT: Duration = Duration::from_secs(90);

    #[test]
    fn addresses_are_those_of_the_kernels_structures() {
        for text in ["127.0.0.1:80", "[::1]:8080"] {
            let known: SocketAddr = text.parse().expect("an address");
            assert_eq!(address(&digits(known)), Some(known));
        }
        assert_eq!(digits("127.0.0.1:80".parse().expect("an address")), "020000507f0000010000000000000000");
        assert_eq!((address(""), address("0200005"), address("01000050000000000000000000000000")), (None, None, None));
    }

    #[test]
    fn an_address_takes_clients_until_it_is_given_up_and_can_be_taken_again() {
        let held = HeldPort::any().expect("a port");
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, held.number()));
        for _ in 0..3 {
            let (events, outside) = channel();
            let listening = listen(&digits(address), events, |outside| outside).expect("a listener");
            let _client = TcpStream::connect(address).expect("a client");
            let accepted = outside.recv_timeout(LIMIT).expect("an event");
            assert!(matches!(accepted, Outside::Client { server, .. } if server == digits(address)));
            drop(listening);
            TcpStream::connect(address).expect_err("nobody listens");
        }
    }

    #[test]
    fn input_is_kept_until_it_was_read_and_output_follows_what_was_released() {
        let mut connection = Connection::of_stream(None, || ());
        assert_eq!((connection.keep(b"abc"), connection.keep(b"de")), (0, 3));
        connection.forget(2);
        assert_eq!((connection.kept_from, connection.kept()), (2, b"cde".as_slice()));
        connection.forget(1);
        assert_eq!(connection.kept_from, 2, "an older checkpoint takes nothing away");
        connection.keep(b"");
        assert!(connection.input_ended);
        let output = |offset| Output { channel: 1, offset, bytes: 2, ended: false, closed: false };
        connection.release(&output(0), b"xy").expect("the first bytes");
        connection.release(&output(0), b"xy").expect_err("repeated");
        connection.release(&output(3), b"xy").expect_err("a byte was lost");
        connection.release(&output(2), b"xy").expect("the next bytes");
    }

    /// A stream that takes a byte at every second time.
    struct Slow {
        refuses: bool,
        taken: Vec<u8>,
    }

    impl Write for Slow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.refuses = !self.refuses;
            if self.refuses {
                return Err(ErrorKind::WouldBlock.into());
            }
            self.taken.extend(bytes.first());
            Ok(1)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_stream_that_refuses_for_a_while_loses_no_byte() {
        for is_over in [false, true] {
            let mut slow = Slow { refuses: false, taken: Vec::new() };
            write_all(&mut slow, b"abcd", &AtomicBool::new(is_over)).expect("written");
            assert_eq!(slow.taken, b"abcd");
        }
    }

    #[test]
    fn a_client_that_resets_its_connection_is_lost_and_one_that_ends_it_is_lost_when_output_comes() {
        for resets in [true, false] {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
            let client = TcpStream::connect(listener.local_addr().expect("an address")).expect("a client");
            let (stream, _) = listener.accept().expect("its other end");
            let (events, outside) = channel();
            let writers_events = events.clone();
            let lost = move || drop(writers_events.send(Outside::Lost { channel: 3 }));
            let mut connection = Connection::of_client(String::new(), stream, lost).expect("a connection");
            let from = connection.socket().expect("a client").try_clone().expect("a descriptor");
            connection.read(3, from, events, |outside| outside);
            if resets {
                let output = Output { channel: 3, offset: 0, bytes: 1, ended: false, closed: false };
                connection.release(&output, b"x").expect("the first byte");
                // What is not read makes closing a reset.
                client.peek(&mut [0]).expect("a byte");
            }
            drop(client);
            let next = || outside.recv_timeout(LIMIT).expect("an event");
            if !resets {
                assert!(matches!(next(), Outside::Input { bytes, .. } if bytes.is_empty()));
                let bytes = vec![7_u8; 64 << 20];
                let output = Output { channel: 3, offset: 0, bytes: bytes.len(), ended: false, closed: false };
                connection.release(&output, &bytes).expect("the first bytes");
            }
            assert!(matches!(next(), Outside::Lost { channel: 3 }));
            assert_eq!((connection.lose(), connection.lose(), connection.input_ended), (true, false, true));
        }
    }

    #[test]
    fn a_client_that_reads_late_gets_everything_after_the_program_has_closed_the_connection_and_ended() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let mut client = TcpStream::connect(listener.local_addr().expect("an address")).expect("a client");
        let (stream, _) = listener.accept().expect("its other end");
        let mut connection = Connection::of_client(String::new(), stream, || ()).expect("a connection");
        // More than both ends keep.
        let bytes = vec![7_u8; 64 << 20];
        let output = Output { channel: 3, offset: 0, bytes: bytes.len(), ended: true, closed: true };
        connection.release(&output, &bytes).expect("the first bytes");
        assert!(!connection.has_left());
        let reading = thread::spawn(move || {
            thread::sleep(Duration::from_millis(100));
            client.read_to_end(&mut Vec::new())
        });
        connection.hurry();
        connection.settle();
        assert_eq!(reading.join().expect("a thread").expect("all of it"), bytes.len());
    }
}
