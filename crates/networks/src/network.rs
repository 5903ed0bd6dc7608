//! A bridge in the host's namespace, and what is connected to it.

use crate::link::Identity;
use crate::netlink::{End, Netlink, Prefix};
use crate::subnet::Subnet;
use crate::{Namespace, NetworkError};
use baremark_delay::link::Direction;
use baremark_delay::{Delay, Links};
use baremark_journal::{Held, Journal};
use baremark_sys::ethtool::{self, LONGEST_FRAME, TapHeader};
use std::fs::File;
use std::io;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Packets that may wait in netem, each of up to 64 KiB.
const WAITING: u32 = 10_000;
/// The name of the only link of a node's namespace.
pub const INSIDE: &str = "eth0";

/// A bridge with a subnet of its own; the host has the first address.
#[derive(Debug)]
pub struct Network {
    journal: Journal,
    bridge: Identity,
    index: u32,
    next: AtomicU32,
    // Dropped in this order: the bridge, then the reservation of its addresses.
    _held: Held,
    subnet: Subnet,
}

/// A namespace that is connected to a network.
#[derive(Debug)]
pub struct Node {
    /// The namespace; its link is [`INSIDE`].
    pub namespace: Namespace,
    /// Its address.
    pub address: Ipv4Addr,
    /// The name of the host's end.
    pub outside: String,
    _held: Held,
}

/// A TAP interface that is connected to a network. The kernel removes it with the descriptor.
#[derive(Debug)]
pub struct Tap {
    /// What its frames are read from and written to, for a guest.
    pub file: File,
    /// Its name.
    pub name: String,
    /// The address that is meant for the guest.
    pub address: Ipv4Addr,
    _held: Held,
}

/// A TAP interface that is connected to a network, for a program that opens it by its name. Removed with this.
#[derive(Debug)]
pub struct GuestPort {
    /// Its name.
    pub name: String,
    /// The address that is meant for the guest.
    pub address: Ipv4Addr,
    _held: Held,
}

impl Network {
    /// A bridge that is up, for up to 252 nodes.
    ///
    /// # Errors
    /// When the kernel makes none, no subnet is free, or the journal cannot be written.
    pub fn new(journal: &Journal) -> Result<Network, NetworkError> {
        Network::with_room(journal, 0)
    }

    /// A bridge that is up, for at least so many nodes.
    ///
    /// # Errors
    /// As [`Network::new`], and when no subnet has so many addresses.
    pub fn with_room(journal: &Journal, nodes: u32) -> Result<Network, NetworkError> {
        let subnet = Subnet::reserve(journal, nodes.saturating_add(1))?;
        let bridge = Identity::new('b').map_err(NetworkError::kernel("naming a bridge"))?;
        let host = subnet.address(1)?;
        let (index, held) = bridge.make(journal, |netlink| {
            netlink.make_bridge(&bridge.name, bridge.mac)?;
            let index = index_of(netlink, &bridge.name)?;
            netlink.add_address(index, (host, subnet.length()))?;
            netlink.up(index)?;
            Ok(index)
        })?;
        Ok(Network { journal: journal.clone(), bridge, index, next: AtomicU32::new(2), _held: held, subnet })
    }

    /// The bridge's name.
    #[must_use]
    pub fn bridge(&self) -> &str {
        &self.bridge.name
    }

    /// Its subnet, such as `10.1.2.0/24`.
    #[must_use]
    pub fn subnet(&self) -> String {
        self.subnet.to_string()
    }

    /// Length of the prefix of its subnet.
    #[must_use]
    pub fn length(&self) -> u8 {
        self.subnet.length()
    }

    /// The host's own address on the bridge.
    ///
    /// # Errors
    /// Never: every subnet has a first address.
    pub fn host(&self) -> Result<Ipv4Addr, NetworkError> {
        self.subnet.address(1)
    }

    fn next_address(&self) -> Result<Ipv4Addr, NetworkError> {
        self.subnet.address(self.next.fetch_add(1, Ordering::Relaxed))
    }

    /// A new namespace with an address on the bridge.
    ///
    /// # Errors
    /// When the kernel makes none, or no address is left.
    pub fn namespace(&self) -> Result<Node, NetworkError> {
        let (namespace, address) = (Namespace::new()?, self.next_address()?);
        let naming = NetworkError::kernel("naming a link");
        let (outside, inside) = (Identity::new('v'), Identity::new('v'));
        let (outside, inside) = outside.and_then(|outside| Ok((outside, inside?))).map_err(naming)?;
        let ((), held) = outside.make(&self.journal, |netlink| {
            let near = End { name: &outside.name, mac: outside.mac, namespace: None };
            let far = End { name: INSIDE, mac: inside.mac, namespace: Some(namespace.descriptor()) };
            netlink.make_veth(&near, &far)?;
            let index = index_of(netlink, &outside.name)?;
            netlink.join(index, self.index)?;
            netlink.up(index)
        })?;
        let length = self.subnet.length();
        namespace
            .run(|| address_inside(INSIDE, (address, length)))?
            .map_err(NetworkError::kernel("addressing a namespace"))?;
        Ok(Node { namespace, address, outside: outside.name, _held: held })
    }

