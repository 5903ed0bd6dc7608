//! Addresses from which connections can come.

use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};

/// Finds out whether an address is one of this machine's. That a socket can be bound to it shows so only where the kernel does not permit to bind
/// any address (`net.ipv4.ip_nonlocal_bind`): elsewhere the tables of routes are read.
///
/// # Errors
/// Why it is none.
pub(crate) fn check_own(address: IpAddr) -> io::Result<()> {
    UdpSocket::bind((address, 0))?;
    let permits = |family: &str| {
        let text = fs::read_to_string(format!("/proc/sys/net/{family}/ip_nonlocal_bind"));
        text.is_ok_and(|text| text.trim() == "1")
    };
    let is_own = match address {
        IpAddr::V4(address) if permits("ipv4") => {
            fs::read_to_string("/proc/net/fib_trie").map_or(true, |text| is_own_v4(&text, address))
        }
        IpAddr::V6(address) if permits("ipv6") => {
            fs::read_to_string("/proc/net/ipv6_route").map_or(true, |text| is_own_v6(&text, address))
        }
        _ => true,
    };
    if is_own { Ok(()) } else { Err(io::ErrorKind::AddrNotAvailable.into()) }
}

/// Whether it is in a range of local addresses of /proc/net/fib_trie: a leaf, and below it a line for each length of the prefix.
fn is_own_v4(text: &str, address: Ipv4Addr) -> bool {
    let mut leaf: Option<Ipv4Addr> = None;
    text.lines().map(str::trim).any(|line| {
        if let Some(prefix) = line.strip_prefix("|-- ") {
            leaf = prefix.parse().ok();
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        let length: Option<u32> = match words[..] {
            [length, "host", "LOCAL"] => length.strip_prefix('/').and_then(|length| length.parse().ok()),
            _ => None,
        };
        leaf.zip(length).is_some_and(|(leaf, length)| {
            let differs = u32::from(leaf) ^ u32::from(address);
            differs.checked_shr(32_u32.saturating_sub(length)).unwrap_or(0) == 0
        })
    })
}

/// The same of /proc/net/ipv6_route: address, length of the prefix and, in the ninth column, flags, all in hexadecimal digits.
fn is_own_v6(text: &str, address: Ipv6Addr) -> bool {
    const RTF_LOCAL: u32 = 0x8000_0000;
    text.lines().any(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [prefix, length, _, _, _, _, _, _, flags, ..] = words[..] else { return false };
        let number = |text: &str| u32::from_str_radix(text, 16).ok();
        let (Ok(prefix), Some(length), Some(flags)) = (u128::from_str_radix(prefix, 16), number(length), number(flags))
        else {
            return false;
        };
        let differs = prefix ^ u128::from(address);
        flags & RTF_LOCAL != 0 && differs.checked_shr(128_u32.saturating_sub(length)).unwrap_or(0) == 0
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_this_machine_are_those_that_its_routes_call_local() {
        let v4 = [
            "     +-- 127.0.0.0/8 2 0 2",
            "        |-- 127.0.0.0",
            "           /8 host LOCAL",
            "     |-- 10.1.2.0",
            "        /24 link UNICAST",
            "     |-- 10.1.2.3",
            "        /32 host LOCAL",
            "     |-- 10.1.2.255",
            "        /32 link BROADCAST",
        ]
        .join("\n");
        let v4 = |address: [u8; 4]| is_own_v4(&v4, address.into());
        assert!(v4([127, 0, 0, 2]) && v4([10, 1, 2, 3]));
        assert!(!v4([10, 1, 2, 4]) && !v4([10, 1, 2, 255]) && !v4([240, 0, 0, 1]));
        let none = "00000000000000000000000000000000";
        let line = |address: &str, length: &str, flags: &str| {
            format!("{address} {length} {none} 00 {none} 00000100 00000001 00000000 {flags} eth0\n")
        };
        let local = "fd000000000000000000000000000002";
        let v6 = line("fd000000000000000000000000000000", "40", "00000001") + &line(local, "80", "80200001");
        let v6 = |address: &str| is_own_v6(&v6, address.parse().expect("an address"));
        assert!(v6("fd00::2") && !v6("fd00::3") && !v6("::1"));
    }

    #[test]
    fn loopback_is_this_machines_and_a_reserved_address_is_nobodys() {
        assert!(check_own([127, 0, 0, 2].into()).is_ok());
        assert_eq!(check_own([240, 0, 0, 1].into()).map_err(|why| why.kind()), Err(io::ErrorKind::AddrNotAvailable));
    }
}
