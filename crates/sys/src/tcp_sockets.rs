//! What waits in the TCP sockets of this network namespace, by `sock_diag(7)`.
//!
//! `/proc/net/tcp` has a line for every connection that has ended within the last minute, too, and no way to ask without them: after a load of short connections
//! they are thousands. Here the kernel is told the states that are meant.

use crate::calls::{checked, new_descriptor, was_interrupted};
use crate::netlink::{ATTRIBUTE, attributes, long, number};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsRawFd, OwnedFd};

/// `linux/netlink.h` and `linux/sock_diag.h`.
const NETLINK_SOCK_DIAG: libc::c_int = 4;
const REQUEST_AND_DUMP: u16 = 0x1 | 0x300;
const ERROR: u16 = 2;
const DONE: u16 = 3;
const SOCK_DIAG_BY_FAMILY: u16 = 20;
const TCP: u8 = 6;
const IPV4: u8 = 2;
const IPV6: u8 = 10;
/// `net/tcp_states.h`.
const ESTABLISHED: u8 = 1;
const LISTENING: u8 = 10;
const STATES: u32 = 1 << ESTABLISHED | 1 << LISTENING;
/// The timer of a sender whose peer has no room.
const PROBING: u8 = 4;

/// Bytes of the head of a message (`struct nlmsghdr`), of a request (`struct inet_diag_req_v2`) and of what is told of a socket (`struct inet_diag_msg`).
const HEAD: usize = 16;
const ASKED: usize = 56;
const TOLD: usize = 72;
/// Where in `struct inet_diag_msg` the ports and addresses of a socket are, its own first, and what is in its queues.
const PORTS: [usize; 2] = [4, 6];
const ADDRESSES: [usize; 2] = [8, 24];
const UNREAD: usize = 56;
const UNSENT: usize = 60;
/// The attribute with `struct tcp_info`, how it is asked for (`linux/inet_diag.h`), and where in it (`linux/tcp.h`) are bytes of a full segment, segments
/// that are not acknowledged, bytes that were not sent, and microseconds of sending and of those without room at the peer. Kernels before 4.10 have no
/// times there.
const INFO: u16 = 2;
const WITH_INFO: u8 = 1 << (INFO - 1);
const FULL_SEGMENT: usize = 16;
const UNACKNOWLEDGED: usize = 24;
const NOT_SENT: usize = 144;
const BUSY: usize = 168;
const NO_ROOM: usize = 176;
/// Of so many full segments a receiver may hold its acknowledgement back, to send it with data of its own (RFC 9293, 3.8.6.3).
const HELD_BACK: u32 = 2;
/// The kernel gives as many messages at once as fit 32 KiB (`NLMSG_GOODSIZE` and what `netlink_dump` makes of it).
const BUFFER: usize = 64 << 10;

/// One socket that is connected or listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TcpSocket {
    /// Its own address and that of its peer: no other connection of this network namespace has both. Those of IPv4 that IPv6 has, too, are of IPv4.
    pub ends: [SocketAddr; 2],
    /// Whether it listens; else it is connected.
    pub listens: bool,
    /// Whether it waits for room at its peer.
    pub probes: bool,
    /// Bytes that its peer has not acknowledged; of one that listens the most connections that may wait.
    pub unsent: u32,
    /// Bytes that nobody has read, or connections that nobody has accepted.
    pub unread: u32,
    /// How it sends, where it is connected and the kernel says so.
    pub sending: Option<Sending>,
}

/// How a connection sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sending {
    /// Microseconds since it began in which data was to be sent or acknowledged, in ticks of the kernel's clock.
    pub busy_us: u64,
    /// Those of them in which its peer had no room.
    pub no_room_us: u64,
    /// Whether more is to be sent or acknowledged than a receiver may hold its acknowledgement back for.
    pub in_transit: bool,
}

/// Asks the kernel for sockets again and again.
#[derive(Debug)]
pub struct TcpSockets {
    socket: OwnedFd,
    buffer: Vec<u8>,
}

