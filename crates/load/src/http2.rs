//! The client's side of HTTP/2 (RFC 9113) on one connection: frames in and out, streams, flow control.
//!
//! Own framing on the same event loop as HTTP/1.1, rather than a library: those are futures on a runtime, which the loop does
//! not have, and what a load generator needs of the protocol is small. It sends requests and understands whatever a server may
//! answer; it pushes back on nothing (windows are wide), takes no pushes, and keeps no state in the server's header table.
//! What breaks the protocol ends the connection as malformed; a stream that the server resets fails alone. What a server can
//! make this side queue is bounded: frames that bring no answer further use up a credit, replies to them wait until the server
//! reads, and bodies are queued no faster than it takes them. Beyond that the connection is lost as a flood.

mod frame;
#[cfg(test)]
mod tests;

use self::frame::{
    ACK, CANCEL, CONTINUATION, DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, HTTP_1_1_REQUIRED, LONGEST_FRAME, PING,
    PREFACE, PRIORITISED, PRIORITY, PUSH_PROMISE, REFUSED_STREAM, RST_STREAM, SETTINGS, WINDOW_UPDATE, frame, head,
    unpadded, word,
};
use crate::failure::Failure;
use crate::hpack;
use crate::http1::digits;
use crate::response::{Keep, Response};
use std::sync::Arc;

/// A request's header block.
#[derive(Clone, Copy)]
pub(crate) enum Block<'b> {
    /// Of this request alone.
    Once(&'b [u8]),
    /// Of a request that is the same for all.
    Fixed(&'b Arc<hpack::Fixed>),
}

/// Who hears the answers of a connection.
pub(crate) trait Listeners {
    /// The answer of this actor so far.
    fn heard(&mut self, actor: u32) -> &mut Response;
}

/// What has become of an actor's stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// Part of its body has come, which it keeps as events.
    Data(u32),
    /// Its answer is complete.
    Done(u32),
    /// The server has reset it, or it broke a rule of its own.
    Failed(u32, Failure),
    /// The server has not looked at it, which makes it safe to send again.
    Unprocessed(u32),
}

/// One connection's state.
#[derive(Debug)]
pub(crate) struct Session {
    /// The beginning of a frame that has not come whole; at most one frame.
    inbox: Vec<u8>,
    decoder: hpack::Decoder,
    streams: Vec<Stream>,
    next: u32,
    /// Streams that we want at most, and of the other side's settings.
    wanted: usize,
    most_streams: usize,
    initial_window: i64,
    most_frame: usize,
    window: i64,
    /// Received since the connection's window was widened.
    eaten: u64,
    /// A header block that is not complete: its stream, whether that ends with it, its frames so far.
    block: Option<(u32, bool, u32)>,
    fragments: Vec<u8>,
    settled: bool,
    leaving: bool,
    /// What the block said that was decoded last.
    said: Said,
    /// What we keep in the other side's header table.
    taught: Taught,
    /// Frames that the server may still send without bringing an answer further.
    control_credit: u32,
    /// Control frames of ours that wait until the server reads.
    replies: Vec<u8>,
    /// How many bytes of `replies` the server's own frames have caused.
    reply_bytes: usize,
    /// Bytes of the header frames of all streams under way.
    header_bytes: usize,
    /// Streams whose body has not been sent whole.
    bodies: usize,
    /// To be sent now.
    pub(crate) out: Vec<u8>,
}

/// What a header block says that matters for its stream.
#[derive(Clone, Copy, Debug, Default)]
struct Said {
    status: Option<u16>,
    /// How many bytes its body has.
    length: Option<u64>,
    /// It breaks no rule by itself.
    sound: bool,
}

/// The other side's header table, as far as we have filled it.
#[derive(Debug)]
enum Taught {
    Nothing,
    /// The fields of one request, and nothing else.
    These(Arc<hpack::Fixed>),
    /// It has no room for ours, and has to be told that we know (RFC 9113, 4.3.1).
    Forbidden {
        told: bool,
    },
}

#[derive(Debug)]
struct Stream {
    id: u32,
    actor: u32,
    /// A status that is not interim has come.
    answered: bool,
    /// How many bytes its body has, where its head says that.
    length: Option<u64>,
    window: i64,
    eaten: u64,
    /// Bytes of its header frames.
    header_bytes: usize,
    /// Its body and how much of it has been sent, until all has.
    body: Option<(Arc<[u8]>, usize)>,
}

