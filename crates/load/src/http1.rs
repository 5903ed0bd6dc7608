//! Reads HTTP/1.1 answers (RFC 9112) from whatever pieces the network delivers.
//!
//! An answer that arrives whole is parsed where it lies, nothing is copied. Only an incomplete head is carried over. It
//! judges no semantics beyond where the answer ends; what is not HTTP is refused, and no head or chunk line goes on for ever. A
//! server repeats its heads until a second has passed: bytes that were parsed just before are compared instead.

use crate::failure::Failure;
use crate::response::Response;
use std::mem::MaybeUninit;

/// Where in an answer the reader is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Head,
    Body(u64),
    Chunk(Chunk),
    UntilClose,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Chunk {
    /// In the size; the digits so far.
    Size {
        value: u64,
        digits: u8,
    },
    /// After the size, up to the end of its line; `line` bytes of it so far.
    Extension {
        value: u64,
        line: u16,
    },
    Data(u64),
    /// The line's end after the data.
    DataEnd,
    /// A trailer line; bytes of it so far, all of them.
    Trailer {
        line: u16,
        total: u16,
    },
}

/// What becomes of the connection after an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum After {
    /// It can take the next request.
    Alive,
    /// It ends with this answer.
    Close,
}

/// How far a piece led.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fed {
    /// All of it was taken; the answer continues.
    More,
    /// The answer is complete after so many bytes of the piece.
    Done(usize, After),
}

/// What a head says.
#[derive(Clone, Copy, Debug)]
struct Head {
    status: u16,
    /// What its headers say of the connection.
    after: After,
    /// What follows it, unless the request or the status say that nothing does.
    phase: Phase,
}

/// The last head that was parsed, on whatever connection.
#[derive(Debug, Default)]
pub(crate) struct Known {
    bytes: Vec<u8>,
    head: Option<Head>,
}

/// The longest head that is remembered.
const LONGEST_KNOWN: usize = 2048;

impl Known {
    /// What the head at the beginning of `input` says and how long it is, when it is the known one: that ends with its blank
    /// line, so that a longer one cannot begin with it.
    #[inline]
    fn find(&self, input: &[u8]) -> Option<(usize, Head)> {
        let head = self.head?;
        input.starts_with(&self.bytes).then_some((self.bytes.len(), head))
    }

    fn learn(&mut self, bytes: &[u8], head: Head) {
        if bytes.len() <= LONGEST_KNOWN {
            self.bytes.clear();
            self.bytes.extend_from_slice(bytes);
            self.head = Some(head);
        }
    }
}

/// The reader of one connection's answers.
#[derive(Debug)]
pub(crate) struct Reader {
    phase: Phase,
    after: After,
    carry: Vec<u8>,
    /// Interim answers before the current one.
    interim: u16,
}

/// The longest head, in bytes.
pub(crate) const LONGEST_HEAD: usize = 64 << 10;
/// The most header lines.
const MOST_HEADERS: usize = 128;
/// The most interim answers before an answer.
const MOST_INTERIM: u16 = 100;
/// The longest line of a chunk's size or of a trailer.
const LONGEST_LINE: u16 = 4096;

impl Default for Reader {
    fn default() -> Reader {
        Reader { phase: Phase::Head, after: After::Alive, carry: Vec::new(), interim: 0 }
    }
}

impl Reader {
    /// Whether no byte of an answer has been read.
    pub(crate) fn is_fresh(&self) -> bool {
        self.phase == Phase::Head && self.carry.is_empty() && self.interim == 0
    }

    /// Takes a piece; `known` is what any reader has learnt.
    pub(crate) fn feed(&mut self, input: &[u8], heard: &mut Response, known: &mut Known) -> Result<Fed, Failure> {
        let mut at = 0;
        loop {
            let rest = &input[at..];
            match self.phase {
                Phase::Head => {
                    let Some((taken, next)) = self.head(rest, heard, known)? else { return Ok(Fed::More) };
                    at += taken;
                    match next {
                        // An interim answer: the real one follows.
                        None if self.interim < MOST_INTERIM => self.interim += 1,
                        None => return Err(Failure::Flood),
                        Some(Phase::Body(0)) => return Ok(self.done(at)),
                        Some(phase) => self.phase = phase,
                    }
                }
                Phase::Body(left) => {
                    let part = &rest[..rest.len().min(usize::try_from(left).unwrap_or(usize::MAX))];
                    heard.body(part)?;
                    at += part.len();
                    if part.len() as u64 == left {
                        return Ok(self.done(at));
                    }
                    self.phase = Phase::Body(left - part.len() as u64);
                    return Ok(Fed::More);
                }
                Phase::UntilClose => {
                    heard.body(rest)?;
                    return Ok(Fed::More);
                }
                Phase::Chunk(chunk) => {
                    let Some((taken, next)) = step(chunk, rest, heard)? else { return Ok(Fed::More) };
                    at += taken;
                    match next {
                        Some(next) => self.phase = Phase::Chunk(next),
                        None => return Ok(self.done(at)),
                    }
                }
            }
        }
    }

