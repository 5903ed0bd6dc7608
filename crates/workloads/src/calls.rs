//! What a program asks of its operating system most: a file read, bytes through a pipe, a round trip over loopback TCP, memory touched for the
//! first time. Each comes with a cheaper variant of itself, which is the baseline of its workload.

use baremark_model::page_size::PageSize;
use baremark_sys::paging::Fresh;
use std::fs::File;
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

/// Bytes that are read of a file.
const BLOCK: usize = 4096;
/// Bytes that go through a pipe at once: half of what a pipe holds.
const MESSAGE: usize = 32 << 10;

/// This program's own file: one that every place has, in the file system that it runs from, which is only read.
pub struct OwnFile {
    path: PathBuf,
    open: File,
    expected: Vec<u8>,
}

impl OwnFile {
    /// Opens it.
    ///
    /// # Errors
    /// When it cannot be found or read.
    pub fn open() -> io::Result<OwnFile> {
        let path = std::env::current_exe()?;
        let open = File::open(&path)?;
        let mut expected = vec![0; BLOCK];
        open.read_exact_at(&mut expected, 0)?;
        Ok(OwnFile { path, open, expected })
    }

    /// Opens it by its name, reads a block and closes it, `times` times.
    ///
    /// # Errors
    /// What the calls give, and when a block has other bytes than at first.
    pub fn open_and_read(&self, times: u64) -> io::Result<()> {
        let mut block = [0; BLOCK];
        for _ in 0..times {
            File::open(&self.path)?.read_exact(&mut block)?;
        }
        self.is_expected(&block)
    }

    /// Reads a block of it, which is open, `times` times.
    ///
    /// # Errors
    /// As [`OwnFile::open_and_read`].
    pub fn read(&self, times: u64) -> io::Result<()> {
        let mut block = [0; BLOCK];
        for _ in 0..times {
            self.open.read_exact_at(&mut block, 0)?;
        }
        self.is_expected(&block)
    }

    fn is_expected(&self, block: &[u8]) -> io::Result<()> {
        let same = block == self.expected;
        if same {
            Ok(())
        } else {
            Err(io::Error::other(format!("{} has other bytes than before", self.path.display())))
        }
    }
}

/// A pipe of one process to itself.
pub struct Pipe {
    from: PipeReader,
    to: PipeWriter,
    sent: Vec<u8>,
    received: Vec<u8>,
}

impl Pipe {
    /// A pipe.
    ///
    /// # Errors
    /// What `pipe2(2)` gives.
    pub fn new() -> io::Result<Pipe> {
        let (from, to) = io::pipe()?;
        Ok(Pipe { from, to, sent: pattern(MESSAGE), received: vec![0; MESSAGE] })
    }

    /// Writes `bytes` (at most 32 KiB) and reads them, `times` times.
    ///
    /// # Errors
    /// What the calls give, and when other bytes came.
    fn pass(&mut self, bytes: usize, times: u64) -> io::Result<()> {
        for _ in 0..times {
            self.to.write_all(&self.sent[..bytes])?;
            self.from.read_exact(&mut self.received[..bytes])?;
        }
        came_as_sent(&self.sent[..bytes], &self.received[..bytes])
    }

    /// 32 KiB each time.
    ///
    /// # Errors
    /// What the calls give, and when other bytes came.
    pub fn pass_messages(&mut self, times: u64) -> io::Result<()> {
        self.pass(MESSAGE, times)
    }

    /// One byte each time.
    ///
    /// # Errors
    /// As [`Pipe::pass_messages`].
    pub fn pass_bytes(&mut self, times: u64) -> io::Result<()> {
        self.pass(1, times)
    }
}

/// Two connections of one thread to itself: over loopback TCP, and over a pair of local sockets.
pub struct Connections {
    tcp: (TcpStream, TcpStream),
    local: (UnixStream, UnixStream),
}

