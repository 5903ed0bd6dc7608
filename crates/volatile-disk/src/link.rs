//! The first site's end of the connection to the second: operations in order, and waiting until they are acknowledged.

use crate::operation::Operation;
use crate::second_site::Secret;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

const CONNECT_LIMIT: Duration = Duration::from_secs(10);
/// Bytes of an answer: the operation's number, and an error or 0.
const ANSWER: usize = 12;

#[derive(Default)]
struct Heard {
    /// The last operation that was acknowledged.
    through: u64,
    /// Why none will be any more.
    over: Option<i32>,
}

/// What was acknowledged.
#[derive(Default)]
struct Acknowledged {
    heard: Mutex<Heard>,
    changed: Condvar,
}

impl Acknowledged {
    fn set(&self, change: impl FnOnce(&mut Heard)) {
        change(&mut self.heard.lock().unwrap_or_else(PoisonError::into_inner));
        self.changed.notify_all();
    }
}

/// The connection.
pub(crate) struct Link {
    /// The number of the last operation, and the way to the thread that writes.
    sender: Mutex<(u64, Sender<Vec<u8>>)>,
    acknowledged: Arc<Acknowledged>,
    stream: TcpStream,
}

impl Link {
    pub(crate) fn connect(address: SocketAddr, secret: &Secret) -> io::Result<Link> {
        let stream = TcpStream::connect_timeout(&address, CONNECT_LIMIT)?;
        stream.set_nodelay(true)?;
        let (mut writer, mut reader) = (stream.try_clone()?, stream.try_clone()?);
        writer.write_all(secret)?;
        let (sender, operations) = channel::<Vec<u8>>();
        let (acknowledged, gone) = (Arc::<Acknowledged>::default(), libc::EIO);
        thread::spawn(move || {
            for bytes in operations {
                if writer.write_all(&bytes).is_err() {
                    return;
                }
            }
        });
        let heard = Arc::clone(&acknowledged);
        thread::spawn(move || {
            let mut answer = [0; ANSWER];
            while reader.read_exact(&mut answer).is_ok() {
                let (number, code) = answer.split_at(8);
                let number = u64::from_le_bytes(number.try_into().unwrap_or_default());
                let code = i32::from_le_bytes(code.try_into().unwrap_or_default());
                heard.set(|heard| match code {
                    0 => heard.through = number,
                    code => heard.over = Some(code),
                });
            }
            heard.set(|heard| heard.over = heard.over.or(Some(gone)));
        });
        Ok(Link { sender: Mutex::new((0, sender)), acknowledged, stream })
    }

    /// Sends an operation and returns its number. Callers that change the first copy hold its lock, so that the order is the same.
    pub(crate) fn send(&self, operation: &Operation) -> u64 {
        let bytes = operation.encode();
        let mut sender = self.sender.lock().unwrap_or_else(PoisonError::into_inner);
        sender.0 += 1;
        // A writer that has ended is seen by whoever waits.
        drop(sender.1.send(bytes));
        sender.0
    }

    /// Waits until everything up to the operation of this number is at the second site.
    pub(crate) fn wait(&self, number: u64) -> io::Result<()> {
        let mut heard = self.acknowledged.heard.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            match heard.over {
                _ if heard.through >= number => return Ok(()),
                Some(code) => return Err(io::Error::from_raw_os_error(code)),
                None => heard = self.acknowledged.changed.wait(heard).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        drop(self.stream.shutdown(Shutdown::Both));
    }
}