impl TcpSockets {
    /// Opens the way to the kernel.
    ///
    /// # Errors
    /// What `socket(2)` gives, such as in a sandbox without it.
    pub fn open() -> io::Result<Self> {
        // SAFETY: socket(2) reads no memory of ours; the descriptor that it makes is nobody else's.
        let socket = unsafe {
            new_descriptor(libc::socket(libc::AF_NETLINK, libc::SOCK_RAW | libc::SOCK_CLOEXEC, NETLINK_SOCK_DIAG))
        }?;
        Ok(TcpSockets { socket, buffer: vec![0; BUFFER] })
    }

    /// The sockets that are connected or listen now, of IPv4 and IPv6.
    ///
    /// # Errors
    /// What `send(2)` and `recv(2)` give, what the kernel answers where it has no such table (`tcp_diag`), or `InvalidData` when its answer is none.
    pub fn read(&mut self) -> io::Result<Vec<TcpSocket>> {
        let mut found = Vec::new();
        for family in [IPV4, IPV6] {
            self.ask(family)?;
            while self.answer(&mut found)? {}
        }
        Ok(found)
    }

    fn ask(&self, family: u8) -> io::Result<()> {
        let request = request(family);
        // SAFETY: the request lives through the call, and is as long as it says.
        checked(unsafe { libc::send(self.socket.as_raw_fd(), request.as_ptr().cast(), request.len(), 0) }).map(drop)
    }

    /// Takes what the kernel says next; whether it says more.
    fn answer(&mut self, found: &mut Vec<TcpSocket>) -> io::Result<bool> {
        let length = loop {
            let (room, most) = (self.buffer.as_mut_ptr().cast(), self.buffer.len());
            // SAFETY: the kernel writes at most as many bytes as the buffer has, which lives through the call.
            let length = unsafe { libc::recv(self.socket.as_raw_fd(), room, most, 0) };
            match usize::try_from(length) {
                Ok(length) => break length,
                Err(_) => was_interrupted()?,
            }
        };
        taken(self.buffer.get(..length).unwrap_or_default(), found)
    }
}

