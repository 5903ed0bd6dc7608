//! A load as requested, and what is checked and prepared before it can run on `threads`.
//!
//! What is asked are orthogonal values: who drives (connections, a rate, users), by which arrivals and profile, until when, over
//! how many threads and connections. Everything that can be refused is refused by [`Engine::new`], before a byte is sent.

use crate::arrival::Arrival;
use crate::control::Control;
use crate::epoll;
use crate::profile::{Curve, Profile, ProfileError};
use crate::propagation::Propagation;
use crate::record::{MergeError, SecondPart};
use crate::scenario::Scenario;
use crate::transport::{Trust, TrustError};
use crate::url::UrlError;
use baremark_model::units::Nanos;
use baremark_sys::network;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use serde::{Deserialize, Serialize};
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Who decides when the next request starts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Drive {
    /// Closed loop: each connection sends as soon as it has its answer. There are no intended starts to correct by.
    Closed,
    /// Open loop: starts come at the profile's rate per second, whatever the server does.
    Open {
        /// How the gaps are made.
        arrival: Arrival,
        /// Starts per second.
        profile: Profile,
    },
    /// Closed loop of users who keep the scenario's cycle from intended start to intended start.
    Users {
        /// How many users.
        profile: Profile,
    },
}

/// When it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stop {
    /// After so long.
    After(Nanos),
    /// After so many operations.
    Count(u64),
}

/// Whether a user keeps a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pool {
    /// Each keeps its own, as browsers do.
    #[default]
    Own,
    /// All share: whoever needs one takes the one used last.
    Shared,
}

/// What is spoken with the servers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Protocol {
    /// HTTP/1.1, one request at a time on a connection.
    #[default]
    Http1,
    /// HTTP/2, at most so many requests at a time on a connection: chosen by ALPN over TLS, known beforehand without.
    Http2 {
        /// Streams of a connection.
        streams: usize,
    },
}

/// Where the threads run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pin {
    /// Each on a CPU of its own, as far as they go.
    #[default]
    Spread,
    /// On these CPUs in turn.
    On(Vec<usize>),
    /// Where the kernel likes.
    Free,
}

/// A load as requested. The fields are what a command line or a study says; [`Load::new`] has the defaults.
#[derive(Clone, Debug)]
pub struct Load {
    /// What is done.
    pub scenario: Scenario,
    /// Who decides when.
    pub drive: Drive,
    /// Until when.
    pub stop: Stop,
    /// Event loops.
    pub threads: usize,
    /// Connections: exactly so many of [`Drive::Closed`], at most so many otherwise.
    pub connections: usize,
    /// Whether a user keeps a connection.
    pub pool: Pool,
    /// What is spoken.
    pub protocol: Protocol,
    /// After this a request has failed.
    pub timeout: Nanos,
    /// After the end, what is on its way may still come for so long.
    pub grace: Nanos,
    /// Of everything drawn.
    pub seed: u64,
    /// Whose certificates are accepted.
    pub trust: Trust,
    /// Where the scenario's first server answers, instead of at the addresses of its name. Each user keeps one of them, as
    /// browsers keep what DNS has given them; connections that users share go to them in turn. Empty resolves the name.
    pub addresses: Vec<SocketAddr>,
    /// Addresses to come from, in turn; empty lets the kernel choose.
    pub sources: Vec<IpAddr>,
    /// Where the threads run.
    pub pin: Pin,
    /// Which of how many sites this is; the starts and users are dealt among them.
    pub site: (u64, u64),
}

impl Load {
    /// A load with the defaults: one thread, 10 s timeout, 1 s grace, seed 1.
    #[must_use]
    pub fn new(scenario: Scenario, drive: Drive, stop: Stop) -> Load {
        Load {
            scenario,
            drive,
            stop,
            threads: 1,
            connections: 64,
            pool: Pool::Own,
            protocol: Protocol::Http1,
            timeout: Nanos(10_000_000_000),
            grace: Nanos(1_000_000_000),
            seed: 1,
            trust: Trust::System,
            addresses: Vec::new(),
            sources: Vec::new(),
            pin: Pin::Spread,
            site: (0, 1),
        }
    }
}

