//! What can go wrong with a request, by kind: the kinds of the result's failure counts.

use serde::{Deserialize, Serialize};
use std::io;

/// Why a request brought no usable answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Failure {
    /// Nobody listens at the address.
    Refused,
    /// The address cannot be reached.
    Unreachable,
    /// The connection was torn down by the other side.
    Reset,
    /// The connection ended before the answer did.
    ClosedEarly,
    /// No complete answer in time.
    Timeout,
    /// The answer is no HTTP.
    Malformed,
    /// The answer's head does not end.
    HeadTooLarge,
    /// The answer's body is longer than what is accepted.
    Oversized,
    /// The answer's status is none of those expected.
    Status,
    /// TLS could not be agreed on or was violated.
    Tls,
    /// What the scenario wants from the answer is not in it.
    NotFound,
    /// This machine has no more ports to connect from.
    PortsExhausted,
    /// This process may not open more descriptors.
    DescriptorsExhausted,
    /// Anything else that the system said about a socket.
    Socket,
    /// The server has ended the stream of this request (HTTP/2).
    StreamReset,
    /// The server does not speak HTTP/2.
    NoHttp2,
    /// The server sent control frames or interim answers without end, or answered without reading.
    Flood,
}

impl Failure {
    /// Every kind, in the order of the counts.
    pub const ALL: [Failure; 17] = [
        Failure::Refused,
        Failure::Unreachable,
        Failure::Reset,
        Failure::ClosedEarly,
        Failure::Timeout,
        Failure::Malformed,
        Failure::HeadTooLarge,
        Failure::Oversized,
        Failure::Status,
        Failure::Tls,
        Failure::NotFound,
        Failure::PortsExhausted,
        Failure::DescriptorsExhausted,
        Failure::Socket,
        Failure::StreamReset,
        Failure::NoHttp2,
        Failure::Flood,
    ];

    /// The key under which it is counted.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Failure::Refused => "refused",
            Failure::Unreachable => "unreachable",
            Failure::Reset => "reset",
            Failure::ClosedEarly => "closed-early",
            Failure::Timeout => "timeout",
            Failure::Malformed => "malformed",
            Failure::HeadTooLarge => "head-too-large",
            Failure::Oversized => "oversized",
            Failure::Status => "status",
            Failure::Tls => "tls",
            Failure::NotFound => "not-found",
            Failure::PortsExhausted => "ports-exhausted",
            Failure::DescriptorsExhausted => "descriptors-exhausted",
            Failure::Socket => "socket",
            Failure::StreamReset => "stream-reset",
            Failure::NoHttp2 => "no-http2",
            Failure::Flood => "flood",
        }
    }

    /// What to do about it, where that is not the server's business.
    #[must_use]
    pub fn remedy(self) -> Option<&'static str> {
        match self {
            Failure::PortsExhausted => Some(
                "come from several addresses (--source), keep connections alive, or widen net.ipv4.ip_local_port_range",
            ),
            Failure::DescriptorsExhausted => {
                Some("raise the limit on open files (ulimit -n), or use fewer connections")
            }
            Failure::Tls => Some("name the authority's certificate (--ca FILE), or check none (--insecure)"),
            Failure::NoHttp2 => Some("leave --http2 away, or ask a server that speaks it"),
            Failure::Refused => Some("is the server started, and is the port right?"),
            _ => None,
        }
    }

    pub(crate) fn of(why: &io::Error) -> Failure {
        match why.raw_os_error() {
            Some(libc::EADDRNOTAVAIL | libc::EADDRINUSE | libc::EAGAIN) => Failure::PortsExhausted,
            Some(libc::EMFILE | libc::ENFILE) => Failure::DescriptorsExhausted,
            Some(libc::ECONNREFUSED) => Failure::Refused,
            Some(libc::ENETUNREACH | libc::EHOSTUNREACH | libc::ENETDOWN) => Failure::Unreachable,
            Some(libc::ECONNRESET | libc::EPIPE | libc::ECONNABORTED) => Failure::Reset,
            Some(libc::ETIMEDOUT) => Failure::Timeout,
            _ => Failure::Socket,
        }
    }
}
