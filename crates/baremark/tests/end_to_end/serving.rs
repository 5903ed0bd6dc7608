//! `baremark site --serve`: a browser follows runs of the store while they measure.

use crate::bench::{Bench, SMALL, lives, signal, text};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A server, which is ended when this is dropped.
struct Serving {
    child: Child,
    address: String,
}

impl Serving {
    fn start(bench: &Bench) -> Serving {
        let mut child = bench.command(&["site", "--serve", "0"]).stderr(Stdio::piped()).spawn().unwrap();
        let mut said = String::new();
        BufReader::new(child.stderr.take().unwrap()).read_line(&mut said).unwrap();
        let address = said.split("http://").nth(1).and_then(|rest| rest.split('/').next()).expect(&said).to_owned();
        Serving { child, address }
    }

    fn get(&self, path: &str) -> String {
        self.asked(path, &self.address)
    }

    /// What is answered to a request that names `host`.
    fn asked(&self, path: &str, host: &str) -> String {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
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

fn refreshes(answer: &str) -> bool {
    answer.split("\r\n\r\n").next().is_some_and(|head| head.contains("refresh: 5"))
}

#[test]
fn a_run_is_followed_while_it_measures() {
    let bench = Bench::new();
    let native = SMALL.replace("[\"native\", \"null\"]", "\"native\"");
    let study =
        bench.write("small.toml", native.replace("most_blocks = 12", "most_blocks = 90000").replace("60 s", "24 h"));
    let mut run = bench.command(&["run", study.to_str().unwrap(), "--aa"]).stderr(Stdio::piped()).spawn().unwrap();
    let mut log = BufReader::new(run.stderr.take().unwrap()).lines().map_while(Result::ok);
    assert!(log.any(|line| line.starts_with("block ") && line.contains(" is stored")), "the run has no block");
    let reading = std::thread::spawn(move || log.count());

    let mut serving = Serving::start(&bench);
    let index = serving.get("/");
    assert!(index.starts_with("HTTP/1.1 200") && refreshes(&index) && index.contains("live"), "{index}");
    let page = index.split("<a href=\"").nth(1).and_then(|rest| rest.split('"').next()).expect(&index);
    let report = serving.get(&format!("/{page}"));
    assert!(refreshes(&report) && report.contains("This run has not ended"), "{report:.600}");

    signal(run.id(), libc::SIGINT);
    assert_eq!(run.wait().unwrap().code(), Some(130));
    reading.join().unwrap();
    let index = serving.get("/");
    assert!(!refreshes(&index) && index.contains("interrupted"), "{index}");

    for (path, host, status) in [
        ("/20000101-0000-0000.html", serving.address.as_str(), "404"),
        ("/../../etc/passwd", &serving.address, "404"),
        ("/", "attacker.example", "403"),
    ] {
        let answer = serving.asked(path, host);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{path} of {host}: {answer}");
    }

    signal(serving.child.id(), libc::SIGINT);
    assert_eq!(serving.child.wait().unwrap().code(), Some(0));
}

#[test]
fn nothing_is_served_where_there_is_no_store() {
    let output = Bench::new().run(&["site", "--serve", "0"]);
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
    let neither = Bench::new().run(&["site"]);
    assert_eq!(neither.status.code(), Some(2), "{}", text(&neither.stderr));
}

/// A real browser shows the run, and ends by itself.
#[test]
fn a_browser_shows_the_served_index() {
    let Ok(version) = Command::new("chromium").arg("--version").output() else {
        eprintln!("skipped: chromium is not installed");
        return;
    };
    assert!(version.status.success());
    let bench = Bench::new();
    let study = bench.write("small.toml", SMALL);
    assert!(bench.run(&["run", study.to_str().unwrap(), "--quick"]).status.success());
    let serving = Serving::start(&bench);
    let began = Instant::now();
    let mut browser = Command::new("chromium");
    browser.args(["--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=2000", "--dump-dom"]);
    browser.arg(format!("--user-data-dir={}", bench.path("browser").display()));
    let shown = browser.arg(format!("http://{}/", serving.address)).output().unwrap();
    let dom = text(&shown.stdout);
    assert!(dom.contains("id=\"runs\"") && dom.contains("finished"), "after {:?}: {dom:.600}", began.elapsed());
    assert!(lives(serving.child.id()));
}
