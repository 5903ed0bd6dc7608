//! HTTP/2 against other people's servers, nghttpd and nginx, and against one that breaks its rules.

use crate::server::{load, ms, prompt, run};
use baremark_load::document::Document;
use baremark_load::load::{Drive, Load, Protocol, Stop};
use baremark_load::scenario::{Scenario, file};
use baremark_load::transport::Trust;
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const CERTIFICATE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/load/localhost.pem");
const KEY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/load/localhost.key");

/// Somebody else's server in a folder of its own; it ends with this value.
struct Other {
    process: Child,
    address: SocketAddr,
    _folder: tempfile::TempDir,
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("small"), "x".repeat(600)).unwrap();
    fs::write(folder.path().join("large"), "y".repeat(3 << 20)).unwrap();
    folder
}

/// Starts `command`, waits until it listens at `port`; `None` and a word where the program is missing.
fn started(program: &str, command: &mut Command, port: u16, folder: tempfile::TempDir) -> Option<Other> {
    let spawned = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let Ok(process) = spawned else {
        println!("skipped: {program} is not installed");
        return None;
    };
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    let other = Other { process, address, _folder: folder };
    let begun = Instant::now();
    while TcpStream::connect(address).is_err() {
        assert!(begun.elapsed() < Duration::from_secs(60), "{program} does not listen");
        thread::sleep(Duration::from_millis(20));
    }
    Some(other)
}

fn nghttpd(extra: &[&str]) -> Option<Other> {
    let (folder, port) = (folder(), free_port());
    let mut command = Command::new("nghttpd");
    command.args(["--no-tls", "-a", "127.0.0.1", "-d"]).arg(folder.path()).args(extra).arg(port.to_string());
    started("nghttpd", &mut command, port, folder)
}

fn nginx() -> Option<Other> {
    let (folder, port) = (folder(), free_port());
    let root = folder.path().display();
    let text = format!(
        "daemon off; master_process off; pid {root}/pid; error_log {root}/errors; events {{ worker_connections 1000; }}
         http {{ access_log off; keepalive_requests 50; client_body_temp_path {root}/b; proxy_temp_path {root}/p;
         fastcgi_temp_path {root}/f; uwsgi_temp_path {root}/u; scgi_temp_path {root}/s;
         server {{ listen 127.0.0.1:{port} ssl http2; ssl_certificate {CERTIFICATE}; ssl_certificate_key {KEY}; root {root};
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
    load.timeout = ms(20_000);
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

#[test]
fn who_does_not_speak_it_is_told_as_such() {
    let plain = prompt();
    let document = run(http2(plain.address, &format!("http://{}/", plain.address), 4, 2));
    assert_eq!(document.failures.keys().collect::<Vec<_>>(), ["no-http2"], "{:?}", document.failure_examples);
}

/// A server that answers with these bytes and then closes.
fn answering(bytes: Vec<u8>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for mut stream in listener.incoming().take(10_000).flatten() {
            let bytes = bytes.clone();
            thread::spawn(move || {
                let mut heard = [0; 65_536];
                let _ = stream.read(&mut heard);
                let _ = stream.write_all(&bytes);
                while stream.read(&mut heard).is_ok_and(|count| count > 0) {}
            });
        }
    });
    address
}

fn frame(kind: u8, flags: u8, id: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &id.to_be_bytes(), payload].concat()
}

#[test]
fn each_fault_has_its_kind() {
    let settings = frame(4, 0, 0, &[]);
    for (after, kind) in [
        (frame(3, 0, 1, &[0, 0, 0, 2]), "stream-reset"),
        (frame(0, 0, 1, b"data before its head"), "malformed"),
        (vec![0xff; 100], "malformed"),
        (frame(1, 0, 1, &[0x82; 16_384]), "timeout"),
        ([frame(1, 0, 1, &[0; 16_000]), frame(9, 0, 1, &[0; 16_000]).repeat(5)].concat(), "head-too-large"),
    ] {
        let address = answering([settings.clone(), after].concat());
        let mut load = http2(address, &format!("http://{address}/"), 4, 1);
        // Long for what must not come to it.
        load.timeout = ms(if kind == "timeout" { 400 } else { 60_000 });
        // One request a connection: what the first breaks, a second would find broken in its own way.
        load.connections = 4;
        let document = run(load);
        assert_eq!(document.failures.keys().collect::<Vec<_>>(), [kind], "{:?}", document.failure_examples);
    }
}

/// One stream that is never answered ends alone, by its timeout; its neighbours on the connection do not notice.
#[test]
fn a_timeout_ends_its_stream_alone() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        let asked = AtomicUsize::new(0);
        for mut stream in listener.incoming().take(8).flatten() {
            let _ = stream.write_all(&[frame(4, 0, 0, &[]), frame(4, 1, 0, &[])].concat());
            let mut heard = Vec::new();
            let mut piece = [0; 4096];
            while let Ok(count @ 1..) = stream.read(&mut piece) {
                heard.extend_from_slice(&piece[..count]);
                let mut at = if heard.starts_with(b"PRI") { 24 } else { 0 };
                while let Some(head) = heard.get(at..at + 9) {
                    let length = usize::from(head[1]) << 8 | usize::from(head[2]);
                    if heard.len() < at + 9 + length {
                        break;
                    }
                    // Every request but each tenth is answered with 200 from the static table.
                    if head[3] == 1 && asked.fetch_add(1, Ordering::Relaxed) % 10 != 3 {
                        let id = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
                        let _ = stream.write_all(&frame(1, 5, id, &[0x88]));
                    }
                    at += 9 + length;
                }
                heard.drain(..at);
            }
        }
    });
    let mut load = http2(address, &format!("http://{address}/"), 60, 4);
    load.timeout = ms(2000);
    load.connections = 1;
    let document = run(load);
    assert_eq!(document.failures.keys().collect::<Vec<_>>(), ["timeout"], "{:?}", document.failure_examples);
    assert_eq!((document.counts.connections, document.failures["timeout"]), (1, 6), "{:?}", document.counts);
    assert_eq!(document.statuses[&200], 54);
}
