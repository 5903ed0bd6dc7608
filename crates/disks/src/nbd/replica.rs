//! The second copy of a disk: a file without a name behind an NBD server on the loopback.
//!
//! The export's name is drawn and known to this process alone, for whoever knows it may write. One connection is served. Requests are
//! answered in any order by a few threads; a write is answered once it is in the file, past the page cache where the file system allows that.
//! What does not keep to the protocol, and a client that stops in the middle of a request or takes no answers, ends the connection, and
//! [`Replica::failure`] has the reason.

use super::wire::{self, Command, Request};
use crate::error::EngineError;
use crate::io::buffers::{ALIGNMENT, Buffers};
use crate::io::calls;
use crate::target::{Cache, Target};
use crate::writable::Writable;
use baremark_model::units::Bytes;
use baremark_sys::registry::random_secret;
use std::fs::File;
use std::io::{self, BufReader, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// How long whoever connects may take until it has named the export.
const HANDSHAKE_LIMIT: Duration = Duration::from_secs(5);
/// How long a client may be silent in the middle of a request, or take none of its answers.
const SILENCE: Duration = Duration::from_secs(60);
/// Requests that are carried out at the same time, and that wait: with [`LONGEST`] they bound the memory.
const WORKERS: usize = 8;
const WAITING: usize = 8;
/// The longest request: what the protocol says that every server takes.
const LONGEST: u32 = 32 << 20;
/// Bytes of the buffer for requests from the connection.
const READ_AHEAD: usize = 256 << 10;
/// Errors of the protocol.
const EIO: u32 = 5;
const EINVAL: u32 = 22;
const ENOSPC: u32 = 28;

/// A second copy; it takes no more requests once this is dropped, and its file is gone.
pub struct Replica {
    address: SocketAddr,
    name: String,
    file: File,
    bytes: u64,
    shared: Arc<Mutex<Shared>>,
    serving: Option<JoinHandle<()>>,
}

/// What the owner and the serving thread share.
#[derive(Default)]
struct Shared {
    /// Whoever is greeted or served now.
    connection: Option<TcpStream>,
    is_closed: bool,
    failure: Option<String>,
}

/// What is served, and how long a client may be silent.
struct Export {
    name: String,
    stored: File,
    bytes: u64,
    silence: Duration,
}

impl Replica {
    /// Serves `bytes` of zeros, whose blocks are reserved in `folder`, on a free port of the loopback.
    ///
    /// # Errors
    /// Too little space, or what files and sockets give.
    pub fn serve(folder: &Path, bytes: u64) -> Result<Replica, EngineError> {
        Replica::with_patience(folder, bytes, SILENCE)
    }

    fn with_patience(folder: &Path, bytes: u64, silence: Duration) -> Result<Replica, EngineError> {
        let failed = |why| EngineError::io("serving a second copy", why);
        let file = Writable::nameless(folder)?;
        calls::reserve(file.open(), bytes)
            .map_err(|why| EngineError::io(format!("reserving {} in {}", Bytes(bytes), folder.display()), why))?;
        let name = random_secret().map_err(failed)?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let copy = || file.try_clone().map_err(failed);
        // Not every file system has files that bypass the page cache.
        let stored = match Target::over(copy()?, bytes, Cache::Direct) {
            Ok(target) => target.handle(false)?,
            Err(_) => copy()?.into_file(),
        };
        let file = file.into_file();
        let export = Export { name: name.clone(), stored, bytes, silence };
        let shared = Arc::new(Mutex::new(Shared::default()));
        let theirs = Arc::clone(&shared);
        let serving = Some(thread::spawn(move || serve_one(listener, &export, &theirs)));
        Ok(Replica { address, name, file, bytes, shared, serving })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The export's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Bytes of the export.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Why it serves nobody any more, in words; `None` while it does, and when the client has ended the connection between two requests.
    #[must_use]
    pub fn failure(&self) -> Option<String> {
        locked(&self.shared).failure.clone()
    }

    pub(crate) fn file(&self) -> &File {
        &self.file
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        let mut shared = locked(&self.shared);
        shared.is_closed = true;
        let ended = shared.connection.take().map(|stream| stream.shutdown(Shutdown::Both));
        drop(shared);
        if ended.is_none() {
            // The thread waits for a connection, if it has not ended.
            drop(TcpStream::connect(self.address));
        }
        drop(self.serving.take().map(JoinHandle::join));
    }
}

fn locked(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Serves the first that names the export.
fn serve_one(listener: TcpListener, export: &Export, shared: &Mutex<Shared>) {
    let found = first_that_knows(&listener, export, shared);
    drop(listener);
    let (stream, ended) = match found {
        Ok(Some(stream)) => {
            let ended = serve(&stream, export);
            (Some(stream), ended)
        }
        Ok(None) => (None, Ok(())),
        Err(why) => (None, Err(why)),
    };
    let mut shared = locked(shared);
    if !shared.is_closed {
        shared.failure = ended.err().map(|why| why.to_string());
    }
    // The client sees the end of its connection once the reason can be read.
    shared.connection = None;
    drop(stream);
}

/// The first connection that names the export; `None` once the replica is dropped.
fn first_that_knows(listener: &TcpListener, export: &Export, shared: &Mutex<Shared>) -> io::Result<Option<TcpStream>> {
    loop {
        let stream = match listener.accept() {
            Ok((stream, _)) => stream,
            Err(why) if matches!(why.kind(), ErrorKind::ConnectionAborted | ErrorKind::Interrupted) => continue,
            Err(why) => return Err(why),
        };
        let handle = stream.try_clone()?;
        {
            let mut shared = locked(shared);
            if shared.is_closed {
                return Ok(None);
            }
            shared.connection = Some(handle);
        }
        // Somebody else may come after one that does not know the protocol or the name, or says nothing.
        if greet(&stream, export).is_ok_and(|knows| knows) {
            return Ok(Some(stream));
        }
        let mut shared = locked(shared);
        shared.connection = None;
        if shared.is_closed {
            return Ok(None);
        }
    }
}

fn greet(stream: &TcpStream, export: &Export) -> io::Result<bool> {
    stream.set_nodelay(true)?;
    let limit = HANDSHAKE_LIMIT.min(export.silence);
    let knows = wire::serve_handshake(&mut Until(stream, Instant::now() + limit), &export.name, export.bytes)?;
    stream.set_read_timeout(Some(export.silence))?;
    stream.set_write_timeout(Some(export.silence))?;
    Ok(knows)
}

/// A connection whose reads and writes fail from a moment on.
struct Until<'s>(&'s TcpStream, Instant);

impl Until<'_> {
    fn left(&self) -> io::Result<Duration> {
        let left = self.1.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(ErrorKind::TimedOut.into()) } else { Ok(left) }
    }
}

