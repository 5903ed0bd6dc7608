//! Parameters that all workloads on databases share, and how an arm's are read.

use crate::database::Isolation;
use crate::engine::{Drive, Load};
use crate::server::{Kind as DatabaseKind, Setup};
use baremark_model::arm::ResolvedArm;
use baremark_model::command::{DURATION, WARM_UP};
use baremark_model::descriptor::{Better, Default, Kind, Knob, Metric, Together, Value};
use baremark_model::knob::Misfit;
use baremark_model::units::{Bytes, Nanos};
use std::path::PathBuf;
use std::time::Duration;

const SECOND: u64 = 1_000_000_000;

/// A row of a table of parameters.
pub(crate) const fn knob(key: &'static str, kind: Kind, default: Default, help: &'static str) -> Knob {
    Knob { key, kind, default, help }
}

/// A row of a table of metrics.
pub(crate) const fn metric(
    key: &'static str,
    unit: &'static str,
    better: Better,
    together: Together,
    help: &'static str,
) -> Metric {
    Metric { key, unit, better, together, help }
}

/// Which database.
pub(crate) const DATABASE: Knob = knob(
    "database",
    Kind::Choice(DatabaseKind::WORDS),
    Default::Typed("sqlite"),
    "database: embedded (sqlite), or a server that is started for the run",
);
/// Connections.
pub(crate) const CONNECTIONS: Knob = knob(
    "connections",
    Kind::Count { min: 1, max: 10_000 },
    Default::Typed("4"),
    "connections, a thread each; at most one transaction at a time on each",
);
/// Open arrivals.
pub(crate) const RATE: Knob = knob(
    "rate",
    Kind::Count { min: 1, max: 10_000_000 },
    Default::Derived("closed loop"),
    "open loop: transactions started per second",
);
/// Their gaps.
pub(crate) const ARRIVAL: Knob = knob(
    "arrival",
    Kind::Choice(&["constant", "poisson"]),
    Default::Typed("constant"),
    "inter-arrival time distribution of an open loop",
);
/// The measured time.
pub(crate) const TIME: Knob = knob(
    DURATION,
    Kind::Time { min: SECOND / 10, max: 24 * 3600 * SECOND },
    Default::Typed("10 s"),
    "measured time of a phase",
);
/// The time before it.
pub(crate) const WARM: Knob = knob(
    WARM_UP,
    Kind::Time { min: 0, max: 3600 * SECOND },
    Default::Typed("2 s"),
    "time under load before it, not measured",
);
/// Isolation.
pub(crate) const ISOLATION: Knob = knob(
    "isolation",
    Kind::Choice(Isolation::WORDS),
    Default::Typed("read committed"),
    "isolation level of servers; sqlite is always serializable",
);
/// The database's cache.
pub(crate) const BUFFERS: Knob = knob(
    "buffers",
    Kind::Size { min: 8 << 20, max: 1 << 42 },
    Default::Typed("256 MiB"),
    "page cache of the database: shared_buffers, innodb_buffer_pool_size; of each connection with sqlite",
);
/// Durability of a commit.
pub(crate) const SYNCHRONOUS_COMMIT: Knob = knob(
    "synchronous_commit",
    Kind::Switch,
    Default::Typed("true"),
    "answer a commit once it is on the disk; false may lose the last ones in a crash",
);
/// Durability of anything.
pub(crate) const FSYNC: Knob = knob(
    "fsync",
    Kind::Switch,
    Default::Typed("true"),
    "sync files to the disk; false may lose the database in a crash of the machine",
);
/// Huge pages.
pub(crate) const HUGE_PAGES: Knob = knob(
    "huge_pages",
    Kind::Switch,
    Default::Typed("false"),
    "keep the page cache in huge pages of the system (postgres); the server does not start without them",
);
/// What is passed through.
pub(crate) const SERVER_SETTINGS: Knob = knob(
    "server_settings",
    Kind::Words,
    Default::Derived("none"),
    "lines of postgresql.conf or of [mariadbd], such as [\"wal_sync_method = fdatasync\"]",
);
/// CPUs of the server.
pub(crate) const SERVER_CPUS: Knob = knob(
    "server_cpus",
    Kind::Text,
    Default::Derived("all"),
    "CPUs of the server, such as \"0,2\"; the connections have those of the arm",
);
/// Where data is.
pub(crate) const DATA: Knob = knob(
    "data",
    Kind::Text,
    Default::Derived("/var/tmp/baremark-databases"),
    "folder of loaded data, which is kept for later runs, and of running databases",
);

