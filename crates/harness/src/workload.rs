//! The auction as a workload of a study: an application with its tiers and users, measured phase by phase.
//!
//! Preparing an arm starts its tiers and loads their data; each phase brings the users, warms up, measures one window and
//! checks that no bid was lost; between phases there are no users, so that an arm that is not being measured is idle. What
//! the tiers are is said in `[topology]`, every key of which can be a factor.

use crate::cluster::{Cluster, ClusterError, Places, Surroundings as ClusterSurroundings, Wanted};
use crate::conduct::{Event, Ground, RunError, described, instance};
use crate::document::{ApplicationRow, FORMAT, Invariants, LoadRow};
use crate::elastic::Wrong;
use crate::fixed;
use crate::layers::{Layer, Reader, Section};
use crate::topology::{self, Application, Demand, On, TierPlan, Topology};
use crate::users::{self, BESIDE};
use baremark_load::latency::Latencies;
use baremark_load::record::Part;
use baremark_load::workload::{FAILED_OPERATIONS, points};
use baremark_model::arm::{ExecutorKind, ResolvedArm};
use baremark_model::command::{self, DURATION, TIMEOUT, WARM_UP};
use baremark_model::descriptor::{Better, Default, Descriptor, Kind, Knob, Metric, OwnSection, Together, Value};
use baremark_model::job::{Job, JobError, JobRun, ReadyJob, Surroundings};
use baremark_model::knob::Misfit;
use baremark_model::problem::Problem;
use baremark_model::seam::Sample;
use baremark_model::units::Share;
use baremark_model::wire::{Detail, Point};
use baremark_services::Folder;
use baremark_services::service::{ServiceError, Tier, program};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The kind as typed in a study.
pub const KIND: &str = "auction";
/// The section of a study that describes the application.
pub const SECTION: &str = "topology";

const SECOND: u64 = 1_000_000_000;

const fn knob(key: &'static str, kind: Kind, default: &'static str, help: &'static str) -> Knob {
    Knob { key, kind, default: Default::Typed(default), help }
}

