//! A database that is started for a run in a folder of its own: its server process, or a file for the embedded one.
//!
//! It is durable unless the study asks otherwise. What is started here is gone when this is dropped, and dies with this process.

use crate::database::{Database, Failure, Isolation};
use crate::kept::{Kept, KeptError};
use crate::mariadb::Mariadb;
use crate::postgres::Postgres;
use crate::sqlite::{Sqlite, Synchronous};
use baremark_model::descriptor::Value;
use baremark_model::knob::Misfit;
use baremark_model::units::{Bytes, Nanos};
use baremark_services::Folder;
use baremark_services::instance::Instance;
use baremark_services::place::Native;
use baremark_services::service::{Order, Service, ServiceError, Tier, program};
use baremark_services::settings::Settings;
use baremark_sys::confine::Limits;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// How long a server may take to end in good order.
const STOP_LIMIT: Duration = Duration::from_secs(120);
/// Connections of a server in addition to those of the load.
const SPARE_CONNECTIONS: u64 = 20;

/// Which database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Embedded.
    Sqlite,
    /// PostgreSQL.
    Postgres,
    /// MariaDB.
    Mariadb,
}

impl Kind {
    /// The words of a study.
    pub const WORDS: &'static [&'static str] = &["sqlite", "postgres", "mariadb"];

    /// The database of a word.
    #[must_use]
    pub fn of(word: &str) -> Option<Kind> {
        let all = [Kind::Sqlite, Kind::Postgres, Kind::Mariadb];
        Kind::WORDS.iter().zip(all).find(|(known, _)| **known == word).map(|(_, kind)| kind)
    }

    /// Its word.
    #[must_use]
    pub fn word(self) -> &'static str {
        Kind::WORDS[self as usize]
    }

    /// Bytes of an empty database with its log, about.
    #[must_use]
    pub fn base_bytes(self) -> u64 {
        match self {
            Kind::Sqlite => 0,
            Kind::Postgres | Kind::Mariadb => 256 << 20,
        }
    }

    fn service(self) -> Option<&'static dyn Service> {
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

/// How a database is set up.
#[derive(Clone, Debug, PartialEq)]
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
    /// Isolation of all transactions.
    pub isolation: Isolation,
    /// Lines of the server's own configuration, after these.
    pub extra: Vec<String>,
    /// CPUs of the server; empty leaves it all.
    pub cpus: Vec<usize>,
    /// Connections of the load.
    pub connections: usize,
}

impl Setup {
    /// A setting that this database does not have.
    #[must_use]
    pub fn misfit(&self) -> Option<Misfit> {
        let word = self.kind.word();
        let (what, remedy) = match self.kind {
            Kind::Sqlite | Kind::Mariadb if self.huge_pages => {
                (format!("huge_pages = true: {word} cannot be held to it"), "use database = \"postgres\"")
            }
            Kind::Mariadb if !self.fsync => {
                ("fsync = false: mariadb always syncs".to_owned(), "set synchronous_commit = false instead")
            }
            Kind::Sqlite if !self.extra.is_empty() => {
                ("server_settings: sqlite has no server".to_owned(), "remove them, or use another database")
            }
            Kind::Sqlite if self.isolation != Isolation::default() => {
                ("isolation: transactions of sqlite are always serializable".to_owned(), "remove it")
            }
            _ => return None,
        };
        Some(Misfit { what, remedy: remedy.to_owned() })
    }
}

/// Why there is no database.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The server's program, its settings or its start.
    #[error(transparent)]
    Service(#[from] ServiceError),
    /// The data that is kept.
    #[error(transparent)]
    Kept(#[from] KeptError),
    /// What the database says.
    #[error(transparent)]
    Database(#[from] Failure),
    /// A file.
    #[error("{path}: {source}")]
    Io {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
}

/// A database with its files.
pub struct Server {
    setup: Setup,
    instance: Option<Instance>,
    /// Dropped after the instance, whose files it has.
    folder: Folder,
}

impl Server {
    /// Starts an empty database in a new folder below `root`.
    ///
    /// # Errors
    /// What is missing, or what the server says.
    pub fn start(setup: &Setup, root: &Path, secret: &str, interrupt: &AtomicBool) -> Result<Server, ServerError> {
        let folder = Folder::create(root).map_err(|source| ServerError::Io { path: root.to_owned(), source })?;
        let Some(service) = setup.kind.service() else {
            let data = folder.path().join("data");
            std::fs::create_dir(&data).map_err(|source| ServerError::Io { path: data, source })?;
            return Ok(Server { setup: setup.clone(), instance: None, folder });
        };
        let order = Order {
            name: setup.kind.word().to_owned(),
            tier: Tier::Database,
            address: free_address().map_err(|source| ServerError::Io { path: PathBuf::from("127.0.0.1"), source })?,
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
        let mut instance = Instance::start(service, order, &limits, Box::new(Native))?;
        instance.wait_ready(interrupt)?;
        Ok(Server { setup: setup.clone(), instance: Some(instance), folder })
    }

    /// As clients reach it.
    #[must_use]
    pub fn database(&self) -> Box<dyn Database> {
        let isolation = self.setup.isolation;
        let Some(instance) = &self.instance else {
            let synchronous = match (self.setup.fsync, self.setup.synchronous_commit) {
                (false, _) => Synchronous::Off,
                (true, false) => Synchronous::Normal,
                (true, true) => Synchronous::Full,
            };
            return Box::new(Sqlite::new(self.data().join("database"), synchronous, self.setup.buffers));
        };
        let (address, password) = (instance.address(), instance.order().secret.clone());
        match self.setup.kind {
            Kind::Mariadb => {
                let name = baremark_services::mariadb::NAME.to_owned();
                Box::new(Mariadb { address, user: name.clone(), password, database: name, isolation })
            }
            _ => {
                let name = baremark_services::postgres::NAME.to_owned();
                Box::new(Postgres { address, user: name.clone(), password, database: name, isolation })
            }
        }
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

    /// Stops the server in good order. All connections must be closed.
    pub fn stop(&mut self) {
        if let Some(instance) = &mut self.instance {
            instance.stop(STOP_LIMIT);
        }
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
        instance.restart()?;
        Ok(instance.wait_ready(interrupt)?)
    }

    /// Stops it, and puts kept data in place of its own; [`Server::restart`] starts it again.
    ///
    /// # Errors
    /// As [`Kept::take`].
    pub fn replace_data(&mut self, kept: &Kept) -> Result<(), ServerError> {
        self.stop();
        let owner = self.instance.as_ref().and_then(|instance| instance.order().owner);
        Ok(kept.take(&self.data(), owner)?)
    }
}

fn free_address() -> std::io::Result<SocketAddr> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()
}

fn settings(setup: &Setup) -> Settings {
    let connections = setup.connections as u64 + SPARE_CONNECTIONS;
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
    settings.extra = huge_pages(setup).into_iter().chain(setup.extra.iter().cloned()).collect();
    settings
}

/// Only PostgreSQL refuses to start when it cannot have the huge pages that it is asked for; see [`Setup::misfit`].
fn huge_pages(setup: &Setup) -> Option<String> {
    let word = if setup.huge_pages { "on" } else { "off" };
    (setup.kind == Kind::Postgres).then(|| format!("huge_pages = {word}"))
}