impl Read for Until<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.0.set_read_timeout(Some(self.left()?))?;
        self.0.read(into)
    }
}

impl Write for Until<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.set_write_timeout(Some(self.left()?))?;
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A request with room for its data, which are those of a write.
struct Work {
    request: Request,
    data: Buffers,
}

/// Where answers go, and why one did not.
struct Answers<'s> {
    stream: &'s TcpStream,
    failure: Mutex<Option<io::Error>>,
}

impl Answers<'_> {
    /// Sends one answer as a whole; after one that failed nothing is sent, and no request is read any more.
    fn send(&self, error: u32, cookie: u64, data: &[u8]) {
        let message = [&wire::reply(error, cookie), data].concat();
        let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        if failure.is_some() {
            return;
        }
        let mut stream = self.stream;
        if let Err(why) = stream.write_all(&message) {
            *failure = Some(wire::explained(why, "taking its answers"));
            drop(self.stream.shutdown(Shutdown::Both));
        }
    }
}

/// Carries out requests until the client disconnects.
fn serve(stream: &TcpStream, export: &Export) -> io::Result<()> {
    let answers = Answers { stream, failure: Mutex::default() };
    let (sender, waiting) = sync_channel::<Work>(WAITING);
    let waiting = Mutex::new(waiting);
    let mut requests = BufReader::with_capacity(READ_AHEAD, stream);
    let ended = thread::scope(|threads| {
        for _ in 0..WORKERS {
            threads.spawn(|| work(&waiting, &export.stored, &answers));
        }
        let ended = take_requests(&mut requests, &sender, &answers, export.bytes);
        drop(sender);
        ended
    });
    let unanswered = answers.failure.into_inner().unwrap_or_else(PoisonError::into_inner);
    unanswered.map_or(ended, Err)
}

fn take_requests(
    requests: &mut impl Read,
    sender: &SyncSender<Work>,
    answers: &Answers<'_>,
    bytes: u64,
) -> io::Result<()> {
    while let Some(request) = Request::read(requests)? {
        if request.command == Command::Disconnect {
            return Ok(());
        }
        if request.length > LONGEST {
            // Data that follow would have to be read to find the next request.
            let what = format!("a request of {} bytes, of which {LONGEST} are the most", request.length);
            return Err(io::Error::new(ErrorKind::InvalidData, what));
        }
        let carried = if request.command == Command::Write { request.length } else { 0 };
        if let Some(error) = refusal(&request, bytes) {
            wire::skip(requests, carried)?;
            answers.send(error, request.cookie, &[]);
            continue;
        }
        let mut data = Buffers::new(1, size(request.length));
        wire::rest(requests, &mut data.of_mut(0)[..size(carried)])?;
        if sender.send(Work { request, data }).is_err() {
            return Ok(());
        }
    }
    Ok(())
}

fn size(length: u32) -> usize {
    usize::try_from(length).unwrap_or(usize::MAX)
}

