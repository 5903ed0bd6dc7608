//! Instances on a network of the run's own: each in a network namespace with an address on one bridge.
//!
//! The bridge is made for the first instance and removed with the last. Its name and the host's ends of the links are in the journal; a namespace is
//! held by a descriptor of this process, and a program is put into it by `baremark tend`, which ends it when this process is gone. So the
//! kernel removes namespaces and links when it is killed, and the next start removes the bridge.

use baremark_networks::{Network, Node};
use baremark_services::place::{Native, Place};
use baremark_services::recipe::Step;
use baremark_services::service::{Order, ServiceError};
use baremark_sys::process_tree::{self, Usage};
use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// The bridge of this process, as long as something is connected to it.
static NETWORK: Mutex<Weak<Network>> = Mutex::new(Weak::new());

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
        let mut shared = NETWORK.lock().unwrap_or_else(PoisonError::into_inner);
        let network = match shared.upgrade() {
            Some(network) => network,
            None => {
                let journal = crate::changes::journal().map_err(|why| why.to_string())?;
                let made = Arc::new(Network::new(&journal).map_err(|why| why.to_string())?);
                *shared = Arc::downgrade(&made);
                made
            }
        };
        let node = network.namespace().map_err(|why| why.to_string())?;
        Ok(Link { node, _network: network })
    }

    /// Its address.
    pub fn address(&self) -> IpAddr {
        IpAddr::V4(self.node.address)
    }

    /// Its namespace, as a path by which other processes enter it while this one lives.
    pub fn namespace(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.node.namespace.as_fd().as_raw_fd())
    }
}

/// A process of this machine in a namespace of its own.
pub struct Linked {
    /// This program, which puts others there.
    pub program: PathBuf,
    /// Where it is.
    pub link: Link,
}

impl Place for Linked {
    fn label(&self) -> String {
        "native, lab network".to_owned()
    }

    /// Its port is not one of this machine's, and its program's user is set by who puts it there.
    fn is_here(&self) -> bool {
        false
    }

    fn address(&self) -> IpAddr {
        self.link.address()
    }

    fn dress(&self, order: &Order, step: Step) -> Result<Step, ServiceError> {
        let mut args = ["tend", "--network", &self.link.namespace()].map(str::to_owned).to_vec();
        args.extend(order.owner.map(|(user, group)| format!("--user={user}:{group}")));
        args.extend(["--".to_owned(), step.program.display().to_string()]);
        args.extend(step.args);
        Ok(Step { program: self.program.clone(), args, env: step.env })
    }

    fn owner(&self, user: &str) -> Option<(u32, u32)> {
        Native.owner(user)
    }

    /// Who puts the program there notices the end of its input, and ends it with all that it has started: a signal would end it first.
    fn death_signal(&self, _of_service: i32) -> i32 {
        0
    }

    fn usage(&self, _order: &Order, started: u32) -> Usage {
        process_tree::usage_of_tended(started).unwrap_or_default()
    }

    /// The program itself is below who tends it, and knows more signals.
    fn target(&self, started: u32) -> u32 {
        process_tree::tended(started).unwrap_or(started)
    }
}
