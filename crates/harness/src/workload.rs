//! The auction as a workload of a study: an application with its tiers and users, measured phase by phase.
//!
//! Preparing an arm starts its tiers and loads their data; each phase brings the users, warms up, measures one window and
//! checks that no bid was lost; between phases there are no users, so that an arm that is not being measured is idle. What
//! the tiers are is said in `[topology]`, every key of which can be a factor.

use crate::cluster::{Cluster, ClusterError, Places, Surroundings as ClusterSurroundings};
use crate::conduct::{Ground, RunError, described, instance};
use crate::document::{ApplicationRow, FORMAT, Invariants, LoadRow};
use crate::fixed;
use crate::topology::{self, Application, Demand, Topology};
use crate::users::{self, BESIDE};
use baremark_load::latency::Latencies;
use baremark_load::record::Part;
use baremark_load::workload::points;
use baremark_model::arm::{ExecutorKind, ResolvedArm};
use baremark_model::command::TIMEOUT;
use baremark_model::descriptor::{Better, Default, Descriptor, Kind, Knob, Metric, OwnSection, Together, Value};
use baremark_model::job::{Job, JobError, JobRun, ReadyJob, Surroundings};
use baremark_model::knob::Misfit;
use baremark_model::problem::Problems;
use baremark_model::seam::Sample;
use baremark_model::wire::{Detail, Point};
use baremark_services::Folder;
use baremark_services::service::{ServiceError, Tier};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// The kind as typed in a study.
pub const KIND: &str = "auction";
/// The section of a study that describes the application.
pub const SECTION: &str = "topology";

const SECOND: u64 = 1_000_000_000;

const fn knob(key: &'static str, kind: Kind, default: &'static str, help: &'static str) -> Knob {
    Knob { key, kind, default: Default::Typed(default), help }
}

static PARAMETERS: [Knob; 5] = [
    knob("users", Kind::Count { min: 1, max: 10_000_000 }, "100", "simulated users, at work from the warm-up on"),
    knob("duration", Kind::Time { min: SECOND, max: 24 * 3600 * SECOND }, "20 s", "measured time of a phase"),
    knob("warm_up", Kind::Time { min: 0, max: 3600 * SECOND }, "6 s", "time under users before it, not measured"),
    knob(
        "size",
        Kind::Choice(&["quick", "full"]),
        "full",
        "data set: full as the topology says; quick has 1 % of the past and cheap password hashes",
    ),
    TIMEOUT,
];

const fn metric(key: &'static str, unit: &'static str, better: Better, help: &'static str) -> Metric {
    Metric { key, unit, better, together: Together::Mean, help }
}

static METRICS: [Metric; 16] = [
    metric(
        "operations_per_s",
        "operations/s",
        Better::Higher,
        "operations that succeeded per second, the loops that follow auctions apart",
    ),
    metric("bids_per_s", "bids/s", Better::Higher, "bids accepted per second"),
    metric("latency_p50_ms", "ms", Better::Lower, "median latency of those operations, from the intended start"),
    metric("latency_p95_ms", "ms", Better::Lower, "95th percentile of it"),
    metric("latency_p99_ms", "ms", Better::Lower, "99th percentile of it"),
    metric(
        "propagation_p95_ms",
        "ms",
        Better::Lower,
        "from the sending of a bid until an attendee sees it, 95th percentile",
    ),
    metric("limits_exceeded", "limits", Better::Lower, "quality-of-service limits exceeded in the window"),
    metric("failed", "%", Better::Lower, "operations that failed"),
    metric(
        "operations_per_app_cpu_s",
        "operations/CPU-s",
        Better::Higher,
        "operations per second of CPU time of the app tier",
    ),
    metric("cpus_balancer", "CPUs", Better::Lower, "CPU time of the balancer tier over elapsed time"),
    metric("cpus_web", "CPUs", Better::Lower, "CPU time of the web tier over elapsed time"),
    metric("cpus_app", "CPUs", Better::Lower, "CPU time of the app tier over elapsed time"),
    metric("cpus_database", "CPUs", Better::Lower, "CPU time of the database tier over elapsed time"),
    metric("cpus_bus", "CPUs", Better::Lower, "CPU time of the bus tier over elapsed time"),
    metric("users", "users", Better::Higher, "users in the window at most"),
    metric("generator_cpus", "CPUs", Better::Lower, "CPU time of the load generator over elapsed time"),
];

static DESCRIPTOR: Descriptor = Descriptor {
    kind: KIND,
    help: "a real-time auction site with its tiers, under simulated users",
    source: "this program; modelled after Weathervane 2",
    parameters: &PARAMETERS,
    metrics: &METRICS,
    footprint: None,
    executors: &[ExecutorKind::Direct],
    section: Some(OwnSection { name: SECTION, has: topology::has_key, check: topology::check_study }),
    short_phases: false,
    quick: &[("users", "40"), ("duration", "3 s"), ("warm_up", "2 s"), ("size", "quick")],
    check: |arm| resolve(arm).map(drop),
};

