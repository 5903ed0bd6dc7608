//! Data that waits in TCP sockets of the network namespace in which the observer runs, and what TCP counts. The kernel is asked for the sockets that are
//! connected or listen ([`TcpSockets`]); where it cannot be, and of another machine, `/proc/net/tcp` and `tcp6` are read, which have those that have ended, too.
//!
//! Data that waits to be sent is the network's or the peer's; data that waits to be read, or a connection that waits to be accepted, is
//! the application's. A socket whose queue never changed since observing began is not counted: whatever holds it is not at work.
//!
//! Between two sockets that are both here no network is: what waits to be sent there waits for the one that reads, or for a CPU.
//!
//! For how long a connection had data that was not acknowledged the kernel counts itself, and for how long of that its peer had no room. The rest is time
//! in which the data was on its way, or in which the peer held its acknowledgement back to send it with an answer (up to 40 ms on Linux). It counts
//! while the last reading with unacknowledged data found more of it than acknowledgements are held back for, and unless the peer had no room for longer since the
//! reading before: one that reads slowly acknowledges slowly, too.
//!
//! The kernel walks its whole table of connections for one reading (milliseconds on a large machine), so that it is read at the ends of a trial and for points, and rests after a reading
//! that took long (`tracks`).

use crate::source::{Root, Source, row};
use baremark_model::observer::{Absence, Observer, Price, Readings};
use baremark_model::quantity::Quantity;
use baremark_sys::tcp_sockets::{Sending, TcpSocket, TcpSockets};
use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

const ESTABLISHED: &str = "01";
const LISTENING: &str = "0A";
/// The timer of a sender whose peer has no room: its receiver is slow, not the network.
const PROBING: &str = "04";
/// What TCP counts: file, name there, quantity.
const COUNTED: [(&str, &str); 3] = [
    ("OutSegs", "sockets.segments_sent"),
    ("RetransSegs", "sockets.segments_retransmitted"),
    ("ListenOverflows", "sockets.accept_overflows"),
];

/// What one socket's queues hold, in bytes, or connections that wait to be accepted.
#[derive(Clone, Copy, Debug, Default)]
struct Queues {
    unsent: u32,
    unread: u32,
    /// Whether either has changed since observing began.
    moved: bool,
    /// What the kernel has counted of its sending, and whether it was in transit at the last reading at which it had anything to send.
    sending: Option<Sending>,
    round: u64,
}

/// What one reading found in sockets.
#[derive(Clone, Copy, Debug)]
struct Found {
    /// Whether data waits to be sent since the reading before.
    unsent: bool,
    /// Whether data or a connection waits for the application.
    unread: bool,
    /// Microseconds since the reading before in which data was on its way; `None` where the kernel does not say.
    in_transit_us: Option<u64>,
}

impl Found {
    /// That of no socket.
    const NONE: Found = Found { unsent: false, unread: false, in_transit_us: Some(0) };

    /// Of both together: as long as the one that was longer on its way. Of connections that were on their way one after the other that is less than they were.
    fn with(self, other: Found) -> Self {
        Found {
            unsent: self.unsent || other.unsent,
            unread: self.unread || other.unread,
            in_transit_us: self.in_transit_us.zip(other.in_transit_us).map(|(one, other)| one.max(other)),
        }
    }
}

pub(crate) struct Sockets {
    root: Root,
    kernel: Option<TcpSockets>,
    tables: Vec<Source>,
    counts: Vec<Source>,
    seen: HashMap<[SocketAddr; 2], Queues>,
    round: u64,
    /// Microseconds since observing began in which data was on its way, as long as the kernel has said so of every connection.
    in_transit_us: Option<u64>,
    rows: [&'static Quantity; 3],
    counted: [(&'static str, &'static Quantity); 3],
}

impl Sockets {
    pub(crate) fn new(root: Root) -> Self {
        Sockets {
            root,
            kernel: None,
            tables: Vec::new(),
            counts: Vec::new(),
            seen: HashMap::new(),
            round: 0,
            in_transit_us: None,
            rows: ["sockets.unsent", "sockets.unread", "sockets.in_transit"].map(row),
            counted: COUNTED.map(|(name, key)| (name, row(key))),
        }
    }

    /// The sockets that are connected or listen now.
    fn sockets(&mut self) -> Result<Vec<TcpSocket>, Absence> {
        if let Some(kernel) = &mut self.kernel {
            return kernel.read().map_err(|why| Absence::new("sockets", format!("sock_diag(7): {why}")));
        }
        let texts: Result<Vec<String>, Absence> = self.tables.iter_mut().map(Source::read).collect();
        Ok(texts?.iter().flat_map(|text| text.lines().skip(1).filter_map(socket)).collect())
    }