/// What a server may send before it hears from us: of a stream, of the connection.
const STREAM_WINDOW: u32 = 16 << 20;
const CONNECTION_WINDOW: u32 = 1 << 30;
/// The longest header block, and the most frames that it may come in.
const LONGEST_BLOCK: usize = 64 << 10;
const MOST_CONTINUATIONS: u32 = 32;
/// The largest window (RFC 9113, 6.9.1).
const LARGEST_WINDOW: i64 = (1 << 31) - 1;
/// Frames that a server may send without bringing an answer further, from one complete answer to the next: SETTINGS, PING,
/// PRIORITY, WINDOW_UPDATE, empty DATA, interim answers, frames for streams that are over, and unknown ones.
const MOST_CONTROL_FRAMES: u32 = 10_000;
/// How many more for each DATA frame of ours: servers widen the windows of stream and connection as they read.
const CONTROL_FRAMES_PER_DATA: u32 = 4;
/// Settings in one frame that count as one frame.
const SETTINGS_PER_FRAME: usize = 8;
/// Bytes of replies that may wait for a server to read them.
const MOST_REPLY_BYTES: usize = 64 << 10;
/// Bytes of bodies queued ahead of what the kernel takes.
const MOST_AHEAD: usize = 256 << 10;
/// Bytes queued for streams that have ended, at most: then the server answers, or makes us cancel, without reading.
const MOST_ABANDONED: usize = 1 << 20;
/// Streams until the server says how many it takes.
const FIRST_STREAMS: usize = 100;

impl Session {
    /// A connection that shall carry at most so many streams at a time.
    pub(crate) fn new(wanted: usize) -> Session {
        let mut session = Session {
            wanted,
            inbox: Vec::new(),
            decoder: hpack::Decoder::default(),
            streams: Vec::new(),
            next: 1,
            most_streams: FIRST_STREAMS,
            initial_window: 65_535,
            most_frame: LONGEST_FRAME,
            window: 65_535,
            eaten: 0,
            block: None,
            fragments: Vec::new(),
            settled: false,
            leaving: false,
            said: Said::default(),
            taught: Taught::Nothing,
            control_credit: MOST_CONTROL_FRAMES,
            replies: Vec::new(),
            reply_bytes: 0,
            header_bytes: 0,
            bodies: 0,
            out: PREFACE.to_vec(),
        };
        // No pushes, wide windows.
        let mut settings = Vec::new();
        for (key, value) in [(2_u16, 0_u32), (4, STREAM_WINDOW)] {
            settings.extend(key.to_be_bytes());
            settings.extend(value.to_be_bytes());
        }
        frame(SETTINGS, 0, 0, &settings, &mut session.out);
        frame(WINDOW_UPDATE, 0, 0, &(CONNECTION_WINDOW - 65_535).to_be_bytes(), &mut session.out);
        session
    }

    /// Whether it can take another request now.
    pub(crate) fn has_room(&self) -> bool {
        !self.leaving && self.streams.len() < self.most_streams.min(self.wanted) && self.next < (1 << 31) - 2
    }

    /// Nothing is under way, and nothing more can be.
    pub(crate) fn is_over(&self) -> bool {
        self.streams.is_empty() && (self.leaving || self.most_streams == 0 || self.next >= (1 << 31) - 2)
    }

    /// Streams under way.
    pub(crate) fn under_way(&self) -> usize {
        self.streams.len()
    }

    /// Whether the server has said anything yet.
    pub(crate) fn is_settled(&self) -> bool {
        self.settled
    }

    /// Those who wait for an answer, and whether any of it has come.
    pub(crate) fn actors(&self) -> Vec<(u32, bool)> {
        self.streams.iter().map(|stream| (stream.actor, stream.answered)).collect()
    }

    /// The number of the next stream.
    pub(crate) fn next_stream(&self) -> u32 {
        self.next
    }

    /// Whether an actor has a stream under way of this number or a later one.
    pub(crate) fn has_begun(&self, actor: u32, from: u32) -> bool {
        self.streams.iter().any(|stream| stream.actor == actor && stream.id >= from)
    }

