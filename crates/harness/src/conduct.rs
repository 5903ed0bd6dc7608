//! A run from its start to its end: clusters, load, check, and everything stopped whatever happens.

use crate::budget::Budget;
use crate::cluster::{Cluster, ClusterError, Places, Surroundings, Told};
use crate::document::{ApplicationRow, Document, FORMAT, InstanceRow, Invariants, TierRow, Users};
use crate::fixed;
use crate::instances;
use crate::topology::{Application, Demand, Topology};
use crate::under_load::Loaded;
use crate::users;
use crate::verify::{self, verify};
use baremark_lab::search::{Search, SearchError, Step};
use baremark_model::maximum::{self, Basis, Ended};
use baremark_model::problem::Problems;
use baremark_services::Folder;
use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// What happens during a run, for whoever watches.
#[derive(Clone, Debug)]
pub enum Event {
    /// A step, in words.
    Step(String),
    /// A step of a search.
    Search(Box<Step>),
    /// A second of a load that is kept.
    Second(crate::document::SecondRow),
}

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The topology.
    #[error(transparent)]
    Problems(#[from] Problems),
    /// A tier.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    /// The search.
    #[error(transparent)]
    Search(#[from] SearchError),
    /// The load.
    #[error("the load: {0}")]
    Load(String),
    /// The time that it may take.
    #[error(
        "the time budget of {budget_s:.0} s was over before anything was found: {during}; raise load.budget, or load less data (topology.max_users, topology.history)"
    )]
    TimeOver {
        /// What it was allowed.
        budget_s: f64,
        /// What was cut short.
        during: String,
    },
    /// The run's folder.
    #[error("making a folder under {}: {source}", .parent.display())]
    Folder {
        /// Where.
        parent: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// What a run needs beside its topology.
pub struct Ground<'g> {
    /// The program itself.
    pub program: PathBuf,
    /// Where the run's folder is made.
    pub folder: PathBuf,
    /// Set when the user wants it to stop.
    pub interrupt: Arc<AtomicBool>,
    /// How places other than this machine are made.
    pub places: Places,
    /// Who watches.
    pub watch: &'g mut dyn FnMut(&Event),
}

/// What comes after the users have gone takes about so long, and a share of what the start took: the data is counted again.
const CLOSING_S: f64 = 3.0;
const CLOSING_SHARE: f64 = 0.3;

/// Runs a topology. Everything that it starts is gone when it returns.
///
/// # Errors
/// Whatever makes a result impossible. An interrupted run that has measured something is a result that says so.
pub fn run(topology: Topology, ground: &mut Ground<'_>) -> Result<Document, RunError> {
    let budget_s = topology.load.budget_s.filter(|_| topology.load.users.is_none());
    let budget = Budget::begin(budget_s, &ground.interrupt);
    let user = Arc::clone(&ground.interrupt);
    let mut inner = Ground {
        program: ground.program.clone(),
        folder: ground.folder.clone(),
        interrupt: budget.stop(),
        places: ground.places,
        watch: &mut *ground.watch,
    };
    match conduct(topology, &mut inner, &budget, &user) {
        Err(why) if budget.is_over() => {
            Err(RunError::TimeOver { budget_s: budget_s.unwrap_or(0.0), during: why.to_string() })
        }
        ended => ended,
    }
}

