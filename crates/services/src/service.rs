//! The seam of a service: what an adapter says of its program.

use crate::instance::Instance;
use crate::recipe::Recipe;
use crate::settings::Settings;
use baremark_model::descriptor::Knob;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// What a tier is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Tier {
    /// Spreads requests over the servers behind it.
    Balancer,
    /// Takes requests from browsers, keeps what can be kept, hands on the rest.
    Web,
    /// The application's own servers.
    App,
    /// What must not be lost.
    Database,
    /// How app servers tell each other.
    Bus,
}

impl Tier {
    /// All, in the order of a request's way.
    pub const ALL: [Tier; 5] = [Tier::Balancer, Tier::Web, Tier::App, Tier::Database, Tier::Bus];

    /// Its key in a topology.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Tier::Balancer => "balancer",
            Tier::Web => "web",
            Tier::App => "app",
            Tier::Database => "database",
            Tier::Bus => "bus",
        }
    }
}

/// Where a service's program comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Install {
    /// Places where the program may be; a `*` represents one folder's name, the last in order is taken.
    pub programs: &'static [&'static str],
    /// Debian's package.
    pub package: &'static str,
    /// The user that the program runs as when the caller is the superuser and this user exists.
    pub user: Option<&'static str>,
}

/// One instance as requested.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Order {
    /// Its name, such as `app-2`.
    pub name: String,
    /// Which tier it serves.
    pub tier: Tier,
    /// Where it listens.
    pub address: SocketAddr,
    /// Its private folder, as its program sees it.
    pub folder: PathBuf,
    /// The program, as [`Install`] found it.
    pub program: PathBuf,
    /// Values for every knob, and what is passed through.
    pub settings: Settings,
    /// Servers behind it.
    pub upstreams: Vec<Upstream>,
    /// Arguments by which its caller connects it with the rest; only the application's own servers take them.
    pub wiring: Vec<String>,
    /// A secret made for this run: the database's password and the like. Never in a log.
    pub secret: String,
    /// The password of a database that is not the run's own server; absent, that is `secret`. Never in a log.
    #[serde(default)]
    pub database_secret: Option<String>,
    /// The user and group that its folder belongs to and that its program runs as; absent, those of whoever starts it.
    pub owner: Option<(u32, u32)>,
    /// By which it serves TLS at its address; absent, it serves plain. Only balancers and web servers take it.
    pub tls: Option<Tls>,
}

/// What a server needs to serve TLS.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tls {
    /// Its certificate, as PEM.
    pub chain: String,
    /// The key of that, as PEM. Never in a log.
    pub key: String,
    /// Where it tells of itself without TLS: not what it serves.
    pub plain: SocketAddr,
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tls").field("plain", &self.plain).finish_non_exhaustive()
    }
}

impl Order {
    /// Where it reports about itself: its own address, or alongside it when that takes TLS alone.
    #[must_use]
    pub fn plain(&self) -> SocketAddr {
        self.tls.as_ref().map_or(self.address, |tls| tls.plain)
    }

    /// Whether it is asked about itself over the lab's network. One that listens on loopback, or on every address of a machine of
    /// its own, is asked there.
    #[must_use]
    pub(crate) fn is_on_lab_network(&self) -> bool {
        let address = self.address.ip();
        !address.is_loopback() && !address.is_unspecified()
    }
}

/// A server behind another.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Upstream {
    /// Its name.
    pub name: String,
    /// Where it listens.
    pub address: SocketAddr,
}

/// Why a service cannot be had or has failed.
#[derive(Debug, thiserror::Error)]
pub enum ServiceError {
    /// The program is not here.
    #[error("{kind} is not installed ({program}); install it: apt-get install {package}")]
    Missing {
        /// The service.
        kind: &'static str,
        /// What was looked for.
        program: String,
        /// Debian's package.
        package: &'static str,
    },
    /// Somebody listens there already.
    #[error("{name}: the address {address} is taken; choose another port, or 0 for any free one")]
    Taken {
        /// The instance.
        name: String,
        /// The address.
        address: SocketAddr,
    },
    /// What was asked cannot be.
    #[error("{name}: {what}; {remedy}")]
    Refused {
        /// The instance.
        name: String,
        /// What is wrong.
        what: String,
        /// What would be right.
        remedy: String,
    },
    /// It did not become ready, or ended by itself.
    #[error("{name}: {what}{}", said(.log))]
    Failed {
        /// The instance.
        name: String,
        /// What it did.
        what: String,
        /// The last lines of its log.
        log: Vec<String>,
    },
    /// A file, a socket or a process.
    #[error("{name}: {what}: {source}")]
    Io {
        /// The instance.
        name: String,
        /// What was being done.
        what: String,
        /// What the system said.
        source: io::Error,
    },
}

