//! A run from its start to its end: clusters, load, check, and everything stopped whatever happens.

use crate::budget::Budget;
use crate::cluster::{Cluster, ClusterError, Places, Surroundings, Told};
use crate::document::{ApplicationRow, Document, FORMAT, InstanceRow, Invariants, TierRow, Users};
use crate::fixed;
use crate::instances;
use crate::topology::{Application, Demand, On, Topology};
use crate::under_load::Loaded;
use crate::users;
use crate::verify::{self, verify};
use baremark_lab::search::{Search, SearchError, Step};
use baremark_model::maximum::{self, Basis, Ended};
use baremark_model::problem::Problems;
use baremark_services::Folder;
use baremark_services::service::Tier;
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
    let first = topology.applications.first().map(|one| &one.load);
    let budget_s = first.filter(|load| load.users.is_none()).and_then(|load| load.budget_s);
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
    let mut rows: Vec<ApplicationRow> = clusters.iter().map(|cluster| described(cluster.plan())).collect();
    let mut remarks = Vec::new();
    let demands: Vec<Demand> = clusters.iter().map(|cluster| cluster.plan().load.clone()).collect();
    if demands.iter().all(|demand| demand.users.is_none()) {
        find(&mut clusters, (&demands, topology.seed), (budget, closing_s), ground, &mut rows, &mut remarks)?;
    } else {
        keep(&mut clusters, (&demands, topology.seed), ground, &mut rows)?;
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
    if rows.iter().any(|row| row.tiers.get(Tier::Database.label()).is_some_and(|plan| plan.on == On::Qemu.to_string()))
    {
        remarks.push(
            "the database's files lay in its guest's memory: what it flushed cost no disk, whatever its durability says".to_owned(),
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
        budget_s: budget.seconds(),
        cpus: baremark_sys::affinity::allowed_cpus().map_or(0, |cpus| cpus.len()),
    })
}

/// Keeps the users of all applications at the same time, and measures one after the other.
fn keep(
    clusters: &mut [Cluster],
    (demands, seed): (&[Demand], u64),
    ground: &mut Ground<'_>,
    rows: &mut [ApplicationRow],
) -> Result<(), RunError> {
    let users = |demand: &Demand| demand.users.unwrap_or(1);
    let mut all = Vec::new();
    for (at, (cluster, demand)) in clusters.iter_mut().zip(demands).enumerate() {
        all.push(fixed::loaded(cluster, demand, users(demand), seed.wrapping_add(1000 * at as u64), ground)?);
    }
    if all.len() > 1 {
        for (loaded, demand) in all.iter_mut().zip(demands) {
            loaded.users(users(demand) as f64).map_err(RunError::Load)?;
        }
    }
    for ((loaded, demand), row) in all.iter_mut().zip(demands).zip(rows) {
        row.load = Some(fixed::window(loaded, demand, users(demand), ground)?.0);
    }
    Ok(())
}

