//! The other end of `ping-pong`: a server that sends back what it gets, or counts it.
//!
//! One TCP connection or one UDP session is one measurement. The payload of every message follows from its number, so that
//! both ends check every byte; a counting server tells at the end what came and what was wrong.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::thread;
use std::time::Duration;

/// How a connection begins: four bytes that no other protocol begins with, then mode and message length.
pub(crate) const MAGIC: [u8; 4] = *b"\xb4em1";
/// Bytes of a TCP connection's beginning.
pub(crate) const HEAD: usize = 16;
/// Bytes at the beginning of every datagram: magic, mode, session, number.
pub(crate) const DATAGRAM_HEAD: usize = 16;
/// The longest message.
pub const LONGEST: u64 = 16 << 20;
/// How long clients wait when one cannot be served.
const PAUSE: Duration = Duration::from_millis(20);
/// How long an end waits for the other before it takes it for dead.
pub const PATIENCE: Duration = Duration::from_secs(5);

/// What a server does with messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Mode {
    /// Sends each back.
    Echo = 1,
    /// Counts them.
    Count = 2,
    /// Tells what was counted.
    Tell = 3,
}

impl Mode {
    fn of(number: u32) -> Option<Self> {
        [Mode::Echo, Mode::Count, Mode::Tell].into_iter().find(|mode| *mode as u32 == number)
    }
}

/// The bytes of messages: the number first, then what follows from it.
#[derive(Debug)]
pub(crate) struct Payload {
    bytes: Vec<u8>,
    from: usize,
}

impl Payload {
    /// Of messages of `length` bytes, of which the first `from` are the protocol's.
    pub fn new(length: usize, from: usize) -> Self {
        #[expect(clippy::cast_possible_truncation, reason = "a pattern of bytes")]
        let bytes = (0..length).map(|index| (index * 31 + 7) as u8).collect();
        Payload { bytes, from }
    }

    /// The message of this number.
    pub fn of(&mut self, number: u64) -> &mut [u8] {
        let end = (self.from + 8).min(self.bytes.len());
        let start = self.from.min(end);
        let length = end - start;
        self.bytes[start..end].copy_from_slice(&number.to_le_bytes()[..length]);
        &mut self.bytes
    }

    /// Whether `message` is the one of this number, the protocol's own bytes apart.
    pub fn is(&mut self, number: u64, message: &[u8]) -> bool {
        let from = self.from;
        let expected = self.of(number);
        expected.len() == message.len() && expected[from.min(message.len())..] == message[from.min(message.len())..]
    }
}

/// A server on one address, for TCP and UDP.
#[derive(Debug)]
pub struct Echo {
    tcp: TcpListener,
    udp: UdpSocket,
}

impl Echo {
    /// Binds the address; port 0 takes one that is free for both.
    ///
    /// # Errors
    /// What binding gives.
    pub fn bind(address: SocketAddr) -> io::Result<Self> {
        const TRIES: usize = 16;
        let mut last = io::Error::from(io::ErrorKind::AddrInUse);
        for _ in 0..TRIES {
            let tcp = TcpListener::bind(address)?;
            match UdpSocket::bind(tcp.local_addr()?) {
                Ok(udp) => return Ok(Echo { tcp, udp }),
                Err(why) if address.port() == 0 => last = why,
                Err(why) => return Err(why),
            }
        }
        Err(last)
    }

    /// Where it listens.
    ///
    /// # Errors
    /// What asking gives.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.tcp.local_addr()
    }

    /// Serves for as long as the process lives.
    pub fn serve(self) -> ! {
        let udp = self.udp;
        thread::spawn(move || serve_datagrams(&udp));
        loop {
            let accepted = self.tcp.accept();
            // A client that breaks off or speaks something else is its own affair.
            let served = accepted.and_then(|(stream, _)| thread::Builder::new().spawn(move || serve_stream(stream)));
            if served.is_err() {
                // The next clients wait, such as for a descriptor.
                thread::sleep(PAUSE);
            }
        }
    }
}

