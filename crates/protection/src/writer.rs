//! Programs that protection is measured with: one that writes pages, one that starts processes, a server that answers with so many bytes, and
//! one that keeps orders in memory.

use std::hint::black_box;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// Bytes of a request: its number, and how many bytes the answer shall have.
pub const REQUEST: usize = 16;
/// Additions between two passes, which keep the processor busy without memory: some 50 us.
const ADDITIONS: u64 = 50_000;
const PART: usize = 64 << 10;
const PAGE: usize = 4096;

/// What a program writes.
#[derive(Clone, Copy, Debug)]
pub struct Writes {
    /// Pages of a pass.
    pub pages: usize,
    /// How often they are written.
    pub passes: u64,
    /// Whether each pass writes pages that were never written before.
    pub new: bool,
    /// Further pages, written once before, of which each pass reads a byte.
    pub held: usize,
}

/// So many threads each write one byte of each page and then compute, pass by pass; the same work whatever happens to it. Next to them so many
/// processes wait.
///
/// # Errors
/// What starting a process gives.
pub fn write(writes: Writes, threads: usize, waiting: usize) -> io::Result<()> {
    let mut others = (0..waiting).map(|_| this_program(&["--wait"], Stdio::piped())).collect::<io::Result<Vec<_>>>()?;
    thread::scope(|scope| {
        (1..threads).for_each(|_| drop(scope.spawn(move || write_alone(writes))));
        write_alone(writes);
    });
    // The end of its input ends each.
    others.iter_mut().try_for_each(|other| other.wait().map(drop))
}

/// So many threads each start so many processes, one after the other, which end at once.
///
/// # Errors
/// What starting one gives.
pub fn start(count: u64, threads: usize) -> io::Result<()> {
    let one_by_one = || {
        (0..count).try_for_each(|_| {
            let status = this_program(&["--write", "1"], Stdio::null())?.wait()?;
            if status.success() {
                Ok(())
            } else {
                Err(io::Error::other(format!("a process that was started: {status}")))
            }
        })
    };
    thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(one_by_one)).collect();
        let died = |_panic| io::Error::other("a thread that starts processes died");
        others.into_iter().fold(one_by_one(), |all, other| all.and(other.join().map_err(died).and_then(|done| done)))
    })
}

/// Waits until standard input ends.
///
/// # Errors
/// What reading it gives.
pub fn wait() -> io::Result<()> {
    io::copy(&mut io::stdin().lock(), &mut io::sink()).map(drop)
}

fn this_program(arguments: &[&str], input: Stdio) -> io::Result<Child> {
    Command::new("/proc/self/exe").arg("protect").args(arguments).stdin(input).spawn()
}

fn write_alone(Writes { pages, passes, new, held }: Writes) {
    let held = vec![1_u8; held.saturating_mul(PAGE)];
    let passes = usize::try_from(passes).unwrap_or(usize::MAX);
    let (count, step) = if new { (pages.saturating_mul(passes), pages) } else { (pages, 0) };
    let mut memory = vec![0_u8; count.saturating_mul(PAGE)];
    for pass in 0..passes {
        for page in memory[pass * step * PAGE..][..pages * PAGE].chunks_exact_mut(PAGE) {
            page[0] = page[0].wrapping_add(1);
        }
        black_box(&memory);
        black_box(held.chunks_exact(PAGE).map(|page| u64::from(page[0])).sum::<u64>());
        black_box((0..ADDITIONS).fold(pass as u64, |sum, number| black_box(sum.wrapping_mul(31).wrapping_add(number))));
    }
}

/// Answers requests at an address until standard input ends. An answer is the request's number, and then bytes that follow from it.
///
/// # Errors
/// When the address cannot be bound.
pub fn answer(address: SocketAddr) -> io::Result<()> {
    let listener = TcpListener::bind(address)?;
    thread::spawn(move || {
        for client in listener.incoming().flatten() {
            thread::spawn(move || drop(serve(client)));
        }
    });
    wait()
}

