//! Requests to rtnetlink, one at a time, each answered before the next.

use netlink_packet_core::{
    DefaultNla, NLM_F_ACK, NLM_F_CREATE, NLM_F_DUMP, NLM_F_EXCL, NLM_F_REPLACE, NLM_F_REQUEST, NetlinkHeader,
    NetlinkMessage, NetlinkPayload,
};
use netlink_packet_route::address::{AddressAttribute, AddressMessage};
use netlink_packet_route::link::{InfoData, InfoKind, InfoVeth, LinkAttribute, LinkFlags, LinkInfo, LinkMessage};
use netlink_packet_route::route::{RouteAddress, RouteAttribute, RouteMessage};
use netlink_packet_route::tc::{TcAttribute, TcHandle, TcMessage, TcOption};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};
use std::io;
use std::net::{IpAddr, Ipv4Addr};

/// Hardware address of a link.
pub type Mac = [u8; 6];

/// What is known of a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Its number.
    pub index: u32,
    /// Its name.
    pub name: String,
    /// Its hardware address, where it has one.
    pub mac: Vec<u8>,
}

/// A subnet of IPv4: an address and the length of its prefix.
pub type Prefix = (Ipv4Addr, u8);

/// A link to be made.
#[derive(Clone, Copy, Debug)]
pub struct End<'e> {
    /// Its name.
    pub name: &'e str,
    /// Its hardware address.
    pub mac: Mac,
    /// The descriptor of its namespace; none for that of the caller.
    pub namespace: Option<i32>,
}

/// A connection to rtnetlink in the network namespace of the thread that opened it.
pub struct Netlink {
    socket: Socket,
    sequence: u32,
}

impl Netlink {
    /// A connection.
    ///
    /// # Errors
    /// What `socket(2)` and `bind(2)` give.
    pub fn open() -> io::Result<Netlink> {
        let mut socket = Socket::new(NETLINK_ROUTE)?;
        socket.bind_auto()?;
        socket.connect(&SocketAddr::new(0, 0))?;
        Ok(Netlink { socket, sequence: 0 })
    }

    /// Sends a request and gathers its answer.
    fn ask(&mut self, message: RouteNetlinkMessage, flags: u16) -> io::Result<Vec<RouteNetlinkMessage>> {
        self.sequence += 1;
        let mut header = NetlinkHeader::default();
        header.flags = NLM_F_REQUEST | NLM_F_ACK | flags;
        header.sequence_number = self.sequence;
        let mut packet = NetlinkMessage::new(header, NetlinkPayload::from(message));
        packet.finalize();
        let mut bytes = vec![0; packet.buffer_len()];
        packet.serialize(&mut bytes);
        self.socket.send(&bytes, 0)?;
        let mut answer = Vec::new();
        loop {
            let (bytes, _) = self.socket.recv_from_full()?;
            if self.take(&bytes, &mut answer)? {
                return Ok(answer);
            }
        }
    }

    /// Takes the messages of one datagram; whether the answer is complete.
    fn take(&self, bytes: &[u8], answer: &mut Vec<RouteNetlinkMessage>) -> io::Result<bool> {
        let mut rest = bytes;
        while rest.len() >= 16 {
            let packet = NetlinkMessage::<RouteNetlinkMessage>::deserialize(rest)
                .map_err(|why| io::Error::new(io::ErrorKind::InvalidData, why.to_string()))?;
            let length = usize::try_from(packet.header.length).unwrap_or(usize::MAX).max(16);
            rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
            if packet.header.sequence_number != self.sequence {
                continue;
            }
            match packet.payload {
                NetlinkPayload::Done(_) => return Ok(true),
                NetlinkPayload::Error(error) => {
                    return if error.code.is_none() { Ok(true) } else { Err(error.to_io()) };
                }
                NetlinkPayload::InnerMessage(message) => answer.push(message),
                _ => {}
            }
        }
        Ok(false)
    }

    /// The link of this name.
    ///
    /// # Errors
    /// What rtnetlink gives, other than that there is none.
    pub fn link(&mut self, name: &str) -> io::Result<Option<Found>> {
        let mut message = LinkMessage::default();
        message.attributes.push(LinkAttribute::IfName(name.to_owned()));
        match self.ask(RouteNetlinkMessage::GetLink(message), 0) {
            Err(why) if why.raw_os_error() == Some(ENODEV) => Ok(None),
            answer => Ok(answer?.iter().find_map(found)),
        }
    }

    /// All links of the namespace.
    ///
    /// # Errors
    /// What rtnetlink gives.
    pub fn links(&mut self) -> io::Result<Vec<Found>> {
        let answer = self.ask(RouteNetlinkMessage::GetLink(LinkMessage::default()), NLM_F_DUMP)?;
        Ok(answer.iter().filter_map(found).collect())
    }

    /// Makes a bridge.
    ///
    /// # Errors
    /// What rtnetlink gives.
    pub fn make_bridge(&mut self, name: &str, mac: Mac) -> io::Result<()> {
        let mut message = end(&End { name, mac, namespace: None });
        message.attributes.push(LinkAttribute::LinkInfo(vec![LinkInfo::Kind(InfoKind::Bridge)]));
        self.make(message)
    }