fn conduct(
    mut topology: Topology,
    ground: &mut Ground<'_>,
    budget: &Budget,
    user: &AtomicBool,
) -> Result<Document, RunError> {
    let folder =
        Folder::create(&ground.folder).map_err(|source| RunError::Folder { parent: ground.folder.clone(), source })?;
    let around = Surroundings {
        program: ground.program.clone(),
        folder: folder.path().to_owned(),
        interrupt: Arc::clone(&ground.interrupt),
        places: ground.places,
        environments: Arc::new(std::mem::take(&mut topology.environments)),
    };
    for plan in &topology.applications {
        Cluster::check(plan)?;
    }
    let mut clusters = Vec::new();
    for plan in topology.applications.drain(..) {
        let watch = &mut *ground.watch;
        let name = plan.name.clone();
        let mut say =
            |text: &str| watch(&Event::Step(if name == "main" { text.to_owned() } else { format!("{name}: {text}") }));
        clusters.push(Cluster::start(plan, around.clone(), topology.seed, &mut say)?);
    }
    let closing_s = CLOSING_S + CLOSING_SHARE * budget.elapsed_s();
    let mut rows: Vec<ApplicationRow> =
        clusters.iter().map(|cluster| described(cluster.plan(), topology.load.cycle_s)).collect();
    let mut remarks = Vec::new();
    let demand = topology.load.clone();
    match demand.users {
        None => find(&mut clusters, (&demand, topology.seed), (budget, closing_s), ground, &mut rows, &mut remarks)?,
        Some(users) => {
            for (cluster, row) in clusters.iter_mut().zip(&mut rows) {
                row.load = Some(fixed::keep(cluster, &demand, users, topology.seed, ground)?);
            }
        }
    }
    let mut void = Vec::new();
    for (cluster, row) in clusters.iter_mut().zip(&mut rows) {
        finish(cluster, row, ground, &mut void);
    }
    if rows.iter().flat_map(|row| &row.instances).any(|instance| instance.emulated) {
        remarks.push(
            "instances ran on an emulated processor: their figures exercise the mechanics and measure nothing"
                .to_owned(),
        );
    }
    if user.load(Ordering::Relaxed) {
        void.push("it was interrupted: what is here is partial".to_owned());
    }
    let users = total(&rows);
    Ok(Document {
        format: FORMAT.to_owned(),
        title: topology.title,
        seed: topology.seed,
        valid: void.is_empty(),
        void,
        remarks,
        users,
        applications: rows,
        elapsed_s: budget.elapsed_s(),
        budget_s: demand.budget_s.filter(|_| demand.users.is_none()),
        cpus: baremark_sys::affinity::allowed_cpus().map_or(0, |cpus| cpus.len()),
    })
}

/// Finds the most users of each application, and sees that they keep every limit.
fn find(
    clusters: &mut [Cluster],
    (demand, seed): (&Demand, u64),
    (budget, closing_s): (&Budget, f64),
    ground: &mut Ground<'_>,
    rows: &mut [ApplicationRow],
    remarks: &mut Vec<String>,
) -> Result<(), RunError> {
    let mut all: Vec<Loaded<'_>> = clusters
        .iter_mut()
        .enumerate()
        .map(|(at, cluster)| {
            let highest = Loaded::searchable(cluster, demand);
            let seed = seed.wrapping_add(1000 * at as u64);
            Loaded::new(cluster, demand, highest, seed, Arc::clone(&ground.interrupt))
        })
        .collect();
    let last_window_s = users::patience().seconds() + demand.search.settle_s;
    let deadline = budget.before_end(closing_s + all.len() as f64 * verify::takes_s(demand) + last_window_s);
    match &mut all[..] {
        [only] => {
            rows[0].search = Some(search(only, &rows[0].name, demand.search.lowest, deadline, ground, remarks)?);
        }
        several => instances::find(several, demand, deadline, ground, rows, remarks)?,
    }
    if rows.iter().any(|row| row.search.as_ref().is_some_and(|search| search.ended == Ended::TimeOver)) {
        remarks.push(format!(
            "the time budget of {:.0} s ended the search before its last step: its interval lies between what kept the limits and what broke them",
            demand.budget_s.unwrap_or(0.0)
        ));
    }
    verify(&mut all, (budget, closing_s), ground, rows, remarks)
}

/// Searches for the most users of one application, from `lowest` on.
pub(crate) fn search(
    loaded: &mut Loaded<'_>,
    title: &str,
    lowest: f64,
    deadline: Option<Instant>,
    ground: &mut Ground<'_>,
    remarks: &mut Vec<String>,
) -> Result<maximum::Document, RunError> {
    let interrupt = Arc::clone(&ground.interrupt);
    let scenario = loaded.load().map_err(RunError::Load)?.scenario;
    let qos = users::qos(&scenario, loaded.demand());
    let mut plan = loaded.demand().search;
    plan.highest = loaded.highest() as f64;
    plan.lowest = lowest.min(plan.highest / 2.0);
    let watch = &mut *ground.watch;
    let mut search = Search {
        title,
        factor: "users",
        qos: &qos,
        plan,
        interrupt: &interrupt,
        deadline,
        watch: &mut |step| watch(&Event::Search(Box::new(step.clone()))),
    };
    let (document, broken) = search.run(loaded)?;
    remarks.extend(broken);
    Ok(document)
}

