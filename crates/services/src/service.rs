//! The seam of a service: what an adapter says of its program.

use crate::instance::Instance;
use crate::recipe::Recipe;
use crate::settings::Settings;
use baremark_model::job::{JobError, ServerProgram};
use baremark_model::knob::Knob;
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
    /// The user that its package brings, as which the program runs when the caller is the superuser; absent of this program itself.
    pub user: Option<&'static str>,
}

/// The user and group that are nobody's, by the kernel's number.
const NOBODY: (u32, u32) = (65_534, 65_534);

impl Install {
    /// The user and group as which the program runs that the superuser starts: its package's, else nobody's. `None` without either: most
    /// programs look their user up.
    #[must_use]
    pub fn account(&self, lookup: impl Fn(&str) -> Option<(u32, u32)>) -> Option<(u32, u32)> {
        let names = self.user.into_iter().chain(["nobody"]);
        let found = names.filter_map(lookup).find(|(user, group)| *user != 0 && *group != 0);
        found.or_else(|| self.user.is_none().then_some(NOBODY))
    }
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

impl From<ServiceError> for JobError {
    fn from(why: ServiceError) -> JobError {
        match why {
            ServiceError::Missing { kind, program, package } => JobError::Missing {
                what: format!("{kind} is not installed ({program})"),
                remedy: format!("install it: apt-get install {package}"),
            },
            other => JobError::failed(other),
        }
    }
}

/// How programs mark an error that ends them: MariaDB, PostgreSQL, nginx, HAProxy.
const ERRORS: [&str; 6] = ["[ERROR]", "[FATAL]", "FATAL:", "PANIC:", "[emerg]", "[ALERT]"];

/// What PostgreSQL marks so though it ends a connection alone.
const OF_CONNECTIONS: [&str; 8] = [
    "the database system is ",
    "terminating connection",
    "terminating background worker",
    "connection to client lost",
    "too many clients",
    "too many connections",
    "connection slots are reserved",
    "authentication",
];

/// Whether a program marks the line as an error that ends it.
pub(crate) fn is_error(line: &str) -> bool {
    let has = |marks: &[&str]| marks.iter().any(|mark| line.contains(mark));
    has(&ERRORS) && !has(&OF_CONNECTIONS)
}

/// The last lines of a log, and above them the first error where a program has written more after it; they begin with a semicolon.
pub(crate) fn said(log: &[String]) -> String {
    let lines: Vec<&str> = log.iter().map(String::as_str).filter(|line| !line.is_empty()).collect();
    let (earlier, last) = lines.split_at(lines.len().saturating_sub(5));
    let first = earlier.iter().find(|line| is_error(line));
    let first = first.map_or_else(String::new, |line| format!("; its first error:\n    {line}"));
    let last = last.iter().fold(String::new(), |text, line| text + "\n    " + line);
    if last.is_empty() { String::new() } else { format!("{first}; its last lines:{last}") }
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

    /// The fingerprint of the source that decides what a new instance's data holds, before anybody puts rows into it: data that is kept is of one such source.
    fn source(&self) -> &'static str {
        ""
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

/// The program of a service, as planning looks for it: the level of `parameter` that chooses the service, and what a study writes to do without.
#[must_use]
pub fn sought(service: &dyn Service, parameter: &'static str, instead: Option<&'static str>) -> ServerProgram {
    let Install { programs: files, package, .. } = service.install();
    ServerProgram { parameter, name: service.kind(), files, package, instead }
}

/// The program of a service on this machine.
///
/// # Errors
/// [`ServiceError::Missing`] with the command that installs it.
pub fn program(service: &dyn Service) -> Result<PathBuf, ServiceError> {
    program_below(&sought(service, "", None), Path::new("/"))
}

/// A server's program among the files of another system, which are in this folder.
///
/// # Errors
/// As [`program`].
pub fn program_below(sought: &ServerProgram, root: &Path) -> Result<PathBuf, ServiceError> {
    let below = |path: &&str| root.join(path.trim_start_matches('/')).display().to_string();
    let files: Vec<String> = sought.files.iter().map(below).collect();
    let found = files.iter().find_map(|pattern| expand(pattern));
    found.ok_or_else(|| ServiceError::Missing { kind: sought.name, program: files.join(", "), package: sought.package })
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

#[cfg(test)]
mod tests {
    use super::{Install, said};

    #[test]
    fn a_program_that_the_superuser_starts_runs_as_its_packages_user_or_nobody_and_never_as_the_superuser() {
        let of = |user, known: &[(&str, u32)]| {
            let lookup =
                |name: &str| known.iter().find(|(known, _)| *known == name).map(|(_, number)| (*number, *number));
            Install { programs: &[], package: "p", user }.account(lookup)
        };
        let both = [("mysql", 104), ("nobody", 65_534)];
        assert_eq!(of(Some("mysql"), &both), Some((104, 104)));
        assert_eq!(of(Some("mysql"), &both[1..]), Some((65_534, 65_534)));
        assert_eq!(of(Some("mysql"), &[("mysql", 0), ("nobody", 99)]), Some((99, 99)));
        assert_eq!(of(Some("mysql"), &[("mysql", 0)]), None);
        assert_eq!((of(Some("mysql"), &[]), of(None, &[])), (None, Some((65_534, 65_534))));
    }

    #[test]
    fn the_first_error_is_shown_however_much_follows_it() {
        let log = |lines: &[&str]| said(&lines.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>());
        assert_eq!(log(&[]), "");
        assert_eq!(log(&["[Note] a", "", "[ERROR] b"]), "; its last lines:\n    [Note] a\n    [ERROR] b");
        let many = log(&["[Note] a", "[ERROR] b", "[ERROR] c", "d", "e", "f", "g", "[ERROR] h"]);
        assert_eq!(
            many,
            "; its first error:\n    [ERROR] b; its last lines:\n    d\n    e\n    f\n    g\n    [ERROR] h"
        );
        // Errors of connections, before it and after, do not end a server.
        let connections = "FATAL:  the database system is in recovery mode";
        let many = log(&["FATAL:  sorry, too many clients already", connections, "PANIC:  disk full", connections]
            .into_iter()
            .chain([connections; 5])
            .collect::<Vec<_>>());
        assert!(many.starts_with("; its first error:\n    PANIC:  disk full; its last lines:\n    FATAL: "), "{many}");
        let none = log(&[connections; 7]);
        assert!(none.starts_with("; its last lines:"), "{none}");
    }
}
