//! A database that is started for a run in a folder of its own: its server process, or a file for the embedded one.
//!
//! It is durable unless the study asks otherwise. What is started here is gone when this is dropped, and dies with this process.

use crate::database::{Connection, Database, Dialect, Failure, Isolation, Rows};
use crate::dataset_cache::Kept;
use crate::endpoint::Endpoint;
pub use crate::error::ServerError;
use crate::external::{self, Source};
use crate::kernel_work::Whose;
use crate::kind::Kind;
use crate::login::Login;
use crate::sites::{Replica, Sites, free_address};
use crate::sqlite::Synchronous;
use baremark_model::knob::InvalidValue;
use baremark_model::units::{Bytes, Nanos};
use baremark_model::value::Value;
use baremark_networks::pair::ADDRESSES;
use baremark_networks::{Namespace, Pair};
use baremark_services::Folder;
use baremark_services::card::Tier;
use baremark_services::error::ServiceError;
use baremark_services::order::Order;
use baremark_services::place::{Inside, Native, Place};
use baremark_services::service::{Instance, Service, program};
use baremark_services::settings::Settings;
use baremark_sys::confine::Limits;
use baremark_sys::file_system;
use baremark_sys::private_folder::directory::Directory;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// How long a server may take to end in good order.
const STOP_LIMIT: Duration = Duration::from_secs(120);
/// Where a server listens in a namespace of its own.
const LAB_PORT: u16 = 5000;
/// Connections of a server in addition to those of the load.
const SPARE_CONNECTIONS: u64 = 20;

impl Kind {
    /// Bytes of an empty database with its log, about.
    #[must_use]
    pub fn base_bytes(self) -> u64 {
        match self {
            Kind::Sqlite => 0,
            Kind::Postgres | Kind::Mariadb => 256 << 20,
        }
    }

    pub(crate) fn service(self) -> Option<&'static dyn Service> {
        match self {
            Kind::Sqlite => None,
            Kind::Postgres => Some(&baremark_services::postgres::Postgres),
            Kind::Mariadb => Some(&baremark_services::mariadb::Mariadb),
        }
    }

    /// The version of its program.
    ///
    /// # Errors
    /// When the program is not installed.
    pub fn version(self) -> Result<String, ServerError> {
        let Some(service) = self.service() else { return Ok(rusqlite::version().to_owned()) };
        let program = program(service)?;
        let output = Command::new(&program).arg("--version").output();
        let output = output.map_err(|source| ServerError::Io { path: program, source })?;
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }
}

/// What is between the clients and the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Network {
    /// The loopback of the machine.
    #[default]
    Loopback,
    /// A veth pair between two network namespaces of the run's own.
    Lab,
}

/// How a database is set up.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Setup {
    /// Which.
    pub kind: Kind,
    /// Its cache of pages: `shared_buffers`, `innodb_buffer_pool_size`, `cache_size`.
    pub buffers: u64,
    /// A commit is answered once it is on the disk.
    pub synchronous_commit: bool,
    /// Anything is synced to the disk at all.
    pub fsync: bool,
    /// The server's cache is in huge pages of the system.
    pub huge_pages: bool,
    /// How the server syncs its log; absent, as it does by default.
    pub wal_sync_method: Option<String>,
    /// Isolation of all transactions.
    pub isolation: Isolation,
    /// Statements that do not depend on one another are sent together.
    pub pipeline: bool,
    /// Lines of the server's own configuration, after these.
    pub extra: Vec<String>,
    /// CPUs of the server; empty leaves it all.
    pub cpus: Vec<usize>,
    /// Connections of the load.
    pub connections: usize,
    /// What is between clients and server.
    pub network: Network,
    /// Where the URL of a server that is there already is; absent, one is started.
    pub external: Option<Source>,
    /// Connections of the web front to the database; absent, clients reach the database itself.
    pub front: Option<usize>,
    /// A second copy at another site.
    pub sites: Option<Sites>,
}

