//! Programs under `baremark protect --failover`, whose processes a test kills, stops and lets go on.

use baremark_protection::failover::FailoverReport;
use baremark_protection::writer::END;
use baremark_sys::network::HeldPort;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

pub const BAREMARK: &str = env!("CARGO_BIN_EXE_baremark");
pub const PATIENCE: Duration = Duration::from_secs(120);
/// A busy machine is no reason for a failover, where hanging is not what is tested.
pub const UNHURRIED: [&str; 2] = ["--heartbeat-ms", "30000"];

/// A protected server that keeps orders in memory.
pub struct Server {
    pub process: Child,
    pub address: SocketAddr,
    events: Receiver<String>,
    stats: tempfile::TempDir,
    /// Nobody else is given the port of a server that keeps orders.
    _held: Option<HeldPort>,
    /// The processes that are the primary, the program and the secondary now.
    pub primary: u32,
    pub program: u32,
    pub secondary: u32,
}

/// The number behind these words in a line.
pub fn process(line: &str, words: &str) -> Option<u32> {
    let (_, rest) = line.split_once(words)?;
    rest.split(',').next()?.parse().ok()
}

impl Server {
    pub fn start(workers: usize) -> Server {
        Server::start_with(workers, &UNHURRIED)
    }

    pub fn start_with(workers: usize, options: &[&str]) -> Server {
        let held = HeldPort::any().unwrap();
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, held.number()));
        let (at, workers) = (address.to_string(), workers.to_string());
        let program = [BAREMARK, "protect", "--count", &at, "--workers", &workers];
        let mut server = Server::of_program_with(&program, Stdio::null, options);
        (server.address, server._held) = (address, Some(held));
        server
    }

    /// Another program, with streams of this kind.
    pub fn of_program(program: &[&str], stream: fn() -> Stdio) -> Server {
        Server::of_program_with(program, stream, &UNHURRIED)
    }

    pub fn of_program_with(program: &[&str], stream: fn() -> Stdio, options: &[&str]) -> Server {
        let stats = tempfile::tempdir().unwrap();
        let mut command = Command::new(BAREMARK);
        command.args(["protect", "--failover", "--epoch-us", "20000", "--stats"]).arg(stats.path().join("stats.json"));
        command.args(options).arg("--").args(program).stdin(stream()).stdout(stream()).stderr(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let lines = BufReader::new(process.stderr.take().unwrap()).lines();
        let (said, events) = channel();
        thread::spawn(move || lines.map_while(Result::ok).try_for_each(|line| said.send(line)));
        Server { process, address, events, stats, _held: None, primary: 0, program: 0, secondary: 0 }
    }

    /// Waits until the program has run since the last time and a secondary has a checkpoint of it.
    pub fn await_protection(&mut self) {
        loop {
            if self.note_event() {
                return;
            }
        }
    }

    /// Waits for an event; whether a secondary has a checkpoint.
    pub fn note_event(&mut self) -> bool {
        let line = self.events.recv_timeout(PATIENCE).expect("an event");
        eprintln!("{line}");
        self.primary = process(&line, "primary process ").unwrap_or(self.primary);
        self.program = process(&line, "program process ").unwrap_or(self.program);
        let secondary = process(&line, "secondary process ");
        self.secondary = secondary.unwrap_or(self.secondary);
        secondary.is_some()
    }

    pub fn connect(&self) -> TcpStream {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match TcpStream::connect(self.address) {
                Ok(client) => {
                    client.set_nodelay(true).unwrap();
                    client.set_read_timeout(Some(PATIENCE)).unwrap();
                    return client;
                }
                Err(why) => assert!(Instant::now() < deadline, "{why}"),
            }
            thread::sleep(Duration::from_millis(5));
        }
    }

    pub fn end(&mut self) -> FailoverReport {
        request(&mut self.connect(), END, 0);
        self.report()
    }

    /// What was counted, when the program has ended.
    pub fn report(&mut self) -> FailoverReport {
        assert_eq!(self.process.wait().unwrap().code(), Some(0), "{:?}", self.events.try_iter().collect::<Vec<_>>());
        serde_json::from_slice(&fs::read(self.stats.path().join("stats.json")).unwrap()).unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

pub fn request(client: &mut TcpStream, of: u64, number: u64) {
    client.write_all(&[of.to_le_bytes(), number.to_le_bytes()].concat()).unwrap();
}

pub fn number(client: &mut TcpStream) -> u64 {
    let mut bytes = [0; 8];
    client.read_exact(&mut bytes).unwrap();
    u64::from_le_bytes(bytes)
}

pub fn kill(process: u32) {
    assert!(signal("-KILL", process));
}

/// Whether a process that can be signalled is there.
pub fn signal(signal: &str, process: u32) -> bool {
    let sent = Command::new("kill").args([signal, &process.to_string()]).stderr(Stdio::null()).status();
    sent.unwrap().success()
}

/// A number below `end`, of the kernel's.
pub fn random(end: u64) -> u64 {
    let mut bytes = [0; 8];
    fs::File::open("/dev/urandom").unwrap().read_exact(&mut bytes).unwrap();
    u64::from_le_bytes(bytes) % end
}

/// 1, or as many as the environment says.
pub fn failovers() -> u64 {
    std::env::var("BAREMARK_FAILOVERS").ok().and_then(|count| count.parse().ok()).unwrap_or(1)
}
