//! The network of this process's run: one bridge for all that is connected to it, containers, namespaces and guests.
//!
//! It is made for the first and removed with the last. Its name and the host's ends of the links are in the journal, so that the next start
//! removes them when this process is killed.

use baremark_delay::{Delay, Proxy};
use baremark_environments::lab::LabPort;
use baremark_networks::{GuestPort, Network, Node};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError, Weak};

static NETWORK: Mutex<Weak<Network>> = Mutex::new(Weak::new());

/// The network of this process, as long as something is connected to it.
///
/// # Errors
/// Why the kernel makes none, with the remedy.
pub fn shared() -> Result<Arc<Network>, String> {
    let mut shared = NETWORK.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(network) = shared.upgrade() {
        return Ok(network);
    }
    let journal = crate::changes::journal().map_err(|why| why.to_string())?;
    let made = Arc::new(Network::new(&journal).map_err(|why| why.to_string())?);
    *shared = Arc::downgrade(&made);
    Ok(made)
}

/// What a site of the network is connected by.
trait Connected: Send {
    fn name(&self) -> String;
    fn address(&self) -> Ipv4Addr;
}

impl Connected for GuestPort {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn address(&self) -> Ipv4Addr {
        self.address
    }
}

impl Connected for Node {
    fn name(&self) -> String {
        self.namespace.path().display().to_string()
    }

    fn address(&self) -> Ipv4Addr {
        self.address
    }
}

/// A site's place on the network.
struct Port {
    connected: Box<dyn Connected>,
    /// What leads it to this machine's loopback.
    offers: Vec<Proxy>,
    // Dropped after the place.
    network: Arc<Network>,
}

/// Connects a guest, by a tap.
///
/// # Errors
/// Why the kernel makes none, with the remedy.
pub fn guest() -> Result<Box<dyn LabPort>, String> {
    let network = shared()?;
    let connected = Box::new(network.guest_port().map_err(|why| why.to_string())?);
    Ok(Box::new(Port { connected, offers: Vec::new(), network }))
}

/// Connects a container, by a network namespace.
///
/// # Errors
/// As [`guest`].
pub fn namespace() -> Result<Box<dyn LabPort>, String> {
    let network = shared()?;
    let connected = Box::new(network.namespace().map_err(|why| why.to_string())?);
    Ok(Box::new(Port { connected, offers: Vec::new(), network }))
}

impl LabPort for Port {
    fn name(&self) -> String {
        self.connected.name()
    }

    fn address(&self) -> Ipv4Addr {
        self.connected.address()
    }

    fn length(&self) -> u8 {
        self.network.length()
    }

    /// By a proxy at the bridge's own address: what is offered listens on loopback alone.
    fn offer(&mut self, here: u16) -> io::Result<SocketAddr> {
        let listen = SocketAddr::from((self.network.host().map_err(io::Error::other)?, 0));
        let to = SocketAddr::from((Ipv4Addr::LOCALHOST, here));
        let stream = Proxy::tcp(listen, to, Delay::default())?;
        let seen = stream.address();
        self.offers.extend([stream, Proxy::udp(seen, to, Delay::default())?]);
        Ok(seen)
    }
}
