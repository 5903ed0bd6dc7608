//! Requests to rtnetlink, one at a time, each answered before the next.

use crate::message::{
    ACK, CREATE, DELETE_LINK, DUMP, EXCLUSIVE, GET_ADDRESS, GET_LINK, GET_ROUTE, Kind, Message, NEW_ADDRESS, NEW_LINK,
    NEW_QDISC, NEW_ROUTE, Part, REPLACE, REQUEST, SET_LINK, attributes, parts, put, terminated,
};
use baremark_sys::netlink::number;
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};
use std::io;
use std::net::Ipv4Addr;

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

    /// Sends a request and gathers the objects of its answer, each with its number.
    fn ask(&mut self, message: &Message, flags: u16) -> io::Result<Vec<(u16, Vec<u8>)>> {
        self.sequence += 1;
        self.socket.send(&message.bytes(REQUEST | ACK | flags, self.sequence), 0)?;
        let mut answer = Vec::new();
        loop {
            let (bytes, _) = self.socket.recv_from_full()?;
            for part in parts(&bytes, self.sequence) {
                match part {
                    Part::Done => return Ok(answer),
                    Part::Refused(code) => return Err(io::Error::from_raw_os_error(code)),
                    Part::Object(number, body) => answer.push((number, body.to_vec())),
                }
            }
        }
    }

    /// The link of this name.
    ///
    /// # Errors
    /// What rtnetlink gives, other than that there is none.
    pub fn link(&mut self, name: &str) -> io::Result<Option<Found>> {
        match self.ask(&Message::new(GET_LINK).with_text(IFLA_IFNAME, name), 0) {
            Err(why) if why.raw_os_error() == Some(ENODEV) => Ok(None),
            answer => Ok(answer?.iter().find_map(found)),
        }
    }

    /// All links of the namespace.
    ///
    /// # Errors
    /// What rtnetlink gives.
    pub fn links(&mut self) -> io::Result<Vec<Found>> {
        let answer = self.ask(&Message::new(GET_LINK), DUMP)?;
        Ok(answer.iter().filter_map(found).collect())
    }

    /// Makes a bridge.
    ///
    /// # Errors
    /// What rtnetlink gives.
    pub fn make_bridge(&mut self, name: &str, mac: Mac) -> io::Result<()> {
        self.make(&end(&End { name, mac, namespace: None }), "bridge", None)
    }

    /// Makes a pair of veth links; either end may be in another namespace.
    ///
    /// # Errors
    /// What rtnetlink gives.
    pub fn make_veth(&mut self, one: &End<'_>, other: &End<'_>) -> io::Result<()> {
        let mut peer = Vec::new();
        put(&mut peer, VETH_INFO_PEER, end(other).body());
        self.make(&end(one), "veth", Some(&peer))
    }

    /// Makes a link of a kind, with what that kind has to know.
    fn make(&mut self, link: &Message, kind: &str, data: Option<&[u8]>) -> io::Result<()> {
        let mut info = Vec::new();
        put(&mut info, IFLA_INFO_KIND, &terminated(kind));
        if let Some(data) = data {
            put(&mut info, IFLA_INFO_DATA, data);
        }
        self.ask(&link.clone().with(IFLA_LINKINFO, &info), CREATE | EXCLUSIVE).map(drop)
    }

    /// Removes a link.
    ///
    /// # Errors
    /// What rtnetlink gives.
    pub fn remove(&mut self, index: u32) -> io::Result<()> {
        self.ask(&numbered(DELETE_LINK, index), 0).map(drop)
    }

    /// Brings a link up.
    ///
    /// # Errors
    /// What rtnetlink gives.
    pub fn up(&mut self, index: u32) -> io::Result<()> {
        // The flags, and which of them change.
        let up = numbered(SET_LINK, index).at(8, IFF_UP.to_ne_bytes()).at(12, IFF_UP.to_ne_bytes());
        self.ask(&up, 0).map(drop)
    }

    /// Makes a link a port of a bridge.
    ///
    /// # Errors
    /// What rtnetlink gives.
    pub fn join(&mut self, index: u32, bridge: u32) -> io::Result<()> {
        self.change(index, IFLA_MASTER, &bridge.to_ne_bytes())
    }

    /// Sets the largest frame of a link, in bytes without the Ethernet header.
    ///
    /// # Errors
    /// What rtnetlink gives.
    pub fn set_mtu(&mut self, index: u32, mtu: u32) -> io::Result<()> {
        self.change(index, IFLA_MTU, &mtu.to_ne_bytes())
    }

    /// Sets the hardware address of a link.
    ///
    /// # Errors
    /// What rtnetlink gives.
    pub fn set_mac(&mut self, index: u32, mac: Mac) -> io::Result<()> {
        self.change(index, IFLA_ADDRESS, &mac)
    }

    fn change(&mut self, index: u32, attribute: u16, value: &[u8]) -> io::Result<()> {
        self.ask(&numbered(SET_LINK, index).with(attribute, value), 0).map(drop)
    }

    /// Gives a link an address.
    ///
    /// # Errors
    /// What rtnetlink gives.
    pub fn add_address(&mut self, index: u32, (address, length): Prefix) -> io::Result<()> {
        let message = Message::new(NEW_ADDRESS).at(0, [AF_INET, length]).at(4, index.to_ne_bytes());
        let message = message.with(IFA_LOCAL, &address.octets()).with(IFA_ADDRESS, &address.octets());
        self.ask(&message, CREATE | EXCLUSIVE).map(drop)
    }

    /// Destinations of all routes of IPv4, in all tables, without the default ones, and the subnets of all addresses.
    ///
    /// # Errors
    /// What rtnetlink gives.
    pub fn used_prefixes(&mut self) -> io::Result<Vec<Prefix>> {
        let routes = self.ask(&Message::new(GET_ROUTE).at(0, [AF_INET]), DUMP)?;
        let addresses = self.ask(&Message::new(GET_ADDRESS).at(0, [AF_INET]), DUMP)?;
        Ok(routes.iter().chain(&addresses).filter_map(prefix).collect())
    }

    /// Holds what a link sends (netem): each packet for `latency`, ± `jitter`, in nanoseconds; at most so many packets wait.
    ///
    /// # Errors
    /// What rtnetlink gives, `ENOENT` where the kernel has no netem.
    pub fn delay(&mut self, index: u32, (latency, jitter): (u64, u64), waiting: u32) -> io::Result<()> {
        self.queue(index, "netem", &netem_options(latency, jitter, waiting))
    }

    /// Limits what a link sends by a token bucket (tbf): bytes per second, bytes of a burst, and bytes that may wait.
    ///
    /// # Errors
    /// What rtnetlink gives.
    pub fn limit_rate(&mut self, index: u32, rate: u64, burst: u32, waiting: u32) -> io::Result<()> {
        let mut options = Vec::new();
        put(&mut options, TCA_TBF_PARMS, &tbf_parameters(rate, waiting));
        put(&mut options, TCA_TBF_RATE64, &rate.to_ne_bytes());
        put(&mut options, TCA_TBF_BURST, &burst.to_ne_bytes());
        self.queue(index, "tbf", &options)
    }

    /// Gives a link a queueing discipline, in the place of the one that it has.
    fn queue(&mut self, index: u32, kind: &str, options: &[u8]) -> io::Result<()> {
        // The index, and the root as the parent.
        let message = Message::new(NEW_QDISC).at(4, index.to_ne_bytes()).at(12, TC_H_ROOT.to_ne_bytes());
        self.ask(&message.with_text(TCA_KIND, kind).with(TCA_OPTIONS, options), CREATE | REPLACE).map(drop)
    }
}

