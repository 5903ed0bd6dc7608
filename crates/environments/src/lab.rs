//! The lab's own network, on which guests and containers have addresses; whoever starts environments makes it.

use std::fmt;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};

/// Connects a site to the lab's bridge; the error in words.
#[derive(Clone, Copy)]
pub struct Connect(pub fn() -> Result<Box<dyn LabPort>, String>);

impl fmt::Debug for Connect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Connect")
    }
}

/// There is one bridge of a lab, however it is asked for.
impl PartialEq for Connect {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Connect {}

/// A site's place on the lab's bridge, removed with this.
pub trait LabPort: Send {
    /// Of a guest the tap's name, of a container the file of its network namespace.
    fn name(&self) -> String;

    /// The site's address.
    fn address(&self) -> Ipv4Addr;

    /// Length of the prefix of its subnet.
    fn length(&self) -> u8;

    /// Leads the site to a port of this machine's loopback, TCP and UDP: where the site finds it.
    ///
    /// # Errors
    /// What binding gives.
    fn offer(&mut self, here: u16) -> io::Result<SocketAddr>;
}