/// The error of a request that is not carried out.
fn refusal(request: &Request, bytes: u64) -> Option<u32> {
    let (offset, length) = (request.offset, u64::from(request.length));
    let ends_within = offset.checked_add(length).is_some_and(|end| end <= bytes);
    let is_aligned = [offset, length].iter().all(|number| number.is_multiple_of(ALIGNMENT as u64));
    match request.command {
        Command::Flush if (offset, length) == (0, 0) => None,
        Command::Read | Command::Write if length == 0 || !is_aligned => Some(EINVAL),
        Command::Read if !ends_within => Some(EINVAL),
        Command::Write if !ends_within => Some(ENOSPC),
        Command::Read | Command::Write => None,
        Command::Flush | Command::Disconnect | Command::Other(_) => Some(EINVAL),
    }
}

/// Carries out what waits until nothing more can come.
fn work(waiting: &Mutex<Receiver<Work>>, stored: &File, answers: &Answers<'_>) {
    loop {
        let next = waiting.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(Work { request, mut data }) = next else { return };
        let data = &mut data.of_mut(0)[..size(request.length)];
        let done = match request.command {
            Command::Read => stored.read_exact_at(data, request.offset),
            Command::Write if request.durable => {
                stored.write_all_at(data, request.offset).and_then(|()| stored.sync_data())
            }
            Command::Write => stored.write_all_at(data, request.offset),
            _ => stored.sync_data(),
        };
        let error = done.err().map_or(0, |why| if why.kind() == ErrorKind::StorageFull { ENOSPC } else { EIO });
        answers.send(error, request.cookie, if request.command == Command::Read && error == 0 { &*data } else { &[] });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nbd::client;

    const BYTES: u64 = 16 << 20;
    const PATIENCE: Duration = Duration::from_secs(2);

    fn replica() -> Replica {
        Replica::with_patience(&std::env::temp_dir(), BYTES, PATIENCE).expect("a second copy")
    }

    fn connected(replica: &Replica) -> TcpStream {
        client::connect(replica.address(), replica.name(), BYTES).expect("it serves who knows its name").0
    }

    fn request(command: u8, length: u32) -> Vec<u8> {
        [b"\x25\x60\x95\x13\0\0\0", &[command][..], b"cookie!!\0\0\0\0\0\0\0\0", &length.to_be_bytes()].concat()
    }

    /// Why a connection ended, once it has.
    fn failure(replica: &Replica) -> String {
        let began = Instant::now();
        loop {
            match replica.failure() {
                Some(why) => return why,
                None => assert!(began.elapsed() < 60 * PATIENCE, "the connection is still served"),
            }
            // A thread that asks without a pause takes the CPU from the one that serves.
            thread::sleep(Duration::from_millis(2));
        }
    }

    #[test]
    fn who_says_nothing_between_requests_is_served_and_who_stops_within_one_is_not() {
        let replica = replica();
        let mut stream = connected(&replica);
        thread::sleep(PATIENCE + PATIENCE / 4);
        stream.write_all(&request(0, 4096)).expect("sent");
        let mut answer = [1; 16 + 4096];
        stream.read_exact(&mut answer).expect("answered");
        assert_eq!((&answer[4..16], answer[16..].iter().all(|byte| *byte == 0)), (&b"\0\0\0\0cookie!!"[..], true));
        // A write whose data do not come.
        stream.write_all(&request(1, 4096)).expect("sent");
        stream.write_all(&[1; 100]).expect("sent");
        assert_eq!(stream.read(&mut [0; 1]).expect("the end"), 0);
        assert_eq!(failure(&replica), "the client stopped in the middle of a request");
        let mut found = [1; 4096];
        replica.file().read_exact_at(&mut found, 0).expect("the copy");
        assert_eq!(found, [0; 4096], "nothing of half a write is in the copy");
    }

    #[test]
    fn who_takes_no_answers_is_not_served_for_ever() {
        let replica = replica();
        let mut stream = connected(&replica);
        // More than sockets hold. A write of ours fails once the connection has ended.
        let sent = (0..64).all(|_| stream.write_all(&request(0, 8 << 20)).is_ok());
        assert_eq!(failure(&replica), "the client stopped taking its answers", "all sent: {sent}");
    }

    #[test]
    fn a_stranger_that_says_nothing_keeps_nobody_out() {
        let replica = replica();
        let mut strangers: Vec<_> =
            (0..2).map(|_| TcpStream::connect(replica.address()).expect("it listens")).collect();
        // One says a byte now and then: all of the handshake has one limit.
        strangers[1].write_all(&[0]).expect("sent");
        let _served = connected(&replica);
        drop(strangers);
    }

    #[test]
    fn a_replica_that_is_dropped_waits_for_nobody() {
        let patience = Duration::from_secs(120);
        let replica = Replica::with_patience(&std::env::temp_dir(), BYTES, patience).expect("a second copy");
        let mut stream = connected(&replica);
        stream.write_all(&request(1, 4096)[..20]).expect("sent");
        let began = Instant::now();
        drop(replica);
        assert!(began.elapsed() < patience / 2, "its owner waited for a client");
        assert!(matches!(stream.read(&mut [0; 1]), Ok(0) | Err(_)));
    }
}
