//! What is heard of an answer: its status, its size, and as much of it as the scenario wants to look at.

use crate::failure::Failure;
use std::sync::atomic::{AtomicUsize, Ordering};

/// How much of a body is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Keep {
    /// Its bytes are counted.
    #[default]
    Count,
    /// All of it, for extraction.
    Body,
    /// Its server-sent events, one by one.
    Events,
}

/// The answer to one request so far.
#[derive(Debug, Default)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) body_bytes: u64,
    pub(crate) keep: Keep,
    pub(crate) keep_head: bool,
    /// The request was HEAD: no body follows, whatever the head says.
    pub(crate) no_body: bool,
    /// The head as HTTP/1.1 writes it, when kept.
    pub(crate) head: Vec<u8>,
    /// The body, when kept.
    pub(crate) body: Vec<u8>,
    pub(crate) events: Events,
    pub(crate) room: Room,
}

impl Response {
    /// Ready for the next answer; the buffers stay.
    pub(crate) fn reset(&mut self) {
        self.status = 0;
        self.body_bytes = 0;
        self.no_body = false;
        if self.keep != Keep::Count || self.keep_head {
            self.head.clear();
            self.body.clear();
            self.events = Events::default();
        }
        self.keep = Keep::Count;
        self.keep_head = false;
        self.release();
    }

    /// Gives back what a large answer took beyond what every answer may keep.
    #[inline]
    pub(crate) fn release(&mut self) {
        if self.room.0 > 0 {
            self.body = Vec::new();
            self.events = Events::default();
            self.room.ask_for(0).unwrap_or_default();
        }
    }

    /// Takes a part of the body.
    #[inline]
    pub(crate) fn body(&mut self, part: &[u8]) -> Result<(), Failure> {
        self.body_bytes += part.len() as u64;
        match self.keep {
            Keep::Count if self.body_bytes <= MOST_COUNTED => Ok(()),
            Keep::Body if self.body_bytes <= MOST_KEPT => {
                self.room.ask_for(self.body.len() + part.len())?;
                self.body.extend_from_slice(part);
                Ok(())
            }
            Keep::Events => {
                self.events.take(part)?;
                self.room.ask_for(self.events.line.len() + self.events.data.len())
            }
            Keep::Count | Keep::Body => Err(Failure::Oversized),
        }
    }
}

/// The most bytes of a body that is counted.
pub(crate) const MOST_COUNTED: u64 = 16 << 30;
/// The most bytes of a body that is kept.
pub(crate) const MOST_KEPT: u64 = 16 << 20;
/// The most bytes of one event.
const MOST_EVENT: usize = 1 << 20;

/// What every answer may keep whatever the others do.
const ALWAYS_KEPT: usize = 256 << 10;
/// What all answers of this process that come at a time may keep beyond that.
const MOST_KEPT_TOGETHER: usize = 64 << 20;
/// What they keep beyond that.
static KEPT_TOGETHER: AtomicUsize = AtomicUsize::new(0);

/// The part of [`MOST_KEPT_TOGETHER`] that one answer has.
#[derive(Debug, Default)]
pub(crate) struct Room(usize);

impl Room {
    /// Room for an answer of this size; refused when the others have taken it.
    #[inline]
    fn ask_for(&mut self, size: usize) -> Result<(), Failure> {
        let wanted = size.saturating_sub(ALWAYS_KEPT);
        if wanted == self.0 { Ok(()) } else { self.change(wanted) }
    }

    fn change(&mut self, wanted: usize) -> Result<(), Failure> {
        let had = self.0;
        let taken = KEPT_TOGETHER.try_update(Ordering::Relaxed, Ordering::Relaxed, |all| {
            let all = all - had + wanted;
            (wanted <= had || all <= MOST_KEPT_TOGETHER).then_some(all)
        });
        if taken.is_err() {
            return Err(Failure::Oversized);
        }
        self.0 = wanted;
        Ok(())
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        KEPT_TOGETHER.fetch_sub(self.0, Ordering::Relaxed);
    }
}

