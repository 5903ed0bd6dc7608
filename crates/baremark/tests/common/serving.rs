//! `baremark site --serve`, and a run that measures until it is interrupted.

use super::bench::{Bench, ENDLESS, signal, text};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};
use std::thread::JoinHandle;
use std::time::Duration;

/// A server, which is ended when this is dropped.
pub struct Serving {
    pub child: Child,
    pub address: String,
}

impl Serving {
    pub fn start(bench: &Bench) -> Serving {
        let mut child = bench.command(&["site", "--serve", "0"]).stderr(Stdio::piped()).spawn().unwrap();
        let mut said = String::new();
        BufReader::new(child.stderr.take().unwrap()).read_line(&mut said).unwrap();
        let address = said.split("http://").nth(1).and_then(|rest| rest.split('/').next()).expect(&said).to_owned();
        Serving { child, address }
    }

    pub fn get(&self, path: &str) -> String {
        self.asked(path, &self.address)
    }

    /// What is answered to a request that names `host`.
    pub fn asked(&self, path: &str, host: &str) -> String {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        text(&answer)
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A run that measures until it is interrupted, and has stored a block.
pub struct Endless {
    pub child: Child,
    reading: Option<JoinHandle<usize>>,
}

impl Endless {
    pub fn start(bench: &Bench) -> Endless {
        let study = bench.write("long.toml", ENDLESS);
        let mut command = bench.command(&["run", study.to_str().unwrap()]);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut log = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
        assert!(log.any(|line| line.starts_with("block ") && line.contains(" is stored")), "the run has no block");
        Endless { child, reading: Some(std::thread::spawn(move || log.count())) }
    }

    pub fn interrupt(&mut self) {
        signal(self.child.id(), libc::SIGINT);
        assert_eq!(self.child.wait().unwrap().code(), Some(130));
        self.reading.take().unwrap().join().unwrap();
    }
}

impl Drop for Endless {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
