//! The auction as a workload of a study: an application with its tiers and users, measured phase by phase.
//!
//! Preparing an arm starts its tiers and loads their data; each phase brings the users, warms up, measures one window and
//! checks that no bid was lost; between phases there are no users, so that an arm that is not being measured is idle. With
//! `users = "most"` a phase searches for the most users that keep every limit, and verifies them. What the tiers are is said
//! in `[topology]`, every key of which can be a factor.

use crate::archive;
use crate::budget::Budget;
use crate::cluster::{Cluster, ClusterContext, ClusterError, Places, Wanted};
use crate::elastic::Wrong;
use crate::external;
use crate::fixed_load;
use crate::generator::LoadSites;
use crate::measurements::{MAXIMUM, Marks, ended, failed, loads, run, too_many_failures};
use crate::phase::{self, closing_s};
use crate::phase_context::{Event, Ground, Measured, RunError, Stored};
use crate::topology::{self, Demand, Networking, On, TierPlan, Topology};
use baremark_load::profile::Profile;
use baremark_model::arm::ResolvedArm;
use baremark_model::command::{self, DURATION, RAMP_DOWN, TIMEOUT, WARM_UP};
use baremark_model::config;
use baremark_model::descriptor::{Descriptor, OwnSection};
use baremark_model::former;
use baremark_model::job::{Job, JobContext, JobError, JobRun, ReadyJob, Update};
use baremark_model::knob::{Default, InvalidValue, Kind, Knob};
use baremark_model::literal::quoted;
use baremark_model::metric::{Aggregate, Metric};
use baremark_model::problem::Problem;
use baremark_model::units::{SECOND, Share};
use baremark_model::value::Value;
use baremark_services::Folder;
use baremark_services::card::Tier;
use baremark_services::error::ServiceError;
use baremark_services::service::program;
use serde::Deserialize as _;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// The kind as typed in a study.
pub const KIND: &str = "auction";
/// The section of a study that describes the application.
pub const SECTION: &str = "topology";
/// The parameter that says how many users there are, and its word for a search.
pub const USERS: &str = "users";
/// Searches for the most users that keep every limit.
pub const MOST: &str = "most";

static PARAMETERS: [Knob; 7] = [
    Knob::new(USERS, Kind::Literal, Default::Typed("100")).help(
        "simulated users: a number, a profile such as \"ramp from=50 to=200 over=60s\", or \"most\" to search \
         for the most that keep every limit",
    ),
    Knob::new(DURATION, Kind::Time { min: SECOND / 10, max: 24 * 3600 * SECOND }, Default::Typed("20 s"))
        .help("measured time of a phase; a search has load.window, load.verify and load.budget in [topology]"),
    Knob::new(WARM_UP, Kind::Time { min: 0, max: 3600 * SECOND }, Default::Typed("6 s")).help(
        "time under users before it, not measured: at least until those who came last have logged in (10 of \
         load.cycle)",
    ),
    Knob::new(RAMP_DOWN, Kind::Time { min: 0, max: 3600 * SECOND }, Default::Typed("0 s"))
        .help("time under users after it, not measured"),
    Knob::new("size", Kind::Choice(&["quick", "full"]), Default::Typed("full"))
        .help("data set: full as the topology says; quick has 1 % of the past"),
    Knob::new("error_limit", Kind::Percent { min: 0.0, max: 1.0 }, Default::Typed("1 %"))
        .help("share of failed operations above which the phase is not a result"),
    TIMEOUT,
];