/// The workload `auction`.
pub struct Auction {
    /// How places other than this machine are made.
    pub places: Places,
}

/// The topology of an arm: its parameters over the shipped defaults.
fn resolve(arm: &ResolvedArm) -> Result<(Topology, Application, Demand), Misfit> {
    let misfit = |problems: Problems| {
        let first = problems.list.into_iter().next();
        let (what, remedy) = first.map_or_else(<(String, String)>::default, |problem| (problem.what, problem.remedy));
        Misfit { what, remedy }
    };
    let mut topology = topology::resolve(KIND, &lines(arm, Origin::Section), &levels(arm)).map_err(misfit)?;
    if topology.applications.len() > 1 {
        let what = format!("[{SECTION}] describes {} applications", topology.applications.len());
        let remedy = "describe one; run several with `baremark auction run`".to_owned();
        return Err(Misfit { what, remedy });
    }
    let application = topology.applications.remove(0);
    let demand = application.load.clone();
    Ok((topology, application, demand))
}

/// Where a parameter of an arm comes from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Origin {
    /// The study's own section.
    Section,
    /// A factor of the study.
    Factor,
}

/// The keys of an arm's topology as lines of TOML.
fn lines(arm: &ResolvedArm, origin: Origin) -> String {
    let line = |(key, value): (&String, &Value)| {
        let Value::Literal(text) = value else { return None };
        match (key.strip_prefix(SECTION).and_then(|key| key.strip_prefix('.')), origin) {
            (Some(key), Origin::Section) => Some(format!("{key} = {text}\n")),
            (None, Origin::Factor) => Some(format!("{key} = {text}\n")),
            _ => None,
        }
    };
    arm.parameters.iter().filter_map(line).collect()
}

/// What lies over the section: the workload's own parameters, then the factors.
fn levels(arm: &ResolvedArm) -> Vec<String> {
    let seconds = |key: &str| match arm.parameters.get(key) {
        Some(Value::TimeNs(time)) => format!("{} ms", time.0 / 1_000_000),
        _ => "0 ms".to_owned(),
    };
    let users = arm.parameters.get("users").map_or_else(|| "1".to_owned(), ToString::to_string);
    let mut levels = vec![
        lines(arm, Origin::Factor),
        format!("[load]\nusers = {users}\nduration = \"{}\"\nwarm = \"{}\"", seconds("duration"), seconds("warm_up")),
    ];
    if matches!(arm.parameters.get("size"), Some(Value::Choice(size)) if size == "quick") {
        levels.push(topology::QUICK.to_owned());
    }
    levels
}

impl Job for Auction {
    fn descriptor(&self) -> &'static Descriptor {
        &DESCRIPTOR
    }

    fn prepare<'s>(&self, arm: &'s ResolvedArm, around: Surroundings<'s>) -> Result<Box<dyn ReadyJob + 's>, JobError> {
        let (mut topology, application, demand) = resolve(arm).map_err(JobError::failed)?;
        Cluster::check(&application).map_err(refused)?;
        let program =
            std::env::current_exe().map_err(|why| JobError::failed(format!("finding this program: {why}")))?;
        let parent = std::env::temp_dir();
        let folder = Folder::create(&parent)
            .map_err(|why| JobError::failed(format!("making a folder under {}: {why}", parent.display())))?;
        let interrupt = Arc::new(AtomicBool::new(false));
        let surroundings = ClusterSurroundings {
            program: program.clone(),
            folder: folder.path().to_owned(),
            interrupt: Arc::clone(&interrupt),
            places: self.places,
            environments: Arc::new(std::mem::take(&mut topology.environments)),
        };
        let cluster = Cluster::start(application, surroundings, topology.seed, &mut |_| ()).map_err(refused)?;
        Ok(Box::new(Ready {
            cluster,
            demand,
            places: self.places,
            interrupt,
            seed: around.seed,
            runs: 0,
            _folder: folder,
        }))
    }
}

fn refused(why: ClusterError) -> JobError {
    let missing = |what: String| JobError::Missing { what, remedy: "install it, or choose another service".to_owned() };
    match why {
        ClusterError::Missing(programs) => missing(programs.join("; ")),
        ClusterError::Service(why @ ServiceError::Missing { .. }) => missing(why.to_string()),
        ClusterError::Place { tier, why } => JobError::Missing {
            what: format!("no place for the {tier} tier: {why}"),
            remedy: "choose another `on`".to_owned(),
        },
        other => JobError::failed(other),
    }
}

/// An application that runs, without users.
struct Ready {
    cluster: Cluster,
    demand: Demand,
    places: Places,
    interrupt: Arc<AtomicBool>,
    seed: u64,
    runs: u64,
    // Removed after the cluster has stopped.
    _folder: Folder,
}