fn said(log: &[String]) -> String {
    let last: Vec<&str> = log.iter().rev().filter(|line| !line.is_empty()).take(5).map(String::as_str).collect();
    let lines = last.iter().rev().fold(String::new(), |text, line| text + "\n    " + line);
    if lines.is_empty() { String::new() } else { format!("; its last lines:{lines}") }
}

/// Numbers that a service reports about itself, by its own names.
pub type Statistics = BTreeMap<String, f64>;

/// Those of the pairs whose value is a number.
pub(crate) fn numbers<'t>(pairs: impl Iterator<Item = (&'t str, &'t str)>) -> Statistics {
    let number = |text: &str| text.trim().parse::<f64>().ok().filter(|number| number.is_finite());
    pairs.filter_map(|(key, value)| Some((key.to_owned(), number(value)?))).collect()
}

/// What stands of a service once for all.
pub struct Card {
    /// Its name in a topology.
    pub kind: &'static str,
    /// Tiers that it can serve.
    pub tiers: &'static [Tier],
    /// Its typed settings; what each is by default is in the caller's file of defaults.
    pub knobs: &'static [Knob],
    /// Where its program comes from.
    pub install: Install,
}

/// A program that serves a tier. An adapter starts nothing: it says what is to be done.
pub trait Service: Sync {
    /// What stands of it once for all.
    fn card(&self) -> &'static Card;

    /// Its name in a topology.
    fn kind(&self) -> &'static str {
        self.card().kind
    }

    /// Tiers that it can serve.
    fn tiers(&self) -> &'static [Tier] {
        self.card().tiers
    }

    /// Its typed settings.
    fn knobs(&self) -> &'static [Knob] {
        self.card().knobs
    }

    /// Where its program comes from.
    fn install(&self) -> Install {
        self.card().install
    }

    /// Files, commands and readiness of one instance.
    ///
    /// # Errors
    /// When these settings cannot be together.
    fn configure(&self, order: &Order) -> Result<Recipe, ServiceError>;

    /// What it tells of itself while it runs.
    ///
    /// # Errors
    /// When it does not answer.
    fn statistics(&self, instance: &Instance) -> Result<Statistics, ServiceError>;

    /// Lets it send requests to just these servers from now on, without failing one.
    ///
    /// # Errors
    /// When it cannot do that, or did not do it in time.
    fn rewire(&self, instance: &mut Instance, upstreams: &[Upstream]) -> Result<(), ServiceError> {
        let _ = upstreams;
        Err(ServiceError::Refused {
            name: instance.name().to_owned(),
            what: format!("{} has no servers behind it that could change", self.kind()),
            remedy: "put a balancer or a web server before the tier".to_owned(),
        })
    }
}

/// The program of a service.
///
/// # Errors
/// [`ServiceError::Missing`] with the command that installs it.
pub fn program(service: &dyn Service) -> Result<PathBuf, ServiceError> {
    let install = service.install();
    let found = install.programs.iter().find_map(|pattern| expand(pattern));
    found.ok_or_else(|| ServiceError::Missing {
        kind: service.kind(),
        program: install.programs.join(", "),
        package: install.package,
    })
}

/// The file that a pattern with at most one `*` leads to; the last in numerical order of several.
fn expand(pattern: &str) -> Option<PathBuf> {
    let Some((before, after)) = pattern.split_once('*') else {
        return Some(PathBuf::from(pattern)).filter(|path| path.is_file());
    };
    let mut names: Vec<String> = std::fs::read_dir(Path::new(before))
        .ok()?
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    names.sort_by_key(|name| (name.parse::<u64>().unwrap_or(0), name.clone()));
    names.iter().rev().map(|name| PathBuf::from(format!("{before}{name}{after}"))).find(|path| path.is_file())
}