    /// Begins a stream with a header block and a body; an empty one is none.
    pub(crate) fn request(&mut self, actor: u32, block: Block<'_>, body: Option<Arc<[u8]>>) {
        let body = body.filter(|body| !body.is_empty());
        let before = self.out.len();
        let id = self.next;
        self.next += 2;
        let (mut lead, mut rest) = self.written(block);
        let mut kind = HEADERS;
        loop {
            let (part, after) = rest.split_at(rest.len().min(self.most_frame - lead.len()));
            rest = after;
            let mut flags = if rest.is_empty() { END_HEADERS } else { 0 };
            if kind == HEADERS && body.is_none() {
                flags |= END_STREAM;
            }
            head(lead.len() + part.len(), kind, flags, id, &mut self.out);
            self.out.extend_from_slice(lead);
            self.out.extend_from_slice(part);
            if rest.is_empty() {
                break;
            }
            (kind, lead) = (CONTINUATION, &[]);
        }
        let header_bytes = self.out.len() - before;
        self.header_bytes += header_bytes;
        self.bodies += usize::from(body.is_some());
        let (window, body) = (self.initial_window, body.map(|body| (body, 0)));
        self.streams.push(Stream { id, actor, answered: false, length: None, window, eaten: 0, header_bytes, body });
    }

