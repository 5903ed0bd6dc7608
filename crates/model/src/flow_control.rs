//! Flow control for a serial port, which has none that reaches from one end to the other.
//!
//! A guest's serial driver drops what comes faster than it is read. So the host sends only what it has credit for, and
//! the guest gives credit back for what it has taken. From host to guest the bytes go as they are; from guest to host
//! they go in packets of a 16-bit little-endian length and that many bytes, and an empty packet is one grant of credit.
//! Before its first packet the guest writes [`READY`], for it could not be heard earlier. A hypervisor's socket ([`VSOCK`]), which has flow
//! control, is paced in the same way.

use std::io::{self, Read, Write};
use std::sync::{Condvar, Mutex, PoisonError};

/// What a guest writes once it listens.
pub const READY: &[u8] = b"baremark guest ready\n";
/// How a guest's port begins, before its number, that is a socket of its hypervisor (`vsock(7)`) and no device.
pub const VSOCK: &str = "vsock:";
/// The bytes that may be on their way: less than a Linux terminal holds for a slow reader.
const WINDOW: usize = 16 << 10;
/// The bytes that one empty packet represents.
const GRANT: usize = 2 << 10;
/// The most bytes of a packet.
const LONGEST_PACKET: usize = 8 << 10;

/// What the host may still send.
pub struct Credit {
    /// `None` once the guest is gone.
    bytes: Mutex<Option<usize>>,
    changed: Condvar,
}

impl Default for Credit {
    fn default() -> Self {
        Credit { bytes: Mutex::new(Some(WINDOW)), changed: Condvar::new() }
    }
}

impl Credit {
    fn grant(&self, more: usize) {
        let mut bytes = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        *bytes = bytes.map(|bytes| bytes + more);
        self.changed.notify_all();
    }

    /// Nobody will grant any more.
    fn close(&self) {
        *self.bytes.lock().unwrap_or_else(PoisonError::into_inner) = None;
        self.changed.notify_all();
    }

    /// Waits for credit and takes up to `most` of it; `None` when the guest is gone.
    fn take(&self, most: usize) -> Option<usize> {
        let bytes = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        let mut bytes =
            self.changed.wait_while(bytes, |bytes| *bytes == Some(0)).unwrap_or_else(PoisonError::into_inner);
        let taken = (*bytes)?.min(most);
        *bytes = bytes.map(|bytes| bytes - taken);
        Some(taken)
    }
}

/// The host's way to the guest: blocks while there is no credit.
pub struct ToGuest<W, C> {
    /// The serial port.
    pub port: W,
    /// What it may send.
    pub credit: C,
}

impl<W: Write, C: AsRef<Credit>> Write for ToGuest<W, C> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.is_empty() {
            return Ok(0);
        }
        let Some(taken) = self.credit.as_ref().take(bytes.len()) else {
            return Err(io::Error::new(io::ErrorKind::BrokenPipe, "the guest is gone"));
        };
        self.port.write_all(&bytes[..taken])?;
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.port.flush()
    }
}

/// The host's side of the way back: waits for [`READY`], says so, and passes on what packets carry until the port ends.
/// Whatever ends it, nobody waits for credit after it.
///
/// # Errors
/// What reading and writing give; `UnexpectedEof` where the port ends before the guest is ready or inside a packet.
pub fn from_guest(mut port: impl Read, ready: impl FnOnce(), mut out: impl Write, credit: &Credit) -> io::Result<()> {
    let passed = await_ready(&mut port).and_then(|()| {
        ready();
        pass_packets(&mut port, &mut out, credit)
    });
    credit.close();
    passed
}

fn await_ready(port: &mut impl Read) -> io::Result<()> {
    let mut last = Vec::with_capacity(READY.len() + 1);
    let mut byte = [0];
    while last != READY {
        port.read_exact(&mut byte)?;
        last.push(byte[0]);
        if last.len() > READY.len() {
            last.remove(0);
        }
    }
    Ok(())
}

fn pass_packets(port: &mut impl Read, out: &mut impl Write, credit: &Credit) -> io::Result<()> {
    let mut packet = vec![0; usize::from(u16::MAX)];
    loop {
        let mut first = [0];
        if port.read(&mut first)? == 0 {
            return Ok(());
        }
        let mut second = [0];
        port.read_exact(&mut second)?;
        let length = usize::from(u16::from_le_bytes([first[0], second[0]]));
        if length == 0 {
            credit.grant(GRANT);
        }
        port.read_exact(&mut packet[..length])?;
        out.write_all(&packet[..length])?;
    }
}

