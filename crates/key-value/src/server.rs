//! A server of the run's own: started in a private folder with a password of its own, and gone with its last connection's run.

use crate::blocking::{BlockingConnection, ConnectionError};
use crate::parameters::ServerSetup;
use baremark_model::job::JobError;
use baremark_model::units::Bytes;
use baremark_model::value::Value;
use baremark_networks::pair::ADDRESSES;
use baremark_networks::{NetworkError, Pair};
use baremark_services::Folder;
use baremark_services::card::Tier;
use baremark_services::error::ServiceError;
use baremark_services::order::Order;
use baremark_services::place::{Inside, Native, Place};
use baremark_services::service::{Instance, program};
use baremark_services::settings::Settings;
use baremark_sys::confine::Limits;
use baremark_sys::file_system::FileSystem;
use baremark_sys::network::HeldPort;
use baremark_sys::registry;
use baremark_sys::user_folder;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Connections beyond those of the load: to ask the server about itself, and whether it is ready.
const SPARE_CONNECTIONS: u64 = 32;
/// Where a server listens in a network namespace that it has for itself.
const LAB_PORT: u16 = 6379;
const STOP_LIMIT: Duration = Duration::from_secs(30);
const CONNECT_LIMIT: Duration = Duration::from_secs(30);

/// A server that runs, until it is dropped.
pub(crate) struct KeyServer {
    instance: Instance,
    reach: ServerAddress,
    in_memory: bool,
    _held: Option<HeldPort>,
    _folder: Folder,
}

/// How a server is reached by those who know its password.
#[derive(Clone)]
pub(crate) struct ServerAddress {
    address: SocketAddr,
    password: String,
    pair: Option<Arc<Pair>>,
}

impl ServerAddress {
    /// A new connection on which the server knows who asks.
    ///
    /// # Errors
    /// When nobody listens, or the password is refused.
    pub(crate) fn connect(&self) -> Result<BlockingConnection, ConnectionError> {
        let connect = || TcpStream::connect_timeout(&self.address, CONNECT_LIMIT);
        let stream = match &self.pair {
            // A socket stays in the namespace in which it was opened.
            Some(pair) => pair.ends[0].run(connect).map_err(std::io::Error::other)?,
            None => connect(),
        };
        BlockingConnection::log_in(stream?, &self.password)
    }
}

/// Two network namespaces, where an arm's driver and server have one each.
///
/// # Errors
/// [`JobError::Missing`] where that is not permitted.
pub(crate) fn pair(setup: &ServerSetup) -> Result<Option<Arc<Pair>>, JobError> {
    let missing = |why: NetworkError| JobError::Missing {
        what: format!("network = \"lab\": {why}"),
        remedy: "run as the superuser, or set network = \"loopback\"".to_owned(),
    };
    setup.lab_network.then(Pair::new).transpose().map(|pair| pair.map(Arc::new)).map_err(missing)
}

impl KeyServer {
    /// Starts an empty server, and waits until it serves.
    ///
    /// # Errors
    /// What is missing, or what the server says.
    pub(crate) fn start(
        setup: &ServerSetup,
        pair: Option<&Arc<Pair>>,
        interrupt: &AtomicBool,
    ) -> Result<KeyServer, JobError> {
        let failed = |what: &Path, why: std::io::Error| JobError::failed(format!("{}: {why}", what.display()));
        let folder = folder(setup).map_err(|(place, why)| failed(&place, why))?;
        let in_memory = FileSystem::of(folder.path()).map_err(|why| failed(folder.path(), why))?.in_memory;
        let password = registry::random_word().map_err(|why| failed(Path::new("/proc"), why))?;
        // Nobody else is in a namespace of the run's own; on the loopback nobody else of this machine is given the port meanwhile.
        let held = match pair {
            None => Some(HeldPort::any().map_err(|why| JobError::failed(format!("a port of the loopback: {why}")))?),
            Some(_) => None,
        };
        let address = held.as_ref().map_or(SocketAddr::from((ADDRESSES[1], LAB_PORT)), |held| {
            SocketAddr::from((Ipv4Addr::LOCALHOST, held.number()))
        });
        let order = Order {
            name: setup.name().to_owned(),
            tier: Tier::Database,
            address,
            folder: folder.path().join("server"),
            program: program(setup.service)?,
            settings: settings(setup),
            upstreams: Vec::new(),
            wiring: Vec::new(),
            secret: password.clone(),
            database_secret: None,
            owner: None,
            tls: None,
        };
        let limits = Limits { cpus: setup.cpus.clone(), ..Limits::default() };
        let place: Box<dyn Place> = match pair {
            None => Box::new(Native),
            Some(pair) => Box::new(inside(pair)?),
        };
        let reach = ServerAddress { address, password, pair: pair.map(Arc::clone) };
        let mut instance = Instance::start(setup.service, order, &limits, place)?;
        match pair {
            None => instance.wait_ready(interrupt)?,
            Some(pair) => within(pair, || instance.wait_ready(interrupt))??,
        }
        Ok(KeyServer { instance, reach, in_memory, _held: held, _folder: folder })
    }

    pub(crate) fn reach(&self) -> ServerAddress {
        self.reach.clone()
    }

    /// Whether its folder is on a file system in memory.
    pub(crate) fn is_in_memory(&self) -> bool {
        self.in_memory
    }

    /// CPU time of the server's threads since its start, in ns.
    pub(crate) fn cpu_ns(&mut self) -> u64 {
        self.instance.usage().cpu_ns
    }

    /// Why it does not run any more: its last lines. `None` while it runs.
    pub(crate) fn ended(&mut self) -> Option<String> {
        self.instance.end()
    }

    /// Ends it in good order.
    pub(crate) fn stop(mut self) {
        self.instance.stop(STOP_LIMIT);
    }
}

/// A folder of the run's own in the one that the study names, or in the first of the usual ones that can be written.
fn folder(setup: &ServerSetup) -> Result<Folder, (PathBuf, std::io::Error)> {
    let create = |place: &Path| Folder::create(place).map_err(|why| (place.to_owned(), why));
    match (&setup.data, user_folder::running()) {
        (Some(named), _) => create(named),
        // It may be there and not be one that can be written.
        (None, Some(first)) => create(&first).or_else(|_| create(&std::env::temp_dir())),
        (None, None) => create(&std::env::temp_dir()),
    }
}

/// The server's side of the lab's network, into which this program puts others.
fn inside(pair: &Arc<Pair>) -> Result<Inside<Arc<Pair>>, JobError> {
    let program = std::env::current_exe().map_err(|why| JobError::failed(format!("finding this program: {why}")))?;
    let (namespace, address) = (pair.ends[1].path(), IpAddr::V4(ADDRESSES[1]));
    Ok(Inside { program, namespace, address, kept: Arc::clone(pair) })
}

fn within<T: Send>(
    pair: &Pair,
    work: impl FnOnce() -> Result<T, ServiceError> + Send,
) -> Result<Result<T, ServiceError>, JobError> {
    pair.ends[0].run(work).map_err(JobError::failed)
}

fn settings(setup: &ServerSetup) -> Settings {
    let append = if setup.persistence == "none" { "off" } else { &setup.persistence };
    let mut settings = Settings::default();
    settings.set("connections", Value::Count(setup.connections + SPARE_CONNECTIONS));
    settings.set("memory", Value::SizeBytes(Bytes(setup.memory)));
    settings.set("threads", Value::Count(setup.io_threads));
    settings.set("append", Value::Choice(append.to_owned()));
    settings.extra.clone_from(&setup.extra);
    settings
}
