//! Parameters that all workloads on databases share, and how an arm's are read.

use crate::database::Isolation;
use crate::engine::{Drive, Load};
use crate::server::{Kind as DatabaseKind, Setup};
use baremark_model::arm::ResolvedArm;
use baremark_model::command::{ARRIVAL, DURATION, TIMEOUT, WARM_UP};
use baremark_model::descriptor::{Better, Default, Kind, Knob, Metric, Together};
use baremark_model::knob::Misfit;
use baremark_model::units::Bytes;
use std::path::PathBuf;

const SECOND: u64 = 1_000_000_000;
/// Where data is if the study does not say it.
const USUAL_DATA: &str = "/var/tmp/baremark-databases";

/// Which database.
pub(crate) const DATABASE: Knob = Knob::new(
    "database",
    Kind::Choice(DatabaseKind::WORDS),
    Default::Typed("sqlite"),
    "database: embedded (sqlite), or a server that is started for the run",
);
/// Connections.
pub(crate) const CONNECTIONS: Knob = Knob::new(
    "connections",
    Kind::Count { min: 1, max: 10_000 },
    Default::Typed("4"),
    "connections, a thread each; at most one transaction at a time on each",
);
/// Open arrivals.
const RATE: Knob = Knob::new(
    "rate",
    Kind::Count { min: 1, max: 10_000_000 },
    Default::Derived("closed loop"),
    "open loop: transactions started per second",
);
/// The measured time.
const TIME: Knob = Knob::new(
    DURATION,
    Kind::Time { min: SECOND / 10, max: 24 * 3600 * SECOND },
    Default::Typed("10 s"),
    "measured time of a phase",
);
/// The time before it.
const WARM: Knob = Knob::new(
    WARM_UP,
    Kind::Time { min: 0, max: 3600 * SECOND },
    Default::Typed("2 s"),
    "time under load before it, not measured",
);
/// Isolation.
const ISOLATION: Knob = Knob::new(
    "isolation",
    Kind::Choice(Isolation::WORDS),
    Default::Typed("read committed"),
    "isolation level of servers; sqlite is always serializable",
);
/// The database's cache.
const BUFFERS: Knob = Knob::new(
    "buffers",
    Kind::Size { min: 8 << 20, max: 1 << 42 },
    Default::Typed("256 MiB"),
    "page cache of the database: shared_buffers, innodb_buffer_pool_size; of each connection with sqlite",
);
/// Durability of a commit.
const SYNCHRONOUS_COMMIT: Knob = Knob::new(
    "synchronous_commit",
    Kind::Switch,
    Default::Typed("true"),
    "answer a commit once it is on the disk; false may lose the last ones in a crash",
);
/// Durability of anything.
const FSYNC: Knob = Knob::new(
    "fsync",
    Kind::Switch,
    Default::Typed("true"),
    "sync files to the disk; false may lose the database in a crash of the machine",
);
/// Huge pages.
const HUGE_PAGES: Knob = Knob::new(
    "huge_pages",
    Kind::Switch,
    Default::Typed("false"),
    "keep the page cache in huge pages of the system (postgres); the server does not start without them",
);
/// What is passed through.
const SERVER_SETTINGS: Knob = Knob::new(
    "server_settings",
    Kind::Words,
    Default::Derived("none"),
    "lines of postgresql.conf or of [mariadbd], such as [\"wal_sync_method = fdatasync\"]",
);
/// CPUs of the server.
const SERVER_CPUS: Knob = Knob::new(
    "server_cpus",
    Kind::Text,
    Default::Derived("all"),
    "CPUs of the server, such as \"0,2\"; the connections have those of the arm",
);
/// Where data is.
const DATA: Knob = Knob::new(
    "data",
    Kind::Text,
    Default::Derived(USUAL_DATA),
    "folder of loaded data, which is kept for later runs, and of running databases",
);

/// The utilization at which throughput is compared.
pub(crate) const UTILIZATION: Knob = Knob::new(
    "utilization",
    Kind::Count { min: 1, max: 100 },
    Default::Derived("none"),
    "step connections up to their number in each phase, and interpolate throughput at this CPU utilization (%)",
);

