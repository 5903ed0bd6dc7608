//! What is heard of an answer: its status, its size, and as much of it as the scenario wants to look at.

use crate::failure::Failure;

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
pub(crate) struct Heard {
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
}

impl Heard {
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
    }

    /// Takes a part of the body.
    #[inline]
    pub(crate) fn body(&mut self, part: &[u8]) -> Result<(), Failure> {
        self.body_bytes += part.len() as u64;
        match self.keep {
            Keep::Count if self.body_bytes <= MOST_COUNTED => Ok(()),
            Keep::Body if self.body_bytes <= MOST_KEPT => {
                self.body.extend_from_slice(part);
                Ok(())
            }
            Keep::Events => self.events.take(part),
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

    #[test]
    fn an_event_without_end_is_oversized() {
        let mut events = Events::default();
        assert_eq!(events.take(&vec![b'x'; MOST_EVENT + 1]), Err(Failure::Oversized));
    }
}