impl Setup {
    /// A durable database of this run's own on the loopback, at the isolation that is usual, with this cache and as many connections.
    #[must_use]
    pub fn durable(kind: Kind, buffers: u64, connections: usize) -> Setup {
        Setup { kind, buffers, synchronous_commit: true, fsync: true, connections, ..Setup::default() }
    }

    /// A setting that this database does not have.
    #[must_use]
    pub fn misfit(&self) -> Option<InvalidValue> {
        let word = self.kind.word();
        let (what, remedy) = match self.kind {
            Kind::Sqlite if self.external.is_some() => {
                ("url: sqlite has no server".to_owned(), "use another database, or remove it")
            }
            _ if self.external.is_some()
                && (self.network == Network::Lab
                    || !self.extra.is_empty()
                    || !self.cpus.is_empty()
                    || self.wal_sync_method.is_some()
                    || self.huge_pages
                    || !(self.synchronous_commit && self.fsync)) =>
            {
                (
                    "url is set with network = \"lab\", server_settings, wal_sync_method, server_cpus, huge_pages = true, \
                     synchronous_commit = false or fsync = false"
                        .to_owned(),
                    "remove them: that server's settings are its own",
                )
            }
            Kind::Sqlite | Kind::Mariadb if self.sites.is_some() => {
                (format!("replication: {word} has no second site here"), "use database = \"postgres\"")
            }
            Kind::Postgres
                if self.sites.is_some()
                    && (self.external.is_some() || self.network == Network::Lab || self.front.is_some()) =>
            {
                (
                    "replication is set with url, network = \"lab\" or front".to_owned(),
                    "remove them: the first server of two sites is started on the loopback, and clients reach it themselves",
                )
            }
            Kind::Postgres if self.sites.is_some() && !(self.synchronous_commit && self.fsync) => (
                "replication: a commit that does not wait for its own disk waits for no second one".to_owned(),
                "remove synchronous_commit = false and fsync = false",
            ),
            Kind::Sqlite if self.pipeline => (
                "pipeline = true: sqlite is embedded and has no protocol".to_owned(),
                "use database = \"postgres\", or remove it",
            ),
            Kind::Mariadb if self.pipeline => (
                "pipeline = true: the client of mariadb sends one statement at a time".to_owned(),
                "use database = \"postgres\", or remove it",
            ),
            Kind::Postgres if self.pipeline && self.front.is_some() => (
                "pipeline = true: clients of a web front send it requests, one at a time".to_owned(),
                "remove pipeline or front",
            ),
            Kind::Sqlite | Kind::Mariadb if self.huge_pages => {
                (format!("huge_pages = true: {word} cannot be held to it"), "use database = \"postgres\"")
            }
            Kind::Sqlite | Kind::Mariadb if self.wal_sync_method.is_some() => {
                (format!("wal_sync_method: {word} has no such setting"), "use database = \"postgres\", or remove it")
            }
            Kind::Postgres if self.wal_sync_method.is_some() && !self.fsync => {
                ("wal_sync_method is set and fsync = false: nothing is synced".to_owned(), "remove one of them")
            }
            Kind::Mariadb if !self.fsync => {
                ("fsync = false: mariadb always syncs".to_owned(), "set synchronous_commit = false instead")
            }
            Kind::Sqlite if !self.extra.is_empty() => {
                ("server_settings: sqlite has no server".to_owned(), "remove them, or use another database")
            }
            Kind::Sqlite if self.network == Network::Lab && self.front.is_none() => {
                ("network = \"lab\": sqlite has no server".to_owned(), "use another database, or a web front")
            }
            Kind::Sqlite if self.isolation != Isolation::default() => {
                ("isolation: transactions of sqlite are always serializable".to_owned(), "remove it")
            }
            _ => return None,
        };
        Some(InvalidValue::new(what, remedy))
    }

