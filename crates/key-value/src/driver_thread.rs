//! One thread of the load, with its connections and its keys.
//!
//! It waits for its sockets by epoll, so that a command costs its part of one write and one read. A closed loop counts what completes in
//! the measured time; open arrivals count what was meant to start in it, with the latency from the intended start, whenever a connection was
//! free for it. Every reply is compared with what can be there.

use crate::blocking::{BlockingConnection, ConnectionError, PATIENCE};
use crate::history::{History, PendingWrite};
use crate::outcome::{DriveError, LoadOutcome};
use crate::resp::{self, Received, Reply};
use crate::traffic::{Drive, Traffic};
use crate::values::{TaggedValues, write_key};
use baremark_load::epoll::{self, Epoll};
use baremark_load::steady::Starts;
use baremark_model::units::Nanos;
use baremark_stats::Rng;
use baremark_stats::zipf::{Zipf, scatter};
use baremark_sys::wake::sleep_unless;
use baremark_sys::{affinity, clock, ready};
use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Barrier, OnceLock};

const SECOND: u64 = 1_000_000_000;
/// How often a thread looks whether it has to stop, at least.
const LOOK_NS: u64 = 50_000_000;
/// How long after the measured time arrivals that are behind are still started.
const GRACE_NS: u64 = SECOND;
/// Sockets that one wait reports at most.
const BATCH: usize = 512;
/// Commands that are sent together while loading and reading back, and their bytes.
const TOGETHER: (usize, usize) = (512, 256 << 10);
/// Keys of a thread that are read back after the load, evenly spread.
const READ_BACK: u64 = 10_000;
/// What a reply may have beyond a value: a longer one is not a value, but its length can be reported.
const BEYOND: usize = 64 << 10;

/// What all threads share.
pub(crate) struct SharedRun<'c> {
    pub(crate) traffic: &'c Traffic,
    pub(crate) values: &'c TaggedValues,
    /// Makes a connection on which the server knows who asks.
    pub(crate) connect: &'c (dyn Fn() -> Result<BlockingConnection, ConnectionError> + Sync),
    /// All threads are connected, and their keys are there.
    pub(crate) connected: Barrier,
    /// The measured time is known.
    pub(crate) begun: Barrier,
    /// Its begin and end.
    pub(crate) window: OnceLock<(u64, u64)>,
    /// What is counted alongside was read at the end of the measured time.
    pub(crate) metered: AtomicBool,
    /// A thread has failed.
    pub(crate) over: AtomicBool,
    pub(crate) interrupt: &'c AtomicBool,
}

impl SharedRun<'_> {
    pub(crate) fn is_stopped(&self) -> bool {
        self.over.load(Ordering::Acquire) || self.interrupt.load(Ordering::Acquire)
    }
}

/// A command under way.
struct PendingCommand {
    /// The key's number among those of the thread.
    own: usize,
    intended: u64,
    is_read: bool,
    /// Of a write its version.
    version: u64,
    /// Of a read the least version that it may return, of a write the versions that it replaces.
    mark: u64,
}

/// A connection.
struct PipelinedConnection {
    stream: TcpStream,
    out: Vec<u8>,
    written: usize,
    received: Received,
    under_way: VecDeque<PendingCommand>,
    /// It is among those that have room for an arrival.
    is_listed: bool,
}

/// One thread of the load.
pub(crate) struct DriverThread<'c> {
    shared: &'c SharedRun<'c>,
    number: usize,
    connections: Vec<PipelinedConnection>,
    epoll: Epoll,
    zipf: Option<Zipf>,
    history: History,
    rng: Rng,
    arrivals: Option<Starts>,
    /// Connections with room for an arrival.
    idle: VecDeque<usize>,
    now: u64,
    begin: u64,
    end: u64,
    under_way: u64,
    /// CPU time of the thread at the begin of the measured time, and at its end.
    cpu_at: [Option<u64>; 2],
    part: LoadOutcome,
}

fn talk(doing: &'static str) -> impl Fn(ConnectionError) -> DriveError {
    move |why| DriveError::Talk { doing, why }
}

