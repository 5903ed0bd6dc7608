//! The site as people use it: two browsers in one auction, a bid in the one seen in the other.

use crate::http::{PATIENCE, User, send, until};
use crate::process::{Server, Site};
use serde_json::{Value, json};
use socket2::{Domain, Socket, Type};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A driver of headless Chromium, by the WebDriver protocol.
struct Driver {
    address: String,
    child: Child,
    profile: TempDir,
    _port: Socket,
}

impl Driver {
    fn start() -> Option<Driver> {
        let found = |name: &str| {
            ["/usr/bin", "/usr/local/bin"].iter().map(|at| PathBuf::from(at).join(name)).find(|it| it.is_file())
        };
        let (driver, _browser) = (found("chromedriver")?, found("chromium")?);
        // It stays bound for as long as the driver lives, who may listen there all the same.
        let held = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        held.set_reuse_address(true).unwrap();
        held.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
        let port = held.local_addr().unwrap().as_socket().unwrap().port();
        let profile = TempDir::new().unwrap();
        let child = Command::new("setpriv")
            .args(["--pdeathsig", "TERM", "--"])
            .arg(driver)
            .arg(format!("--port={port}"))
            .env("HOME", profile.path())
            .env("TMPDIR", profile.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let driver = Driver { address: format!("127.0.0.1:{port}"), child, profile, _port: held };
        until("a driver that is ready", || {
            let status = send(&driver.address, "GET", "/status", &[], b"").ok()?;
            (status.json()["value"]["ready"] == true).then_some(())
        });
        Some(driver)
    }

    fn ask(&self, method: &str, path: &str, body: &Value) -> Value {
        let heads = ["content-type: application/json".to_owned()];
        let bytes = if method == "POST" { body.to_string() } else { String::new() };
        let answer = send(&self.address, method, path, &heads, bytes.as_bytes()).unwrap();
        let value = answer.json()["value"].clone();
        assert_eq!(answer.status, 200, "{path}: {value}");
        value
    }

    fn open(&self) -> Window<'_> {
        let arguments = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--no-first-run",
            "--window-size=1100,900",
        ];
        let asked = json!({ "capabilities": { "alwaysMatch": { "browserName": "chrome", "goog:chromeOptions": { "args": arguments } } } });
        let session = self.ask("POST", "/session", &asked)["sessionId"].as_str().unwrap().to_owned();
        Window { driver: self, session }
    }
}

impl Drop for Driver {
    /// With all processes of its browsers, which write into the profile as long as they live.
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let end = Instant::now() + Duration::from_secs(60);
        loop {
            let left = started_with(self.profile.path());
            if left.is_empty() || Instant::now() >= end {
                return;
            }
            let _ = Command::new("kill").arg("-KILL").args(left).stderr(Stdio::null()).status();
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// The processes that were started with this folder in their arguments or their environment.
fn started_with(folder: &Path) -> Vec<String> {
    let folder = folder.to_str().unwrap().as_bytes();
    let names =
        |file: PathBuf| std::fs::read(file).is_ok_and(|bytes| bytes.windows(folder.len()).any(|part| part == folder));
    let listed = std::fs::read_dir("/proc").unwrap().flatten();
    let ours = listed.filter(|entry| ["cmdline", "environ"].iter().any(|name| names(entry.path().join(name))));
    let pids = ours.map(|entry| entry.file_name().into_string().unwrap());
    pids.filter(|name| name.parse::<u32>().is_ok()).collect()
}

struct Window<'a> {
    driver: &'a Driver,
    session: String,
}

impl Window<'_> {
    fn go(&self, url: &str) {
        self.driver.ask("POST", &format!("/session/{}/url", self.session), &json!({ "url": url }));
    }

    fn script(&self, script: &str) -> Value {
        self.driver.ask(
            "POST",
            &format!("/session/{}/execute/sync", self.session),
            &json!({ "script": script, "args": [] }),
        )
    }

    fn element(&self, selector: &str) -> String {
        let path = format!("/session/{}/elements", self.session);
        let found = until(selector, || {
            let all = self.driver.ask("POST", &path, &json!({ "using": "css selector", "value": selector }));
            all.as_array()?.first().cloned()
        });
        found.as_object().unwrap().values().next().unwrap().as_str().unwrap().to_owned()
    }

    fn type_into(&self, selector: &str, text: &str) {
        let path = format!("/session/{}/element/{}/value", self.session, self.element(selector));
        self.driver.ask("POST", &path, &json!({ "text": text }));
    }

    fn click(&self, selector: &str) {
        let path = format!("/session/{}/element/{}/click", self.session, self.element(selector));
        self.driver.ask("POST", &path, &json!({}));
    }

    fn text(&self, selector: &str) -> String {
        self.script(&format!("return document.querySelector('{selector}')?.textContent ?? ''"))
            .as_str()
            .unwrap()
            .to_owned()
    }

    fn log_in(&self, server: &Server, name: &str, password: &str) {
        self.go(&format!("http://{}/", server.address));
        self.type_into("input[name=username]", name);
        self.type_into("input[name=password]", password);
        self.click("form button");
        self.element("a.card");
    }
}

impl Drop for Window<'_> {
    fn drop(&mut self) {
        let _ = send(&self.driver.address, "DELETE", &format!("/session/{}", self.session), &[], b"");
    }
}

#[test]
fn two_browsers_share_an_auction() {
    let Some(driver) = Driver::start() else { return println!("skipped: no chromium and chromedriver") };
    let folder = TempDir::new().unwrap();
    let site = Site::load(&format!("sqlite:{}/site.db", folder.path().display()), folder.path(), 15);
    let long = format!("{}s", PATIENCE.as_secs());
    let server = site.serve_with(&["--open", &long, "--last-call", "2s"]);
    let (one, other) = (driver.open(), driver.open());
    one.go(&format!("http://{}/", server.address));
    one.type_into("input[name=username]", "user1");
    one.type_into("input[name=password]", "wrong");
    one.click("form button");
    until("a refusal that is shown", || one.text(".error").contains("another password").then_some(()));
    one.log_in(&server, "user1", &site.password);
    other.log_in(&server, "user2", &site.password);
    one.click("a.card");
    other.go(&format!("http://{}/#/auction/1", server.address));
    other.element("#bid");
    until("an open item", || (one.text("#state") == "Open").then_some(()));
    one.element("#bid");
    one.click("#bid");
    until("my own bid", || one.text("#holder").contains("yours").then_some(()));
    until("the bid in the other browser", || other.text("#log").contains("Bidder 1").then_some(()));
    assert_eq!(one.text("#price"), other.text("#price"));
    // What people type as names is text, not markup.
    let user = User::log_in(&server.address, 3, &site.password);
    let name = json!({ "name": "<img src=x onerror=document.title='owned'>", "description": "x", "manufacturer": "x", "condition": "new", "starting_cents": 1 });
    assert_eq!(user.post(&server.address, "/api/items", &name).status, 201);
    other.type_into("#amount", "");
    other.click("#bid");
    until("the answer to it", || one.text("#log").contains("Bidder 2").then_some(()));
    one.go(&format!("http://{}/#/bids", server.address));
    until("the history", || one.text("table").contains("Item").then_some(()));
    assert_eq!(one.script("return document.title"), "Baremark auction");
    drop((one, other));
    site.holds(&[&server]);
}
