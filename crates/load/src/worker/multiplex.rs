//! Requests in HTTP/2: many on one connection, each failing or ending alone.

use super::Worker;
use crate::actor::{Actor, NONE, State};
use crate::failure::Failure;
use crate::http1::After;
use crate::http2::{Block, Event, Listeners, Session};
use crate::load::Pool;
use crate::response::{Keep, Response};
use crate::scenario::Request;
use crate::transport::Transport;
use std::sync::Arc;

impl Listeners for Vec<Actor> {
    fn heard(&mut self, actor: u32) -> &mut Response {
        &mut self[actor as usize].heard
    }
}

impl Worker<'_> {
    /// An idle connection to this origin, in HTTP/2 one with room for a stream.
    #[inline]
    pub(super) fn take_idle(&mut self, origin: usize) -> Option<u32> {
        while let Some(connection) = self.sockets.idle[origin].pop() {
            let place = &mut self.sockets.connections[connection as usize];
            let Some(session) = &place.session else { return Some(connection) };
            place.listed = false;
            if session.has_room() {
                return Some(connection);
            }
            if session.is_over() {
                self.close(connection);
            }
        }
        None
    }

    /// Takes a connection that carries nothing from among the idle ones.
    pub(super) fn unused(&mut self) -> Option<u32> {
        let connections = &self.sockets.connections;
        let free = |connection: &u32| {
            connections[*connection as usize].session.as_ref().is_none_or(|session| session.under_way() == 0)
        };
        self.sockets.idle.iter_mut().find_map(|idle| idle.iter().position(free).map(|at| idle.swap_remove(at)))
    }

    /// Puts a connection among the idle ones while it has room; one that is over is closed.
    pub(super) fn list(&mut self, connection: u32) {
        let place = &mut self.sockets.connections[connection as usize];
        let Some(session) = &place.session else { return };
        if session.is_over() {
            return self.close(connection);
        }
        // One that somebody keeps is for nobody else.
        if session.has_room() && !place.listed && place.actor == NONE {
            place.listed = true;
            self.sockets.idle[place.origin].push(connection);
        }
    }

    /// Whether an actor keeps its connection between requests.
    fn keeps(&self) -> bool {
        self.engine.pool == Pool::Own
    }

    /// Sends the actor's request as a new stream.
    pub(super) fn write_stream(&mut self, connection: u32, index: u32, request: &Request) {
        let actor = &mut self.actors.all[index as usize];
        let (block, body) = &mut self.buffers.written;
        let fixed = request.fixed_http2.as_ref().filter(|_| actor.cookies.is_empty());
        if fixed.is_none() {
            let origin = &self.scenario.origins[request.origin];
            let each = request.each.and_then(|(variable, _)| actor.item(variable, actor.each)).unwrap_or_default();
            let values = actor.values(each);
            let mut own = actor.cookies.clone();
            own.retain(|cookie| cookie.origin == request.origin);
            let sound = request.write_http2(origin, &values, &own, (block, body));
            actor.rng.next();
            if !sound {
                actor.connection = NONE;
                self.list(connection);
                return self.fail(index, Failure::NotFound, false);
            }
        }
        let (block, body) = match fixed {
            Some((block, body)) => (Block::Fixed(block), (!body.is_empty()).then(|| Arc::clone(body))),
            None => (Block::Once(block), (!body.is_empty()).then(|| Arc::from(&body[..]))),
        };
        let place = &mut self.sockets.connections[connection as usize];
        if let Some(session) = &mut place.session {
            session.request(index, block, body);
        }
        if self.keeps() {
            self.sockets.connections[connection as usize].actor = index;
        } else {
            self.list(connection);
        }
        self.flush_session(connection);
    }

    /// Sends what a session has to say, unless its frames are just being read.
    pub(super) fn flush_session(&mut self, connection: u32) {
        if self.sockets.reading == connection {
            return;
        }
        let place = &mut self.sockets.connections[connection as usize];
        let (Some(session), Some(transport)) = (&mut place.session, &mut place.transport) else { return };
        loop {
            session.fill(transport.backlog());
            if session.out.is_empty() {
                return;
            }
            let sent = if place.connecting {
                transport.keep(&session.out);
                Ok(())
            } else {
                transport.send(&session.out)
            };
            session.out.clear();
            if let Err(why) = sent {
                return self.lose(connection, why);
            }
            // A body continues as long as the kernel takes it.
            if transport.backlog() > 0 {
                return;
            }
        }
    }

    /// Frames have come.
    pub(super) fn heard_frames(&mut self, connection: u32, count: usize) {
        let place = &mut self.sockets.connections[connection as usize];
        let (Some(session), Some(transport)) = (&mut place.session, &place.transport) else { return };
        if !session.is_settled() && transport.chosen().is_some_and(|chosen| chosen != b"h2") {
            return self.lose(connection, Failure::NoHttp2);
        }
        let generation = place.generation;
        let mut events = std::mem::take(&mut self.buffers.events);
        let from = session.next_stream();
        let outcome = session.feed(&self.buffers.scratch[..count], &mut self.actors.all, &mut events);
        // Of one stream there is more than one event only where its body is heard event by event.
        let several = events.iter().any(|event| matches!(event, Event::Data(_)));
        for event in events.drain(..) {
            self.came(connection, event, several.then_some(from));
        }
        self.buffers.events = events;
        let place = &self.sockets.connections[connection as usize];
        let (Some(session), Some(transport)) = (&place.session, &place.transport) else { return };
        if place.generation != generation {
            return;
        }
        let abandoned = session.is_abandoned(transport.backlog());
        if let Err(why) = outcome.and(if abandoned { Err(Failure::Flood) } else { Ok(()) }) {
            self.lose(connection, why);
        }
    }

    /// An event has come. One who has had enough of a stream may have begun another since, of number `from` or a later one: the event is not of that.
    fn came(&mut self, connection: u32, event: Event, from: Option<u32>) {
        let (Event::Data(index) | Event::Done(index) | Event::Failed(index, _) | Event::Unprocessed(index)) = event;
        let actor = &mut self.actors.all[index as usize];
        if actor.connection != connection || actor.state != State::Flying {
            return;
        }
        let session = self.sockets.connections[connection as usize].session.as_ref();
        if from.is_some_and(|from| session.is_some_and(|session| session.has_begun(index, from))) {
            return;
        }
        match event {
            Event::Data(_) => self.stream_goes_on(index),
            Event::Done(_) if actor.heard.keep == Keep::Events && !self.hear_events(index) => {
                self.part_from(connection, index);
                self.fail(index, Failure::NotFound, false);
            }
            Event::Done(_) => self.answered(index, After::Alive),
            Event::Failed(_, why) => {
                self.part_from(connection, index);
                self.fail(index, why, false);
            }
            Event::Unprocessed(_) => {
                self.part_from(connection, index);
                if self.actors.all[index as usize].retried {
                    return self.fail(index, Failure::StreamReset, false);
                }
                self.actors.all[index as usize].retried = true;
                self.record.part.counts.retried += 1;
                self.send(index);
            }
        }
    }

    /// The actor and the connection have nothing to do with each other any more; its stream has ended.
    fn part_from(&mut self, connection: u32, index: u32) {
        self.actors.all[index as usize].connection = NONE;
        let place = &mut self.sockets.connections[connection as usize];
        if place.actor == index {
            place.actor = NONE;
        }
        self.list(connection);
    }

    /// An answer is complete, or enough of it has come: then the stream is cancelled.
    pub(super) fn leave_stream(&mut self, connection: u32, index: u32, after: After) {
        if after == After::Close
            && let Some(session) = &mut self.sockets.connections[connection as usize].session
        {
            session.cancel(index);
            self.flush_session(connection);
        }
        let over =
            self.sockets.connections[connection as usize].session.as_ref().is_none_or(|session| session.is_over());
        if over || !self.keeps() {
            self.part_from(connection, index);
        }
    }

    /// The actor's request has failed by our own judgement, such as a timeout. In HTTP/1.1 its connection is lost with it.
    pub(super) fn give_up(&mut self, index: u32, why: Failure) {
        let connection = self.actors.all[index as usize].connection;
        let place = &self.sockets.connections[connection as usize];
        // A server that has never said anything, or does not read, is not asked again on this connection.
        let backlog = place.transport.as_ref().map_or(0, Transport::backlog);
        let silent = |session: &Session| !session.is_settled() || session.is_abandoned(backlog);
        if place.session.as_deref().is_none_or(silent) {
            return self.lose(connection, why);
        }
        self.leave_stream(connection, index, After::Close);
        self.fail(index, why, false);
    }

    /// A connection has failed, and everything under way on it; what can be repeated is sent once more elsewhere.
    pub(super) fn lose_streams(&mut self, connection: u32, why: Failure) {
        let place = &self.sockets.connections[connection as usize];
        let connecting = place.connecting;
        let stale = place.used && matches!(why, Failure::Reset | Failure::ClosedEarly);
        let carried = place.session.as_ref().map(|session| session.actors()).unwrap_or_default();
        self.close(connection);
        for (index, answered) in carried {
            if self.actors.all[index as usize].state != State::Flying {
                continue;
            }
            if stale && !answered && self.may_retry(index) {
                self.actors.all[index as usize].retried = true;
                self.record.part.counts.retried += 1;
                self.send(index);
            } else {
                self.fail(index, why, connecting);
            }
        }
    }
}