/// A stream of server-sent events (WHATWG HTML, 9.2.6): only `data` is of interest here.
#[derive(Debug, Default)]
pub(crate) struct Events {
    line: Vec<u8>,
    data: Vec<u8>,
    has_data: bool,
    after_cr: bool,
    /// Complete events that nobody has looked at.
    pub(crate) ready: Vec<Vec<u8>>,
    /// All complete events so far.
    pub(crate) count: u64,
}

impl Events {
    fn take(&mut self, part: &[u8]) -> Result<(), Failure> {
        for &byte in part {
            let after_cr = std::mem::replace(&mut self.after_cr, byte == b'\r');
            match byte {
                b'\n' if after_cr => {}
                b'\n' | b'\r' => self.end_line(),
                _ if self.line.len() + self.data.len() >= MOST_EVENT => return Err(Failure::Oversized),
                _ => self.line.push(byte),
            }
        }
        Ok(())
    }

    fn end_line(&mut self) {
        if self.line.is_empty() {
            if std::mem::take(&mut self.has_data) {
                self.count += 1;
                self.ready.push(std::mem::take(&mut self.data));
            }
            return;
        }
        let line = std::mem::take(&mut self.line);
        let value = match line.strip_prefix(b"data") {
            Some([]) => Some(&[][..]),
            Some([b':', b' ', value @ ..] | [b':', value @ ..]) => Some(value),
            _ => None,
        };
        if let Some(value) = value {
            if self.has_data {
                self.data.push(b'\n');
            }
            self.has_data = true;
            self.data.extend_from_slice(value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_cut_at_blank_lines_however_they_arrive() {
        let stream = b": hello\r\nevent: bid\r\ndata: {\"amount\":\r\ndata:7}\r\n\r\nid: 4\n\ndata\n\ndata: end\r\r";
        for size in [1, 2, 3, 7, stream.len()] {
            let mut events = Events::default();
            stream.chunks(size).for_each(|part| events.take(part).expect("small events"));
            let ready: Vec<&[u8]> = events.ready.iter().map(Vec::as_slice).collect();
            assert_eq!(ready, [&b"{\"amount\":\n7}"[..], b"", b"end"], "in parts of {size}");
        }
    }

    /// Whatever else is kept in this process: every answer has room for a page, and all of them together for no more than
    /// the bound.
    #[test]
    fn large_bodies_share_a_bound() {
        let body = || Response { keep: Keep::Body, ..Response::default() };
        let mut many: Vec<Response> = (0..12).map(|_| body()).collect();
        let part = vec![b'x'; 1 << 20];
        let outcomes: Vec<_> = many.iter_mut().map(|heard| (0..16).try_for_each(|_| heard.body(&part))).collect();
        assert!(outcomes.contains(&Ok(())) && outcomes.contains(&Err(Failure::Oversized)), "{outcomes:?}");
        let kept: usize = many.iter().map(|heard| heard.body.len()).sum();
        assert!(kept <= MOST_KEPT_TOGETHER + many.len() * ALWAYS_KEPT, "{kept}");
        assert_eq!(body().body(&part[..ALWAYS_KEPT]), Ok(()), "a page has room");
        // What has been looked at makes room.
        many.iter_mut().for_each(Response::release);
        assert_eq!(
            (0..16).try_for_each(|_| many[11].body(&part)),
            Err(Failure::Oversized),
            "of this answer it is too late"
        );
        many[11].reset();
        many[11].keep = Keep::Body;
        assert_eq!((0..16).try_for_each(|_| many[11].body(&part)), Ok(()));
    }

    #[test]
    fn an_event_without_end_is_oversized() {
        let mut events = Events::default();
        assert_eq!(events.take(&vec![b'x'; MOST_EVENT + 1]), Err(Failure::Oversized));
    }
}
