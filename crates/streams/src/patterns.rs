//! What the two ends do: one function for each side of each pattern.

use crate::order::{Order, Worker};
use baremark_sys::calls::again_after_signals;
use rustix::fs::sendfile;
use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

/// Bytes that are taken at once from a stream: as many as a message has, which are then still in the nearest cache, but not fewer than the
/// first and not more than the second, since each call has its own cost.
const TAKEN: [usize; 2] = [16 << 10, 128 << 10];
/// Bytes of the file that zero-copy sending sends again and again.
const FILE: u64 = 4 << 20;
/// How long an end waits for the other before that counts as a failure.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a receiver of datagrams waits for more when the sender has ended.
const QUIET: Duration = Duration::from_millis(50);

pub(crate) fn connect(order: &Order, to: SocketAddr) -> io::Result<TcpStream> {
    let socket = socket2::Socket::new(socket2::Domain::for_address(to), socket2::Type::STREAM, None)?;
    if let Some(bytes) = order.buffer {
        socket.set_send_buffer_size(bytes)?;
        socket.set_recv_buffer_size(bytes)?;
    }
    socket.connect_timeout(&to.into(), PATIENCE)?;
    Ok(socket.into())
}

/// Sends messages until the worker is stopped; the other end has all of them when this returns.
pub(crate) fn send(order: &Order, worker: &Worker<'_>, to: SocketAddr) -> io::Result<()> {
    let mut stream = connect(order, to)?;
    stream.set_write_timeout(Some(PATIENCE))?;
    if order.zero_copy {
        send_file(order, worker, &stream)?;
    } else {
        let message = vec![0x5a; order.message];
        while worker.goes_on() {
            stream.write_all(&message)?;
            worker.count(order.message);
        }
    }
    stream.shutdown(Shutdown::Write)?;
    // The other end closes when it has taken everything.
    stream.set_read_timeout(Some(PATIENCE))?;
    if again_after_signals(|| stream.read(&mut [0]))? != 0 {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "a receiver answered"));
    }
    Ok(())
}

/// By sendfile(2): the pages of a file go to the socket without being copied.
fn send_file(order: &Order, worker: &Worker<'_>, stream: &TcpStream) -> io::Result<()> {
    let file = unnamed_file()?;
    let message = order.message as u64;
    let mut position = 0;
    while worker.goes_on() {
        if position + message > FILE.max(message) {
            position = 0;
        }
        let mut left = order.message;
        while left > 0 {
            match again_after_signals(|| Ok(sendfile(stream, &file, Some(&mut position), left)?))? {
                0 => return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the file is shorter than a message")),
                sent => left -= sent,
            }
        }
        worker.count(order.message);
    }
    Ok(())
}

fn unnamed_file() -> io::Result<File> {
    let name = format!("baremark-stream-{}-{:?}", std::process::id(), std::thread::current().id());
    let path = std::env::temp_dir().join(name);
    let file = File::options().read(true).write(true).create_new(true).open(&path)?;
    std::fs::remove_file(path)?;
    file.set_len(FILE.max(16 << 20))?;
    Ok(file)
}

/// Takes a stream until its end.
pub(crate) fn receive(order: &Order, worker: &Worker<'_>, mut stream: TcpStream) -> io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut buffer = vec![0; order.message.clamp(TAKEN[0], TAKEN[1])];
    loop {
        match again_after_signals(|| stream.read(&mut buffer))? {
            0 => return Ok(()),
            length => worker.count(length),
        }
    }
}

/// Sends a message and waits for it to come back, again and again.
pub(crate) fn request(order: &Order, worker: &Worker<'_>, to: SocketAddr) -> io::Result<()> {
    let mut stream = connect(order, to)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let (message, mut answer) = (vec![0x5a; order.message], vec![0; order.message]);
    while worker.goes_on() {
        let began = Instant::now();
        stream.write_all(&message)?;
        stream.read_exact(&mut answer)?;
        worker.trip(began.elapsed(), order.message);
    }
    Ok(())
}

/// A connection for each message.
pub(crate) fn connect_and_close(order: &Order, worker: &Worker<'_>, to: SocketAddr) -> io::Result<()> {
    let (message, mut answer) = (vec![0x5a; order.message], vec![0; order.message]);
    while worker.goes_on() {
        let began = Instant::now();
        let mut stream = connect(order, to)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.write_all(&message)?;
        stream.read_exact(&mut answer)?;
        // The server closes first, so that ports of this side are free again at once.
        let _ = again_after_signals(|| stream.read(&mut [0]))?;
        worker.trip(began.elapsed(), order.message);
    }
    Ok(())
}

/// Answers messages of one connection until it ends; `once` closes after the first.
pub(crate) fn answer(order: &Order, worker: &Worker<'_>, mut stream: TcpStream, once: bool) -> io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut message = vec![0; order.message];
    loop {
        match stream.read_exact(&mut message) {
            Err(why) if why.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            read => read?,
        }
        stream.write_all(&message)?;
        worker.count(order.message);
        if once {
            return Ok(());
        }
    }
}

/// Answers connections of one message each until a connection without any comes when the worker is stopped.
pub(crate) fn answer_connections(order: &Order, worker: &Worker<'_>, listener: &TcpListener) -> io::Result<()> {
    loop {
        let (stream, _) = listener.accept()?;
        if !worker.goes_on() {
            // Whatever has begun is answered, the waking connection ends at once.
            return answer(order, worker, stream, true);
        }
        answer(order, worker, stream, true)?;
    }
}

/// Sends datagrams as fast as the socket takes them.
pub(crate) fn send_datagrams(order: &Order, worker: &Worker<'_>, to: SocketAddr) -> io::Result<()> {
    let any: SocketAddr = if to.is_ipv4() { ([0, 0, 0, 0], 0).into() } else { ([0_u16; 8], 0).into() };
    let socket = UdpSocket::bind(any)?;
    socket.connect(to)?;
    let message = vec![0x5a; order.message];
    while worker.goes_on() {
        match socket.send(&message) {
            Ok(_) => worker.count(order.message),
            // The queue of the interface is full: what would be lost here is not sent.
            Err(why) if why.raw_os_error() == Some(ENOBUFS) => std::thread::yield_now(),
            Err(why) => return Err(why),
        }
    }
    Ok(())
}

const ENOBUFS: i32 = 105;

/// Takes datagrams until the worker is stopped and no more come.
pub(crate) fn receive_datagrams(order: &Order, worker: &Worker<'_>, socket: &UdpSocket) -> io::Result<()> {
    socket.set_read_timeout(Some(QUIET))?;
    let mut buffer = vec![0; 1 << 16];
    loop {
        match again_after_signals(|| socket.recv(&mut buffer)) {
            Ok(length) if length == order.message => worker.count(length),
            Ok(length) => {
                let what = format!("a datagram of {length} bytes in place of {}", order.message);
                return Err(io::Error::new(io::ErrorKind::InvalidData, what));
            }
            Err(why) if matches!(why.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                if !worker.goes_on() {
                    return Ok(());
                }
            }
            Err(why) => return Err(why),
        }
    }
}
