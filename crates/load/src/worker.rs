//! One thread's event loop: due starts, ready sockets, answers, and what each actor does next.
//!
//! A request in steady state costs one write, one read and one look at the clock; memory is only allocated for what a
//! scenario keeps. Whatever fails comes back by way of the timers, so that a dead server can neither recurse nor spin.

mod exchange;
mod multiplex;
mod steps;
mod window;

use crate::actor::{Actor, NONE, Role, State};
use crate::arrival::Starts;
use crate::dial::Listener;
use crate::epoll::{self, Epoll};
use crate::http1::{Known, Reader};
use crate::http2::{Event, Session};
use crate::latency::Latencies;
use crate::load::{Drive, Engine};
use crate::profile::Curve;
use crate::record::{Part, SecondPart, ThreadPart};
use crate::rng::Rng;
use crate::scenario::Scenario;
use crate::transport::Transport;
use baremark_sys::clock::monotonic_ns;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::atomic::Ordering;
use std::sync::mpsc::Sender;
use window::Window;

/// A second that has passed at one worker.
pub(crate) struct Tick {
    pub(crate) second: usize,
    pub(crate) part: SecondPart,
}

struct Connection {
    transport: Option<Transport>,
    connecting: bool,
    /// Distinguishes the events of this use of the place from those of an earlier one.
    generation: u32,
    origin: usize,
    reader: Reader,
    actor: u32,
    /// It has carried an answer before.
    used: bool,
    /// In HTTP/2; its streams say who waits.
    session: Option<Box<Session>>,
    /// In HTTP/2: it is among the idle, though it may be carrying requests.
    listed: bool,
    /// It is among those that have more to read.
    pending_read: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    Wake,
    Deadline,
}

pub(crate) struct Worker<'e> {
    engine: &'e Engine,
    scenario: &'e Scenario,
    shard: u64,
    shards: u64,
    begin: u64,
    epoll: Epoll,
    connections: Vec<Connection>,
    free_connections: Vec<u32>,
    open: usize,
    /// Connections without a request, by origin; the last used is used next.
    idle: Vec<Vec<u32>>,
    actors: Vec<Actor>,
    free_actors: Vec<u32>,
    queue: VecDeque<u32>,
    timers: BinaryHeap<Reverse<(u64, u32, Timer)>>,
    starts: Option<Starts>,
    next_start: u64,
    curve: Option<Curve>,
    parked: Vec<u32>,
    rng: Rng,
    scratch: Vec<u8>,
    /// Scratch of bytes as TLS has them.
    wire: Vec<u8>,
    /// The last head of an answer.
    known: Known,
    /// Scratch of requests that are written anew each time.
    written: (Vec<u8>, Vec<u8>),
    part: Part,
    statuses: Vec<u64>,
    second: SecondPart,
    second_latencies: Latencies,
    second_end: u64,
    /// Operations begun that have not ended, loops alongside users apart.
    flying: usize,
    issued: u64,
    most: u64,
    serial: u64,
    round_robin: usize,
    now: u64,
    end: u64,
    ending: bool,
    next_look: u64,
    ticks: Sender<Tick>,
    /// Under a dial.
    listener: Option<Listener>,
    /// The connection whose frames are being read: what is written to it meanwhile goes out afterwards, at once.
    reading: u32,
    events: Vec<Event>,
    /// Connections with more to read than was read in their turn, with their generation and whether they have ended.
    pending_reads: VecDeque<(u32, u32, bool)>,
    /// Events of the last wait: the next to be looked at, and how many there are.
    batch: (usize, usize),
    window: Option<Box<Window>>,
}

/// Room for ready sockets in one wait.
const BATCH: usize = 512;
/// Read at once at most.
const SCRATCH: usize = 256 << 10;
/// Read at once through TLS: at most so much becomes of it, and what TLS had kept, which is less.
const WIRE: usize = SCRATCH / 2;
/// How often flags and profiles are looked at, at least.
const LOOK_NS: u64 = 50_000_000;
/// A caller of a closed loop waits so long after a connection that could not be made.
const BACKOFF_NS: u64 = 10_000_000;
/// Operations that wait for a connection, at most; more are counted as unsent at once.
const MOST_QUEUED: usize = 1 << 20;
const SECOND_NS: u64 = 1_000_000_000;
/// Users' random streams; the worker's own lie far above.
const WORKER_STREAM: u64 = 1 << 62;

