//! `baremark site --serve`: a browser follows runs of the store while they measure.

use crate::bench::{Bench, SMALL, lives, signal, text};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;
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
struct Endless {
    child: Child,
    reading: Option<JoinHandle<usize>>,
}

impl Endless {
    fn start(bench: &Bench) -> Endless {
        let native = SMALL.replace("[\"native\", \"null\"]", "\"native\"");
        let endless = native.replace("most_blocks = 12", "most_blocks = 90000").replace("60 s", "24 h");
        let study = bench.write("small.toml", endless);
        let mut command = bench.command(&["run", study.to_str().unwrap(), "--aa"]);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut log = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
        assert!(log.any(|line| line.starts_with("block ") && line.contains(" is stored")), "the run has no block");
        Endless { child, reading: Some(std::thread::spawn(move || log.count())) }
    }

    fn interrupt(&mut self) {
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

fn refreshes(answer: &str) -> bool {
    answer.split("\r\n\r\n").next().is_some_and(|head| head.contains("refresh: 5"))
}

#[test]
fn a_run_is_followed_while_it_measures() {
    let bench = Bench::new();
    let mut run = Endless::start(&bench);

    let mut serving = Serving::start(&bench);
    let index = serving.get("/");
    assert!(index.starts_with("HTTP/1.1 200") && refreshes(&index) && index.contains("1 run, 1 live"), "{index}");
    let page = index.split("<a href=\"").nth(1).and_then(|rest| rest.split('"').next()).expect(&index);
    let report = serving.get(&format!("/{page}"));
    assert!(refreshes(&report) && report.contains("This run has not ended"), "{report:.600}");

    run.interrupt();
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

/// A headless browser, whose pages are asked for over its port for tools.
struct Browser {
    child: Child,
    port: u16,
    folder: PathBuf,
}

impl Browser {
    /// Opens a page; `None` where no browser is installed.
    fn open(bench: &Bench, page: &str) -> Option<Browser> {
        let Ok(version) = Command::new("chromium").arg("--version").output() else {
            eprintln!("skipped: chromium is not installed");
            return None;
        };
        assert!(version.status.success());
        let folder = bench.path("browser");
        let mut command = Command::new("chromium");
        command.args(["--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-port=0"]).process_group(0);
        // It is killed, so that what it keeps in a temporary folder stays there: shared memory, too.
        command.arg("--disable-dev-shm-usage");
        let temporary = bench.path("browser-files");
        std::fs::create_dir_all(&temporary).unwrap();
        command.env("TMPDIR", &temporary).arg(format!("--user-data-dir={}", folder.display())).arg(page);
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let mut browser = Browser { child, port: 0, folder: folder.clone() };
        // The file's first line is the port.
        let port = folder.join("DevToolsActivePort");
        browser.port =
            awaited("the browser's port", || std::fs::read_to_string(&port).ok()?.lines().next()?.parse().ok());
        Some(browser)
    }

    /// The titles of its pages, as JSON.
    fn pages(&self) -> Option<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).ok()?;
        stream.set_read_timeout(Some(Duration::from_secs(1))).ok()?;
        let request = format!("GET /json/list HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nConnection: close\r\n\r\n", self.port);
        stream.write_all(request.as_bytes()).ok()?;
        let (mut answer, mut part) = (Vec::new(), [0; 4096]);
        // It may keep the connection open.
        while let Ok(read @ 1..) = stream.read(&mut part) {
            answer.extend_from_slice(&part[..read]);
            if answer.ends_with(b"]") || answer.ends_with(b"]\n") {
                break;
            }
        }
        Some(text(&answer))
    }

    /// Waits until the title of its page is `title`.
    fn await_title(&self, title: &str) {
        let wanted = format!("\"title\": \"{title}\"");
        let mut last = String::new();
        let found = || {
            last = self.pages()?;
            last.contains(&wanted).then_some(())
        };
        awaited(title, found);
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // Most of its processes are a group; those of groups of their own end when they miss it, or are told.
        signal_group(self.child.id());
        let _ = self.child.wait();
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            let left = naming(&self.folder);
            if left.is_empty() || Instant::now() >= deadline {
                return;
            }
            left.into_iter().for_each(|pid| signal(pid, libc::SIGKILL));
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// The processes that were started with this folder among their arguments.
fn naming(folder: &Path) -> Vec<u32> {
    let folder = folder.to_string_lossy();
    let names = |words: &[String]| words.iter().any(|word| word.contains(&*folder));
    baremark_sys::process_tree::with_command(names).unwrap_or_default().into_iter().map(|(pid, _)| pid).collect()
}

fn signal_group(leader: u32) {
    let leader = i32::try_from(leader).unwrap();
    // SAFETY: takes no memory.
    unsafe { libc::kill(-leader, libc::SIGKILL) };
}

fn awaited<T>(what: &str, mut found: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + Duration::from_secs(180);
    loop {
        if let Some(found) = found() {
            return found;
        }
        assert!(Instant::now() < deadline, "{what}: not within three minutes");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// A real browser shows that a run measures, and that it has ended, without being told.
#[test]
fn a_browser_follows_a_run_until_it_has_ended() {
    let bench = Bench::new();
    let mut run = Endless::start(&bench);
    let serving = Serving::start(&bench);
    let browser = Browser::open(&bench, &format!("http://{}/", serving.address));
    if let Some(browser) = &browser {
        browser.await_title("baremark: 1 run, 1 live");
    }
    run.interrupt();
    if let Some(browser) = &browser {
        browser.await_title("baremark: 1 run");
    }
    assert!(lives(serving.child.id()));
}