/// The whole life of a thread.
///
/// # Errors
/// Why the load has no outcome; the other threads stop.
pub(crate) fn live(shared: &SharedRun<'_>, number: usize) -> Result<LoadOutcome, DriveError> {
    let failed = || shared.over.store(true, Ordering::Release);
    let thread = DriverThread::prepared(shared, number).inspect_err(|_| failed());
    shared.connected.wait();
    shared.begun.wait();
    let mut thread = thread?;
    thread.run().inspect_err(|_| failed())?;
    // The server's CPU time is read first: the load ends before values are read back.
    sleep_unless(|| shared.metered.load(Ordering::Acquire) || shared.is_stopped(), PATIENCE);
    thread.read_back().inspect_err(|_| failed())?;
    Ok(thread.part)
}

impl<'c> DriverThread<'c> {
    /// Connects, and fills the server with this thread's keys.
    fn prepared(shared: &'c SharedRun<'c>, number: usize) -> Result<DriverThread<'c>, DriveError> {
        let Traffic { exponent, seed, ref cpus, .. } = *shared.traffic;
        if !cpus.is_empty() {
            let what = "setting the CPUs of a thread of the load";
            affinity::restrict_current_thread(cpus).map_err(|why| DriveError::Thread(what, why))?;
        }
        let keys = shared.traffic.keys_of(number);
        let epoll = Epoll::new(BATCH).map_err(|why| DriveError::Thread("epoll", why))?;
        let mut thread = DriverThread {
            shared,
            number,
            connections: Vec::new(),
            epoll,
            zipf: exponent.map(|exponent| Zipf::new(keys, exponent)),
            history: History::new(usize::try_from(keys).unwrap_or(usize::MAX)),
            rng: Rng::stream(seed, number as u64),
            arrivals: None,
            idle: VecDeque::new(),
            now: 0,
            begin: 0,
            end: 0,
            under_way: 0,
            cpu_at: [None; 2],
            part: LoadOutcome::default(),
        };
        for at in 0..shared.traffic.connections_of(number) {
            let mut connection = (shared.connect)().map_err(talk("connecting"))?;
            if at == 0 {
                thread.load(&mut connection).map_err(talk("loading"))?;
            }
            let stream = connection.into_stream();
            let watching = |why| DriveError::Thread("watching a connection", why);
            stream.set_nonblocking(true).map_err(watching)?;
            thread.epoll.add(stream.as_fd(), at as u64).map_err(watching)?;
            let (out, received, under_way) = (Vec::new(), Received::default(), VecDeque::new());
            thread.connections.push(PipelinedConnection {
                stream,
                out,
                written: 0,
                received,
                under_way,
                is_listed: true,
            });
            thread.idle.push_back(at);
        }
        Ok(thread)
    }

    /// The key of this thread's number, as the server has it.
    fn key(&self, own: usize) -> u64 {
        own as u64 * self.shared.traffic.threads as u64 + self.number as u64
    }

    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of the keys")]
    fn load(&mut self, connection: &mut BlockingConnection) -> Result<(), ConnectionError> {
        let keys = (self.history.keys() as f64 * self.shared.traffic.loaded_share).round() as usize;
        let (mut out, mut waiting) = (Vec::new(), Vec::new());
        for own in 0..keys {
            let write = self.history.begin(own);
            write_set(&mut out, self.shared.values, self.key(own), write.version);
            waiting.push((own, write));
            if waiting.len() < TOGETHER.0 && out.len() < TOGETHER.1 && own + 1 < keys {
                continue;
            }
            if self.shared.is_stopped() {
                return Ok(());
            }
            connection.send(&out)?;
            out.clear();
            self.part.set.sent += waiting.len() as u64;
            for (own, write) in waiting.drain(..) {
                connection.next(BEYOND, |reply| match reply {
                    Reply::Status(b"OK") => Ok(()),
                    other => Err(ConnectionError::Reply { asked: "SET", found: other.shown() }),
                })??;
                self.history.acknowledged(own, write);
            }
        }
        Ok(())
    }

    /// Warm-up and measured time, until all that was sent has its reply.
    fn run(&mut self) -> Result<(), DriveError> {
        ready::sharpen_waits();
        (self.begin, self.end) = self.shared.window.get().copied().unwrap_or_default();
        self.part.seconds = vec![0; usize::try_from((self.end - self.begin).div_ceil(SECOND)).unwrap_or(0)];
        self.look();
        match self.shared.traffic.drive {
            Drive::Closed => (0..self.connections.len()).try_for_each(|at| self.refill(at)).map_err(talk("sending"))?,
            Drive::Open { rate, poisson } => {
                // Each thread has its share of the arrivals from the begin of the warm-up on, however late it comes to run; equal gaps of several
                // threads are offset against each other.
                let threads = self.shared.traffic.threads as f64;
                let gap_ns = SECOND as f64 * threads / rate.max(1e-9);
                let rng = poisson.then(|| Rng::stream(self.shared.traffic.seed ^ u64::MAX, self.number as u64));
                let base_ns = self.begin.saturating_sub(Nanos::from(self.shared.traffic.warm_up).0);
                self.arrivals = Some(Starts::new(base_ns, gap_ns * self.number as f64 / threads, gap_ns, rng));
            }
        }
        loop {
            self.look();
            if self.shared.is_stopped() {
                return Err(DriveError::Stopped);
            }
            self.start_due()?;
            if self.is_over()? {
                return Ok(());
            }
            let count = self.epoll.wait(self.patience()).map_err(|why| DriveError::Thread("epoll", why))?;
            for index in 0..count {
                let ready = self.epoll.ready(index);
                self.serve(ready).map_err(|why| match why {
                    ServeError::Talk(why) => DriveError::Talk { doing: "under load", why },
                    ServeError::Unasked => DriveError::Unasked,
                })?;
            }
        }
    }

    fn look(&mut self) {
        self.now = clock::monotonic_ns();
        for (at, moment) in [self.begin, self.end].into_iter().enumerate() {
            if self.cpu_at[at].is_none() && self.now >= moment {
                self.cpu_at[at] = Some(clock::thread_cpu_ns());
            }
        }
    }

    /// How long to wait for sockets at most, in ns.
    fn patience(&self) -> u64 {
        let look = if self.now < self.end { (self.end - self.now).min(LOOK_NS) } else { LOOK_NS };
        match &self.arrivals {
            // Nothing can be started before a reply comes.
            Some(arrivals) if !self.idle.is_empty() => arrivals.next_ns().saturating_sub(self.now).min(look),
            _ => look,
        }
    }

    fn is_over(&mut self) -> Result<bool, DriveError> {
        if self.now < self.end || self.arrivals.as_ref().is_some_and(|arrivals| arrivals.next_ns() < self.end) {
            return Ok(false);
        }
        let waited = self.now - self.end;
        if self.under_way > 0 && waited > GRACE_NS + PATIENCE.as_secs() * SECOND {
            return Err(DriveError::Unanswered(self.under_way, waited / SECOND));
        }
        if self.under_way == 0 {
            let [begin, end] = self.cpu_at.map(Option::unwrap_or_default);
            self.part.driver_cpu_ns = end.saturating_sub(begin);
        }
        Ok(self.under_way == 0)
    }

    /// Starts the arrivals that are due, as far as connections have room. Those of the measured time that were not started long after its end
    /// are counted and passed over.
    fn start_due(&mut self) -> Result<(), DriveError> {
        let late = self.now > self.end + GRACE_NS;
        while let Some(arrivals) = &mut self.arrivals {
            let intended = arrivals.next_ns();
            if intended > self.now || intended >= self.end {
                break;
            }
            if late {
                arrivals.take();
                self.part.unserved += u64::from(intended >= self.begin);
                continue;
            }
            let Some(at) = self.idle.pop_front() else { break };
            arrivals.take();
            self.now = clock::monotonic_ns();
            if intended >= self.begin {
                self.part.lag.record(self.now - intended);
            }
            self.issue(at, intended);
            let has_room = self.connections[at].under_way.len() < self.shared.traffic.pipeline;
            self.connections[at].is_listed = has_room;
            if has_room {
                self.idle.push_back(at);
            }
            self.connections[at].flush().map_err(talk("sending"))?;
        }
        Ok(())
    }

    /// Writes the next command into a connection's buffer.
    fn issue(&mut self, at: usize, intended: u64) {
        let keys = self.history.keys() as u64;
        let drawn = match &self.zipf {
            Some(zipf) => scatter(zipf.draw(&mut self.rng), keys),
            None => self.rng.below(keys),
        };
        let own = usize::try_from(drawn).unwrap_or(0);
        let is_read = self.rng.uniform() < self.shared.traffic.read_share;
        let key = self.key(own);
        let connection = &mut self.connections[at];
        let (version, mark) = if is_read {
            write_get(&mut connection.out, key);
            self.part.get.sent += 1;
            (0, self.history.least(own))
        } else {
            let write = self.history.begin(own);
            write_set(&mut connection.out, self.shared.values, key, write.version);
            self.part.set.sent += 1;
            (write.version, write.replaces)
        };
        connection.under_way.push_back(PendingCommand { own, intended, is_read, version, mark });
        self.under_way += 1;
    }

    /// Of a closed loop: as many commands as a connection has room for.
    fn refill(&mut self, at: usize) -> Result<(), ConnectionError> {
        // What it took to compare the replies before is not the server's.
        self.now = clock::monotonic_ns();
        while self.now < self.end && self.connections[at].under_way.len() < self.shared.traffic.pipeline {
            self.issue(at, self.now);
        }
        self.connections[at].flush()
    }

    fn serve(&mut self, ready: epoll::Ready) -> Result<(), ServeError> {
        let at = usize::try_from(ready.token).unwrap_or(0);
        if ready.readable {
            self.read_all(at, ready.ended)?;
        }
        if self.arrivals.is_none() {
            return Ok(self.refill(at)?);
        }
        if !self.connections[at].is_listed && self.connections[at].under_way.len() < self.shared.traffic.pipeline {
            self.connections[at].is_listed = true;
            self.idle.push_back(at);
        }
        Ok(self.connections[at].flush()?)
    }

    /// Reads all that has come over a connection, and its end where that is there, for which no other event would come.
    fn read_all(&mut self, at: usize, ended: bool) -> Result<(), ServeError> {
        loop {
            let connection = &mut self.connections[at];
            let room = connection.received.room();
            let size = room.len();
            match connection.stream.read(room) {
                Ok(0) => return Err(ConnectionError::Closed.into()),
                Ok(count) => {
                    connection.received.took(count);
                    self.now = clock::monotonic_ns();
                    self.take_replies(at)?;
                    if count < size && !ended {
                        return Ok(());
                    }
                }
                Err(why) if why.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(why) if why.kind() == io::ErrorKind::Interrupted => {}
                Err(why) => return Err(ConnectionError::from(why).into()),
            }
        }
    }

    /// Compares what has come over a connection with what was sent.
    fn take_replies(&mut self, at: usize) -> Result<(), ServeError> {
        let (now, window, open) = (self.now, self.begin..self.end, self.arrivals.is_some());
        let (threads, number) = (self.shared.traffic.threads as u64, self.number as u64);
        let DriverThread { connections, history, part, shared, under_way, .. } = self;
        let connection = &mut connections[at];
        while let Some(reply) =
            connection.received.next(shared.values.length() + BEYOND).map_err(ConnectionError::from)?
        {
            let Some(sent) = connection.under_way.pop_front() else { return Err(ServeError::Unasked) };
            *under_way -= 1;
            let counted = if open { sent.intended } else { now };
            let is_counted = window.contains(&counted);
            let key = sent.own as u64 * threads + number;
            let check = judged(&sent, &reply, key, shared.values, history);
            if matches!(check, ReplyCheck::Found | ReplyCheck::Missing) && window.contains(&now) {
                let second = usize::try_from((now - window.start) / SECOND).unwrap_or(usize::MAX);
                if let Some(count) = part.seconds.get_mut(second) {
                    *count += 1;
                }
            }
            match check {
                ReplyCheck::Error => {
                    part.errors += u64::from(is_counted);
                    part.first_error.get_or_insert_with(|| reply.shown());
                    continue;
                }
                ReplyCheck::Wrong(what) => {
                    part.found_wrong(|| what);
                    continue;
                }
                _ if !is_counted => continue,
                ReplyCheck::Found => part.hits += u64::from(sent.is_read),
                ReplyCheck::Missing => part.misses += 1,
            }
            let kind = if sent.is_read { &mut part.get } else { &mut part.set };
            kind.latencies.record(now - sent.intended);
        }
        Ok(())
    }

    /// Reads keys back: no write is under way any more, so each must have its last version.
    fn read_back(&mut self) -> Result<(), DriveError> {
        let Some(connection) = self.connections.pop() else { return Ok(()) };
        let doing = talk("reading back");
        connection.stream.set_nonblocking(false).map_err(|why| DriveError::Thread("reading back", why))?;
        let mut connection = BlockingConnection::log_in(connection.stream, "").map_err(&doing)?;
        let keys = self.history.keys();
        let step = (keys as u64).div_ceil(READ_BACK).max(1);
        let chosen: Vec<usize> = (0..keys).step_by(usize::try_from(step).unwrap_or(1)).collect();
        let together = TOGETHER.0.min(1 + TOGETHER.1 / self.shared.values.length());
        let most = self.shared.values.length() + BEYOND;
        for some in chosen.chunks(together) {
            let mut out = Vec::new();
            some.iter().for_each(|own| write_get(&mut out, self.key(*own)));
            connection.send(&out).map_err(&doing)?;
            self.part.get.sent += some.len() as u64;
            for &own in some {
                let (key, mark) = (self.key(own), self.history.least(own));
                let sent = PendingCommand { own, intended: 0, is_read: true, version: 0, mark };
                let judged = |reply: Reply<'_>| judged(&sent, &reply, key, self.shared.values, &mut self.history);
                match connection.next(most, judged).map_err(&doing)? {
                    ReplyCheck::Found | ReplyCheck::Missing => self.part.read_back += 1,
                    ReplyCheck::Error => {
                        self.part.found_wrong(|| format!("GET key:{key:012} after the load is refused"))
                    }
                    ReplyCheck::Wrong(what) => self.part.found_wrong(|| what),
                }
            }
        }
        Ok(())
    }
}

