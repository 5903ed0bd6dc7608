//! Parameters that all workloads on databases share, and how an arm's are read.

use crate::database::Isolation;
use crate::engine::{Drive, Load};
use crate::external::Source;
use crate::folders::Folders;
use crate::kind::Kind as DatabaseKind;
use crate::server::{Network, Setup};
use baremark_model::arm::ResolvedArm;
use baremark_model::command::{self, ARRIVAL, DURATION, TIMEOUT, WARM_UP};
use baremark_model::descriptor::{Footprint, HeldBy};
use baremark_model::job::ServerProgram;
use baremark_model::knob::{Default, InvalidValue, Kind, Knob};
use baremark_model::metric::{Aggregate, Metric};
use baremark_model::units::{Bytes, SECOND};
use baremark_services::service::sought;

/// Which database.
pub(crate) const DATABASE: Knob = Knob::new("database", Kind::Choice(DatabaseKind::WORDS), Default::Typed("sqlite"))
    .help("database: embedded (sqlite), or a server that is started for the run");
/// Connections.
pub(crate) const CONNECTIONS: Knob = Knob::new("connections", Kind::Count { min: 1, max: 10_000 }, Default::Typed("4"))
    .help("connections, a thread each; at most one transaction at a time on each");
/// Open arrivals.
const RATE: Knob = Knob::new("rate", Kind::Count { min: 1, max: 10_000_000 }, Default::Derived("closed loop"))
    .help("open loop: transactions started per second");
/// The measured time.
const TIME: Knob =
    Knob::new(DURATION, Kind::Time { min: SECOND / 10, max: 24 * 3600 * SECOND }, Default::Typed("10 s"))
        .help("measured time of a phase");
/// The time before it.
const WARM: Knob = Knob::new(WARM_UP, Kind::Time { min: 0, max: 3600 * SECOND }, Default::Typed("2 s"))
    .help("time under load before it, not measured");
/// The time after it.
const RAMP_DOWN: Knob = Knob::new(command::RAMP_DOWN, Kind::Time { min: 0, max: 3600 * SECOND }, Default::Typed("0 s"))
    .help("time under load after it, not measured");
/// Isolation.
const ISOLATION: Knob = Knob::new("isolation", Kind::Choice(Isolation::WORDS), Default::Typed("read committed"))
    .help("isolation level of servers; sqlite is always serializable");
/// The database's cache.
const BUFFERS: Knob = Knob::new("buffers", Kind::Size { min: 8 << 20, max: 1 << 42 }, Default::Typed("256 MiB"))
    .help("page cache of the database: shared_buffers, innodb_buffer_pool_size; of each connection with sqlite");
/// Durability of a commit.
const SYNCHRONOUS_COMMIT: Knob = Knob::new("synchronous_commit", Kind::Switch, Default::Typed("true"))
    .help("answer a commit once it is on the disk; false may lose the last ones in a crash");
/// Durability of anything.
const FSYNC: Knob = Knob::new("fsync", Kind::Switch, Default::Typed("true"))
    .help("sync files to the disk; false may lose the database in a crash of the machine");
/// Huge pages.
const HUGE_PAGES: Knob = Knob::new("huge_pages", Kind::Switch, Default::Typed("false"))
    .help("keep the page cache in huge pages of the system (postgres); the server does not start without them");
/// How a server's log is synced.
const WAL_SYNC_METHOD: Knob = Knob::new(
    "wal_sync_method",
    Kind::Choice(&["fdatasync", "fsync", "open_datasync", "open_sync"]),
    Default::Derived("the server's own"),
)
.help("how the server syncs its log to the disk (postgres); read back from the server in each phase");
/// What is passed through.
const SERVER_SETTINGS: Knob = Knob::new("server_settings", Kind::Words, Default::Derived("none"))
    .help("lines of postgresql.conf or of [mariadbd], such as [\"max_parallel_workers = 0\"]");
/// CPUs of the server.
const SERVER_CPUS: Knob = Knob::new("server_cpus", Kind::Text, Default::Derived("all"))
    .help("CPUs of the server, such as \"0,2\"; the connections have those of the arm");
/// What is between clients and server.
const NETWORK: Knob = Knob::new("network", Kind::Choice(&["loopback", "lab"]), Default::Typed("loopback"))
    .help("between clients and server: the loopback, or a veth pair of the run's own (lab; needs the superuser)");
/// A server that is there already.
const URL: Knob = Knob::new("url", Kind::Text, Default::Derived("a server of the run's own")).help(
    "where the URL of an empty database on a running server is: file:PATH or env:NAME; its settings stay \
     as they are",
);
/// Where data is.
const DATA: Knob = Knob::new("data", Kind::Text, Default::Derived("the user's data folder, and /var/tmp")).help(
    "folder of loaded data, which is kept for later runs, and of running databases; it must be the user's \
     own, and no one else may write it",
);

/// Pipelining.
pub(crate) const PIPELINE: Knob = Knob::new("pipeline", Kind::Switch, Default::Typed("false")).help(
    "send statements of a transaction together where none depends on what another returns, commits apart \
     (postgres)",
);

/// The utilization at which throughput is compared.
pub(crate) const UTILIZATION: Knob =
    Knob::new("utilization", Kind::Count { min: 1, max: 100 }, Default::Derived("none")).help(
        "step connections up to their number in each phase, and interpolate throughput at this CPU \
         utilization (%)",
    );