fn serve_stream(mut stream: TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut head = [0_u8; HEAD];
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.read_exact(&mut head)?;
    let (mode, length) = (u32_at(&head, 4), u64_at(&head, 8));
    if head[..4] != MAGIC || length == 0 || length > LONGEST {
        return Err(io::Error::from(io::ErrorKind::InvalidData));
    }
    stream.set_read_timeout(None)?;
    let length = usize::try_from(length).map_err(io::Error::other)?;
    let mut message = vec![0_u8; length];
    match Mode::of(mode) {
        Some(Mode::Echo) => loop {
            stream.read_exact(&mut message)?;
            stream.write_all(&message)?;
        },
        Some(Mode::Count) => {
            let (mut payload, mut came, mut wrong) = (Payload::new(length, 0), 0_u64, 0_u64);
            while stream.read_exact(&mut message).is_ok() {
                wrong += u64::from(!payload.is(came, &message));
                came += 1;
            }
            stream.write_all(&[came.to_le_bytes(), wrong.to_le_bytes()].concat())
        }
        _ => Err(io::Error::from(io::ErrorKind::InvalidData)),
    }
}

/// UDP sessions that are remembered: of more the one that has sent nothing for the longest time is forgotten.
const MOST_SESSIONS: usize = 64;

/// What came of one UDP session.
struct Session {
    /// Who sends, and the number that the sender gives it: several may measure at the same time.
    of: (SocketAddr, u32),
    came: u64,
    wrong: u64,
    payload: Payload,
}

/// The sessions that are remembered, in the order in which they sent their latest datagrams.
#[derive(Default)]
struct Sessions(Vec<Session>);

fn serve_datagrams(socket: &UdpSocket) {
    let mut datagram = vec![0_u8; 1 << 16];
    let mut sessions = Sessions::default();
    loop {
        let Ok((length, from)) = socket.recv_from(&mut datagram) else { continue };
        let Some(message) = datagram.get(..length).filter(|m| m.len() >= DATAGRAM_HEAD && m[..4] == MAGIC) else {
            continue;
        };
        let (mode, id) = (u32_at(message, 4), u32_at(message, 8));
        match Mode::of(mode) {
            Some(Mode::Echo) => drop(socket.send_to(message, from)),
            Some(Mode::Count) => sessions.count((from, id), message),
            Some(Mode::Tell) => {
                let (came, wrong) = sessions.told((from, id));
                let mut answer = message[..DATAGRAM_HEAD].to_vec();
                answer.extend_from_slice(&came.to_le_bytes());
                answer.extend_from_slice(&wrong.to_le_bytes());
                drop(socket.send_to(&answer, from));
            }
            None => {}
        }
    }
}

impl Sessions {
    fn count(&mut self, of: (SocketAddr, u32), message: &[u8]) {
        // The latest is looked at first: mostly it is that.
        match self.0.iter().rposition(|session| session.of == of) {
            Some(at) => self.0[at..].rotate_left(1),
            None => {
                if self.0.len() >= MOST_SESSIONS {
                    self.0.remove(0);
                }
                let payload = Payload::new(message.len(), DATAGRAM_HEAD);
                self.0.push(Session { of, came: 0, wrong: 0, payload });
            }
        }
        let Some(session) = self.0.last_mut() else { return };
        session.came += 1;
        let number = u64::from(u32_at(message, 12));
        session.wrong += u64::from(!session.payload.is(number, message));
    }

    /// How many datagrams of a session came, and how many of them with wrong bytes; none of one that is not known.
    fn told(&self, of: (SocketAddr, u32)) -> (u64, u64) {
        self.0.iter().rfind(|session| session.of == of).map_or((0, 0), |session| (session.came, session.wrong))
    }
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|four| four.try_into().ok()).map_or(0, u32::from_le_bytes)
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).and_then(|eight| eight.try_into().ok()).map_or(0, u64::from_le_bytes)
}

/// The beginning of a TCP connection.
pub(crate) fn head(mode: Mode, length: u64) -> [u8; HEAD] {
    let mut head = [0_u8; HEAD];
    head[..4].copy_from_slice(&MAGIC);
    head[4..8].copy_from_slice(&(mode as u32).to_le_bytes());
    head[8..].copy_from_slice(&length.to_le_bytes());
    head
}