    /// The connection has ended: whether that completes the answer.
    pub(crate) fn end(&mut self) -> Result<(), Failure> {
        let complete = self.phase == Phase::UntilClose;
        if complete { Ok(()) } else { Err(Failure::ClosedEarly) }
    }

    fn done(&mut self, at: usize) -> Fed {
        self.phase = Phase::Head;
        self.interim = 0;
        Fed::Done(at, self.after)
    }

    /// Parses a head; `None` when it is not complete. Returns the bytes taken of `input` and the phase that follows, `None`
    /// after an interim answer.
    #[inline]
    fn head(
        &mut self,
        input: &[u8],
        heard: &mut Response,
        known: &mut Known,
    ) -> Result<Option<(usize, Option<Phase>)>, Failure> {
        if input.is_empty() {
            return Ok(None);
        }
        if self.carry.is_empty() {
            let Some((length, next)) = self.whole_head(input, heard, known)? else {
                self.carry.extend_from_slice(input);
                return if input.len() >= LONGEST_HEAD { Err(Failure::HeadTooLarge) } else { Ok(None) };
            };
            return Ok(Some((length, next)));
        }
        let before = self.carry.len();
        let taken = input.len().min(LONGEST_HEAD + 1 - before);
        let mut carry = std::mem::take(&mut self.carry);
        carry.extend_from_slice(&input[..taken]);
        // Without a new line's end there is no new head's end: a trickled head is not parsed at every byte.
        let parsed = if input[..taken].contains(&b'\n') { self.whole_head(&carry, heard, known)? } else { None };
        if let Some((length, next)) = parsed {
            carry.clear();
            self.carry = carry;
            return Ok(Some((length.saturating_sub(before), next)));
        }
        let full = carry.len() > LONGEST_HEAD;
        self.carry = carry;
        if full { Err(Failure::HeadTooLarge) } else { Ok(None) }
    }

    /// As [`Reader::head`], of a head that begins with the input.
    #[inline]
    fn whole_head(
        &mut self,
        input: &[u8],
        heard: &mut Response,
        known: &mut Known,
    ) -> Result<Option<(usize, Option<Phase>)>, Failure> {
        let (length, head) = match known.find(input) {
            Some(found) => found,
            None => match parse(input)? {
                None => return Ok(None),
                Some((length, None)) => return Ok(Some((length, None))),
                Some((length, Some(head))) => {
                    known.learn(&input[..length], head);
                    (length, head)
                }
            },
        };
        heard.status = head.status;
        if heard.keep_head {
            heard.head.extend_from_slice(&input[..length]);
        }
        self.after = head.after;
        let mut phase = head.phase;
        if heard.no_body || matches!(head.status, 204 | 304) {
            phase = Phase::Body(0);
        } else if phase == Phase::UntilClose {
            self.after = After::Close;
        }
        Ok(Some((length, Some(phase))))
    }
}

