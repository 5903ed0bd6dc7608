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
    /// The answer is not HTTP.
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

    /// The kind with this key.
    #[must_use]
    pub fn of_label(label: &str) -> Option<Failure> {
        Failure::ALL.into_iter().find(|kind| kind.label() == label)
    }

    /// What so many failures of this kind are called.
    #[must_use]
    pub fn noun(self, count: u64) -> &'static str {
        let (one, many) = match self {
            Failure::Refused => ("connection refused", "connections refused"),
            Failure::Unreachable => ("unreachable address", "unreachable addresses"),
            Failure::Reset => ("connection reset", "connections reset"),
            Failure::ClosedEarly => ("connection closed early", "connections closed early"),
            Failure::Timeout => ("timeout", "timeouts"),
            Failure::Malformed => ("malformed response", "malformed responses"),
            Failure::HeadTooLarge => ("response header too large", "response headers too large"),
            Failure::Oversized => ("response body too large", "response bodies too large"),
            Failure::Status => ("unexpected status", "unexpected statuses"),
            Failure::Tls => ("TLS error", "TLS errors"),
            Failure::NotFound => ("response without an expected value", "responses without an expected value"),
            Failure::PortsExhausted => {
                ("connection without a free local port", "connections without a free local port")
            }
            Failure::DescriptorsExhausted => {
                ("connection beyond the open file limit", "connections beyond the open file limit")
            }
            Failure::Socket => ("socket error", "socket errors"),
            Failure::StreamReset => ("stream reset", "streams reset"),
            Failure::NoHttp2 => ("server without HTTP/2", "servers without HTTP/2"),
            Failure::Flood => ("flood of control frames", "floods of control frames"),
        };
        if count == 1 { one } else { many }
    }

    /// What to do about it, where something can be done on this side.
    #[must_use]
    pub fn remedy(self) -> Option<&'static str> {
        match self {
            Failure::PortsExhausted => {
                Some("add source addresses (--source), keep connections alive, or widen net.ipv4.ip_local_port_range")
            }
            Failure::DescriptorsExhausted => Some("raise the open file limit (ulimit -n), or use fewer connections"),
            Failure::Tls => Some("trust the server's certificate (--ca FILE), or skip verification (--insecure)"),
            Failure::NoHttp2 => Some("leave out --http2, or use a server that supports HTTP/2"),
            Failure::Refused => Some("start the server, or check host and port"),
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn each_kind_has_a_place_a_key_and_a_name_of_its_own() {
        for (at, kind) in Failure::ALL.into_iter().enumerate() {
            assert_eq!((kind as usize, Failure::of_label(kind.label())), (at, Some(kind)));
        }
        let nouns: BTreeSet<&str> = Failure::ALL.into_iter().flat_map(|kind| [kind.noun(1), kind.noun(2)]).collect();
        assert_eq!(nouns.len(), 2 * Failure::ALL.len());
        assert_eq!(Failure::of_label("no such kind"), None);
    }
}
