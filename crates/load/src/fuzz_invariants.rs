//! What must hold of any bytes at all that a server may send or somebody may write into a scenario: for fuzzers and tests.
//!
//! Each function takes any bytes and panics when something does not hold; nothing else in the crate uses them.

use crate::failure::Failure;
use crate::hpack;
use crate::http1::{Fed, Known, LONGEST_HEAD, Reader};
use crate::http2::{Block, Event, Listeners, Session};
use crate::response::{Keep, MOST_KEPT, Response};
use crate::scenario::file;
use std::path::Path;

/// Answers in HTTP/1.1: read without a panic, in pieces of any size alike, and nothing is kept beyond its bounds.
///
/// # Panics
/// When that does not hold.
pub fn http1(data: &[u8]) {
    let (size, stream) = data.split_first().map_or((1, data), |(size, stream)| (usize::from(*size) + 1, stream));
    let mut known = Known::default();
    let whole = answers(stream, stream.len(), &mut known);
    // What was learnt from the whole changes nothing.
    assert_eq!(whole, answers(stream, stream.len(), &mut known), "heard again");
    let pieces = answers(stream, size, &mut known);
    // The other way round, a trickled head is only judged at the end of its line.
    if whole.is_ok() {
        assert_eq!(whole, pieces, "in pieces of {size}");
    }
}

fn answers(stream: &[u8], size: usize, known: &mut Known) -> Result<Vec<(u16, Vec<u8>)>, Failure> {
    let (mut reader, mut heard, mut found) = (Reader::default(), fresh(), Vec::new());
    for piece in stream.chunks(size.max(1)) {
        let mut rest = piece;
        while !rest.is_empty() {
            match reader.feed(rest, &mut heard, known)? {
                Fed::More => break,
                Fed::Done(taken, _) => {
                    assert!((1..=rest.len()).contains(&taken), "an answer of {taken} of {} bytes", rest.len());
                    found.push((heard.status, std::mem::take(&mut heard.body)));
                    heard = fresh();
                    rest = &rest[taken..];
                }
            }
        }
        bounded(&heard);
    }
    Ok(found)
}

fn fresh() -> Response {
    Response { keep: Keep::Body, keep_head: true, ..Response::default() }
}

fn bounded(heard: &Response) {
    assert!(heard.head.len() <= 2 * LONGEST_HEAD && heard.body.len() as u64 <= MOST_KEPT);
}

struct Table(Vec<Response>);

impl Listeners for Table {
    fn heard(&mut self, actor: u32) -> &mut Response {
        &mut self.0[actor as usize]
    }
}

/// What a session came to: its outcome, what became of its streams, statuses and bodies.
type Outcome = (Result<(), Failure>, Vec<Event>, Vec<(u16, Vec<u8>)>);

/// Frames of HTTP/2: read without a panic, in pieces of any size alike, whether heads are kept or those that repeat passed over,
/// and neither what is kept nor what is answered grows beyond its bounds.
///
/// # Panics
/// When that does not hold.
pub fn http2(data: &[u8]) {
    let (size, stream) = data.split_first().map_or((1, data), |(size, stream)| (usize::from(*size) + 1, stream));
    let whole = session(stream, stream.len(), true);
    let pieces = session(stream, size, true);
    assert_eq!(whole, pieces, "in pieces of {size}");
    assert_eq!(whole, session(stream, stream.len(), false), "without their heads");
}

fn session(stream: &[u8], size: usize, keep_head: bool) -> Outcome {
    let mut session = Session::new(10);
    let mut table = Table((0..3).map(|_| Response { keep_head, ..fresh() }).collect());
    let mut block = Vec::new();
    hpack::encode(b":method", b"GET", &mut block);
    session.request(0, Block::Once(&block), None);
    session.request(1, Block::Once(&block), Some(vec![7; 70_000].into()));
    session.request(2, Block::Once(&block), None);
    let mut events = Vec::new();
    let mut outcome = Ok(());
    for piece in stream.chunks(size.max(1)) {
        outcome = outcome.and_then(|()| session.feed(piece, &mut table, &mut events));
    }
    session.fill(0);
    let ended = |event: &&Event| !matches!(event, Event::Data(_));
    assert!(events.iter().filter(ended).count() <= 3, "each stream ends once: {events:?}");
    assert!(session.out.len() <= 80_000 + 4 * stream.len(), "{} bytes to answer {}", session.out.len(), stream.len());
    table.0.iter().for_each(bounded);
    let heard = table.0.iter_mut().map(|heard| (heard.status, std::mem::take(&mut heard.body))).collect();
    (outcome, events, heard)
}

/// A scenario file: read without a panic, or refused with lines that exist and remedies that say something.
///
/// # Panics
/// When that does not hold.
pub fn scenario(data: &[u8]) {
    let Err(problems) = file::parse("fuzz.toml", data, Some("http://127.0.0.1:1"), Path::new("/nowhere")) else {
        return;
    };
    let lines = data.iter().filter(|&&byte| byte == b'\n').count() + 1;
    assert!(!problems.list.is_empty(), "refused without a word");
    for problem in &problems.list {
        assert!(problem.line <= lines, "line {} of {lines}: {problem:?}", problem.line);
        assert!(!problem.what.trim().is_empty() && !problem.remedy.trim().is_empty(), "{problem:?}");
    }
    assert!(problems.list.is_sorted_by_key(|problem| problem.line), "not in the order of lines: {problems}");
}