/// The guest's side of what comes: passes it on and grants credit for it on `port_out`, until either ends.
///
/// # Errors
/// What reading and writing give.
pub fn guest_in(mut port_in: impl Read, mut out: impl Write, port_out: &Mutex<impl Write>) -> io::Result<()> {
    let mut bytes = [0; 4096];
    let mut owed = 0;
    loop {
        let count = port_in.read(&mut bytes)?;
        if count == 0 {
            return Ok(());
        }
        out.write_all(&bytes[..count])?;
        owed += count;
        while owed >= GRANT {
            owed -= GRANT;
            send_packet(port_out, &[])?;
        }
    }
}

/// The guest's side of what goes: sends it in packets until it ends.
///
/// # Errors
/// What reading and writing give.
pub fn guest_out(mut from: impl Read, port_out: &Mutex<impl Write>) -> io::Result<()> {
    let mut bytes = vec![0; LONGEST_PACKET];
    loop {
        let count = from.read(&mut bytes)?;
        if count == 0 {
            return Ok(());
        }
        send_packet(port_out, &bytes[..count])?;
    }
}

fn send_packet(port_out: &Mutex<impl Write>, bytes: &[u8]) -> io::Result<()> {
    let length = u16::try_from(bytes.len()).map_err(io::Error::other)?;
    let mut port = port_out.lock().unwrap_or_else(PoisonError::into_inner);
    port.write_all(&length.to_le_bytes())?;
    port.write_all(bytes)?;
    port.flush()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::thread;

    #[test]
    fn megabytes_pass_both_ways_and_never_more_than_the_window_is_on_its_way() {
        let (guest_port_in, host_port_out) = io::pipe().expect("a pipe");
        let (host_port_in, mut guest_port_out) = io::pipe().expect("a pipe");
        let (mut answers, host_out) = io::pipe().expect("a pipe");
        let credit = Arc::new(Credit::default());
        let sent: Vec<u8> = (0..3_000_000_u32).map(|n| n.to_le_bytes()[n as usize % 3]).collect();
        let (expected, shared) = (sent.clone(), Arc::clone(&credit));
        thread::spawn(move || from_guest(host_port_in, || {}, host_out, &shared));
        thread::spawn(move || {
            guest_port_out.write_all(b"noise of the firmware").expect("the host reads");
            guest_port_out.write_all(READY).expect("the host reads");
            let port_out = Mutex::new(guest_port_out);
            // An agent that says back what it hears.
            let (agent_out, agent_in) = io::pipe().expect("a pipe");
            thread::scope(|scope| {
                scope.spawn(|| guest_out(agent_out, &port_out));
                guest_in(guest_port_in, agent_in, &port_out)
            })
        });
        let mut to_guest = ToGuest { port: host_port_out, credit: Arc::clone(&credit) };
        let sender = thread::spawn(move || to_guest.write_all(&sent).map(|()| to_guest));
        let mut came = vec![0; expected.len()];
        answers.read_exact(&mut came).expect("all comes back");
        assert!(came == expected, "unchanged");
        drop(sender.join().expect("the sender ends").expect("all was sent"));
        assert_eq!(answers.read(&mut [0]).expect("readable"), 0, "and the end comes through");
        assert_eq!(credit.take(1), None, "nobody waits for a guest that is gone");
    }

    #[test]
    fn without_credit_the_host_waits_and_a_gone_guest_ends_the_wait() {
        let credit = Arc::new(Credit::default());
        let mut to_guest = ToGuest { port: io::sink(), credit: Arc::clone(&credit) };
        assert_eq!(to_guest.write(&vec![0; 1 << 20]).expect("credit"), WINDOW);
        let waiting = thread::spawn(move || to_guest.write(&[0]));
        drop(from_guest(io::empty(), || {}, io::sink(), &credit));
        let error = waiting.join().expect("the writer ends").expect_err("no guest");
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
    }

    #[test]
    fn a_port_that_ends_too_early_is_told_apart_from_one_that_ends() {
        let ended = |bytes: &[u8]| from_guest(bytes, || {}, io::sink(), &Credit::default());
        let ready = |rest: &[u8]| [READY, rest].concat();
        assert!(ended(&ready(&[1, 0, 9])).is_ok());
        for torn in [Vec::new(), ready(&[1]), ready(&[2, 0, 9])] {
            let error = ended(&torn).expect_err("torn");
            assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof, "{torn:?}");
        }
    }
}
