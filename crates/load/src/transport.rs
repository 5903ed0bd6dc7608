//! The bytes of one connection, plain or through TLS, never waiting.

use crate::failure::Failure;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{WebPkiSupportedAlgorithms, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, ClientConnection, DigitallySignedStruct, RootCertStore, SignatureScheme};
use serde::{Deserialize, Serialize};
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Whose certificates are accepted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Trust {
    /// Those that the authorities of this machine have signed.
    #[default]
    System,
    /// Those that the authorities in this PEM file have signed.
    Authority(PathBuf),
    /// Those that the authorities in this PEM text have signed; the file is where it comes from.
    Certificates {
        /// The file.
        file: PathBuf,
        /// Its text.
        pem: String,
    },
    /// Any: nothing is checked. For servers with a certificate of their own making.
    Anything,
}

/// Why TLS cannot be prepared.
#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    /// The authorities' file.
    #[error("cannot read authorities from {path}; name a PEM file (--ca FILE)")]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: rustls::pki_types::pem::Error,
    },
    /// It holds none.
    #[error("{0} holds no certificate that can be used; name a PEM file (--ca FILE)")]
    Empty(PathBuf),
    /// The provider.
    #[error("TLS cannot be set up")]
    Provider(#[source] rustls::Error),
}

/// Where distributions keep the authorities.
const SYSTEM: [&str; 3] =
    ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"];

impl Trust {
    /// The client's side of TLS 1.2 and 1.3, to speak one of `protocols` (ALPN).
    pub(crate) fn config(&self, protocols: &[&[u8]]) -> Result<Arc<ClientConfig>, TrustError> {
        let provider = Arc::new(ring::default_provider());
        let algorithms = provider.signature_verification_algorithms;
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(TrustError::Provider)?;
        let mut config = match self {
            Trust::Anything => builder
                .dangerous()
                .with_custom_certificate_verifier(Arc::new(Unchecked(algorithms)))
                .with_no_client_auth(),
            Trust::System => {
                let found = SYSTEM.iter().map(PathBuf::from).find(|path| path.exists());
                let path = found.unwrap_or_else(|| PathBuf::from(SYSTEM[0]));
                builder.with_root_certificates(authorities(&path)?).with_no_client_auth()
            }
            Trust::Certificates { file, pem } => {
                let iter = CertificateDer::pem_slice_iter(pem.as_bytes());
                builder.with_root_certificates(trusted(file, iter)?).with_no_client_auth()
            }
            Trust::Authority(path) => builder.with_root_certificates(authorities(path)?).with_no_client_auth(),
        };
        config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
        Ok(Arc::new(config))
    }
}

fn authorities(path: &PathBuf) -> Result<RootCertStore, TrustError> {
    let unreadable = |source| TrustError::File { path: path.clone(), source };
    trusted(path, CertificateDer::pem_file_iter(path).map_err(unreadable)?)
}

fn trusted(
    path: &Path,
    certificates: impl Iterator<Item = Result<CertificateDer<'static>, rustls::pki_types::pem::Error>>,
) -> Result<RootCertStore, TrustError> {
    let unreadable = |source| TrustError::File { path: path.to_owned(), source };
    let mut store = RootCertStore::empty();
    for certificate in certificates {
        // Some bundles hold certificates that are not authorities to this library: those are passed over.
        let _ = store.add(certificate.map_err(unreadable)?);
    }
    if store.is_empty() { Err(TrustError::Empty(path.to_owned())) } else { Ok(store) }
}

/// Accepts every certificate; the signatures of the handshake are still checked.
#[derive(Debug)]
struct Unchecked(WebPkiSupportedAlgorithms);

impl ServerCertVerifier for Unchecked {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls12_signature(message, certificate, signed, &self.0)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls13_signature(message, certificate, signed, &self.0)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_schemes()
    }
}

/// One connection's bytes.
pub(crate) struct Transport {
    stream: TcpStream,
    tls: Option<Box<ClientConnection>>,
    /// Bytes that the kernel, or TLS, has not taken.
    unsent: Vec<u8>,
    /// What follows what TLS has brought: its end, or why it broke.
    then: Option<Result<(), Failure>>,
}

