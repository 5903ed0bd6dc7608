//! The link to the secondary: its process, a rate, a delay, and a thread that sends checkpoints and hears acknowledgements.

use crate::output::Gate;
use crate::secondary::{self, Answer};
use baremark_delay::{Delay, Proxy};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, channel, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

/// Bytes that are sent before the rate is looked at again.
const PART: usize = 64 << 10;

/// Applying a checkpoint takes about as long as sending it over sockets of one machine; one that takes so many times as long is too slow.
const APPLYING: u32 = 4;

/// What is asked of the link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Link {
    /// 10^6 bit/s from the primary to the secondary; `None` for what sockets give.
    pub rate_mbit: Option<u64>,
    /// One-way delay in both directions.
    pub delay: Duration,
    /// How long a secondary may take nothing, or leave a checkpoint without an answer after [`APPLYING`] times as long as sending took;
    /// `None` for any time.
    pub limit: Option<Duration>,
}

/// A checkpoint that the secondary has.
#[derive(Debug)]
pub struct Acknowledged {
    /// What the secondary says of it.
    pub answer: Answer,
    /// The buffer of the checkpoint, to be used again.
    pub buffer: Vec<u8>,
    /// From the first byte sent until the acknowledgement.
    pub took: Duration,
    /// From the first byte sent until the last one.
    pub sending: Duration,
}

/// The primary's end of the link: a thread that sends one checkpoint after the other.
#[derive(Debug)]
pub struct Sender {
    checkpoints: SyncSender<Vec<u8>>,
    acknowledgements: Receiver<io::Result<Acknowledged>>,
    /// The delay ends with it.
    _proxy: Option<Proxy>,
}

impl Sender {
    /// Connects to a secondary; `greeting` is sent first. Each acknowledgement is shown to `heard` and writes a byte to `wake`.
    ///
    /// # Errors
    /// When it cannot be reached.
    pub fn connect(
        at: SocketAddr,
        link: Link,
        greeting: &[u8],
        mut heard: impl FnMut(Answer) + Send + 'static,
        mut wake: impl Write + Send + 'static,
    ) -> io::Result<Self> {
        let (mut stream, proxy) = connect(at, link)?;
        stream.set_write_timeout(link.limit)?;
        stream.write_all(greeting)?;
        let (checkpoints, taken) = sync_channel(1);
        let (answered, acknowledgements) = channel();
        thread::spawn(move || {
            for buffer in taken {
                let answer = send(&stream, link, buffer);
                let ended = answer.is_err();
                if let Ok(acknowledged) = &answer {
                    heard(acknowledged.answer);
                }
                if answered.send(answer).is_err() || wake.write_all(&[1]).is_err() || ended {
                    return;
                }
            }
        });
        Ok(Sender { checkpoints, acknowledgements, _proxy: proxy })
    }

    /// Hands over a checkpoint, which is sent meanwhile.
    ///
    /// # Errors
    /// When the link is lost.
    pub fn send(&self, checkpoint: Vec<u8>) -> io::Result<()> {
        let lost = |_| io::Error::new(io::ErrorKind::BrokenPipe, "the link to the secondary is lost");
        self.checkpoints.send(checkpoint).map_err(lost)
    }