    /// Namespaces on the bridge whose links run through this process: what each of them sends is held for the delay, as netem on its link would
    /// do it; what comes to it is not. A round trip between two of them takes the delay twice. They lose their link when the second value is
    /// dropped.
    ///
    /// # Errors
    /// As [`Network::namespace`], and when there is no /dev/net/tun.
    pub fn delayed_namespaces(&self, count: usize, delay: Delay) -> Result<(Vec<Node>, Links), NetworkError> {
        let making = |what: &str| NetworkError::kernel(format!("making a link with a delay: {what}"));
        let (mut nodes, mut files, mut directions) = (Vec::new(), Vec::new(), Vec::new());
        for number in 0..count {
            let namespace = Namespace::new()?;
            let inside = namespace.run(|| ethtool::tap_of_segments(INSIDE))?.map_err(making("its inner end"))?;
            let Joined { made: outside, name, address, held } = self.joined(ethtool::tap_of_segments)?;
            let length = self.subnet.length();
            namespace
                .run(|| address_inside(INSIDE, (address, length)))?
                .map_err(NetworkError::kernel("addressing a namespace"))?;
            let (near, far) = (files.len(), files.len() + 1);
            files.extend([inside, outside]);
            let sent = Delay { seed: delay.seed.wrapping_add(number as u64), ..delay };
            directions.push(Direction { from: near, to: far, delay: sent, timed: true });
            directions.push(Direction { from: far, to: near, delay: Delay::default(), timed: false });
            nodes.push(Node { namespace, address, outside: name, _held: held });
        }
        let links = Links::start(files, &directions, LONGEST_FRAME).map_err(making("its thread"))?;
        Ok((nodes, links))
    }

    /// Namespaces on the bridge whose links hold what each of them sends by netem, with no program between them. A round trip between two
    /// of them takes the delay twice.
    ///
    /// # Errors
    /// As [`Network::namespace`], and when the kernel has no netem.
    pub fn netem_namespaces(&self, count: usize, delay: Delay) -> Result<Vec<Node>, NetworkError> {
        let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let held = (nanos(delay.one_way), nanos(delay.jitter));
        let one = || {
            let node = self.namespace()?;
            let hold = || {
                let mut netlink = Netlink::open()?;
                let index = index_of(&mut netlink, INSIDE)?;
                netlink.delay(index, held, WAITING)
            };
            let held = node.namespace.run(hold)?;
            held.map_err(|why| match why.kind() {
                io::ErrorKind::NotFound => NetworkError::NoNetem,
                _ => NetworkError::kernel("delaying a link by netem")(why),
            })?;
            Ok(node)
        };
        (0..count).map(|_| one()).collect()
    }

    /// A TAP interface on the bridge, for a guest whose emulator opens it by its name.
    ///
    /// # Errors
    /// When the kernel makes none, or no address is left.
    pub fn guest_port(&self) -> Result<GuestPort, NetworkError> {
        let Joined { made: (), name, address, held } = self.joined(ethtool::lasting_tap)?;
        Ok(GuestPort { name, address, _held: held })
    }

    /// A TAP interface on the bridge, for a guest.
    ///
    /// # Errors
    /// When the kernel makes none, or no address is left.
    pub fn tap(&self, header: TapHeader) -> Result<Tap, NetworkError> {
        let Joined { made: file, name, address, held } = self.joined(|name| ethtool::tap(name, header))?;
        Ok(Tap { file, name, address, _held: held })
    }

    /// Makes an interface by its name and connects it to the bridge.
    fn joined<T>(&self, make: impl FnOnce(&str) -> io::Result<T>) -> Result<Joined<T>, NetworkError> {
        let address = self.next_address()?;
        let identity = Identity::new('t').map_err(NetworkError::kernel("naming a link"))?;
        let (made, held) = identity.make(&self.journal, |netlink| {
            let made = make(&identity.name)?;
            let index = index_of(netlink, &identity.name)?;
            netlink.set_mac(index, identity.mac)?;
            netlink.join(index, self.index)?;
            netlink.up(index)?;
            Ok(made)
        })?;
        Ok(Joined { made, name: identity.name, address, held })
    }

    /// Limits the rate of a node in both directions, in bits per second, by a token bucket at each end of its link.
    ///
    /// # Errors
    /// When the kernel has no tbf.
    pub fn limit_rate(&self, node: &Node, bits_per_s: u64) -> Result<(), NetworkError> {
        let limit = |name: &str| -> io::Result<()> {
            let mut netlink = Netlink::open()?;
            let index = index_of(&mut netlink, name)?;
            limit_rate(&mut netlink, index, bits_per_s)
        };
        let what = "limiting the rate of a link";
        limit(&node.outside).map_err(NetworkError::kernel(what))?;
        node.namespace.run(|| limit(INSIDE))?.map_err(NetworkError::kernel(what))
    }
}

/// An interface that was made and connected.
struct Joined<T> {
    made: T,
    name: String,
    address: Ipv4Addr,
    held: Held,
}

/// A burst of 4 ms, or of two of the largest segments where that is more; what waits is a burst and 50 ms.
pub(crate) fn limit_rate(netlink: &mut Netlink, index: u32, bits_per_s: u64) -> io::Result<()> {
    let rate = bits_per_s / 8;
    let burst = u32::try_from(rate / 250).unwrap_or(u32::MAX).max(2 << 16);
    let waiting = u32::try_from(rate / 20).unwrap_or(u32::MAX).saturating_add(burst);
    netlink.limit_rate(index, rate, burst, waiting)
}

/// The number of a link that was just made.
pub(crate) fn index_of(netlink: &mut Netlink, name: &str) -> io::Result<u32> {
    let found = netlink.link(name)?.ok_or_else(|| io::Error::other(format!("the link {name} is gone")))?;
    Ok(found.index)
}

/// Gives a link of this thread's namespace an address and brings it up.
pub(crate) fn address_inside(name: &str, address: Prefix) -> io::Result<()> {
    let mut netlink = Netlink::open()?;
    let index = index_of(&mut netlink, name)?;
    netlink.add_address(index, address)?;
    netlink.up(index)
}
