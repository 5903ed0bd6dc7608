//! The seam of environments: how an agent comes to be somewhere, and how it leaves.

use crate::disk_latency::DiskLatency;
use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// The environment variable of an agent whose site has no files but this program, so that others can be put anywhere.
pub const OWN_ROOT: &str = "BAREMARK_OWN_ROOT";

/// Something that an environment needs and that is not there.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}; {remedy}")]
pub struct Missing {
    /// What is missing.
    pub what: String,
    /// What would help.
    pub remedy: String,
}

/// Why a site could not be started.
#[derive(Debug, thiserror::Error)]
pub enum SiteError {
    /// Something is missing.
    #[error(transparent)]
    Missing(#[from] Missing),
    /// The operating system refused.
    #[error("{what}: {source}")]
    Io {
        /// What was tried.
        what: String,
        /// What it said.
        source: std::io::Error,
    },
    /// What was started did not become a site.
    #[error("{what}{}", last_words(log))]
    NotReady {
        /// What was expected of it, and for how long.
        what: String,
        /// The last lines that it wrote, oldest first.
        log: Vec<String>,
    },
    /// The user stopped the run while the site was being started.
    #[error("interrupted")]
    Interrupted,
}

impl SiteError {
    /// The operating system refused `what`: for an error that it gave.
    pub fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> SiteError {
        let what = what.into();
        move |source| SiteError::Io { what, source }
    }
}

fn last_words(log: &[String]) -> String {
    if log.is_empty() { String::new() } else { format!("; its last words:\n    {}", log.join("\n    ")) }
}

/// The two streams on which an agent speaks frames.
pub struct Link {
    /// From the agent.
    pub from_agent: Box<dyn Read + Send>,
    /// To the agent.
    pub to_agent: Box<dyn Write + Send>,
}

/// One place in which an agent runs. Dropping a site leaves nothing behind: no process, no memory, no mount. The thread that
/// has started it may end before it does.
pub trait Site: Send {
    /// The agent's streams; they can be taken once.
    fn link(&mut self) -> Option<Link>;

    /// Waits until the agent has left by itself, at most `limit`: its input has ended in the middle of a trial. For sites that do
    /// not take with them whatever a job has started and written there; by default nothing is waited for.
    fn leave(&mut self, limit: Duration) {
        let _ = limit;
    }

    /// Ends the agent now, whatever it is doing, and waits until it is gone.
    fn kill(&mut self);

    /// The last lines that the agent wrote for people, oldest first.
    fn log(&self) -> Vec<String>;

    /// On which address a program there listens so that [`Site::reach`] leads to it.
    fn listens_on(&self) -> Ipv4Addr {
        Ipv4Addr::LOCALHOST
    }

    /// Where this machine reaches what listens there, on TCP port `there` of [`Site::listens_on`]. `here` is
    /// a free port of this machine's loopback that leads there from now on, where the site needs one.
    ///
    /// # Errors
    /// When no way leads there, with the remedy.
    fn reach(&mut self, there: u16, here: u16) -> Result<SocketAddr, SiteError> {
        let _ = here;
        Err(no_way(format!("port {there} of the site cannot be reached from this machine")))
    }

    /// Where the site reaches what listens on TCP port `here` of this machine's loopback. `there` is a free port of the site's
    /// loopback that leads here from now on, where the site needs one.
    ///
    /// # Errors
    /// When no way leads here, with the remedy.
    fn offer(&mut self, here: u16, there: u16) -> Result<SocketAddr, SiteError> {
        let _ = there;
        Err(no_way(format!("port {here} of this machine cannot be reached from the site")))
    }

    /// Counts the I/Os of the site's disks from now on, as its hypervisor sees them; whether it has such disks.
    ///
    /// # Errors
    /// What the hypervisor answered.
    fn count_disks(&mut self) -> io::Result<bool> {
        Ok(false)
    }

    /// What was counted since [`Site::count_disks`] or since this was last asked.
    ///
    /// # Errors
    /// What the hypervisor answered.
    fn disks_counted(&mut self) -> io::Result<Vec<DiskLatency>> {
        Ok(Vec::new())
    }

    /// For how long whatever passes the agent's messages on goes on working after each, on CPUs that may be measured.
    fn relay_works_for(&self) -> Duration {
        Duration::ZERO
    }

    /// CPU time in ns that the hypervisor of the site has used on this machine, the guest's and that of its devices; `None` of a site without one of which this machine knows.
    fn hypervisor_cpu_ns(&self) -> Option<u64> {
        None
    }

    /// Where the site reaches what this machine reaches at an address of another network than its loopback, such as that of a site on the lab's
    /// bridge.
    ///
    /// # Errors
    /// When no way leads there, with the remedy.
    fn sees(&mut self, address: SocketAddr) -> Result<SocketAddr, SiteError> {
        Err(no_way(format!("{address} cannot be reached from the site")))
    }
}

fn no_way(what: String) -> SiteError {
    let remedy = "let both have a network: native, a container with network = \"lab\" or \"host\", qemu with net = \"lab\" or \"user\", or ssh";
    Missing { what, remedy: remedy.to_owned() }.into()
}

/// A port of a loopback.
#[must_use]
pub fn loopback(port: u16) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, port))
}

/// Which of several sites that run at once, and what it has to carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Portion {
    /// Its place among them, from 0.
    pub index: usize,
    /// How many there are; 1 is the common case.
    pub of: usize,
    /// The ranks that run at it.
    pub ranks: usize,
}

/// How agents come to be somewhere. Several sites may be started at once.
pub trait Environment: Sync {
    /// Its name in studies.
    fn name(&self) -> &'static str;

    /// Says cheaply whether it can be used here.
    ///
    /// # Errors
    /// What is missing, with the remedy.
    fn probe(&self) -> Result<(), Missing>;

    /// Whether its sites run on an emulated processor: they exercise the mechanics, and no ratio of theirs has a verdict.
    /// It may start a bounded test to find out, which `interrupt` ends early, so ask after [`Environment::probe`].
    fn emulated(&self, interrupt: &AtomicBool) -> bool {
        let _ = interrupt;
        false
    }

    /// What it was found to have on this machine, to be recorded with its settings; ask after [`Environment::probe`]. `lacks` is in words what it
    /// should have and has not, `version` that of the program that makes it.
    fn found(&self) -> BTreeMap<String, Vec<String>> {
        BTreeMap::new()
    }

    /// The environment of one of several sites among which this one's CPUs and memory are divided; `None` for this one
    /// as it is.
    ///
    /// # Errors
    /// Why it cannot be divided so.
    fn portion(&self, portion: Portion) -> Result<Option<Box<dyn Environment>>, Missing> {
        if portion.of == 1 {
            return Ok(None);
        }
        let what = format!("several sites of {} cannot run in one trial", self.name());
        Err(Missing { what, remedy: "leave count out, or write count = 1".to_owned() })
    }

    /// Starts one site with one agent in it; given up as soon as `interrupt` is set.
    ///
    /// # Errors
    /// When something is missing or refused, or it was interrupted; nothing is left behind.
    fn start(&self, interrupt: &AtomicBool) -> Result<Box<dyn Site>, SiteError>;
}