impl Connections {
    /// Connects.
    ///
    /// # Errors
    /// What the calls give, as where the loopback interface is down.
    pub fn new() -> io::Result<Connections> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let client = TcpStream::connect(listener.local_addr()?)?;
        let (server, _) = listener.accept()?;
        for end in [&client, &server] {
            end.set_nodelay(true)?;
        }
        Ok(Connections { tcp: (client, server), local: UnixStream::pair()? })
    }

    /// Sends a byte over TCP and back, `times` times.
    ///
    /// # Errors
    /// What the calls give, and when another byte came.
    pub fn over_tcp(&mut self, times: u64) -> io::Result<()> {
        round_trips(&mut self.tcp.0, &mut self.tcp.1, times)
    }

    /// Sends a byte over the pair of local sockets and back, `times` times.
    ///
    /// # Errors
    /// As [`Connections::over_tcp`].
    pub fn over_local_sockets(&mut self, times: u64) -> io::Result<()> {
        round_trips(&mut self.local.0, &mut self.local.1, times)
    }
}

fn round_trips(client: &mut (impl Read + Write), server: &mut (impl Read + Write), times: u64) -> io::Result<()> {
    let mut byte = [0_u8];
    for number in 0..times {
        #[expect(clippy::cast_possible_truncation, reason = "counted in one byte")]
        let sent = [number as u8];
        client.write_all(&sent)?;
        server.read_exact(&mut byte)?;
        server.write_all(&byte)?;
        client.read_exact(&mut byte)?;
        came_as_sent(&sent, &byte)?;
    }
    Ok(())
}

/// Maps memory of so many small pages (a multiple of 512), stores to each, and unmaps all.
///
/// # Errors
/// What `mmap(2)` gives.
pub fn fresh_pages(pages: u64) -> io::Result<()> {
    let mut fresh = mapped(pages)?;
    fresh.touch_each();
    Ok(())
}

/// Memory of so many small pages, not touched yet.
///
/// # Errors
/// What `mmap(2)` gives, and when there are more pages than asked for.
pub fn mapped(pages: u64) -> io::Result<Fresh> {
    let pages = usize::try_from(pages).map_err(io::Error::other)?;
    let fresh = Fresh::map(pages * BLOCK, PageSize::Small)?;
    if fresh.pages() == pages {
        Ok(fresh)
    } else {
        Err(io::Error::other(format!("{} pages, not {pages}", fresh.pages())))
    }
}

fn came_as_sent(sent: &[u8], received: &[u8]) -> io::Result<()> {
    if sent == received { Ok(()) } else { Err(io::Error::other("other bytes came than were sent")) }
}

fn pattern(bytes: usize) -> Vec<u8> {
    #[expect(clippy::cast_possible_truncation, reason = "a pattern of bytes")]
    (0..bytes).map(|index| (index * 31 + 7) as u8).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_back_is_what_was_sent() {
        let mut pipe = Pipe::new().expect("a pipe");
        pipe.pass_messages(3).expect("as sent");
        assert_eq!(pipe.received, pattern(MESSAGE));
        // A byte that is left in the pipe comes first.
        pipe.to.write_all(&[1]).expect("a byte more");
        assert!(pipe.pass_messages(1).is_err(), "other bytes are found");
        let mut connections = Connections::new().expect("loopback");
        connections.over_tcp(300).expect("as sent");
        connections.over_local_sockets(300).expect("as sent");
        connections.tcp.0.write_all(&[9]).expect("a byte more");
        assert!(connections.over_tcp(1).is_err(), "another byte is found");
    }

    #[test]
    fn a_file_is_read_from_its_beginning_each_time() {
        let mut file = OwnFile::open().expect("this program");
        assert!(file.expected.starts_with(b"\x7fELF"), "a program");
        file.open_and_read(3).expect("the same");
        file.read(3).expect("the same");
        file.expected[7] ^= 1;
        assert!(file.open_and_read(1).is_err() && file.read(1).is_err(), "other bytes are found");
    }

    #[test]
    fn fresh_pages_are_faults() {
        let before = baremark_sys::paging::faults_of_this_thread().expect("rusage");
        fresh_pages(512).expect("2 MiB");
        assert!(baremark_sys::paging::faults_of_this_thread().expect("rusage") - before >= 512);
        assert!(mapped(100).is_err(), "pages come in chunks");
    }
}
