//! Hostile servers of HTTP/1.1.

use super::{Asks, Case, Speaks, forever, silence, slowly};
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};

const OK: &[u8] = b"HTTP/1.1 200 OK\r\n";
const CHUNKED: &[u8] = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";

/// Reads the head of a request.
fn asked(stream: &mut TcpStream) -> io::Result<()> {
    let mut end = [0; 4];
    while &end != b"\r\n\r\n" {
        let mut byte = [0];
        stream.read_exact(&mut byte)?;
        end.rotate_left(1);
        end[3] = byte[0];
    }
    Ok(())
}

/// Answers each request with these bytes.
fn each(stream: &mut TcpStream, answer: &[u8]) -> io::Result<()> {
    loop {
        asked(stream)?;
        stream.write_all(answer)?;
    }
}

/// Answers a request with these bytes and stays.
fn once(stream: &mut TcpStream, answer: &[u8]) -> io::Result<()> {
    asked(stream)?;
    stream.write_all(answer)?;
    silence(stream)
}

/// Answers a request with these bytes and then the same again and again.
fn on(stream: &mut TcpStream, first: &[u8], again: &[u8]) -> io::Result<()> {
    asked(stream)?;
    stream.write_all(first)?;
    forever(stream, again)
}

/// Answers a request with these bytes and leaves.
fn off(stream: &mut TcpStream, answer: &[u8]) -> io::Result<()> {
    asked(stream)?;
    stream.write_all(answer)?;
    stream.shutdown(Shutdown::Both)
}

