//! Servers and systems that misbehave: each fault has its kind, and the load continues to its end.

use crate::server::{Then, answer, load, ms, prompt, run, serve};
use baremark_load::document::{Document, Ended, Verdict};
use baremark_load::load::{Drive, Engine, Load, LoadError, Stop};
use baremark_load::scenario::Scenario;
use baremark_sys::network::HeldPort;
use std::io::Write;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// A closed load on a server of this conduct.
fn against(conduct: impl Fn(&mut TcpStream) -> Then + Send + Sync + 'static) -> Document {
    let server = serve(move |_, stream| conduct(stream));
    run(load(server.address, Drive::Closed, 400))
}

/// The same with requests that may take 200 ms.
fn impatient(conduct: impl Fn(&mut TcpStream) -> Then + Send + Sync + 'static) -> Document {
    let server = serve(move |_, stream| conduct(stream));
    run(Load { timeout: ms(200), ..load(server.address, Drive::Closed, 400) })
}

fn only(document: &Document, kind: &str) {
    assert_eq!(document.failures.keys().collect::<Vec<_>>(), [kind], "{:?}", document.failure_examples);
    assert!(document.failures[kind] > 0);
    assert!(document.failure_examples[0].contains(kind), "{:?}", document.failure_examples);
    assert!(document.latency.raw.is_none(), "failures have no latency");
}

#[test]
fn nobody_listens() {
    let held = HeldPort::any().unwrap();
    let address = SocketAddr::from(([127, 0, 0, 1], held.number()));
    let document = run(load(address, Drive::Closed, 300));
    only(&document, "refused");
    assert!(document.failures["refused"] < 4 * 40, "no storm of attempts: {:?}", document.failures);
    assert_eq!(document.achieved.requests_per_s.to_bits(), 0.0_f64.to_bits());
}

#[test]
fn the_server_resets() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        // A connection that is closed before its bytes are read is reset by the kernel.
        for stream in listener.incoming().flatten() {
            let _ = stream.peek(&mut [0]);
        }
    });
    let document = run(load(address, Drive::Closed, 300));
    only(&document, "reset");
}

#[test]
fn the_server_stalls() {
    let document = impatient(|_| {
        thread::sleep(Duration::from_millis(2000));
        Then::Close
    });
    only(&document, "timeout");
}

#[test]
fn the_server_trickles() {
    let document = impatient(|stream| {
        for byte in b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n".iter().chain([b'x'; 1000].iter()) {
            thread::sleep(Duration::from_millis(5));
            if stream.write_all(&[*byte]).is_err() {
                return Then::Close;
            }
        }
        Then::Keep
    });
    only(&document, "timeout");
}

#[test]
fn the_server_answers_garbage() {
    let document = against(|stream| {
        let _ = stream.write_all(b"\x16\x03\x01 this is no http\r\n\r\n");
        Then::Close
    });
    only(&document, "malformed");
}

#[test]
fn the_server_sends_endless_headers() {
    let document = against(|stream| {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n");
        while stream.write_all(&b"X-And-On: and on and on and on and on and on and on and on\r\n".repeat(64)).is_ok() {}
        Then::Close
    });
    only(&document, "head-too-large");
}

#[test]
fn the_server_closes_early() {
    let document = against(|stream| {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nnot fifty");
        let _ = stream.shutdown(Shutdown::Both);
        Then::Close
    });
    only(&document, "closed-early");
}

#[test]
fn the_body_is_larger_than_what_is_kept() {
    let server = serve(|_, stream| {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 999999999\r\n\r\n");
        while stream.write_all(&[b'x'; 65536]).is_ok() {}
        Then::Close
    });
    let text = r#"
        [operations.all]
        [[operations.all.requests]]
        get = "/"
        extract = [{ into = "x", regex = "y" }]
    "#;
    let base = format!("http://{}", server.address);
    let scenario = baremark_load::scenario::file::parse("x", text.as_bytes(), Some(&base), ".".as_ref()).unwrap();
    let mut load = Load { scenario, ..load(server.address, Drive::Closed, 1000) };
    load.connections = 1;
    only(&run(load), "oversized");
}

#[test]
fn the_server_answers_with_errors_now_and_then() {
    let count = AtomicUsize::new(0);
    let document = against(move |stream| {
        let status = if count.fetch_add(1, Ordering::Relaxed).is_multiple_of(3) { 503 } else { 200 };
        answer(stream, status, "", "")
    });
    assert_eq!(document.failures.keys().collect::<Vec<_>>(), ["status"]);
    assert!(document.statuses[&200] > 0 && document.statuses[&503] == document.failures["status"]);
    assert!(document.failure_examples[0].contains("status 503"), "{:?}", document.failure_examples);
    let row = &document.operations[0];
    assert_eq!(row.succeeded + row.failed, document.statuses[&200] + document.statuses[&503]);
}

#[test]
fn a_name_without_address_is_refused_before_anything_starts() {
    // More than 63 letters without a dot are no name: no server is asked for it.
    let scenario = Scenario::of_url(&format!("http://{}/", "nowhere".repeat(10))).unwrap();
    let load = Load::new(scenario, Drive::Closed, Stop::After(ms(100)));
    let why = Engine::new(load, Arc::default()).err().unwrap();
    assert!(matches!(why, LoadError::Url(_)), "{why}");
}

