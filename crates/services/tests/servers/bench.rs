//! What the tests share: orders with the shipped defaults, small servers, and skips that are printed.

use crate::shipped::defaults;
use baremark_services::card::Tier;
use baremark_services::error::ServiceError;
use baremark_services::order::{Order, Upstream};
use baremark_services::place::Native;
use baremark_services::redis::VALKEY;
use baremark_services::service::{Instance, Service, program};
use baremark_services::{Folder, find};
use baremark_sys::confine::Limits;
use baremark_sys::network::HeldPort;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

/// Services of other people's programs: those of applications, and Valkey, which is started in Redis's place.
pub const FOREIGN: [&str; 7] = ["haproxy", "nginx", "apache", "postgres", "mariadb", "redis", "valkey"];

/// The service, if its program is here.
pub fn service(kind: &str) -> Option<&'static dyn Service> {
    let service: &'static dyn Service = if kind == VALKEY.kind() { &VALKEY } else { find(kind).unwrap() };
    match program(service) {
        Ok(_) => Some(service),
        Err(why) => {
            eprintln!("skipped: {why}");
            None
        }
    }
}

/// A free address of the loopback, which nobody else is given before this process has ended.
pub fn free() -> SocketAddr {
    let held = HeldPort::any().unwrap();
    let address = SocketAddr::from(([127, 0, 0, 1], held.number()));
    std::mem::forget(held);
    address
}

pub fn order(service: &dyn Service, folder: &Folder, name: &str) -> Order {
    Order {
        name: name.to_owned(),
        // Valkey serves no tier of an application, and does not look at it.
        tier: service.tiers().first().copied().unwrap_or(Tier::Bus),
        address: free(),
        folder: folder.path().join(name),
        program: program(service).unwrap(),
        settings: defaults(service),
        upstreams: Vec::new(),
        wiring: Vec::new(),
        secret: "s3cr3tOfThisTest".to_owned(),
        database_secret: None,
        owner: None,
        tls: None,
    }
}

pub fn start(service: &'static dyn Service, order: Order) -> Result<Instance, ServiceError> {
    let mut instance = Instance::start(service, order, &Limits::default(), Box::new(Native))?;
    instance.wait_ready(&AtomicBool::new(false))?;
    Ok(instance)
}

/// A server that answers every request with its name after a moment, until it is dropped.
pub struct Backend {
    pub upstream: Upstream,
    pub served: Arc<AtomicU64>,
    over: Arc<AtomicBool>,
}

impl Backend {
    pub fn new(name: &'static str) -> Backend {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let upstream = Upstream { name: name.to_owned(), address: listener.local_addr().unwrap() };
        let (served, over) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let (count, ends) = (Arc::clone(&served), Arc::clone(&over));
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if ends.load(Ordering::Relaxed) {
                    return;
                }
                let (count, ends) = (Arc::clone(&count), Arc::clone(&ends));
                thread::spawn(move || serve(stream, name, &count, &ends));
            }
        });
        Backend { upstream, served, over }
    }
}

impl Drop for Backend {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
    }
}

/// A service with two servers behind it, of which it has been told the first.
type BeforeTwo = (&'static dyn Service, Folder, Order, [Backend; 2]);

/// What it takes to start a balancer in front of two servers, if its program is here.
pub fn before_two(kind: &str) -> Option<BeforeTwo> {
    let service = service(kind)?;
    let folder = Folder::create(&std::env::temp_dir()).unwrap();
    let servers = ["one", "two"].map(Backend::new);
    let mut order = order(service, &folder, "it");
    order.upstreams = vec![servers[0].upstream.clone()];
    Some((service, folder, order, servers))
}

fn serve(mut stream: std::net::TcpStream, name: &str, count: &AtomicU64, over: &AtomicBool) {
    let mut heard = Vec::new();
    let mut buffer = [0; 4096];
    while !over.load(Ordering::Relaxed) {
        let Ok(some @ 1..) = stream.read(&mut buffer) else { return };
        heard.extend_from_slice(&buffer[..some]);
        while let Some(end) = heard.windows(4).position(|four| four == b"\r\n\r\n") {
            heard.drain(..end + 4);
            thread::sleep(std::time::Duration::from_millis(2));
            count.fetch_add(1, Ordering::Relaxed);
            let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{name}", name.len());
            if stream.write_all(answer.as_bytes()).is_err() {
                return;
            }
        }
    }
}