/// Why a socket cannot be served.
enum ServeError {
    Talk(ConnectionError),
    Unasked,
}

impl From<ConnectionError> for ServeError {
    fn from(why: ConnectionError) -> ServeError {
        ServeError::Talk(why)
    }
}

/// What a reply is to its command.
enum ReplyCheck {
    /// The value, or the acknowledgement.
    Found,
    /// There was no such key, as can be.
    Missing,
    /// The server has refused the command.
    Error,
    /// It cannot be, for this reason.
    Wrong(String),
}

fn judged(
    sent: &PendingCommand,
    reply: &Reply<'_>,
    key: u64,
    values: &TaggedValues,
    history: &mut History,
) -> ReplyCheck {
    match (sent.is_read, reply) {
        (true, Reply::Bulk(value)) => match values.version(value, key) {
            Some(version) if history.permits(sent.own, sent.mark, version) => ReplyCheck::Found,
            Some(version) => ReplyCheck::Wrong(format!(
                "GET key:{key:012} has version {version}, which was replaced by version {} before the command was sent",
                sent.mark
            )),
            None => ReplyCheck::Wrong(format!("GET key:{key:012} has {} that were never written there", reply.shown())),
        },
        (true, Reply::Nil) if sent.mark == 0 => ReplyCheck::Missing,
        (true, Reply::Nil) => {
            ReplyCheck::Wrong(format!("GET key:{key:012} finds nothing where version {} is", sent.mark))
        }
        (false, Reply::Status(b"OK")) => {
            history.acknowledged(sent.own, PendingWrite { version: sent.version, replaces: sent.mark });
            ReplyCheck::Found
        }
        (is_read, Reply::Error(_)) => {
            if !is_read {
                history.refused(sent.own, sent.version);
            }
            ReplyCheck::Error
        }
        (is_read, other) => {
            let command = if is_read { "GET" } else { "SET" };
            ReplyCheck::Wrong(format!("{command} key:{key:012} has the reply {}", other.shown()))
        }
    }
}

impl PipelinedConnection {
    /// Sends as much as the socket takes; epoll reports when it takes more.
    fn flush(&mut self) -> Result<(), ConnectionError> {
        while self.written < self.out.len() {
            match self.stream.write(&self.out[self.written..]) {
                Ok(0) => return Err(ConnectionError::Closed),
                Ok(count) => self.written += count,
                Err(why) if why.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(why) if why.kind() == io::ErrorKind::Interrupted => {}
                Err(why) => return Err(why.into()),
            }
        }
        self.out.clear();
        self.written = 0;
        Ok(())
    }
}

fn write_get(out: &mut Vec<u8>, key: u64) {
    out.extend_from_slice(b"*2\r\n$3\r\nGET\r\n");
    write_key(out, key);
}

fn write_set(out: &mut Vec<u8>, values: &TaggedValues, key: u64, version: u64) {
    out.extend_from_slice(b"*3\r\n$3\r\nSET\r\n");
    write_key(out, key);
    resp::head(out, b'$', values.length());
    values.write(out, key, version);
    out.extend_from_slice(b"\r\n");
}