fn serve(mut client: TcpStream) -> io::Result<()> {
    client.set_nodelay(true)?;
    let mut request = [0; REQUEST];
    let mut part = vec![0; PART];
    loop {
        client.read_exact(&mut request)?;
        let [number, mut left] = numbers(&request);
        part.fill(filling(number));
        part[..8].copy_from_slice(&number.to_le_bytes());
        while left > 0 {
            let length = usize::try_from(left).unwrap_or(PART).min(PART);
            client.write_all(&part[..length])?;
            left -= length as u64;
        }
    }
}

/// Makes a request and checks every byte of its answer. `bytes` is a multiple of 8.
///
/// # Errors
/// What the connection gives; `InvalidData` for another answer.
pub fn ask(server: &mut TcpStream, number: u64, bytes: u64, buffer: &mut Vec<u8>) -> io::Result<()> {
    let mut request = number.to_le_bytes().to_vec();
    request.extend_from_slice(&bytes.to_le_bytes());
    server.write_all(&request)?;
    let wrong = || io::Error::new(io::ErrorKind::InvalidData, format!("answer {number} has bytes of another one"));
    buffer.resize(PART, 0);
    let mut left = bytes;
    while left > 0 {
        let length = usize::try_from(left).unwrap_or(PART).min(PART);
        server.read_exact(&mut buffer[..length])?;
        let (head, rest) = buffer[..length].split_at(8.min(length));
        if head != &number.to_le_bytes()[..head.len()] || rest.iter().any(|&byte| byte != filling(number)) {
            return Err(wrong());
        }
        left -= length as u64;
    }
    Ok(())
}

/// In place of a client's number: send the log, or end.
pub const READ_LOG: u64 = u64::MAX;
/// See [`READ_LOG`].
pub const END: u64 = u64::MAX - 1;

/// Keeps orders in memory. A request has a client's number and one of its own; it is added to the log, and the answer is how many orders the
/// log has. So many threads serve a client each, until one asks for the end.
///
/// # Errors
/// When the address cannot be bound.
pub fn count(address: SocketAddr, workers: usize) -> io::Result<()> {
    let listener = TcpListener::bind(address)?;
    let log = Mutex::new(Vec::new());
    if workers <= 1 {
        while !keep_orders(listener.accept()?.0, &log).unwrap_or(false) {}
        return Ok(());
    }
    let (listener, log) = (Arc::new(listener), Arc::new(log));
    let (end, ended) = sync_channel(1);
    for _ in 0..workers {
        let (listener, log, end) = (Arc::clone(&listener), Arc::clone(&log), end.clone());
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                // A client that is gone has no more orders.
                if keep_orders(client, &log).unwrap_or(false) {
                    end.send(()).unwrap_or_default();
                }
            }
        });
    }
    ended.recv().map_err(io::Error::other)
}

/// True when the client asks for the end; false at the end of its connection.
fn keep_orders(mut client: TcpStream, log: &Mutex<Vec<u8>>) -> io::Result<bool> {
    client.set_nodelay(true)?;
    let mut request = [0; REQUEST];
    loop {
        client.read_exact(&mut request)?;
        let mut log = log.lock().unwrap_or_else(PoisonError::into_inner);
        let answer = match numbers(&request)[0] {
            END => return Ok(true),
            READ_LOG => [&((log.len() / REQUEST) as u64).to_le_bytes(), log.as_slice()].concat(),
            _ => {
                log.extend_from_slice(&request);
                ((log.len() / REQUEST) as u64).to_le_bytes().to_vec()
            }
        };
        drop(log);
        client.write_all(&answer)?;
    }
}

fn numbers(request: &[u8; REQUEST]) -> [u64; 2] {
    [0, 8].map(|at| request[at..at + 8].try_into().map_or(0, u64::from_le_bytes))
}

fn filling(number: u64) -> u8 {
    number.to_le_bytes()[0] ^ 0x5a
}