/// What a read brought.
pub(crate) enum Received {
    /// So many bytes, none when TLS had something to say for itself; whether the kernel may have more.
    Bytes(usize, More),
    /// Nothing now.
    Blocked,
    /// The other side has ended.
    Ended,
}

/// Whether another read could bring more without waiting.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum More {
    Maybe,
    No,
}

impl Transport {
    pub(crate) fn plain(stream: TcpStream) -> Transport {
        Transport { stream, tls: None, unsent: Vec::new(), then: None }
    }

    pub(crate) fn secure(
        stream: TcpStream,
        config: &Arc<ClientConfig>,
        name: ServerName<'static>,
    ) -> Result<Transport, Failure> {
        let tls = ClientConnection::new(config.clone(), name).or(Err(Failure::Tls))?;
        Ok(Transport { stream, tls: Some(Box::new(tls)), unsent: Vec::new(), then: None })
    }

    pub(crate) fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// What the other side chose to speak (ALPN): `None` without TLS, or before the handshake is over.
    pub(crate) fn chosen(&self) -> Option<&[u8]> {
        self.tls.as_ref().filter(|tls| !tls.is_handshaking()).map(|tls| tls.alpn_protocol().unwrap_or_default())
    }

    /// Whether something waits to be sent.
    #[inline]
    pub(crate) fn is_waiting(&self) -> bool {
        !self.unsent.is_empty() || self.tls.as_ref().is_some_and(|tls| tls.wants_write())
    }

    /// Bytes that wait to be sent; what TLS keeps for itself is bounded and not among them.
    #[inline]
    pub(crate) fn backlog(&self) -> usize {
        self.unsent.len()
    }

    /// Keeps bytes to be sent by the next [`Transport::flush`].
    pub(crate) fn keep(&mut self, bytes: &[u8]) {
        self.unsent.extend_from_slice(bytes);
    }

    /// Sends; what the kernel does not take now is kept and goes with [`Transport::flush`].
    #[inline]
    pub(crate) fn send(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        if let Some(tls) = &mut self.tls {
            // What TLS takes at once is copied once.
            let at_once = self.unsent.is_empty() && !tls.is_handshaking();
            let taken = if at_once { tls.writer().write(bytes).or(Err(Failure::Tls))? } else { 0 };
            self.keep(&bytes[taken..]);
            return self.flush();
        }
        if !self.unsent.is_empty() {
            self.keep(bytes);
            return self.flush();
        }
        match (&self.stream).write(bytes) {
            Ok(taken) if taken == bytes.len() => Ok(()),
            Ok(taken) => {
                self.keep(&bytes[taken..]);
                self.flush()
            }
            Err(why) if matches!(why.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
                self.keep(bytes);
                Ok(())
            }
            Err(why) => Err(Failure::of(&why)),
        }
    }

