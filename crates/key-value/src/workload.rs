//! `redis`: GET and SET under load against a server that speaks Redis's protocol.

use crate::blocking::{BlockingConnection, ConnectionError};
use crate::driver;
use crate::outcome::DriveError;
use crate::parameters::{self, PARAMETERS, ServerSetup};
use crate::result::{self, ServerReport};
use crate::server::{self, KeyServer};
use crate::traffic::Traffic;
use baremark_model::arm::ResolvedArm;
use baremark_model::descriptor::{Descriptor, Footprint, HeldBy};
use baremark_model::job::{Job, JobContext, JobError, JobRun, ReadyJob, ServerProgram};
use baremark_model::metric::{Aggregate, Metric};
use baremark_networks::Pair;
use baremark_services::service::program;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

const fn latency(key: &'static str, together: Aggregate, help: &'static str) -> Metric {
    Metric::lower(key, "us", together).help(help)
}

static METRICS: [Metric; 20] = [
    Metric::higher("ops_per_s", "ops/s", Aggregate::Sum).help("GET and SET per second, without error replies"),
    latency("get_latency_p50_us", Aggregate::Mean, "median latency of GET, from the intended start with rate"),
    latency("get_latency_p90_us", Aggregate::Most, "90th percentile of it"),
    latency("get_latency_p99_us", Aggregate::Most, "99th percentile of it"),
    latency("get_latency_p99_9_us", Aggregate::Most, "99.9th percentile of it"),
    latency("get_latency_max_us", Aggregate::Most, "longest of it"),
    latency("set_latency_p50_us", Aggregate::Mean, "median latency of SET, from the intended start with rate"),
    latency("set_latency_p90_us", Aggregate::Most, "90th percentile of it"),
    latency("set_latency_p99_us", Aggregate::Most, "99th percentile of it"),
    latency("set_latency_p99_9_us", Aggregate::Most, "99.9th percentile of it"),
    latency("set_latency_max_us", Aggregate::Most, "longest of it"),
    Metric::higher("hit_rate", "%", Aggregate::Mean).help("GET that found their key"),
    Metric::lower("errors", "%", Aggregate::Mean).help("commands with an error reply; above 1 % no trial counts"),
    latency("server_cpu_us_per_op", Aggregate::Mean, "CPU time of the server's threads per command"),
    latency("driver_cpu_us_per_op", Aggregate::Mean, "CPU time of the driver's threads per command"),
    Metric::lower("server_cpus", "CPUs", Aggregate::Sum).help("CPUs that the server kept busy"),
    Metric::lower("driver_cpus", "CPUs", Aggregate::Sum).help("CPUs that the driver kept busy"),
    Metric::lower("server_memory", "MiB", Aggregate::Sum)
        .help("memory that the server has allocated (INFO used_memory)"),
    Metric::lower("server_resident_memory", "MiB", Aggregate::Sum)
        .help("memory of the server that is resident (INFO used_memory_rss)"),
    latency("lag_p99_us", Aggregate::Most, "99th percentile of the actual minus the intended start; with rate alone"),
];

static DESCRIPTOR: Descriptor = Descriptor {
    kind: "redis",
    help: "GET and SET under load against redis-server or valkey-server: throughput, latency by command, CPU time and memory",
    source: "this program",
    parameters: &PARAMETERS,
    metrics: &METRICS,
    footprint: Some(Footprint { key: parameters::FOOTPRINT, bytes: parameters::footprint, held: HeldBy::Workload }),
    // What is appended to a file, and its removal, the kernel writes when the other site has its turns.
    alternates: |arm| parameters::read(arm).is_ok_and(|(setup, _)| !setup.writes_files()),
    quick: &[("duration", "1 s"), ("warm_up", "200 ms")],
    check: |arm| parameters::read(arm).map(drop),
    stops_on_interrupt: true,
    ..Descriptor::JOB
};

/// The workload `redis`.
#[derive(Clone, Copy, Debug)]
pub struct KeyValue;