static METRICS: [Metric; 25] = [
    Metric::higher("operations_per_s", "operations/s", Aggregate::Mean)
        .help("operations that succeeded per second, the loops that follow auctions apart"),
    Metric::higher("bids_per_s", "bids/s", Aggregate::Mean).help("bids accepted per second"),
    Metric::lower("latency_p50_ms", "ms", Aggregate::Mean)
        .help("median latency of those operations, from the intended start"),
    Metric::lower("latency_p95_ms", "ms", Aggregate::Mean).help("95th percentile of it"),
    Metric::lower("latency_p99_ms", "ms", Aggregate::Mean).help("99th percentile of it"),
    Metric::lower("propagation_p95_ms", "ms", Aggregate::Mean)
        .help("from the sending of a bid until an attendee sees it, 95th percentile"),
    Metric::higher(MAXIMUM, "users", Aggregate::Mean)
        .help("most users that were verified to keep every limit, where they were searched"),
    Metric::lower("limits_exceeded", "limits", Aggregate::Mean)
        .help("quality-of-service limits exceeded in the window"),
    Metric::lower("failed", "%", Aggregate::Mean).help("operations that failed"),
    Metric::higher("operations_per_app_cpu_s", "operations/CPU-s", Aggregate::Mean)
        .help("operations per second of CPU time of the app tier, that of checking passwords apart"),
    Metric::lower("app_cpu_passwords", "%", Aggregate::Mean)
        .help("share of the app tier's CPU time that checking passwords took (topology.argon2)"),
    Metric::lower("cpus_balancer", "CPUs", Aggregate::Mean).help("CPU time of the balancer tier over elapsed time"),
    Metric::lower("cpus_web", "CPUs", Aggregate::Mean).help("CPU time of the web tier over elapsed time"),
    Metric::lower("cpus_app", "CPUs", Aggregate::Mean).help("CPU time of the app tier over elapsed time"),
    Metric::lower("cpus_database", "CPUs", Aggregate::Mean).help("CPU time of the database tier over elapsed time"),
    Metric::lower("cpus_bus", "CPUs", Aggregate::Mean).help("CPU time of the bus tier over elapsed time"),
    Metric::higher("users", "users", Aggregate::Mean).help("users in the window at most"),
    Metric::lower("adaptations", "changes", Aggregate::Mean)
        .help("changes of the number of servers by schedule or policy"),
    Metric::lower("app_under_provisioned", "servers", Aggregate::Mean).help(
        "app servers missing on average, of those that the users need by elastic.capacity (Herbst et al. \
         2015)",
    ),
    Metric::lower("app_over_provisioned", "servers", Aggregate::Mean).help("app servers too many on average, likewise"),
    Metric::lower("app_under_provisioned_time", "%", Aggregate::Mean)
        .help("share of the time with too few app servers"),
    Metric::lower("app_over_provisioned_time", "%", Aggregate::Mean)
        .help("share of the time with too many app servers"),
    Metric::lower("app_jitter", "changes/min", Aggregate::Mean).help(
        "changes of the number of app servers beyond those of the demand, per minute; below 0 some were \
         missed",
    ),
    Metric::lower("probes", "windows", Aggregate::Mean).help("windows that a search measured"),
    Metric::lower("generator_cpus", "CPUs", Aggregate::Mean).help("CPU time of the load generator over elapsed time"),
];

/// What the workload is.
pub static DESCRIPTOR: Descriptor = Descriptor {
    kind: KIND,
    help: "a real-time auction site with its tiers, under simulated users",
    source: "this program; modelled after Weathervane 2",
    parameters: &PARAMETERS,
    metrics: &METRICS,
    section: Some(OwnSection { name: SECTION, has: has_key, check: check_section, check_arm, needs, help: HELP }),
    quick: &[("duration", "3 s"), ("warm_up", "2 s"), ("size", "quick")],
    check: command::fits_timeout,
    stops_on_interrupt: true,
    ..Descriptor::JOB
};

const HELP: &str = "the application: every key of studies/auction/defaults.toml, in sections below it such as \
                    `[topology.database]`; a key can be varied in `[factors]` under its path, such as `\"app.count\" = [1, 2]`; `configuration` \
                    is a named size: micro, small, medium or large (studies/auction/configurations)";