fn answer(headers: &str, body: &[u8]) -> Vec<u8> {
    [format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n{headers}\r\n", body.len()).as_bytes(), body].concat()
}

type Conduct = fn(&mut TcpStream) -> io::Result<()>;

fn case(name: &'static str, kinds: &'static [&'static str], conduct: Conduct) -> Case {
    Case { name, speaks: Speaks::Http1, asks: Asks::Page, kinds, conduct }
}

fn taking(name: &'static str, more: &'static str, kinds: &'static [&'static str], conduct: Conduct) -> Case {
    Case { asks: Asks::Taking(more), ..case(name, kinds, conduct) }
}

pub(super) fn cases() -> Vec<Case> {
    [heads(), lengths(), chunks(), ends(), floods(), bodies()].into_iter().flatten().collect()
}

fn heads() -> Vec<Case> {
    vec![
        case("endless header lines", &["head-too-large"], |stream| on(stream, OK, b"X-And-On: and on and on\r\n")),
        case("an endless header line", &["head-too-large"], |stream| on(stream, b"HTTP/1.1 200 OK\r\nX: ", b"xxxx")),
        case("an endless header name", &["head-too-large"], |stream| on(stream, OK, b"xxxx")),
        case("an endless reason", &["head-too-large"], |stream| on(stream, b"HTTP/1.1 200 ", b"because ")),
        case("endless blank lines before the head", &["head-too-large", "malformed"], |stream| {
            on(stream, b"", b"\r\n")
        }),
        case("a thousand short headers", &["head-too-large"], |stream| {
            once(stream, &[OK, &b"a:b\r\n".repeat(1000), b"\r\n"].concat())
        }),
        case("a head byte by byte", &["timeout"], |stream| {
            asked(stream)?;
            slowly(stream, OK.iter().copied().chain(std::iter::repeat(b'x')))
        }),
        case("garbage", &["malformed"], |stream| once(stream, b"\x00\x01\x02 this is no http\r\n\r\n")),
        case("endless garbage", &["malformed", "head-too-large"], |stream| on(stream, b"", b"\xff\xfe")),
        case("a TLS alert", &["malformed"], |stream| once(stream, b"\x15\x03\x01\x00\x02\x02\x28\r\n\r\n")),
        case("another protocol", &["malformed"], |stream| once(stream, b"SSH-2.0-OpenSSH_9.2\r\n")),
        case("HTTP of another version", &["malformed"], |stream| once(stream, b"HTTP/9.7 200 OK\r\n\r\n")),
        case("frames of HTTP/2", &["malformed"], |stream| once(stream, b"\0\0\0\x04\0\0\0\0\0\0\0\0\x04\x01\0\0\0\0")),
        case("a zero byte in a header", &["malformed"], |stream| once(stream, b"HTTP/1.1 200 OK\r\nA: b\0c\r\n\r\n")),
        case("a folded header", &["malformed"], |stream| once(stream, b"HTTP/1.1 200 OK\r\nA: b\r\n c\r\n\r\n")),
        case("a status of letters", &["malformed"], |stream| once(stream, b"HTTP/1.1 abc OK\r\n\r\n")),
        case("status 000", &["malformed"], |stream| once(stream, b"HTTP/1.1 000 OK\r\n\r\n")),
        case("status 999", &["status"], |stream| each(stream, b"HTTP/1.1 999 Odd\r\nContent-Length: 0\r\n\r\n")),
        case("other protocols agreed on", &["malformed"], |stream| {
            once(stream, b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n")
        }),
        case("more cookies than anybody keeps", &[], |stream| {
            let cookies: String = (0..100).map(|at| format!("Set-Cookie: c{at}={}\r\n", "x".repeat(500))).collect();
            each(stream, &answer(&cookies, b""))
        }),
        case("a redirect to itself", &[], |stream| {
            each(stream, b"HTTP/1.1 302 Found\r\nLocation: /\r\nContent-Length: 0\r\n\r\n")
        }),
    ]
}

fn lengths() -> Vec<Case> {
    vec![
        case("a length beyond all numbers", &["malformed"], |stream| {
            once(stream, b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n")
        }),
        case("a length below zero", &["malformed"], |stream| {
            once(stream, b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n")
        }),
        case("an empty length", &["malformed"], |stream| once(stream, b"HTTP/1.1 200 OK\r\nContent-Length: \r\n\r\n")),
        case("two lengths", &["malformed"], |stream| {
            once(stream, b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello")
        }),
        case("an absurd length and nothing", &["timeout"], |stream| {
            once(stream, b"HTTP/1.1 200 OK\r\nContent-Length: 100000000000000000\r\n\r\n")
        }),
        case("an absurd length at full speed", &["timeout", "oversized"], |stream| {
            on(stream, b"HTTP/1.1 200 OK\r\nContent-Length: 100000000000000000\r\n\r\n", &[b'x'; 4096])
        }),
        case("a body until the end that does not come", &["timeout", "oversized"], |stream| {
            on(stream, b"HTTP/1.1 200 OK\r\n\r\n", &[b'x'; 4096])
        }),
        case("a body byte by byte", &["timeout"], |stream| {
            asked(stream)?;
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")?;
            slowly(stream, std::iter::repeat(b'x'))
        }),
        case("an encoding that nobody knows", &["malformed"], |stream| {
            once(stream, b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n")
        }),
        case("a length and chunks of another", &["timeout"], |stream| {
            once(stream, b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\nabc")
        }),
    ]
}

fn chunks() -> Vec<Case> {
    vec![
        case("chunks without end", &["timeout", "oversized"], |stream| {
            on(stream, CHUNKED, &[b"1000\r\n", &[b'x'; 4096][..], b"\r\n"].concat())
        }),
        case("chunks of a byte without end", &["timeout"], |stream| on(stream, CHUNKED, b"1\r\nx\r\n")),
        case("one chunk of all bytes there are", &["timeout", "oversized"], |stream| {
            on(stream, &[CHUNKED, b"ffffffffffffff\r\n"].concat(), &[b'x'; 4096])
        }),
        case("a chunk beyond all numbers", &["malformed"], |stream| {
            once(stream, &[CHUNKED, b"fffffffffffffffff\r\n"].concat())
        }),
        case("a chunk without size", &["malformed"], |stream| once(stream, &[CHUNKED, b"\r\nx"].concat())),
        case("a chunk's size of zeros without end", &["malformed"], |stream| on(stream, CHUNKED, b"0")),
        case("an endless chunk extension", &["head-too-large"], |stream| {
            on(stream, &[CHUNKED, b"1;"].concat(), b"name=value;")
        }),
        case("endless trailers", &["head-too-large"], |stream| on(stream, &[CHUNKED, b"0\r\n"].concat(), b"A: b\r\n")),
        case("no line's end after a chunk", &["malformed"], |stream| {
            once(stream, &[CHUNKED, b"3\r\nabcdef\r\n"].concat())
        }),
    ]
}

fn ends() -> Vec<Case> {
    vec![
        case("silence", &["timeout"], silence),
        case("neither reading nor writing", &["timeout"], |stream| {
            let _ = stream.peek(&mut [0])?;
            // Ends with the load: by then the kernel has nothing to deliver to.
            while stream.write(&[]).is_ok() && stream.take_error()?.is_none() && stream.peek(&mut [0; 2])? > 1 {
                std::thread::sleep(std::time::Duration::from_millis(20));
            }
            Ok(())
        }),
        case("closed when it has been accepted", &["closed-early", "reset"], |_| Ok(())),
        case("closed after the request", &["closed-early", "reset"], |stream| off(stream, b"")),
        case("closed in the status line", &["closed-early"], |stream| off(stream, b"HTTP/1.1 2")),
        case("closed in the headers", &["closed-early"], |stream| off(stream, b"HTTP/1.1 200 OK\r\nContent-Le")),
        case("closed after an interim answer", &["closed-early"], |stream| {
            off(stream, b"HTTP/1.1 103 Early Hints\r\n\r\n")
        }),
        case("closed in the body", &["closed-early"], |stream| {
            off(stream, b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nnot fifty")
        }),
        case("closed in a chunk's size", &["closed-early"], |stream| off(stream, &[CHUNKED, b"1"].concat())),
        case("closed in a chunk", &["closed-early"], |stream| off(stream, &[CHUNKED, b"ff\r\nabc"].concat())),
        case("closed before the trailers", &["closed-early"], |stream| {
            off(stream, &[CHUNKED, b"1\r\nx\r\n0\r\n"].concat())
        }),
        case("reset in the body", &["closed-early", "reset"], |stream| {
            // What is left unread when it is dropped makes the kernel reset the connection.
            let mut first = [0];
            stream.read_exact(&mut first)?;
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nnot fifty")
        }),
        case("garbage after an answer", &[], |stream| {
            each(stream, &[&answer("", b"hello")[..], b"\x00\xff garbage"].concat())
        }),
        case("answers that nobody asked for", &[], |stream| {
            asked(stream)?;
            forever(stream, &answer("", b"hello"))
        }),
    ]
}

fn floods() -> Vec<Case> {
    vec![
        case("interim answers without end", &["flood"], |stream| on(stream, b"", b"HTTP/1.1 100 Continue\r\n\r\n")),
        case("long interim answers without end", &["flood"], |stream| {
            on(stream, b"", &[b"HTTP/1.1 103 Early Hints\r\nLink: ", &[b'x'; 8000][..], b"\r\n\r\n"].concat())
        }),
        Case {
            asks: Asks::Upload,
            ..case("an upload that nobody reads", &["timeout"], |stream| {
                let _ = stream.peek(&mut [0])?;
                // Until the load has closed it.
                let mut last = 0;
                while let Ok(count) = stream.peek(&mut [0; 1]) {
                    last += 1;
                    if count == 0 || last > 50 {
                        break;
                    }
                    std::thread::sleep(std::time::Duration::from_millis(20));
                }
                Ok(())
            })
        },
        taking("server-sent events without end", "events_for = \"50 ms\"", &[], |stream| {
            on(stream, b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n", b"data: x\n\n")
        }),
        taking("a server-sent event without end", "events = 5", &["oversized"], |stream| {
            on(stream, b"HTTP/1.1 200 OK\r\n\r\n", b"data: and on\n")
        }),
        taking("a line of events without end", "events = 5", &["oversized"], |stream| {
            on(stream, b"HTTP/1.1 200 OK\r\n\r\n", &[b'x'; 4096])
        }),
        taking("comments instead of events", "events_for = \"50 ms\"", &[], |stream| {
            on(stream, b"HTTP/1.1 200 OK\r\n\r\n", b":\n\n")
        }),
    ]
}

/// A JSON text of about this many bytes.
fn list(item: &str, bytes: usize) -> Vec<u8> {
    let items = vec![item; bytes / (item.len() + 1)].join(",");
    format!("[{items}]").into_bytes()
}

const KEPT: usize = 12 << 20;

fn bodies() -> Vec<Case> {
    vec![
        taking(
            "a body larger than what is kept",
            "extract = { into = \"x\", regex = \"y\" }",
            &["oversized"],
            |stream| on(stream, b"HTTP/1.1 200 OK\r\nContent-Length: 999999999\r\n\r\n", &[b'x'; 4096]),
        ),
        taking(
            "bytes in place of compressed ones",
            "extract = { into = \"x\", json = \"a\" }",
            &["not-found"],
            |stream| {
                // A gigabyte of zeros in ten blocks: it is taken as it comes.
                each(
                    stream,
                    &answer("Content-Encoding: gzip\r\n", &b"\x1f\x8b\x08\0\0\0\0\0\0\xff\xed\xc1\x01".repeat(1000)),
                )
            },
        ),
        case("a bomb that nobody unpacks", &[], |stream| {
            each(
                stream,
                &answer("Content-Encoding: gzip\r\n", &b"\x1f\x8b\x08\0\0\0\0\0\0\xff\xed\xc1\x01".repeat(1000)),
            )
        }),
        taking(
            "a list of millions",
            "extract = { into = \"x\", json = \"[*]\", pick = \"all\" }",
            &["not-found", "oversized"],
            |stream| each(stream, &answer("", &list("1", KEPT))),
        ),
        taking(
            "a random one of millions",
            "extract = { into = \"x\", json = \"[*]\", pick = \"random\" }",
            &[],
            |stream| each(stream, &answer("", &list("\"\"", KEPT))),
        ),
        taking("a list of lists", "extract = { into = \"x\", json = \"a\" }", &["not-found", "oversized"], |stream| {
            each(stream, &answer("", &list("[]", KEPT)))
        }),
        taking("lists in lists", "extract = { into = \"x\", json = \"[0]\" }", &["not-found", "oversized"], |stream| {
            each(stream, &answer("", &vec![b'['; KEPT]))
        }),
        taking(
            "a value of all that is kept",
            "extract = { into = \"x\", json = \"[0]\" }",
            &["not-found", "oversized"],
            |stream| each(stream, &answer("", &[b"[\"", &vec![b'x'; KEPT][..], b"\"]"].concat())),
        ),
        taking(
            "millions of matches",
            "extract = { into = \"x\", regex = \"x\", pick = \"all\" }",
            &["not-found", "oversized"],
            |stream| each(stream, &answer("", &vec![b'x'; KEPT])),
        ),
        taking(
            "a text that a regular expression looks through for long",
            "extract = { into = \"x\", regex = \"(x+x+)+y\" }",
            &["not-found", "oversized"],
            |stream| each(stream, &answer("", &vec![b'x'; KEPT])),
        ),
        taking("delays in millions", "delay = { json = \"[*]\" }", &[], |stream| {
            each(stream, &answer("", &list("1", KEPT)))
        }),
        taking("values to be told in millions", "tells = \"[*].a\"", &[], |stream| {
            let items: Vec<String> = (0..KEPT / 14).map(|at| format!("{{\"a\":{at}}}")).collect();
            each(stream, &answer("", format!("[{}]", items.join(",")).as_bytes()))
        }),
    ]
}
