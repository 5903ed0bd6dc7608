//! Two ends and the path between them.

use baremark_journal::Journal;
use baremark_networks::network::INSIDE;
use baremark_networks::pair::ADDRESSES;
use baremark_networks::{Namespace, Network, NetworkError, Node, Pair};
use baremark_sys::ethtool::{Offload, switch};
use std::net::{IpAddr, Ipv4Addr};

/// What is between the two ends.
#[derive(Debug)]
pub enum Path {
    /// The loopback of the caller's namespace.
    Loopback,
    /// A veth pair between two namespaces.
    Veth(Pair),
    /// A bridge of the host with two namespaces.
    Bridge {
        /// The ends.
        nodes: Box<[Node; 2]>,
        /// What connects them; dropped after them.
        network: Box<Network>,
    },
}

impl Path {
    /// A veth pair.
    ///
    /// # Errors
    /// When the kernel makes none.
    pub fn veth() -> Result<Path, NetworkError> {
        Pair::new().map(Path::Veth)
    }

    /// Two namespaces on a bridge, recorded in the journal.
    ///
    /// # Errors
    /// When the kernel makes none.
    pub fn bridge(journal: &Journal) -> Result<Path, NetworkError> {
        let network = Network::new(journal)?;
        let nodes = Box::new([network.namespace()?, network.namespace()?]);
        Ok(Path::Bridge { nodes, network: Box::new(network) })
    }

    /// The namespace of an end, 0 or 1; none on loopback.
    #[must_use]
    pub fn namespace(&self, end: usize) -> Option<&Namespace> {
        match self {
            Path::Loopback => None,
            Path::Veth(pair) => Some(&pair.ends[end]),
            Path::Bridge { nodes, .. } => Some(&nodes[end].namespace),
        }
    }

    /// The address of an end.
    #[must_use]
    pub fn address(&self, end: usize) -> IpAddr {
        IpAddr::V4(match self {
            Path::Loopback => Ipv4Addr::LOCALHOST,
            Path::Veth(_) => ADDRESSES[end],
            Path::Bridge { nodes, .. } => nodes[end].address,
        })
    }

    /// Runs `work` in the namespace of an end.
    ///
    /// # Errors
    /// When it cannot be entered.
    pub fn at<T: Send>(&self, end: usize, work: impl FnOnce() -> T + Send) -> Result<T, NetworkError> {
        match self.namespace(end) {
            Some(namespace) => namespace.run(work),
            None => Ok(work()),
        }
    }

    /// Switches an offload of an end's link. On loopback it does nothing: the caller refuses that.
    ///
    /// # Errors
    /// When the kernel keeps it as it is.
    pub fn switch(&self, end: usize, offload: Offload, on: bool) -> Result<(), NetworkError> {
        let Some(namespace) = self.namespace(end) else { return Ok(()) };
        let what = format!("switching {} {}", offload.name(), if on { "on" } else { "off" });
        namespace.run(|| switch(INSIDE, offload, on))?.map_err(|source| NetworkError::Kernel { what, source })
    }
}
