//! What the jobs of all workloads on databases share: data that is loaded once and kept, a database on a copy of it in each
//! phase, the load, and the checks that decide whether there is a result.

use crate::conditions::{self, Condition};
use crate::database::{Connection, Database, Failure};
use crate::disk::{DiskCounters, DiskUse};
use crate::engine::{self, Client, Load, LoadError, Outcome};
use crate::equal_utilization::{self, Step};
use crate::kept::{Kept, KeptError};
use crate::loading::Loader;
use crate::parameters::Common;
use crate::result;
use crate::server::{Server, ServerError, Setup};
use baremark_model::job::{JobError, JobRun, Surroundings};
use baremark_model::seam::Sample;
use baremark_model::units::Bytes;
use baremark_services::service::ServiceError;
use baremark_sys::clock;
use baremark_sys::cpu_time::CpuTime;
use baremark_sys::file_system::FileSystem;
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// Room for the log of a database in addition to its data, as a share of that and at least so much.
const LOG_BYTES: u64 = 256 << 20;

/// What a workload brings.
pub(crate) trait Workload {
    /// Its name, and a suffix that distinguishes its data from that of other runs, such as `order-entry-1`.
    fn name(&self) -> String;
    /// Bytes of its data on disk, about.
    fn bytes(&self) -> u64;
    /// Names of its operations.
    fn operations(&self) -> &'static [&'static str];
    /// Names of the steps of its operations; see [`Client::steps`].
    fn steps(&self) -> &'static [&'static str] {
        &[]
    }
    /// Fills an empty database.
    fn load(&self, loader: &Loader<'_>) -> Result<(), Failure>;
    /// Terminals of the next phase, `connections` of them.
    fn clients(&mut self, connections: usize, database: &dyn Database) -> Vec<Box<dyn Client>>;
    /// Puts the load of a phase on the database. `meter` is read at both ends of each measured time.
    fn apply(
        &mut self,
        database: &dyn Database,
        connections: usize,
        load: &Load,
        meter: &mut dyn FnMut() -> u64,
        interrupt: &AtomicBool,
    ) -> Result<Outcome, LoadError> {
        let mut clients = self.clients(connections, database);
        engine::run(database, &mut clients, self.operations(), load, meter, interrupt)
    }
    /// Checks the database after the load: what was checked, or why the run is not a result.
    fn check(&self, connection: &mut dyn Connection) -> Result<Result<Vec<String>, String>, Failure>;
    /// Metrics that workloads of one measured time have in common.
    fn measured(&self, outcome: &Outcome) -> Vec<Sample> {
        result::samples(outcome)
    }
    /// Metrics of its own.
    fn samples(&self, outcome: &Outcome) -> Vec<Sample>;
    /// Metrics of what the machine's disks did in the measured time.
    fn disk_samples(&self, _disk: &DiskUse) -> Vec<Sample> {
        Vec::new()
    }
    /// Reasons for which the trial does not count though everything ended well.
    fn void(&self, _outcome: &Outcome) -> Vec<String> {
        Vec::new()
    }
    /// What a reader should know.
    fn flags(&self, _outcome: &Outcome) -> Vec<String> {
        Vec::new()
    }
}

/// A workload that can be run in each phase.
pub(crate) struct Ready<W> {
    workload: W,
    setup: Setup,
    load: Load,
    /// The CPU utilization at which throughput is interpolated, in percent.
    utilization: Option<f64>,
    version: String,
    kept: Kept,
    server: Server,
    in_memory: bool,
    interrupt: Arc<AtomicBool>,
}

impl<W: Workload> Ready<W> {
    /// Loads the data unless it is kept already.
    ///
    /// # Errors
    /// What is missing, too small a disk, or what the database says.
    pub(crate) fn new(workload: W, common: Common, around: Surroundings<'_>) -> Result<Self, JobError> {
        let Common { setup, mut load, root, utilization } = common;
        let utilization = utilization.map(|percent| percent as f64);
        load.seed = around.seed;
        load.cpus = around.cpus.to_vec();
        let version = setup.kind.version().map_err(|why| job_error(why, around.interrupt))?;
        make_root(&root)?;
        let name = format!("{}-{}-{}", setup.kind.word(), workload.name(), folder_word(&version));
        let kept = Kept::open(&root, &name).map_err(|why| job_error(why.into(), around.interrupt))?;
        let system = FileSystem::of(&root).map_err(|why| JobError::failed(format!("{}: {why}", root.display())))?;
        room(&root, &kept, workload.bytes() + setup.kind.base_bytes(), system.free_bytes)?;
        let start = || -> Result<Server, ServerError> {
            let _held = kept.hold(around.interrupt)?;
            let mut server = Server::start(&setup, &root, &kept.secret()?, around.interrupt)?;
            if !kept.is_there() {
                fill(&workload, &mut server, &kept, around)?;
            }
            // Other arms run first, perhaps.
            server.stop();
            Ok(server)
        };
        let server = start().map_err(|why| job_error(why, around.interrupt))?;
        let interrupt = Arc::clone(around.interrupt);
        Ok(Ready { workload, setup, load, utilization, version, kept, server, in_memory: system.in_memory, interrupt })
    }

