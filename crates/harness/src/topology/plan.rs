//! A resolved topology: its applications, their tiers, and where the instances of each run.

use crate::demand::Demand;
use crate::elastic::{Elastic, Fault};
use baremark_model::value::Value;
use baremark_services::card::Tier;
use baremark_services::service::Service;
use baremark_services::settings::Settings;
use baremark_sys::confine::Limits;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Everything that a run needs.
pub struct Topology {
    /// In a line.
    pub title: String,
    /// Of everything drawn.
    pub seed: u64,
    /// Where databases and logs are kept while it runs; `None` for the system's temporary folder.
    pub folder: Option<PathBuf>,
    /// Where logs and configurations of each trial are kept.
    pub keep: Option<PathBuf>,
    /// The applications that run side by side; at least one.
    pub applications: Vec<Application>,
    /// How load is found or kept where an application does not say it differently.
    pub load: Demand,
    /// Settings of the environments in which instances run, as in studies: `[environments.qemu]`, `[environments.ssh]`.
    pub environments: Environments,
}

/// Settings of environments, by name and key.
pub type Environments = BTreeMap<String, BTreeMap<String, Value>>;

/// One application with its own tiers and load.
pub struct Application {
    /// Its name; `main` when there is one.
    pub name: String,
    /// Users for which data is loaded.
    pub max_users: u64,
    /// The part of the past that is loaded.
    pub history: f64,
    /// What checking a password costs, as the application takes it.
    pub argon2: String,
    /// Where images are kept: `files`, `database`, `memory`.
    pub images: String,
    /// Whether users come by TLS.
    pub tls: bool,
    /// What connects its tiers.
    pub network: Networking,
    /// Tiers that have instances.
    pub tiers: BTreeMap<Tier, TierPlan>,
    /// Where the database keeps its files; `None` for the run's folder.
    pub database_folder: Option<PathBuf>,
    /// Where its loaded data are kept for later runs.
    pub kept_data: Option<PathBuf>,
    /// The database server that is there already, where the database is on one.
    pub external: Option<External>,
    /// What keeps the data: `sqlite`, or the service of the database tier.
    pub database: String,
    /// How app servers tell each other: `process`, `postgres`, `redis`.
    pub bus: String,
    /// How counts change while it runs.
    pub elastic: Elastic,
    /// What goes wrong on purpose while it runs.
    pub faults: Vec<Fault>,
    /// How its load is found or kept.
    pub load: Demand,
}

/// A database server that is there already.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct External {
    /// `postgres` or `mariadb`.
    pub service: &'static str,
    /// HOST:PORT.
    pub server: String,
    /// The database that is used, which must be empty; empty for one that is made.
    pub name: String,
    /// The file with the user and the password; `None` for the environment.
    pub credentials: Option<PathBuf>,
}

/// What connects the tiers of an application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Networking {
    /// The loopback of this machine.
    Host,
    /// A bridge of the run's own; each instance has a network namespace and an address there.
    Lab,
}

/// A tier's instances.
#[derive(Clone)]
pub struct TierPlan {
    /// What serves it.
    pub service: &'static dyn Service,
    /// How many at the start.
    pub count: u64,
    /// Where.
    pub on: On,
    /// The first port; 0 takes any that is free.
    pub port: u16,
    /// What each may have.
    pub limits: Limits,
    /// Values of all knobs.
    pub settings: Settings,
}

/// Where instances run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum On {
    /// As processes of this machine.
    Native,
    /// In containers, of an image, or without one of this program alone.
    Container(Option<String>),
    /// In a guest under QEMU, with this program alone or, for other people's, with this machine's files.
    Qemu,
    /// On another machine.
    Ssh(String),
    /// On a server that is there already, at HOST:PORT: the database alone.
    External(String),
}

impl On {
    /// Whether its site has processes, files and a network of its own: instances there are carried out by whoever is there.
    #[must_use]
    pub fn is_far(&self) -> bool {
        matches!(self, On::Qemu | On::Ssh(_))
    }
}

impl std::fmt::Display for On {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            On::Native => f.write_str("native"),
            On::Container(_) => f.write_str("container"),
            On::Qemu => f.write_str("qemu"),
            On::Ssh(host) => write!(f, "ssh:{host}"),
            On::External(server) => write!(f, "external:{server}"),
        }
    }
}
