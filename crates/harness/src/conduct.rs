//! A run from its start to its end: clusters, load, check, and everything stopped whatever happens.

use crate::cluster::{Cluster, ClusterError, Places, Surroundings, Told};
use crate::document::{ApplicationRow, Document, FORMAT, InstanceRow, Invariants, TierRow, Users};
use crate::fixed;
use crate::instances;
use crate::topology::{Application, Demand, Topology};
use crate::under_load::Loaded;
use crate::users;
use baremark_lab::search::{Search, SearchError, Step, UnderLoad};
use baremark_model::maximum::{self, Basis};
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

/// After a search, so much of the most users is measured once more, operation by operation.
const SHOWN_AT: f64 = 0.9;

/// Runs a topology. Everything that it starts is gone when it returns.
///
/// # Errors
/// Whatever makes a result impossible. An interrupted run that has measured something is a result that says so.
pub fn run(mut topology: Topology, ground: &mut Ground<'_>) -> Result<Document, RunError> {
    let begin = Instant::now();
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
    let mut rows: Vec<ApplicationRow> =
        clusters.iter().map(|cluster| described(cluster.plan(), topology.load.cycle_s)).collect();
    let mut remarks = Vec::new();
    let demand = topology.load.clone();
    match (&mut clusters[..], demand.users) {
        ([cluster], None) => {
            let found = search(cluster, &demand, topology.seed, ground, &mut remarks)?;
            show(cluster, &demand, &found, topology.seed, ground, &mut rows[0], &mut remarks)?;
            rows[0].search = Some(found);
        }
        (clusters, None) => instances::find(clusters, &demand, topology.seed, ground, &mut rows, &mut remarks)?,
        (clusters, Some(users)) => {
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
    if ground.interrupt.load(Ordering::Relaxed) {
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
        elapsed_s: begin.elapsed().as_secs_f64(),
        cpus: baremark_sys::affinity::allowed_cpus().map_or(0, |cpus| cpus.len()),
    })
}

/// Searches for the most users of one application.
pub(crate) fn search(
    cluster: &mut Cluster,
    demand: &Demand,
    seed: u64,
    ground: &mut Ground<'_>,
    remarks: &mut Vec<String>,
) -> Result<maximum::Document, RunError> {
    let interrupt = Arc::clone(&ground.interrupt);
    let title = cluster.plan().name.clone();
    let mut loaded = Loaded::new(cluster, demand, seed, Arc::clone(&interrupt));
    let scenario = loaded.load().map_err(RunError::Load)?.scenario;
    let qos = users::qos(&scenario, demand, users::Judged::Searched);
    let mut plan = demand.search;
    plan.highest = loaded.highest() as f64;
    plan.lowest = plan.lowest.min(plan.highest / 2.0);
    let watch = &mut *ground.watch;
    let mut search = Search {
        title: &title,
        factor: "users",
        qos: &qos,
        plan,
        interrupt: &interrupt,
        watch: &mut |step| watch(&Event::Search(Box::new(step.clone()))),
    };
    let (document, broken) = search.run(&mut loaded)?;
    remarks.extend(broken);
    Ok(document)
}

/// After a search: nearly the most users are kept for a window, so that there are figures for each operation.
fn show(
    cluster: &mut Cluster,
    demand: &Demand,
    found: &maximum::Document,
    seed: u64,
    ground: &mut Ground<'_>,
    row: &mut ApplicationRow,
    remarks: &mut Vec<String>,
) -> Result<(), RunError> {
    let highest = found.knee.iter().filter(|knee| knee.verdict != "fail").map(|knee| knee.level).fold(0.0, f64::max);
    let level = SHOWN_AT * found.maximum.map_or(highest, |maximum| maximum.level);
    if level < 1.0 || ground.interrupt.load(Ordering::Relaxed) || !cluster.fallen().is_empty() {
        return Ok(());
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "float casts saturate")]
    let users = (level as u64).clamp(1, cluster.plan().max_users);
    match fixed::keep(cluster, demand, users, seed, ground) {
        Ok(load) => {
            if let Some(first) = load.broken.first() {
                let (seconds, count) = (load.elapsed_s, load.broken.len());
                remarks.push(format!("{users} users for {seconds:.0} s broke {count} limits, such as {first}"));
            }
            row.load = Some(load);
        }
        Err(RunError::Load(why)) => remarks.push(format!("nearly the most users could not be shown: {why}")),
        Err(why) => return Err(why),
    }
    Ok(())
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
        max_users: plan.max_users,
        cycle_s,
        search: None,
        load: None,
        invariants: None,
        instances: Vec::new(),
    }
}

/// The sum of the maxima; the ends of the intervals are summed, which is on the safe side.
fn total(rows: &[ApplicationRow]) -> Option<Users> {
    let maxima: Option<Vec<maximum::Maximum>> = rows.iter().map(|row| row.search.as_ref()?.maximum).collect();
    let maxima = maxima.filter(|list| !list.is_empty())?;
    let sum = |of: fn(&maximum::Maximum) -> Option<f64>| maxima.iter().map(of).sum::<Option<f64>>();
    let fresh = maxima.iter().all(|one| one.basis == Basis::FreshTrials);
    Some(Users {
        most: maxima.iter().map(|one| one.level).sum(),
        low: sum(|one| one.low),
        high: sum(|one| one.high),
        confidence: maxima[0].confidence,
        basis: if fresh { "fresh-trials" } else { "within-run" }.to_owned(),
    })
}

/// Drains whatever load there is: a search that ended leaves a system at rest.
pub(crate) fn rest(loaded: &mut Loaded<'_>) -> Result<(), RunError> {
    loaded.drain().map_err(RunError::Load)
}
