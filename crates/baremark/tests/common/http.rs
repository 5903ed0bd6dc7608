//! Small HTTP servers on 127.0.0.1, which count what they answer.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Instant;

/// A server that answers everything with five bytes.
pub fn server() -> SocketAddr {
    answering(|_| "200 OK")
}

/// A server that answers the requests of each connection, counted from 0, with these statuses.
pub fn answering(status: fn(usize) -> &'static str) -> SocketAddr {
    served(move || {
        let mut asked = 0;
        move || {
            asked += 1;
            (status(asked - 1), "hello".to_owned())
        }
    })
}

/// A server with a known limit: a bucket that is refilled by the clock at `rate` a second and holds `depth`; a request that
/// finds it empty is refused with 503. Pauses of the machine up to `depth / rate` refuse nothing.
pub fn bucket(rate: f64, depth: f64) -> SocketAddr {
    let tokens = Arc::new(Mutex::new((depth, Instant::now())));
    served(move || {
        let tokens = Arc::clone(&tokens);
        move || {
            let mut tokens = tokens.lock().unwrap();
            let now = Instant::now();
            tokens.0 = (tokens.0 + rate * (now - tokens.1).as_secs_f64()).min(depth);
            tokens.1 = now;
            let taken = tokens.0 >= 1.0;
            tokens.0 -= f64::from(u8::from(taken));
            (if taken { "200 OK" } else { "503 Service Unavailable" }, "hello".to_owned())
        }
    })
}

/// A server that answers each request with a status and a body; `connected` makes what answers one connection. It has no limit of time or of
/// connections, so that it fails no request.
pub fn served<A, C>(connected: C) -> SocketAddr
where
    A: FnMut() -> (&'static str, String) + Send + 'static,
    C: Fn() -> A + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut answer = connected();
            thread::spawn(move || {
                let mut request = [0; 4096];
                while stream.read(&mut request).is_ok_and(|count| count > 0) {
                    let (status, body) = answer();
                    let text = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n{body}", body.len());
                    if stream.write_all(text.as_bytes()).is_err() {
                        return;
                    }
                }
            });
        }
    });
    address
}

/// A server that answers every request with five bytes, until it is shut.
pub struct Server {
    pub address: SocketAddr,
    answered: Arc<AtomicU64>,
    shut: Arc<AtomicBool>,
    streams: Arc<Mutex<Vec<TcpStream>>>,
}

impl Server {
    pub fn start() -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = Server { address, answered: Arc::default(), shut: Arc::default(), streams: Arc::default() };
        let (answered, shut, streams) =
            (Arc::clone(&server.answered), Arc::clone(&server.shut), Arc::clone(&server.streams));
        thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                if shut.load(Ordering::Acquire) {
                    return;
                }
                streams.lock().unwrap().push(stream.try_clone().unwrap());
                let answered = Arc::clone(&answered);
                thread::spawn(move || {
                    let mut request = [0; 4096];
                    while stream.read(&mut request).is_ok_and(|count| count > 0) {
                        answered.fetch_add(1, Ordering::Relaxed);
                        if stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello").is_err() {
                            return;
                        }
                    }
                });
            }
        });
        server
    }

    /// Requests that were answered.
    pub fn answered(&self) -> u64 {
        self.answered.load(Ordering::Relaxed)
    }

    /// Closes every connection, and refuses new ones.
    pub fn shut(&self) {
        self.shut.store(true, Ordering::Release);
        drop(TcpStream::connect(self.address));
        for stream in self.streams.lock().unwrap().drain(..) {
            drop(stream.shutdown(std::net::Shutdown::Both));
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shut();
    }
}