const ENODEV: i32 = 19;
const AF_INET: u8 = 2;
/// From linux/if.h, linux/if_link.h and linux/veth.h.
const IFF_UP: u32 = 1;
const IFLA_ADDRESS: u16 = 1;
const IFLA_IFNAME: u16 = 3;
const IFLA_MTU: u16 = 4;
const IFLA_MASTER: u16 = 10;
const IFLA_LINKINFO: u16 = 18;
const IFLA_NET_NS_FD: u16 = 28;
const IFLA_INFO_KIND: u16 = 1;
const IFLA_INFO_DATA: u16 = 2;
const VETH_INFO_PEER: u16 = 1;
/// From linux/if_addr.h.
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
/// From linux/pkt_sched.h.
const TC_H_ROOT: u32 = u32::MAX;
const TCA_TBF_PARMS: u16 = 1;
const TCA_TBF_RATE64: u16 = 4;
const TCA_TBF_BURST: u16 = 6;
const TC_LINKLAYER_ETHERNET: u8 = 1;
const TCA_NETEM_LATENCY64: u16 = 10;
const TCA_NETEM_JITTER64: u16 = 11;
/// From linux/rtnetlink.h.
const RTA_DST: u16 = 1;
const TCA_KIND: u16 = 1;
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
        put(&mut bytes, kind, &nanos.to_ne_bytes());
    }
    bytes
}