    /// What is sent of a header block: what has to be said of the table before it, and the block for the table as it is.
    fn written<'b>(&mut self, block: Block<'b>) -> (&'static [u8], &'b [u8]) {
        if let Taught::Forbidden { told } = &mut self.taught {
            let lead: &[u8] = if std::mem::replace(told, true) { &[] } else { &[0x20] };
            return (lead, block.plain());
        }
        let (Block::Fixed(fixed), Some((first, again))) = (block, block.taught()) else { return (&[], block.plain()) };
        match &self.taught {
            Taught::These(known) if Arc::ptr_eq(known, fixed) => (&[], again),
            Taught::Nothing => {
                self.taught = Taught::These(Arc::clone(fixed));
                (&[], first)
            }
            _ => (&[], block.plain()),
        }
    }

    /// Ends an actor's stream though its answer may continue.
    pub(crate) fn cancel(&mut self, actor: u32) {
        if let Some(at) = self.streams.iter().position(|stream| stream.actor == actor) {
            let stream = self.remove(at);
            frame(RST_STREAM, 0, stream.id, &CANCEL.to_be_bytes(), &mut self.replies);
        }
    }

    fn remove(&mut self, at: usize) -> Stream {
        let stream = self.streams.swap_remove(at);
        self.header_bytes -= stream.header_bytes;
        self.bodies -= usize::from(stream.body.is_some());
        stream
    }

    /// Moves to `out` what can be sent while `backlog` bytes of earlier output wait for the kernel: bodies as far as the
    /// windows let them through, and replies once the server reads.
    #[inline]
    pub(crate) fn fill(&mut self, backlog: usize) {
        if self.bodies > 0 {
            self.push_bodies(backlog);
        }
        // After the requests: a stream is not reset before it has begun.
        if !self.replies.is_empty() && backlog < MOST_AHEAD {
            self.out.append(&mut self.replies);
            self.reply_bytes = 0;
        }
    }

    fn push_bodies(&mut self, backlog: usize) {
        for stream in &mut self.streams {
            let Some((body, sent)) = &mut stream.body else { continue };
            while *sent < body.len() {
                if backlog + self.out.len() >= MOST_AHEAD {
                    return;
                }
                let room = stream.window.min(self.window).clamp(0, LARGEST_WINDOW);
                let rest = &body[*sent..];
                let size = rest.len().min(self.most_frame).min(usize::try_from(room).unwrap_or(0));
                if size == 0 {
                    break;
                }
                let flags = if size == rest.len() { END_STREAM } else { 0 };
                frame(DATA, flags, stream.id, &rest[..size], &mut self.out);
                *sent += size;
                stream.window -= size as i64;
                self.window -= size as i64;
                self.control_credit = self.control_credit.saturating_add(CONTROL_FRAMES_PER_DATA);
            }
            if *sent == body.len() {
                stream.body = None;
                self.bodies -= 1;
            }
        }
    }

    /// Whether more waits to be sent, with `backlog` bytes that the kernel has not taken, than the streams under way
    /// account for: the server does not read what it answers or makes us cancel.
    pub(crate) fn is_abandoned(&self, backlog: usize) -> bool {
        backlog + self.out.len() + self.replies.len() > self.header_bytes + MOST_AHEAD + MOST_ABANDONED
    }

    /// A frame that brings no answer further has come.
    fn spend(&mut self, frames: u32) -> Result<(), Failure> {
        self.control_credit = self.control_credit.checked_sub(frames).ok_or(Failure::Flood)?;
        Ok(())
    }

    /// Queues a control frame that one of the server's has caused.
    fn reply(&mut self, kind: u8, flags: u8, id: u32, payload: &[u8]) -> Result<(), Failure> {
        let before = self.replies.len();
        frame(kind, flags, id, payload, &mut self.replies);
        self.reply_bytes += self.replies.len() - before;
        if self.reply_bytes > MOST_REPLY_BYTES { Err(Failure::Flood) } else { Ok(()) }
    }

    /// Takes bytes; what has become of streams goes to `events`.
    pub(crate) fn feed(
        &mut self,
        input: &[u8],
        listeners: &mut impl Listeners,
        events: &mut Vec<Event>,
    ) -> Result<(), Failure> {
        // A frame that arrives whole is read where it lies.
        let mut rest = input;
        if !self.inbox.is_empty() {
            let mut carried = std::mem::take(&mut self.inbox);
            if self.complete(&mut carried, &mut rest)? {
                self.frames(&carried, listeners, events)?;
                carried.clear();
            }
            self.inbox = carried;
        }
        let taken = self.frames(rest, listeners, events)?;
        self.inbox.extend_from_slice(&rest[taken..]);
        Ok(())
    }

    /// Moves what a frame lacks from `rest` to the end of its beginning; whether it is whole then.
    fn complete(&self, frame: &mut Vec<u8>, rest: &mut &[u8]) -> Result<bool, Failure> {
        loop {
            let wanted = match frame.first_chunk::<9>() {
                Some(head) => 9 + self.length(head)?,
                None => 9,
            };
            if frame.len() >= wanted && frame.len() >= 9 {
                return Ok(true);
            }
            let (part, after) = rest.split_at(rest.len().min(wanted - frame.len()));
            if part.is_empty() {
                return Ok(false);
            }
            frame.extend_from_slice(part);
            *rest = after;
        }
    }

    /// The length of a frame's payload by its head.
    fn length(&self, head: &[u8; 9]) -> Result<usize, Failure> {
        let length = usize::from(head[0]) << 16 | usize::from(head[1]) << 8 | usize::from(head[2]);
        if !self.settled && head.starts_with(b"HTTP/1.") {
            return Err(Failure::NoHttp2);
        }
        if length > LONGEST_FRAME || (!self.settled && head[3] != SETTINGS) {
            return Err(Failure::Malformed);
        }
        Ok(length)
    }

    /// All whole frames; how many bytes they were.
    fn frames(
        &mut self,
        input: &[u8],
        listeners: &mut impl Listeners,
        events: &mut Vec<Event>,
    ) -> Result<usize, Failure> {
        let mut at = 0;
        while let Some((head, rest)) = input[at..].split_first_chunk::<9>() {
            let length = self.length(head)?;
            let id = u32::from_be_bytes([head[5] & 0x7f, head[6], head[7], head[8]]);
            let Some(payload) = rest.get(..length) else { break };
            self.take(head[3], head[4], id, payload, listeners, events)?;
            at += 9 + length;
        }
        Ok(at)
    }

    fn take(
        &mut self,
        kind: u8,
        flags: u8,
        id: u32,
        payload: &[u8],
        listeners: &mut impl Listeners,
        events: &mut Vec<Event>,
    ) -> Result<(), Failure> {
        // A header block is not interrupted (RFC 9113, 4.3).
        if self.block.is_some_and(|(open, ..)| kind != CONTINUATION || id != open) {
            return Err(Failure::Malformed);
        }
        match kind {
            DATA => self.data(flags, id, payload, listeners, events),
            HEADERS => {
                let mut block = unpadded(flags, payload)?;
                if flags & PRIORITISED != 0 {
                    block = block.get(5..).ok_or(Failure::Malformed)?;
                }
                if id == 0 {
                    return Err(Failure::Malformed);
                }
                self.fragments.clear();
                self.block = Some((id, flags & END_STREAM != 0, 0));
                self.fragment(flags, block, listeners, events)
            }
            CONTINUATION => {
                let Some((_, _, count)) = &mut self.block else { return Err(Failure::Malformed) };
                *count += 1;
                if *count > MOST_CONTINUATIONS {
                    return Err(Failure::HeadTooLarge);
                }
                self.fragment(flags, payload, listeners, events)
            }
            RST_STREAM => self.reset(id, word(payload)?, events),
            SETTINGS => self.settings(flags, id, payload),
            PING if id == 0 && payload.len() == 8 => {
                self.spend(1)?;
                if flags & ACK == 0 { self.reply(PING, ACK, 0, payload) } else { Ok(()) }
            }
            GOAWAY if id == 0 && payload.len() >= 8 => {
                self.leave(word(&payload[..4])? & 0x7fff_ffff, events);
                self.spend(1)
            }
            WINDOW_UPDATE => self.widen(id, word(payload)?, events),
            PRIORITY if payload.len() == 5 && id != 0 => self.spend(1),
            PUSH_PROMISE | PING | GOAWAY | PRIORITY => Err(Failure::Malformed),
            // Unknown kinds are passed over (RFC 9113, 4.1).
            _ => self.spend(1),
        }
    }

    fn position(&self, id: u32) -> Option<usize> {
        self.streams.iter().position(|stream| stream.id == id)
    }

    /// A stream that we never began cannot be answered; one that we ended may still be.
    fn known(&self, id: u32) -> Result<Option<usize>, Failure> {
        let began = id % 2 == 1 && id < self.next;
        if began { Ok(self.position(id)) } else { Err(Failure::Malformed) }
    }

    fn data(
        &mut self,
        flags: u8,
        id: u32,
        payload: &[u8],
        listeners: &mut impl Listeners,
        events: &mut Vec<Event>,
    ) -> Result<(), Failure> {
        let part = unpadded(flags, payload)?;
        // Padding and what comes for a stream that has ended take room as well (RFC 9113, 6.9.1).
        self.eaten += payload.len() as u64;
        if self.eaten >= u64::from(CONNECTION_WINDOW / 2) {
            let eaten = u32::try_from(std::mem::take(&mut self.eaten)).unwrap_or(u32::MAX >> 1);
            self.reply(WINDOW_UPDATE, 0, 0, &eaten.to_be_bytes())?;
        }
        let ends = flags & END_STREAM != 0;
        let known = self.known(id)?;
        if part.is_empty() && !(ends && known.is_some()) {
            self.spend(1)?;
        }
        let Some(at) = known else { return Ok(()) };
        if !part.is_empty() && self.control_credit < MOST_CONTROL_FRAMES {
            self.control_credit += 1;
        }
        let stream = &mut self.streams[at];
        let actor = stream.actor;
        if !stream.answered {
            return Err(Failure::Malformed);
        }
        stream.eaten += payload.len() as u64;
        if stream.eaten >= u64::from(STREAM_WINDOW / 2) && !ends {
            let eaten = u32::try_from(std::mem::take(&mut stream.eaten)).unwrap_or(u32::MAX >> 1);
            self.reply(WINDOW_UPDATE, 0, id, &eaten.to_be_bytes())?;
        }
        let heard = listeners.heard(actor);
        if let Err(why) = heard.body(part) {
            self.cancel(actor);
            events.push(Event::Failed(actor, why));
            return Ok(());
        }
        if ends {
            return self.done(at, listeners, events);
        }
        if heard.keep == Keep::Events {
            events.push(Event::Data(actor));
        }
        Ok(())
    }

    /// An answer has ended: it is complete where its body has as many bytes as its head says (RFC 9113, 8.1.1). A request whose body it did not wait for
    /// needs no more of it (RFC 9113, 8.1).
    fn done(&mut self, at: usize, listeners: &mut impl Listeners, events: &mut Vec<Event>) -> Result<(), Failure> {
        let heard = listeners.heard(self.streams[at].actor);
        let has_body = !heard.no_body && !matches!(heard.status, 204 | 304);
        if has_body && self.streams[at].length.is_some_and(|length| length != heard.body_bytes) {
            return self.break_off(at, events);
        }
        let stream = self.remove(at);
        self.control_credit = self.control_credit.max(MOST_CONTROL_FRAMES);
        if stream.body.is_some() {
            frame(RST_STREAM, 0, stream.id, &CANCEL.to_be_bytes(), &mut self.replies);
        }
        events.push(Event::Done(stream.actor));
        Ok(())
    }

    fn fragment(
        &mut self,
        flags: u8,
        part: &[u8],
        listeners: &mut impl Listeners,
        events: &mut Vec<Event>,
    ) -> Result<(), Failure> {
        let fragments = std::mem::take(&mut self.fragments);
        if flags & END_HEADERS != 0 && fragments.is_empty() {
            self.fragments = fragments;
            return self.headers(part, listeners, events);
        }
        let mut whole = fragments;
        whole.extend_from_slice(part);
        if whole.len() > LONGEST_BLOCK {
            return Err(Failure::HeadTooLarge);
        }
        if flags & END_HEADERS != 0 {
            self.headers(&whole, listeners, events)?;
            whole.clear();
        }
        self.fragments = whole;
        Ok(())
    }

    /// A whole header block: an interim answer, the answer's head, or its trailers.
    fn headers(
        &mut self,
        block: &[u8],
        listeners: &mut impl Listeners,
        events: &mut Vec<Event>,
    ) -> Result<(), Failure> {
        let Some((id, ends, _)) = self.block.take() else { return Err(Failure::Malformed) };
        let at = self.known(id)?;
        let trailers = at.is_some_and(|at| self.streams[at].answered);
        let keep = !trailers && at.is_some_and(|at| listeners.heard(self.streams[at].actor).keep_head);
        let mut lines = Vec::new();
        // Decoded also for nobody: the table must stay that of the server.
        if keep || !self.decoder.repeats(block) {
            self.said = said(&mut self.decoder, block, keep.then_some(&mut lines))?;
        }
        let Some(at) = at else { return self.spend(1) };
        let stream = &mut self.streams[at];
        let actor = stream.actor;
        let Said { status, length, sound } = self.said;
        let status = match (trailers, status) {
            _ if !sound => return self.break_off(at, events),
            (true, Some(_)) => return self.break_off(at, events),
            // Trailers end their stream.
            (true, _) if ends => return self.done(at, listeners, events),
            (true, _) | (false, None) => return self.break_off(at, events),
            (false, Some(status)) => status,
        };
        match status {
            100..200 if status != 101 && !ends => return self.spend(1),
            200..=999 => {}
            _ => return self.break_off(at, events),
        }
        (stream.answered, stream.length) = (true, length);
        let heard = listeners.heard(actor);
        heard.status = status;
        if keep {
            heard.head.extend_from_slice(format!("HTTP/2 {status}\r\n").as_bytes());
            heard.head.extend_from_slice(&lines);
        }
        if ends { self.done(at, listeners, events) } else { Ok(()) }
    }

    /// A malformed answer fails its stream alone (RFC 9113, 8.1.1).
    fn break_off(&mut self, at: usize, events: &mut Vec<Event>) -> Result<(), Failure> {
        let stream = self.remove(at);
        frame(RST_STREAM, 0, stream.id, &1_u32.to_be_bytes(), &mut self.replies);
        events.push(Event::Failed(stream.actor, Failure::Malformed));
        Ok(())
    }

    fn reset(&mut self, id: u32, code: u32, events: &mut Vec<Event>) -> Result<(), Failure> {
        let Some(at) = self.known(id)? else { return self.spend(1) };
        let stream = self.remove(at);
        events.push(match code {
            REFUSED_STREAM if !stream.answered => Event::Unprocessed(stream.actor),
            HTTP_1_1_REQUIRED => Event::Failed(stream.actor, Failure::NoHttp2),
            _ => Event::Failed(stream.actor, Failure::StreamReset),
        });
        Ok(())
    }

    fn settings(&mut self, flags: u8, id: u32, payload: &[u8]) -> Result<(), Failure> {
        if id != 0 || !payload.len().is_multiple_of(6) || (flags & ACK != 0 && !payload.is_empty()) {
            return Err(Failure::Malformed);
        }
        let settings = payload.chunks_exact(6);
        self.spend(1 + u32::try_from(settings.len() / SETTINGS_PER_FRAME).unwrap_or(u32::MAX))?;
        if flags & ACK != 0 {
            return if self.settled { Ok(()) } else { Err(Failure::Malformed) };
        }
        self.settled = true;
        for setting in settings {
            let value = word(&setting[2..])?;
            match u16::from_be_bytes([setting[0], setting[1]]) {
                // A smaller table than the usual one: we do without.
                1 if value < hpack::USUAL_TABLE && !matches!(self.taught, Taught::Forbidden { .. }) => {
                    self.taught = Taught::Forbidden { told: false };
                }
                3 => self.most_streams = usize::try_from(value).unwrap_or(usize::MAX),
                4 => {
                    let window = i64::from(value);
                    if window > LARGEST_WINDOW {
                        return Err(Failure::Malformed);
                    }
                    let change = window - self.initial_window;
                    self.initial_window = window;
                    self.streams.iter_mut().for_each(|stream| stream.window += change);
                }
                5 => {
                    if !(16_384..=16_777_215).contains(&value) {
                        return Err(Failure::Malformed);
                    }
                    // Small frames are always right.
                    self.most_frame = LONGEST_FRAME;
                }
                _ => {}
            }
        }
        self.reply(SETTINGS, ACK, 0, &[])
    }

    fn widen(&mut self, id: u32, by: u32, events: &mut Vec<Event>) -> Result<(), Failure> {
        self.spend(1)?;
        let by = i64::from(by & 0x7fff_ffff);
        if id == 0 {
            self.window += by;
            if by == 0 || self.window > LARGEST_WINDOW {
                return Err(Failure::Malformed);
            }
        } else if let Some(at) = self.known(id)? {
            self.streams[at].window += by;
            if by == 0 || self.streams[at].window > LARGEST_WINDOW {
                return self.break_off(at, events);
            }
        }
        Ok(())
    }

    /// The server leaves: what it has not looked at can be asked elsewhere, the rest it still answers.
    fn leave(&mut self, last: u32, events: &mut Vec<Event>) {
        self.leaving = true;
        // From the end: what takes a removed one's place has been looked at.
        for at in (0..self.streams.len()).rev() {
            if self.streams[at].id > last {
                let stream = self.remove(at);
                events.push(Event::Unprocessed(stream.actor));
            }
        }
    }
}