/// Finds the most users of each application, and sees that they keep every limit.
fn find(
    clusters: &mut [Cluster],
    (demands, seed): (&[Demand], u64),
    (budget, closing_s): (&Budget, f64),
    ground: &mut Ground<'_>,
    rows: &mut [ApplicationRow],
    remarks: &mut Vec<String>,
) -> Result<(), RunError> {
    let mut all: Vec<Loaded<'_>> = clusters
        .iter_mut()
        .zip(demands)
        .enumerate()
        .map(|(at, (cluster, demand))| {
            let highest = Loaded::searchable(cluster, demand);
            let seed = seed.wrapping_add(1000 * at as u64);
            Loaded::new(cluster, demand, highest, seed, Arc::clone(&ground.interrupt))
        })
        .collect();
    let verifying_s: f64 = demands.iter().map(verify::takes_s).sum();
    let last_window_s = users::patience().seconds() + demands[0].search.settle_s;
    let deadline = budget.before_end(closing_s + verifying_s + last_window_s);
    match &mut all[..] {
        [only] => {
            rows[0].search = Some(search(only, &rows[0].name, demands[0].search.lowest, deadline, ground, remarks)?);
        }
        several => instances::find(several, deadline, ground, rows, remarks)?,
    }
    if rows.iter().any(|row| row.search.as_ref().is_some_and(|search| search.ended == Ended::TimeOver)) {
        remarks.push(format!(
            "the time budget of {:.0} s ended the search before its last step: its interval lies between what kept the limits and what broke them",
            budget.seconds().unwrap_or(0.0)
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

pub(crate) fn instance(told: Told) -> InstanceRow {
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

pub(crate) fn described(plan: &Application) -> ApplicationRow {
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
        cycle_s: plan.load.cycle_s,
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

/// The most users of one application: those that were seen to keep every limit, within what the search and the attempts say;
/// where every attempt broke one, no more than the fewest that did.
fn most(row: &ApplicationRow) -> Option<Users> {
    let found = row.search.as_ref()?.maximum?;
    let basis = match found.basis {
        Basis::FreshTrials => FRESH,
        Basis::WithinRun => WITHIN,
        Basis::Bracket => BRACKET,
    };
    let kept = row.attempts.iter().filter(|attempt| attempt.kept).map(|attempt| attempt.users).reduce(f64::max);
    let broke = row.attempts.iter().filter(|attempt| !attempt.kept).map(|attempt| attempt.users).reduce(f64::min);
    let most = kept.or(broke).unwrap_or(found.level);
    // What was seen to be kept, or to break, lies within or bounds.
    let low = found.low.map(|low| low.min(most).max(0.0));
    let high = broke.or(found.high).map(|high| high.max(most));
    Some(Users { most, verified: kept.is_some(), low, high, confidence: found.confidence, basis: basis.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::Attempt;
    use baremark_model::maximum::{Maximum, Plan};
    use baremark_model::qos::Qos;

    fn row(low: Option<f64>, high: Option<f64>, attempts: &[(f64, bool)]) -> ApplicationRow {
        let maximum =
            Maximum { level: 1000.0, low, high, confidence: 0.95, basis: Basis::WithinRun, isotonic_level: None };
        let search = maximum::Document {
            format: maximum::FORMAT.to_owned(),
            title: String::new(),
            factor: "users".to_owned(),
            qos: Qos::default(),
            plan: Plan::between(1.0, 2000.0),
            ended: Ended::Found,
            maximum: Some(maximum),
            shown_level: None,
            limited_by: Vec::new(),
            generator_was_the_limit: false,
            hysteresis: None,
            knee: Vec::new(),
            trials: Vec::new(),
        };
        let attempt =
            |(users, kept): &(f64, bool)| Attempt { users: *users, elapsed_s: 10.0, kept: *kept, broken: Vec::new() };
        ApplicationRow {
            name: "main".to_owned(),
            tiers: BTreeMap::new(),
            database: String::new(),
            bus: String::new(),
            tls: false,
            max_users: 2000,
            cycle_s: 1.0,
            search: Some(search),
            attempts: attempts.iter().map(attempt).collect(),
            load: None,
            invariants: None,
            instances: Vec::new(),
        }
    }

    #[test]
    fn what_is_reported_was_seen_and_lies_within_its_interval() {
        let ends = |row: &ApplicationRow| most(row).map(|users| (users.most, users.low, users.high, users.verified));
        let (low, high) = (Some(970.0), Some(1030.0));
        let first = row(low, high, &[(950.0, true)]);
        assert_eq!(ends(&first), Some((950.0, Some(950.0), high, true)), "the interval takes in what was seen");
        let second = row(low, high, &[(950.0, false), (850.0, true)]);
        assert_eq!(ends(&second), Some((850.0, Some(850.0), Some(950.0), true)), "what broke bounds it from above");
        let unseen = row(low, high, &[]);
        assert_eq!(ends(&unseen), Some((1000.0, low, high, false)));
        let none = row(low, high, &[(950.0, false), (700.0, false)]);
        let (found, from, to, verified) = ends(&none).expect("a maximum");
        assert!(!verified && from.expect("a bound") <= 700.0, "{found}: {from:?} to {to:?}");
    }

    #[test]
    fn several_are_summed_with_the_weakest_of_their_words() {
        let mut other = row(Some(970.0), Some(1030.0), &[(950.0, true)]);
        if let Some(maximum) = other.search.as_mut().and_then(|search| search.maximum.as_mut()) {
            maximum.basis = Basis::Bracket;
        }
        let both = [row(Some(970.0), Some(1030.0), &[]), other];
        let users = total(&both).expect("a sum");
        assert_eq!((users.most, users.low, users.high), (1950.0, Some(1920.0), Some(2060.0)));
        assert_eq!((users.verified, users.basis.as_str()), (false, BRACKET));
    }
}