static PARAMETERS: [Knob; 6] = [
    knob("users", Kind::Count { min: 1, max: 10_000_000 }, "100", "simulated users, at work from the warm-up on"),
    knob(DURATION, Kind::Time { min: SECOND / 10, max: 24 * 3600 * SECOND }, "20 s", "measured time of a phase"),
    knob(WARM_UP, Kind::Time { min: 0, max: 3600 * SECOND }, "6 s", "time under users before it, not measured"),
    knob(
        "size",
        Kind::Choice(&["quick", "full"]),
        "full",
        "data set: full as the topology says; quick has 1 % of the past and cheap password hashes",
    ),
    knob(
        "error_limit",
        Kind::Percent { min: 0.0, max: 1.0 },
        "1 %",
        "share of failed operations above which the phase is no result",
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
    short_phases: false,
    section: Some(OwnSection { name: SECTION, has: has_key, check: check_section, check_arm, needs, help: HELP }),
    quick: &[("users", "40"), ("duration", "3 s"), ("warm_up", "2 s"), ("size", "quick")],
    check: command::fits_timeout,
};

const HELP: &str = "the application: every key of studies/auction/defaults.toml, in sections below it such as \
                    `[topology.database]`; a key can be varied in `[factors]` under its path, such as `\"app.count\" = [1, 2]`";

const SEARCH: &str = "take it out: a study has a fixed number of users; `baremark auction run` searches for the most";

/// Keys of a topology file that mean nothing in a study, or that a study has elsewhere: section, key, remedy.
const NOT_IN_STUDIES: &[(&str, &str, &str)] = &[
    ("", "topology", "write its keys in [topology] itself"),
    ("", "study", "write what differs as levels in [factors]"),
    ("", "instances", "describe one application; `baremark auction run` runs several"),
    ("load", "users", "write users in [workload] or [factors]"),
    ("load", "duration", "write duration in [workload] or [factors]"),
    ("load", "warm", "write warm_up in [workload] or [factors]"),
    ("load", "lowest", SEARCH),
    ("load", "first", SEARCH),
    ("load", "highest", SEARCH),
    ("load", "finest", SEARCH),
    ("load", "window", SEARCH),
    ("load", "settle", SEARCH),
    ("load", "visits", SEARCH),
    ("load", "windows", SEARCH),
    ("load", "trials", SEARCH),
    ("load", "verify", SEARCH),
    ("load", "budget", "write budget in [design]"),
];

/// Whether a key of the topology can be a factor.
fn has_key(key: &str) -> bool {
    let top = key.split('.').next().unwrap_or_default();
    let elsewhere = |(section, name, _): &(&str, &str, &str)| match *section {
        "" => *name == top,
        section => key.strip_prefix(section).and_then(|rest| rest.strip_prefix('.')) == Some(name),
    };
    topology::has_key(key) && !NOT_IN_STUDIES.iter().any(elsewhere)
}

/// Every mistake in the section of a study.
fn check_section(file: &str, text: &str) -> Vec<Problem> {
    let mut problems = topology::check_study(file, text);
    let Ok(layer) = Layer::parse(file, text) else { return problems };
    let mut reader = Reader::default();
    let own = reader.section(&Section::root(&[&layer]), SECTION);
    let load = if own.has("load") { reader.section(&own, "load") } else { Section::root(&[]) };
    for (section, key, remedy) in NOT_IN_STUDIES {
        let (at, path) = match *section {
            "" => (&own, SECTION.to_owned()),
            section => (&load, format!("{SECTION}.{section}")),
        };
        if at.has(key) {
            reader.wrong(at, key, format!("[{path}] has no '{key}' in a study"), *remedy);
        }
    }
    problems.extend(reader.into_problems().into_iter().map(|(_, problem)| problem));
    problems
}

/// Every mistake that an arm makes of the section, with the parameter at fault.
fn check_arm(arm: &ResolvedArm) -> Vec<(String, Misfit)> {
    let application = match resolve(arm) {
        Ok(resolved) => resolved.application,
        Err(misfits) => return misfits,
    };
    let demand = &application.load;
    let mut misfits = Vec::new();
    let users = demand.users.unwrap_or(1);
    match fixed::highest(demand, users) {
        Err(why) => misfits.push((
            "load.profile".to_owned(),
            Misfit {
                what: format!("load.profile = '{}': {why}", demand.profile),
                remedy: "write such as \"burst base=20 peak=80 every=10s lasting=3s\", or leave it out".to_owned(),
            },
        )),
        Ok(highest) if highest > application.max_users => misfits.push((
            "users".to_owned(),
            Misfit {
                what: format!("{highest} users, and data for {} (max_users)", application.max_users),
                remedy: format!("write fewer users, or max_users = {highest} or more in [{SECTION}]"),
            },
        )),
        Ok(_) => {}
    }
    misfits
}

/// What the tiers of an arm need of this machine, by name: places other than native, and programs of other people.
fn needs(arm: &ResolvedArm) -> Vec<String> {
    let Ok(resolved) = resolve(arm) else { return Vec::new() };
    let tiers = resolved.application.tiers.values();
    tiers.map(|tier| need(tier, &resolved.topology)).collect()
}

fn need(tier: &TierPlan, topology: &Topology) -> String {
    match &tier.on {
        On::Native => format!("{SECTION}: {}", tier.service.kind()),
        on => format!("{SECTION}: {on} {:?}", topology.environments),
    }
}

/// What this machine has of what an arm needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// It is there.
    Here,
    /// It is there, on an emulated processor.
    Emulated,
    /// It is not, for this reason, with the remedy.
    Absent(String),
}

/// Looks on this machine for what an arm needs: each name of [`OwnSection::needs`] with what was found.
pub fn look_for(arm: &ResolvedArm, places: Places, own: &Path, interrupt: &AtomicBool) -> BTreeMap<String, Found> {
    let Ok(resolved) = resolve(arm) else { return BTreeMap::new() };
    let topology = &resolved.topology;
    let mut found = BTreeMap::new();
    for (tier, plan) in &resolved.application.tiers {
        let what = match &plan.on {
            On::Native if plan.service.kind() == APP_SERVER => Found::Here,
            On::Native => program(plan.service).map_or_else(|why| Found::Absent(why.to_string()), |_| Found::Here),
            on => {
                let wanted = Wanted {
                    on,
                    own: *tier == Tier::App,
                    program: own,
                    limits: &plan.limits,
                    environments: &topology.environments,
                    interrupt,
                };
                match places(&wanted) {
                    Err(why) => Found::Absent(format!("no place {on} for the {} tier: {why}", tier.label())),
                    Ok(place) if place.emulated() => Found::Emulated,
                    Ok(_) => Found::Here,
                }
            }
        };
        found.insert(need(plan, topology), what);
    }
    found
}