#[test]
fn an_interrupt_leaves_a_partial_result_that_says_so() {
    let (asked, heard) = channel();
    let asked = Mutex::new(asked);
    let server = serve(move |_, stream| {
        let _ = asked.lock().unwrap().send(());
        answer(stream, 200, "", "hello")
    });
    let interrupt = Arc::new(AtomicBool::new(false));
    let engine = Engine::new(load(server.address, Drive::Closed, 120_000), Arc::clone(&interrupt)).unwrap();
    let begun = Instant::now();
    thread::spawn(move || {
        // Of four connections: whoever has asked ten times has had six answers.
        let _ = heard.iter().nth(9);
        thread::sleep(Duration::from_millis(250));
        interrupt.store(true, Ordering::Relaxed);
    });
    let part = engine.run(&mut |_| {}).unwrap();
    let document = Document::new(engine.load(), &part);
    assert!(begun.elapsed() < Duration::from_secs(60));
    assert_eq!(document.ended, Ended::Interrupted);
    assert!(document.counts.answered > 0 && (0.2..60.0).contains(&document.elapsed_s), "{document:?}");
    assert!(document.counts.unfinished <= 4, "in flight, at most one for each connection");
}

/// Limits belong to a process: this test runs itself again in one of its own.
#[test]
fn descriptors_and_ports_that_run_out_are_the_generators_fault() {
    if std::env::var_os("BAREMARK_LOAD_STARVED").is_none() {
        let itself = std::env::current_exe().unwrap();
        let name = "faults::descriptors_and_ports_that_run_out_are_the_generators_fault";
        let output = Command::new("prlimit")
            .arg("--nofile=60:60")
            .arg(itself)
            .args([name, "--exact", "--nocapture"])
            .env("BAREMARK_LOAD_STARVED", "1")
            .output();
        match output {
            Ok(output) => assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr)),
            Err(why) => assert_eq!(why.kind(), std::io::ErrorKind::NotFound, "prlimit is of util-linux"),
        }
        return;
    }
    // Root may raise the limit; what counts then is that nothing fails.
    let server = serve(|_, stream| {
        thread::sleep(Duration::from_millis(50));
        answer(stream, 200, "", "")
    });
    let mut closed = load(server.address, Drive::Closed, 300);
    closed.connections = 400;
    match Engine::new(closed, Arc::default()) {
        Err(why) => {
            assert!(why.to_string().contains("400 connections need 528 open files and 60 are allowed"), "{why}");
            assert!(why.to_string().contains("ulimit -n"), "{why}");
        }
        Ok(engine) => assert_eq!(engine.load().connections, 400),
    }
}

#[test]
fn an_address_to_come_from_must_be_this_machines_and_lead_there() {
    let server = prompt();
    let refusal = |source: &str| {
        let mut load = load(server.address, Drive::Closed, 200);
        load.sources = vec!["127.0.0.1".parse().unwrap(), source.parse().unwrap()];
        Engine::new(load, Arc::default()).err().map(|why| why.to_string())
    };
    // Reserved, and of groups: no machine has them.
    for nobodys in ["240.0.0.1", "224.0.0.1", "255.255.255.255"] {
        let why = refusal(nobodys).unwrap();
        let begins = format!("no connection can come from {nobodys}: ");
        assert!(why.contains(&begins) && why.contains("ip address show"), "{why}");
    }
    assert_eq!(refusal("127.0.0.2"), None);
    let mut load = load(server.address, Drive::Closed, 200);
    if std::net::UdpSocket::bind("[::1]:0").is_ok() {
        load.sources = vec!["::1".parse().unwrap()];
        let why = Engine::new(load, Arc::default()).err().unwrap().to_string();
        assert!(why.starts_with("'127.0.0.1' has IPv4 addresses alone"), "{why}");
    }
}

/// The limit falls while the load runs, as when another thread of the process has taken the rest: what needs a new connection
/// fails by its own kind, the rest goes on to the end. The server, which is in this process, lowers the limit of the one that loads it
/// before it gives the twentieth answer.
#[test]
fn descriptors_that_run_out_in_the_middle_are_told_as_such() {
    const VARIABLE: &str = "BAREMARK_LOAD_LIMITED";
    let name = "faults::descriptors_that_run_out_in_the_middle_are_told_as_such";
    if let Some(address) = std::env::var_os(VARIABLE) {
        let address = address.to_str().unwrap().parse().unwrap();
        let document = run(Load { stop: Stop::Count(100), ..load(address, Drive::Closed, 0) });
        assert_eq!(document.failures.keys().collect::<Vec<_>>(), ["descriptors-exhausted"], "{:?}", document.failures);
        let (answered, failed) = (document.statuses[&200], document.failures["descriptors-exhausted"]);
        assert!(answered >= 20 && failed > 0 && answered + failed == 100, "{answered} and {failed}");
        assert_eq!((document.ended, document.generator.verdict), (Ended::Complete, Verdict::WasTheLimit));
        let reasons = document.generator.reasons;
        assert!(reasons.iter().any(|why| why.contains("ulimit -n")), "{reasons:?}");
        return;
    }
    let (told, pid) = channel::<u32>();
    let state = Mutex::new((0, pid));
    let server = serve(move |_, stream| {
        {
            let mut state = state.lock().unwrap();
            state.0 += 1;
            if state.0 == 20 {
                let pid = state.1.recv().unwrap().to_string();
                // Standard streams, the engine's own and a handful: none is left for a connection.
                let lowered = Command::new("prlimit").args(["--pid", &pid, "--nofile=3:1000"]).status();
                assert!(lowered.is_ok_and(|status| status.success()), "prlimit is of util-linux");
            }
        }
        answer(stream, 200, "Connection: close\r\n", "");
        Then::Close
    });
    let mut itself = Command::new(std::env::current_exe().unwrap());
    itself.args([name, "--exact", "--nocapture"]).env(VARIABLE, server.address.to_string());
    let child = itself.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    told.send(child.id()).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
}
