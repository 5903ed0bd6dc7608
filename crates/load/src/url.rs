//! Where a load goes: URLs as typed, and names resolved to addresses before anything starts.
//!
//! Only this engine resolves names. Numeric addresses always work; `localhost` and /etc/hosts are read here, without the C
//! library. Anything else is `getaddrinfo(3)`'s business, which in a static binary speaks DNS and files but none of the
//! host's other name services (NIS, mDNS, systemd's): where one of those is needed, name the address.

use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream, ToSocketAddrs};
use std::time::Duration;

/// A server: everything of a URL before its path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// Whether TLS is spoken.
    pub secure: bool,
    /// The host as typed, without brackets.
    pub host: String,
    /// The port.
    pub port: u16,
}

/// Why a URL was refused.
#[derive(Debug, thiserror::Error)]
pub enum UrlError {
    /// It cannot be read.
    #[error("'{url}' {what}; write such as http://127.0.0.1:8080/path")]
    Unreadable {
        /// As typed.
        url: String,
        /// What is wrong.
        what: &'static str,
    },
    /// Its host has no address.
    #[error("the name '{host}' could not be resolved; check it, or name its address")]
    Unresolved {
        /// The name.
        host: String,
        /// What the resolver said.
        #[source]
        source: io::Error,
    },
    /// None of its addresses accepts a connection.
    #[error("{address}: {source}")]
    Unreachable {
        /// The last of them.
        address: SocketAddr,
        /// What connecting gave.
        #[source]
        source: io::Error,
    },
}

/// Splits a URL into its origin and its path with query; a fragment is dropped.
///
/// # Errors
/// When it is none of http or https, names a user, or has no host or an impossible port.
pub fn parse(url: &str) -> Result<(Origin, String), UrlError> {
    let refused = |what| UrlError::Unreadable { url: url.chars().take(200).collect(), what };
    if url.bytes().any(|byte| byte <= b' ' || byte == 0x7f) {
        return Err(refused("holds blanks or control characters"));
    }
    let (scheme, rest) = url.split_once("://").ok_or_else(|| refused("has no scheme"))?;
    let secure = match scheme.to_ascii_lowercase().as_str() {
        "http" => false,
        "https" => true,
        _ => return Err(refused("is neither http nor https")),
    };
    let rest = rest.split('#').next().unwrap_or_default();
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    if authority.contains('@') {
        return Err(refused("names a user; send an Authorization header instead"));
    }
    let (host, port) = if let Some(inside) = authority.strip_prefix('[') {
        let (host, after) = inside.split_once(']').ok_or_else(|| refused("has an open bracket"))?;
        (host, after.strip_prefix(':').or_else(|| after.is_empty().then_some("")))
    } else {
        authority.split_once(':').map_or((authority, Some("")), |(host, port)| (host, Some(port)))
    };
    let port = match port.ok_or_else(|| refused("has text after its address"))? {
        "" if secure => 443,
        "" => 80,
        digits => digits.parse().ok().filter(|port| *port != 0).ok_or_else(|| refused("has no port of 1 to 65535"))?,
    };
    if host.is_empty() {
        return Err(refused("has no host"));
    }
    let slash = if path.starts_with('/') { "" } else { "/" };
    Ok((Origin { secure, host: host.to_owned(), port }, format!("{slash}{path}")))
}

impl Origin {
    /// Host and port as the `Host` header has them.
    #[must_use]
    pub fn authority(&self) -> String {
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        if self.port == if self.secure { 443 } else { 80 } { host } else { format!("{host}:{}", self.port) }
    }

    /// The first of its addresses that accepts a connection within a time limit for each.
    ///
    /// # Errors
    /// When the name has none, or what the last of them gives.
    pub fn reachable(&self, limit: Duration) -> Result<SocketAddr, UrlError> {
        let mut last = None;
        for address in self.resolve()? {
            match TcpStream::connect_timeout(&address, limit) {
                Ok(_) => return Ok(address),
                Err(source) => last = Some(UrlError::Unreachable { address, source }),
            }
        }
        Err(last.unwrap_or_else(|| UrlError::Unresolved {
            host: self.host.clone(),
            source: io::Error::new(io::ErrorKind::NotFound, "the name has no address"),
        }))
    }

