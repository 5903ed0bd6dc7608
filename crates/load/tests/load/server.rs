//! A server whose conduct is a function from the request to what is done to the connection.

use baremark_load::document::Document;
use baremark_load::load::{Drive, Engine, Load, Pin, Stop};
use baremark_load::scenario::Scenario;
use baremark_model::units::Nanos;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// A request as the server saw it.
pub(crate) struct Request {
    /// Method and path.
    pub(crate) line: String,
    /// The whole head.
    pub(crate) head: String,
    /// The body.
    pub(crate) body: Vec<u8>,
}

/// A listening server; it stops with the test.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    stop: Arc<AtomicBool>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = TcpStream::connect(self.address);
    }
}

/// What becomes of the connection after an answer.
#[derive(PartialEq, Eq)]
pub(crate) enum Then {
    Keep,
    Close,
}

/// Serves each connection on a thread of its own.
pub(crate) fn serve(conduct: impl Fn(&Request, &mut TcpStream) -> Then + Send + Sync + 'static) -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    let conduct = Arc::new(conduct);
    thread::spawn(move || {
        for stream in listener.incoming() {
            if stopped.load(Ordering::Relaxed) {
                return;
            }
            let (Ok(mut stream), conduct) = (stream, Arc::clone(&conduct)) else { continue };
            thread::spawn(move || {
                stream.set_nodelay(true).unwrap();
                stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
                while let Some(request) = read_request(&mut stream) {
                    if conduct(&request, &mut stream) == Then::Close {
                        return;
                    }
                }
            });
        }
    });
    Server { address, stop }
}

fn read_request(stream: &mut impl Read) -> Option<Request> {
    let mut head = Vec::new();
    let mut byte = [0_u8; 1];
    while !head.ends_with(b"\r\n\r\n") {
        if stream.read(&mut byte).ok()? == 0 {
            return None;
        }
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).unwrap();
    let length =
        head.lines().find_map(|line| line.strip_prefix("Content-Length: ")).map_or(0, |text| text.parse().unwrap());
    let mut body = vec![0; length];
    stream.read_exact(&mut body).ok()?;
    let line = head.lines().next().unwrap().trim_end_matches(" HTTP/1.1").to_owned();
    Some(Request { line, head, body })
}

/// A plain answer.
pub(crate) fn answer(stream: &mut impl Write, status: u16, headers: &str, body: &str) -> Then {
    let text = format!("HTTP/1.1 {status} X\r\nContent-Length: {}\r\n{headers}\r\n{body}", body.len());
    if stream.write_all(text.as_bytes()).is_ok() { Then::Keep } else { Then::Close }
}

/// A server that answers everything at once.
pub(crate) fn prompt() -> Server {
    serve(|_, stream| answer(stream, 200, "", "hello"))
}

pub(crate) fn ms(ms: u64) -> Nanos {
    Nanos(ms * 1_000_000)
}

/// A load on a server for so long, with timeouts that only a hang reaches, and unpinned: test machines are busy.
pub(crate) fn load(server: SocketAddr, drive: Drive, lasting_ms: u64) -> Load {
    let scenario = Scenario::of_url(&format!("http://{server}/")).unwrap();
    let mut load = Load::new(scenario, drive, Stop::After(ms(lasting_ms)));
    load.connections = 4;
    load.timeout = ms(60_000);
    load.grace = ms(300);
    load.pin = Pin::Free;
    load
}

pub(crate) fn run(load: Load) -> Document {
    let engine = Engine::new(load, Arc::default()).unwrap();
    let part = engine.run(&mut |_| {}).unwrap();
    Document::new(engine.load(), &part)
}