impl<'b> Block<'b> {
    /// For any connection.
    fn plain(self) -> &'b [u8] {
        match self {
            Block::Once(block) => block,
            Block::Fixed(fixed) => &fixed.plain,
        }
    }

    fn taught(self) -> Option<(&'b [u8], &'b [u8])> {
        match self {
            Block::Once(_) => None,
            Block::Fixed(fixed) => fixed.taught.as_ref().map(|(first, again)| (&**first, &**again)),
        }
    }
}

/// What a header block says; its lines as HTTP/1.1 has them go to `lines`.
fn said(decoder: &mut hpack::Decoder, block: &[u8], mut lines: Option<&mut Vec<u8>>) -> Result<Said, Failure> {
    let mut said = Said { status: None, length: None, sound: true };
    decoder.decode(block, |name, value| match name {
        b":status" => {
            let digits = value.len() == 3 && value.iter().all(u8::is_ascii_digit);
            said.sound &= digits && said.status.is_none();
            let number = if digits { value } else { b"0" };
            said.status = Some(number.iter().fold(0, |sum, digit| sum * 10 + u16::from(digit - b'0')));
        }
        [b':', ..] => said.sound = false,
        _ => {
            if name == b"content-length" {
                let length = digits(value);
                said.sound &= length.is_some() && (said.length.is_none() || said.length == length);
                said.length = length;
            }
            if let Some(lines) = &mut lines {
                lines.extend_from_slice(name);
                lines.extend(b": ");
                lines.extend(value.iter().map(|byte| if matches!(byte, b'\r' | b'\n') { b' ' } else { *byte }));
                lines.extend(b"\r\n");
            }
        }
    })?;
    Ok(said)
}