    /// Its addresses; never none.
    ///
    /// # Errors
    /// When the name has none.
    pub fn resolve(&self) -> Result<Vec<SocketAddr>, UrlError> {
        let hosts = || fs::read_to_string("/etc/hosts").unwrap_or_default();
        if let Some(address) = without_resolver(&self.host, hosts) {
            return Ok(vec![SocketAddr::new(address, self.port)]);
        }
        let unresolved = |source| UrlError::Unresolved { host: self.host.clone(), source };
        let mut found: Vec<SocketAddr> =
            (self.host.as_str(), self.port).to_socket_addrs().map_err(unresolved)?.collect();
        found.dedup();
        if found.is_empty() {
            return Err(unresolved(io::Error::new(io::ErrorKind::NotFound, "the name has no address")));
        }
        // One family only: whoever has no route to the other would see every second connection fail.
        let first_is_v4 = found[0].is_ipv4();
        found.retain(|address| address.is_ipv4() == first_is_v4);
        Ok(found)
    }
}

/// The address of a host that needs no name service: a number, `localhost` (RFC 6761), or a line of /etc/hosts.
fn without_resolver(host: &str, hosts: impl Fn() -> String) -> Option<IpAddr> {
    if let Ok(address) = host.parse() {
        return Some(address);
    }
    if host.eq_ignore_ascii_case("localhost") {
        return Some(IpAddr::V4(Ipv4Addr::LOCALHOST));
    }
    hosts().lines().find_map(|line| {
        let mut words = line.split('#').next()?.split_ascii_whitespace();
        let address = words.next()?.parse().ok()?;
        words.any(|name| name.eq_ignore_ascii_case(host)).then_some(address)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_taken_apart() {
        let origin = |secure, host: &str, port| Origin { secure, host: host.to_owned(), port };
        for (url, expected, path) in [
            ("http://127.0.0.1", origin(false, "127.0.0.1", 80), "/"),
            ("https://shop.example/a?b=c#d", origin(true, "shop.example", 443), "/a?b=c"),
            ("HTTP://[::1]:8080?x", origin(false, "::1", 8080), "/?x"),
        ] {
            assert_eq!(parse(url).expect(url), (expected, path.to_owned()));
        }
        assert_eq!(origin(false, "::1", 8080).authority(), "[::1]:8080");
        assert_eq!(origin(true, "a", 443).authority(), "a");
    }

    #[test]
    fn what_is_no_url_is_refused_with_an_example() {
        for url in [
            "127.0.0.1",
            "ftp://a",
            "http://",
            "http://a:0",
            "http://a:70000/",
            "http://u:p@a/",
            "http://[::1",
            "http://a b/",
        ] {
            let why = parse(url).expect_err(url).to_string();
            assert!(why.contains(url) && why.contains("write such as"), "{why}");
        }
    }

    #[test]
    fn names_are_found_without_a_resolver_where_they_can_be() {
        let hosts = || "# comment\n10.1.2.3 web web.internal # the web\n".to_owned();
        assert_eq!(without_resolver("WEB.internal", hosts), "10.1.2.3".parse().ok());
        assert_eq!(without_resolver("localhost", hosts), "127.0.0.1".parse().ok());
        assert_eq!(without_resolver("::1", hosts), "::1".parse().ok());
        assert_eq!(without_resolver("nowhere.invalid", hosts), None);
    }

    #[test]
    fn a_name_without_address_is_told_with_its_name() {
        // More than 63 letters without a dot are no name: no server is asked for it.
        let host = "nowhere".repeat(10);
        let origin = Origin { secure: false, host: host.clone(), port: 80 };
        let why = origin.resolve().expect_err("no name");
        assert!(why.to_string().contains(&format!("'{host}' could not be resolved")), "{why}");
    }
}