    /// Sends what was kept, as far as the kernel takes it.
    pub(crate) fn flush(&mut self) -> Result<(), Failure> {
        if let Some(tls) = &mut self.tls {
            loop {
                // TLS buffers a bounded amount at a time.
                if !self.unsent.is_empty() && !tls.is_handshaking() {
                    let taken = tls.writer().write(&self.unsent).or(Err(Failure::Tls))?;
                    self.unsent.drain(..taken);
                }
                if !tls.wants_write() {
                    return Ok(());
                }
                match tls.write_tls(&mut self.stream) {
                    Ok(_) => {}
                    Err(why) if why.kind() == ErrorKind::WouldBlock => return Ok(()),
                    Err(why) => return Err(Failure::of(&why)),
                }
            }
        }
        let mut sent = 0;
        while sent < self.unsent.len() {
            match (&self.stream).write(&self.unsent[sent..]) {
                Ok(taken) => sent += taken,
                Err(why) if matches!(why.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => break,
                Err(why) => return Err(Failure::of(&why)),
            }
        }
        self.unsent.drain(..sent);
        Ok(())
    }

    /// Reads what is there; `wire` is scratch, at most half as long as `into`.
    #[inline]
    pub(crate) fn receive(&mut self, into: &mut [u8], wire: &mut [u8]) -> Result<Received, Failure> {
        if self.tls.is_some() {
            return self.receive_tls(into, wire);
        }
        match (&self.stream).read(into) {
            Ok(0) => Ok(Received::Ended),
            Ok(count) => Ok(Received::Bytes(count, if count == into.len() { More::Maybe } else { More::No })),
            Err(why) => blocked(&why),
        }
    }

    /// One read brings many records, which TLS then takes in pieces of its own liking from memory.
    fn receive_tls(&mut self, into: &mut [u8], wire: &mut [u8]) -> Result<Received, Failure> {
        if let Some(then) = self.then {
            return then.map(|()| Received::Ended);
        }
        let count = match (&self.stream).read(wire) {
            Ok(0) if self.tls.as_ref().is_some_and(|tls| tls.is_handshaking()) => return Err(Failure::Tls),
            // Without TLS's own goodbye too: HTTP's framing says whether something is missing.
            Ok(0) => return Ok(Received::Ended),
            Ok(count) => count,
            Err(why) => return blocked(&why),
        };
        let more = if count == wire.len() { More::Maybe } else { More::No };
        match self.decrypt(&wire[..count], into) {
            // A handshake's messages alone: the end may lie behind them.
            Ok(Decrypted { plain: 0, over: false }) => Ok(Received::Bytes(0, More::Maybe)),
            Ok(Decrypted { plain: 0, over: true }) => Ok(Received::Ended),
            Ok(Decrypted { plain, over: false }) => Ok(Received::Bytes(plain, more)),
            Ok(Decrypted { plain, over: true }) => {
                self.then = Some(Ok(()));
                Ok(Received::Bytes(plain, More::Maybe))
            }
            Err((0, why)) => Err(why),
            Err((plain, why)) => {
                self.then = Some(Err(why));
                Ok(Received::Bytes(plain, More::Maybe))
            }
        }
    }

    /// Takes records apart; on failure too, what had come before it counts.
    fn decrypt(&mut self, mut wire: &[u8], into: &mut [u8]) -> Result<Decrypted, (usize, Failure)> {
        let mut plain = 0;
        while !wire.is_empty() {
            let Some(tls) = &mut self.tls else { break };
            let was_handshaking = tls.is_handshaking();
            match tls.read_tls(&mut wire) {
                // Nothing counts after its goodbye.
                Ok(0) => return Ok(Decrypted { plain, over: true }),
                Ok(_) => {}
                // It reads from memory: what it does not take is no error of the socket but a limit of TLS, such as of its buffer.
                Err(_) => return Err((plain, Failure::Tls)),
            }
            let processed = tls.process_new_packets();
            loop {
                match tls.reader().read(&mut into[plain..]) {
                    Ok(0) => return Ok(Decrypted { plain, over: true }),
                    Ok(count) => plain += count,
                    // For now, or without a goodbye.
                    Err(_) => break,
                }
            }
            if let Err(why) = processed {
                // The alert that tells the server why.
                let _ = tls.write_tls(&mut self.stream);
                let alpn = rustls::Error::AlertReceived(rustls::AlertDescription::NoApplicationProtocol);
                return Err((plain, if why == alpn { Failure::NoHttp2 } else { Failure::Tls }));
            }
            if was_handshaking || tls.wants_write() {
                self.flush().map_err(|why| (plain, why))?;
            }
        }
        Ok(Decrypted { plain, over: false })
    }
}

/// What records came to.
struct Decrypted {
    /// Bytes.
    plain: usize,
    /// The other side has said goodbye.
    over: bool,
}

fn blocked(why: &io::Error) -> Result<Received, Failure> {
    match why.kind() {
        ErrorKind::WouldBlock | ErrorKind::Interrupted => Ok(Received::Blocked),
        _ => Err(Failure::of(why)),
    }
}