    /// An acknowledgement that has come; `None` where there is none yet.
    ///
    /// # Errors
    /// When the link is lost.
    pub fn acknowledged(&self) -> io::Result<Option<Acknowledged>> {
        match self.acknowledgements.try_recv() {
            Ok(answer) => answer.map(Some),
            Err(TryRecvError::Empty) => Ok(None),
            Err(TryRecvError::Disconnected) => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }
}

/// A secondary that was started here, and the link to it. Dropping it ends the secondary.
#[derive(Debug)]
pub struct Replica {
    sender: Option<Sender>,
    secondary: Child,
}

impl Replica {
    /// Starts a secondary, `baremark protect --secondary`, and connects to it. Each acknowledgement opens `gate` and writes a byte
    /// to `wake`.
    ///
    /// # Errors
    /// When it cannot be started or reached.
    pub fn start(baremark: &Path, link: Link, gate: Arc<Gate>, wake: impl Write + Send + 'static) -> io::Result<Self> {
        let mut starting = Command::new(baremark);
        starting.args(["protect", "--secondary"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut secondary = starting.spawn()?;
        let heard = move |answer: Answer| gate.release(answer.epoch);
        let connected = address_of(&mut secondary).and_then(|at| Sender::connect(at, link, &[], heard, wake));
        match connected {
            Ok(sender) => Ok(Replica { sender: Some(sender), secondary }),
            Err(why) => {
                drop(secondary.kill().and_then(|()| secondary.wait()));
                Err(why)
            }
        }
    }

    /// As [`Sender::send`].
    ///
    /// # Errors
    /// When the link is lost.
    pub fn send(&self, checkpoint: Vec<u8>) -> io::Result<()> {
        self.sender.as_ref().map_or(Err(io::ErrorKind::BrokenPipe.into()), |sender| sender.send(checkpoint))
    }

    /// As [`Sender::acknowledged`].
    ///
    /// # Errors
    /// When the link is lost.
    pub fn acknowledged(&self) -> io::Result<Option<Acknowledged>> {
        self.sender.as_ref().map_or(Ok(None), Sender::acknowledged)
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        self.sender = None;
        // The end of its input is the secondary's sign to leave.
        drop(self.secondary.stdin.take());
        drop(self.secondary.wait());
    }
}

/// Where a secondary says that it listens.
fn address_of(secondary: &mut Child) -> io::Result<SocketAddr> {
    let said = secondary.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
    let mut line = String::new();
    BufReader::new(said).read_line(&mut line)?;
    let unread = |_| io::Error::new(io::ErrorKind::InvalidData, format!("the secondary said '{}'", line.trim()));
    line.trim().parse().map_err(unread)
}

fn connect(at: SocketAddr, link: Link) -> io::Result<(TcpStream, Option<Proxy>)> {
    if link.delay.is_zero() {
        return TcpStream::connect(at).and_then(|stream| stream.set_nodelay(true).map(|()| (stream, None)));
    }
    let delay = Delay { one_way: link.delay, ..Delay::default() };
    let proxy = Proxy::tcp((Ipv4Addr::LOCALHOST, 0).into(), at, delay)?;
    let stream = TcpStream::connect(proxy.address())?;
    stream.set_nodelay(true)?;
    Ok((stream, Some(proxy)))
}

fn send(mut stream: &TcpStream, link: Link, buffer: Vec<u8>) -> io::Result<Acknowledged> {
    let begun = Instant::now();
    stream.write_all(&(buffer.len() as u64).to_le_bytes())?;
    let mut sent = 0;
    for part in buffer.chunks(PART) {
        stream.write_all(part)?;
        sent += part.len() as u64;
        let due = link.rate_mbit.map_or(Duration::ZERO, |rate| time_on_link(sent, rate));
        let early = due.saturating_sub(begun.elapsed());
        if !early.is_zero() {
            thread::sleep(early);
        }
    }
    let sending = begun.elapsed();
    stream.set_read_timeout(link.limit.map(|limit| limit + APPLYING * sending))?;
    let mut answer = [0; secondary::ANSWER];
    stream.read_exact(&mut answer)?;
    Ok(Acknowledged { answer: Answer::of(&answer), buffer, took: begun.elapsed(), sending })
}

/// How long so many bytes take at so many 10^6 bit/s.
fn time_on_link(bytes: u64, rate_mbit: u64) -> Duration {
    Duration::from_nanos(bytes.saturating_mul(8000) / rate_mbit.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_of_a_gigabit_takes_eight_nanoseconds_for_a_byte() {
        assert_eq!(time_on_link(1_000_000, 1000), Duration::from_millis(8));
        assert_eq!(time_on_link(0, 1), Duration::ZERO);
    }
}
