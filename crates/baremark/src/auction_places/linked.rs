//! Instances on a network of the run's own: each in a network namespace with an address on one bridge.
//!
//! The bridge is made for the first instance and removed with the last. Its name and the host's ends of the links are in the journal; a namespace is
//! held by a descriptor of this process, and a program is put into it by `baremark tend`, which ends it when this process is gone. So the
//! kernel removes namespaces and links when it is killed, and the next start removes the bridge.

use crate::lab_network;
use baremark_networks::{Network, Node};
use std::net::IpAddr;
use std::sync::Arc;

/// A node of the bridge.
pub struct Link {
    node: Node,
    // Dropped after the node.
    _network: Arc<Network>,
}

impl Link {
    /// A new one.
    ///
    /// # Errors
    /// Why the kernel makes none, with the remedy.
    pub fn new() -> Result<Link, String> {
        let network = lab_network::shared()?;
        let node = network.namespace().map_err(|why| why.to_string())?;
        Ok(Link { node, _network: network })
    }

    /// Its address.
    pub fn address(&self) -> IpAddr {
        IpAddr::V4(self.node.address)
    }

    /// Its namespace, as a path by which other processes enter it while this one lives.
    pub fn namespace(&self) -> String {
        self.node.namespace.path().display().to_string()
    }
}