/// The service that this program is itself.
const APP_SERVER: &str = "auction";

/// The table of the workload `auction`.
#[must_use]
pub fn descriptor() -> &'static Descriptor {
    &DESCRIPTOR
}

/// The workload `auction`.
pub struct Auction {
    /// How places other than this machine are made.
    pub places: Places,
}

/// The application of an arm, and what all applications of a topology share.
struct Resolved {
    topology: Topology,
    application: Application,
}

/// The topology of an arm: its parameters over the shipped defaults; else every mistake, with the parameter at fault.
fn resolve(arm: &ResolvedArm) -> Result<Resolved, Vec<(String, Misfit)>> {
    let (section, factors) = (lines(arm, Origin::Section), lines(arm, Origin::Factor));
    let text: String = section.iter().map(|(_, line)| line.as_str()).collect();
    let mut levels: Vec<String> = factors.iter().map(|(_, line)| line.clone()).collect();
    levels.extend(own_levels(arm));
    let fault = |(file, problem): (String, Problem)| {
        let typed = section.get(problem.line.saturating_sub(1)).filter(|_| file == KIND && problem.line > 0);
        let key = typed
            .or_else(|| factors.iter().find(|(_, line)| format!("'{}'", line.trim_end()) == file))
            .map(|(key, _)| key.clone());
        (key.unwrap_or_default(), Misfit { what: problem.what, remedy: problem.remedy })
    };
    let resolved = topology::resolve_levels(KIND, &text, &levels);
    let mut topology = resolved.map_err(|all| all.into_iter().map(fault).collect::<Vec<_>>())?;
    let application = topology.applications.remove(0);
    Ok(Resolved { topology, application })
}

/// Where a parameter of an arm comes from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Origin {
    /// The study's own section.
    Section,
    /// A factor of the study.
    Factor,
}

/// The keys of an arm's topology, each with its line of TOML.
fn lines(arm: &ResolvedArm, origin: Origin) -> Vec<(String, String)> {
    let line = |(key, value): (&String, &Value)| {
        let Value::Literal(text) = value else { return None };
        match (key.strip_prefix(SECTION).and_then(|key| key.strip_prefix('.')), origin) {
            (Some(path), Origin::Section) => Some((key.clone(), format!("{path} = {text}\n"))),
            (None, Origin::Factor) => Some((key.clone(), format!("{key} = {text}\n"))),
            _ => None,
        }
    };
    arm.parameters.iter().filter_map(line).collect()
}

/// What lies over the section beside factors: the workload's own parameters.
fn own_levels(arm: &ResolvedArm) -> Vec<String> {
    let seconds = |key: &str| match arm.parameters.get(key) {
        Some(Value::TimeNs(time)) => format!("{} ms", time.0 / 1_000_000),
        _ => "0 ms".to_owned(),
    };
    let users = arm.parameters.get("users").map_or_else(|| "1".to_owned(), ToString::to_string);
    let (duration, warm) = (seconds(DURATION), seconds(WARM_UP));
    let mut levels = vec![format!("[load]\nusers = {users}\nduration = \"{duration}\"\nwarm = \"{warm}\"")];
    if matches!(arm.parameters.get("size"), Some(Value::Choice(size)) if size == "quick") {
        levels.push(topology::QUICK.to_owned());
    }
    levels
}

fn error_limit(arm: &ResolvedArm) -> f64 {
    match arm.parameters.get("error_limit") {
        Some(Value::Share(Share(share))) => *share,
        _ => 0.01,
    }
}