    /// Makes a pair of veth links; either end may be in another namespace.
    ///
    /// # Errors
    /// What rtnetlink gives.
    pub fn make_veth(&mut self, one: &End<'_>, other: &End<'_>) -> io::Result<()> {
        let mut message = end(one);
        let peer = InfoData::Veth(InfoVeth::Peer(end(other)));
        message.attributes.push(LinkAttribute::LinkInfo(vec![LinkInfo::Kind(InfoKind::Veth), LinkInfo::Data(peer)]));
        self.make(message)
    }

    fn make(&mut self, message: LinkMessage) -> io::Result<()> {
        self.ask(RouteNetlinkMessage::NewLink(message), NLM_F_CREATE | NLM_F_EXCL).map(drop)
    }

    /// Removes a link.
    ///
    /// # Errors
    /// What rtnetlink gives.
    pub fn remove(&mut self, index: u32) -> io::Result<()> {
        self.ask(RouteNetlinkMessage::DelLink(numbered(index)), 0).map(drop)
    }

    /// Brings a link up.
    ///
    /// # Errors
    /// What rtnetlink gives.
    pub fn up(&mut self, index: u32) -> io::Result<()> {
        let mut message = numbered(index);
        message.header.flags = LinkFlags::Up;
        message.header.change_mask = LinkFlags::Up;
        self.ask(RouteNetlinkMessage::SetLink(message), 0).map(drop)
    }

    /// Makes a link a port of a bridge.
    ///
    /// # Errors
    /// What rtnetlink gives.
    pub fn join(&mut self, index: u32, bridge: u32) -> io::Result<()> {
        self.change(index, LinkAttribute::Controller(bridge))
    }

    /// Sets the largest frame of a link, in bytes without the Ethernet header.
    ///
    /// # Errors
    /// What rtnetlink gives.
    pub fn set_mtu(&mut self, index: u32, mtu: u32) -> io::Result<()> {
        self.change(index, LinkAttribute::Mtu(mtu))
    }

    /// Sets the hardware address of a link.
    ///
    /// # Errors
    /// What rtnetlink gives.
    pub fn set_mac(&mut self, index: u32, mac: Mac) -> io::Result<()> {
        self.change(index, LinkAttribute::Address(mac.to_vec()))
    }

    fn change(&mut self, index: u32, attribute: LinkAttribute) -> io::Result<()> {
        let mut message = numbered(index);
        message.attributes.push(attribute);
        self.ask(RouteNetlinkMessage::SetLink(message), 0).map(drop)
    }

    /// Gives a link an address.
    ///
    /// # Errors
    /// What rtnetlink gives.
    pub fn add_address(&mut self, index: u32, (address, length): Prefix) -> io::Result<()> {
        let mut message = AddressMessage::default();
        message.header.family = AddressFamily::Inet;
        message.header.prefix_len = length;
        message.header.index = index;
        message.attributes.push(AddressAttribute::Local(IpAddr::V4(address)));
        message.attributes.push(AddressAttribute::Address(IpAddr::V4(address)));
        self.ask(RouteNetlinkMessage::NewAddress(message), NLM_F_CREATE | NLM_F_EXCL).map(drop)
    }

    /// Destinations of all routes of IPv4, in all tables, without the default ones, and the subnets of all addresses.
    ///
    /// # Errors
    /// What rtnetlink gives.
    pub fn used_prefixes(&mut self) -> io::Result<Vec<Prefix>> {
        let mut routes = RouteMessage::default();
        routes.header.address_family = AddressFamily::Inet;
        let routes = self.ask(RouteNetlinkMessage::GetRoute(routes), NLM_F_DUMP)?;
        let mut addresses = AddressMessage::default();
        addresses.header.family = AddressFamily::Inet;
        let addresses = self.ask(RouteNetlinkMessage::GetAddress(addresses), NLM_F_DUMP)?;
        Ok(routes.iter().chain(&addresses).filter_map(prefix).collect())
    }

    /// Holds what a link sends (netem): each packet for `latency`, ± `jitter`, in nanoseconds; at most so many packets wait.
    ///
    /// # Errors
    /// What rtnetlink gives, `ENOENT` where the kernel has no netem.
    pub fn delay(&mut self, index: u32, (latency, jitter): (u64, u64), waiting: u32) -> io::Result<()> {
        let mut message = TcMessage::with_index(i32::try_from(index).map_err(io::Error::other)?);
        message.header.parent = TcHandle::ROOT;
        let options = DefaultNla::new(TCA_OPTIONS, netem_options(latency, jitter, waiting));
        message.attributes = vec![TcAttribute::Kind("netem".to_owned()), TcAttribute::Other(options)];
        self.ask(RouteNetlinkMessage::NewQueueDiscipline(message), NLM_F_CREATE | NLM_F_REPLACE).map(drop)
    }