/// Keys of a topology file that mean nothing in a study, or that a study has elsewhere: section, key, remedy.
const NOT_IN_STUDIES: &[(&str, &str, &str)] = &[
    ("", "topology", "write its keys in [topology] itself"),
    (
        "",
        "study",
        "write what differs as levels in [factors], or as [topology.variants.NAME] with variant in [factors]",
    ),
    ("load", "users", "write users in [workload] or [factors]"),
    ("load", "profile", "write the profile as users in [workload] or [factors]"),
    ("load", "duration", "write duration in [workload] or [factors]"),
    ("load", "warm_up", "write warm_up in [workload] or [factors]"),
    ("load", RAMP_DOWN, "write ramp_down in [workload] or [factors]"),
];

/// Whether a key of the topology can be a factor.
fn has_key(key: &str) -> bool {
    let top = key.split('.').next().unwrap_or_default();
    let elsewhere = |(section, name, _): &(&str, &str, &str)| match *section {
        "" => *name == top,
        section => {
            let own = key.strip_prefix(section).and_then(|rest| rest.strip_prefix('.'));
            own.map(|key| former::now_in(section, key).unwrap_or(key)) == Some(name)
        }
    };
    topology::has_key(key) && !NOT_IN_STUDIES.iter().any(elsewhere)
}

/// Every mistake in the section of a study.
fn check_section(file: &str, text: &str) -> Vec<Problem> {
    let mut problems = topology::check_study(file, text);
    let more = config::read(file, text, |reader, root| {
        let own = reader.section(root, SECTION);
        let load = reader.section(&own, "load");
        for (section, key, remedy) in NOT_IN_STUDIES {
            let at = if section.is_empty() { &own } else { &load };
            if at.has(key) {
                let is_it = |typed: &&str| *typed == *key || former::now_in(section, typed) == Some(*key);
                let typed = at.entries().into_iter().map(|(typed, ..)| typed).find(is_it).unwrap_or(key);
                reader.wrong(at, key, format!("unknown key '{typed}'{} of a study", at.inside()), *remedy);
            }
        }
        Some(())
    });
    // Of a text that is not TOML the first has said so.
    problems.extend(more.err().map(|problems| problems.list).unwrap_or_default());
    problems
}

/// Every mistake that an arm makes of the section, with the parameter at fault.
fn check_arm(arm: &ResolvedArm) -> Vec<(String, InvalidValue)> {
    let topology = match resolve(arm) {
        Ok(topology) => topology,
        Err(misfits) => return misfits,
    };
    let mut misfits: Vec<(String, InvalidValue)> = Vec::new();
    for application in &topology.applications {
        let demand = &application.load;
        let Some(users) = demand.users else {
            misfits.extend(unfit_budget(arm, demand));
            continue;
        };
        // A profile that cannot be read has been refused already.
        let highest = fixed_load::highest(demand, users).unwrap_or(users);
        if highest > application.max_users {
            let misfit = InvalidValue::new(
                format!("{highest} users, and data for {} (max_users)", application.max_users),
                format!("write fewer users, or max_users = {highest} or more in [{SECTION}]"),
            );
            misfits.push((USERS.to_owned(), misfit));
        }
    }
    misfits.dedup();
    misfits
}

/// A search ends with its budget, and a phase with its timeout.
fn unfit_budget(arm: &ResolvedArm, demand: &Demand) -> Option<(String, InvalidValue)> {
    let Some(Value::TimeNs(timeout)) = arm.parameters.get(TIMEOUT.key) else { return None };
    let budget_s = demand.budget_s.unwrap_or(f64::INFINITY);
    (budget_s >= timeout.seconds()).then(|| {
        let budget = if budget_s.is_finite() { format!("{budget_s:.0} s") } else { "unlimited".to_owned() };
        let misfit = InvalidValue::new(
            format!("the search has a budget of {budget} (load.budget), and the timeout is {timeout}"),
            format!("write a shorter load.budget in [{SECTION}], or a longer timeout"),
        );
        (TIMEOUT.key.to_owned(), misfit)
    })
}

