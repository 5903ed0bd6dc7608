//! HTTP/2 against servers that break its rules; other people's servers are in another suite.

use crate::server::{load, ms, prompt, run};
use baremark_load::load::{Drive, Load, Protocol, Stop};
use baremark_load::scenario::{Scenario, file};
use baremark_load::transport::Trust;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::thread;

fn http2(address: SocketAddr, url: &str, count: u64, streams: usize) -> Load {
    let scenario = Scenario::of_url(url).unwrap();
    let mut load = Load { scenario, ..load(address, Drive::Closed, 1) };
    load.protocol = Protocol::Http2 { streams };
    load.stop = Stop::Count(count);
    load.connections = 2;
    load.trust = Trust::Anything;
    load
}

#[test]
fn who_does_not_speak_it_is_told_as_such() {
    let plain = prompt();
    let document = run(http2(plain.address, &format!("http://{}/", plain.address), 4, 2));
    assert_eq!(document.failures.keys().collect::<Vec<_>>(), ["no-http2"], "{:?}", document.failure_examples);
}

/// A server that answers with these bytes and then closes.
fn answering(bytes: Vec<u8>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let bytes = bytes.clone();
            thread::spawn(move || {
                let mut heard = [0; 65_536];
                let _ = stream.read(&mut heard);
                let _ = stream.write_all(&bytes);
                while stream.read(&mut heard).is_ok_and(|count| count > 0) {}
            });
        }
    });
    address
}

fn frame(kind: u8, flags: u8, id: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &id.to_be_bytes(), payload].concat()
}

#[test]
fn each_fault_has_its_kind() {
    let settings = frame(4, 0, 0, &[]);
    for (after, kind) in [
        (frame(3, 0, 1, &[0, 0, 0, 2]), "stream-reset"),
        (frame(0, 0, 1, b"data before its head"), "malformed"),
        (vec![0xff; 100], "malformed"),
        (frame(1, 0, 1, &[0x82; 16_384]), "timeout"),
        ([frame(1, 0, 1, &[0; 16_000]), frame(9, 0, 1, &[0; 16_000]).repeat(5)].concat(), "head-too-large"),
    ] {
        let address = answering([settings.clone(), after].concat());
        let mut load = http2(address, &format!("http://{address}/"), 4, 1);
        // Long for what must not come to it.
        load.timeout = ms(if kind == "timeout" { 400 } else { 60_000 });
        // One request a connection: what the first breaks, a second would find broken in its own way.
        load.connections = 4;
        let document = run(load);
        assert_eq!(document.failures.keys().collect::<Vec<_>>(), [kind], "{:?}", document.failure_examples);
    }
}

/// A server that agrees on everything and answers each request with the bytes that `answer` makes from the length of its head and its stream.
fn speaking(answer: impl Fn(usize, u32) -> Vec<u8> + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _ = stream.write_all(&[frame(4, 0, 0, &[]), frame(4, 1, 0, &[])].concat());
            let mut heard = Vec::new();
            let mut piece = [0; 4096];
            while let Ok(count @ 1..) = stream.read(&mut piece) {
                heard.extend_from_slice(&piece[..count]);
                let mut at = if heard.starts_with(b"PRI") { 24 } else { 0 };
                while let Some(head) = heard.get(at..at + 9) {
                    let length = usize::from(head[1]) << 8 | usize::from(head[2]);
                    if heard.len() < at + 9 + length {
                        break;
                    }
                    if head[3] == 1 {
                        let id = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
                        let _ = stream.write_all(&answer(length, id));
                    }
                    at += 9 + length;
                }
                heard.drain(..at);
            }
        }
    });
    address
}

/// Longer than the head of a request with a short path, in bytes.
const LONG: usize = 200;

/// One stream that is never answered ends alone, by its timeout; its neighbours on the connection do not notice. Which requests these are the
/// server sees by the length of their paths.
#[test]
fn a_timeout_ends_its_stream_alone() {
    // Answered with 200 from the static table.
    let address = speaking(|length, id| if length < LONG { frame(1, 5, id, &[0x88]) } else { Vec::new() });
    let nine = "[[operations.all.requests]]\nget = \"/\"\n".repeat(9);
    let path = "x".repeat(2 * LONG);
    let tenth = format!("[[operations.all.requests]]\nget = \"/{path}{{serial}}\"\ntimeout = \"300 ms\"\n");
    let (text, base) = (format!("[operations.all]\n{nine}{tenth}"), format!("http://{address}"));
    let scenario = file::parse("x", text.as_bytes(), Some(&base), ".".as_ref()).unwrap();
    let mut load = Load { scenario, ..http2(address, &base, 6, 4) };
    load.connections = 1;
    let document = run(load);
    assert_eq!(document.failures.keys().collect::<Vec<_>>(), ["timeout"], "{:?}", document.failure_examples);
    assert_eq!((document.counts.connections, document.failures["timeout"]), (1, 6), "{:?}", document.counts);
    assert_eq!(document.statuses[&200], 54);
}

/// A stream of events and its end come in one piece. The end was taken for that of the request after it, which had not been looked at yet.
#[test]
fn the_end_of_a_stream_that_was_left_is_not_that_of_the_next_request() {
    let address =
        speaking(|_, id| [frame(1, 4, id, &[0x88]), frame(0, 0, id, b"data: x\n\n"), frame(0, 1, id, &[])].concat());
    let text = "[[operations.all.requests]]\nget = \"/news\"\nevents = 1\n[[operations.all.requests]]\nget = \"/\"\n";
    let (text, base) = (format!("[operations.all]\n{text}"), format!("http://{address}"));
    let scenario = file::parse("x", text.as_bytes(), Some(&base), ".".as_ref()).unwrap();
    let mut load = Load { scenario, ..http2(address, &base, 20, 2) };
    load.connections = 1;
    let document = run(load);
    assert!(document.failures.is_empty(), "{:?}", document.failure_examples);
    assert_eq!((document.statuses[&200], document.counts.events), (40, 20));
}
