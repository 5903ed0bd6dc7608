//! The second copy of a replicated disk: a folder to which every operation of the first is applied in its order, behind a TCP
//! connection.
//!
//! Who connects must know the secret, for what is sent is written with the rights of this process. One connection is served.

use crate::operation::Operation;
use std::fs::File;
use std::io::{self, BufReader, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// How long whoever connects may take to send the secret.
const SECRET_LIMIT: Duration = Duration::from_secs(5);

/// What whoever connects must send first.
pub(crate) type Secret = [u8; 16];

/// A folder that is the second copy; it takes no more operations once this is dropped.
#[derive(Debug)]
pub struct SecondSite {
    address: SocketAddr,
    secret: Secret,
    connection: Arc<Mutex<Option<TcpStream>>>,
}

impl SecondSite {
    /// Serves `folder` on a free port of the loopback. It must hold what the first copy holds.
    ///
    /// # Errors
    /// What sockets give.
    pub fn serve(folder: &Path) -> io::Result<SecondSite> {
        let mut secret = Secret::default();
        File::open("/dev/urandom")?.read_exact(&mut secret)?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let site = SecondSite { address: listener.local_addr()?, secret, connection: Arc::default() };
        let (folder, connection): (PathBuf, _) = (folder.to_owned(), Arc::clone(&site.connection));
        thread::spawn(move || {
            let Some(stream) = first_that_knows(listener, &secret, &connection) else { return };
            // The first site sees the end of its connection.
            drop(serve(stream, &folder));
        });
        Ok(site)
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn secret(&self) -> Secret {
        self.secret
    }
}

impl Drop for SecondSite {
    fn drop(&mut self) {
        let served = self.connection.lock().unwrap_or_else(PoisonError::into_inner).take();
        // Without a connection the thread still waits for one.
        self.connection = Arc::default();
        drop(match served {
            Some(stream) => stream.shutdown(Shutdown::Both),
            None => TcpStream::connect(self.address).map(drop),
        });
    }
}

/// The first connection that sends the secret; nobody listens any more then. `None` once the site is dropped.
fn first_that_knows(
    listener: TcpListener,
    secret: &Secret,
    connection: &Arc<Mutex<Option<TcpStream>>>,
) -> Option<TcpStream> {
    loop {
        let stream = listener.accept().ok()?.0;
        if Arc::strong_count(connection) == 1 {
            return None;
        }
        let mut sent = Secret::default();
        let heard = stream.set_read_timeout(Some(SECRET_LIMIT)).and_then(|()| (&stream).read_exact(&mut sent));
        if heard.is_ok() && sent == *secret && stream.set_read_timeout(None).is_ok() {
            *connection.lock().unwrap_or_else(PoisonError::into_inner) = stream.try_clone().ok();
            return Some(stream);
        }
    }
}

/// Applies operations and acknowledges each by its number; a failure is the last answer: its number and an error.
fn serve(stream: TcpStream, folder: &Path) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let (mut answers, mut wire) = (stream.try_clone()?, BufReader::with_capacity(1 << 18, stream));
    let mut number: u64 = 0;
    while let Some(operation) = Operation::decode(&mut wire)? {
        number += 1;
        let applied = operation.apply(folder);
        let code = applied.as_ref().err().map_or(0, |why| why.raw_os_error().unwrap_or(libc::EIO));
        // Names wait for the next barrier or contents: an answer for each would be a packet for each.
        if code != 0 || matches!(operation, Operation::Store { .. } | Operation::Barrier) {
            let mut answer = number.to_le_bytes().to_vec();
            answer.extend_from_slice(&code.to_le_bytes());
            answers.write_all(&answer)?;
        }
        applied?;
    }
    Ok(())
}