/// What the parameter `users` asks for.
enum Asked {
    /// So many.
    Users(u64),
    /// As many as this profile says.
    Profile(String),
    /// The most that keep every limit.
    Most,
}

const MOST_USERS: u64 = 10_000_000;

fn asked(arm: &ResolvedArm) -> Result<Asked, InvalidValue> {
    let Some(value) = arm.parameters.get(USERS) else { return Ok(Asked::Users(1)) };
    let text = value.to_string();
    if text == MOST {
        return Ok(Asked::Most);
    }
    let unfit = |why: String| {
        InvalidValue::new(
            format!("users = {text}: {why}"),
            format!(
                "write a number from 1 to {MOST_USERS}, a profile such as \"ramp from=50 to=200 over=60s\", or \"{MOST}\""
            ),
        )
    };
    match text.parse::<u64>() {
        Ok(users) if (1..=MOST_USERS).contains(&users) => Ok(Asked::Users(users)),
        Ok(_) => Err(unfit("out of range".to_owned())),
        Err(_) => {
            let profile = text.parse::<Profile>().map_err(|why| unfit(why.to_string()))?;
            profile.curve().map_err(|why| unfit(why.to_string()))?;
            Ok(Asked::Profile(text))
        }
    }
}

/// What the tiers of an arm need of this machine, by name: places other than native, and programs of other people.
fn needs(arm: &ResolvedArm) -> Vec<String> {
    let Ok(resolved) = resolve(arm) else { return Vec::new() };
    let tiers = resolved.applications.iter().flat_map(|application| application.tiers.values());
    let mut needs: Vec<String> = tiers.map(|tier| need(tier, &resolved)).collect();
    needs.extend(sites(&resolved).map(|site| need_site(site, &resolved)));
    needs
}

/// The sites of load generators.
fn sites(topology: &Topology) -> impl Iterator<Item = &str> {
    topology.applications.iter().flat_map(|application| &application.load.on).map(String::as_str)
}

