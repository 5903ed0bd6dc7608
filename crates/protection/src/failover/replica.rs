//! A process that is the secondary and becomes the primary when the conductor says so, or is the primary from the start.

use super::checkpoint::Saved;
use super::control::{self, FromReplica, Order, ToReplica};
use super::primary::{Control, Primary};
use crate::encoding;
use baremark_sys::ready::Ready;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{TryRecvError, channel};
use std::thread;
use std::time::{Duration, Instant};

/// How long a primary may take to say its token.
const GREETING: Duration = Duration::from_secs(5);
/// Waits without a sign of life, one after the other, after which a primary is silent. When all processes were stopped together, such as by
/// Ctrl-Z, the first wait ends at once afterwards and the others give the primary time to go on.
const WAITS: u32 = 4;

/// Follows the conductor, whose stream is standard input, to its end.
///
/// # Errors
/// Why it cannot go on; the conductor has been told.
pub fn serve() -> io::Result<()> {
    let control = connect(UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?))?;
    let result = follow(&control);
    match &result {
        // A program that was killed is for the secondary to continue.
        Err(why) if why.kind() != ErrorKind::ConnectionAborted => {
            drop(control.send(&FromReplica::Failed { message: why.to_string() }, &[]));
        }
        _ => {}
    }
    result
}

fn connect(stream: UnixStream) -> io::Result<Control> {
    let (wake, waker) = UnixStream::pair()?;
    wake.set_nonblocking(true)?;
    let (heard, inbox) = channel();
    let (mut from, mut bell) = (stream.try_clone()?, waker.try_clone()?);
    thread::spawn(move || {
        loop {
            // A conductor that is gone in the middle of a message is gone.
            let message = control::receive(&mut from).unwrap_or(None);
            let ended = message.is_none();
            if heard.send(message).is_err() || bell.write_all(&[1]).is_err() || ended {
                return;
            }
        }
    });
    Ok(Control { stream, inbox, wake, waker })
}

fn follow(control: &Control) -> io::Result<()> {
    let next = || control.inbox.recv().ok().flatten().map(|(message, _)| message);
    let Some(ToReplica::Begin(order)) = next() else { return Ok(()) };
    match next() {
        Some(ToReplica::TakeOver) => Primary::start(control, &order, None)?.conduct(),
        Some(ToReplica::Listen { token }) => wait(control, &order, token),
        _ => Ok(()),
    }
}

/// Keeps the checkpoints of a primary until the conductor says that it is lost, and takes its place.
fn wait(control: &Control, order: &Order, token: u64) -> io::Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    control.send(&FromReplica::Listening { at: listener.local_addr()? }, &[])?;
    let mut secondary = Secondary {
        listener: Some(listener),
        link: None,
        saved: Saved::default(),
        is_called: false,
        message: Vec::new(),
        limit: order.heartbeat(),
        heard: Instant::now(),
        waits: 0,
    };
    loop {
        let mut ready = Ready::of(std::iter::once(control.wake.as_fd()).chain(secondary.watched()).collect());
        let longest = secondary.longest_wait();
        if !secondary.is_called {
            ready.wait(longest)?;
        } else if secondary.link.is_some() {
            // What the primary has sent before it was lost.
            ready.wait(Some(GREETING))?;
        }
        let [is_called_for, is_there] = [ready.is(0), ready.is(1)];
        drop(ready);
        control.rest();
        match (is_there, secondary.link.is_some()) {
            (true, true) => secondary.receive(control)?,
            (true, false) => secondary.accept(token)?,
            (false, true) if !is_called_for && longest.is_some() => secondary.count_wait(control)?,
            _ => {}
        }
        match control.inbox.try_recv() {
            Ok(Some((ToReplica::TakeOver, _))) => secondary.is_called = true,
            Ok(None) | Err(TryRecvError::Disconnected) => return Ok(()),
            Ok(Some((other, _))) => return Err(io::Error::other(format!("a secondary cannot follow {other:?}"))),
            Err(TryRecvError::Empty) => {}
        }
        if secondary.is_called && secondary.link.is_none() {
            let saved = Some(&secondary.saved).filter(|saved| saved.head.release.epoch > 0);
            return Primary::start(control, order, saved)?.conduct();
        }
    }
}

struct Secondary {
    /// Where the primary connects; `None` after it was silent.
    listener: Option<TcpListener>,
    link: Option<TcpStream>,
    saved: Saved,
    is_called: bool,
    message: Vec<u8>,
    /// How long the primary may be silent.
    limit: Option<Duration>,
    /// When the last checkpoint came.
    heard: Instant,
    /// Waits since then without a sign of life.
    waits: u32,
}

impl Secondary {
    /// Where the next sign of the primary comes from.
    fn watched(&self) -> Option<BorrowedFd<'_>> {
        self.link.as_ref().map(AsFd::as_fd).or(self.listener.as_ref().map(AsFd::as_fd))
    }

    /// One of the waits that make up the limit. There is none before the first checkpoint, without which nobody could take over.
    fn longest_wait(&self) -> Option<Duration> {
        let is_watched = self.link.is_some() && !self.is_called && self.saved.head.release.epoch > 0;
        self.limit.filter(|_| is_watched).map(|limit| limit / WAITS)
    }

    /// Counts a wait in which nothing came.
    fn count_wait(&mut self, control: &Control) -> io::Result<()> {
        self.waits += 1;
        if self.waits < WAITS { Ok(()) } else { self.give_up(control) }
    }

    /// The primary is silent: from here on none of its epochs is taken, whatever it still sends, so that none of its output can leave.
    fn give_up(&mut self, control: &Control) -> io::Result<()> {
        (self.listener, self.link) = (None, None);
        control.send(&FromReplica::Silent { silent_ms: self.heard.elapsed().as_secs_f64() * 1e3 }, &[])
    }

    /// Takes the next checkpoint, hands its output to the conductor, and acknowledges it. A link that ends in the middle of one ends before
    /// it.
    fn receive(&mut self, control: &Control) -> io::Result<()> {
        let Some(link) = &mut self.link else { return Ok(()) };
        match encoding::read(link, &mut self.message) {
            Ok(true) => {}
            // The rest of a checkpoint does not come.
            Err(why) if why.kind() == ErrorKind::WouldBlock && !self.is_called => return self.give_up(control),
            _ => {
                self.link = None;
                return Ok(());
            }
        }
        let (answer, output) = self.saved.apply(&self.message)?;
        control.send(&FromReplica::Released(self.saved.head.release.clone()), output)?;
        link.set_read_timeout(self.limit)?;
        if link.write_all(&answer.bytes()).is_err() {
            self.link = None;
        }
        (self.heard, self.waits) = (Instant::now(), 0);
        Ok(())
    }

    /// Takes a connection of the primary, which alone knows the token.
    fn accept(&mut self, token: u64) -> io::Result<()> {
        let Some(listener) = &self.listener else { return Ok(()) };
        let (mut stream, _) = listener.accept()?;
        let mut greeting = [0; 8];
        stream.set_read_timeout(Some(GREETING))?;
        if stream.read_exact(&mut greeting).is_ok() && u64::from_le_bytes(greeting) == token {
            stream.set_read_timeout(None)?;
            stream.set_nodelay(true)?;
            self.link = Some(stream);
        }
        Ok(())
    }
}
