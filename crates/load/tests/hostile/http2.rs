//! Hostile servers of HTTP/2.

use super::{Asks, Case, Speaks, forever, reads_on, silence, slowly};
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};

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
const ACK: u8 = 1;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
const PADDED: u8 = 8;

/// Status 200, from the static table.
const OK: &[u8] = &[0x88];
const ONE: [u8; 4] = 1_u32.to_be_bytes();

fn frame(kind: u8, flags: u8, id: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &id.to_be_bytes(), payload].concat()
}

/// Reads frames up to a request and returns its stream.
fn request(stream: &mut TcpStream) -> io::Result<u32> {
    loop {
        let mut head = [0; 9];
        stream.read_exact(&mut head)?;
        let length = u64::from(head[0]) << 16 | u64::from(head[1]) << 8 | u64::from(head[2]);
        io::copy(&mut (&*stream).take(length), &mut io::sink())?;
        if head[3] == HEADERS {
            return Ok(u32::from_be_bytes([head[5], head[6], head[7], head[8]]));
        }
    }
}

/// Reads what a connection begins with.
fn preface(stream: &mut TcpStream) -> io::Result<()> {
    stream.read_exact(&mut [0; 24])
}

/// Agrees on everything and reads up to the first request, which is on stream 1.
fn asked(stream: &mut TcpStream) -> io::Result<()> {
    preface(stream)?;
    stream.write_all(&[frame(SETTINGS, 0, 0, &[]), frame(SETTINGS, ACK, 0, &[])].concat())?;
    request(stream).map(drop)
}

/// Answers the first request with these bytes and stays.
fn once(stream: &mut TcpStream, answer: &[u8]) -> io::Result<()> {
    asked(stream)?;
    stream.write_all(answer)?;
    silence(stream)
}

/// The same, once more and for ever, reading nothing.
fn on(stream: &mut TcpStream, first: &[u8], again: &[u8]) -> io::Result<()> {
    asked(stream)?;
    stream.write_all(first)?;
    forever(stream, again)
}

/// The same, reading what comes back.
fn on_and_reads(stream: &mut TcpStream, first: &[u8], again: &[u8]) -> io::Result<()> {
    asked(stream)?;
    reads_on(stream)?;
    stream.write_all(first)?;
    forever(stream, again)
}

/// Answers every request with what `answer` makes for its stream.
fn each(stream: &mut TcpStream, answer: fn(u32) -> Vec<u8>) -> io::Result<()> {
    preface(stream)?;
    stream.write_all(&[frame(SETTINGS, 0, 0, &[]), frame(SETTINGS, ACK, 0, &[])].concat())?;
    loop {
        let id = request(stream)?;
        stream.write_all(&answer(id))?;
    }
}

/// Answers the first request with these bytes and leaves.
fn off(stream: &mut TcpStream, answer: &[u8]) -> io::Result<()> {
    asked(stream)?;
    stream.write_all(answer)?;
    stream.shutdown(Shutdown::Both)
}

fn head() -> Vec<u8> {
    frame(HEADERS, END_HEADERS, 1, OK)
}

type Conduct = fn(&mut TcpStream) -> io::Result<()>;

