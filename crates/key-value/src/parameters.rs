//! Parameters of the workload `redis`, and how an arm's are read.

use crate::traffic::{Drive, Traffic};
use crate::values::SHORTEST;
use baremark_model::arm::ResolvedArm;
use baremark_model::command::{self, ARRIVAL, DURATION, TIMEOUT, WARM_UP};
use baremark_model::job::ServerProgram;
use baremark_model::knob::{Default, InvalidValue, Kind, Knob};
use baremark_model::units::{Bytes, SECOND, Share};
use baremark_services::redis::{REDIS, Redis, VALKEY};
use baremark_services::service::{Service as _, sought};
use std::path::PathBuf;

/// Memory of the server for a key and its value, in addition to the value's bytes, about.
const PER_KEY: u64 = 120;
/// Memory of the driver for a key.
const PER_KEY_HERE: u64 = 40;

const SERVER: Knob = Knob::new("server", Kind::Choice(&["redis", "valkey"]), Default::Typed("redis"))
    .help("server program: redis-server or valkey-server, started for each phase");
const KEYS: Knob =
    Knob::new("keys", Kind::Count { min: 1, max: 100_000_000 }, Default::Typed("100000")).help("keys that are used");
const VALUE: Knob = Knob::new("value", Kind::Size { min: SHORTEST as u64, max: 16 << 20 }, Default::Typed("100 B"))
    .help("bytes of a value, of which the first 24 hold key, version and checksum");
const DISTRIBUTION: Knob = Knob::new("distribution", Kind::Choice(&["uniform", "zipf"]), Default::Typed("uniform"))
    .help("keys of commands: all as likely, or by Zipf's law");
const EXPONENT: Knob = Knob::new("exponent", Kind::Text, Default::Typed("0.99")).help("exponent of zipf, above 0");
const READ_SHARE: Knob = Knob::new("read_share", Kind::Percent { min: 0.0, max: 1.0 }, Default::Typed("90 %"))
    .help("share of GET; the others are SET");
const LOADED: Knob = Knob::new("loaded", Kind::Percent { min: 0.0, max: 1.0 }, Default::Typed("100 %"))
    .help("share of keys that are set before the load; a GET of one that is not set is a miss");
const CONNECTIONS: Knob =
    Knob::new("connections", Kind::Count { min: 1, max: 10_000 }, Default::Typed("50")).help("connections");
const PIPELINE: Knob = Knob::new("pipeline", Kind::Count { min: 1, max: 10_000 }, Default::Typed("1"))
    .help("commands under way on a connection, at most");
const DRIVER_THREADS: Knob = Knob::new("driver_threads", Kind::Count { min: 1, max: 256 }, Default::Typed("1"))
    .help("threads of the driver; each has its share of connections and of keys");
const IO_THREADS: Knob = Knob::new("io_threads", Kind::Count { min: 1, max: 128 }, Default::Typed("1"))
    .help("threads with which the server writes to its connections (io-threads)");
const PERSISTENCE: Knob =
    Knob::new("persistence", Kind::Choice(&["none", "everysec", "always"]), Default::Typed("none"))
        .help("append-only file of the server: none, synced every second, or before each reply (appendfsync)");
const RATE: Knob = Knob::new("rate", Kind::Count { min: 1, max: 100_000_000 }, Default::Derived("closed loop"))
    .help("open loop: commands started per second");
const TIME: Knob =
    Knob::new(DURATION, Kind::Time { min: SECOND / 10, max: 24 * 3600 * SECOND }, Default::Typed("10 s"))
        .help("measured time of a phase");
const WARM: Knob = Knob::new(WARM_UP, Kind::Time { min: 0, max: 3600 * SECOND }, Default::Typed("1 s"))
    .help("time under load before it, not measured");
const SERVER_SETTINGS: Knob = Knob::new("server_settings", Kind::Words, Default::Derived("none"))
    .help("lines of redis.conf, such as [\"io-threads-do-reads yes\"]");
const SERVER_CPUS: Knob = Knob::new("server_cpus", Kind::Text, Default::Derived("all"))
    .help("CPUs of the server, such as \"0,2\"; the driver has those of the arm");
const NETWORK: Knob = Knob::new("network", Kind::Choice(&["loopback", "lab"]), Default::Typed("loopback"))
    .help("between driver and server: the loopback, or a veth pair of the run's own (lab; needs the superuser)");
const DATA: Knob = Knob::new("data", Kind::Text, Default::Derived("/var/tmp, or the folder for temporary files")).help(
    "folder in which the server has a private one of its own, with its append-only file; removed with the \
     run",
);

pub(crate) static PARAMETERS: [Knob; 21] = [
    SERVER,
    KEYS,
    VALUE,
    DISTRIBUTION,
    EXPONENT,
    READ_SHARE,
    LOADED,
    CONNECTIONS,
    PIPELINE,
    DRIVER_THREADS,
    IO_THREADS,
    PERSISTENCE,
    RATE,
    ARRIVAL,
    TIME,
    WARM,
    SERVER_SETTINGS,
    SERVER_CPUS,
    NETWORK,
    DATA,
    TIMEOUT,
];