    /// Takes sockets, and says what it found in them.
    fn take(&mut self, sockets: Vec<TcpSocket>) -> Found {
        let here: HashSet<[SocketAddr; 2]> = sockets.iter().map(|socket| socket.ends).collect();
        let is_local = |socket: &TcpSocket| {
            let [own, peer] = socket.ends;
            here.contains(&[peer, own])
        };
        let found = |found: Found, socket: TcpSocket| {
            let is_local = is_local(&socket);
            let now = self.take_one(socket);
            found.with(if is_local { Found { unsent: false, in_transit_us: Some(0), ..now } } else { now })
        };
        let found = sockets.into_iter().fold(Found::NONE, found);
        let round = self.round;
        self.seen.retain(|_, queues| queues.round == round);
        found
    }

    fn take_one(&mut self, socket: TcpSocket) -> Found {
        let TcpSocket { ends, listens, probes, unsent, unread, sending } = socket;
        let before = self.seen.get(&ends).copied();
        // A socket that came since the first reading has moved.
        let moved =
            before.map_or(self.round > 1, |queues| queues.moved || queues.unsent != unsent || queues.unread != unread);
        let waited = before.is_some_and(|queues| queues.unsent > 0 && queues.round + 1 == self.round);
        let was = before.and_then(|queues| queues.sending);
        // One that has all acknowledged is as it was when it had not.
        let sending = sending.map(|now| Sending {
            in_transit: if unsent > 0 { now.in_transit } else { was.is_some_and(|was| was.in_transit) },
            ..now
        });
        self.seen.insert(ends, Queues { unsent, unread, moved, sending, round: self.round });
        let of = |now: Sending| {
            let busy = now.busy_us.saturating_sub(was.map_or(0, |was| was.busy_us));
            let no_room = now.no_room_us.saturating_sub(was.map_or(0, |was| was.no_room_us));
            let on_its_way = busy.saturating_sub(no_room);
            if now.in_transit && moved && on_its_way >= no_room { on_its_way } else { 0 }
        };
        Found {
            unsent: moved && !probes && !listens && waited && unsent > 0,
            unread: moved && unread > 0,
            in_transit_us: if listens { Some(0) } else { sending.map(of) },
        }
    }
}

/// The socket of a line of a table, if it is connected or listens.
fn socket(line: &str) -> Option<TcpSocket> {
    let mut words = line.split_ascii_whitespace().skip(1);
    let (local, remote, state) = (words.next()?, words.next()?, words.next()?);
    if state != ESTABLISHED && state != LISTENING {
        return None;
    }
    let (unsent, unread) = words.next()?.split_once(':')?;
    Some(TcpSocket {
        ends: [end(local)?, end(remote)?],
        listens: state == LISTENING,
        probes: words.next().is_some_and(|timer| timer.starts_with(PROBING)),
        unsent: u32::from_str_radix(unsent, 16).ok()?,
        unread: u32::from_str_radix(unread, 16).ok()?,
        sending: None,
    })
}

/// `0100007F:1F90`: words of the address in the byte order of the machine, and the port.
fn end(text: &str) -> Option<SocketAddr> {
    let (address, port) = text.split_once(':')?;
    let words: Option<Vec<[u8; 4]>> = (0..address.len())
        .step_by(8)
        .map(|at| Some(u32::from_str_radix(address.get(at..at + 8)?, 16).ok()?.to_ne_bytes()))
        .collect();
    let address = match words?.as_slice() {
        [word] => Ipv4Addr::from(*word).into(),
        words => IpAddr::from(Ipv6Addr::from(<[u8; 16]>::try_from(words.concat()).ok()?)).to_canonical(),
    };
    Some(SocketAddr::new(address, u16::from_str_radix(port, 16).ok()?))
}

/// The values below the names in a file of pairs of lines, names first.
fn pairs(text: &str) -> impl Iterator<Item = (&str, u64)> {
    let lines: Vec<&str> = text.lines().collect();
    let both = lines.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect::<Vec<_>>();
    both.into_iter().flat_map(|(names, values)| {
        let values = values.split_ascii_whitespace().skip(1);
        names.split_ascii_whitespace().skip(1).zip(values).filter_map(|(name, value)| Some((name, value.parse().ok()?)))
    })
}

impl Observer for Sockets {
    fn price(&self) -> Price {
        Price::High
    }