/// Parses a head: its length and what it says, nothing for an interim answer; `None` when it is not complete.
fn parse(input: &[u8]) -> Result<Option<(usize, Option<Head>)>, Failure> {
    let mut storage = [const { MaybeUninit::<httparse::Header<'_>>::uninit() }; MOST_HEADERS];
    let mut answer = httparse::Response::new(&mut []);
    let config = httparse::ParserConfig::default();
    let length = match config.parse_response_with_uninit_headers(&mut answer, input, &mut storage) {
        Ok(httparse::Status::Complete(length)) if length <= LONGEST_HEAD => length,
        Ok(httparse::Status::Partial) => return Ok(None),
        Ok(httparse::Status::Complete(_)) | Err(httparse::Error::TooManyHeaders) => {
            return Err(Failure::HeadTooLarge);
        }
        Err(_) => return Err(Failure::Malformed),
    };
    let status = answer.code.unwrap_or(0);
    if !(100..=999).contains(&status) || status == 101 {
        return Err(Failure::Malformed);
    }
    if status < 200 {
        return Ok(Some((length, None)));
    }
    let framing = Framing::of(answer.headers)?;
    let old = answer.version == Some(0);
    let after = framing.connection.unwrap_or(if old { After::Close } else { After::Alive });
    let phase = match framing.length {
        _ if framing.chunked => Phase::Chunk(Chunk::Size { value: 0, digits: 0 }),
        Some(length) => Phase::Body(length),
        None => Phase::UntilClose,
    };
    Ok(Some((length, Some(Head { status, after, phase }))))
}

/// The headers that say where an answer ends.
#[derive(Default)]
struct Framing {
    length: Option<u64>,
    chunked: bool,
    connection: Option<After>,
}

impl Framing {
    #[inline]
    fn of(headers: &[httparse::Header<'_>]) -> Result<Framing, Failure> {
        let mut framing = Framing::default();
        for header in headers {
            // The lengths of the three names differ, and few other names share them.
            match header.name.len() {
                10 if header.name.eq_ignore_ascii_case("connection") => {
                    let says = |word: &[u8]| {
                        header
                            .value
                            .split(|byte| *byte == b',')
                            .any(|part| part.trim_ascii().eq_ignore_ascii_case(word))
                    };
                    if says(b"close") {
                        framing.connection = Some(After::Close);
                    } else if says(b"keep-alive") {
                        framing.connection = Some(After::Alive);
                    }
                }
                14 if header.name.eq_ignore_ascii_case("content-length") => {
                    let length = digits(header.value).ok_or(Failure::Malformed)?;
                    if framing.length.is_some_and(|before| before != length) {
                        return Err(Failure::Malformed);
                    }
                    framing.length = Some(length);
                }
                17 if header.name.eq_ignore_ascii_case("transfer-encoding") => {
                    if !header.value.trim_ascii().eq_ignore_ascii_case(b"chunked") {
                        return Err(Failure::Malformed);
                    }
                    framing.chunked = true;
                }
                _ => {}
            }
        }
        Ok(framing)
    }
}

/// The number of a Content-Length.
pub(crate) fn digits(value: &[u8]) -> Option<u64> {
    let value = value.trim_ascii();
    if value.is_empty() || value.len() > 18 {
        return None;
    }
    value.iter().try_fold(0_u64, |sum, byte| byte.is_ascii_digit().then(|| sum * 10 + u64::from(byte - b'0')))
}

/// One step in a chunked body: bytes taken and where the reader then is, `None` at the body's end. `None` for the whole
/// when the input is used up.
fn step(chunk: Chunk, input: &[u8], heard: &mut Response) -> Result<Option<(usize, Option<Chunk>)>, Failure> {
    let Some(&byte) = input.first() else { return Ok(None) };
    let (taken, next) = match chunk {
        Chunk::Size { value, digits } => match (byte, (byte as char).to_digit(16)) {
            (_, Some(digit)) if digits < 15 => {
                (1, Chunk::Size { value: value << 4 | u64::from(digit), digits: digits + 1 })
            }
            (b'\n', _) if digits > 0 => (1, after_size(value)),
            (b'\r' | b';' | b' ' | b'\t', None) if digits > 0 => (1, Chunk::Extension { value, line: 0 }),
            _ => return Err(Failure::Malformed),
        },
        Chunk::Extension { value, .. } if byte == b'\n' => (1, after_size(value)),
        Chunk::Extension { value, line } if line < LONGEST_LINE => (1, Chunk::Extension { value, line: line + 1 }),
        Chunk::Extension { .. } => return Err(Failure::HeadTooLarge),
        Chunk::Data(left) => {
            let part = &input[..input.len().min(usize::try_from(left).unwrap_or(usize::MAX))];
            heard.body(part)?;
            let left = left - part.len() as u64;
            (part.len(), if left == 0 { Chunk::DataEnd } else { Chunk::Data(left) })
        }
        Chunk::DataEnd => match byte {
            b'\r' => (1, Chunk::DataEnd),
            b'\n' => (1, Chunk::Size { value: 0, digits: 0 }),
            _ => return Err(Failure::Malformed),
        },
        Chunk::Trailer { line: 0, .. } if byte == b'\n' => return Ok(Some((1, None))),
        Chunk::Trailer { total: LONGEST_LINE, .. } => return Err(Failure::HeadTooLarge),
        Chunk::Trailer { total, .. } if byte == b'\n' => (1, Chunk::Trailer { line: 0, total: total + 1 }),
        Chunk::Trailer { line, total } if byte == b'\r' => (1, Chunk::Trailer { line, total: total + 1 }),
        Chunk::Trailer { line, total } => (1, Chunk::Trailer { line: line + 1, total: total + 1 }),
    };
    Ok(Some((taken, Some(next))))
}

fn after_size(value: u64) -> Chunk {
    if value == 0 { Chunk::Trailer { line: 0, total: 0 } } else { Chunk::Data(value) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::response::Keep;
    use proptest::prelude::*;

    /// All answers in `stream`, fed in pieces of `size`: statuses and bodies, or the failure.
    fn answers(stream: &[u8], size: usize) -> Result<Vec<(u16, Vec<u8>)>, Failure> {
        let (mut reader, mut heard, mut found) = (Reader::default(), Response::default(), Vec::new());
        let mut known = Known::default();
        heard.keep = Keep::Body;
        for piece in stream.chunks(size.max(1)) {
            let mut rest = piece;
            while !rest.is_empty() {
                match reader.feed(rest, &mut heard, &mut known)? {
                    Fed::More => break,
                    Fed::Done(taken, _) => {
                        found.push((heard.status, heard.body.clone()));
                        heard.reset();
                        heard.keep = Keep::Body;
                        rest = &rest[taken..];
                    }
                }
            }
        }
        if !reader.is_fresh() && reader.end().is_ok() {
            found.push((heard.status, heard.body.clone()));
        }
        Ok(found)
    }

    const STREAM: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhelloHTTP/1.1 100 Continue\r\n\r\n\
        HTTP/1.1 404 Not Found\r\ntransfer-encoding: chunked\r\n\r\n4;x=y\r\nWiki\r\n6\r\npedia \r\n0\r\nEtag: 1\r\n\r\n\
        HTTP/1.1 204 No Content\r\n\r\nHTTP/1.0 200 OK\r\n\r\nto the end";

    #[test]
    fn answers_are_the_same_in_pieces_of_any_size() {
        let whole = vec![
            (200, b"hello".to_vec()),
            (404, b"Wikipedia ".to_vec()),
            (204, Vec::new()),
            (200, b"to the end".to_vec()),
        ];
        for size in 1..=STREAM.len() {
            assert_eq!(answers(STREAM, size), Ok(whole.clone()), "in pieces of {size}");
        }
    }

    #[test]
    fn what_is_no_http_is_malformed() {
        for garbage in [
            "SSH-2.0-OpenSSH_9.2\r\n",
            "HTTP/1.1 2x0 OK\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n",
            "HTTP/1.1 101 Switching Protocols\r\n\r\n",
        ] {
            assert_eq!(answers(garbage.as_bytes(), 1000), Err(Failure::Malformed), "{garbage}");
        }
    }

    #[test]
    fn nothing_goes_on_for_ever() {
        let head = [&b"HTTP/1.1 200 OK\r\n"[..], &b"X-Endless: yes\r\n".repeat(10_000)].concat();
        let long = [&b"HTTP/1.1 200 OK\r\nX: "[..], &vec![b'x'; 2 * LONGEST_HEAD]].concat();
        let chunk = [&b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;"[..], &vec![b'x'; 10_000]].concat();
        let trailer = [&b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n"[..], &b"A: b\r\n".repeat(2000)];
        for endless in [head, long, chunk, trailer.concat()] {
            for size in [700, 1 << 20] {
                assert_eq!(answers(&endless, size), Err(Failure::HeadTooLarge));
            }
        }
        let interim = b"HTTP/1.1 103 Early Hints\r\n\r\n".repeat(usize::from(MOST_INTERIM) + 1);
        for size in [1, 700, 1 << 20] {
            assert_eq!(answers(&interim, size), Err(Failure::Flood));
        }
        assert_eq!(answers(&[&interim[28..], b"HTTP/1.1 204 Done\r\n\r\n"].concat(), 99).map(|all| all.len()), Ok(1));
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn mutated_answers_never_panic_and_pieces_do_not_matter(
            changes in proptest::collection::vec((0..STREAM.len(), any::<u8>()), 0..6), size in 1..60_usize,
        ) {
            let mut stream = STREAM.to_vec();
            for (at, byte) in changes {
                stream[at] = byte;
            }
            let (whole, pieces) = (answers(&stream, stream.len()), answers(&stream, size));
            // The other way round, a trickled head is only judged at the end of its line.
            if whole.is_ok() {
                prop_assert_eq!(whole, pieces);
            }
        }
    }
}
