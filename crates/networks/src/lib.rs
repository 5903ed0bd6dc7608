//! Networks of a run's own: bridge, veth, network namespaces, TAP, addresses, rates and offloads.
//!
//! Links with a delay run through this process (`baremark-delay`), or through netem where the kernel has it.
//!
//! Everything is asked of the kernel by rtnetlink and ethtool's requests. Namespaces are held by descriptors and not by names: the kernel
//! removes them, and the links in them, when the process ends however it ends. Links in the host's own namespace are recorded in
//! the journal first, with a hardware address that nobody else has; by it they are recognised before they are removed.
#![forbid(unsafe_code)]

pub mod error;
pub mod link;
mod message;
pub mod namespace;
pub mod netlink;
pub mod network;
pub mod pair;
pub mod round_trip;
pub mod subnet;

pub use error::NetworkError;
pub use namespace::Namespace;
pub use network::{GuestPort, Network, Node};
pub use pair::Pair;

use baremark_journal::Kind;

/// The types of changes to a host that this crate makes.
#[must_use]
pub fn kinds() -> Vec<Box<dyn Kind>> {
    vec![Box::new(link::Links), Box::new(subnet::Subnets)]
}
