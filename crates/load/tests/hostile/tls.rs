//! Hostile servers of TLS.

use super::{Asks, Case, Speaks, forever, silence, slowly};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;

const CERTIFICATE: &[u8] = include_bytes!("../load/localhost.pem");
const KEY: &[u8] = include_bytes!("../load/localhost.key");

/// Reads the first that a client says.
fn hello(stream: &mut TcpStream) -> io::Result<()> {
    let mut head = [0; 5];
    stream.read_exact(&mut head)?;
    let length = u64::from(head[3]) << 8 | u64::from(head[4]);
    io::copy(&mut (&*stream).take(length), &mut io::sink()).map(drop)
}

/// A record of TLS.
fn record(kind: u8, body: &[u8]) -> Vec<u8> {
    let length = u16::try_from(body.len()).unwrap().to_be_bytes();
    [&[kind, 3, 3][..], &length, body].concat()
}

fn once(stream: &mut TcpStream, answer: &[u8]) -> io::Result<()> {
    hello(stream)?;
    stream.write_all(answer)?;
    silence(stream)
}

fn on(stream: &mut TcpStream, first: &[u8], again: &[u8]) -> io::Result<()> {
    hello(stream)?;
    stream.write_all(first)?;
    forever(stream, again)
}

/// A sound handshake and the request, and so many tickets with it.
fn secure(stream: &TcpStream, tickets: usize) -> io::Result<StreamOwned<ServerConnection, TcpStream>> {
    let certificates = CertificateDer::pem_slice_iter(CERTIFICATE).collect::<Result<Vec<_>, _>>().unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(certificates, PrivateKeyDer::from_pem_slice(KEY).unwrap())
        .unwrap();
    config.send_tls13_tickets = tickets;
    let connection = ServerConnection::new(Arc::new(config)).unwrap();
    let mut stream = StreamOwned::new(connection, stream.try_clone()?);
    let _ = stream.read(&mut [0; 4096])?;
    Ok(stream)
}

type Conduct = fn(&mut TcpStream) -> io::Result<()>;

fn case(name: &'static str, kinds: &'static [&'static str], conduct: Conduct) -> Case {
    Case { name, speaks: Speaks::Tls, asks: Asks::Page, kinds, conduct }
}

const HANDSHAKE: u8 = 22;

pub(super) fn cases() -> Vec<Case> {
    vec![
        case("plain HTTP behind TLS", &["tls"], |stream| once(stream, b"HTTP/1.1 400 Bad Request\r\n\r\n")),
        case("garbage for a handshake", &["tls"], |stream| on(stream, b"", b"\xde\xad\xbe\xef")),
        case("silence after the hello", &["timeout"], silence),
        case("closed after the hello", &["tls", "reset"], |stream| {
            hello(stream)?;
            stream.shutdown(Shutdown::Both)
        }),
        case("a handshake byte by byte", &["timeout"], |stream| {
            hello(stream)?;
            slowly(stream, record(HANDSHAKE, &[&[2, 0, 0x3f, 0xfc][..], &[0; 16_380]].concat()))
        }),
        case("a handshake of 16 MiB", &["tls"], |stream| {
            let body = record(HANDSHAKE, &[0; 16_000]);
            on(stream, &record(HANDSHAKE, &[2, 0xff, 0xff, 0xff]), &body)
        }),
        case("handshakes of nothing", &["tls"], |stream| on(stream, b"", &record(HANDSHAKE, &[]))),
        case("warnings without end", &["tls"], |stream| on(stream, b"", &record(21, &[1, 0x5a]))),
        case("changes of the cipher without end", &["tls"], |stream| on(stream, b"", &record(20, &[1]))),
        case("a refusal", &["tls"], |stream| once(stream, &record(21, &[2, 40]))),
        // Where a ticket's end meets the end of the buffer, the library takes the flight for too long.
        case("tickets in thousands", &["timeout", "tls"], |stream| {
            secure(stream, 20_000)?.write_all(b"").and_then(|()| silence(stream))
        }),
        case("keys renewed without end", &["timeout", "tls"], |stream| {
            let mut secure = secure(stream, 2)?;
            loop {
                secure.conn.refresh_traffic_keys().map_err(io::Error::other)?;
                secure.flush()?;
            }
        }),
        case("an endless head in TLS", &["head-too-large"], |stream| {
            let mut secure = secure(stream, 2)?;
            secure.write_all(b"HTTP/1.1 200 OK\r\n")?;
            loop {
                secure.write_all(&b"X-And-On: and on\r\n".repeat(1000))?;
            }
        }),
        case("an endless body in TLS", &["timeout", "oversized"], |stream| {
            let mut secure = secure(stream, 2)?;
            secure.write_all(b"HTTP/1.1 200 OK\r\n\r\n")?;
            loop {
                secure.write_all(&[0; 16_384])?;
            }
        }),
        case("a record that nobody can read, after an answer", &["tls", "reset", "closed-early"], |stream| {
            let mut secure = secure(stream, 2)?;
            secure.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")?;
            secure.flush()?;
            stream.write_all(&record(23, &[7; 100]))?;
            silence(stream)
        }),
    ]
}