    fn start(&mut self) -> Result<(), Absence> {
        self.stop();
        let counted = ["proc/net/snmp", "proc/net/netstat"];
        if self.root.is_this_machine() {
            // A kernel without the table says so when it is asked.
            let opened = TcpSockets::open().and_then(|mut sockets| sockets.read().map(|_| sockets));
            self.kernel = opened.ok();
            self.in_transit_us = self.kernel.is_some().then_some(0);
        }
        let open = |name: &str| {
            let mut source = Source::new("sockets", name);
            source.open(&self.root).is_ok().then_some(source)
        };
        self.counts = counted.into_iter().filter_map(open).collect();
        if self.kernel.is_some() {
            return Ok(());
        }
        let mut first = Source::new("sockets", "proc/net/tcp");
        first.open(&self.root)?;
        self.tables.push(first);
        self.tables.extend(open("proc/net/tcp6"));
        Ok(())
    }

    fn read(&mut self, into: &mut Readings) -> Result<(), Absence> {
        if self.kernel.is_none() && self.tables.is_empty() {
            return Err(Absence::new("sockets", "they were read before they were started"));
        }
        self.round += 1;
        let sockets = self.sockets()?;
        let found = self.take(sockets);
        let [unsent, unread, in_transit] = self.rows;
        into.whole(unsent, u64::from(found.unsent));
        into.whole(unread, u64::from(found.unread));
        self.in_transit_us = self.in_transit_us.zip(found.in_transit_us).map(|(sum, since)| sum + since);
        if let Some(sum) = self.in_transit_us {
            into.whole(in_transit, sum);
        }
        for source in &mut self.counts {
            let text = source.read()?;
            for (name, count) in pairs(&text) {
                if let Some((_, quantity)) = self.counted.iter().find(|(known, _)| *known == name) {
                    into.whole(quantity, count);
                }
            }
        }
        Ok(())
    }

