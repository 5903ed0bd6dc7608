//! Servers that mean harm: whatever they send, a load ends in time, stays small, and names what happened.
//!
//! The servers are threads of this process. Each is met by a process of its own, this test program started again, so that
//! its peak memory is that of one load alone. They are a program apart from the other tests: floods take all the CPUs there
//! are, and those tests have timeouts to keep.
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "tests")]

mod http1;
mod http2;
mod tls;

use baremark_load::document::Document;
use baremark_load::load::{Drive, Engine, Load, Pin, Protocol, Stop};
use baremark_load::scenario::file;
use baremark_load::transport::Trust;
use baremark_model::units::Nanos;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// A server, by what it does with one connection.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) speaks: Speaks,
    pub(crate) asks: Asks,
    /// The kinds of failure that it may come to, of which one must occur; none: it is answered.
    pub(crate) kinds: &'static [&'static str],
    pub(crate) conduct: fn(&mut TcpStream) -> io::Result<()>,
}

/// What the load speaks.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Speaks {
    Http1,
    Http2,
    Tls,
}

/// What the load asks for.
#[derive(Clone, Copy)]
pub(crate) enum Asks {
    /// The page, which is counted.
    Page,
    /// An upload of 8 MiB.
    Upload,
    /// The page with more lines for the request's table, such as what is taken from it.
    Taking(&'static str),
}

/// How long a load lasts, and a request may take that is to come to its timeout: longer where much is taken from an answer.
const QUICK_MS: (u64, u64) = (50, 250);
const TAKING_MS: (u64, u64) = (100, 5000);
/// How long a request may take that is to come to another end, and what a busy machine may add.
const LONG_MS: u64 = 60_000;
/// A load that has not ended by then is killed.
const HANGS: Duration = Duration::from_secs(180);
/// The most that a load may grow.
const MOST_KIB: u64 = 256 << 10;
/// Loads at a time.
const AT_A_TIME: usize = 4;

const CASE: &str = "BAREMARK_LOAD_HOSTILE_CASE";
const ADDRESS: &str = "BAREMARK_LOAD_HOSTILE_ADDRESS";
const NAME: &str = "whatever_a_server_does_a_load_ends_in_time_and_stays_small";

impl Case {
    /// How long its load lasts and a request of it may take.
    fn lasting_ms(&self) -> (u64, u64) {
        let (lasting, timeout) = if matches!(self.asks, Asks::Taking(_)) { TAKING_MS } else { QUICK_MS };
        (lasting, if self.kinds.contains(&"timeout") { timeout } else { LONG_MS })
    }
}

fn cases() -> Vec<Case> {
    http1::cases().into_iter().chain(http2::cases()).chain(tls::cases()).collect()
}

#[test]
fn whatever_a_server_does_a_load_ends_in_time_and_stays_small() {
    let cases = cases();
    if let (Ok(case), Ok(address)) = (std::env::var(CASE), std::env::var(ADDRESS)) {
        let case = cases.iter().find(|one| one.name == case).unwrap();
        println!("\nloaded: {}", loaded(case, address.parse().unwrap()));
        return;
    }
    let names: std::collections::BTreeSet<&str> = cases.iter().map(|case| case.name).collect();
    assert_eq!(names.len(), cases.len(), "two cases of one name");
    let (next, wrong) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..AT_A_TIME {
            scope.spawn(|| {
                while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if let Err(why) = meet(case).and_then(|result| judge(case, &result)) {
                        wrong.lock().unwrap().push(format!("{}: {why}", case.name));
                    }
                }
            });
        }
    });
    let wrong = wrong.into_inner().unwrap();
    assert!(wrong.is_empty(), "{} of {} servers:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}

/// Loads a server in this process and reports what became of it.
fn loaded(case: &Case, server: SocketAddr) -> Value {
    let scheme = if case.speaks == Speaks::Tls { "https" } else { "http" };
    let request = match case.asks {
        Asks::Page => "get = \"/\"".to_owned(),
        Asks::Upload => "post = \"/\"\nmultipart = [{ name = \"a\", size = \"8 MiB\" }]".to_owned(),
        Asks::Taking(more) => format!("get = \"/\"\n{more}"),
    };
    let text = format!("[operations.page]\n[[operations.page.requests]]\n{request}\n");
    let base = format!("{scheme}://{server}");
    let scenario = file::parse("hostile.toml", text.as_bytes(), Some(&base), ".".as_ref()).unwrap();
    let (lasting, timeout) = case.lasting_ms();
    let mut load = Load::new(scenario, Drive::Closed, Stop::After(ms(lasting)));
    // What has begun comes to its own end, however late a busy machine let it begin.
    (load.timeout, load.grace) = (ms(timeout), ms(2 * LONG_MS));
    (load.connections, load.trust, load.pin) = (4, Trust::Anything, Pin::Free);
    if case.speaks == Speaks::Http2 {
        load.protocol = Protocol::Http2 { streams: 10 };
    }
    let before = memory("VmRSS");
    let engine = Engine::new(load, Arc::default()).unwrap();
    // A busy machine may let none begin in so short a load; whoever started this process ends it when none ever does.
    let (part, elapsed) = loop {
        let begun = std::time::Instant::now();
        let part = engine.run(&mut |_| {}).unwrap();
        if part.operations[0].intended > 0 {
            break (part, begun.elapsed());
        }
    };
    let elapsed_ms = u64::try_from(elapsed.as_millis()).unwrap();
    let document = Document::new(engine.load(), &part);
    let grown_kib = memory("VmHWM").saturating_sub(before);
    let answered = document.operations[0].succeeded;
    json!({ "elapsed_ms": elapsed_ms, "grown_kib": grown_kib, "answered": answered, "failures": document.failures })
}

fn ms(ms: u64) -> Nanos {
    Nanos(ms * 1_000_000)
}

/// A size of this process in KiB.
fn memory(key: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(key)).unwrap();
    line.trim_matches(|byte: char| !byte.is_ascii_digit()).parse().unwrap()
}

