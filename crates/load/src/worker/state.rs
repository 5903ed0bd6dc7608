//! What a worker keeps, by what it is for.

use super::window::Window;
use crate::actor::{Actor, NONE};
use crate::arrival::Starts;
use crate::control::Listener;
use crate::epoll::Epoll;
use crate::http1::{Known, Reader};
use crate::http2::{Event, Session};
use crate::latency::Latencies;
use crate::load::{Drive, Engine};
use crate::profile::Curve;
use crate::record::{Part, SecondPart};
use crate::transport::Transport;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::mpsc::Sender;

/// Room for ready sockets in one wait.
const BATCH: usize = 512;
/// Read at once at most.
const SCRATCH: usize = 256 << 10;
/// Read at once through TLS: at most so much becomes of it, and what TLS had kept, which is less.
const WIRE: usize = SCRATCH / 2;
pub(super) const SECOND_NS: u64 = 1_000_000_000;

/// A second that has passed at one worker.
pub(crate) struct Tick {
    pub(crate) second: usize,
    pub(crate) part: SecondPart,
}

/// A connection, or the place of one that is closed.
pub(super) struct Connection {
    pub transport: Option<Transport>,
    pub connecting: bool,
    /// Distinguishes the events of this use of the place from those of an earlier one.
    pub generation: u32,
    pub origin: usize,
    pub reader: Reader,
    pub actor: u32,
    /// It has carried an answer before.
    pub used: bool,
    /// In HTTP/2; its streams say who waits.
    pub session: Option<Box<Session>>,
    /// In HTTP/2: it is among the idle, though it may be carrying requests.
    pub listed: bool,
    /// It is among those that have more to read.
    pub pending_read: bool,
}

/// What an actor waits for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Timer {
    Wake,
    Deadline,
}

/// Which part of the load this worker makes.
pub(super) struct Shard {
    /// From 0, over all workers of all sites.
    pub index: u64,
    pub count: u64,
}

/// Times in ns since the load began.
pub(super) struct Clock {
    /// When that was, by the monotonic clock.
    pub begin: u64,
    /// As it was read last.
    pub now: u64,
    pub end: u64,
    pub ending: bool,
    /// When flags and profiles are looked at next.
    pub next_look: u64,
}

/// When operations are to start, and how many have.
pub(super) struct Schedule {
    /// Of an open loop.
    pub starts: Option<Starts>,
    /// `u64::MAX` where none is known.
    pub next_start: u64,
    /// Of users.
    pub curve: Option<Curve>,
    /// Under a dial.
    pub listener: Option<Listener>,
    pub issued: u64,
    pub most: u64,
    pub serial: u64,
    /// Operations begun that have not ended, loops alongside users apart.
    pub flying: usize,
}

impl Schedule {
    pub(super) fn new(engine: &Engine, shard: &Shard, most: u64) -> Schedule {
        let (seed, part) = (engine.load.seed, (shard.index, shard.count));
        let starts = match &engine.load.drive {
            Drive::Open { arrival, .. } if engine.control.is_some() => {
                Some(Starts::dialled(arrival.clone(), seed, part))
            }
            Drive::Open { arrival, .. } => {
                engine.curve.clone().map(|curve| Starts::new(arrival.clone(), curve, seed, part))
            }
            Drive::Closed | Drive::Users { .. } => None,
        };
        let listener = engine.control.as_ref().map(|control| {
            let thread = usize::try_from(shard.index).unwrap_or(0) % engine.load.threads;
            Listener::new(control, thread)
        });
        let curve = engine.curve.clone();
        Schedule { starts, next_start: u64::MAX, curve, listener, issued: 0, most, serial: 0, flying: 0 }
    }
}

/// Who sends requests, and what each waits for.
#[derive(Default)]
pub(super) struct Actors {
    pub all: Vec<Actor>,
    pub free: Vec<u32>,
    /// Those that wait for a connection.
    pub queue: VecDeque<u32>,
    /// Users beyond the level.
    pub parked: Vec<u32>,
    pub timers: BinaryHeap<Reverse<(u64, u32, Timer)>>,
}

/// Connections and their readiness.
pub(super) struct Sockets {
    pub epoll: Epoll,
    pub connections: Vec<Connection>,
    pub free: Vec<u32>,
    pub open: usize,
    /// Connections without a request, by origin; the last used is used next.
    pub idle: Vec<Vec<u32>>,
    pub round_robin: usize,
    /// The connection whose frames are being read: what is written to it meanwhile goes out afterwards, at once.
    pub reading: u32,
    /// Connections with more to read than was read in their turn, with their generation and whether they have ended.
    pub pending_reads: VecDeque<(u32, u32, bool)>,
    /// Events of the last wait: the next to be looked at, and how many there are.
    pub batch: (usize, usize),
}

impl Sockets {
    pub(super) fn new(origins: usize) -> std::io::Result<Sockets> {
        Ok(Sockets {
            epoll: Epoll::new(BATCH)?,
            connections: Vec::new(),
            free: Vec::new(),
            open: 0,
            idle: vec![Vec::new(); origins],
            round_robin: 0,
            reading: NONE,
            pending_reads: VecDeque::new(),
            batch: (0, 0),
        })
    }
}

/// Memory that is used again.
pub(super) struct Buffers {
    pub scratch: Vec<u8>,
    /// Scratch of bytes as TLS has them.
    pub wire: Vec<u8>,
    /// The last head of an answer.
    pub known: Known,
    /// Scratch of requests that are written anew each time.
    pub written: (Vec<u8>, Vec<u8>),
    /// Scratch of what frames have brought.
    pub events: Vec<Event>,
}

impl Buffers {
    pub(super) fn new() -> Buffers {
        Buffers {
            scratch: vec![0; SCRATCH],
            wire: vec![0; WIRE],
            known: Known::default(),
            written: (Vec::new(), Vec::new()),
            events: Vec::new(),
        }
    }
}

/// What was measured.
pub(super) struct Record {
    pub part: Part,
    /// Answers by status.
    pub statuses: Vec<u64>,
    /// The second that goes on.
    pub second: SecondPart,
    pub second_latencies: Latencies,
    pub second_end: u64,
    pub ticks: Sender<Tick>,
    /// Under a dial.
    pub window: Option<Box<Window>>,
}

impl Record {
    pub(super) fn new(names: &[String], ticks: Sender<Tick>) -> Record {
        Record {
            part: Part::new(names),
            statuses: vec![0; 1000],
            second: SecondPart::default(),
            second_latencies: Latencies::coarse(),
            second_end: SECOND_NS,
            ticks,
            window: None,
        }
    }
}