fn numbered(kind: Kind, index: u32) -> Message {
    Message::new(kind).at(4, index.to_ne_bytes())
}

fn end(of: &End<'_>) -> Message {
    let message = Message::new(NEW_LINK).with_text(IFLA_IFNAME, of.name).with(IFLA_ADDRESS, &of.mac);
    match of.namespace {
        Some(namespace) => message.with(IFLA_NET_NS_FD, &namespace.to_ne_bytes()),
        None => message,
    }
}

fn found((kind, body): &(u16, Vec<u8>)) -> Option<Found> {
    let index = number(body, 4).filter(|_| *kind == NEW_LINK.number)?;
    let mut found = Found { index, name: String::new(), mac: Vec::new() };
    for (attribute, value) in attributes(body, NEW_LINK) {
        match attribute {
            IFLA_IFNAME => {
                let name = value.split(|byte| *byte == 0).next().unwrap_or_default();
                found.name = String::from_utf8_lossy(name).into_owned();
            }
            IFLA_ADDRESS => found.mac = value.to_vec(),
            _ => {}
        }
    }
    Some(found)
}

/// The subnet of a route or an address of IPv4; none of a default route, which has no destination.
fn prefix((kind, body): &(u16, Vec<u8>)) -> Option<Prefix> {
    let (kind, wanted) = match *kind {
        of if of == NEW_ROUTE.number => (NEW_ROUTE, RTA_DST),
        of if of == NEW_ADDRESS.number => (NEW_ADDRESS, IFA_ADDRESS),
        _ => return None,
    };
    let (_, value) = attributes(body, kind).find(|(attribute, _)| *attribute == wanted)?;
    let octets: [u8; 4] = value.try_into().ok()?;
    Some((Ipv4Addr::from(octets), *body.get(1)?))
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

    #[test]
    fn routes_and_addresses_have_prefixes_and_a_default_route_has_none() {
        let of = |kind: Kind, attribute: u16| {
            let message = Message::new(kind).at(0, [AF_INET, 24]).with(attribute, &[192, 0, 2, 0]);
            prefix(&(kind.number, message.body().to_vec()))
        };
        let subnet = Some((Ipv4Addr::new(192, 0, 2, 0), 24));
        assert_eq!((of(NEW_ROUTE, RTA_DST), of(NEW_ADDRESS, IFA_ADDRESS)), (subnet, subnet));
        // 5 is the gateway.
        assert_eq!((of(NEW_ROUTE, 5), of(NEW_LINK, 1)), (None, None));
    }

    #[test]
    fn a_link_is_read_with_its_number_name_and_hardware_address() {
        let link = numbered(NEW_LINK, 7).with_text(IFLA_IFNAME, "eth0").with(IFLA_ADDRESS, &[2, 0, 0, 0, 0, 1]);
        let read = found(&(NEW_LINK.number, link.body().to_vec()));
        assert_eq!(read, Some(Found { index: 7, name: "eth0".to_owned(), mac: vec![2, 0, 0, 0, 0, 1] }));
        assert_eq!(found(&(NEW_ADDRESS.number, link.body().to_vec())), None);
    }
}
