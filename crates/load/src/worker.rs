//! One thread's event loop: due starts, ready sockets, answers, and what each actor does next.
//!
//! A request in steady state costs one write, one read and one look at the clock; memory is only allocated for what a
//! scenario keeps. Whatever fails comes back by way of the timers, so that a dead server can neither recurse nor spin.

use crate::actor::{Actor, NONE, Role, State};
use crate::arrival::Starts;
use crate::epoll::{self, Epoll};
use crate::failure::Failure;
use crate::heard::Keep;
use crate::http1::{After, Fed, Reader};
use crate::latency::Latencies;
use crate::load::{Drive, Engine, Pool};
use crate::profile::Curve;
use crate::record::{MOST_EXAMPLES, Part, SecondPart, ThreadPart};
use crate::rng::Rng;
use crate::scenario::{Request, Scenario};
use crate::transport::{More, Received, Transport};
use baremark_sys::clock::{monotonic_ns, unix_time_ns};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::os::fd::AsFd;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Sender;

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
    /// Scratch of requests that are written anew each time.
    written: (Vec<u8>, Vec<u8>),
    part: Part,
    statuses: Vec<u64>,
    second: SecondPart,
    second_latencies: Latencies,
    second_end: u64,
    /// Operations begun that have not ended, loops beside users apart.
    flying: usize,
    issued: u64,
    most: u64,
    serial: u64,
    round_robin: usize,
    now: u64,
    end: u64,
    ending: bool,
    ticks: Sender<Tick>,
}