impl Job for KeyValue {
    fn descriptor(&self) -> &'static Descriptor {
        &DESCRIPTOR
    }

    fn server(&self, arm: &ResolvedArm) -> Option<ServerProgram> {
        parameters::server_of(arm)
    }

    fn prepare<'s>(&self, arm: &'s ResolvedArm, around: JobContext<'s>) -> Result<Box<dyn ReadyJob + 's>, JobError> {
        let (setup, mut traffic) = parameters::read(arm)?;
        program(setup.service)?;
        traffic.cpus = around.cpus.to_vec();
        let pair = server::pair(&setup)?;
        let (interrupt, seed) = (Arc::clone(around.interrupt), around.seed);
        Ok(Box::new(RedisPhases { setup, traffic, seed, phase: 0, pair, interrupt }))
    }
}

/// Its phases, each with a server of its own, so that nothing runs between them.
struct RedisPhases {
    setup: ServerSetup,
    traffic: Traffic,
    seed: u64,
    phase: u64,
    pair: Option<Arc<Pair>>,
    interrupt: Arc<AtomicBool>,
}

impl RedisPhases {
    fn is_interrupted(&self) -> bool {
        self.interrupt.load(Ordering::Acquire)
    }

    fn start(&self) -> Result<KeyServer, JobError> {
        let started = KeyServer::start(&self.setup, self.pair.as_ref(), &self.interrupt);
        started.map_err(|why| if self.is_interrupted() { JobError::Interrupted } else { why })
    }

    /// What failed, and why the server is gone where that is why.
    fn failed(&self, what: &str, server: &mut KeyServer) -> JobError {
        if self.is_interrupted() {
            return JobError::Interrupted;
        }
        let ended = server.ended().map(|ended| format!("; {ended}"));
        JobError::failed(format!("{what}{}", ended.unwrap_or_default()))
    }

    fn load(&mut self, server: &mut KeyServer, begun: Instant) -> Result<JobRun, LoadFailure> {
        let (reach, in_memory) = (server.reach(), server.is_in_memory());
        let mut control = reach.connect()?;
        let before = control.info("commandstats")?;
        let before_ns = u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let meter = &mut || server.cpu_ns();
        let outcome = driver::run(&self.traffic, &|| reach.connect(), meter, &self.interrupt)?;
        let after = control.info("commandstats")?;
        let counted = ["get", "set"].map(|name| after.commands(name).saturating_sub(before.commands(name)));
        let of_server = ServerReport { counted, ..about(&mut control)? };
        if outcome.answered() == 0 {
            return Err(LoadFailure::Nothing(outcome.first_error));
        }
        Ok(JobRun {
            samples: result::samples(&outcome, &of_server),
            checked: result::checked(&outcome, &of_server),
            flags: result::flags(&outcome, &self.setup, &self.traffic, in_memory),
            void: result::void(&outcome, &of_server),
            points: result::points(&outcome, before_ns),
            detail: Some(result::detail(&outcome, &self.setup, &self.traffic, &of_server)),
        })
    }
}

impl ReadyJob for RedisPhases {
    fn run(&mut self) -> Result<JobRun, JobError> {
        let begun = Instant::now();
        self.phase += 1;
        self.traffic.seed = self.seed.wrapping_add(self.phase << 32);
        let mut server = self.start()?;
        let run = self.load(&mut server, begun).map_err(|why| self.failed(&why.to_string(), &mut server))?;
        server.stop();
        Ok(run)
    }
}

/// Why a load has no result.
#[derive(Debug, thiserror::Error)]
enum LoadFailure {
    #[error(transparent)]
    Drive(#[from] DriveError),
    #[error("asking the server about itself: {0}")]
    Control(#[from] ConnectionError),
    #[error("no command ended in the measured time{}", .0.as_ref().map(|first| format!("; the server replied {first}")).unwrap_or_default())]
    Nothing(Option<String>),
}

/// What the server says of itself, but for its counts; a value that it does not say is left out.
fn about(control: &mut BlockingConnection) -> Result<ServerReport, ConnectionError> {
    let (program, memory) = (control.info("server")?, control.info("memory")?);
    let version = program.text("valkey_version").or_else(|| program.text("redis_version"));
    Ok(ServerReport {
        version: version.unwrap_or("of an unknown version").to_owned(),
        counted: [0; 2],
        memory: ["used_memory", "used_memory_rss"].map(|name| memory.number(name)),
    })
}
