//! Servers among the programs of other people, under the load engine: it runs natively wherever the server runs.
//!
//! The engine requests one page after the other, each so many times over connections that stay open. Every request must be answered with the page.

use crate::cases::{Case, ONE_PROCESS, Page, nginx};
use crate::programs::difference;
use crate::support::has_kvm;
use baremark_load::document::{Document, Ended};
use baremark_load::load::{Drive, Engine, Load, Pin, Progress, Stop};
use baremark_load::scenario::Scenario;
use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read, Write};
use std::iter;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// How long a server may take to listen.
const START: Duration = Duration::from_secs(10);
/// The time between two attempts to reach it.
const BETWEEN: Duration = Duration::from_millis(2);
/// How long a single answer may take.
const ANSWER: Duration = Duration::from_secs(10);
const CONNECTIONS: usize = 16;
/// Of an answer that is no page, the bytes that are told.
const SHOWN: usize = 200;

/// A port that nobody listens on and that no other call is given, below those that the kernel gives to clients.
pub fn free_port() -> u16 {
    static GIVEN: AtomicU32 = AtomicU32::new(0);
    let candidate = || std::process::id() % 3_000 + GIVEN.fetch_add(1, Ordering::Relaxed) % 3_000;
    let mut ports = iter::repeat_with(|| u16::try_from(12_000 + candidate()).unwrap()).take(3_000);
    ports.find(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok()).unwrap()
}

/// What came of the requests for all pages, one line for each page: the same wherever the server runs. An answer that is not the page is an error,
/// and so is a load that takes longer than the limit.
pub fn asked(pages: &[Page], port: u16, folder: &Path, limit: Duration) -> Result<String, String> {
    let began = Instant::now();
    let mut lines = String::new();
    for page in pages {
        let name = page.bytes.to_string();
        let kept = fs::read(folder.join(&name)).map_err(|why| format!("the file {name}: {why}"))?;
        if fetched(port, &name)? != kept {
            return Err(format!("the page {name} has other bytes than its file"));
        }
        lines += &loaded(port, page, began, limit)?;
    }
    Ok(lines)
}

/// A connection, as soon as the server listens.
fn connected(port: u16) -> Result<TcpStream, String> {
    let began = Instant::now();
    loop {
        match TcpStream::connect((Ipv4Addr::LOCALHOST, port)) {
            Ok(stream) => return Ok(stream),
            Err(why) if began.elapsed() >= START => {
                return Err(format!("nothing listens on port {port} within {} s: {why}", START.as_secs()));
            }
            Err(_) => thread::sleep(BETWEEN),
        }
    }
}

/// The body of one answer.
fn fetched(port: u16, name: &str) -> Result<Vec<u8>, String> {
    let mut stream = connected(port)?;
    let mut answered = || -> io::Result<Vec<u8>> {
        let mut answer = Vec::new();
        stream.set_read_timeout(Some(ANSWER))?;
        stream.write_all(format!("GET /{name} HTTP/1.0\r\n\r\n").as_bytes())?;
        stream.read_to_end(&mut answer)?;
        Ok(answer)
    };
    let mut answer = answered().map_err(|why| format!("the page {name}: {why}"))?;
    match answer.windows(4).position(|window| window == b"\r\n\r\n") {
        Some(end) if answer.starts_with(b"HTTP/1.1 200 ") => Ok(answer.split_off(end + 4)),
        _ => {
            answer.truncate(SHOWN);
            Err(format!("the page {name} is answered with {:?}", String::from_utf8_lossy(&answer)))
        }
    }
}

/// What came of the requests for one page, by the engine's own counts.
fn loaded(port: u16, page: &Page, began: Instant, limit: Duration) -> Result<String, String> {
    let Page { bytes, requests } = page;
    let scenario = Scenario::of_url(&format!("http://127.0.0.1:{port}/{bytes}")).map_err(|why| why.to_string())?;
    let mut load = Load::new(scenario, Drive::Closed, Stop::Count(*requests));
    load.connections = CONNECTIONS;
    load.pin = Pin::Free;
    let interrupt = Arc::new(AtomicBool::new(false));
    let engine = Engine::new(load, Arc::clone(&interrupt)).map_err(|why| why.to_string())?;
    let mut each_second = |_: &Progress| interrupt.store(began.elapsed() >= limit, Ordering::Relaxed);
    let part = engine.run(&mut each_second).map_err(|why| why.to_string())?;
    let document = Document::new(engine.load(), &part);
    let Document { ended, failures, failure_examples, statuses, counts, .. } = &document;
    let all_came = *ended == Ended::Complete && failures.is_empty() && counts.received_bytes > bytes * requests;
    if all_came && *statuses == BTreeMap::from([(200, *requests)]) {
        let received = counts.received_bytes;
        return Ok(format!(
            "{requests} requests for {bytes} bytes: all answered with 200, {received} bytes received\n"
        ));
    }
    let failed = format!("{ended:?}, {statuses:?}, {failures:?}, {failure_examples:?}, {counts:?}");
    Err(format!("{requests} requests for {bytes} bytes: {failed}"))
}

/// A server of the table under few requests.
const BRIEF: Case = nginx("nginx", ONE_PROCESS, &[Page { bytes: 1024, requests: 200 }]);

#[test]
fn a_server_answers_the_load_engine_as_natively() {
    if has_kvm() {
        assert_eq!(difference(&BRIEF, false), None);
    }
}

/// Answers one connection.
fn answering(answer: &'static [u8]) -> (u16, thread::JoinHandle<()>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        assert!(stream.read(&mut [0; 256]).unwrap() > 0);
        stream.write_all(answer).unwrap();
    });
    (port, server)
}

#[test]
fn an_answer_that_is_not_the_page_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("4"), "page").unwrap();
    let pages = [Page { bytes: 4, requests: 1 }];
    for (answer, expected) in [
        (&b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nothe"[..], "the page 4 has other bytes than its file"),
        (b"HTTP/1.1 404 No\r\n\r\n", "the page 4 is answered with \"HTTP/1.1 404 No\\r\\n\\r\\n\""),
    ] {
        let (port, server) = answering(answer);
        let why = asked(&pages, port, folder.path(), START).unwrap_err();
        assert_eq!(why, expected);
        server.join().unwrap();
    }
}
