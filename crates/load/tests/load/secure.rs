//! TLS: what is trusted, what is not, and that the bytes are the same.

use crate::server::{load, run};
use baremark_load::load::{Drive, Load, Stop};
use baremark_load::scenario::Scenario;
use baremark_load::transport::Trust;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;

/// A certificate of its own making for localhost and 127.0.0.1, for these tests alone; valid for a century.
const CERTIFICATE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/load/localhost.pem");
const KEY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/load/localhost.key");

fn secure_server() -> SocketAddr {
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
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming().take(64) {
            let (Ok(stream), config) = (stream, Arc::clone(&config)) else { continue };
            thread::spawn(move || {
                let mut stream = StreamOwned::new(ServerConnection::new(config).unwrap(), stream);
                let body = "x".repeat(100_000);
                let text = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len());
                let mut request = [0; 4096];
                while stream.read(&mut request).is_ok_and(|count| count > 0) {
                    if stream.write_all(text.as_bytes()).and_then(|()| stream.flush()).is_err() {
                        return;
                    }
                }
            });
        }
    });
    address
}

fn secure(trust: Trust) -> Load {
    let address = secure_server();
    let scenario = Scenario::of_url(&format!("https://127.0.0.1:{}/", address.port())).unwrap();
    let mut load = Load { scenario, trust, ..load(address, Drive::Closed, 10_000) };
    load.timeout = crate::server::ms(5000);
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
