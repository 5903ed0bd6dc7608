//! The client's side of HTTP/2 (RFC 9113) on one connection: frames in and out, streams, flow control.
//!
//! Own framing on the same event loop as HTTP/1.1, rather than a library: those are futures on a runtime, which the loop does
//! not have, and what a load generator needs of the protocol is small. It sends requests and understands whatever a server may
//! answer; it pushes back on nothing (windows are wide), takes no pushes, and keeps no state in the server's header table.
//! What breaks the protocol ends the connection as malformed; a stream that the server resets fails alone. What a server can
//! make this side queue is bounded: frames that bring no answer further use up a credit, replies to them wait until the server
//! reads, and bodies are queued no faster than it takes them. Beyond that the connection is lost as a flood.

use crate::failure::Failure;
use crate::heard::{Heard, Keep};
use crate::hpack;
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
    fn heard(&mut self, actor: u32) -> &mut Heard;
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
    window: i64,
    eaten: u64,
    /// Bytes of its header frames.
    header_bytes: usize,
    /// Its body and how much of it has been sent, until all has.
    body: Option<(Arc<[u8]>, usize)>,
}

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const PRIORITY: u8 = 2;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PUSH_PROMISE: u8 = 5;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
const CONTINUATION: u8 = 9;

const END_STREAM: u8 = 1;
const ACK: u8 = 1;
const END_HEADERS: u8 = 4;
const PADDED: u8 = 8;
const PRIORITISED: u8 = 0x20;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const CANCEL: u32 = 8;
const REFUSED_STREAM: u32 = 7;
const HTTP_1_1_REQUIRED: u32 = 13;
/// The longest frame that we take, which is what everybody must send at least (RFC 9113, 4.2).
const LONGEST_FRAME: usize = 16_384;
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
        self.streams.push(Stream { id, actor, answered: false, window, eaten: 0, header_bytes, body });
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
            self.done(at, events);
        } else if heard.keep == Keep::Events {
            events.push(Event::Data(actor));
        }
        Ok(())
    }

    /// An answer is complete. A request whose body it did not wait for needs no more of it (RFC 9113, 8.1).
    fn done(&mut self, at: usize, events: &mut Vec<Event>) {
        let stream = self.remove(at);
        self.control_credit = self.control_credit.max(MOST_CONTROL_FRAMES);
        if stream.body.is_some() {
            frame(RST_STREAM, 0, stream.id, &CANCEL.to_be_bytes(), &mut self.replies);
        }
        events.push(Event::Done(stream.actor));
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
        let Said { status, sound } = self.said;
        let status = match (trailers, status) {
            _ if !sound => return self.break_off(at, events),
            (true, Some(_)) => return self.break_off(at, events),
            // Trailers end their stream.
            (true, _) if ends => {
                self.done(at, events);
                return Ok(());
            }
            (true, _) | (false, None) => return self.break_off(at, events),
            (false, Some(status)) => status,
        };
        match status {
            100..200 if status != 101 && !ends => return self.spend(1),
            200..=999 => {}
            _ => return self.break_off(at, events),
        }
        stream.answered = true;
        let heard = listeners.heard(actor);
        heard.status = status;
        if keep {
            heard.head.extend_from_slice(format!("HTTP/2 {status}\r\n").as_bytes());
            heard.head.extend_from_slice(&lines);
        }
        if ends {
            self.done(at, events);
        }
        Ok(())
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
    let mut said = Said { status: None, sound: true };
    decoder.decode(block, |name, value| match name {
        b":status" => {
            let digits = value.len() == 3 && value.iter().all(u8::is_ascii_digit);
            said.sound &= digits && said.status.is_none();
            let number = if digits { value } else { b"0" };
            said.status = Some(number.iter().fold(0, |sum, digit| sum * 10 + u16::from(digit - b'0')));
        }
        [b':', ..] => said.sound = false,
        _ => {
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

fn word(payload: &[u8]) -> Result<u32, Failure> {
    payload.try_into().map(u32::from_be_bytes).or(Err(Failure::Malformed))
}

/// Without padding (RFC 9113, 6.1).
fn unpadded(flags: u8, payload: &[u8]) -> Result<&[u8], Failure> {
    if flags & PADDED == 0 {
        return Ok(payload);
    }
    let (&padding, rest) = payload.split_first().ok_or(Failure::Malformed)?;
    let kept = rest.len().checked_sub(usize::from(padding)).ok_or(Failure::Malformed)?;
    Ok(&rest[..kept])
}

fn head(length: usize, kind: u8, flags: u8, id: u32, out: &mut Vec<u8>) {
    // No frame of ours is longer than 16,384 bytes.
    out.extend_from_slice(&u32::try_from(length).unwrap_or(0).to_be_bytes()[1..]);
    out.extend_from_slice(&[kind, flags]);
    out.extend_from_slice(&id.to_be_bytes());
}

fn frame(kind: u8, flags: u8, id: u32, payload: &[u8], out: &mut Vec<u8>) {
    head(payload.len(), kind, flags, id, out);
    out.extend_from_slice(payload);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Default)]
    struct Table(Vec<Heard>);

    impl Listeners for Table {
        fn heard(&mut self, actor: u32) -> &mut Heard {
            &mut self.0[actor as usize]
        }
    }

    fn table(count: usize) -> Table {
        let one = || Heard { keep: Keep::Body, keep_head: true, ..Heard::default() };
        Table((0..count).map(|_| one()).collect())
    }

    fn block(fields: &[(&str, &str)]) -> Vec<u8> {
        let mut block = Vec::new();
        fields.iter().for_each(|(name, value)| hpack::encode(name.as_bytes(), value.as_bytes(), &mut block));
        block
    }

    fn frames(list: &[(u8, u8, u32, &[u8])]) -> Vec<u8> {
        let mut out = Vec::new();
        list.iter().for_each(|(kind, flags, id, payload)| frame(*kind, *flags, *id, payload, &mut out));
        out
    }

    /// A session with requests of two actors, fed in pieces.
    fn fed(stream: &[u8], size: usize) -> (Result<(), Failure>, Vec<Event>, Table, Session) {
        let (mut session, mut table, mut events) = (Session::new(100), table(2), Vec::new());
        session.request(0, Block::Once(&block(&[(":method", "GET")])), None);
        session.request(1, Block::Once(&block(&[(":method", "POST")])), Some(Arc::from(&b"body"[..])));
        let mut outcome = Ok(());
        for piece in stream.chunks(size.max(1)) {
            outcome = outcome.and_then(|()| session.feed(piece, &mut table, &mut events));
            session.fill(0);
        }
        (outcome, events, table, session)
    }

    fn answers() -> Vec<u8> {
        let ok = block(&[(":status", "200"), ("set-cookie", "a=1")]);
        let gone = block(&[(":status", "404")]);
        frames(&[
            (SETTINGS, 0, 0, &[]),
            (SETTINGS, ACK, 0, &[]),
            (99, 7, 5, b"unknown frames are ignored"),
            (HEADERS, END_HEADERS, 3, &block(&[(":status", "103")])),
            (HEADERS, 0, 1, &ok[..3]),
            (CONTINUATION, END_HEADERS, 1, &ok[3..]),
            (DATA, PADDED, 1, b"\x03hel\0\0\0"),
            (HEADERS, END_HEADERS | END_STREAM, 3, &gone),
            (PING, 0, 0, b"12345678"),
            (DATA, 0, 1, b"lo"),
            (HEADERS, END_HEADERS | END_STREAM, 1, &block(&[("etag", "x")])),
        ])
    }

    #[test]
    fn answers_of_several_streams_are_told_apart_in_pieces_of_any_size() {
        for size in 1..=answers().len() {
            let (outcome, events, table, session) = fed(&answers(), size);
            assert_eq!((outcome, events), (Ok(()), vec![Event::Done(1), Event::Done(0)]), "in pieces of {size}");
            assert_eq!((table.0[0].status, &table.0[0].body[..]), (200, &b"hello"[..]));
            assert_eq!(String::from_utf8_lossy(&table.0[0].head), "HTTP/2 200\r\nset-cookie: a=1\r\n");
            assert_eq!((table.0[1].status, session.under_way()), (404, 0));
            assert!(session.out.ends_with(&frames(&[(PING, ACK, 0, b"12345678")])));
        }
    }

    #[test]
    fn what_breaks_the_protocol_is_malformed() {
        let settings: (u8, u8, u32, &[u8]) = (SETTINGS, 0, 0, &[]);
        let ok = block(&[(":status", "200")]);
        let zero = 0_u32.to_be_bytes();
        for wrong in [
            &[(PING, 0, 0, &b"12345678"[..])][..],
            &[settings, (PING, 0, 0, b"1234567")],
            &[settings, (DATA, 0, 1, b"before its head")],
            &[settings, (HEADERS, END_HEADERS, 7, &ok)],
            &[settings, (HEADERS, END_HEADERS, 2, &ok)],
            &[settings, (HEADERS, 0, 1, &ok), (PING, 0, 0, b"12345678")],
            &[settings, (CONTINUATION, END_HEADERS, 1, &ok)],
            &[settings, (PUSH_PROMISE, END_HEADERS, 1, &ok)],
            &[settings, (DATA, PADDED, 1, b"\x09x")],
            &[settings, (WINDOW_UPDATE, 0, 0, &zero)],
            &[settings, (SETTINGS, 0, 0, b"\0\x04\xff\xff\xff\xff")],
            &[settings, (HEADERS, END_HEADERS, 1, &[0x80])],
        ] {
            assert_eq!(fed(&frames(wrong), 1000).0, Err(Failure::Malformed), "{wrong:?}");
        }
        assert_eq!(fed(b"HTTP/1.1 400 Bad Request\r\n\r\n", 3).0, Err(Failure::NoHttp2));
    }

    #[test]
    fn one_stream_fails_and_the_others_go_on() {
        let settings: (u8, u8, u32, &[u8]) = (SETTINGS, 0, 0, &[]);
        let after = |frame: (u8, u8, u32, &[u8])| fed(&frames(&[settings, frame]), 1000);
        let code = |code: u32| code.to_be_bytes();
        assert_eq!(after((RST_STREAM, 0, 1, &code(2))).1, [Event::Failed(0, Failure::StreamReset)]);
        assert_eq!(after((RST_STREAM, 0, 1, &code(REFUSED_STREAM))).1, [Event::Unprocessed(0)]);
        assert_eq!(after((RST_STREAM, 0, 3, &code(HTTP_1_1_REQUIRED))).1, [Event::Failed(1, Failure::NoHttp2)]);
        for strange in ["abc", "", "2000", "99999999999999999999"] {
            let strange = block(&[(":status", strange)]);
            let (outcome, events, _, session) = after((HEADERS, END_HEADERS, 1, &strange));
            assert_eq!((outcome, events, session.under_way()), (Ok(()), vec![Event::Failed(0, Failure::Malformed)], 1));
        }
        // The server leaves after the first stream.
        let (_, events, _, session) = after((GOAWAY, 0, 0, &[0, 0, 0, 1, 0, 0, 0, 0]));
        assert_eq!(events, [Event::Unprocessed(1)]);
        assert!(!session.has_room() && !session.is_over());
    }

    #[test]
    fn nothing_goes_on_for_ever() {
        let settings: (u8, u8, u32, &[u8]) = (SETTINGS, 0, 0, &[]);
        let mut list = vec![settings, (HEADERS, 0, 1, &[][..])];
        list.extend([(CONTINUATION, 0, 1, &[][..]); 40]);
        assert_eq!(fed(&frames(&list), 1000).0, Err(Failure::HeadTooLarge));
        let long = vec![0_u8; LONGEST_FRAME];
        list.truncate(2);
        list.extend([(CONTINUATION, 0, 1, &long[..]); 5]);
        assert_eq!(fed(&frames(&list), 1000).0, Err(Failure::HeadTooLarge));
        assert_eq!(
            fed(&frames(&[settings, (DATA, 0, 1, &vec![0; LONGEST_FRAME + 1])]), 1000).0,
            Err(Failure::Malformed)
        );
    }

    /// A body goes as far as the windows let it, stream and connection, and on when they are widened.
    #[test]
    fn bodies_keep_to_the_windows() {
        let (mut session, mut table, mut events) = (Session::new(100), table(1), Vec::new());
        let body = vec![b'x'; 200_000];
        session.request(0, Block::Once(&block(&[(":method", "POST")])), Some(body.into()));
        let sent = |session: &mut Session| {
            session.fill(0);
            let out = std::mem::take(&mut session.out);
            out.iter().filter(|byte| **byte == b'x').count()
        };
        assert_eq!(sent(&mut session), 65_535);
        let feed = |session: &mut Session, list: &[_], table: &mut Table, events: &mut Vec<Event>| {
            session.feed(&frames(list), table, events).expect("sound frames");
        };
        feed(&mut session, &[(SETTINGS, 0, 0, &[][..])], &mut table, &mut events);
        let (some, many) = (100_000_u32.to_be_bytes(), 1_000_000_u32.to_be_bytes());
        feed(&mut session, &[(WINDOW_UPDATE, 0, 1, &some[..])], &mut table, &mut events);
        assert_eq!(sent(&mut session), 0, "the connection's window is used up");
        feed(&mut session, &[(WINDOW_UPDATE, 0, 0, &many[..])], &mut table, &mut events);
        assert_eq!(sent(&mut session), 100_000);
        // The initial window of all streams grows by what a new setting says.
        feed(&mut session, &[(SETTINGS, 0, 0, &b"\0\x04\0\x02\0\0"[..])], &mut table, &mut events);
        assert_eq!(sent(&mut session), 200_000 - 165_535);
        let answer = block(&[(":status", "200")]);
        feed(&mut session, &[(HEADERS, END_HEADERS | END_STREAM, 1, &answer[..])], &mut table, &mut events);
        assert_eq!(events, [Event::Done(0)]);
    }

    /// A session with one request, and what becomes of it when the server sends `list`.
    fn after(list: &[(u8, u8, u32, &[u8])]) -> Result<(), Failure> {
        let settings: (u8, u8, u32, &[u8]) = (SETTINGS, 0, 0, &[]);
        fed(&frames(&[&[settings], list].concat()), 1 << 20).0
    }

    #[test]
    fn frames_that_bring_no_answer_further_are_a_flood() {
        let ok = block(&[(":status", "200")]);
        let (hint, one) = (block(&[(":status", "103")]), 1_u32.to_be_bytes());
        let head: (u8, u8, u32, &[u8]) = (HEADERS, END_HEADERS, 1, &ok);
        let kinds: [(u8, u8, u32, &[u8]); 10] = [
            (SETTINGS, 0, 0, &[]),
            (SETTINGS, ACK, 0, &[]),
            (PING, 0, 0, b"12345678"),
            (PING, ACK, 0, b"12345678"),
            (PRIORITY, 0, 5, b"12345"),
            (WINDOW_UPDATE, 0, 0, &one),
            (99, 0, 0, b"unknown"),
            (HEADERS, END_HEADERS, 3, &hint),
            (DATA, 0, 1, &[]),
            (DATA, PADDED, 1, b"\x03\0\0\0"),
        ];
        for kind in kinds {
            let flood = [vec![head], vec![kind; MOST_CONTROL_FRAMES as usize + 1]].concat();
            assert_eq!(after(&flood), Err(Failure::Flood), "kind {}", kind.0);
            // Where nobody has to answer, as many as an answer may need are not flood.
            if !matches!(kind.0, SETTINGS | PING) {
                assert_eq!(after(&flood[..flood.len() / 2]), Ok(()), "kind {}", kind.0);
            }
        }
        // Of a stream that is over.
        let over: (u8, u8, u32, &[u8]) = (HEADERS, END_HEADERS | END_STREAM, 1, &ok);
        for kind in [(RST_STREAM, 0, 1, &one[..]), (DATA, 0, 1, &[]), over] {
            let flood = [vec![over], vec![kind; MOST_CONTROL_FRAMES as usize + 1]].concat();
            assert_eq!(after(&flood), Err(Failure::Flood), "kind {}", kind.0);
        }
    }

    /// A server that asks for replies and reads none is one whose replies do not pile up.
    #[test]
    fn replies_wait_until_the_server_reads_and_are_bounded() {
        let (mut session, mut table, mut events) = (Session::new(100), table(1), Vec::new());
        session.fill(0);
        session.out.clear();
        let settings = frames(&[(SETTINGS, 0, 0, &[])]);
        let mut queued = 0;
        let mut outcome = Ok(());
        while outcome.is_ok() {
            queued += 1;
            outcome = session.feed(&settings, &mut table, &mut events);
            session.fill(MOST_AHEAD);
            assert!(session.out.is_empty() && session.replies.len() <= MOST_REPLY_BYTES + 9);
        }
        assert_eq!((outcome, queued), (Err(Failure::Flood), MOST_REPLY_BYTES / 9 + 1));
    }

    /// A credit that is used up is earned again by answers, and uploads come with widened windows.
    #[test]
    fn answers_and_uploads_earn_control_frames() {
        let (mut session, mut table, mut events) = (Session::new(100), table(2), Vec::new());
        let get = block(&[(":method", "GET")]);
        let (ok, one) = (block(&[(":status", "200")]), 1_u32.to_be_bytes());
        let many = vec![(WINDOW_UPDATE, 0, 0, &one[..]); MOST_CONTROL_FRAMES as usize - 10];
        session.feed(&frames(&[(SETTINGS, 0, 0, &[])]), &mut table, &mut events).expect("sound");
        for id in [1, 3, 5] {
            session.request(0, Block::Once(&get), None);
            let answer = [(HEADERS, END_HEADERS | END_STREAM, id, &ok[..])];
            session.feed(&frames(&[&many[..], &answer].concat()), &mut table, &mut events).expect("no flood");
        }
        session.request(1, Block::Once(&get), Some(vec![0; 60_000].into()));
        session.fill(0);
        let granted = session.control_credit;
        assert_eq!(granted, MOST_CONTROL_FRAMES + 4 * CONTROL_FRAMES_PER_DATA, "60,000 bytes are four frames");
    }

    /// What is queued for streams that have ended is bounded too: a server that answers without reading is one.
    #[test]
    fn a_server_that_answers_and_reads_nothing_is_abandoned() {
        let (mut session, mut table, mut events) = (Session::new(100), table(1), Vec::new());
        let (get, ok) = (vec![0; 10_000], block(&[(":status", "200")]));
        session.feed(&frames(&[(SETTINGS, 0, 0, &[])]), &mut table, &mut events).expect("sound");
        let mut backlog = 0;
        let mut answered = 0;
        while !session.is_abandoned(backlog) {
            session.request(0, Block::Once(&get), None);
            session.fill(backlog);
            backlog += std::mem::take(&mut session.out).len();
            let answer = frames(&[(HEADERS, END_HEADERS | END_STREAM, 1 + 2 * answered, &ok)]);
            session.feed(&answer, &mut table, &mut events).expect("sound");
            answered += 1;
        }
        assert!((120..140).contains(&answered), "{answered} requests of 10 kB");
        // As much of requests that are under way is none of that.
        let mut session = Session::new(1000);
        (0..500).for_each(|_| session.request(0, Block::Once(&get), None));
        let waiting = std::mem::take(&mut session.out).len();
        assert!(waiting > 4_000_000 && !session.is_abandoned(waiting));
    }

    /// Of a body no more is queued than a bound, whatever the windows allow.
    #[test]
    fn bodies_wait_for_the_kernel_where_windows_do_not_end() {
        let (mut session, mut table, mut events) = (Session::new(100), table(1), Vec::new());
        session.request(0, Block::Once(&block(&[(":method", "POST")])), Some(vec![0; 8 << 20].into()));
        let wide = 0x3fff_ffff_u32.to_be_bytes();
        let list = [(SETTINGS, 0, 0, &[][..]), (WINDOW_UPDATE, 0, 0, &wide), (WINDOW_UPDATE, 0, 1, &wide)];
        session.feed(&frames(&list), &mut table, &mut events).expect("sound");
        session.fill(0);
        assert!((MOST_AHEAD..MOST_AHEAD + 2 * LONGEST_FRAME).contains(&session.out.len()), "{}", session.out.len());
        let before = session.out.len();
        session.fill(0);
        assert_eq!(session.out.len(), before);
        session.out.clear();
        session.fill(MOST_AHEAD / 2);
        assert!((MOST_AHEAD / 2..MOST_AHEAD).contains(&session.out.len()), "{}", session.out.len());
    }

    /// The first request that is the same for all is taught on a connection and named from then on; a server that takes its
    /// table away is told once that we know, and gets the whole again.
    #[test]
    fn what_is_the_same_is_said_once() {
        let fixed = |path: &str| Arc::new(hpack::Fixed::new(block(&[(":method", "GET"), (":path", path)])));
        let (one, other) = (fixed("/one"), fixed("/other"));
        let mut session = Session::new(100);
        let sent = |session: &mut Session, fixed: &Arc<hpack::Fixed>| {
            session.out.clear();
            session.request(0, Block::Fixed(fixed), None);
            session.out[9..].to_vec()
        };
        let (first, again) = one.taught.clone().expect("small");
        assert_eq!(sent(&mut session, &one), first);
        assert_eq!(sent(&mut session, &one), again);
        assert_eq!(sent(&mut session, &other), other.plain);
        assert_eq!(again, [0x82, 0xbe]);
        let feed = |session: &mut Session, size: u32| {
            let setting = [&[0, 1][..], &size.to_be_bytes()].concat();
            session.feed(&frames(&[(SETTINGS, 0, 0, &setting)]), &mut table(1), &mut Vec::new()).expect("sound");
        };
        feed(&mut session, 65_536);
        assert_eq!(sent(&mut session, &one), again);
        feed(&mut session, 0);
        assert_eq!(sent(&mut session, &one), [&[0x20][..], &one.plain].concat());
        feed(&mut session, 4096);
        assert_eq!(sent(&mut session, &one), one.plain);
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn mutated_frames_never_panic_and_pieces_do_not_matter(
            changes in proptest::collection::vec((0..1000_usize, any::<u8>()), 0..6), size in 1..60_usize,
        ) {
            let mut stream = answers();
            for (at, byte) in changes {
                let at = at % stream.len();
                stream[at] = byte;
            }
            let (whole, pieces) = (fed(&stream, stream.len()), fed(&stream, size));
            prop_assert_eq!((whole.0, whole.1), (pieces.0, pieces.1));
        }
    }
}
