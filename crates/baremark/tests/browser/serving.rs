//! A browser follows runs of the store while they measure.

use crate::common::bench::{Bench, lives, signal, text};
use crate::common::serving::{Endless, Serving};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

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
    let Some(browser) = Browser::open(&bench, &format!("http://{}/", serving.address)) else { return };
    browser.await_title("baremark: 1 run, 1 live");
    run.interrupt();
    browser.await_title("baremark: 1 run");
    assert!(lives(serving.child.id()));
}