    fn reset(&mut self) -> Result<(), ServerError> {
        match self.server.replace_data(&self.kept) {
            Err(ServerError::Kept(KeptError::Damaged(file))) => {
                // It is loaded anew with the next preparation.
                let _held = self.kept.hold(&self.interrupt)?;
                self.kept.remove()?;
                Err(KeptError::Damaged(file).into())
            }
            other => other,
        }?;
        self.server.restart(&self.interrupt)
    }

    /// One phase.
    ///
    /// # Errors
    /// A load that failed, or a database that is not as it should be after it.
    pub(crate) fn once(&mut self) -> Result<JobRun, JobError> {
        let begun = Instant::now();
        self.reset().map_err(|why| job_error(why, &self.interrupt))?;
        let before_ns = u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let database = self.server.database();
        let (connections, names) = (self.setup.connections, self.workload.operations());
        let (server, mut disk) = (&mut self.server, DiskCounters::open());
        let mut meter = || {
            disk.mark();
            server.cpu_ns()
        };
        let (load, interrupt) = (&self.load, &*self.interrupt);
        let outcome = match self.utilization {
            None => {
                self.workload.apply(&*database, connections, load, &mut meter, interrupt).map(|one| (one, Vec::new()))
            }
            Some(_) => stepped(&mut self.workload, &*database, connections, load, &mut meter, interrupt),
        };
        let (outcome, steps) = outcome.map_err(|why| match why {
            LoadError::Interrupted => JobError::Interrupted,
            failed @ LoadError::Failed { .. } => JobError::failed(failed),
        })?;
        if outcome.ended() == 0 {
            return Err(JobError::failed("no transaction ended in the measured time"));
        }
        let checked = database.connect().and_then(|mut connection| self.workload.check(&mut *connection));
        let checks = match checked.map_err(|why| JobError::failed(format!("checking the database: {why}")))? {
            Ok(checks) => checks,
            Err(broken) => {
                return Err(JobError::failed(format!("the database is inconsistent after the run: {broken}")));
            }
        };
        drop(database);
        self.server.stop();
        let mut samples = self.workload.measured(&outcome);
        samples.extend(self.workload.samples(&outcome));
        samples.extend(disk.used().map(|used| self.workload.disk_samples(&used)).unwrap_or_default());
        let mut flags = result::flags(&outcome, &self.load, self.in_memory);
        flags.extend(self.workload.flags(&outcome));
        if let Some(utilization) = self.utilization {
            samples.extend(equal_utilization::samples(&steps, utilization));
            flags.extend(equal_utilization::flag(&steps, utilization));
        }
        let bytes = self.kept.bytes().unwrap_or(0);
        Ok(JobRun {
            samples,
            checked: format!("{} transactions; {}", outcome.ended(), checks.join("; ")),
            flags,
            void: self.workload.void(&outcome),
            points: result::points(&outcome, names, self.workload.steps(), before_ns),
            detail: Some(result::detail(&outcome, &self.setup, &self.version, bytes, checks)),
        })
    }
}