fn need_site(site: &str, topology: &Topology) -> String {
    format!("{SECTION}: load from {site} {:?}", topology.environments)
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
pub fn look_for(
    arm: &ResolvedArm,
    (places, load_sites): (Places, LoadSites),
    own: &Path,
    interrupt: &AtomicBool,
) -> BTreeMap<String, Found> {
    let Ok(topology) = resolve(arm) else { return BTreeMap::new() };
    let mut found = BTreeMap::new();
    let tiers = topology.applications.iter().flat_map(|one| one.tiers.iter().map(move |tier| (tier, &one.external)));
    for ((tier, plan), wanted) in tiers {
        let what = match &plan.on {
            On::Native if plan.service.kind() == APP_SERVER => Found::Here,
            On::Native => program(plan.service).map_or_else(|why| Found::Absent(why.to_string()), |_| Found::Here),
            On::External(_) => {
                let there = wanted.as_ref().map_or(Ok(()), external::probe);
                there.map_or_else(|why| Found::Absent(why.to_string()), |()| Found::Here)
            }
            on => {
                let wanted = Wanted {
                    on,
                    own: *tier == Tier::App,
                    program: own,
                    // Whether a network can be made shows when it is.
                    network: Networking::Host,
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
        found.insert(need(plan, &topology), what);
    }
    for site in sites(&topology) {
        let there = load_sites(site, &topology.environments)
            .and_then(|environment| environment.probe().map_err(|missing| missing.to_string()));
        let what = there.map_or_else(|why| Found::Absent(format!("no load from {site}: {why}")), |()| Found::Here);
        found.insert(need_site(site, &topology), what);
    }
    found
}

/// The service that this program is itself.
const APP_SERVER: &str = "auction";

/// The workload `auction`.
pub struct Auction {
    /// How places other than this machine are made.
    pub places: Places,
    /// How the sites of load generators are made.
    pub load_sites: LoadSites,
    /// The texts of the application that decide its data.
    pub data_sources: &'static [&'static str],
}

/// The topology of an arm: its parameters over the shipped defaults; else every mistake, with the parameter at fault.
fn resolve(arm: &ResolvedArm) -> Result<Topology, Vec<(String, InvalidValue)>> {
    let own = own_levels(arm).map_err(|misfit| vec![(USERS.to_owned(), misfit)])?;
    let (section, factors) = (lines(arm, Origin::Section), lines(arm, Origin::Factor));
    let text: String = section.iter().map(|(_, line)| line.as_str()).collect();
    let mut levels: Vec<String> = factors.iter().map(|(_, line)| line.clone()).collect();
    levels.extend(own);
    levels.extend(variant(arm));
    let fault = |(file, problem): (String, Problem)| {
        let typed = section.get(problem.line.saturating_sub(1)).filter(|_| file == KIND && problem.line > 0);
        let key = typed
            .or_else(|| factors.iter().find(|(_, line)| format!("'{}'", line.trim_end()) == file))
            .map(|(key, _)| key.clone());
        (key.unwrap_or_default(), InvalidValue::new(problem.what, problem.remedy))
    };
    let resolved = topology::resolve_levels(KIND, &text, &levels);
    resolved.map_err(|all| all.into_iter().map(fault).collect())
}

/// The keys of the variant that an arm has chosen, as one text of TOML.
fn variant(arm: &ResolvedArm) -> Option<String> {
    let chosen = arm.parameters.get(VARIANT).or_else(|| arm.parameters.get(&format!("{SECTION}.{VARIANT}")))?;
    let inside = format!("{SECTION}.variants.{chosen}.");
    let line = |(key, value): (&String, &Value)| match value {
        Value::Literal(text) => Some(format!("{} = {text}\n", key.strip_prefix(&inside)?)),
        _ => None,
    };
    let text: String = arm.parameters.iter().filter_map(line).collect();
    (!text.is_empty()).then_some(text)
}

/// The key that chooses a variant.
const VARIANT: &str = "variant";

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
            (None, Origin::Factor) if key != USERS => Some((key.clone(), format!("{key} = {text}\n"))),
            _ => None,
        }
    };
    arm.parameters.iter().filter_map(line).collect()
}

/// What lies over the section alongside factors: the workload's own parameters.
fn own_levels(arm: &ResolvedArm) -> Result<Vec<String>, InvalidValue> {
    let seconds = |key: &str| match arm.parameters.get(key) {
        Some(Value::TimeNs(time)) => format!("{} ms", time.0 / 1_000_000),
        _ => "0 ms".to_owned(),
    };
    let (users, profile) = match asked(arm)? {
        Asked::Users(users) => (users, String::new()),
        Asked::Profile(profile) => (1, profile),
        Asked::Most => (0, String::new()),
    };
    let (duration, warm, ramp_down) = (seconds(DURATION), seconds(WARM_UP), seconds(RAMP_DOWN));
    let profile = quoted(&profile);
    let load = format!(
        "[load]\nusers = {users}\nprofile = {profile}\nduration = \"{duration}\"\nwarm_up = \"{warm}\"\nramp_down = \"{ramp_down}\""
    );
    let quick = matches!(arm.parameters.get("size"), Some(Value::Choice(size)) if size == "quick");
    Ok(std::iter::once(load).chain(quick.then(|| topology::QUICK.to_owned())).collect())
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

    fn prepare<'s>(&self, arm: &'s ResolvedArm, around: JobContext<'s>) -> Result<Box<dyn ReadyJob + 's>, JobError> {
        let unfit = |all: Vec<(String, InvalidValue)>| {
            JobError::failed(all.iter().map(|(_, misfit)| misfit.to_string()).collect::<Vec<_>>().join("\n"))
        };
        let mut topology = resolve(arm).map_err(unfit)?;
        check(&topology).map_err(refused)?;
        let program =
            std::env::current_exe().map_err(|why| JobError::failed(format!("finding this program: {why}")))?;
        let parent = topology.folder.clone().unwrap_or_else(std::env::temp_dir);
        let folder = Folder::create(&parent)
            .map_err(|why| JobError::failed(format!("making a folder under {}: {why}", parent.display())))?;
        let interrupt = Arc::clone(around.interrupt);
        let surroundings = ClusterContext {
            program,
            folder: folder.path().to_owned(),
            interrupt: Arc::clone(&interrupt),
            places: self.places,
            load_sites: self.load_sites,
            data_sources: self.data_sources,
            environments: Arc::new(std::mem::take(&mut topology.environments)),
        };
        let data = database_folders(&mut topology)?;
        let begun = Instant::now();
        let demands = topology.applications.iter().map(|application| application.load.clone()).collect();
        let mut clusters = Vec::new();
        for application in topology.applications.drain(..) {
            let started = Cluster::start(application, surroundings.clone(), topology.seed, &mut |_| ());
            if interrupt.load(Ordering::Relaxed) {
                return Err(JobError::Interrupted);
            }
            clusters.push(started.map_err(refused)?);
        }
        Ok(Box::new(PreparedApplications {
            clusters,
            demands,
            closing_s: closing_s(begun.elapsed()),
            error_limit: error_limit(arm),
            interrupt,
            seed: around.seed,
            runs: 0,
            keep: topology.keep.take(),
            folder,
            _data: data,
        }))
    }
}

