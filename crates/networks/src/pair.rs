//! Two namespaces that are connected by a veth pair and by nothing else.
//!
//! Nothing of it is in the host's namespace: the kernel removes all of it with the process, and no journal is needed. Addresses cannot
//! collide, for nobody else is in these namespaces.

use crate::link::Identity;
use crate::netlink::{End, Netlink};
use crate::network::{INSIDE, address_inside, index_of, limit_rate};
use crate::subnet::Subnet;
use crate::{Namespace, NetworkError};
use baremark_sys::ethtool::{self, Offload};
use std::io;
use std::net::Ipv4Addr;

/// Two connected namespaces. The link of each is [`INSIDE`].
#[derive(Debug)]
pub struct Pair {
    /// The namespaces.
    pub ends: [Namespace; 2],
}

/// Addresses of the two ends.
pub const ADDRESSES: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2)];

impl Pair {
    /// A pair that is up.
    ///
    /// # Errors
    /// When the kernel makes none.
    pub fn new() -> Result<Pair, NetworkError> {
        let ends = [Namespace::new()?, Namespace::new()?];
        let making = || NetworkError::kernel("making a pair of links");
        let macs = Identity::new('v').and_then(|one| Ok((one.mac, Identity::new('v')?.mac))).map_err(making())?;
        let make = || {
            let near = End { name: INSIDE, mac: macs.0, namespace: None };
            let far = End { name: INSIDE, mac: macs.1, namespace: Some(ends[1].descriptor()) };
            Netlink::open()?.make_veth(&near, &far)
        };
        ends[0].run(make)?.map_err(making())?;
        for (end, address) in ends.iter().zip(ADDRESSES) {
            end.run(|| address_inside(INSIDE, (address, Subnet::LENGTH)))?.map_err(making())?;
        }
        Ok(Pair { ends })
    }

    /// Switches an offload of one end's link.
    ///
    /// # Errors
    /// When the kernel keeps it as it is.
    pub fn switch(&self, end: usize, offload: Offload, on: bool) -> Result<(), NetworkError> {
        let what = format!("switching {} {}", offload.name(), if on { "on" } else { "off" });
        self.ends[end].run(|| ethtool::switch(INSIDE, offload, on))?.map_err(NetworkError::kernel(what))
    }

    /// Sets the largest frame of both ends, in bytes.
    ///
    /// # Errors
    /// When the kernel refuses the size.
    pub fn set_mtu(&self, mtu: u32) -> Result<(), NetworkError> {
        let set = |netlink: &mut Netlink, index: u32| netlink.set_mtu(index, mtu);
        self.both(&format!("setting an MTU of {mtu} B"), set)
    }

    /// Limits the rate of both directions, in bits per second.
    ///
    /// # Errors
    /// When the kernel has no tbf.
    pub fn limit_rate(&self, bits_per_s: u64) -> Result<(), NetworkError> {
        self.both("limiting the rate of a link", |netlink, index| limit_rate(netlink, index, bits_per_s))
    }

    fn both(
        &self,
        what: &str,
        change: impl Fn(&mut Netlink, u32) -> io::Result<()> + Sync,
    ) -> Result<(), NetworkError> {
        let inside = || -> io::Result<()> {
            let mut netlink = Netlink::open()?;
            let index = index_of(&mut netlink, INSIDE)?;
            change(&mut netlink, index)
        };
        self.ends.iter().try_for_each(|end| end.run(inside)?.map_err(NetworkError::kernel(what)))
    }
}