impl Job for Auction {
    fn descriptor(&self) -> &'static Descriptor {
        &DESCRIPTOR
    }

    fn heeds_interrupt(&self) -> bool {
        true
    }

    fn prepare<'s>(&self, arm: &'s ResolvedArm, around: Surroundings<'s>) -> Result<Box<dyn ReadyJob + 's>, JobError> {
        let unfit = |all: Vec<(String, Misfit)>| {
            JobError::failed(all.iter().map(|(_, misfit)| misfit.to_string()).collect::<Vec<_>>().join("\n"))
        };
        let Resolved { mut topology, application } = resolve(arm).map_err(unfit)?;
        let demand = application.load.clone();
        Cluster::check(&application).map_err(refused)?;
        let program =
            std::env::current_exe().map_err(|why| JobError::failed(format!("finding this program: {why}")))?;
        let parent = std::env::temp_dir();
        let folder = Folder::create(&parent)
            .map_err(|why| JobError::failed(format!("making a folder under {}: {why}", parent.display())))?;
        let interrupt = Arc::clone(around.interrupt);
        let surroundings = ClusterSurroundings {
            program,
            folder: folder.path().to_owned(),
            interrupt: Arc::clone(&interrupt),
            places: self.places,
            environments: Arc::new(std::mem::take(&mut topology.environments)),
        };
        let started = Cluster::start(application, surroundings, topology.seed, &mut |_| ());
        if interrupt.load(Ordering::Relaxed) {
            return Err(JobError::Interrupted);
        }
        Ok(Box::new(Ready {
            cluster: started.map_err(refused)?,
            demand,
            error_limit: error_limit(arm),
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
    error_limit: f64,
    places: Places,
    interrupt: Arc<AtomicBool>,
    seed: u64,
    runs: u64,
    // Removed after the cluster has stopped.
    _folder: Folder,
}

impl Ready {
    /// Brings the application to where the start left it: its servers by number, those that a fault has killed, its live data.
    fn restore(&mut self) -> Result<(), ClusterError> {
        let plan = self.cluster.plan();
        let killed = plan.faults.iter().filter(|fault| matches!(fault.what, Wrong::Killed(_)));
        let killed: Vec<(Tier, usize)> = killed.map(|fault| (fault.tier, fault.index)).collect();
        let planned = |tier: Tier| {
            let count = plan.tiers.get(&tier)?.count;
            Some((tier, plan.elastic.scheduled(tier, 0.0).unwrap_or(count)))
        };
        let counts: Vec<(Tier, u64)> = [Tier::Web, Tier::App].into_iter().filter_map(planned).collect();
        if self.runs > 0 {
            for (tier, count) in
                counts.into_iter().filter(|(tier, count)| self.cluster.count(*tier) != *count).collect::<Vec<_>>()
            {
                self.cluster.scale(tier, count)?;
            }
            for (tier, index) in killed
                .into_iter()
                .filter(|(tier, index)| (*index as u64) < self.cluster.count(*tier))
                .collect::<Vec<_>>()
            {
                self.cluster.restart(tier, index)?;
            }
        }
        // Before the first window as well: auctions have been going on since the servers were started.
        self.cluster.reset()
    }

    /// One window under the users, and the moment at which it began.
    fn window(&mut self) -> Result<(LoadRow, Part, Instant), RunError> {
        let mut began = None;
        let mut see = |event: &Event| {
            if let Event::Second(row) = event {
                began = began.or_else(|| Instant::now().checked_sub(Duration::from_secs_f64(row.at_s)));
            }
        };
        let mut ground = Ground {
            program: std::env::current_exe().unwrap_or_default(),
            folder: std::env::temp_dir(),
            interrupt: Arc::clone(&self.interrupt),
            places: self.places,
            watch: &mut see,
        };
        let users = self.demand.users.unwrap_or(1);
        let seed = self.seed.wrapping_add(self.runs);
        let mut loaded = fixed::loaded(&mut self.cluster, &self.demand, users, seed, &ground)?;
        let (row, part) = fixed::window(&mut loaded, &self.demand, users, &mut ground)?;
        let elapsed = Duration::from_nanos(part.elapsed_ns);
        let began = began.or_else(|| Instant::now().checked_sub(elapsed)).unwrap_or_else(Instant::now);
        Ok((row, part, began))
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

impl Ready {
    fn measured(&mut self) -> Result<JobRun, JobError> {
        let phase = Instant::now();
        self.restore().map_err(JobError::failed)?;
        let window = self.window();
        self.runs += 1;
        // Why servers have ended says more than what their users saw of it.
        if let Some(fallen) = self.cluster.fallen().first() {
            return Err(JobError::failed(fallen));
        }
        let (load, part, began) = window.map_err(JobError::failed)?;
        if part.interrupted {
            return Err(JobError::Interrupted);
        }
        let (failed, all) = (failed(&part), ended(&part));
        if failed >= all || failed as f64 > self.error_limit * all as f64 {
            return Err(too_many_failures(&load, failed, all));
        }
        let checked = self.cluster.check_invariants().map_err(JobError::failed)?;
        if !checked.valid {
            return Err(JobError::failed(format!("the data is inconsistent after the load: {}", checked.report)));
        }
        let begin_ns = u64::try_from(began.saturating_duration_since(phase).as_nanos()).unwrap_or(0);
        let application = self.described(&load, Invariants { held: true, report: checked.report });
        Ok(JobRun {
            void: Vec::new(),
            samples: samples(&load, &part),
            checked: "no bid lost, nothing sold twice, money adds up".to_owned(),
            flags: flags(&load, &application),
            points: points(&part, begin_ns).into_iter().chain(seconds(&load, begin_ns)).collect(),
            detail: detail(&application),
        })
    }
}

impl ReadyJob for Ready {
    fn run(&mut self) -> Result<JobRun, JobError> {
        let measured = self.measured();
        if self.interrupt.load(Ordering::Relaxed) { Err(JobError::Interrupted) } else { measured }
    }
}

fn failed(part: &Part) -> u64 {
    part.operations.iter().map(|operation| operation.failed()).sum()
}

/// Operations that have ended, well or not.
fn ended(part: &Part) -> u64 {
    part.operations.iter().map(|operation| operation.raw.count()).sum::<u64>() + failed(part)
}

fn too_many_failures(load: &LoadRow, failed: u64, all: u64) -> JobError {
    if all == 0 {
        return JobError::failed(format!("no operation ended within {:.0} s", load.elapsed_s));
    }
    let kinds: Vec<String> = load.failures.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
    JobError::Failed {
        what: format!("{failed} of {all} operations failed: {}", kinds.join(", ")),
        log: load.failure_examples.clone(),
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
    let bids = load.operations.iter().find(|row| row.name == users::BID).map(|row| row.succeeded as f64);
    add("operations_per_s".to_owned(), Some(load.operations_per_s));
    add("bids_per_s".to_owned(), bids.map(|bids| bids / load.elapsed_s.max(1e-9)));
    for (metric, share) in [("latency_p50_ms", 0.5), ("latency_p95_ms", 0.95), ("latency_p99_ms", 0.99)] {
        add(metric.to_owned(), latencies.percentile(share).map(ms));
    }
    add("propagation_p95_ms".to_owned(), load.propagation.as_ref().and_then(|delay| delay.p95_ns).map(ms));
    add("limits_exceeded".to_owned(), Some(load.broken.len() as f64));
    add("failed".to_owned(), Some(100.0 * failed(part) as f64 / ended(part).max(1) as f64));
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

/// What each second brought, and the CPU time of each tier in it.
fn seconds(load: &LoadRow, begin_ns: u64) -> Vec<Point> {
    let mut before = 0;
    let points = |row: &crate::document::SecondRow| {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "seconds of a window")]
        let now = (row.at_s * 1e9) as u64;
        let from = std::mem::replace(&mut before, now);
        let length_s = now.saturating_sub(from) as f64 / 1e9;
        let sample = |metric: &str, value: f64| Sample { metric: metric.to_owned(), value };
        let all = vec![
            sample("requests_per_s", row.answered as f64 / length_s.max(1e-9)),
            sample(FAILED_OPERATIONS, row.failed as f64),
            sample("users", row.users),
            sample("app_servers", row.apps as f64),
            sample("web_servers", row.webs as f64),
        ];
        let tiers = row.cpus_used.iter().map(|(tier, value)| sample(&format!("cpus_{}", label(tier)), *value));
        let point = |name: &str, samples: Vec<Sample>| Point {
            name: name.to_owned(),
            begin_ns: begin_ns + from,
            end_ns: begin_ns + now,
            samples,
            histogram: None,
        };
        [point("all", all), point("tiers", tiers.collect())]
    };
    load.series.iter().flat_map(points).collect()
}

/// The tier of a key such as `app.cpus`.
fn label(key: &str) -> &str {
    key.split('.').next().unwrap_or(key)
}

fn detail(application: &ApplicationRow) -> Option<Detail> {
    let document = serde_json::to_value(application).ok()?;
    Some(Detail { format: FORMAT.to_owned(), document })
}