/// Why a load was refused or broke off.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The profile.
    #[error(transparent)]
    Profile(#[from] ProfileError),
    /// A server's address.
    #[error(transparent)]
    Url(#[from] UrlError),
    /// TLS.
    #[error(transparent)]
    Trust(#[from] TrustError),
    /// A number that cannot be.
    #[error("{what}; {remedy}")]
    Refused {
        /// What is wrong.
        what: String,
        /// What would be right.
        remedy: &'static str,
    },
    /// Several numbers that cannot be, one a line.
    #[error("{0}")]
    Several(String),
    /// A thread.
    #[error("cannot start a thread; is the limit on processes (ulimit -u) reached?")]
    Thread(#[source] io::Error),
    /// The event loop.
    #[error("the event loop has failed; is the limit on open files (ulimit -n) reached?")]
    Loop(#[source] io::Error),
    /// A thread has panicked, which is a mistake of this program.
    #[error("a thread of the load engine has panicked; please report this")]
    Panicked,
    /// Records that do not fit, which is a mistake of this program.
    #[error(transparent)]
    Merge(#[from] MergeError),
}

fn refused(what: String, remedy: &'static str) -> LoadError {
    LoadError::Refused { what, remedy }
}

pub(crate) struct Target {
    pub(crate) addresses: Vec<SocketAddr>,
    /// Where connections to it come from, in turn; empty lets the kernel choose.
    pub(crate) sources: Vec<IpAddr>,
    pub(crate) tls: Option<(Arc<ClientConfig>, ServerName<'static>)>,
}

/// A second of the load as it passes, of all threads together.
#[derive(Clone, Debug, PartialEq)]
pub struct Progress {
    /// Which, from 0.
    pub second: usize,
    /// What happened in it.
    pub part: SecondPart,
}

/// A load that can run: names resolved, certificates read, everything checked.
pub struct Engine {
    pub(crate) load: Load,
    pub(crate) curve: Option<Curve>,
    pub(crate) targets: Vec<Target>,
    pub(crate) pool: Pool,
    /// Of each thread.
    pub(crate) most_connections: usize,
    pub(crate) interrupt: Arc<AtomicBool>,
    /// Set by a dial, which then has the level in its hand.
    pub(crate) control: Option<Arc<Control>>,
    /// Values that one user's answers report and others hear.
    pub(crate) propagation: Propagation,
}

/// Descriptors for everything that is not a connection.
const SPARE_DESCRIPTORS: u64 = 128;
/// The most streams of a connection; servers take about a hundred.
const MOST_STREAMS: usize = 10_000;
/// The most threads; more than any machine has CPUs.
const MOST_THREADS: usize = 4096;

impl Engine {
    /// Checks a load and prepares it. Raising `interrupt` while it runs ends it at once with what it has.
    ///
    /// # Errors
    /// Whatever makes the load impossible.
    pub fn new(mut load: Load, interrupt: Arc<AtomicBool>) -> Result<Engine, LoadError> {
        check_numbers(&load)?;
        let curve = match &load.drive {
            Drive::Closed => None,
            Drive::Open { profile, .. } | Drive::Users { profile } => Some(profile.curve()?),
        };
        check_drive(&load)?;
        if let (Some(users), true) = (keepers(&load, curve.as_ref()), load.scenario.follows.is_empty()) {
            load.connections = load.connections.min(users).max(load.threads);
        }
        let wanted = load.connections as u64 + SPARE_DESCRIPTORS;
        let allowed = epoll::raise_descriptor_limit(wanted).map_err(LoadError::Loop)?;
        if allowed < wanted {
            if load.drive == Drive::Closed {
                let what =
                    format!("{} connections need {wanted} open files and {allowed} are allowed", load.connections);
                return Err(refused(what, "raise the limit (ulimit -n) or request fewer connections"));
            }
            load.connections = usize::try_from(allowed.saturating_sub(SPARE_DESCRIPTORS)).unwrap_or(1).max(1);
        }
        check_users(&load, curve.as_ref())?;
        let targets = targets(&load)?;
        check_ports(&load, curve.as_ref(), &targets)?;
        // Streams are what callers share a connection by; users who keep one may still do so.
        let by_streams = load.drive == Drive::Closed && load.protocol != Protocol::Http1;
        let pool = if by_streams || matches!(load.drive, Drive::Open { .. }) { Pool::Shared } else { load.pool };
        let most_connections = load.connections.div_ceil(load.threads);
        let propagation = Propagation::default();
        Ok(Engine { load, curve, targets, pool, most_connections, interrupt, control: None, propagation })
    }

    /// The load, with what was settled.
    #[must_use]
    pub fn load(&self) -> &Load {
        &self.load
    }

    /// Callers of a closed loop, at all sites.
    pub(crate) fn callers(&self) -> u64 {
        let each = if let Protocol::Http2 { streams } = self.load.protocol { streams as u64 } else { 1 };
        self.load.connections as u64 * each * self.load.site.1
    }

    pub(crate) fn end_ns(&self) -> u64 {
        match self.load.stop {
            Stop::After(time) => time.0,
            Stop::Count(_) => u64::MAX - (1 << 40),
        }
    }
}

/// Refuses numbers out of range, all of them at once.
fn check_numbers(load: &Load) -> Result<(), LoadError> {
    let (site, sites) = load.site;
    let streams = match load.protocol {
        Protocol::Http2 { streams } => streams,
        Protocol::Http1 => 1,
    };
    let checks = [
        (
            !(1..=MOST_THREADS).contains(&load.threads),
            format!("threads = {} is out of range", load.threads),
            "use 1 to 4096",
        ),
        (
            load.connections < load.threads,
            format!("{} connections for {} threads", load.connections, load.threads),
            "use at least one connection for each thread",
        ),
        (
            load.connections > 1 << 24,
            format!("connections = {} is out of range", load.connections),
            "use at most 16 million",
        ),
        (site >= sites || sites > 1 << 20, format!("site {site} of {sites}"), "sites count from 0"),
        (
            load.stop == Stop::After(Nanos(0)) || load.stop == Stop::Count(0),
            "duration or count is 0".to_owned(),
            "use a duration or a count above 0",
        ),
        (
            !(1..=MOST_STREAMS).contains(&streams),
            format!("streams = {streams} is out of range"),
            "use 1 to 10000 for each connection",
        ),
        (load.timeout.0 == 0, "timeout is 0".to_owned(), "use a time such as 10 s"),
    ];
    let wrong = checks.into_iter().filter(|(wrong, ..)| *wrong).map(|(_, what, remedy)| refused(what, remedy));
    let mut wrong: Vec<LoadError> = wrong.collect();
    match wrong.len() {
        0 => Ok(()),
        1 => Err(wrong.remove(0)),
        _ => Err(LoadError::Several(wrong.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))),
    }
}

/// The users of this site who keep a connection each.
fn keepers(load: &Load, curve: Option<&Curve>) -> Option<usize> {
    let keep = matches!(load.drive, Drive::Users { .. }) && load.pool == Pool::Own;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "float casts saturate")]
    let share = |curve: &Curve| (curve.highest() / load.site.1 as f64).ceil() as usize;
    curve.filter(|_| keep).map(share)
}

/// Users who keep their connections need one each, or the last would wait for ever.
fn check_users(load: &Load, curve: Option<&Curve>) -> Result<(), LoadError> {
    let Some(users) = keepers(load, curve).filter(|users| *users > load.connections) else { return Ok(()) };
    let what = format!("{users} users keep a connection each and {} can be had", load.connections);
    Err(refused(
        what,
        "allow more connections and open files (ulimit -n), deal the users among processes (--site native, several \
         times), or let them share connections (--shared)",
    ))
}

/// Connections that are all open at a time need a port each, from one address to another.
fn check_ports(load: &Load, curve: Option<&Curve>, targets: &[Target]) -> Result<(), LoadError> {
    let closed = (load.drive == Drive::Closed).then_some(load.connections);
    let Some(open) = closed.or(keepers(load, curve)) else { return Ok(()) };
    let pairs: usize = targets.iter().map(|target| target.addresses.len() * target.sources.len().max(1)).sum();
    // What cannot be known refuses nothing: ports that run out later are counted as such.
    let Some(ports) = network::local_ports() else { return Ok(()) };
    if open <= pairs.saturating_mul(ports) {
        return Ok(());
    }
    let what =
        format!("{open} connections at a time need {open} ports, and {pairs} pairs of addresses have {ports} each");
    Err(refused(what, "come from several addresses (--source), or widen net.ipv4.ip_local_port_range"))
}

fn check_drive(load: &Load) -> Result<(), LoadError> {
    let operations = &load.scenario.operations;
    match &load.drive {
        Drive::Open { .. } if operations.len() > 1 && operations.iter().all(|operation| operation.weight <= 0.0) => {
            Err(refused(
                "an open loop starts operations by weight, and no operation has a weight".to_owned(),
                "give operations a weight, or drive the scenario by users",
            ))
        }
        Drive::Users { .. } if load.scenario.cycle.is_none() && operations.iter().any(|one| one.think.is_none()) => {
            Err(refused(
                "users without a cycle or think times never rest".to_owned(),
                "give the scenario a cycle, such as cycle = \"5 s\", or use connections",
            ))
        }
        _ => Ok(()),
    }
}

fn alpn(protocol: Protocol) -> &'static [u8] {
    if protocol == Protocol::Http1 { b"http/1.1" } else { b"h2" }
}

/// Finds out whether an address is one of this machine's. That a socket can be bound to it does not show so where the kernel permits to bind any
/// (`net.ipv4.ip_nonlocal_bind`). From an address of IPv4 that is not its own the kernel has no route. What is sent to an own address of IPv6 comes from
/// that address; of IPv4 it comes from the first address of the network.
fn check_own(address: IpAddr) -> io::Result<()> {
    let bound = UdpSocket::bind((address, 0))?;
    let socket = if address.is_ipv4() { bound } else { UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0))? };
    // Sends nothing.
    socket.connect((address, 9))?;
    // A socket that is bound to a group keeps that address, and comes from another.
    let is_own = !address.is_multicast() && socket.local_addr()?.ip() == address;
    if is_own { Ok(()) } else { Err(io::ErrorKind::AddrNotAvailable.into()) }
}

