//! A private range of addresses that collides with nothing this host knows.

use crate::NetworkError;
use crate::netlink::{Netlink, Prefix};
use baremark_journal::file::random_word;
use baremark_journal::{Change, Held, Journal, JournalError, Kind, MakeError, Undone};
use serde_json::Value;
use std::convert::Infallible;
use std::fmt;
use std::io;
use std::net::Ipv4Addr;

const KIND: &str = "subnet";
/// Subnets that are tried.
const TRIES: u32 = 256;

/// The kind of reservations of subnets among runs: nothing is changed by them.
#[derive(Clone, Copy, Debug)]
pub struct Subnets;

impl Kind for Subnets {
    fn name(&self) -> &'static str {
        KIND
    }

    fn undo(&self, _: &Value) -> io::Result<Undone> {
        Ok(Undone::Absent)
    }
}

/// Addresses of 10.0.0.0/8 that no other run has while this is held.
#[derive(Debug)]
pub struct Subnet {
    base: Ipv4Addr,
    length: u8,
    _held: Held,
}

impl Subnet {
    /// Length of the prefix of the smallest subnet.
    pub const LENGTH: u8 = 24;
    /// Length of the prefix of the largest.
    const LARGEST: u8 = 20;

    /// Reserves a subnet with at least `addresses` addresses that overlaps no route and no address of the host, found from a random
    /// place on.
    ///
    /// # Errors
    /// When none is found, it would be too large, or the reservation cannot be recorded.
    pub fn reserve(journal: &Journal, addresses: u32) -> Result<Subnet, NetworkError> {
        let fits = |length: &u8| (1_u32 << (32 - length)) - 2 >= addresses;
        let length = (Self::LARGEST..=Self::LENGTH).rev().find(fits).ok_or(NetworkError::TooLarge(addresses))?;
        let asking = || NetworkError::kernel("finding a free subnet");
        let used = Netlink::open().and_then(|mut netlink| netlink.used_prefixes()).map_err(asking())?;
        let word = random_word().map_err(asking())?;
        let start = u32::from_str_radix(&word[..8], 16).unwrap_or(0);
        for base in (0..TRIES)
            .map(|step| aligned(candidate(start, step), length))
            .filter(|base| is_free((*base, length), &used))
        {
            let change =
                Change { kind: KIND.to_owned(), target: format!("subnet {base}/{length}"), details: Value::Null };
            match journal.make(change, || Ok::<_, Infallible>(())) {
                Ok(((), held)) => return Ok(Subnet { base, length, _held: held }),
                Err(MakeError::Journal(JournalError::Held { .. })) => {}
                Err(MakeError::Journal(why)) => return Err(why.into()),
                Err(MakeError::Change(never)) => match never {},
            }
        }
        Err(NetworkError::NoSubnet)
    }

    /// Length of its prefix.
    #[must_use]
    pub fn length(&self) -> u8 {
        self.length
    }

    /// Its address with this number, from 1: neither that of the subnet itself nor the one for all.
    ///
    /// # Errors
    /// When there is none of that number.
    pub fn address(&self, number: u32) -> Result<Ipv4Addr, NetworkError> {
        match number {
            1.. if number < (1 << (32 - self.length)) - 1 => Ok(Ipv4Addr::from(u32::from(self.base) | number)),
            _ => Err(NetworkError::NoAddress(self.to_string())),
        }
    }
}

impl fmt::Display for Subnet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.base, self.length)
    }
}

/// The subnet of this length in which an address is.
fn aligned(address: Ipv4Addr, length: u8) -> Ipv4Addr {
    Ipv4Addr::from(u32::from(address) & (u32::MAX << (32 - length)))
}

/// A subnet of 10.0.0.0/8, another one for each step; the first and the last 16 of them, which people like, are left out.
fn candidate(start: u32, step: u32) -> Ipv4Addr {
    let number = 4096 + start.wrapping_add(step.wrapping_mul(40_503)) % (65_536 - 2 * 4096);
    Ipv4Addr::from((10 << 24) | (number << 8))
}

/// Whether a subnet overlaps none of others. Default routes, of length 0, are everywhere and count for nothing.
fn is_free(subnet: Prefix, used: &[Prefix]) -> bool {
    used.iter().filter(|(_, length)| *length > 0).all(|other| !overlap(subnet, *other))
}

fn overlap((one, length): Prefix, (other, other_length): Prefix) -> bool {
    let common = u32::from(32 - length.min(other_length).min(32));
    u32::from(one).checked_shr(common).unwrap_or(0) == u32::from(other).checked_shr(common).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subnets_that_overlap_are_not_free() {
        let prefix = |text: &str| {
            let (address, length) = text.split_once('/').expect("a length");
            (address.parse().expect("an address"), length.parse().expect("a number"))
        };
        let free =
            |used: &[&str]| is_free(prefix("10.77.3.0/24"), &used.iter().map(|used| prefix(used)).collect::<Vec<_>>());
        assert!(free(&["0.0.0.0/0", "10.77.2.0/24", "10.77.4.0/22", "192.168.0.0/16", "10.77.4.3/32"]));
        for used in ["10.0.0.0/8", "10.77.3.0/24", "10.77.3.128/25", "10.77.3.9/32", "10.77.0.0/22"] {
            assert!(!free(&[used]), "{used}");
        }
    }

    #[test]
    fn candidates_are_private_and_differ() {
        for start in [0, 1, u32::MAX, 77_777] {
            let all: std::collections::BTreeSet<_> = (0..TRIES).map(|step| candidate(start, step)).collect();
            assert_eq!(all.len(), TRIES as usize);
            assert!(all.iter().all(|base| base.octets()[0] == 10 && base.octets()[3] == 0));
            let wide = all.iter().map(|base| aligned(*base, Subnet::LARGEST));
            assert!(wide.clone().all(|base| u32::from(base) % (1 << 12) == 0 && base.octets()[0] == 10));
            assert!(wide.collect::<std::collections::BTreeSet<_>>().len() > 64, "enough of the largest, too");
        }
    }
}