/// Room for ready sockets in one wait.
const BATCH: usize = 512;
/// Read at once at most.
const SCRATCH: usize = 256 << 10;
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
            ticks,
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
        let mut next_look = 0;
        while !self.ending {
            if self.now >= next_look {
                next_look = self.now + LOOK_NS;
                self.look_around();
            }
            self.dispatch();
            self.check_end();
            self.wait(next_look.min(self.end))?;
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
                let now = self.now;
                self.actors[index as usize].intended = now;
                self.sleep_until(index, now);
            }
            !wakes
        });
        self.parked = parked;
    }

    fn level(&self) -> f64 {
        self.curve.as_ref().map_or(f64::INFINITY, |curve| curve.level(self.now as f64 / 1e9))
    }

    fn check_end(&mut self) {
        let out_of_work = self.issued >= self.most && self.flying == 0;
        let out_of_starts = self.starts.is_some() && self.next_start == u64::MAX && self.flying == 0;
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
        while self.next_start <= self.now && self.issued < self.most && !self.ending {
            let intended = self.next_start;
            self.advance_starts();
            self.part.send_lag.record(self.now - intended);
            if self.queue.len() >= MOST_QUEUED {
                self.part.counts.intended += 1;
                self.part.counts.unsent += 1;
                continue;
            }
            let number = self.issued * self.shards + self.shard;
            let actor = self.hire(Role::Open, number);
            self.begin_next(actor, intended);
        }
        while let Some(&Reverse((at, index, timer))) = self.timers.peek() {
            if at > self.now {
                return;
            }
            self.timers.pop();
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
            self.actors[index as usize].state = State::Parked;
            self.parked.push(index);
            return;
        }
        if actor.role == Role::User {
            self.part.send_lag.record(self.now - at);
        }
        let intended = if actor.role == Role::User { actor.intended } else { self.now };
        self.begin_next(index, intended);
    }

    /// Begins the operation that the actor has come to.
    fn begin_next(&mut self, index: u32, intended: u64) {
        let actor = &mut self.actors[index as usize];
        if self.ending || self.issued >= self.most {
            actor.state = State::Idle;
            return;
        }
        if actor.role == Role::Open && self.scenario.operations.len() > 1 {
            actor.operation = weighted(self.scenario, &mut self.rng);
        }
        let beside = matches!(actor.role, Role::Follow { .. });
        actor.request = 0;
        actor.each = 0;
        actor.retried = false;
        actor.intended = intended;
        actor.begun = 0;
        actor.first_event = 0;
        self.serial += 1;
        actor.serial = self.serial * self.shards + self.shard;
        if !beside {
            self.issued += 1;
            self.flying += 1;
        }
        self.part.counts.intended += 1;
        self.second.intended += 1;
        self.send(index);
    }

    /// Sends the actor's current request, on its own connection, an idle one or a new one; else it queues.
    #[inline]
    fn send(&mut self, index: u32) {
        let scenario = self.scenario;
        let actor = &mut self.actors[index as usize];
        let operation = &scenario.operations[actor.operation];
        // A request for each of an empty list is none.
        while let Some(Request { each: Some((variable, _)), .. }) = operation.requests.get(actor.request) {
            if actor.item(*variable, actor.each).is_some() {
                break;
            }
            actor.request += 1;
            actor.each = 0;
        }
        let Some(request) = operation.requests.get(actor.request) else {
            if actor.begun == 0 {
                actor.begun = self.now.max(1);
            }
            return self.finish(index, Ok(()));
        };
        actor.state = State::Flying;
        if actor.connection != NONE {
            if self.connections[actor.connection as usize].origin == request.origin {
                let own = actor.connection;
                return self.write(own, index, request);
            }
            let other = std::mem::replace(&mut actor.connection, NONE);
            self.release(other);
        }
        // What is sent again goes on a new connection: the other idle ones may be as stale.
        let fresh = self.actors[index as usize].retried && self.open < self.engine.most_connections;
        if !fresh && let Some(idle) = self.idle[request.origin].pop() {
            return self.write(idle, index, request);
        }
        if self.open < self.engine.most_connections {
            return match self.connect(request.origin) {
                Ok(connection) => self.write(connection, index, request),
                Err(why) => self.fail(index, why, true),
            };
        }
        // An idle connection to another origin makes room.
        if let Some(other) = self.idle.iter_mut().find_map(Vec::pop) {
            self.close(other);
            return self.send(index);
        }
        self.actors[index as usize].state = State::Queued;
        self.part.counts.waited += 1;
        self.queue.push_back(index);
    }

    #[inline]
    fn write(&mut self, connection: u32, index: u32, request: &Request) {
        let actor = &mut self.actors[index as usize];
        let place = &mut self.connections[connection as usize];
        place.actor = index;
        actor.connection = connection;
        if actor.begun == 0 {
            actor.begun = self.now.max(1);
        }
        actor.heard.reset();
        let wants_body = request.delay.is_some() || !request.extract.is_empty();
        if wants_body || self.scenario.cookies || request.events.is_some() {
            actor.heard.keep_head = true;
            actor.heard.keep = match request.events {
                Some(_) => Keep::Events,
                None if wants_body => Keep::Body,
                None => Keep::Count,
            };
        }
        actor.heard.no_body = request.method == "HEAD";
        let deadline = self.now + request.timeout.map_or(self.engine.load.timeout.0, |timeout| timeout.0);
        arm(&mut self.timers, actor, index, deadline);
        let (out, body) = &mut self.written;
        let bytes = match &request.fixed {
            Some(fixed) if actor.cookies.is_empty() => &**fixed,
            _ => {
                out.clear();
                let origin = &self.scenario.origins[request.origin];
                let each = request.each.and_then(|(variable, _)| actor.item(variable, actor.each)).unwrap_or_default();
                let values = actor.values(each);
                let sound = if actor.cookies.iter().all(|cookie| cookie.origin == request.origin) {
                    request.write_http1(origin, &values, &actor.cookies, (out, body))
                } else {
                    let mut own = actor.cookies.clone();
                    own.retain(|cookie| cookie.origin == request.origin);
                    request.write_http1(origin, &values, &own, (out, body))
                };
                actor.rng.next();
                if !sound {
                    place.actor = NONE;
                    return self.fail(index, Failure::NotFound, false);
                }
                out
            }
        };
        let Some(transport) = &mut place.transport else { return };
        let sent = if place.connecting {
            transport.keep(bytes);
            Ok(())
        } else {
            transport.send(bytes)
        };
        if let Err(why) = sent {
            self.lose(connection, why);
        }
    }

    fn connect(&mut self, origin: usize) -> Result<u32, Failure> {
        let engine = self.engine;
        let target = &engine.targets[origin];
        self.round_robin += 1;
        let address = target.addresses[self.round_robin % target.addresses.len()];
        let sources = &engine.load.sources;
        let source = (!sources.is_empty()).then(|| sources[self.round_robin % sources.len()]);
        let (stream, connected) = epoll::connect(address, source).map_err(|why| Failure::of(&why))?;
        let index = self.free_connections.pop().unwrap_or_else(|| {
            let reader = Reader::default();
            let (transport, actor) = (None, NONE);
            self.connections.push(Connection {
                transport,
                connecting: false,
                generation: 0,
                origin,
                reader,
                actor,
                used: false,
            });
            u32::try_from(self.connections.len() - 1).unwrap_or(NONE)
        });
        let place = &mut self.connections[index as usize];
        place.generation = place.generation.wrapping_add(1);
        let token = u64::from(place.generation) << 32 | u64::from(index);
        let registered = self.epoll.add(stream.as_fd(), token).map_err(|why| Failure::of(&why));
        let transport = registered.and_then(|()| match &target.tls {
            Some((config, name)) => Transport::secure(stream, config, name.clone()),
            None => Ok(Transport::plain(stream)),
        });
        match transport {
            Ok(transport) => place.transport = Some(transport),
            Err(why) => {
                self.free_connections.push(index);
                return Err(why);
            }
        }
        place.connecting = !connected;
        place.origin = origin;
        place.reader = Reader::default();
        place.used = false;
        self.open += 1;
        self.part.counts.connections += 1;
        Ok(index)
    }

    fn close(&mut self, connection: u32) {
        let place = &mut self.connections[connection as usize];
        if place.transport.take().is_some() {
            self.open -= 1;
            self.free_connections.push(connection);
        }
        let actor = std::mem::replace(&mut place.actor, NONE);
        if actor != NONE {
            self.actors[actor as usize].connection = NONE;
        }
        let origin = place.origin;
        if let Some(at) = self.idle[origin].iter().rposition(|idle| *idle == connection) {
            self.idle[origin].swap_remove(at);
        }
    }

    /// Gives a connection without a request to whoever comes next.
    fn release(&mut self, connection: u32) {
        let place = &mut self.connections[connection as usize];
        place.actor = NONE;
        self.idle[place.origin].push(connection);
    }

    /// A connection has failed; so has what was asked on it.
    fn lose(&mut self, connection: u32, why: Failure) {
        let place = &self.connections[connection as usize];
        let (actor, connecting) = (place.actor, place.connecting);
        let stale = place.used && matches!(why, Failure::Reset | Failure::ClosedEarly) && place.reader.is_fresh();
        let flies = actor != NONE && self.actors[actor as usize].state == State::Flying;
        self.close(connection);
        if flies && stale && self.may_retry(actor) {
            self.actors[actor as usize].retried = true;
            self.part.counts.retried += 1;
            self.send(actor);
        } else if flies {
            self.fail(actor, why, connecting);
        }
    }

    /// A server may close an idle connection at any time, also while a request is on its way to it. What can be repeated
    /// without harm is sent once more on another connection, as RFC 9110, 9.2.2, allows and browsers do.
    fn may_retry(&self, index: u32) -> bool {
        let actor = &self.actors[index as usize];
        let request = &self.scenario.operations[actor.operation].requests[actor.request];
        !actor.retried && matches!(request.method.as_str(), "GET" | "HEAD" | "OPTIONS" | "PUT" | "DELETE")
    }

    /// The current request has failed, and its operation with it.
    fn fail(&mut self, index: u32, why: Failure, connecting: bool) {
        self.part.counts.failed_requests += 1;
        if self.part.examples.len() < MOST_EXAMPLES {
            let actor = &self.actors[index as usize];
            let status = if why == Failure::Status { format!(" {}", actor.heard.status) } else { String::new() };
            let name = &self.scenario.operations[actor.operation].name;
            let at = self.now as f64 / 1e9;
            self.part.examples.push(format!("{at:.3} s: {name}: {}{status}", why.label()));
        }
        self.actors[index as usize].state = State::Flying;
        self.finish(index, Err((why, connecting)));
    }

    fn wait(&mut self, until: u64) -> std::io::Result<()> {
        let timer = self.timers.peek().map_or(u64::MAX, |Reverse((at, ..))| *at);
        let until = until.min(timer).min(self.next_start).min(self.second_end);
        self.look_at_clock();
        let count = self.epoll.wait(until.saturating_sub(self.now))?;
        self.look_at_clock();
        for event in 0..count {
            if self.is_due() {
                self.dispatch();
            }
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
            if ready.readable {
                self.read(connection, generation, ready.ended);
            } else if ready.writable {
                self.flush(connection);
            }
            while !self.queue.is_empty() && self.serve_queue() {}
        }
        Ok(())
    }

    /// Whether a connect has come to a good end.
    fn connected(&mut self, connection: u32, writable: bool) -> bool {
        let place = &mut self.connections[connection as usize];
        let Some(transport) = &mut place.transport else { return false };
        match transport.stream().take_error() {
            Ok(None) if writable => {}
            Ok(None) => return false,
            Ok(Some(why)) | Err(why) => {
                let why = Failure::of(&why);
                self.lose(connection, why);
                return false;
            }
        }
        let flushed = transport.flush();
        place.connecting = false;
        match flushed {
            Ok(()) => true,
            Err(why) => {
                self.lose(connection, why);
                false
            }
        }
    }

    fn flush(&mut self, connection: u32) {
        let Some(transport) = &mut self.connections[connection as usize].transport else { return };
        if let Err(why) = transport.flush() {
            self.lose(connection, why);
        }
    }

    /// Sends the first in the queue if there is a connection for it.
    fn serve_queue(&mut self) -> bool {
        let Some(&index) = self.queue.front() else { return false };
        let actor = &self.actors[index as usize];
        if actor.state != State::Queued {
            self.queue.pop_front();
            return true;
        }
        let origin = self.scenario.operations[actor.operation].requests.get(actor.request).map_or(0, |one| one.origin);
        if self.idle[origin].is_empty() && self.open >= self.engine.most_connections {
            return false;
        }
        self.queue.pop_front();
        self.send(index);
        true
    }

    /// Reads what a connection has, until it has no more: a short read is taken for that unless the other side has `ended`.
    #[inline]
    fn read(&mut self, connection: u32, generation: u32, ended: bool) {
        loop {
            let place = &mut self.connections[connection as usize];
            if place.generation != generation {
                return;
            }
            let Some(transport) = &mut place.transport else { return };
            let received = transport.receive(&mut self.scratch);
            self.look_at_clock();
            match received {
                Ok(Received::Bytes(count, more)) => {
                    self.part.counts.received_bytes += count as u64;
                    self.second.received_bytes += count as u64;
                    self.heard(connection, count);
                    if more == More::No && !ended {
                        return;
                    }
                }
                Ok(Received::Blocked) => return,
                Ok(Received::Ended) => return self.ended(connection),
                Err(why) => return self.lose(connection, why),
            }
        }
    }

    /// Bytes have come.
    #[inline]
    fn heard(&mut self, connection: u32, count: usize) {
        let place = &mut self.connections[connection as usize];
        let index = place.actor;
        if index == NONE || self.actors[index as usize].state != State::Flying {
            // Nobody asked.
            return self.close(connection);
        }
        let actor = &mut self.actors[index as usize];
        match place.reader.feed(&self.scratch[..count], &mut actor.heard) {
            Ok(Fed::Done(taken, after)) => {
                let after = if taken < count { After::Close } else { after };
                if actor.heard.keep == Keep::Events && !self.hear_events(index) {
                    return self.lose(connection, Failure::NotFound);
                }
                self.answered(index, after);
            }
            Ok(Fed::More) if actor.heard.keep == Keep::Events => self.stream_goes_on(index),
            Ok(Fed::More) => {}
            Err(why) => self.lose(connection, why),
        }
    }

    fn ended(&mut self, connection: u32) {
        let place = &mut self.connections[connection as usize];
        let index = place.actor;
        if index == NONE || self.actors[index as usize].state != State::Flying {
            return self.close(connection);
        }
        match place.reader.end() {
            Ok(()) => self.answered(index, After::Close),
            Err(why) => self.lose(connection, why),
        }
    }

    /// A stream has brought bytes; it ends after as many events as are wanted.
    fn stream_goes_on(&mut self, index: u32) {
        let actor = &mut self.actors[index as usize];
        let request = &self.scenario.operations[actor.operation].requests[actor.request];
        let Some(stream) = request.events else { return };
        if actor.heard.status == 0 {
            return;
        }
        if !request.expects(actor.heard.status) {
            return self.answered(index, After::Close);
        }
        if let Some(lasting) = stream.lasting {
            let at = actor.begun + lasting.0;
            arm(&mut self.timers, actor, index, at);
        } else {
            // As long as events come, it is alive.
            actor.deadline = self.now + request.timeout.map_or(self.engine.load.timeout.0, |timeout| timeout.0);
        }
        let connection = actor.connection;
        if !self.hear_events(index) {
            return self.lose(connection, Failure::NotFound);
        }
        if self.actors[index as usize].heard.events.count >= stream.most {
            self.answered(index, After::Close);
        }
    }

    /// Looks at events that have come; `false` when one has not what the scenario wants.
    fn hear_events(&mut self, index: u32) -> bool {
        let ready = std::mem::take(&mut self.actors[index as usize].heard.events.ready);
        for event in &ready {
            self.part.counts.events += 1;
            let actor = &mut self.actors[index as usize];
            if actor.first_event == 0 {
                actor.first_event = self.now.max(1);
            }
            let request = &self.scenario.operations[actor.operation].requests[actor.request];
            if !actor.extract(&request.extract, event) {
                return false;
            }
            self.record_delay(index, event);
            self.tell_user(index);
        }
        true
    }

    fn record_delay(&mut self, index: u32, body: &[u8]) {
        let operation = self.actors[index as usize].operation;
        let request = &self.scenario.operations[operation].requests[self.actors[index as usize].request];
        let Some(delay) = &request.delay else { return };
        let Ok(document) = serde_json::from_slice(body) else { return };
        let Some(then) = delay.path.values(&document).first().and_then(|text| text.parse::<f64>().ok()) else { return };
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "float casts saturate")]
        let passed = unix_time_ns().saturating_sub((then * delay.unit_ns) as u64);
        let record = &mut self.part.operations[operation];
        record.delay.record(passed);
        record.delay_within_limit += u64::from(delay.limit.is_none_or(|limit| passed <= limit.0));
    }

    /// The current request has its answer.
    #[inline]
    fn answered(&mut self, index: u32, after: After) {
        let scenario = self.scenario;
        let actor = &mut self.actors[index as usize];
        let request = &scenario.operations[actor.operation].requests[actor.request];
        let status = actor.heard.status;
        self.statuses[usize::from(status).min(999)] += 1;
        if !self.ending {
            self.part.counts.answered += 1;
            self.second.answered += 1;
        }
        let connection = actor.connection;
        actor.retried = false;
        self.connections[connection as usize].used = true;
        if after == After::Close {
            self.close(connection);
        } else if self.engine.pool == Pool::Shared {
            actor.connection = NONE;
            self.release(connection);
        }
        let actor = &mut self.actors[index as usize];
        if scenario.cookies {
            actor.take_cookies(request.origin);
        }
        if !request.expects(status) {
            return self.fail(index, Failure::Status, false);
        }
        if actor.heard.keep == Keep::Body {
            let body = std::mem::take(&mut actor.heard.body);
            let sound = actor.extract(&request.extract, &body);
            self.record_delay(index, &body);
            if !sound {
                return self.fail(index, Failure::NotFound, false);
            }
        }
        let actor = &mut self.actors[index as usize];
        let again = request.each.is_some_and(|(variable, most)| {
            actor.each += 1;
            actor.each < most && actor.item(variable, actor.each).is_some()
        });
        if !again {
            actor.request += 1;
            actor.each = 0;
        }
        if actor.request < scenario.operations[actor.operation].requests.len() {
            return self.send(index);
        }
        self.finish(index, Ok(()));
    }

    /// An operation has ended, well or not; a failure says whether a connection could not even be made.
    #[inline]
    fn finish(&mut self, index: u32, outcome: Result<(), (Failure, bool)>) {
        let scenario = self.scenario;
        let actor = &mut self.actors[index as usize];
        let operation = &scenario.operations[actor.operation];
        let record = &mut self.part.operations[actor.operation];
        let done = if actor.first_event == 0 { self.now } else { actor.first_event };
        if !self.ending {
            self.part.counts.ended += 1;
        }
        match outcome {
            Ok(()) => {
                let raw = done.saturating_sub(actor.begun);
                record.raw.record(raw);
                let mut latency = raw;
                if matches!(actor.role, Role::Open | Role::User) {
                    latency = done.saturating_sub(actor.intended);
                    record.corrected.record(latency);
                }
                self.second_latencies.record(latency);
                record.within_limit += u64::from(operation.limit.is_none_or(|limit| latency <= limit.0));
            }
            Err((why, _)) => {
                record.failures[why as usize] += 1;
                self.second.failed += 1;
            }
        }
        match actor.role {
            Role::Closed => {
                self.flying -= 1;
                actor.operation = after_operation(scenario, actor, outcome.is_ok());
                if matches!(outcome, Err((_, true))) {
                    let at = self.now + BACKOFF_NS;
                    return self.sleep_until(index, at);
                }
                let now = self.now;
                // What failed, or took no time because there was nothing to send, comes back by way of the timers.
                if outcome.is_err() || done == actor.begun {
                    return self.sleep_until(index, now);
                }
                self.begin_next(index, now);
            }
            Role::Open => {
                self.flying -= 1;
                self.dismiss(index);
            }
            Role::User => {
                self.flying -= 1;
                self.user_goes_on(index, outcome.is_ok());
            }
            Role::Follow { .. } => self.loop_goes_on(index, outcome.is_ok()),
            Role::Free => {}
        }
    }

    /// The actor's place is free.
    fn dismiss(&mut self, index: u32) {
        let connection = std::mem::replace(&mut self.actors[index as usize].connection, NONE);
        if connection != NONE {
            self.release(connection);
        }
        let actor = &mut self.actors[index as usize];
        actor.role = Role::Free;
        actor.state = State::Idle;
        self.free_actors.push(index);
    }

    fn user_goes_on(&mut self, index: u32, well: bool) {
        let scenario = self.scenario;
        let ended = self.actors[index as usize].operation;
        let operation = &scenario.operations[ended];
        if well {
            for follow in &operation.begin {
                self.begin_loop(index, *follow);
            }
            for follow in &operation.end {
                self.end_loop(index, *follow);
            }
        }
        let actor = &mut self.actors[index as usize];
        actor.operation = after_operation(scenario, actor, well);
        let next = match (operation.think, scenario.cycle) {
            (Some(think), _) => self.now + think.0,
            (None, Some(cycle)) => {
                let mean = cycle.mean.0 as f64;
                let limits = (mean * (1.0 - cycle.most), mean * (1.0 + cycle.most));
                let drawn = actor.rng.truncated_normal(mean, mean * cycle.deviation, limits);
                #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "float casts saturate")]
                let drawn = drawn as u64;
                actor.intended + drawn
            }
            (None, None) => self.now,
        };
        actor.intended = next;
        if next <= self.now {
            // The server has kept the user: late by its doing, not by ours, so that no send lag is recorded.
            let at = self.now;
            return self.sleep_until(index, at);
        }
        self.sleep_until(index, next);
    }

    fn begin_loop(&mut self, user: u32, follow: usize) {
        let number = self.actors[user as usize].number;
        let index = self.hire(Role::Follow { user, follow, step: 0 }, number);
        let variables = self.actors[user as usize].variables.clone();
        let cookies = self.actors[user as usize].cookies.clone();
        self.serial += 1;
        let stream = WORKER_STREAM + self.serial * self.shards + self.shard;
        let actor = &mut self.actors[index as usize];
        actor.variables = variables;
        actor.cookies = cookies;
        actor.rng = Rng::stream(self.engine.load.seed, stream);
        actor.operation = self.scenario.follows[follow].operations[0];
        self.actors[user as usize].follows.push((follow, index));
        let now = self.now;
        self.sleep_until(index, now);
    }

    /// Ends the oldest loop of this kind beside a user.
    fn end_loop(&mut self, user: u32, follow: usize) {
        let follows = &mut self.actors[user as usize].follows;
        let Some(at) = follows.iter().position(|(kind, _)| *kind == follow) else { return };
        let (_, index) = follows.remove(at);
        let connection = self.actors[index as usize].connection;
        if connection != NONE && self.actors[index as usize].state == State::Flying {
            self.close(connection);
        }
        self.dismiss(index);
    }

    fn loop_goes_on(&mut self, index: u32, well: bool) {
        let scenario = self.scenario;
        let actor = &mut self.actors[index as usize];
        let Role::Follow { user, follow, step } = actor.role else { return };
        let rule = &scenario.follows[follow];
        let ended = actor.operation;
        if well {
            actor.change(&scenario.operations[ended].changes);
        }
        let step = (step + 1) % rule.operations.len();
        actor.role = Role::Follow { user, follow, step };
        actor.operation = rule.operations[step];
        let over = !rule.until.is_empty() && actor.holds(&rule.until);
        self.tell_user(index);
        if over {
            self.actors[user as usize].follows.retain(|(_, other)| *other != index);
            return self.dismiss(index);
        }
        let pause = if !well {
            BACKOFF_NS.max(rule.pause.0)
        } else if step == 0 {
            rule.pause.0
        } else {
            0
        };
        let at = self.now + pause;
        self.sleep_until(index, at);
    }

    /// Hands a loop's variables to its user.
    fn tell_user(&mut self, index: u32) {
        let Role::Follow { user, follow, .. } = self.actors[index as usize].role else { return };
        for &variable in &self.scenario.follows[follow].tell {
            let value = self.actors[index as usize].variables[variable].clone();
            self.actors[user as usize].variables[variable] = value;
        }
    }

    /// The actor may have waited too long; the timer stands for its latest request.
    fn deadline(&mut self, index: u32, at: u64) {
        let actor = &mut self.actors[index as usize];
        if actor.armed != at {
            return;
        }
        actor.armed = 0;
        if actor.state != State::Flying || actor.connection == NONE {
            return;
        }
        if actor.deadline > self.now {
            let later = actor.deadline;
            return arm(&mut self.timers, actor, index, later);
        }
        let connection = actor.connection;
        if actor.heard.keep == Keep::Events && actor.heard.status != 0 {
            let request = &self.scenario.operations[actor.operation].requests[actor.request];
            if request.events.is_some_and(|stream| stream.lasting.is_some()) {
                return self.answered(index, After::Close);
            }
        }
        let place = &mut self.connections[connection as usize];
        place.connecting = false;
        self.lose(connection, Failure::Timeout);
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
            }
        }
        while self.flying > 0 && self.now < until && !self.engine.interrupt.load(Ordering::Relaxed) {
            self.dispatch();
            let pause = (self.now + LOOK_NS).min(until);
            self.next_start = u64::MAX;
            self.second_end = u64::MAX;
            self.wait(pause)?;
        }
        self.part.counts.unfinished += self.flying as u64;
        Ok(())
    }
}

/// The actor gives up at `deadline`. One timer is under way for each actor, and only an earlier one replaces it.
#[inline]
fn arm(timers: &mut BinaryHeap<Reverse<(u64, u32, Timer)>>, actor: &mut Actor, index: u32, deadline: u64) {
    actor.deadline = deadline;
    if actor.armed == 0 || deadline < actor.armed {
        actor.armed = deadline.max(1);
        timers.push(Reverse((actor.armed, index, Timer::Deadline)));
    }
}

fn after_operation(scenario: &Scenario, actor: &mut Actor, well: bool) -> usize {
    let operation = &scenario.operations[actor.operation];
    if !well {
        return operation.on_failure;
    }
    if !operation.changes.is_empty() {
        actor.change(&operation.changes);
    }
    actor.choose(scenario, operation.next)
}

fn weighted(scenario: &Scenario, rng: &mut Rng) -> usize {
    let sum: f64 = scenario.operations.iter().map(|operation| operation.weight).sum();
    let mut draw = rng.uniform() * sum;
    let found = scenario.operations.iter().position(|operation| {
        draw -= operation.weight;
        draw < 0.0
    });
    found.unwrap_or(scenario.start)
}