/// Those of the addresses to come from that lead to a server; each must be one of this machine.
fn sources(wanted: &[IpAddr], host: &str, addresses: &[SocketAddr]) -> Result<Vec<IpAddr>, LoadError> {
    if let Some((alien, why)) = wanted.iter().find_map(|one| Some((one, check_own(*one).err()?))) {
        return Err(refused(
            format!("no connection can come from {alien}: {why}"),
            "name addresses of this machine (ip address show)",
        ));
    }
    let fits = |source: &IpAddr| addresses.iter().any(|address| address.is_ipv4() == source.is_ipv4());
    let sources: Vec<IpAddr> = wanted.iter().copied().filter(fits).collect();
    if sources.is_empty() && !wanted.is_empty() {
        let family = if wanted[0].is_ipv4() { "IPv6" } else { "IPv4" };
        return Err(refused(format!("'{host}' has {family} addresses alone"), "come from an address of that family"));
    }
    Ok(sources)
}

fn targets(load: &Load) -> Result<Vec<Target>, LoadError> {
    let mut config = None;
    let mut targets = Vec::new();
    for (index, origin) in load.scenario.origins.iter().enumerate() {
        let addresses = match index {
            0 if !load.addresses.is_empty() => load.addresses.clone(),
            _ => origin.resolve()?,
        };
        let sources = sources(&load.sources, &origin.host, &addresses)?;
        let mut tls = None;
        if origin.secure {
            let config = match &config {
                Some(config) => Arc::clone(config),
                None => Arc::clone(config.insert(load.trust.config(&[alpn(load.protocol)])?)),
            };
            let name = ServerName::try_from(origin.host.clone());
            let Ok(name) = name else {
                return Err(refused(
                    format!("invalid TLS server name: '{}'", origin.host),
                    "use a DNS name or an address",
                ));
            };
            tls = Some((config, name));
        }
        targets.push(Target { addresses, sources, tls });
    }
    Ok(targets)
}