fn case(name: &'static str, kinds: &'static [&'static str], conduct: Conduct) -> Case {
    Case { name, speaks: Speaks::Http2, asks: Asks::Page, kinds, conduct }
}

fn upload(name: &'static str, kinds: &'static [&'static str], conduct: Conduct) -> Case {
    Case { asks: Asks::Upload, ..case(name, kinds, conduct) }
}

pub(super) fn cases() -> Vec<Case> {
    [floods(), blocks(), rules(), ends(), uploads()].into_iter().flatten().collect()
}

fn floods() -> Vec<Case> {
    vec![
        case("empty SETTINGS", &["flood"], |stream| on(stream, b"", &frame(SETTINGS, 0, 0, &[]))),
        case("empty SETTINGS, replies read", &["flood"], |stream| {
            on_and_reads(stream, b"", &frame(SETTINGS, 0, 0, &[]))
        }),
        case("SETTINGS in thousands", &["flood"], |stream| {
            on_and_reads(stream, b"", &frame(SETTINGS, 0, 0, &b"\0\x04\0\0\x01\0".repeat(2730)))
        }),
        case("acknowledged SETTINGS", &["flood"], |stream| on(stream, b"", &frame(SETTINGS, ACK, 0, &[]))),
        case("PING", &["flood"], |stream| on(stream, b"", &frame(PING, 0, 0, b"12345678"))),
        case("PING, replies read", &["flood"], |stream| on_and_reads(stream, b"", &frame(PING, 0, 0, b"12345678"))),
        case("answered PING", &["flood"], |stream| on(stream, b"", &frame(PING, ACK, 0, b"12345678"))),
        case("PRIORITY", &["flood"], |stream| on(stream, b"", &frame(PRIORITY, 0, 1, b"\0\0\0\0\x10"))),
        case("RST_STREAM", &["flood", "stream-reset"], |stream| on(stream, b"", &frame(RST_STREAM, 0, 1, &ONE))),
        case("WINDOW_UPDATE of the connection", &["flood"], |stream| {
            on(stream, b"", &frame(WINDOW_UPDATE, 0, 0, &ONE))
        }),
        case("WINDOW_UPDATE of a stream", &["flood"], |stream| on(stream, b"", &frame(WINDOW_UPDATE, 0, 1, &ONE))),
        case("GOAWAY", &["flood"], |stream| on(stream, b"", &frame(GOAWAY, 0, 0, b"\x7f\xff\xff\xff\0\0\0\0"))),
        case("frames of a kind that nobody knows", &["flood"], |stream| on(stream, b"", &frame(99, 0, 0, b"what?"))),
        case("empty DATA", &["flood"], |stream| on(stream, &head(), &frame(DATA, 0, 1, &[]))),
        case("DATA of padding", &["flood"], |stream| {
            on(stream, &head(), &frame(DATA, PADDED, 1, &[&[200][..], &[0; 200]].concat()))
        }),
        case("empty DATA of a stream that is over", &["flood"], |stream| {
            on(stream, &frame(HEADERS, END_HEADERS | END_STREAM, 1, OK), &frame(DATA, 0, 1, &[]))
        }),
        case("interim answers", &["flood"], |stream| on(stream, b"", &frame(HEADERS, END_HEADERS, 1, b"\x08\x03103"))),
        case("trailers of a stream that is over", &["flood"], |stream| {
            let over = frame(HEADERS, END_HEADERS | END_STREAM, 1, OK);
            on(stream, &over, &over)
        }),
        case("empty CONTINUATION", &["head-too-large"], |stream| {
            on(stream, &frame(HEADERS, 0, 1, &[]), &frame(CONTINUATION, 0, 1, &[]))
        }),
        case("full CONTINUATION", &["head-too-large"], |stream| {
            on(stream, &frame(HEADERS, 0, 1, &[]), &frame(CONTINUATION, 0, 1, &[0; 16_384]))
        }),
        case("DATA without end", &["timeout", "oversized"], |stream| {
            on(stream, &head(), &frame(DATA, 0, 1, &[0; 16_384]))
        }),
        case("DATA of a byte without end", &["timeout"], |stream| on(stream, &head(), &frame(DATA, 0, 1, &[0]))),
        case("DATA of a stream that is over", &["timeout"], |stream| {
            on(stream, &frame(HEADERS, END_HEADERS | END_STREAM, 1, OK), &frame(DATA, 0, 1, &[0; 16_384]))
        }),
        case("PING between bytes", &["timeout", "flood"], |stream| {
            let both = [frame(DATA, 0, 1, &[0]), frame(PING, 0, 0, b"12345678")].concat();
            on(stream, &head(), &both)
        }),
    ]
}

/// A literal field that is added to the table.
fn added(name: &[u8], value: &[u8]) -> Vec<u8> {
    let length = |text: &[u8]| match u8::try_from(text.len()) {
        Ok(short @ ..127) => vec![short],
        _ => vec![
            127,
            u8::try_from((text.len() - 127) & 0x7f).unwrap() | 0x80,
            u8::try_from((text.len() - 127) >> 7).unwrap(),
        ],
    };
    [&[0x40][..], &length(name), name, &length(value), value].concat()
}

fn blocks() -> Vec<Case> {
    vec![
        case("a large field named thousands of times", &["head-too-large"], |stream| {
            let bomb = [OK, &added(b"x", &[b'y'; 3000]), &[0xbe; 10_000]].concat();
            once(stream, &frame(HEADERS, END_HEADERS, 1, &bomb))
        }),
        case("a field that is not in the table", &["malformed"], |stream| {
            once(stream, &frame(HEADERS, END_HEADERS, 1, &[0xbe]))
        }),
        case("field zero", &["malformed"], |stream| once(stream, &frame(HEADERS, END_HEADERS, 1, &[0x80]))),
        case("an index beyond all numbers", &["malformed"], |stream| {
            once(stream, &frame(HEADERS, END_HEADERS, 1, &[0xff; 20]))
        }),
        case("a table larger than was offered", &["malformed"], |stream| {
            once(stream, &frame(HEADERS, END_HEADERS, 1, &[0x3f, 0xff, 0xff, 0x03, 0x88]))
        }),
        case("a text longer than its block", &["malformed"], |stream| {
            once(stream, &frame(HEADERS, END_HEADERS, 1, &[0x88, 0x40, 0x7f, 0xff, 0x03, b'x']))
        }),
        case("no word of Huffman's code", &["malformed"], |stream| {
            once(stream, &frame(HEADERS, END_HEADERS, 1, &[0x88, 0x40, 0x84, 0xff, 0xff, 0xff, 0xff, 0]))
        }),
        case("a table emptied thousands of times", &[], |stream| {
            each(stream, |id| {
                let block = [&[0x20, 0x3f, 0xe1, 0x1f].repeat(4000)[..], OK].concat();
                frame(HEADERS, END_HEADERS | END_STREAM, id, &block)
            })
        }),
        case("a table filled again and again", &[], |stream| {
            each(stream, |id| {
                let block = [OK, &added(&[b'x'; 100], &[b'y'; 3900]).repeat(4)].concat();
                frame(HEADERS, END_HEADERS | END_STREAM, id, &block)
            })
        }),
        case("a block that is never done", &["timeout"], |stream| once(stream, &frame(HEADERS, 0, 1, OK))),
        case("a head of thousands of fields", &["head-too-large"], |stream| {
            once(stream, &frame(HEADERS, END_HEADERS, 1, &[OK, &[0x00, 1, b'a', 0].repeat(4000)].concat()))
        }),
        case("a status of letters in HTTP/2", &["malformed"], |stream| {
            each(stream, |id| frame(HEADERS, END_HEADERS | END_STREAM, id, b"\x08\x03abc"))
        }),
        case("no status", &["malformed"], |stream| {
            each(stream, |id| frame(HEADERS, END_HEADERS | END_STREAM, id, b"\0\x01a\x01b"))
        }),
        case("two statuses", &["malformed"], |stream| {
            each(stream, |id| frame(HEADERS, END_HEADERS | END_STREAM, id, &[0x88, 0x89]))
        }),
    ]
}

fn rules() -> Vec<Case> {
    vec![
        case("a PING before SETTINGS", &["malformed"], |stream| {
            preface(stream)?;
            stream.write_all(&frame(PING, 0, 0, b"12345678"))?;
            silence(stream)
        }),
        case("HTTP/1.1 in return", &["no-http2"], |stream| {
            preface(stream)?;
            stream.write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")?;
            silence(stream)
        }),
        case("bytes of no protocol", &["malformed"], |stream| once(stream, &[0xff; 100])),
        case("a frame of 16 MiB", &["malformed"], |stream| once(stream, b"\xff\xff\xff\0\0\0\0\0\x01")),
        case("a frame longer than was offered", &["malformed"], |stream| {
            once(stream, &[head(), frame(DATA, 0, 1, &[0; 16_385])].concat())
        }),
        case("a frame that is never done", &["timeout"], |stream| once(stream, b"\0\x40\0\x01\x04\0\0\0\x01abc")),
        case("a push", &["malformed"], |stream| once(stream, &frame(PUSH_PROMISE, END_HEADERS, 1, b"\0\0\0\x02\x88"))),
        case("an answer on a stream of its own", &["malformed"], |stream| {
            once(stream, &frame(HEADERS, END_HEADERS | END_STREAM, 2, OK))
        }),
        case("an answer on the connection", &["malformed"], |stream| {
            once(stream, &frame(HEADERS, END_HEADERS | END_STREAM, 0, OK))
        }),
        case("answers before they are asked for", &["malformed"], |stream| {
            asked(stream)?;
            // None of those that a load asks for at once: of these a short load might ask for no more.
            let ahead = (1_000..100_000).map(|at| frame(HEADERS, END_HEADERS | END_STREAM, 1 + 2 * at, OK));
            stream.write_all(&ahead.collect::<Vec<_>>().concat())?;
            silence(stream)
        }),
        case("a body before its head", &["malformed"], |stream| once(stream, &frame(DATA, 0, 1, b"body"))),
        case("padding longer than its frame", &["malformed"], |stream| {
            once(stream, &[head(), frame(DATA, PADDED, 1, b"\xffx")].concat())
        }),
        case("CONTINUATION of nothing", &["malformed"], |stream| {
            once(stream, &frame(CONTINUATION, END_HEADERS, 1, OK))
        }),
        case("another frame within a block", &["malformed"], |stream| {
            once(stream, &[frame(HEADERS, 0, 1, OK), frame(PING, 0, 0, b"12345678")].concat())
        }),
        case("SETTINGS of half a setting", &["malformed"], |stream| once(stream, &frame(SETTINGS, 0, 0, b"\0\x04\0"))),
        case("a first window beyond the largest", &["malformed"], |stream| {
            once(stream, &frame(SETTINGS, 0, 0, b"\0\x04\xff\xff\xff\xff"))
        }),
        case("a window widened by nothing", &["malformed"], |stream| {
            once(stream, &frame(WINDOW_UPDATE, 0, 0, &[0; 4]))
        }),
        case("a window widened beyond the largest", &["malformed"], |stream| {
            once(stream, &frame(WINDOW_UPDATE, 0, 0, &[0x7f, 0xff, 0xff, 0xff]))
        }),
        case("no streams allowed", &["timeout"], |stream| {
            preface(stream)?;
            stream.write_all(&frame(SETTINGS, 0, 0, b"\0\x03\0\0\0\0"))?;
            silence(stream)
        }),
        case("one answer, then no streams allowed", &[], |stream| {
            each(stream, |id| {
                let none = frame(SETTINGS, 0, 0, b"\0\x03\0\0\0\0");
                [none, frame(HEADERS, END_HEADERS | END_STREAM, id, OK)].concat()
            })
        }),
    ]
}

fn ends() -> Vec<Case> {
    vec![
        case("silence of a server of HTTP/2", &["timeout"], silence),
        case("silence after SETTINGS", &["timeout"], |stream| once(stream, b"")),
        case("SETTINGS byte by byte", &["timeout"], |stream| {
            preface(stream)?;
            slowly(stream, frame(SETTINGS, 0, 0, &[0; 6000]))
        }),
        case("closed after the preface", &["closed-early", "reset"], |stream| {
            preface(stream)?;
            stream.shutdown(Shutdown::Both)
        }),
        case("closed in a frame", &["closed-early", "reset"], |stream| off(stream, b"\0\0\x08\x06")),
        case("closed in a block", &["closed-early", "reset"], |stream| off(stream, &frame(HEADERS, 0, 1, OK))),
        case("closed in a body", &["closed-early", "reset"], |stream| {
            off(stream, &[head(), frame(DATA, 0, 1, b"half")].concat())
        }),
        case("every request reset", &["stream-reset"], |stream| each(stream, |id| frame(RST_STREAM, 0, id, &ONE))),
        case("every request refused", &["stream-reset"], |stream| {
            each(stream, |id| frame(RST_STREAM, 0, id, &7_u32.to_be_bytes()))
        }),
        case("HTTP/1.1 wanted for every request", &["no-http2"], |stream| {
            each(stream, |id| frame(RST_STREAM, 0, id, &13_u32.to_be_bytes()))
        }),
        case("goodbye to every request", &["stream-reset", "closed-early", "reset"], |stream| {
            off(stream, &frame(GOAWAY, 0, 0, &[0; 8]))
        }),
        case("goodbye after the last stream, and silence", &["timeout"], |stream| {
            once(stream, &frame(GOAWAY, 0, 0, b"\x7f\xff\xff\xff\0\0\0\0"))
        }),
    ]
}

fn uploads() -> Vec<Case> {
    vec![
        upload("an upload without a window", &["timeout"], |stream| {
            preface(stream)?;
            stream.write_all(&frame(SETTINGS, 0, 0, b"\0\x04\0\0\0\0"))?;
            silence(stream)
        }),
        upload("an upload with windows of any size that nobody reads", &["timeout"], |stream| {
            asked(stream)?;
            let wide = 0x3fff_ffff_u32.to_be_bytes();
            stream.write_all(&frame(SETTINGS, 0, 0, b"\0\x04\x3f\xff\xff\xff"))?;
            stream.write_all(&frame(WINDOW_UPDATE, 0, 0, &wide))?;
            // Until the load has gone: there is always more to be looked at before that.
            let mut seen = 0;
            while stream.peek(&mut [0])? > 0 && seen < 50 {
                std::thread::sleep(std::time::Duration::from_millis(20));
                seen += 1;
            }
            Ok(())
        }),
        upload("an upload byte by byte", &["timeout", "flood"], |stream| {
            asked(stream)?;
            reads_on(stream)?;
            stream.write_all(&frame(SETTINGS, 0, 0, b"\0\x04\0\0\0\0"))?;
            forever(stream, &[frame(WINDOW_UPDATE, 0, 0, &ONE), frame(WINDOW_UPDATE, 0, 1, &ONE)].concat())
        }),
        upload("an upload that is answered before it is read", &[], |stream| {
            each(stream, |id| frame(HEADERS, END_HEADERS | END_STREAM, id, OK))
        }),
    ]
}