/// Runs the load with more and more connections, which share its time. Returns the outcome of the fastest step, and all steps.
fn stepped(
    workload: &mut impl Workload,
    database: &dyn Database,
    connections: usize,
    load: &Load,
    meter: &mut dyn FnMut() -> u64,
    interrupt: &AtomicBool,
) -> Result<(Outcome, Vec<Step>), LoadError> {
    let (levels, begun_ns) = (equal_utilization::levels(connections), clock::monotonic_ns());
    let parts = u32::try_from(levels.len()).unwrap_or(u32::MAX);
    let load = Load { warm_up: load.warm_up / parts, duration: load.duration / parts, ..load.clone() };
    let mut clients = workload.clients(connections, database);
    let (mut fastest, mut steps) = (Outcome::default(), Vec::new());
    for level in levels {
        let before_ns = clock::monotonic_ns() - begun_ns;
        let mut marks = Vec::new();
        let mut marked = || {
            marks.extend(CpuTime::now());
            meter()
        };
        let clients = &mut clients[..level];
        let mut outcome = engine::run(database, clients, workload.operations(), &load, &mut marked, interrupt)?;
        outcome.begin_ns += before_ns;
        let share = marks.first().zip(marks.last()).and_then(|(first, last)| last.share_since(first));
        let utilization = share.map(|share| 100.0 * share);
        steps.extend(utilization.map(|utilization| Step { connections: level, utilization, per_s: outcome.per_s() }));
        if outcome.per_s() >= fastest.per_s() {
            fastest = outcome;
        }
    }
    Ok((fastest, steps))
}

fn fill(
    workload: &impl Workload,
    server: &mut Server,
    kept: &Kept,
    around: Surroundings<'_>,
) -> Result<(), ServerError> {
    // SQLite has one writer.
    let connections = server.address().map_or(1, |_| around.cpus.len().max(1));
    let database = server.database();
    let (progress, interrupt) = (&|_, _| (), &**around.interrupt);
    workload.load(&Loader { database: &*database, connections, progress, interrupt })?;
    drop(database);
    server.stop();
    kept.put(&server.data())?;
    Ok(())
}

/// Refuses loaded data that violates a condition.
///
/// # Errors
/// Which do not hold, or what the database says.
pub(crate) fn sound(database: &dyn Database, conditions: &[Condition]) -> Result<(), Failure> {
    match conditions::broken(&mut *database.connect()?, conditions)? {
        Some(broken) => Err(Failure::other(format!("the loaded data is inconsistent: {broken}"))),
        None => Ok(()),
    }
}

/// Checks the conditions and what was acknowledged, in words; see [`Workload::check`].
///
/// # Errors
/// What the database says.
pub(crate) fn verdict(
    connection: &mut dyn Connection,
    conditions: &[Condition],
    unaccounted: impl FnOnce(&mut dyn Connection) -> Result<Option<String>, Failure>,
) -> Result<Result<Vec<String>, String>, Failure> {
    if let Some(broken) = conditions::broken(connection, conditions)? {
        return Ok(Err(broken));
    }
    if let Some(unaccounted) = unaccounted(connection)? {
        return Ok(Err(unaccounted));
    }
    let held = format!("{} consistency conditions hold", conditions.len());
    Ok(Ok(vec![held, "every acknowledged transaction is in the database".to_owned()]))
}

fn make_root(root: &Path) -> Result<(), JobError> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(root);
    made.map_err(|why| JobError::Missing {
        what: format!("the folder {} cannot be made: {why}", root.display()),
        remedy: "name another with the parameter data".to_owned(),
    })
}

/// Refuses a disk that is too small for the kept data, a copy of it and the database's log.
fn room(root: &Path, kept: &Kept, bytes: u64, free: u64) -> Result<(), JobError> {
    let copies = if kept.is_there() { 1 } else { 2 };
    let needed = copies * bytes + bytes / 2 + LOG_BYTES;
    if free >= needed {
        return Ok(());
    }
    Err(JobError::Missing {
        what: format!(
            "{} has {:.1} free; the database takes {:.1}, and {:.1} with a copy for each run and its log",
            root.display(),
            Bytes(free),
            Bytes(bytes),
            Bytes(needed)
        ),
        remedy: "make room, lower the scale, or name another folder with the parameter data".to_owned(),
    })
}

/// A version as part of a folder's name.
fn folder_word(version: &str) -> String {
    let digits = |c: char| c.is_ascii_digit() || c == '.';
    let start = version.find(|c: char| c.is_ascii_digit()).unwrap_or(version.len());
    version[start..].chars().take_while(|c| digits(*c)).collect()
}

fn job_error(why: ServerError, interrupt: &AtomicBool) -> JobError {
    match why {
        _ if interrupt.load(Ordering::Acquire) => JobError::Interrupted,
        ServerError::Service(ServiceError::Missing { kind, program, package }) => JobError::Missing {
            what: format!("{kind} is not installed ({program})"),
            remedy: format!("install it: apt-get install {package}"),
        },
        ServerError::Kept(KeptError::Damaged(file)) => {
            let file: PathBuf = file;
            JobError::failed(format!("{} is not as it was loaded; it is loaded anew with the next run", file.display()))
        }
        other => JobError::failed(other),
    }
}