    fn stop(&mut self) {
        self.kernel = None;
        self.tables.clear();
        self.counts.clear();
        self.seen.clear();
        (self.round, self.in_transit_us) = (0, None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    const HEAD: &str =
        "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n";

    fn socket(port: u16, state: &str, unsent: u64, unread: u64, timer: &str) -> String {
        format!(
            "   0: 0100007F:{port:04X} 0100007F:1F90 {state} {unsent:08X}:{unread:08X} {timer}:00000014 00000000     0 0 7 1\n"
        )
    }

    /// What consecutive readings of tables with these sockets find: data to be sent, data to be read.
    fn found(tables: &[String]) -> Vec<[u64; 2]> {
        let folder = tempfile::tempdir().expect("a folder");
        let net = folder.path().join("proc/net");
        fs::create_dir_all(&net).expect("a folder");
        let write = |table: &str| fs::write(net.join("tcp"), format!("{HEAD}{table}")).expect("a file");
        write(&tables[0]);
        let mut sockets = Sockets::new(Root::recorded(folder.path()));
        sockets.start().expect("it can be read");
        let read = |table: &String| {
            write(table);
            let mut into = Readings::default();
            sockets.read(&mut into).expect("it can be read");
            let of = |key| into.values.iter().find(|value| value.quantity.key == key).map_or(9, |value| value.count);
            assert_eq!(of("sockets.in_transit"), 9, "the tables do not say");
            [of("sockets.unsent"), of("sockets.unread")]
        };
        tables.iter().map(read).collect()
    }

    #[test]
    fn data_waits_for_the_network_where_it_is_there_at_two_readings() {
        let sending = |bytes| socket(9000, ESTABLISHED, bytes, 0, "01");
        assert_eq!(found(&[sending(0), sending(5000), sending(4000)]), [[0, 0], [0, 0], [1, 0]]);
        assert_eq!(found(&[sending(0), sending(5000), sending(0), sending(5000)])[3], [0, 0], "it was sent meanwhile");
        let full = |bytes| socket(9000, ESTABLISHED, bytes, 0, PROBING);
        assert_eq!(found(&[full(0), full(5000), full(4000)])[2], [0, 0], "its peer does not read");
        let gone = |bytes| socket(9000, "04", bytes, 0, "01");
        assert_eq!(found(&[gone(0), gone(5000), gone(4000)])[2], [0, 0], "nobody waits for a closed connection");
    }

    #[test]
    fn data_waits_for_the_application_unless_nobody_is_at_work_there() {
        let arriving = |bytes| socket(9000, ESTABLISHED, 0, bytes, "00");
        assert_eq!(found(&[arriving(0), arriving(10), arriving(20)]), [[0, 0], [0, 1], [0, 1]]);
        assert_eq!(found(&[arriving(10), arriving(10), arriving(10)])[2], [0, 0], "nobody ever reads there");
        let accepting = |connections| socket(80, LISTENING, 0, connections, "00");
        assert_eq!(found(&[accepting(0), accepting(2)])[1], [0, 1]);
    }

    #[test]
    fn ends_are_read_as_the_kernel_writes_them() {
        let of = |text: &str| end(text).expect("an end").to_string();
        assert_eq!(of(&format!("{:08X}:1F90", u32::from_ne_bytes([127, 0, 0, 1]))), "127.0.0.1:8080");
        let words = |words: [u32; 4]| words.iter().map(|word| format!("{word:08X}")).collect::<String>();
        let mapped = [[0; 4], [0; 4], [0, 0, 255, 255], [10, 0, 0, 1]].map(u32::from_ne_bytes);
        assert_eq!(of(&format!("{}:0050", words(mapped))), "10.0.0.1:80");
        let one = [[0x20, 1, 0, 0], [0; 4], [0; 4], [0, 0, 0, 1]].map(u32::from_ne_bytes);
        assert_eq!(of(&format!("{}:0050", words(one))), "[2001::1]:80");
        for odd in ["", "0100007F", "0100007:1F90", "0100007F:1F90F", "0100007F0100007F:50", "é00007F:50"] {
            assert_eq!(end(odd), None, "{odd}");
        }
    }

    /// Both are here: whatever waits between them, no network does.
    #[test]
    fn a_connection_within_the_machine_waits_for_no_network() {
        let of = |own: u16, peer: u16, unsent: u64, unread: u64| {
            format!("   0: 0100007F:{own:04X} 0100007F:{peer:04X} 01 {unsent:08X}:{unread:08X} 01:00000014 0 0 0 7 1\n")
        };
        let sends = |unsent| of(9000, 80, unsent, 0);
        let both = |unsent| sends(unsent) + &of(80, 9000, 0, unsent);
        assert_eq!(found(&[sends(0), sends(5000), sends(4000)])[2], [1, 0]);
        assert_eq!(found(&[both(0), both(5000), both(4000)])[2], [0, 1]);
    }

    /// What consecutive readings of one connection add to the time in transit: bytes that it has to send, and its own counts of microseconds and whether more
    /// of it is in transit than acknowledgements are held back for.
    fn in_transit(readings: &[(u32, u64, u64, bool)]) -> Vec<u64> {
        let mut sockets = Sockets::new(Root::default());
        let take = |&(unsent, busy_us, no_room_us, in_transit): &(u32, u64, u64, bool)| {
            sockets.round += 1;
            let ends = ["10.0.0.1:9000", "10.0.0.2:80"].map(|end| end.parse().expect("an end"));
            let sending = Some(Sending { busy_us, no_room_us, in_transit });
            let socket = TcpSocket { ends, listens: false, probes: false, unsent, unread: 0, sending };
            sockets.take(vec![socket]).in_transit_us.expect("the kernel says so")
        };
        readings.iter().map(take).collect()
    }

    #[test]
    fn time_in_transit_is_that_of_connections_found_with_more_than_an_acknowledgement_is_held_back_for() {
        // The first reading is the beginning, whatever was before.
        let bulk = [(5000, 700, 0, true), (4000, 900, 0, true), (0, 1000, 0, false), (0, 1000, 0, false)];
        assert_eq!(in_transit(&bulk), [0, 200, 100, 0]);
        let small = [(0, 0, 0, false), (80, 40_000, 0, false), (0, 80_000, 0, false)];
        assert_eq!(in_transit(&small), [0, 0, 0], "their acknowledgements come with the answers");
        let both = [(0, 0, 0, false), (5000, 10, 0, true), (0, 30, 0, false), (80, 60, 0, false), (0, 90, 0, false)];
        assert_eq!(
            in_transit(&both),
            [0, 10, 20, 0, 0],
            "what it was last found to be counts until it is found to be otherwise"
        );
        let full = [(0, 0, 0, false), (5000, 100, 40, true), (4000, 200, 95, true)];
        assert_eq!(in_transit(&full), [0, 60, 0], "its peer had no room for longer than it had");
        let of = |in_transit_us| Found { in_transit_us, ..Found::NONE };
        assert_eq!(
            of(Some(7)).with(of(Some(9))).in_transit_us,
            Some(9),
            "not both: they may have been at the same time"
        );
        assert_eq!(of(Some(7)).with(of(None)).in_transit_us, None);
    }

    #[test]
    fn counts_are_found_below_their_names() {
        let text = "Ip: A B\nIp: 1 2\nTcp: OutSegs RetransSegs Max\nTcp: 7 8 -1\n";
        let found: Vec<(&str, u64)> = pairs(text).collect();
        assert_eq!(found, [("A", 1), ("B", 2), ("OutSegs", 7), ("RetransSegs", 8)]);
    }
}
