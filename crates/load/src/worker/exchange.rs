//! Requests and answers on connections: which connection carries a request, how it is written, and what the bytes mean.

use super::Worker;
use super::state::Connection;
use super::steps::arm;
use crate::actor::{NONE, Role, State};
use crate::epoll;
use crate::failure::Failure;
use crate::http1::{After, Fed, Reader};
use crate::http2::Session;
use crate::json::{JsonPath, is_json};
use crate::load::{Pool, Protocol};
use crate::response::Keep;
use crate::scenario::{Request, Since};
use crate::transport::{More, Received, Transport};
use std::os::fd::AsFd;

/// Reads in a row on a connection that brings a little each time.
const MOST_GATHERED: u32 = 16;
/// The most values of one answer that delays are counted by, and their longest.
const MOST_VALUES: usize = 10_000;
const LONGEST_TOLD: usize = 1024;
/// Bytes and reads in a row on any connection: one that never runs dry holds up neither the others nor the end of the load.
const MOST_READ: usize = 1 << 20;
const MOST_READS: u32 = 64;

impl Worker<'_> {
    /// Sends the actor's current request, on its own connection, an idle one or a new one; else it queues.
    #[inline]
    pub(super) fn send(&mut self, index: u32) {
        let scenario = self.scenario;
        let actor = &mut self.actors.all[index as usize];
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
                actor.begun = self.clock.now.max(1);
            }
            return self.finish(index, Ok(()));
        };
        actor.state = State::Flying;
        if actor.connection != NONE {
            let place = &self.sockets.connections[actor.connection as usize];
            if place.origin == request.origin && place.session.as_ref().is_none_or(|session| session.has_room()) {
                let own = actor.connection;
                return self.write(own, index, request);
            }
            let other = std::mem::replace(&mut actor.connection, NONE);
            self.release(other);
        }
        // What is sent again goes on a new connection: the other idle ones may be as stale.
        let fresh = self.actors.all[index as usize].retried && self.sockets.open < self.engine.most_connections;
        if !fresh && let Some(idle) = self.take_idle(request.origin) {
            return self.write(idle, index, request);
        }
        if self.sockets.open < self.engine.most_connections {
            return match self.connect(request.origin, index) {
                Ok(connection) => self.write(connection, index, request),
                Err(why) => self.fail(index, why, true),
            };
        }
        // An idle connection to another origin makes room.
        if let Some(other) = self.unused() {
            self.close(other);
            return self.send(index);
        }
        self.actors.all[index as usize].state = State::Queued;
        self.record.part.counts.waited += 1;
        self.actors.queue.push_back(index);
    }

    #[inline]
    pub(super) fn write(&mut self, connection: u32, index: u32, request: &Request) {
        let actor = &mut self.actors.all[index as usize];
        let place = &mut self.sockets.connections[connection as usize];
        actor.connection = connection;
        if actor.begun == 0 {
            actor.begun = self.clock.now.max(1);
        }
        actor.sent = self.clock.now;
        actor.heard.reset();
        let wants_body = request.delay.is_some() || request.tells.is_some() || !request.extract.is_empty();
        if wants_body || self.scenario.cookies || request.events.is_some() {
            actor.heard.keep_head = true;
            actor.heard.keep = match request.events {
                Some(_) => Keep::Events,
                None if wants_body => Keep::Body,
                None => Keep::Count,
            };
        }
        actor.heard.no_body = request.method == "HEAD";
        let deadline = self.clock.now + request.timeout.map_or(self.engine.load.timeout.0, |timeout| timeout.0);
        arm(&mut self.actors.timers, actor, index, deadline);
        if place.session.is_some() {
            return self.write_stream(connection, index, request);
        }
        place.actor = index;
        let (out, body) = &mut self.buffers.written;
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

    /// A new connection to a server for a request of this actor.
    pub(super) fn connect(&mut self, origin: usize, actor: u32) -> Result<u32, Failure> {
        let engine = self.engine;
        let target = &engine.targets[origin];
        self.sockets.round_robin += 1;
        let address = target.addresses[self.turn(actor) % target.addresses.len()];
        let sources = &target.sources;
        let source = (!sources.is_empty()).then(|| sources[self.sockets.round_robin % sources.len()]);
        let (stream, connected) = epoll::connect(address, source).map_err(|why| Failure::of(&why))?;
        let index = self.sockets.free.pop().unwrap_or_else(|| {
            let reader = Reader::default();
            let (transport, actor) = (None, NONE);
            self.sockets.connections.push(Connection {
                transport,
                connecting: false,
                generation: 0,
                origin,
                reader,
                actor,
                used: false,
                session: None,
                listed: false,
                pending_read: false,
            });
            u32::try_from(self.sockets.connections.len() - 1).unwrap_or(NONE)
        });
        let place = &mut self.sockets.connections[index as usize];
        place.generation = place.generation.wrapping_add(1);
        let token = u64::from(place.generation) << 32 | u64::from(index);
        let registered = self.sockets.epoll.add(stream.as_fd(), token).map_err(|why| Failure::of(&why));
        let transport = registered.and_then(|()| match &target.tls {
            Some((config, name)) => Transport::secure(stream, config, name.clone()),
            None => Ok(Transport::plain(stream)),
        });
        match transport {
            Ok(transport) => place.transport = Some(transport),
            Err(why) => {
                self.sockets.free.push(index);
                return Err(why);
            }
        }
        place.connecting = !connected;
        place.origin = origin;
        place.reader = Reader::default();
        place.used = false;
        place.listed = false;
        place.pending_read = false;
        place.session = match engine.load.protocol {
            Protocol::Http1 => None,
            Protocol::Http2 { streams } => Some(Box::new(Session::new(streams))),
        };
        self.sockets.open += 1;
        self.record.part.counts.connections += 1;
        Ok(index)
    }

    /// Which of a server's addresses an actor's connection goes to: a user with connections of its own keeps one address.
    fn turn(&self, actor: u32) -> usize {
        let actor = &self.actors.all[actor as usize];
        match (actor.role, self.engine.pool) {
            (Role::User | Role::Follow { .. }, Pool::Own) => usize::try_from(actor.number).unwrap_or(0),
            _ => self.sockets.round_robin,
        }
    }

    pub(super) fn close(&mut self, connection: u32) {
        let place = &mut self.sockets.connections[connection as usize];
        if place.transport.take().is_some() {
            self.sockets.open -= 1;
            self.sockets.free.push(connection);
        }
        place.listed = false;
        if self.sockets.reading == connection {
            // The place may be taken by another connection before the last event of this one has been looked at.
            self.sockets.reading = NONE;
        }
        let carried = place.session.take().map(|session| session.actors()).unwrap_or_default();
        let actor = std::mem::replace(&mut place.actor, NONE);
        for actor in carried.into_iter().map(|(actor, _)| actor).chain((actor != NONE).then_some(actor)) {
            self.actors.all[actor as usize].connection = NONE;
        }
        let place = &self.sockets.connections[connection as usize];
        let origin = place.origin;
        if let Some(at) = self.sockets.idle[origin].iter().rposition(|idle| *idle == connection) {
            self.sockets.idle[origin].swap_remove(at);
        }
    }

    /// Gives a connection without a request to whoever comes next.
    pub(super) fn release(&mut self, connection: u32) {
        let place = &mut self.sockets.connections[connection as usize];
        place.actor = NONE;
        if place.session.is_some() {
            return self.list(connection);
        }
        self.sockets.idle[place.origin].push(connection);
    }

    /// A connection has failed; so has what was asked on it.
    pub(super) fn lose(&mut self, connection: u32, why: Failure) {
        let place = &self.sockets.connections[connection as usize];
        if place.session.is_some() {
            return self.lose_streams(connection, why);
        }
        let (actor, connecting) = (place.actor, place.connecting);
        let stale = place.used && matches!(why, Failure::Reset | Failure::ClosedEarly) && place.reader.is_fresh();
        let flies = actor != NONE && self.actors.all[actor as usize].state == State::Flying;
        self.close(connection);
        if flies && stale && self.may_retry(actor) {
            self.actors.all[actor as usize].retried = true;
            self.record.part.counts.retried += 1;
            self.send(actor);
        } else if flies {
            self.fail(actor, why, connecting);
        }
    }

    /// A server may close an idle connection at any time, also while a request is on its way to it. What can be repeated
    /// without harm is sent once more on another connection, as RFC 9110, 9.2.2, allows and browsers do.
    pub(super) fn may_retry(&self, index: u32) -> bool {
        let actor = &self.actors.all[index as usize];
        let request = &self.scenario.operations[actor.operation].requests[actor.request];
        !actor.retried && matches!(request.method.as_str(), "GET" | "HEAD" | "OPTIONS" | "PUT" | "DELETE")
    }

    /// Whether a connect has come to a good end.
    pub(super) fn connected(&mut self, connection: u32, writable: bool) -> bool {
        let place = &mut self.sockets.connections[connection as usize];
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

    /// Sends what waits; whether the connection is still there.
    #[inline]
    pub(super) fn flush(&mut self, connection: u32) -> bool {
        let place = &mut self.sockets.connections[connection as usize];
        let Some(transport) = &mut place.transport else { return false };
        let flushed = if transport.is_waiting() { transport.flush() } else { Ok(()) };
        if let Err(why) = flushed {
            self.lose(connection, why);
        } else if place.session.is_some() {
            // There may be room for what was held back.
            self.flush_session(connection);
        }
        self.sockets.connections[connection as usize].transport.is_some()
    }

    /// Sends the first in the queue if there is a connection for it.
    pub(super) fn serve_queue(&mut self) -> bool {
        let Some(&index) = self.actors.queue.front() else { return false };
        let actor = &self.actors.all[index as usize];
        if actor.state != State::Queued {
            self.actors.queue.pop_front();
            return true;
        }
        let origin = self.scenario.operations[actor.operation].requests.get(actor.request).map_or(0, |one| one.origin);
        if self.sockets.idle[origin].is_empty() && self.sockets.open >= self.engine.most_connections {
            return false;
        }
        self.actors.queue.pop_front();
        self.send(index);
        true
    }

    /// Reads what a connection has, until it has no more: a short read is taken for that unless the other side has `ended`.
    /// In HTTP/2 answers follow each other closely: they are gathered until a read finds nothing, for a while at least, and
    /// what they lead to goes out at once. The server then finds as many requests in one piece.
    #[inline]
    pub(super) fn read(&mut self, connection: u32, generation: u32, ended: bool) {
        let gathers = self.sockets.connections[connection as usize].session.is_some();
        if gathers {
            self.sockets.reading = connection;
        }
        let mut bytes = 0;
        for round in 1_u32.. {
            let place = &mut self.sockets.connections[connection as usize];
            if place.generation != generation {
                return;
            }
            let Some(transport) = &mut place.transport else { return };
            let received = transport.receive(&mut self.buffers.scratch, &mut self.buffers.wire);
            self.look_at_clock();
            match received {
                Ok(Received::Bytes(count, more)) => {
                    if count > 0 {
                        // What comes after the end belongs to no second, nor to the rate.
                        if !self.clock.ending {
                            self.record.part.counts.received_bytes += count as u64;
                            self.record.second.received_bytes += count as u64;
                        }
                        self.heard(connection, count);
                    }
                    if more == More::No && !ended && (!gathers || round > MOST_GATHERED) {
                        break;
                    }
                    bytes += count;
                    if (bytes >= MOST_READ || round >= MOST_READS) && (more == More::Maybe || ended) {
                        self.read_again(connection, generation, ended);
                        break;
                    }
                }
                Ok(Received::Blocked) => break,
                Ok(Received::Ended) => return self.ended(connection),
                Err(why) => return self.lose(connection, why),
            }
        }
        if gathers && self.sockets.reading == connection {
            self.sockets.reading = NONE;
            self.flush_session(connection);
            self.list(connection);
        }
    }

    /// Notes that a connection has more to read, of which no event will tell.
    fn read_again(&mut self, connection: u32, generation: u32, ended: bool) {
        let place = &mut self.sockets.connections[connection as usize];
        if place.generation == generation && !std::mem::replace(&mut place.pending_read, true) {
            self.sockets.pending_reads.push_back((connection, generation, ended));
        }
    }

    /// Goes on, until `cutoff`, with the connections that had more to read.
    pub(super) fn read_pending(&mut self, cutoff: u64) {
        for _ in 0..self.sockets.pending_reads.len() {
            if self.clock.now >= cutoff {
                return;
            }
            if self.is_due() {
                self.dispatch();
            }
            let Some((connection, generation, ended)) = self.sockets.pending_reads.pop_front() else { return };
            let place = &mut self.sockets.connections[connection as usize];
            if place.generation == generation && place.transport.is_some() {
                place.pending_read = false;
                self.read(connection, generation, ended);
            }
        }
    }

    /// Bytes have come.
    #[inline]
    pub(super) fn heard(&mut self, connection: u32, count: usize) {
        let place = &mut self.sockets.connections[connection as usize];
        if place.session.is_some() {
            return self.heard_frames(connection, count);
        }
        let index = place.actor;
        if index == NONE || self.actors.all[index as usize].state != State::Flying {
            // Nobody asked.
            return self.close(connection);
        }
        let actor = &mut self.actors.all[index as usize];
        match place.reader.feed(&self.buffers.scratch[..count], &mut actor.heard, &mut self.buffers.known) {
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

    pub(super) fn ended(&mut self, connection: u32) {
        let place = &mut self.sockets.connections[connection as usize];
        if let Some(session) = &place.session {
            let idle = session.under_way() == 0;
            return if idle { self.close(connection) } else { self.lose(connection, Failure::ClosedEarly) };
        }
        let index = place.actor;
        if index == NONE || self.actors.all[index as usize].state != State::Flying {
            return self.close(connection);
        }
        match place.reader.end() {
            Ok(()) => self.answered(index, After::Close),
            Err(why) => self.lose(connection, why),
        }
    }

    /// A stream has brought bytes; it ends after as many events as are requested.
    pub(super) fn stream_goes_on(&mut self, index: u32) {
        let actor = &mut self.actors.all[index as usize];
        let request = &self.scenario.operations[actor.operation].requests[actor.request];
        let Some(stream) = request.events else { return };
        if actor.heard.status == 0 {
            return;
        }
        if !request.expects(actor.heard.status) {
            return self.answered(index, After::Close);
        }
        if let Some(lasting) = stream.lasting {
            let at = actor.sent + lasting.0;
            arm(&mut self.actors.timers, actor, index, at);
        } else {
            // As long as events come, it is alive.
            actor.deadline = self.clock.now + request.timeout.map_or(self.engine.load.timeout.0, |timeout| timeout.0);
        }
        if !self.hear_events(index) {
            return self.give_up(index, Failure::NotFound);
        }
        if self.actors.all[index as usize].heard.events.count >= stream.most {
            self.answered(index, After::Close);
        }
    }

    /// Looks at events that have come; `false` when one has not what the scenario wants.
    pub(super) fn hear_events(&mut self, index: u32) -> bool {
        let ready = std::mem::take(&mut self.actors.all[index as usize].heard.events.ready);
        for event in &ready {
            self.record.part.counts.events += 1;
            let actor = &mut self.actors.all[index as usize];
            if actor.first_event == 0 {
                actor.first_event = self.clock.now.max(1);
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

    pub(super) fn record_delay(&mut self, index: u32, body: &[u8]) {
        let operation = self.actors.all[index as usize].operation;
        let request = &self.scenario.operations[operation].requests[self.actors.all[index as usize].request];
        if (request.delay.is_none() && request.tells.is_none()) || !is_json(body) {
            return;
        }
        let sent = self.actors.all[index as usize].sent;
        for value in request.tells.iter().flat_map(|path| first_values(path, body)) {
            for (passed, operation) in self.engine.propagation.tell(&value, sent, self.clock.now) {
                self.count_delay(operation, passed);
            }
        }
        let Some(delay) = &request.delay else { return };
        for value in first_values(&delay.path, body) {
            let passed = match delay.since {
                #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "float casts saturate")]
                Since::Clock(unit_ns) => {
                    value.parse::<f64>().ok().map(|then| self.system_clock.since((then * unit_ns) as u64))
                }
                Since::Told => self.engine.propagation.hear(&value, self.clock.now, operation),
            };
            if let Some(passed) = passed {
                self.count_delay(operation, passed);
            }
        }
    }

    /// A delay of the operation that shows one.
    fn count_delay(&mut self, operation: usize, passed: u64) {
        let limit = self.scenario.operations[operation].requests.iter().find_map(|request| request.delay.as_ref());
        let limit = limit.and_then(|delay| delay.limit);
        let record = &mut self.record.part.operations[operation];
        record.delay.record(passed);
        if let Some(window) = &mut self.record.window {
            window.delayed(self.clock.now, operation, passed);
        }
        record.delay_within_limit += u64::from(limit.is_none_or(|limit| passed <= limit.0));
    }
}

/// The first short values that a path leads to, at most [`MOST_VALUES`].
fn first_values(path: &JsonPath, body: &[u8]) -> Vec<String> {
    let mut values = Vec::new();
    let sound = path.scan(body, &mut |value| {
        if values.len() < MOST_VALUES && value.len() <= LONGEST_TOLD {
            values.push(value.to_owned());
        }
    });
    if sound { values } else { Vec::new() }
}