/// Starts the server and a process that loads it.
fn meet(case: &Case) -> Result<Value, String> {
    let server = Server::start(case.conduct);
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([NAME, "--exact", "--nocapture"]).env(CASE, case.name).env(ADDRESS, server.address.to_string());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let (mut out, mut err) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
    let (sender, heard) = channel();
    thread::spawn(move || {
        let (mut text, mut errors) = (String::new(), String::new());
        let _ = out.read_to_string(&mut text);
        let _ = err.read_to_string(&mut errors);
        let _ = sender.send((text, errors));
    });
    let told = heard.recv_timeout(HANGS);
    if told == Err(RecvTimeoutError::Timeout) {
        let size = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
        let size = size.lines().find(|line| line.starts_with("VmHWM")).unwrap_or_default().to_owned();
        let _ = child.kill();
        let _ = child.wait();
        return Err(format!("has not ended after {HANGS:?}; {size}"));
    }
    let status = child.wait().unwrap();
    let (text, errors) = told.unwrap();
    let result = text.lines().find_map(|line| line.strip_prefix("loaded: "));
    let result = result.filter(|_| status.success()).ok_or_else(|| format!("{status}: {text}{errors}"))?;
    serde_json::from_str(result).map_err(|why| why.to_string())
}

fn judge(case: &Case, result: &Value) -> Result<(), String> {
    let (elapsed, grown) = (result["elapsed_ms"].as_u64().unwrap(), result["grown_kib"].as_u64().unwrap());
    let failures: BTreeMap<String, u64> = serde_json::from_value(result["failures"].clone()).unwrap();
    let (lasting, timeout) = case.lasting_ms();
    if elapsed > lasting + timeout + LONG_MS {
        return Err(format!("ended after {elapsed} ms: {result}"));
    }
    if grown > MOST_KIB {
        return Err(format!("grew by {} MiB: {result}", grown >> 10));
    }
    let foreign = failures.keys().find(|kind| !case.kinds.contains(&kind.as_str()));
    let named = case.kinds.iter().any(|kind| failures.contains_key(*kind));
    let expected = if case.kinds.is_empty() { result["answered"].as_u64() > Some(0) } else { named };
    match foreign {
        Some(kind) => Err(format!("failed as '{kind}': {result}")),
        None if expected => Ok(()),
        None => Err(format!("is none of {:?}: {result}", case.kinds)),
    }
}

/// A listening server; it stops with this value, and its connections end with those who made them.
struct Server {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
}

impl Server {
    fn start(conduct: fn(&mut TcpStream) -> io::Result<()>) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if stopped.load(Ordering::Relaxed) {
                    return;
                }
                thread::spawn(move || {
                    let mut stream = stream;
                    // That the other side has gone is how most of them end.
                    let _ = stream.set_nodelay(true).and_then(|()| conduct(&mut stream));
                });
            }
        });
        Server { address, stop }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = TcpStream::connect(self.address);
    }
}

/// Writes the same again and again, until nobody takes it.
pub(crate) fn forever(stream: &mut TcpStream, piece: &[u8]) -> io::Result<()> {
    let many = piece.repeat((64 << 10) / piece.len() + 1);
    loop {
        stream.write_all(&many)?;
    }
}

/// Writes a byte now and then, until nobody takes it.
pub(crate) fn slowly(stream: &mut TcpStream, bytes: impl IntoIterator<Item = u8>) -> io::Result<()> {
    for byte in bytes {
        stream.write_all(&[byte])?;
        thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// Reads what comes until the other side goes.
pub(crate) fn silence(stream: &mut TcpStream) -> io::Result<()> {
    io::copy(stream, &mut io::sink()).map(drop)
}

/// Reads what comes alongside what is written.
pub(crate) fn reads_on(stream: &TcpStream) -> io::Result<()> {
    let mut other = stream.try_clone()?;
    thread::spawn(move || silence(&mut other));
    Ok(())
}