    /// Whether nothing of the database has to run while its load rests, and it syncs what it writes in the measured time: it is the run's own, at one place.
    /// With fsync = false, or a server's own setting of it, all would be synced between phases, in nobody's time.
    #[must_use]
    pub fn can_rest(&self) -> bool {
        let setting = |line: &str| {
            let name = line.split(|of: char| of == '=' || of.is_whitespace()).find(|word| !word.is_empty());
            name.unwrap_or_default().to_ascii_lowercase().replace('-', "_")
        };
        let decides = |line: &String| ["fsync", "innodb_flush_method"].contains(&setting(line).as_str());
        self.external.is_none() && self.sites.is_none() && self.fsync && !self.extra.iter().any(decides)
    }
}

/// A database with its files.
pub struct Server {
    setup: Setup,
    instance: Option<Instance>,
    /// A database on a server that is there already.
    external: Option<Endpoint>,
    /// The two namespaces of the lab's network: of the clients, and of the server.
    pair: Option<Arc<Pair>>,
    /// Dropped after the instance: the disk with the instance's data may be its.
    replica: Option<Replica>,
    /// Dropped after the instances, whose files it has.
    folder: Folder,
}

/// How an instance comes to be.
type Begin = fn(&'static dyn Service, Order, &Limits, Box<dyn Place>) -> Result<Instance, ServiceError>;

impl Server {
    /// Starts an empty database in a new folder below `root`.
    ///
    /// # Errors
    /// What is missing, or what the server says.
    pub fn start(setup: &Setup, root: &Path, secret: &str, interrupt: &AtomicBool) -> Result<Server, ServerError> {
        let mut server = Server::create(setup, root, secret, Instance::start)?;
        server.wait_ready(interrupt)?;
        Ok(server)
    }

    /// A database that does not run and has no data: [`Server::replace_data`] puts kept data into it and [`Server::restart`] starts it.
    ///
    /// # Errors
    /// What is missing.
    pub fn of_kept(setup: &Setup, root: &Path, secret: &str) -> Result<Server, ServerError> {
        Server::create(setup, root, secret, Instance::prepared)
    }

    fn create(setup: &Setup, root: &Path, secret: &str, begin: Begin) -> Result<Server, ServerError> {
        let folder = Folder::create(root).map_err(|source| ServerError::Io { path: root.to_owned(), source })?;
        if let Some(source) = &setup.external {
            let endpoint = source.endpoint(setup.kind, setup.isolation)?;
            external::take(&mut *endpoint.open().connect()?, setup.kind)?;
            return Ok(Server {
                setup: setup.clone(),
                instance: None,
                external: Some(endpoint),
                pair: None,
                replica: None,
                folder,
            });
        }
        let pair = (setup.network == Network::Lab).then(Pair::new).transpose()?.map(Arc::new);
        let Some(service) = setup.kind.service() else {
            let data = folder.path().join("data");
            Directory::make_new(&data).map_err(|source| ServerError::Io { path: data, source })?;
            return Ok(Server { setup: setup.clone(), instance: None, external: None, pair, replica: None, folder });
        };
        let address = match &pair {
            // Nobody else is in the namespace.
            Some(_) => SocketAddr::from((ADDRESSES[1], LAB_PORT)),
            None => free_address().map_err(|source| ServerError::Io { path: PathBuf::from("127.0.0.1"), source })?,
        };
        let order = Order {
            name: setup.kind.word().to_owned(),
            tier: Tier::Database,
            address,
            folder: folder.path().join("server"),
            program: program(service)?,
            settings: settings(setup),
            upstreams: Vec::new(),
            wiring: Vec::new(),
            secret: secret.to_owned(),
            database_secret: None,
            owner: None,
            tls: None,
        };
        let limits = Limits { cpus: setup.cpus.clone(), ..Limits::default() };
        let replica = setup.sites.map(|sites| Replica::new(sites, service, &order, folder.path())).transpose()?;
        let place: Box<dyn Place> = match &pair {
            None => Box::new(Native),
            Some(pair) => Box::new(inside(pair)?),
        };
        let instance = Some(begin(service, order, &limits, place)?);
        Ok(Server { setup: setup.clone(), instance, external: None, pair, replica, folder })
    }

    /// Waits until the server answers its clients, from where they are.
    fn wait_ready(&mut self, interrupt: &AtomicBool) -> Result<(), ServerError> {
        let Some(instance) = &mut self.instance else { return Ok(()) };
        match &self.pair {
            None => instance.wait_ready(interrupt)?,
            Some(pair) => pair.ends[0].run(|| instance.wait_ready(interrupt))??,
        }
        Ok(())
    }

    /// As clients reach it.
    #[must_use]
    pub fn database(&self) -> Box<dyn Database> {
        self.reached(self.endpoint().open())
    }

    /// A database, or what is in front of it, as it is reached from where clients are.
    #[must_use]
    pub fn reached(&self, database: Box<dyn Database>) -> Box<dyn Database> {
        match &self.pair {
            Some(pair) => Box::new(Away { database, pair: Arc::clone(pair) }),
            None => database,
        }
    }

    /// Where programs at the server's side reach it.
    #[must_use]
    pub fn endpoint(&self) -> Endpoint {
        if let Some(external) = &self.external {
            return external.clone();
        }
        let Some(instance) = &self.instance else {
            let synchronous = match (self.setup.fsync, self.setup.synchronous_commit) {
                (false, _) => Synchronous::Off,
                (true, false) => Synchronous::Normal,
                (true, true) => Synchronous::Full,
            };
            let path = self.data().join("database");
            return Endpoint::Sqlite { path, synchronous, cache_bytes: self.setup.buffers };
        };
        self.endpoint_of(instance)
    }

    /// The standby server at the second site, as clients reach it.
    #[must_use]
    pub fn standby(&self) -> Option<Box<dyn Database>> {
        self.replica.as_ref()?.standby().map(|standby| self.endpoint_of(standby).open())
    }

    fn endpoint_of(&self, instance: &Instance) -> Endpoint {
        let isolation = self.setup.isolation;
        let (address, password) = (instance.address(), instance.order().secret.clone());
        let login = |name: &str| {
            let (user, database) = (name.to_owned(), name.to_owned());
            Login { address, user, password, database, isolation }
        };
        match self.setup.kind {
            Kind::Mariadb => Endpoint::Mariadb(login(baremark_services::mariadb::NAME)),
            _ => Endpoint::Postgres(login(baremark_services::postgres::NAME)),
        }
    }

    /// The address at which programs at the server's side listen for clients.
    #[must_use]
    pub fn host(&self) -> IpAddr {
        IpAddr::V4(self.pair.as_ref().map_or(Ipv4Addr::LOCALHOST, |_| ADDRESSES[1]))
    }

    /// The server's network namespace, where it has one of its own.
    #[must_use]
    pub fn namespace(&self) -> Option<&Namespace> {
        self.pair.as_ref().map(|pair| &pair.ends[1])
    }

    /// Where its data is.
    #[must_use]
    pub fn data(&self) -> PathBuf {
        match &self.instance {
            Some(instance) => instance.folder().join("data"),
            None => self.folder.path().join("data"),
        }
    }

    /// Where a server listens; `None` for an embedded database.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        self.instance.as_ref().map(Instance::address)
    }

    /// Role, password and database of a server; `None` for an embedded database.
    #[must_use]
    pub fn credentials(&self) -> Option<(&'static str, &str)> {
        let instance = self.instance.as_ref()?;
        Some((baremark_services::postgres::NAME, &instance.order().secret))
    }

    /// CPU time of the server's processes since its start, in ns; 0 for an embedded database.
    pub fn cpu_ns(&mut self) -> u64 {
        self.instance.as_mut().map_or(0, |instance| instance.usage().cpu_ns)
    }

    /// Whose page faults and context switches are the database's.
    pub(crate) fn whose(&self) -> Whose {
        match (&self.instance, &self.external) {
            (Some(instance), _) => instance.pid().map_or(Whose::Unknown("the server has ended"), Whose::Server),
            (None, Some(_)) => Whose::Unknown("the server is an external one"),
            (None, None) => Whose::Own,
        }
    }

    /// Why a server that was not stopped does not run any more: its last lines, and its first error where that is above them. `None` while it
    /// runs, and of an embedded database.
    pub fn ended(&mut self) -> Option<String> {
        self.instance.as_mut()?.end()
    }

    /// Stops the processes of the server where they are until [`Server::resume`], and syncs the file system with its files: then nothing of the database runs, nor
    /// does the kernel write for it. PostgreSQL has written its cache before; MariaDB keeps changed pages in its own. All connections must be closed.
    ///
    /// # Errors
    /// What the server or the disk says; that `interrupt` was raised, which the sync does not heed.
    pub fn suspend(&mut self, interrupt: &AtomicBool) -> Result<(), ServerError> {
        if let Some(instance) = self.instance.as_mut().filter(|instance| instance.pid().is_some()) {
            // Of one that has ended, the instance says why.
            if self.setup.kind == Kind::Postgres && instance.is_running() {
                baremark_services::postgres::checkpoint(instance, interrupt)?;
            }
            instance.suspend()?;
        }
        let path = self.folder.path();
        file_system::sync(path).map_err(|source| ServerError::Io { path: path.to_owned(), source })
    }

    /// Lets it go on after [`Server::suspend`].
    pub fn resume(&mut self) {
        self.instance.iter_mut().for_each(Instance::resume);
    }

    /// CPU time of the server's processes since their start, in ns, while it is suspended; 0 while it is not, and of an embedded database.
    #[must_use]
    pub fn suspended_cpu_ns(&self) -> u64 {
        self.instance.as_ref().map_or(0, Instance::suspended_cpu_ns)
    }

    /// Stops the server in good order. All connections must be closed.
    pub fn stop(&mut self) {
        if let Some(instance) = &mut self.instance {
            instance.stop(STOP_LIMIT);
        }
        // After the first, which sends it the last of its log.
        if let Some(replica) = &mut self.replica {
            replica.stop(STOP_LIMIT);
        }
    }

    /// What keeps the second copy.
    pub(crate) fn replica(&mut self) -> Option<&mut Replica> {
        self.replica.as_mut()
    }

    /// Kills the server's processes.
    pub fn kill(&mut self) {
        if let Some(instance) = &mut self.instance {
            instance.kill();
        }
    }

    /// Starts it on the data that is there, and waits until it serves: after a kill, until it has recovered.
    ///
    /// # Errors
    /// What the server says.
    pub fn restart(&mut self, interrupt: &AtomicBool) -> Result<(), ServerError> {
        let Some(instance) = &mut self.instance else { return Ok(()) };
        if let Some(replica) = &self.replica {
            replica.configure(instance)?;
        }
        instance.restart()?;
        self.wait_ready(interrupt)?;
        let Some(mut replica) = self.replica.take() else { return Ok(()) };
        let follows = replica.follow(self.address(), &*self.database(), interrupt);
        self.replica = Some(replica);
        follows
    }

    /// Empties a database on a server that is there already; `false` of one that was started.
    ///
    /// # Errors
    /// What the database says.
    pub fn empty_external(&self) -> Result<bool, ServerError> {
        let Some(external) = &self.external else { return Ok(false) };
        external::take(&mut *external.open().connect()?, self.setup.kind)?;
        Ok(true)
    }

    /// The version that a server that is there already reports; `None` of one that was started.
    ///
    /// # Errors
    /// What the database says.
    pub fn external_version(&self) -> Result<Option<String>, ServerError> {
        let Some(external) = &self.external else { return Ok(None) };
        let mut rows = Rows::default();
        external.open().connect()?.query("select version()", &mut rows)?;
        Ok(Some(rows.text(0, 0).to_owned()))
    }

    /// Stops it, and puts kept data in place of its own; [`Server::restart`] starts it again.
    ///
    /// # Errors
    /// As [`Kept::take`].
    pub fn replace_data(&mut self, kept: &Kept) -> Result<(), ServerError> {
        self.stop();
        let owner = self.instance.as_ref().and_then(|instance| instance.order().owner);
        let data = self.data();
        match &mut self.replica {
            Some(replica) => replica.put(kept, &data, owner),
            None => Ok(kept.take(&data, owner)?),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let Some(external) = &self.external else { return };
        // What cannot be removed now, the next run removes.
        let emptied =
            external.open().connect().and_then(|mut connection| external::empty(&mut *connection, self.setup.kind));
        drop(emptied);
    }
}

/// The server's side of the lab's network, into which this program puts others.
fn inside(pair: &Arc<Pair>) -> Result<Inside<Arc<Pair>>, ServerError> {
    let program = std::env::current_exe();
    let program = program.map_err(|source| ServerError::Io { path: PathBuf::from("/proc/self/exe"), source })?;
    let (namespace, address) = (pair.ends[1].path(), IpAddr::V4(ADDRESSES[1]));
    Ok(Inside { program, namespace, address, kept: Arc::clone(pair) })
}

/// A database whose clients are in the namespace at the other end of the pair.
struct Away {
    database: Box<dyn Database>,
    pair: Arc<Pair>,
}

impl Database for Away {
    fn dialect(&self) -> Dialect {
        self.database.dialect()
    }

    fn connect(&self) -> Result<Box<dyn Connection>, Failure> {
        // A socket stays in the namespace in which it was opened.
        self.pair.ends[0].run(|| self.database.connect()).map_err(Failure::other)?
    }
}

fn settings(setup: &Setup) -> Settings {
    let connections = setup.connections.max(setup.front.unwrap_or(0)) as u64 + SPARE_CONNECTIONS;
    let mut settings = Settings::default();
    let mut set = |key: &str, value: Value| settings.set(key, value);
    set("connections", Value::Count(connections));
    set("buffers", Value::SizeBytes(Bytes(setup.buffers)));
    match setup.kind {
        Kind::Mariadb => {
            set("log_size", Value::SizeBytes(Bytes(128 << 20)));
            let commit = if setup.synchronous_commit && setup.fsync { "on" } else { "off" };
            set("commit", Value::Choice(commit.to_owned()));
            set("doublewrite", Value::Switch(setup.fsync));
        }
        _ => {
            set("work_memory", Value::SizeBytes(Bytes(4 << 20)));
            set("wal_buffers", Value::SizeBytes(Bytes(16 << 20)));
            set("wal_size", Value::SizeBytes(Bytes(2 << 30)));
            set("checkpoint", Value::TimeNs(Nanos(300_000_000_000)));
            set("fsync", Value::Switch(setup.fsync));
            set("full_page_writes", Value::Switch(true));
            set("commit", Value::Choice(if setup.synchronous_commit { "on" } else { "off" }.to_owned()));
        }
    }
    let method = setup.wal_sync_method.iter().map(|method| format!("wal_sync_method = {method}"));
    settings.extra = huge_pages(setup).into_iter().chain(method).chain(setup.extra.iter().cloned()).collect();
    settings
}

/// Only PostgreSQL refuses to start when it cannot have the huge pages that it is asked for; see [`Setup::misfit`].
fn huge_pages(setup: &Setup) -> Option<String> {
    let word = if setup.huge_pages { "on" } else { "off" };
    (setup.kind == Kind::Postgres).then(|| format!("huge_pages = {word}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// They were taken and had no effect: levels of synchronous_commit compared a server with itself.
    #[test]
    fn what_a_server_that_is_there_already_does_not_hear_of_is_refused() {
        let own = Setup { external: Source::of("env:URL"), ..Setup::durable(Kind::Postgres, 32 << 20, 1) };
        assert_eq!(own.misfit(), None);
        for asked in [
            Setup { synchronous_commit: false, ..own.clone() },
            Setup { fsync: false, ..own.clone() },
            Setup { huge_pages: true, ..own.clone() },
            Setup { kind: Kind::Mariadb, synchronous_commit: false, ..own.clone() },
        ] {
            let misfit = asked.misfit().expect("a setting without effect");
            assert!(misfit.what.starts_with("url is set with "), "{misfit:?}");
        }
    }
}