/// Throughput there.
pub(crate) const AT_UTILIZATION: Metric = Metric::new(
    "tx_per_s_at_utilization",
    "tx/s",
    Better::Higher,
    Together::Sum,
    "transactions per second at the CPU utilization of the parameter utilization, interpolated between steps of connections",
);
/// The utilization of the fastest step.
pub(crate) const CPU_UTILIZATION: Metric = Metric::new(
    "cpu_utilization",
    "%",
    Better::Lower,
    Together::Mean,
    "CPU utilization of the whole machine at the fastest step; with utilization alone",
);

/// What every workload says of its load, its server and its data.
pub(crate) const SHARED: &[Knob] = &[
    RATE,
    ARRIVAL,
    TIME,
    WARM,
    ISOLATION,
    BUFFERS,
    SYNCHRONOUS_COMMIT,
    FSYNC,
    HUGE_PAGES,
    SERVER_SETTINGS,
    SERVER_CPUS,
    DATA,
    TIMEOUT,
];

/// What an arm says of database and load.
pub(crate) struct Common {
    /// The database.
    pub setup: Setup,
    /// The load, without its seed and CPUs.
    pub load: Load,
    /// Where data is.
    pub root: PathBuf,
    /// The CPU utilization at which throughput is interpolated, in percent.
    pub utilization: Option<u64>,
}

impl Common {
    /// Reads the shared parameters of an arm, whose load has so many connections.
    ///
    /// # Errors
    /// What cannot be together.
    pub(crate) fn of(arm: &ResolvedArm, connections: usize) -> Result<Common, Misfit> {
        let setup = Setup {
            kind: DatabaseKind::of(&DATABASE.get::<String>(arm)?).unwrap_or(DatabaseKind::Sqlite),
            buffers: BUFFERS.get::<Bytes>(arm)?.0,
            synchronous_commit: SYNCHRONOUS_COMMIT.get(arm)?,
            fsync: FSYNC.get(arm)?,
            huge_pages: HUGE_PAGES.get(arm)?,
            isolation: Isolation::of(&ISOLATION.get::<String>(arm)?).unwrap_or_default(),
            extra: SERVER_SETTINGS.find(arm)?.unwrap_or_default(),
            cpus: cpus(&SERVER_CPUS.find::<String>(arm)?.unwrap_or_default())?,
            connections,
        };
        if let Some(misfit) = setup.misfit() {
            return Err(misfit);
        }
        let poisson = ARRIVAL.get::<String>(arm)? == "poisson";
        let rate = RATE.find::<u64>(arm)?;
        let drive = rate.map_or(Drive::Closed, |rate| Drive::Open { rate: rate as f64, poisson });
        let load = Load { drive, warm_up: WARM.get(arm)?, duration: TIME.get(arm)?, seed: 0, cpus: Vec::new() };
        let root = match DATA.find::<PathBuf>(arm)? {
            None => PathBuf::from(USUAL_DATA),
            Some(path) if path.is_absolute() => path,
            Some(path) => {
                let what = format!("data: {} must be an absolute path", path.display());
                return Err(Misfit::new(what, "begin it with /"));
            }
        };
        let utilization = UTILIZATION.find(arm)?;
        if utilization.is_some() && load.drive != Drive::Closed {
            return Err(Misfit::new(
                "rate and utilization are set",
                "keep one of them: utilization steps a closed loop",
            ));
        }
        Ok(Common { setup, load, root, utilization })
    }
}

fn cpus(text: &str) -> Result<Vec<usize>, Misfit> {
    let number = |part: &str| part.trim().parse::<usize>().ok();
    let parts = text.split(',').filter(|part| !part.trim().is_empty());
    let cpus: Option<Vec<usize>> = parts.map(number).collect();
    cpus.ok_or_else(|| Misfit::new(format!("server_cpus = \"{text}\" must be a list of CPUs"), "write such as \"0,2\""))
}
