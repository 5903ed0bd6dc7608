//! Data that waits in TCP sockets of the network namespace in which the observer runs, and what TCP counts. The kernel is asked for the sockets that are
//! connected or listen ([`TcpSockets`]); where it cannot be, and of another machine, `/proc/net/tcp` and `tcp6` are read, which have those that have ended, too.
//!
//! Data that waits to be sent is the network's or the peer's; data that waits to be read, or a connection that waits to be accepted, is
//! the application's. A socket whose queue never changed since observing began is not counted: whatever holds it is not at work.
//! The kernel walks its whole table of connections for one reading (milliseconds on a large machine), so that it is read at the ends of a trial and for points, and rests after a reading
//! that took long (`tracks`).

use crate::source::{Root, Source, row};
use baremark_model::observer::{Absence, Observer, Price, Readings};
use baremark_model::quantity::Quantity;
use baremark_sys::tcp_sockets::{TcpSocket, TcpSockets};
use std::collections::HashMap;

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
    round: u64,
}

pub(crate) struct Sockets {
    root: Root,
    kernel: Option<TcpSockets>,
    tables: Vec<Source>,
    counts: Vec<Source>,
    seen: HashMap<Vec<u8>, Queues>,
    round: u64,
    rows: [&'static Quantity; 2],
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
            rows: ["sockets.unsent", "sockets.unread"].map(row),
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

    /// Takes a socket; whether data waits to be sent since the reading before, and to be read now.
    fn take(&mut self, socket: TcpSocket) -> [bool; 2] {
        let TcpSocket { ends, listens, probes, unsent, unread } = socket;
        let before = self.seen.get(&ends).copied();
        // A socket that came since the first reading has moved.
        let moved =
            before.map_or(self.round > 1, |queues| queues.moved || queues.unsent != unsent || queues.unread != unread);
        let waited = before.is_some_and(|queues| queues.unsent > 0 && queues.round + 1 == self.round);
        self.seen.insert(ends, Queues { unsent, unread, moved, round: self.round });
        [moved && !probes && !listens && waited && unsent > 0, moved && unread > 0]
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
        ends: format!("{local} {remote}").into_bytes(),
        listens: state == LISTENING,
        probes: words.next().is_some_and(|timer| timer.starts_with(PROBING)),
        unsent: u32::from_str_radix(unsent, 16).ok()?,
        unread: u32::from_str_radix(unread, 16).ok()?,
    })
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
        let mut waiting = [false; 2];
        for socket in self.sockets()? {
            for (found, now) in waiting.iter_mut().zip(self.take(socket)) {
                *found |= now;
            }
        }
        let round = self.round;
        self.seen.retain(|_, queues| queues.round == round);
        for (quantity, found) in self.rows.into_iter().zip(waiting) {
            into.whole(quantity, u64::from(found));
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
        self.round = 0;
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
    fn counts_are_found_below_their_names() {
        let text = "Ip: A B\nIp: 1 2\nTcp: OutSegs RetransSegs Max\nTcp: 7 8 -1\n";
        let found: Vec<(&str, u64)> = pairs(text).collect();
        assert_eq!(found, [("A", 1), ("B", 2), ("OutSegs", 7), ("RetransSegs", 8)]);
    }
}