/// The beginning of a datagram.
pub(crate) fn datagram_head(mode: Mode, session: u32, number: u32) -> [u8; DATAGRAM_HEAD] {
    let mut head = [0_u8; DATAGRAM_HEAD];
    head[..4].copy_from_slice(&MAGIC);
    head[4..8].copy_from_slice(&(mode as u32).to_le_bytes());
    head[8..12].copy_from_slice(&session.to_le_bytes());
    head[12..].copy_from_slice(&number.to_le_bytes());
    head
}

#[cfg(test)]
mod tests {
    use super::*;

    fn datagram(session: u32, number: u32) -> Vec<u8> {
        let mut payload = Payload::new(64, DATAGRAM_HEAD);
        let message = payload.of(u64::from(number));
        message[..DATAGRAM_HEAD].copy_from_slice(&datagram_head(Mode::Count, session, number));
        message.to_vec()
    }

    #[test]
    fn clients_that_measure_at_the_same_time_are_counted_apart() {
        let [one, other] = [7001, 7002].map(|port| SocketAddr::from(([192, 0, 2, 1], port)));
        let mut sessions = Sessions::default();
        for number in 0..10 {
            // The same number of a session, as of two runs with the same seed.
            sessions.count((one, 5), &datagram(5, number));
            sessions.count((other, 5), &datagram(5, number));
            sessions.count((other, 6), &datagram(6, number + 1)[..32]);
        }
        let mut wrong = datagram(5, 10);
        wrong[40] ^= 1;
        sessions.count((one, 5), &wrong);
        let told = [(one, 5), (other, 5), (other, 6), (one, 6)].map(|of| sessions.told(of));
        assert_eq!(told, [(11, 1), (10, 0), (10, 0), (0, 0)]);
    }

    /// It ended when it could not accept once, and datagrams with it.
    #[test]
    fn a_server_without_a_descriptor_for_a_client_serves_the_next() {
        let server = Echo::bind(([127, 0, 0, 1], 0).into()).expect("a port");
        let address = server.address().expect("bound");
        thread::spawn(move || server.serve());
        let open = std::fs::read_dir("/proc/self/fd").expect("procfs").count();
        // The folder that is counted is closed by now: nine are free. Of an odd number the client gets the last, and waits.
        let few = format!("--nofile={}:", open + 8);
        let limited =
            std::process::Command::new("prlimit").args(["--pid", &std::process::id().to_string(), &few]).status();
        assert!(limited.is_ok_and(|status| status.success()), "prlimit is of util-linux");
        let clients: Vec<TcpStream> = (0..16).map_while(|_| TcpStream::connect(address).ok()).collect();
        assert!(!clients.is_empty() && clients.len() < 16);
        // Until it has found no descriptor for one.
        thread::sleep(10 * PAUSE);
        drop(clients);
        let served = || -> io::Result<[u8; 8]> {
            let mut client = TcpStream::connect(address)?;
            client.set_read_timeout(Some(PATIENCE))?;
            let head = [&MAGIC[..], &(Mode::Echo as u32).to_le_bytes(), &8_u64.to_le_bytes(), &[7; 8]].concat();
            client.write_all(&head)?;
            let mut answer = [0; 8];
            client.read_exact(&mut answer)?;
            Ok(answer)
        };
        let answered = (0..12).find_map(|_| served().inspect_err(|_| thread::sleep(PAUSE)).ok());
        assert_eq!(answered, Some([7; 8]));
    }

    #[test]
    fn only_so_many_sessions_are_remembered() {
        let one = SocketAddr::from(([192, 0, 2, 1], 7001));
        let mut sessions = Sessions::default();
        for session in 0..100 {
            sessions.count((one, session), &datagram(session, 0));
        }
        assert_eq!(
            (sessions.0.len(), sessions.told((one, 0)), sessions.told((one, 99))),
            (MOST_SESSIONS, (0, 0), (1, 0))
        );
    }

    /// Of one who sent for ten seconds, next to others with a session each tenth of a second, the count began anew: the rest was lost.
    #[test]
    fn one_who_still_sends_is_not_forgotten() {
        let [one, others] = [7001, 7002].map(|port| SocketAddr::from(([192, 0, 2, 1], port)));
        let mut sessions = Sessions::default();
        for number in 0..100 {
            sessions.count((one, 5), &datagram(5, number));
            sessions.count((others, number), &datagram(number, 0));
        }
        assert_eq!(sessions.told((one, 5)), (100, 0));
    }
}
