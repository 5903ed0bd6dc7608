//! TLS: what is trusted, what is not, and that the bytes are the same.

use crate::server::{load, run};
use baremark_load::load::{Drive, Load, Stop};
use baremark_load::scenario::Scenario;
use baremark_load::transport::Trust;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;

/// A certificate of its own making for localhost and 127.0.0.1, for these tests alone; valid for a century.
const CERTIFICATE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/load/localhost.pem");
const KEY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/load/localhost.key");

type Secure = StreamOwned<ServerConnection, TcpStream>;

/// A server that treats each request as told, until that says that the connection is over.
fn secure_server(conduct: impl Fn(&mut Secure) -> bool + Send + Sync + 'static) -> SocketAddr {
    let certificates = CertificateDer::pem_file_iter(CERTIFICATE).unwrap().collect::<Result<Vec<_>, _>>().unwrap();
    let key = PrivateKeyDer::from_pem_file(KEY).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(certificates, key)
        .unwrap();
    let config = Arc::new(config);
    let conduct = Arc::new(conduct);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let (config, conduct) = (Arc::clone(&config), Arc::clone(&conduct));
            thread::spawn(move || {
                let mut stream = StreamOwned::new(ServerConnection::new(config).unwrap(), stream);
                let mut request = [0; 4096];
                while stream.read(&mut request).is_ok_and(|count| count > 0) && conduct(&mut stream) {}
            });
        }
    });
    address
}

fn say(stream: &mut Secure, length: &str, body: usize) -> bool {
    let text = format!("HTTP/1.1 200 OK\r\n{length}\r\n{}", "x".repeat(body));
    stream.write_all(text.as_bytes()).and_then(|()| stream.flush()).is_ok()
}

fn farewell(stream: &mut Secure) -> bool {
    stream.conn.send_close_notify();
    let _ = stream.flush();
    false
}

fn secure(trust: Trust) -> Load {
    secured(trust, |stream| say(stream, "Content-Length: 100000\r\n", 100_000))
}

fn secured(trust: Trust, conduct: impl Fn(&mut Secure) -> bool + Send + Sync + 'static) -> Load {
    let address = secure_server(conduct);
    let scenario = Scenario::of_url(&format!("https://127.0.0.1:{}/", address.port())).unwrap();
    let mut load = Load { scenario, trust, ..load(address, Drive::Closed, 10_000) };
    load.stop = Stop::Count(100);
    load
}

#[test]
fn answers_come_through_tls_when_the_authority_is_known() {
    for trust in [Trust::Authority(PathBuf::from(CERTIFICATE)), Trust::Anything] {
        let document = run(secure(trust));
        assert!(document.failures.is_empty(), "{:?}", document.failure_examples);
        assert_eq!(document.statuses[&200], 100);
        assert!(document.counts.received_bytes > 100 * 100_000);
    }
}

#[test]
fn a_stranger_is_not_trusted() {
    let mut load = secure(Trust::Anything);
    // The authority of these tests has signed nothing for this name.
    load.trust = Trust::Authority(PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/load/other.pem")));
    load.stop = Stop::Count(4);
    let document = run(load);
    assert_eq!(document.failures.keys().collect::<Vec<_>>(), ["tls"]);
    assert_eq!(document.statuses.len(), 0);
}

/// More than is read at once comes whole, and what TLS says at its end ends the answer, in time or too early.
#[test]
fn what_tls_brings_last_counts_before_its_end() {
    let limited = |conduct: fn(&mut Secure) -> bool| {
        let mut load = secured(Trust::Anything, conduct);
        load.stop = Stop::Count(20);
        run(load)
    };
    let large = limited(|stream| say(stream, "Content-Length: 3000000\r\n", 3_000_000));
    assert!(large.failures.is_empty() && large.statuses[&200] == 20, "{:?}", large.failure_examples);
    assert!(large.counts.received_bytes > 20 * 3_000_000);
    let to_the_end = limited(|stream| say(stream, "", 5000) && farewell(stream));
    assert!(to_the_end.failures.is_empty() && to_the_end.statuses[&200] == 20, "{:?}", to_the_end.failure_examples);
    let torn = limited(|stream| say(stream, "Content-Length: 5001\r\n", 5000) && farewell(stream));
    assert_eq!(torn.failures.keys().collect::<Vec<_>>(), ["closed-early"]);
    // An answer, and with it what no record is: the answer counts, what was asked next on this connection has failed.
    let broken = limited(|stream| {
        let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
        let mut wire = Vec::new();
        let _ = stream.conn.writer().write(answer);
        while stream.conn.wants_write() {
            let _ = stream.conn.write_tls(&mut wire);
        }
        wire.extend([0xff; 100]);
        stream.sock.write_all(&wire).is_ok()
    });
    let (answered, torn) = (broken.counts.answered, broken.failures["tls"]);
    assert!(answered > 0 && torn > 0 && answered + torn == 20 && broken.failures.len() == 1, "{:?}", broken.failures);
}
