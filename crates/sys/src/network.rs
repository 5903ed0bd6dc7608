//! What the kernel lets this machine do on its network.

use crate::calls::checked;
use std::fs;
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{FromRawFd, OwnedFd};

#[expect(clippy::cast_possible_truncation, reason = "the family is 2")]
const FAMILY: libc::sa_family_t = libc::AF_INET as libc::sa_family_t;
#[expect(clippy::cast_possible_truncation, reason = "an address has 16 bytes")]
const ADDRESS_BYTES: libc::socklen_t = size_of::<libc::sockaddr_in>() as libc::socklen_t;

/// A TCP port of this machine's loopback that the kernel gives to nobody else who asks for any port, for as long as this is
/// held. A server that is told this port can listen on it meanwhile, if it sets `SO_REUSEADDR` (socket(7)), as servers that can
/// be started again do: a port that was only found to be free may be somebody else's before its server has started.
#[derive(Debug)]
pub struct HeldPort {
    // It is bound and never listens.
    _socket: OwnedFd,
    number: u16,
}

impl HeldPort {
    /// Takes any port.
    ///
    /// # Errors
    /// When no socket can be made, or no port is left.
    pub fn any() -> io::Result<HeldPort> {
        // SAFETY: socket(2) reads no memory of ours.
        let fd = checked(unsafe { libc::socket(libc::AF_INET, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0) })?;
        // SAFETY: the descriptor is new, and nobody else's.
        let socket = unsafe { OwnedFd::from_raw_fd(fd) };
        let yes: libc::c_int = 1;
        let mut length = ADDRESS_BYTES;
        // SAFETY: the option's value is one int that lives through the call.
        let reusable =
            unsafe { libc::setsockopt(fd, libc::SOL_SOCKET, libc::SO_REUSEADDR, (&raw const yes).cast(), 4) };
        let mut address = loopback(0);
        // SAFETY: `address` is a socket address of `length` bytes that lives through the call.
        if reusable != 0 || unsafe { libc::bind(fd, (&raw const address).cast(), length) } != 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: both live through the call, and the kernel writes at most `length` bytes.
        checked(unsafe { libc::getsockname(fd, (&raw mut address).cast(), &raw mut length) })?;
        Ok(HeldPort { _socket: socket, number: u16::from_be(address.sin_port) })
    }

    /// Its number.
    #[must_use]
    pub fn number(&self) -> u16 {
        self.number
    }
}

fn loopback(port: u16) -> libc::sockaddr_in {
    libc::sockaddr_in {
        sin_family: FAMILY,
        sin_port: port.to_be(),
        sin_addr: libc::in_addr { s_addr: u32::from(Ipv4Addr::LOCALHOST).to_be() },
        sin_zero: [0; 8],
    }
}

/// Ports from which connections may come whose port nobody has chosen, between one pair of addresses; `None` where the
/// kernel does not say.
#[must_use]
pub fn local_ports() -> Option<usize> {
    range(&fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").ok()?)
}

fn range(text: &str) -> Option<usize> {
    let mut ends = text.split_whitespace().map(str::parse::<usize>);
    let (low, high) = (ends.next()?.ok()?, ends.next()?.ok()?);
    Some((high + 1).saturating_sub(low))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsRawFd;
    use std::thread;
    use std::time::{Duration, Instant};

    /// A server here. What another thread forks meanwhile holds the socket of the one before until it executes its program.
    fn server(at: (Ipv4Addr, u16), what: &str) -> TcpListener {
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            match TcpListener::bind(at) {
                Err(why) if why.kind() == io::ErrorKind::AddrInUse && Instant::now() < deadline => {
                    thread::sleep(Duration::from_millis(1));
                }
                bound => return bound.expect(what),
            }
        }
    }

    #[test]
    fn a_held_port_is_given_to_nobody_and_a_server_listens_on_it() {
        let held = HeldPort::any().expect("a port is left");
        let here = (Ipv4Addr::LOCALHOST, held.number());
        let others: Vec<HeldPort> = (0..500).map(|_| HeldPort::any().expect("a port is left")).collect();
        assert!(others.iter().all(|other| other.number() != held.number()));
        for _ in 0..2 {
            let server = server(here, "a server sets SO_REUSEADDR");
            let asking = TcpStream::connect(here).expect("it listens");
            drop((server.accept().expect("somebody asks"), asking));
        }
        drop(server((Ipv4Addr::UNSPECIFIED, held.number()), "on every address, too"));
        // Connections that have ended keep a port from whoever is strict for a while: one without any.
        let held = HeldPort::any().expect("a port is left");
        let address = loopback(held.number());
        // SAFETY: socket(2) reads no memory of ours, and the descriptor is new.
        let strict = unsafe { OwnedFd::from_raw_fd(libc::socket(libc::AF_INET, libc::SOCK_STREAM, 0)) };
        // SAFETY: `address` lives through the call.
        let bound = || unsafe { libc::bind(strict.as_raw_fd(), (&raw const address).cast(), ADDRESS_BYTES) };
        assert_eq!(bound(), -1, "whoever does not set it finds that it is taken");
        drop(held);
        let deadline = Instant::now() + Duration::from_secs(60);
        while bound() != 0 {
            assert!(Instant::now() < deadline, "and not afterwards");
            thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn a_range_counts_both_its_ends() {
        assert_eq!(range("32768\t60999\n"), Some(28_232));
        assert_eq!(range("40000 40010"), Some(11));
        assert_eq!((range("32768"), range("")), (None, None));
        assert!(local_ports().is_some_and(|ports| ports > 0), "this kernel says");
    }
}
