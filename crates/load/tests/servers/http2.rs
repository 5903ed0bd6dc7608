//! HTTP/2 against nghttpd and nginx.

use crate::server::{LIMIT, load, ms, run};
use baremark_load::document::Document;
use baremark_load::load::{Drive, Load, Protocol, Stop};
use baremark_load::scenario::{Scenario, file};
use baremark_load::transport::Trust;
use baremark_sys::network::HeldPort;
use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

const CERTIFICATE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/load/localhost.pem");
const KEY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/load/localhost.key");

/// Somebody else's server in a folder of its own; it ends with this value.
struct Other {
    process: Child,
    address: SocketAddr,
    _port: HeldPort,
    _folder: tempfile::TempDir,
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("small"), "x".repeat(600)).unwrap();
    fs::write(folder.path().join("large"), "y".repeat(3 << 20)).unwrap();
    folder
}

/// Starts `command`, waits until it listens at `port`; `None` and a word where the program is missing.
fn started(program: &str, command: &mut Command, port: HeldPort, folder: tempfile::TempDir) -> Option<Other> {
    let spawned = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let Ok(process) = spawned else {
        println!("skipped: {program} is not installed");
        return None;
    };
    let address = SocketAddr::from(([127, 0, 0, 1], port.number()));
    let other = Other { process, address, _port: port, _folder: folder };
    let begun = Instant::now();
    while TcpStream::connect(address).is_err() {
        assert!(begun.elapsed() < LIMIT, "{program} does not listen");
        thread::sleep(Duration::from_millis(20));
    }
    Some(other)
}

fn nghttpd(extra: &[&str]) -> Option<Other> {
    let (folder, port) = (folder(), HeldPort::any().unwrap());
    let mut command = Command::new("nghttpd");
    command.args(["--no-tls", "-a", "127.0.0.1", "-d"]).arg(folder.path()).args(extra).arg(port.number().to_string());
    started("nghttpd", &mut command, port, folder)
}

fn nginx() -> Option<Other> {
    let (folder, port) = (folder(), HeldPort::any().unwrap());
    let (root, number) = (folder.path().display(), port.number());
    let text = format!(
        "daemon off; master_process off; pid {root}/pid; error_log {root}/errors; events {{ worker_connections 1000; }}
         http {{ access_log off; keepalive_requests 50; client_body_temp_path {root}/b; proxy_temp_path {root}/p;
         fastcgi_temp_path {root}/f; uwsgi_temp_path {root}/u; scgi_temp_path {root}/s;
         server {{ listen 127.0.0.1:{number} ssl http2; ssl_certificate {CERTIFICATE}; ssl_certificate_key {KEY}; root {root};
         location /echo {{ client_max_body_size 20m; return 200 done; }}
         location /cookie {{ add_header Set-Cookie a=1; return 200 ok; }}
         location /needs {{ if ($http_cookie != a=1) {{ return 403; }} return 200 ok; }} }} }}"
    );
    let file = folder.path().join("nginx.conf");
    fs::write(&file, text).unwrap();
    let mut command = Command::new(if Path::new("/usr/sbin/nginx").exists() { "/usr/sbin/nginx" } else { "nginx" });
    command.arg("-c").arg(&file);
    started("nginx", &mut command, port, folder)
}

fn http2(address: SocketAddr, url: &str, count: u64, streams: usize) -> Load {
    let scenario = Scenario::of_url(url).unwrap();
    let mut load = Load { scenario, ..load(address, Drive::Closed, 1) };
    load.protocol = Protocol::Http2 { streams };
    load.stop = Stop::Count(count);
    load.connections = 2;
    load.timeout = ms(60_000);
    load.trust = Trust::Anything;
    load
}

fn sound(document: &Document, count: u64) {
    assert!(document.failures.is_empty(), "{:?}", document.failure_examples);
    assert_eq!((document.counts.answered, document.statuses[&200]), (count, count));
}

#[test]
fn many_streams_share_a_connection() {
    let Some(server) = nghttpd(&[]) else { return };
    let document = run(http2(server.address, &format!("http://{}/small", server.address), 2000, 10));
    sound(&document, 2000);
    assert_eq!((document.counts.connections, document.asked.http2_streams), (2, Some(10)));
    assert_eq!(document.latency.raw.as_ref().map(|all| all.samples), Some(2000));
    assert!(document.counts.received_bytes > 2000 * 600);
}

/// Bodies beyond every initial window, and fewer streams than we would like.
#[test]
fn large_answers_keep_to_flow_control_and_the_servers_settings() {
    let Some(server) = nghttpd(&["-m", "3"]) else { return };
    let document = run(http2(server.address, &format!("http://{}/large", server.address), 40, 8));
    sound(&document, 40);
    assert!(document.counts.received_bytes > 40 * (3 << 20) && document.counts.connections == 2);
}

#[test]
fn tls_chooses_http2_and_a_server_that_leaves_loses_nothing() {
    let Some(server) = nginx() else { return };
    let document = run(http2(server.address, &format!("https://{}/small", server.address), 600, 4));
    sound(&document, 600);
    // It takes 50 requests a connection, then says goodbye.
    assert!(document.counts.connections >= 12, "{:?}", document.counts);
    // One stream at a time: the connection ends with its last answer, and its place is taken at once.
    sound(&run(http2(server.address, &format!("https://{}/small", server.address), 300, 1)), 300);
}

#[test]
fn uploads_cookies_and_statuses_are_those_of_http1() {
    let Some(server) = nginx() else { return };
    let text = r#"
        [scenario]
        cookies = true
        cycle = "20 ms"
        [operations.all]
        [[operations.all.requests]]
        get = "/cookie"
        [[operations.all.requests]]
        get = "/needs"
        [[operations.all.requests]]
        post = "/echo"
        multipart = [{ name = "file", size = "2 MiB" }]
        [[operations.all.requests]]
        get = "/nowhere"
        expect = [404]
    "#;
    let base = format!("https://{}", server.address);
    let scenario = file::parse("x", text.as_bytes(), Some(&base), ".".as_ref()).unwrap();
    let drive = Drive::Users { profile: "3".parse().unwrap() };
    let mut load = Load { scenario, drive, ..http2(server.address, &base, 30, 4) };
    load.connections = 10;
    let document = run(load);
    assert!(document.failures.is_empty(), "{:?}", document.failure_examples);
    assert_eq!((document.operations[0].succeeded, document.statuses[&404]), (30, 30));
    // Each of three users keeps a connection of its own, and another where the server has left one.
    assert!(document.counts.connections >= 3, "{:?}", document.counts);
}