/// Collects, checks and stops.
fn finish(cluster: &mut Cluster, row: &mut ApplicationRow, ground: &mut Ground<'_>, void: &mut Vec<String>) {
    let name = row.name.clone();
    void.extend(cluster.fallen().into_iter().map(|fallen| format!("{name}: {fallen}")));
    row.instances = cluster.collect().into_iter().map(instance).collect();
    (ground.watch)(&Event::Step("checking that no bid was lost".to_owned()));
    match cluster.check_invariants() {
        Ok(checked) => {
            if !checked.valid {
                void.push(format!("{name}: the invariants are violated: {}", checked.report));
            }
            row.invariants = Some(Invariants { held: checked.valid, report: checked.report });
        }
        Err(ClusterError::Interrupted) => {}
        Err(why) => void.push(format!("{name}: the invariants could not be looked at: {why}")),
    }
    (ground.watch)(&Event::Step("stopping".to_owned()));
    cluster.stop();
}

fn instance(told: Told) -> InstanceRow {
    let (statistics, silent) = match told.statistics {
        Ok(statistics) => (statistics, None),
        Err(why) => (BTreeMap::new(), Some(why)),
    };
    InstanceRow {
        name: told.name,
        service: told.service.to_owned(),
        cpu_s: told.usage.cpu_ns as f64 / 1e9,
        resident_bytes: told.usage.resident_bytes,
        processes: told.usage.processes,
        memory_limit: told.memory_limit.to_owned(),
        on: told.on,
        emulated: told.emulated,
        statistics,
        silent,
        log: told.log,
    }
}

fn described(plan: &Application, cycle_s: f64) -> ApplicationRow {
    let tiers = plan.tiers.iter().map(|(tier, plan)| {
        let row = TierRow {
            service: plan.service.kind().to_owned(),
            count: plan.count,
            on: plan.on.to_string(),
            settings: plan.settings.iter().map(|(key, value)| (key.to_owned(), value.to_string())).collect(),
            extra: plan.settings.extra.clone(),
            cpus: plan.limits.cpus.clone(),
            memory_bytes: plan.limits.memory_bytes,
        };
        (tier.label().to_owned(), row)
    });
    ApplicationRow {
        name: plan.name.clone(),
        tiers: tiers.collect(),
        database: plan.database.clone(),
        bus: plan.bus.clone(),
        tls: plan.tls,
        max_users: plan.max_users,
        cycle_s,
        search: None,
        attempts: Vec::new(),
        load: None,
        invariants: None,
        instances: Vec::new(),
    }
}

/// The sum of the maxima; the ends of the intervals are summed, which is on the safe side.
fn total(rows: &[ApplicationRow]) -> Option<Users> {
    let parts: Option<Vec<Users>> = rows.iter().map(most).collect();
    let parts = parts.filter(|list| !list.is_empty())?;
    let sum = |of: fn(&Users) -> Option<f64>| parts.iter().map(of).sum::<Option<f64>>();
    let basis =
        [BRACKET, WITHIN].into_iter().find(|basis| parts.iter().any(|one| one.basis == *basis)).unwrap_or(FRESH);
    Some(Users {
        most: parts.iter().map(|one| one.most).sum(),
        verified: parts.iter().all(|one| one.verified),
        low: sum(|one| one.low),
        high: sum(|one| one.high),
        confidence: parts[0].confidence,
        basis: basis.to_owned(),
    })
}

const FRESH: &str = "fresh-trials";
const WITHIN: &str = "within-run";
const BRACKET: &str = "bracket";

/// The most users of one application: those that were seen to keep every limit, within what the search and the attempts say.
fn most(row: &ApplicationRow) -> Option<Users> {
    let found = row.search.as_ref()?.maximum?;
    let basis = match found.basis {
        Basis::FreshTrials => FRESH,
        Basis::WithinRun => WITHIN,
        Basis::Bracket => BRACKET,
    };
    let kept = row.attempts.iter().filter(|attempt| attempt.kept).map(|attempt| attempt.users).reduce(f64::max);
    let broke = row.attempts.iter().filter(|attempt| !attempt.kept).map(|attempt| attempt.users).reduce(f64::min);
    let most = kept.unwrap_or(found.level);
    // What was seen to be kept, or to break, lies within or bounds.
    let low = found.low.map(|low| low.min(most).max(0.0));
    let high = broke.or(found.high).map(|high| high.max(most));
    let low = if kept.is_none() { low.zip(broke).map(|(low, broke)| low.min(broke)).or(low) } else { low };
    Some(Users { most, verified: kept.is_some(), low, high, confidence: found.confidence, basis: basis.to_owned() })
}