/// A request for all sockets of a family in the states that are meant.
fn request(family: u8) -> [u8; HEAD + ASKED] {
    let mut request = [0; HEAD + ASKED];
    let length = u32::try_from(request.len()).unwrap_or_default();
    request[0..4].copy_from_slice(&length.to_ne_bytes());
    request[4..6].copy_from_slice(&SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    request[6..8].copy_from_slice(&REQUEST_AND_DUMP.to_ne_bytes());
    request[HEAD] = family;
    request[HEAD + 1] = TCP;
    request[HEAD + 2] = WITH_INFO;
    request[HEAD + 4..HEAD + 8].copy_from_slice(&STATES.to_ne_bytes());
    request
}

/// Takes the messages in `bytes`; whether more follow them.
fn taken(mut bytes: &[u8], found: &mut Vec<TcpSocket>) -> io::Result<bool> {
    let odd = || io::Error::new(io::ErrorKind::InvalidData, "an answer of sock_diag that ends within a message");
    if bytes.is_empty() {
        return Err(odd());
    }
    while !bytes.is_empty() {
        let length = usize::try_from(number(bytes, 0).ok_or_else(odd)?).unwrap_or(usize::MAX);
        let kind = bytes.get(4..6).and_then(|kind| kind.try_into().ok()).map(u16::from_ne_bytes).ok_or_else(odd)?;
        let content = bytes.get(HEAD..length).ok_or_else(odd)?;
        match kind {
            DONE => return Ok(false),
            ERROR => {
                let code = number(content, 0).ok_or_else(odd)?.cast_signed();
                return Err(io::Error::from_raw_os_error(code.saturating_neg()));
            }
            SOCK_DIAG_BY_FAMILY => found.push(socket(content).ok_or_else(odd)?),
            _ => {}
        }
        bytes = bytes.get(length.next_multiple_of(ATTRIBUTE)..).unwrap_or_default();
    }
    Ok(true)
}

fn socket(content: &[u8]) -> Option<TcpSocket> {
    let (told, rest) = content.split_at_checked(TOLD)?;
    let listens = told[1] == LISTENING;
    let info = || attributes(rest).find(|(number, _)| *number == INFO);
    Some(TcpSocket {
        ends: [end(told, 0)?, end(told, 1)?],
        listens,
        probes: told[2] == PROBING,
        unsent: number(told, UNSENT)?,
        unread: number(told, UNREAD)?,
        sending: if listens { None } else { info().and_then(|(_, info)| sending(info)) },
    })
}

/// One of the two ends in a `struct inet_diag_msg`.
fn end(told: &[u8], which: usize) -> Option<SocketAddr> {
    let port = u16::from_be_bytes(*told.get(PORTS[which]..)?.first_chunk()?);
    let bytes: [u8; 16] = *told.get(ADDRESSES[which]..)?.first_chunk()?;
    let address = match *told.first()? {
        IPV4 => Ipv4Addr::from(*bytes.first_chunk::<4>()?).into(),
        _ => IpAddr::from(Ipv6Addr::from(bytes)).to_canonical(),
    };
    Some(SocketAddr::new(address, port))
}

fn sending(info: &[u8]) -> Option<Sending> {
    let of = |at| number(info, at);
    let segments = of(UNACKNOWLEDGED)?.saturating_add(of(NOT_SENT)?.div_ceil(of(FULL_SEGMENT)?.max(1)));
    Some(Sending { busy_us: long(info, BUSY)?, no_room_us: long(info, NO_ROOM)?, in_transit: segments > HELD_BACK })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};
    use std::time::{Duration, Instant};

    /// A message of the kernel of this kind.
    fn message(kind: u16, content: &[u8]) -> Vec<u8> {
        let length = u32::try_from(HEAD + content.len()).expect("short");
        [&length.to_ne_bytes()[..], &kind.to_ne_bytes(), &[0; 10], content].concat()
    }

    fn told(state: u8, timer: u8, unread: u32, unsent: u32) -> Vec<u8> {
        let mut told = vec![0; TOLD];
        (told[0], told[1], told[2], told[5]) = (IPV4, state, timer, 0x23);
        told[UNREAD..UNREAD + 4].copy_from_slice(&unread.to_ne_bytes());
        told[UNSENT..UNSENT + 4].copy_from_slice(&unsent.to_ne_bytes());
        told
    }

    #[test]
    fn sockets_are_taken_until_the_kernel_is_done() {
        let mut found = Vec::new();
        // With an attribute of five bytes behind it.
        let long = [&told(LISTENING, 0, 3, 128)[..], &[5, 0, 1, 0, 7]].concat();
        let long = [message(SOCK_DIAG_BY_FAMILY, &long), vec![0; 3]].concat();
        let first = [message(SOCK_DIAG_BY_FAMILY, &told(ESTABLISHED, PROBING, 7, 9)), long].concat();
        assert!(taken(&first, &mut found).expect("messages"));
        assert!(!taken(&message(DONE, &[0; 4]), &mut found).expect("the end"));
        let of = |of: &TcpSocket| (of.listens, of.probes, of.unread, of.unsent, of.ends[0].port());
        assert_eq!(found.iter().map(of).collect::<Vec<_>>(), [(false, true, 7, 9, 0x23), (true, false, 3, 128, 0x23)]);
    }

    /// `struct tcp_info` of a kernel that has times, with segments of 1000 bytes.
    fn info(unacknowledged: u32, not_sent: u32, busy: u64, no_room: u64) -> Vec<u8> {
        let mut info = vec![0; 240];
        for (at, value) in [(FULL_SEGMENT, 1000), (UNACKNOWLEDGED, unacknowledged), (NOT_SENT, not_sent)] {
            info[at..at + 4].copy_from_slice(&value.to_ne_bytes());
        }
        for (at, value) in [(BUSY, busy), (NO_ROOM, no_room)] {
            info[at..at + 8].copy_from_slice(&value.to_ne_bytes());
        }
        info
    }

    #[test]
    fn ends_of_either_family_are_alike_where_their_addresses_are() {
        let mut one = told(ESTABLISHED, 0, 0, 0);
        one[6..8].copy_from_slice(&[0x1f, 0x90]);
        one[8..12].copy_from_slice(&[127, 0, 0, 1]);
        one[24..28].copy_from_slice(&[127, 0, 0, 2]);
        let ends = ["127.0.0.1:35", "127.0.0.2:8080"].map(|end| end.parse().expect("an address"));
        assert_eq!(socket(&one).expect("a socket").ends, ends);
        let mut other = told(ESTABLISHED, 0, 0, 0);
        other[0] = IPV6;
        other[6..8].copy_from_slice(&[0x1f, 0x90]);
        other[18..24].copy_from_slice(&[255, 255, 127, 0, 0, 1]);
        other[34..40].copy_from_slice(&[255, 255, 127, 0, 0, 2]);
        assert_eq!(socket(&other).expect("a socket").ends, ends);
        other[8] = 0x20;
        assert_eq!(socket(&other).expect("a socket").ends[0], "[2000::ffff:7f00:1]:35".parse().expect("an address"));
    }

    #[test]
    fn how_a_connection_sends_is_taken_from_its_attributes() {
        let of = |state, info: &[u8]| {
            let length = u16::try_from(ATTRIBUTE + info.len()).expect("short");
            let attribute = [&[5, 0, 1, 0, 7, 0, 0, 0], &length.to_ne_bytes()[..], &INFO.to_ne_bytes(), info].concat();
            socket(&[told(state, 0, 0, 0), attribute].concat()).expect("a socket").sending
        };
        let sending = |busy_us, no_room_us, in_transit| Some(Sending { busy_us, no_room_us, in_transit });
        assert_eq!(of(ESTABLISHED, &info(3, 0, 900, 300)), sending(900, 300, true));
        assert_eq!(
            of(ESTABLISHED, &info(2, 0, 900, 0)),
            sending(900, 0, false),
            "its acknowledgement may be held back"
        );
        assert_eq!(of(ESTABLISHED, &info(1, 1001, 900, 800)), sending(900, 800, true));
        assert_eq!(of(ESTABLISHED, &info(9, 0, 900, 0)[..BUSY]), None, "a kernel without times");
        assert_eq!(of(LISTENING, &info(9, 0, 900, 0)), None);
        assert_eq!(socket(&told(ESTABLISHED, 0, 0, 0)).expect("a socket").sending, None);
    }

    /// What this kernel says of a connection whose peer does not read.
    #[test]
    #[expect(clippy::print_stdout, reason = "a skip is counted")]
    fn a_connection_whose_peer_has_no_room_is_known_by_its_time_without() {
        let begun = Instant::now();
        let listening = TcpListener::bind("127.0.0.1:0").expect("a port is left");
        let mut sending = TcpStream::connect(listening.local_addr().expect("it has one")).expect("it listens");
        let _peer = listening.accept().expect("somebody asks");
        sending.set_nonblocking(true).expect("it can be");
        while sending.write(&[0; 65536]).is_ok() {}
        let ends = [sending.local_addr(), sending.peer_addr()].map(|end| end.expect("it is connected"));
        let mut sockets = match TcpSockets::open().and_then(|mut sockets| sockets.read().map(|_| sockets)) {
            Ok(sockets) => sockets,
            Err(why) => return println!("skipped: sock_diag(7): {why}"),
        };
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            let found = sockets.read().expect("it could be read").into_iter().find(|socket| socket.ends == ends);
            let Some(said) = found.expect("it is connected").sending else {
                return println!("skipped: the kernel counts no times of connections");
            };
            // The kernel counts in ticks of 10 ms at most.
            let most_us = (begun.elapsed() + Duration::from_millis(20)).as_micros();
            assert!(said.in_transit && said.busy_us >= said.no_room_us, "{said:?}");
            assert!(u128::from(said.busy_us) <= most_us, "{said:?} within {most_us} us");
            if said.no_room_us > 0 {
                return;
            }
            assert!(Instant::now() < deadline, "{said:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn what_the_kernel_refuses_and_what_is_cut_off_is_an_error() {
        let mut found = Vec::new();
        let refused = taken(&message(ERROR, &(-libc::ENOENT).to_ne_bytes()), &mut found).expect_err("refused");
        assert_eq!(refused.raw_os_error(), Some(libc::ENOENT));
        let whole = message(SOCK_DIAG_BY_FAMILY, &told(ESTABLISHED, 0, 0, 0));
        for length in 0..whole.len() {
            assert!(taken(&whole[..length], &mut found).is_err(), "{length} bytes");
        }
        assert_eq!(found, []);
    }

    #[test]
    fn a_request_names_its_states_and_its_length() {
        let request = request(10);
        assert_eq!((number(&request, 0), number(&request, 4)), (Some(72), Some(0x0301_0014)));
        assert_eq!(request[HEAD..HEAD + 3], [10, TCP, WITH_INFO]);
        assert_eq!(number(&request, HEAD + 4), Some(0x402));
    }
}