/// What an arm says of database and load.
pub(crate) struct Common {
    /// The database.
    pub setup: Setup,
    /// The load, without its seed and CPUs.
    pub load: Load,
    /// Where data is.
    pub root: PathBuf,
}

impl Common {
    /// Reads the shared parameters of an arm.
    ///
    /// # Errors
    /// What cannot be together.
    pub(crate) fn of(arm: &ResolvedArm) -> Result<Common, Misfit> {
        let connections = usize::try_from(count(arm, "connections").unwrap_or(1)).unwrap_or(usize::MAX);
        let setup = Setup {
            kind: DatabaseKind::of(&word(arm, "database")).unwrap_or(DatabaseKind::Sqlite),
            buffers: size(arm, "buffers"),
            synchronous_commit: switch(arm, "synchronous_commit"),
            fsync: switch(arm, "fsync"),
            huge_pages: switch(arm, "huge_pages"),
            isolation: Isolation::of(&word(arm, "isolation")).unwrap_or_default(),
            extra: words(arm, "server_settings"),
            cpus: cpus(&word(arm, "server_cpus"))?,
            connections,
        };
        if let Some(misfit) = setup.misfit() {
            return Err(misfit);
        }
        let poisson = word(arm, "arrival") == "poisson";
        let drive = count(arm, "rate").map_or(Drive::Closed, |rate| Drive::Open { rate: rate as f64, poisson });
        let load =
            Load { drive, warm_up: time(arm, WARM_UP), duration: time(arm, DURATION), seed: 0, cpus: Vec::new() };
        let root = match word(arm, "data") {
            path if path.is_empty() => PathBuf::from("/var/tmp/baremark-databases"),
            path if path.starts_with('/') => PathBuf::from(path),
            path => return Err(misfit(format!("data = \"{path}\" must be an absolute path"), "begin it with /")),
        };
        Ok(Common { setup, load, root })
    }
}

/// A refusal of a parameter.
pub(crate) fn misfit(what: impl Into<String>, remedy: impl Into<String>) -> Misfit {
    Misfit { what: what.into(), remedy: remedy.into() }
}

pub(crate) fn word(arm: &ResolvedArm, key: &str) -> String {
    match arm.parameters.get(key) {
        Some(Value::Text(text) | Value::Choice(text)) => text.clone(),
        _ => String::new(),
    }
}

pub(crate) fn count(arm: &ResolvedArm, key: &str) -> Option<u64> {
    if let Some(Value::Count(count)) = arm.parameters.get(key) { Some(*count) } else { None }
}

fn switch(arm: &ResolvedArm, key: &str) -> bool {
    matches!(arm.parameters.get(key), Some(Value::Switch(true)))
}

fn size(arm: &ResolvedArm, key: &str) -> u64 {
    if let Some(Value::SizeBytes(Bytes(bytes))) = arm.parameters.get(key) { *bytes } else { 0 }
}

pub(crate) fn time(arm: &ResolvedArm, key: &str) -> Duration {
    match arm.parameters.get(key) {
        Some(Value::TimeNs(Nanos(ns))) => Duration::from_nanos(*ns),
        _ => Duration::ZERO,
    }
}

fn words(arm: &ResolvedArm, key: &str) -> Vec<String> {
    if let Some(Value::Words(words)) = arm.parameters.get(key) { words.clone() } else { Vec::new() }
}

fn cpus(text: &str) -> Result<Vec<usize>, Misfit> {
    let number = |part: &str| part.trim().parse::<usize>().ok();
    let parts = text.split(',').filter(|part| !part.trim().is_empty());
    let cpus: Option<Vec<usize>> = parts.map(number).collect();
    cpus.ok_or_else(|| misfit(format!("server_cpus = \"{text}\" must be a list of CPUs"), "write such as \"0,2\""))
}