/// Looks whether this machine has the programs and CPUs of a topology, before anything is started.
///
/// # Errors
/// All that is missing of an application, each with its remedy.
pub fn check(topology: &Topology) -> Result<(), ClusterError> {
    topology.applications.iter().try_for_each(Cluster::check)
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

/// Applications that run, without users.
struct PreparedApplications {
    clusters: Vec<Cluster>,
    demands: Vec<Demand>,
    /// How long checking the data takes, in s.
    closing_s: f64,
    error_limit: f64,
    interrupt: Arc<AtomicBool>,
    seed: u64,
    runs: u64,
    /// Where logs and configurations are kept.
    keep: Option<PathBuf>,
    // Removed after the clusters have stopped.
    folder: Folder,
    _data: Vec<Folder>,
}

/// Makes a folder of its own for each database whose files are to be elsewhere.
fn database_folders(topology: &mut Topology) -> Result<Vec<Folder>, JobError> {
    let mut made = Vec::new();
    for application in &mut topology.applications {
        let Some(parent) = &application.database_folder else { continue };
        let own = Folder::create(parent)
            .map_err(|why| JobError::failed(format!("making a folder under {}: {why}", parent.display())))?;
        application.database_folder = Some(own.path().to_owned());
        made.push(own);
    }
    Ok(made)
}

/// Brings an application to where the start left it: its servers by number, those that a fault has killed, its live data.
fn restore(cluster: &mut Cluster, first: bool) -> Result<(), ClusterError> {
    let plan = cluster.plan();
    let killed = plan.faults.iter().filter(|fault| matches!(fault.what, Wrong::Killed(_)));
    let killed: Vec<(Tier, usize)> = killed.map(|fault| (fault.tier, fault.index)).collect();
    let planned = |tier: Tier| {
        let count = plan.tiers.get(&tier)?.count;
        Some((tier, plan.elastic.scheduled(tier, 0.0).unwrap_or(count)))
    };
    let counts: Vec<(Tier, u64)> = [Tier::Web, Tier::App].into_iter().filter_map(planned).collect();
    if !first {
        for (tier, count) in counts {
            if cluster.count(tier) != count {
                cluster.scale(tier, count)?;
            }
        }
        for (tier, index) in killed {
            if (index as u64) < cluster.count(tier) {
                cluster.restart(tier, index)?;
            }
        }
    }
    // Before the first window as well: auctions have been going on since the servers were started.
    cluster.reset()
}

impl PreparedApplications {
    fn measured(&mut self, stored: &[Stored], store: &mut dyn FnMut(&Stored)) -> Result<JobRun, JobError> {
        let begun = Instant::now();
        for cluster in &mut self.clusters {
            restore(cluster, self.runs == 0).map_err(JobError::failed)?;
        }
        let seed = self.seed.wrapping_add(self.runs);
        self.runs += 1;
        let mut marks = Marks::new(begun);
        let searched = self.demands.iter().all(|demand| demand.users.is_none());
        let budget_s = self.demands[0].budget_s.filter(|_| searched);
        let budget = Budget::begin(budget_s, &self.interrupt);
        let mut watch = |event: &Event<'_>| marks.see(event);
        let mut ground = Ground { stored, store, interrupt: budget.stop(), watch: &mut watch };
        let (clusters, demands) = (&mut self.clusters, &self.demands);
        let measured = match searched {
            true => phase::find(clusters, (demands, seed), (&budget, self.closing_s), &mut ground),
            false => phase::keep(clusters, (demands, seed), &mut ground),
        };
        // Why servers have ended says more than what their users saw of it.
        if let Some(fallen) = self.clusters.iter_mut().flat_map(Cluster::fallen).next() {
            return Err(JobError::failed(fallen));
        }
        let mut measured = measured.map_err(|why| match budget.is_over() {
            true => over_budget(budget_s, &why),
            false => JobError::failed(why),
        })?;
        if self.interrupt.load(Ordering::Relaxed) || measured.parts.iter().flatten().any(|part| part.interrupted) {
            return Err(JobError::Interrupted);
        }
        if !searched {
            self.few_failures(&measured)?;
        }
        if let Some(why) = phase::close(&mut self.clusters, &mut measured).map_err(JobError::failed)? {
            return Err(JobError::failed(why));
        }
        Ok(run(&measured, &phase::document(&measured, begun, budget_s), &marks, searched))
    }

    /// More failures than the limit are no result.
    fn few_failures(&self, measured: &Measured) -> Result<(), JobError> {
        let parts = || measured.parts.iter().flatten();
        let (failed, all): (u64, u64) = (parts().map(failed).sum(), parts().map(ended).sum());
        if failed >= all || failed as f64 > self.error_limit * all as f64 {
            return Err(too_many_failures(&loads(measured), failed, all));
        }
        Ok(())
    }
}

fn over_budget(budget_s: Option<f64>, during: &RunError) -> JobError {
    let budget_s = budget_s.unwrap_or(0.0);
    JobError::failed(format!(
        "the time budget of {budget_s} s was over before anything was found: {during}; raise load.budget, or load less data (max_users, history)"
    ))
}

impl ReadyJob for PreparedApplications {
    fn works_in_own_processes(&self) -> bool {
        let mut tiers = self.clusters.iter().flat_map(|cluster| cluster.plan().tiers.values());
        tiers.all(|tier| tier.on == On::Native)
    }

    fn run(&mut self) -> Result<JobRun, JobError> {
        self.resume(&[], &mut |_| ())
    }

    fn resume(&mut self, stored: &[serde_json::Value], report: &mut dyn FnMut(Update)) -> Result<JobRun, JobError> {
        let stored: Vec<Stored> = stored.iter().filter_map(|row| Stored::deserialize(row).ok()).collect();
        let measured = self.measured(&stored, &mut |one| {
            if let Ok(row) = serde_json::to_value(one) {
                report(Update::Part(row));
            }
        });
        if self.interrupt.load(Ordering::Relaxed) { Err(JobError::Interrupted) } else { measured }
    }
}

impl Drop for PreparedApplications {
    fn drop(&mut self) {
        let logs: Vec<_> = self.clusters.iter().filter(|_| self.keep.is_some()).flat_map(Cluster::logs).collect();
        self.clusters.iter_mut().for_each(Cluster::stop);
        if let Some(keep) = &self.keep {
            // What was measured counts whether or not its logs could be kept.
            drop(archive::keep(self.folder.path(), &logs, keep));
        }
    }
}
