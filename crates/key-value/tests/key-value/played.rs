//! A server that keeps keys and values and replies as the test wants: in pieces, too late, wrongly, not at all.

use baremark_key_value::blocking::{BlockingConnection, ConnectionError};
use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

pub const PASSWORD: &str = "s3cr3tOfThisTest";

/// What a played server does otherwise than a real one.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Behaviour {
    /// Nothing.
    #[default]
    Right,
    /// Each write has at most so many bytes.
    Torn(usize),
    /// Each so many-th GET has a byte that nobody wrote.
    Corrupt(u64),
    /// Each so many-th GET has the value of another key.
    Mixed(u64),
    /// Each so many-th SET is acknowledged and forgotten.
    Forgetful(u64),
    /// Each so many-th SET is refused.
    Full(u64),
    /// The connection ends after so many commands.
    Leaves(u64),
    /// So many commands are answered, the others never.
    Silent(u64),
    /// Each reply to the so many-th GET comes twice.
    Twice(u64),
    /// Each reply comes so much later.
    Slow(Duration),
    /// It speaks another protocol.
    Stranger,
}

#[derive(Default)]
struct State {
    keys: Mutex<HashMap<Vec<u8>, Vec<u8>>>,
    /// Commands, GET and SET.
    commands: AtomicU64,
    counts: [AtomicU64; 2],
    over: AtomicBool,
}

/// A played server.
pub struct Played {
    pub address: SocketAddr,
    state: Arc<State>,
}

impl Played {
    pub fn new(behaviour: Behaviour) -> Played {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(State::default());
        let own = Arc::clone(&state);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if own.over.load(Ordering::Relaxed) {
                    return;
                }
                let state = Arc::clone(&own);
                thread::spawn(move || Session { stream, behaviour, state, out: Vec::new(), knows: false }.serve());
            }
        });
        Played { address, state }
    }

    /// A connection as the driver makes one.
    pub fn connect(&self, password: &str) -> Result<BlockingConnection, ConnectionError> {
        BlockingConnection::log_in(TcpStream::connect(self.address)?, password)
    }

    /// GET and SET that it has replied to.
    pub fn counts(&self) -> [u64; 2] {
        [0, 1].map(|at| self.state.counts[at].load(Ordering::Relaxed))
    }
}

impl Drop for Played {
    fn drop(&mut self) {
        self.state.over.store(true, Ordering::Relaxed);
        // It waits for a connection.
        drop(TcpStream::connect(self.address));
    }
}

struct Session {
    stream: TcpStream,
    behaviour: Behaviour,
    state: Arc<State>,
    out: Vec<u8>,
    knows: bool,
}

/// The words of the first command in `bytes`, and what they take.
fn words(bytes: &[u8]) -> Option<(Vec<Vec<u8>>, usize)> {
    let line = |at: usize| {
        let end = at + bytes.get(at..)?.windows(2).position(|two| two == b"\r\n")?;
        Some((std::str::from_utf8(&bytes[at + 1..end]).unwrap().parse::<usize>().unwrap(), end + 2))
    };
    let (count, mut at) = line(0)?;
    let mut words = Vec::new();
    for _ in 0..count {
        let (length, begin) = line(at)?;
        words.push(bytes.get(begin..begin + length)?.to_vec());
        at = begin + length + 2;
    }
    (at <= bytes.len()).then_some((words, at))
}

fn bulk(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(format!("${}\r\n", bytes.len()).as_bytes());
    out.extend_from_slice(bytes);
    out.extend_from_slice(b"\r\n");
}

impl Session {
    fn serve(mut self) {
        self.stream.set_nodelay(true).unwrap();
        let (mut heard, mut buffer) = (Vec::new(), [0; 4096]);
        loop {
            let Ok(some @ 1..) = self.stream.read(&mut buffer) else { return };
            heard.extend_from_slice(&buffer[..some]);
            while let Some((words, used)) = words(&heard) {
                heard.drain(..used);
                if !self.reply(&words) {
                    return;
                }
            }
            let piece = if let Behaviour::Torn(most) = self.behaviour { most } else { usize::MAX };
            for piece in std::mem::take(&mut self.out).chunks(piece) {
                if self.stream.write_all(piece).is_err() {
                    return;
                }
                if self.behaviour != Behaviour::Right {
                    thread::yield_now();
                }
            }
        }
    }

    /// Replies to a command; `false` where the connection is to end.
    fn reply(&mut self, words: &[Vec<u8>]) -> bool {
        let name = String::from_utf8_lossy(&words[0]).into_owned();
        if name == "AUTH" {
            self.knows = words[1] == PASSWORD.as_bytes();
            let reply: &[u8] = if self.knows { b"+OK\r\n" } else { b"-WRONGPASS invalid password\r\n" };
            self.out.extend_from_slice(reply);
            return true;
        }
        if !self.knows {
            self.out.extend_from_slice(b"-NOAUTH Authentication required.\r\n");
            return true;
        }
        let number = 1 + self.state.commands.fetch_add(1, Ordering::Relaxed);
        if let Behaviour::Slow(time) = self.behaviour {
            thread::sleep(time);
        }
        match self.behaviour {
            Behaviour::Leaves(most) if number > most => return false,
            Behaviour::Silent(most) if number > most => return true,
            Behaviour::Stranger => self.out.extend_from_slice(b"HTTP/1.1 400 Bad Request\r\n\r\n"),
            _ if name == "GET" => self.get(&words[1]),
            _ => self.set(&words[1], &words[2]),
        }
        true
    }

    fn get(&mut self, key: &[u8]) {
        let number = 1 + self.state.counts[0].fetch_add(1, Ordering::Relaxed);
        let every = |each: u64| number.is_multiple_of(each);
        let keys = self.state.keys.lock().unwrap();
        let mut value = keys.get(key).cloned();
        match self.behaviour {
            Behaviour::Corrupt(each) if every(each) => {
                value.iter_mut().for_each(|value| *value.last_mut().unwrap() ^= 1)
            }
            Behaviour::Mixed(each) if every(each) => {
                value = keys.iter().find(|(other, _)| *other != key).map(|(_, of)| of.clone())
            }
            _ => {}
        }
        drop(keys);
        let times = if matches!(self.behaviour, Behaviour::Twice(each) if every(each)) { 2 } else { 1 };
        for _ in 0..times {
            match &value {
                Some(value) => bulk(&mut self.out, value),
                None => self.out.extend_from_slice(b"$-1\r\n"),
            }
        }
    }

    fn set(&mut self, key: &[u8], value: &[u8]) {
        let number = 1 + self.state.counts[1].fetch_add(1, Ordering::Relaxed);
        let every = |each: u64| number.is_multiple_of(each);
        if matches!(self.behaviour, Behaviour::Full(each) if every(each)) {
            return self.out.extend_from_slice(b"-OOM command not allowed when used memory > 'maxmemory'.\r\n");
        }
        if !matches!(self.behaviour, Behaviour::Forgetful(each) if every(each)) {
            self.state.keys.lock().unwrap().insert(key.to_vec(), value.to_vec());
        }
        self.out.extend_from_slice(b"+OK\r\n");
    }
}