impl Ready {
    /// One window under the users.
    fn window(&mut self) -> Result<(LoadRow, Part), RunError> {
        let mut ground = Ground {
            program: std::env::current_exe().unwrap_or_default(),
            folder: std::env::temp_dir(),
            interrupt: Arc::clone(&self.interrupt),
            places: self.places,
            watch: &mut |_| (),
        };
        let users = self.demand.users.unwrap_or(1);
        let seed = self.seed.wrapping_add(self.runs);
        let mut loaded = fixed::loaded(&mut self.cluster, &self.demand, users, seed, &ground)?;
        fixed::window(&mut loaded, &self.demand, users, &mut ground)
    }

    /// The application as it stands, for the trial's detail.
    fn described(&mut self, load: &LoadRow, invariants: Invariants) -> ApplicationRow {
        let mut row = described(self.cluster.plan());
        row.load = Some(LoadRow { series: Vec::new(), ..load.clone() });
        row.invariants = Some(invariants);
        row.instances = self.cluster.collect().into_iter().map(instance).collect();
        row
    }
}

impl ReadyJob for Ready {
    fn run(&mut self) -> Result<JobRun, JobError> {
        if self.runs > 0 {
            self.cluster.reset().map_err(JobError::failed)?;
        }
        let (load, part) = self.window().map_err(JobError::failed)?;
        self.runs += 1;
        if let Some(fallen) = self.cluster.fallen().first() {
            return Err(JobError::failed(fallen));
        }
        let checked = self.cluster.check_invariants().map_err(JobError::failed)?;
        if !checked.valid {
            return Err(JobError::failed(format!("the data is inconsistent after the load: {}", checked.report)));
        }
        let application = self.described(&load, Invariants { held: true, report: checked.report });
        Ok(JobRun {
            samples: samples(&load, &part),
            checked: "no bid lost, nothing sold twice, money adds up".to_owned(),
            flags: flags(&load, &application),
            points: points(&part).into_iter().chain(tiers(&load)).collect(),
            detail: detail(&application),
        })
    }
}

impl Drop for Ready {
    fn drop(&mut self) {
        self.cluster.stop();
    }
}

fn samples(load: &LoadRow, part: &Part) -> Vec<Sample> {
    let mut samples = Vec::new();
    let mut add = |metric: String, value: Option<f64>| {
        samples.extend(value.map(|value| Sample { metric, value }));
    };
    let own = || part.operations.iter().filter(|operation| !BESIDE.contains(&operation.name.as_str()));
    let mut latencies = Latencies::default();
    own().for_each(|operation| latencies.merge(&operation.corrected));
    let ms = |ns: u64| ns as f64 / 1e6;
    let failed: u64 = part.operations.iter().map(|operation| operation.failed()).sum();
    let ended: u64 = part.operations.iter().map(|operation| operation.raw.count()).sum::<u64>() + failed;
    let bids = load.operations.iter().find(|row| row.name == users::BID).map(|row| row.succeeded as f64);
    add("operations_per_s".to_owned(), Some(load.operations_per_s));
    add("bids_per_s".to_owned(), bids.map(|bids| bids / load.elapsed_s.max(1e-9)));
    for (metric, share) in [("latency_p50_ms", 0.5), ("latency_p95_ms", 0.95), ("latency_p99_ms", 0.99)] {
        add(metric.to_owned(), latencies.percentile(share).map(ms));
    }
    add("propagation_p95_ms".to_owned(), load.propagation.as_ref().and_then(|delay| delay.p95_ns).map(ms));
    add("limits_exceeded".to_owned(), Some(load.broken.len() as f64));
    add("failed".to_owned(), Some(100.0 * failed as f64 / ended.max(1) as f64));
    add("operations_per_app_cpu_s".to_owned(), load.operations_per_app_cpu_second);
    for tier in Tier::ALL {
        let label = tier.label();
        add(format!("cpus_{label}"), load.cpus_used.get(&format!("{label}.cpus")).copied());
    }
    add("users".to_owned(), Some(load.users));
    add("generator_cpus".to_owned(), Some(load.generator_cpus_used));
    samples
}

fn flags(load: &LoadRow, application: &ApplicationRow) -> Vec<String> {
    let mut flags: Vec<String> = load.broken.iter().map(|broken| format!("limit exceeded: {broken}")).collect();
    if application.instances.iter().any(|instance| instance.emulated) {
        flags.push("a tier ran on an emulated processor: its figures measure nothing".to_owned());
    }
    flags
}

/// CPU time of each tier, second by second.
fn tiers(load: &LoadRow) -> Vec<Point> {
    let mut before = 0;
    let point = |row: &crate::document::SecondRow| {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "seconds of a window")]
        let end_ns = (row.at_s * 1e9) as u64;
        let begin_ns = std::mem::replace(&mut before, end_ns);
        let cpus = |(tier, value): (&String, &f64)| Sample { metric: tier.clone(), value: *value };
        Point {
            name: "tiers".to_owned(),
            begin_ns,
            end_ns,
            samples: row.cpus_used.iter().map(cpus).collect(),
            histogram: None,
        }
    };
    load.series.iter().map(point).collect()
}

fn detail(application: &ApplicationRow) -> Option<Detail> {
    let document = serde_json::to_value(application).ok()?;
    Some(Detail { format: FORMAT.to_owned(), document })
}