/// Throughput there.
pub(crate) const AT_UTILIZATION: Metric = Metric::higher("tx_per_s_at_utilization", "tx/s", Aggregate::Sum).help(
    "transactions per second at the CPU utilization of the parameter utilization, interpolated between \
     steps of connections",
);
/// The utilization of the fastest step.
pub(crate) const CPU_UTILIZATION: Metric = Metric::lower("cpu_utilization", "%", Aggregate::Mean)
    .help("CPU utilization of the whole machine at the fastest step; with utilization alone");

/// How far the driver was behind.
pub(crate) const LAG: Metric = Metric::lower("lag_p99_ms", "ms", Aggregate::Most)
    .help("99th percentile of the actual minus the intended start; with rate alone");

/// What every workload says of its load, its server and its data.
pub(crate) const SHARED: &[Knob] = &[
    RATE,
    ARRIVAL,
    TIME,
    WARM,
    RAMP_DOWN,
    ISOLATION,
    BUFFERS,
    SYNCHRONOUS_COMMIT,
    FSYNC,
    HUGE_PAGES,
    WAL_SYNC_METHOD,
    SERVER_SETTINGS,
    SERVER_CPUS,
    NETWORK,
    URL,
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
    pub folders: Folders,
    /// The CPU utilization at which throughput is interpolated, in percent.
    pub utilization: Option<u64>,
}

impl Common {
    /// Reads the shared parameters of an arm, whose load has so many connections, and whose web front, if it has one, so many to the database.
    ///
    /// # Errors
    /// What cannot be together.
    pub(crate) fn of(arm: &ResolvedArm, connections: usize, front: Option<usize>) -> Result<Common, InvalidValue> {
        let setup = Setup {
            kind: DatabaseKind::of(&DATABASE.get::<String>(arm)?).unwrap_or(DatabaseKind::Sqlite),
            buffers: BUFFERS.get::<Bytes>(arm)?.0,
            synchronous_commit: SYNCHRONOUS_COMMIT.get(arm)?,
            fsync: FSYNC.get(arm)?,
            huge_pages: HUGE_PAGES.get(arm)?,
            wal_sync_method: WAL_SYNC_METHOD.find(arm)?,
            isolation: Isolation::of(&ISOLATION.get::<String>(arm)?).unwrap_or_default(),
            // Not every workload has statements that can be sent together.
            pipeline: PIPELINE.find(arm)?.unwrap_or(false),
            extra: SERVER_SETTINGS.find(arm)?.unwrap_or_default(),
            cpus: SERVER_CPUS.cpus(arm)?,
            connections,
            network: if NETWORK.get::<String>(arm)? == "lab" { Network::Lab } else { Network::Loopback },
            external: URL.find::<String>(arm)?.map(|word| source(&word)).transpose()?,
            front,
            sites: None,
        };
        if let Some(misfit) = setup.misfit() {
            return Err(misfit);
        }
        let poisson = ARRIVAL.get::<String>(arm)? == "poisson";
        let rate = RATE.find::<u64>(arm)?;
        let drive = rate.map_or(Drive::Closed, |rate| Drive::Open { rate: rate as f64, poisson });
        let (warm_up, duration, ramp_down) = (WARM.get(arm)?, TIME.get(arm)?, RAMP_DOWN.get(arm)?);
        let load = Load { drive, warm_up, duration, ramp_down, seed: 0, cpus: Vec::new() };
        let folders = DATA.absolute(arm)?.map_or_else(Folders::usual, Folders::named);
        let utilization = UTILIZATION.find(arm)?;
        if utilization.is_some() && load.drive != Drive::Closed {
            return Err(InvalidValue::new(
                "rate and utilization are set",
                "keep one of them: utilization steps a closed loop",
            ));
        }
        Ok(Common { setup, load, folders, utilization })
    }
}

/// The server that an arm on a database starts where it runs; `None` where the database is embedded, or on a server that is there already.
pub(crate) fn server_of(arm: &ResolvedArm) -> Option<ServerProgram> {
    let external = URL.find::<String>(arm).ok().flatten().is_some();
    let service = DatabaseKind::of(&DATABASE.get::<String>(arm).ok()?).filter(|_| !external)?.service()?;
    Some(sought(service, DATABASE.key, Some("database = \"sqlite\"")))
}

/// Memory that a server has while the other site has its turns: its cache, which a database that is there already or in huge pages does not add to.
pub(crate) const HELD_IN_TURNS: Footprint =
    Footprint { key: BUFFERS.key, bytes: cache_of_server, held: HeldBy::ServerInTurns };

fn cache_of_server(arm: &ResolvedArm) -> Option<u64> {
    server_of(arm)?;
    let Bytes(bytes) = BUFFERS.get(arm).ok()?;
    (!HUGE_PAGES.get::<bool>(arm).ok()?).then_some(bytes)
}

fn source(word: &str) -> Result<Source, InvalidValue> {
    // A URL with its password is not shown.
    let misfit = || {
        InvalidValue::new("url must be file:PATH or env:NAME", "write the URL into a file of mode 600 or a variable")
    };
    Source::of(word).ok_or_else(misfit)
}
