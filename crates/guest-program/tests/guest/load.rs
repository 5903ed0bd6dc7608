//! Servers under the load engine: it runs natively wherever the server runs.
//!
//! The engine requests one page after the other, each so many times over connections that stay open. Every request must be answered with the page.

use crate::cases::Page;
use baremark_load::document::{Document, Ended};
use baremark_load::load::{Drive, Engine, Load, Pin, Progress, Stop};
use baremark_load::scenario::Scenario;
use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// How long a server may take to listen.
pub const START: Duration = Duration::from_secs(60);
/// The time between two attempts to reach it.
const BETWEEN: Duration = Duration::from_millis(2);
/// How long a single answer may take.
const ANSWER: Duration = Duration::from_secs(60);
const CONNECTIONS: usize = 16;
/// Of an answer that is no page, the bytes that are told.
const SHOWN: usize = 200;

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