/// What an arm says of its server.
#[derive(Clone)]
pub(crate) struct ServerSetup {
    pub(crate) service: &'static Redis,
    pub(crate) io_threads: u64,
    /// `none`, or the word of `appendfsync`.
    pub(crate) persistence: String,
    /// Lines of its configuration, as they are.
    pub(crate) extra: Vec<String>,
    /// Empty leaves it all.
    pub(crate) cpus: Vec<usize>,
    /// Whether driver and server have namespaces of their own.
    pub(crate) lab_network: bool,
    /// Where it has its folder; `None` for the first of [`folders`] that can be written.
    pub(crate) data: Option<PathBuf>,
    pub(crate) connections: u64,
    /// The most that it may take for keys, values and connections, in bytes.
    pub(crate) memory: u64,
}

impl ServerSetup {
    /// The server's name.
    pub(crate) fn name(&self) -> &'static str {
        self.service.kind()
    }

    /// Whether the server writes to its folder: by the parameter, or by a line of its configuration.
    pub(crate) fn writes_files(&self) -> bool {
        let writes = |line: &String| {
            let word = line.split_whitespace().next().unwrap_or_default();
            ["appendonly", "save"].iter().any(|setting| word.eq_ignore_ascii_case(setting))
        };
        self.persistence != "none" || self.extra.iter().any(writes)
    }
}

fn service(arm: &ResolvedArm) -> Result<&'static Redis, InvalidValue> {
    let word = SERVER.get::<String>(arm)?;
    Ok([&REDIS, &VALKEY].into_iter().find(|service| service.kind() == word).unwrap_or(&REDIS))
}

/// The server that an arm starts.
pub(crate) fn server_of(arm: &ResolvedArm) -> Option<ServerProgram> {
    Some(sought(service(arm).ok()?, SERVER.key, None))
}

/// Memory that server and driver take for keys and values, about; `None` of an arm that cannot be.
pub(crate) fn footprint(arm: &ResolvedArm) -> Option<u64> {
    let (keys, value) = (KEYS.get::<u64>(arm).ok()?, VALUE.get::<Bytes>(arm).ok()?.0);
    Some(keys * (value + PER_KEY + PER_KEY_HERE))
}

/// The key of the parameter that decides it.
pub(crate) const FOOTPRINT: &str = KEYS.key;

/// What an arm says of server and load; the load is without its seed and CPUs.
///
/// # Errors
/// What cannot be together.
pub(crate) fn read(arm: &ResolvedArm) -> Result<(ServerSetup, Traffic), InvalidValue> {
    command::fits_timeout(arm)?;
    let (keys, value): (u64, Bytes) = (KEYS.get(arm)?, VALUE.get(arm)?);
    let (connections, pipeline): (u64, u64) = (CONNECTIONS.get(arm)?, PIPELINE.get(arm)?);
    let threads = DRIVER_THREADS.get::<u64>(arm)?;
    if threads > connections.min(keys) {
        let what = format!("driver_threads = {threads} with {connections} connections and {keys} keys");
        return Err(InvalidValue::new(what, "each thread needs a connection and a key of its own"));
    }
    let rate = RATE.find::<u64>(arm)?;
    let poisson = ARRIVAL.get::<String>(arm)? == "poisson";
    let size = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    let traffic = Traffic {
        keys,
        exponent: exponent(arm)?,
        value_bytes: size(value.0),
        read_share: READ_SHARE.get::<Share>(arm)?.0,
        loaded_share: LOADED.get::<Share>(arm)?.0,
        connections: size(connections),
        pipeline: size(pipeline),
        threads: size(threads),
        drive: rate.map_or(Drive::Closed, |rate| Drive::Open { rate: rate as f64, poisson }),
        warm_up: WARM.get(arm)?,
        duration: TIME.get(arm)?,
        seed: 0,
        cpus: Vec::new(),
    };
    // Values under way are in the connections' buffers, at both ends of a pipeline.
    let buffers = connections.saturating_mul(pipeline).saturating_mul(2 * value.0 + 256);
    let setup = ServerSetup {
        service: service(arm)?,
        io_threads: IO_THREADS.get(arm)?,
        persistence: PERSISTENCE.get(arm)?,
        extra: SERVER_SETTINGS.find(arm)?.unwrap_or_default(),
        cpus: SERVER_CPUS.cpus(arm)?,
        lab_network: NETWORK.get::<String>(arm)? == "lab",
        data: DATA.absolute(arm)?,
        connections,
        memory: (keys * (value.0 + PER_KEY) * 2).saturating_add(buffers).saturating_add(256 << 20),
    };
    Ok((setup, traffic))
}

fn exponent(arm: &ResolvedArm) -> Result<Option<f64>, InvalidValue> {
    if DISTRIBUTION.get::<String>(arm)? != "zipf" {
        return Ok(None);
    }
    let text = EXPONENT.get::<String>(arm)?;
    match text.parse::<f64>() {
        Ok(exponent) if exponent > 0.0 && exponent <= 10.0 => Ok(Some(exponent)),
        _ => Err(InvalidValue::new(
            format!("exponent = \"{text}\" is not a number above 0, and at most 10"),
            "write such as \"0.99\"",
        )),
    }
}