impl<'e> Worker<'e> {
    pub(crate) fn new(
        engine: &'e Engine,
        (shard, shards): (u64, u64),
        most: u64,
        ticks: Sender<Tick>,
    ) -> std::io::Result<Worker<'e>> {
        let scenario = &engine.load.scenario;
        let seed = engine.load.seed;
        let starts = match &engine.load.drive {
            Drive::Open { arrival, .. } if engine.control.is_some() => {
                Some(Starts::dialled(arrival.clone(), seed, (shard, shards)))
            }
            Drive::Open { arrival, .. } => {
                engine.curve.clone().map(|curve| Starts::new(arrival.clone(), curve, seed, (shard, shards)))
            }
            _ => None,
        };
        Ok(Worker {
            engine,
            scenario,
            shard,
            shards,
            begin: 0,
            epoll: Epoll::new(BATCH)?,
            connections: Vec::new(),
            free_connections: Vec::new(),
            open: 0,
            idle: vec![Vec::new(); scenario.origins.len()],
            actors: Vec::new(),
            free_actors: Vec::new(),
            queue: VecDeque::new(),
            timers: BinaryHeap::new(),
            starts,
            next_start: u64::MAX,
            curve: engine.curve.clone(),
            parked: Vec::new(),
            rng: Rng::stream(seed, WORKER_STREAM + shard),
            scratch: vec![0; SCRATCH],
            wire: vec![0; WIRE],
            known: Known::default(),
            written: (Vec::new(), Vec::new()),
            part: Part::new(&scenario.operation_names()),
            statuses: vec![0; 1000],
            second: SecondPart::default(),
            second_latencies: Latencies::coarse(),
            second_end: SECOND_NS,
            flying: 0,
            issued: 0,
            most,
            serial: 0,
            round_robin: 0,
            now: 0,
            end: engine.end_ns(),
            ending: false,
            next_look: 0,
            ticks,
            listener: engine.control.as_ref().map(|control| {
                let thread = usize::try_from(shard).unwrap_or(0) % engine.load.threads;
                Listener::new(control, thread)
            }),
            reading: NONE,
            events: Vec::new(),
            pending_reads: VecDeque::new(),
            batch: (0, 0),
            window: None,
        })
    }

    /// Runs the load from `begin` of the monotonic clock and returns what was measured.
    pub(crate) fn run(mut self, begin: u64, cpu: Option<usize>) -> std::io::Result<Part> {
        epoll::sharpen_sleep();
        self.begin = begin;
        while monotonic_ns() < begin {
            std::thread::sleep(std::time::Duration::from_nanos(begin.saturating_sub(monotonic_ns())));
        }
        let cpu_before = epoll::thread_cpu_ns();
        self.look_at_clock();
        self.populate();
        while !self.ending {
            self.dispatch();
            self.check_end();
            self.wait(self.next_look.min(self.end), self.end)?;
        }
        let wall_ns = self.now.max(1);
        let cpu_ns = epoll::thread_cpu_ns() - cpu_before;
        self.part.elapsed_ns = wall_ns;
        self.drain()?;
        self.close_seconds(wall_ns);
        self.part.threads.push(ThreadPart { cpu, cpu_ns, wall_ns });
        for (status, count) in self.statuses.iter().enumerate().filter(|(_, count)| **count > 0) {
            self.part.statuses.insert(u16::try_from(status).unwrap_or(0), *count);
        }
        Ok(self.part)
    }

    /// The first actors and starts.
    fn populate(&mut self) {
        let seed = self.engine.load.seed;
        match self.engine.load.drive {
            Drive::Closed => {
                let callers = self.engine.callers();
                for number in (self.shard..callers).step_by(usize::try_from(self.shards).unwrap_or(1)) {
                    let actor = self.hire(Role::Closed, number);
                    let now = self.now;
                    self.begin_next(actor, now);
                }
            }
            Drive::Open { .. } => self.advance_starts(),
            // A dial hires them when they are requested.
            Drive::Users { .. } if self.listener.is_some() => {}
            Drive::Users { .. } => {
                #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "float casts saturate")]
                let users = self.curve.as_ref().map_or(0, |curve| curve.highest().ceil() as u64);
                let cycle = self.scenario.cycle.map_or(0, |cycle| cycle.mean.0);
                for number in (self.shard..users).step_by(usize::try_from(self.shards).unwrap_or(1)) {
                    let actor = self.hire(Role::User, number);
                    let mut draw = Rng::stream(seed ^ 0x5eed, number);
                    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "float casts saturate")]
                    let phase = (draw.uniform() * cycle as f64) as u64;
                    self.actors[actor as usize].intended = phase;
                    self.sleep_until(actor, phase);
                }
            }
        }
    }

    fn hire(&mut self, role: Role, number: u64) -> u32 {
        let seed = self.engine.load.seed;
        if let Some(index) = self.free_actors.pop() {
            let actor = &mut self.actors[index as usize];
            let armed = actor.armed;
            if self.scenario.variables.is_empty() && !self.scenario.cookies {
                actor.role = role;
                actor.number = number;
                actor.operation = self.scenario.start;
                actor.state = State::Idle;
                return index;
            }
            *actor = Actor::new(role, number, seed, self.scenario);
            actor.armed = armed;
            return index;
        }
        self.actors.push(Actor::new(role, number, seed, self.scenario));
        u32::try_from(self.actors.len() - 1).unwrap_or(NONE)
    }

    #[inline]
    fn look_at_clock(&mut self) {
        self.now = monotonic_ns().saturating_sub(self.begin);
        if self.now >= self.second_end {
            self.roll_second();
        }
    }

    fn roll_second(&mut self) {
        while self.now >= self.second_end && self.second_end <= self.end.saturating_add(SECOND_NS - 1) {
            self.close_second();
            self.second_end += SECOND_NS;
        }
    }

    fn close_second(&mut self) {
        let mut part = std::mem::take(&mut self.second);
        part.latencies = self.second_latencies.to_v2();
        self.second_latencies.clear();
        // Nobody may be listening; the record is what counts.
        let _ = self.ticks.send(Tick { second: self.part.seconds.len(), part: part.clone() });
        self.part.seconds.push(part);
    }

    /// A last second that was cut short is kept, but for one of less than a hundredth.
    fn close_seconds(&mut self, elapsed: u64) {
        let wanted = (elapsed + SECOND_NS - SECOND_NS / 100).div_euclid(SECOND_NS).max(1);
        if (self.part.seconds.len() as u64) < wanted {
            self.close_second();
        }
    }

    /// Flags and profiles, looked at now and then.
    fn look_around(&mut self) {
        self.heed_dial();
        let change = self.listener.as_ref().map_or(u64::MAX, Listener::next_change);
        self.next_look = (self.now + LOOK_NS).min(change);
        if self.engine.interrupt.load(Ordering::Relaxed) {
            self.part.interrupted = true;
            self.ending = true;
        }
        if self.parked.is_empty() {
            return;
        }
        let level = self.level();
        let mut parked = std::mem::take(&mut self.parked);
        parked.retain(|&index| {
            let wakes = (self.actors[index as usize].number as f64) < level;
            if wakes {
                self.rouse(index);
            }
            !wakes
        });
        self.parked = parked;
    }

    fn level(&self) -> f64 {
        if let Some(listener) = &self.listener {
            return listener.level;
        }
        self.curve.as_ref().map_or(f64::INFINITY, |curve| curve.level(self.now as f64 / 1e9))
    }

    fn check_end(&mut self) {
        let out_of_work = self.issued >= self.most && self.flying == 0;
        let out_of_starts =
            self.listener.is_none() && self.starts.is_some() && self.next_start == u64::MAX && self.flying == 0;
        if self.now >= self.end || out_of_work || out_of_starts {
            self.ending = true;
        }
    }

    fn advance_starts(&mut self) {
        self.next_start = self.starts.as_mut().and_then(Iterator::next).unwrap_or(u64::MAX);
        if self.next_start >= self.end {
            self.next_start = u64::MAX;
        }
    }

    #[inline]
    fn is_due(&self) -> bool {
        self.next_start <= self.now || self.timers.peek().is_some_and(|Reverse((at, ..))| *at <= self.now)
    }

    /// Begins what is due and ends what has waited too long.
    fn dispatch(&mut self) {
        if self.now >= self.next_look {
            self.look_around();
        }
        // What falls due meanwhile comes next time, after the sockets; but each start is judged by the clock as it is then.
        let due = self.now;
        let mut first = true;
        while self.next_start <= due && self.issued < self.most && !self.ending {
            let intended = self.next_start;
            self.advance_starts();
            if !std::mem::take(&mut first) {
                self.look_at_clock();
            }
            self.part.send_lag.record(self.now - intended);
            if let Some(window) = &mut self.window {
                window.lag(intended, self.now - intended);
            }
            if self.queue.len() >= MOST_QUEUED {
                if let Some(window) = &mut self.window {
                    window.unsent(intended);
                }
                self.part.counts.intended += 1;
                self.part.counts.unsent += 1;
                continue;
            }
            let number = self.issued * self.shards + self.shard;
            let actor = self.hire(Role::Open, number);
            self.begin_next(actor, intended);
        }
        while let Some(&Reverse((at, index, timer))) = self.timers.peek() {
            if at > due {
                return;
            }
            self.timers.pop();
            if !std::mem::take(&mut first) {
                self.look_at_clock();
            }
            match timer {
                Timer::Wake => self.wake(index, at),
                Timer::Deadline => self.deadline(index, at),
            }
        }
    }

    fn sleep_until(&mut self, index: u32, at: u64) {
        let actor = &mut self.actors[index as usize];
        actor.state = State::Idle;
        actor.wake = at;
        self.timers.push(Reverse((at, index, Timer::Wake)));
    }

    fn wake(&mut self, index: u32, at: u64) {
        let actor = &self.actors[index as usize];
        if actor.state != State::Idle || actor.wake != at || actor.role == Role::Free {
            return;
        }
        if actor.role == Role::User && actor.number as f64 >= self.level() {
            self.send_home(index);
            self.actors[index as usize].state = State::Parked;
            self.parked.push(index);
            return;
        }
        if actor.role == Role::User {
            self.part.send_lag.record(self.now - at);
            if let Some(window) = &mut self.window {
                window.lag(at, self.now - at);
            }
        }
        let intended = if actor.role == Role::User { actor.intended } else { self.now };
        self.begin_next(index, intended);
    }

    /// Waits until `until` at the latest and serves what is ready, until `cutoff`: the rest is served by the next call.
    fn wait(&mut self, until: u64, cutoff: u64) -> std::io::Result<()> {
        self.look_at_clock();
        if self.batch.0 == self.batch.1 {
            let timer = self.timers.peek().map_or(u64::MAX, |Reverse((at, ..))| *at);
            let until = until.min(timer).min(self.next_start).min(self.second_end);
            let until = if self.pending_reads.is_empty() { until } else { 0 };
            self.batch = (0, self.epoll.wait(until.saturating_sub(self.now))?);
            self.look_at_clock();
            self.read_pending(cutoff);
        }
        while self.batch.0 < self.batch.1 && self.now < cutoff {
            if self.is_due() {
                self.dispatch();
            }
            let event = self.batch.0;
            self.batch.0 += 1;
            let ready = self.epoll.ready(event);
            #[expect(clippy::cast_possible_truncation, reason = "the token is two halves of 32 bits")]
            let (connection, generation) = (ready.token as u32, (ready.token >> 32) as u32);
            let place = &self.connections[connection as usize];
            if place.generation != generation || place.transport.is_none() {
                continue;
            }
            if place.connecting && !self.connected(connection, ready.writable) {
                continue;
            }
            // First what waits to be sent: the event of room for it comes but once, and what is read may need it.
            if ready.writable && !self.flush(connection) {
                continue;
            }
            if ready.readable {
                self.read(connection, generation, ready.ended);
            }
            while !self.queue.is_empty() && self.serve_queue() {}
        }
        // Deadlines free connections as well.
        while !self.queue.is_empty() && self.serve_queue() {}
        Ok(())
    }

    /// After the end: what is on its way may still come, for a while; the rest is counted as unfinished.
    fn drain(&mut self) -> std::io::Result<()> {
        let grace = if self.part.interrupted { 0 } else { self.engine.load.grace.0 };
        let until = self.now + grace;
        for index in std::mem::take(&mut self.queue) {
            let actor = &mut self.actors[index as usize];
            if actor.state == State::Queued && !matches!(actor.role, Role::Follow { .. }) {
                actor.state = State::Idle;
                self.flying -= 1;
                self.part.counts.unsent += 1;
                // A caller that waits for a connection all the time has begun nothing: no moment was intended.
                if actor.role == Role::Closed {
                    self.part.operations[actor.operation].intended -= 1;
                }
            }
        }
        while self.flying > 0 && self.now < until && !self.engine.interrupt.load(Ordering::Relaxed) {
            self.dispatch();
            let pause = (self.now + LOOK_NS).min(until);
            self.next_start = u64::MAX;
            self.second_end = u64::MAX;
            self.wait(pause, until)?;
        }
        self.part.counts.unfinished += self.flying as u64;
        Ok(())
    }
}
