//! A server whose conduct is a function from the request to what is done to the connection.

use baremark_load::document::Document;
use baremark_load::load::{Drive, Engine, Load, Pin, Stop};
use baremark_load::scenario::Scenario;
use baremark_model::units::Nanos;
use baremark_sys::calls::again_after_signals;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// Whatever takes longer than this hangs.
pub(crate) const LIMIT: Duration = Duration::from_secs(90);

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
                stream.set_read_timeout(Some(LIMIT)).unwrap();
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
        if again_after_signals(|| stream.read(&mut byte)).ok()? == 0 {
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

/// A load on a server for so long, unpinned. Only a hang reaches its timeout, and whatever has begun is waited for.
pub(crate) fn load(server: SocketAddr, drive: Drive, lasting_ms: u64) -> Load {
    let scenario = Scenario::of_url(&format!("http://{server}/")).unwrap();
    let mut load = Load::new(scenario, drive, Stop::After(ms(lasting_ms)));
    load.connections = 4;
    load.timeout = ms(60_000);
    load.grace = ms(60_000);
    load.pin = Pin::Free;
    load
}

pub(crate) fn run(load: Load) -> Document {
    let engine = Engine::new(load, Arc::default()).unwrap();
    let part = engine.run(&mut |_| {}).unwrap();
    Document::new(engine.load(), &part)
}

/// Runs a load until `seen` holds, which the server knows, and interrupts it then.
pub(crate) fn run_until(what: &str, load: Load, seen: impl Fn() -> bool + Sync) -> Document {
    let interrupt = Arc::new(AtomicBool::new(false));
    let engine = Engine::new(load, Arc::clone(&interrupt)).unwrap();
    let part = thread::scope(|scope| {
        scope.spawn(|| {
            let deadline = Instant::now() + LIMIT;
            while !seen() && Instant::now() < deadline {
                thread::sleep(Duration::from_millis(2));
            }
            interrupt.store(true, Ordering::Relaxed);
        });
        engine.run(&mut |_| {}).unwrap()
    });
    assert!(seen(), "{what}: not within {LIMIT:?}");
    Document::new(engine.load(), &part)
}

/// Waits until `so` holds.
pub(crate) fn wait_until(what: &str, so: impl Fn() -> bool) {
    let deadline = Instant::now() + LIMIT;
    while !so() {
        assert!(Instant::now() < deadline, "{what}: not within {LIMIT:?}");
        thread::sleep(Duration::from_millis(2));
    }
}

/// Which users have asked, whose paths are `/USER`: how often since a user of `beyond` and more has asked last.
#[derive(Default)]
pub(crate) struct Visits {
    asked: Mutex<Vec<usize>>,
}

impl Visits {
    /// A server that notes who asks.
    pub(crate) fn server(self: &Arc<Visits>) -> Server {
        let visits = Arc::clone(self);
        serve(move |request, stream| {
            let user = request.line.rsplit('/').next().and_then(|text| text.parse().ok()).unwrap();
            visits.asked.lock().unwrap().push(user);
            answer(stream, 200, "", "")
        })
    }

    /// How often each user below `count` has asked, at least.
    pub(crate) fn least(&self, count: usize) -> usize {
        least(&self.asked.lock().unwrap(), count)
    }

    /// The same since a user of `count` and more has asked last.
    pub(crate) fn least_alone(&self, count: usize) -> usize {
        let asked = self.asked.lock().unwrap();
        let since = asked.iter().rposition(|user| *user >= count).map_or(0, |at| at + 1);
        least(&asked[since..], count)
    }

    /// The user with the highest number.
    pub(crate) fn highest(&self) -> Option<usize> {
        self.asked.lock().unwrap().iter().copied().max()
    }
}

fn least(asked: &[usize], count: usize) -> usize {
    (0..count).map(|user| asked.iter().filter(|one| **one == user).count()).min().unwrap_or(0)
}