    /// Limits what a link sends by a token bucket (tbf): bytes per second, bytes of a burst, and bytes that may wait.
    ///
    /// # Errors
    /// What rtnetlink gives.
    pub fn limit_rate(&mut self, index: u32, rate: u64, burst: u32, waiting: u32) -> io::Result<()> {
        let mut message = TcMessage::with_index(i32::try_from(index).map_err(io::Error::other)?);
        message.header.parent = TcHandle::ROOT;
        let option = |kind: u16, bytes: &[u8]| TcOption::Other(DefaultNla::new(kind, bytes.to_vec()));
        let options = vec![
            option(TCA_TBF_PARMS, &tbf_parameters(rate, waiting)),
            option(TCA_TBF_RATE64, &rate.to_ne_bytes()),
            option(TCA_TBF_BURST, &burst.to_ne_bytes()),
        ];
        message.attributes = vec![TcAttribute::Kind("tbf".to_owned()), TcAttribute::Options(options)];
        self.ask(RouteNetlinkMessage::NewQueueDiscipline(message), NLM_F_CREATE | NLM_F_REPLACE).map(drop)
    }
}

const ENODEV: i32 = 19;
/// From linux/pkt_sched.h.
const TCA_TBF_PARMS: u16 = 1;
const TCA_TBF_RATE64: u16 = 4;
const TCA_TBF_BURST: u16 = 6;
const TC_LINKLAYER_ETHERNET: u8 = 1;
const TCA_NETEM_LATENCY64: u16 = 10;
const TCA_NETEM_JITTER64: u16 = 11;
/// From linux/rtnetlink.h.
const TCA_OPTIONS: u16 = 2;

/// `struct tc_tbf_qopt`: two rates of 12 bytes, then limit, buffer and mtu. The rate proper and the burst are options of their own.
fn tbf_parameters(rate: u64, waiting: u32) -> [u8; 36] {
    let mut bytes = [0; 36];
    bytes[1] = TC_LINKLAYER_ETHERNET;
    bytes[8..12].copy_from_slice(&u32::try_from(rate).unwrap_or(u32::MAX).to_ne_bytes());
    bytes[24..28].copy_from_slice(&waiting.to_ne_bytes());
    bytes
}

/// `struct tc_netem_qopt` (latency, limit, loss, gap, duplicate, jitter), whose times in ticks are replaced by options of 64 bits in nanoseconds.
fn netem_options(latency: u64, jitter: u64, waiting: u32) -> Vec<u8> {
    let mut bytes = [0, waiting, 0, 0, 0, 0].map(u32::to_ne_bytes).concat();
    for (kind, nanos) in [(TCA_NETEM_LATENCY64, latency), (TCA_NETEM_JITTER64, jitter)] {
        // Length of the option, its type, its value.
        bytes.extend([12, kind].map(u16::to_ne_bytes).concat());
        bytes.extend(nanos.to_ne_bytes());
    }
    bytes
}

fn numbered(index: u32) -> LinkMessage {
    let mut message = LinkMessage::default();
    message.header.index = index;
    message
}

fn end(of: &End<'_>) -> LinkMessage {
    let mut message = LinkMessage::default();
    message.attributes.push(LinkAttribute::IfName(of.name.to_owned()));
    message.attributes.push(LinkAttribute::Address(of.mac.to_vec()));
    message.attributes.extend(of.namespace.map(LinkAttribute::NetNsFd));
    message
}

fn found(message: &RouteNetlinkMessage) -> Option<Found> {
    let RouteNetlinkMessage::NewLink(message) = message else { return None };
    let mut found = Found { index: message.header.index, name: String::new(), mac: Vec::new() };
    for attribute in &message.attributes {
        match attribute {
            LinkAttribute::IfName(name) => found.name.clone_from(name),
            LinkAttribute::Address(mac) => found.mac.clone_from(mac),
            _ => {}
        }
    }
    Some(found)
}

fn prefix(message: &RouteNetlinkMessage) -> Option<Prefix> {
    match message {
        RouteNetlinkMessage::NewRoute(route) => {
            let length = route.header.destination_prefix_length;
            route.attributes.iter().find_map(|attribute| match attribute {
                RouteAttribute::Destination(RouteAddress::Inet(address)) => Some((*address, length)),
                _ => None,
            })
        }
        RouteNetlinkMessage::NewAddress(address) => {
            let length = address.header.prefix_len;
            address.attributes.iter().find_map(|attribute| match attribute {
                AddressAttribute::Address(IpAddr::V4(address)) => Some((*address, length)),
                _ => None,
            })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_netem_are_laid_out_as_the_kernel_reads_them() {
        let bytes = netem_options(2_500_000, 7, 1000);
        assert_eq!(bytes.len(), 24 + 2 * 12);
        assert_eq!(bytes[4..8], 1000_u32.to_ne_bytes(), "the limit");
        assert_eq!((bytes[24..26].to_vec(), bytes[26..28].to_vec()), (vec![12, 0], vec![10, 0]));
        assert_eq!(bytes[28..36], 2_500_000_u64.to_ne_bytes());
        assert_eq!((bytes[38], bytes[40..48].to_vec()), (11, 7_u64.to_ne_bytes().to_vec()));
    }
}
