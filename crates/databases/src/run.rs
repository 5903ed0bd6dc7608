//! What the jobs of all workloads on databases share: data that is loaded once and kept, a database on a copy of it in each
//! phase, the load, and the checks that decide whether there is a result.

use crate::conditions::{self, Condition};
use crate::database::{Connection, Database, Failure, Pipelined, Rows};
use crate::dataset_cache::{Kept, KeptError};
use crate::disk::{DiskCounters, DiskUse};
use crate::dvd_store::browser::Front;
use crate::dvd_store::front::Order;
use crate::engine::{self, Client, Load, LoadError, Outcome};
use crate::equal_utilization::{self, Step};
use crate::folders::Room;
use crate::interface::Interface;
use crate::kernel_work::KernelCounters;
use crate::loading::Loader;
use crate::parameters::{Common, server_of};
use crate::result;
use crate::server::{Server, ServerError, Setup};
use crate::sites::{self, Commits, Counted, Mark};
use crate::space::Data;
use baremark_disks::engine::EngineError;
use baremark_model::arm::ResolvedArm;
use baremark_model::descriptor::Descriptor;
use baremark_model::job::{Job, JobContext, JobError, JobRun, ReadyJob, ServerProgram, Update};
use baremark_model::knob::InvalidValue;
use baremark_model::loading::Loading;
use baremark_model::seam::Sample;
use baremark_model::wire::Point;
use baremark_networks::Namespace;
use baremark_sys::clock;
use baremark_sys::cpu_time::CpuTime;
use baremark_sys::file_system::FileSystem;
use std::cell::RefCell;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// What a workload brings.
pub(crate) trait Workload {
    /// What its data takes.
    fn data(&self, common: &Common) -> Data;
    /// Names of its operations.
    fn operations(&self) -> &'static [&'static str];
    /// Names of the steps of its operations; see [`Client::steps`].
    fn steps(&self) -> &'static [&'static str] {
        &[]
    }
    /// Fills an empty database.
    fn load(&self, loader: &Loader<'_>) -> Result<(), Failure>;
    /// The database has its data as they were loaded, and nothing of an earlier phase.
    fn loaded(&mut self) {}
    /// Whether a phase can begin with the data that the one before has left: then a trial of two sites that take turns has a database that runs for all of it.
    fn continues(&self) -> bool {
        false
    }
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
    /// Parts of the measured time, which was then, that have the distributions of its own percentiles.
    fn points(&self, _whole: (u64, u64)) -> Vec<Point> {
        Vec::new()
    }
    /// Whether page faults, context switches and TLB shootdowns of the server are among its metrics.
    fn counts_kernel_work(&self) -> bool {
        false
    }
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

/// The workload that an arm asks for, and what it says of database and load.
pub(crate) type WorkloadOfArm = (Box<dyn Workload>, Common);

/// A workload on databases, as a job.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OnDatabase {
    /// The table of its parameters and metrics.
    pub descriptor: &'static Descriptor,
    /// What an arm asks for at a site.
    pub of: fn(&ResolvedArm, JobContext<'_>) -> Result<WorkloadOfArm, InvalidValue>,
}

impl Job for OnDatabase {
    fn descriptor(&self) -> &'static Descriptor {
        self.descriptor
    }

    fn server(&self, arm: &ResolvedArm) -> Option<ServerProgram> {
        server_of(arm)
    }

    fn prepare<'s>(&self, arm: &'s ResolvedArm, around: JobContext<'s>) -> Result<Box<dyn ReadyJob + 's>, JobError> {
        self.prepare_reporting(arm, around, &mut |_| ())
    }

    fn prepare_reporting<'s>(
        &self,
        arm: &'s ResolvedArm,
        around: JobContext<'s>,
        report: &mut dyn FnMut(Loading),
    ) -> Result<Box<dyn ReadyJob + 's>, JobError> {
        let (workload, common) = (self.of)(arm, around).map_err(JobError::failed)?;
        Ok(Box::new(PreparedRun::new(workload, common, around, report)?))
    }
}

/// A workload that can be run in each phase.
struct PreparedRun {
    workload: Box<dyn Workload>,
    setup: Setup,
    load: Load,
    /// The CPU utilization at which throughput is interpolated, in percent.
    utilization: Option<f64>,
    version: String,
    kept: Kept,
    server: Server,
    in_memory: bool,
    /// Its phases take turns with those of another site.
    takes_turns: bool,
    /// Its database runs from one phase to the next.
    stays_up: bool,
    /// It does so now.
    is_up: bool,
    interrupt: Arc<AtomicBool>,
}

impl PreparedRun {
    /// Loads the data unless it is kept already; `report` hears how far that has come.
    ///
    /// # Errors
    /// What is missing, too small a disk, or what the database says.
    fn new(
        workload: Box<dyn Workload>,
        common: Common,
        around: JobContext<'_>,
        report: &mut dyn FnMut(Loading),
    ) -> Result<Self, JobError> {
        let data = workload.data(&common);
        let Common { setup, mut load, folders, utilization } = common;
        let utilization = utilization.map(|percent| percent as f64);
        load.seed = around.seed;
        load.cpus = around.cpus.to_vec();
        if let Some((what, remedy)) = setup.sites.and_then(|sites| sites::missing(sites.mechanism)) {
            return Err(JobError::Missing { what, remedy });
        }
        let external = setup.external.is_some();
        let own = if external {
            String::new()
        } else {
            setup.kind.version().map_err(|why| job_error(why, around.interrupt))?
        };
        let kept = Kept::open(folders.kept()?, &data.place(&own)).map_err(unusable)?.made_by(data.made_by.clone());
        let running = &folders.running;
        let failed = |why| JobError::failed(format!("{}: {why}", running.display()));
        if !external {
            data.fits(kept.is_there(), Room::of(&folders).map_err(failed)?)?;
        }
        let in_memory = !external && FileSystem::of(running).map_err(failed)?.in_memory;
        let start = || -> Result<(Server, String), ServerError> {
            let _held = kept.hold(around.interrupt)?;
            if !external && kept.is_there() {
                return Ok((Server::of_kept(&setup, running, &kept.secret()?)?, own));
            }
            let mut server = Server::start(&setup, running, &kept.secret()?, around.interrupt)?;
            let version = server.external_version()?.unwrap_or(own);
            if !external {
                // It is stopped then: other arms run first, perhaps.
                fill(&*workload, &mut server, &kept, around, report)?;
            }
            Ok((server, version))
        };
        let (server, version) = start().map_err(|why| job_error(why, around.interrupt))?;
        let interrupt = Arc::clone(around.interrupt);
        Ok(PreparedRun {
            workload,
            setup,
            load,
            utilization,
            version,
            kept,
            server,
            in_memory,
            takes_turns: false,
            stays_up: false,
            is_up: false,
            interrupt,
        })
    }

    /// The data as they were loaded, on a server that runs; an external one is loaded anew, and `report` hears how far that has come.
    fn reset(&mut self, report: &mut dyn FnMut(Loading)) -> Result<(), ServerError> {
        if self.server.empty_external()? {
            let (database, connections) = (self.server.database(), self.load.cpus.len().max(1));
            let (report, interrupt) = (RefCell::new(report), &*self.interrupt);
            let report = &|loading| (report.borrow_mut())(loading);
            return Ok(self.workload.load(&Loader { database: &*database, connections, report, interrupt })?);
        }
        self.copy_data()?;
        self.server.restart(&self.interrupt)
    }

    /// The data as they were loaded, of a server that does not run.
    fn copy_data(&mut self) -> Result<(), ServerError> {
        match self.server.replace_data(&self.kept) {
            Err(ServerError::Kept(KeptError::Damaged(file))) => {
                // It is loaded anew with the next preparation. What another run has put there meanwhile, of another generator, is that run's.
                let _held = self.kept.hold(&self.interrupt)?;
                if self.kept.is_there() {
                    self.kept.remove()?;
                }
                Err(KeptError::Damaged(file).into())
            }
            other => other,
        }
    }

    /// A database that runs: with the data as they were loaded, or, where it stays up, with what the phase before has left.
    fn begin(&mut self, report: &mut dyn FnMut(Loading)) -> Result<(), JobError> {
        if !self.is_up {
            self.reset(report).map_err(|why| job_error(why, &self.interrupt))?;
            self.workload.loaded();
            self.is_up = self.stays_up;
        }
        Ok(())
    }

    /// What failed, and why the server is gone where that is why.
    fn failed(&mut self, what: &str) -> JobError {
        let ended = self.server.ended().map(|ended| format!("; {ended}"));
        JobError::failed(format!("{what}{}", ended.unwrap_or_default()))
    }

    /// How the server says that it syncs its log, where the setup says how it has to.
    fn read_back(&mut self) -> Result<Option<String>, JobError> {
        let Some(expected) = self.setup.wal_sync_method.clone() else { return Ok(None) };
        let mut rows = Rows::default();
        let database = self.server.database();
        let asked = database.connect().and_then(|mut connection| connection.query("show wal_sync_method", &mut rows));
        asked.map_err(|why| self.failed(&format!("reading wal_sync_method back: {why}")))?;
        let found = rows.text(0, 0);
        if found != expected {
            let what =
                format!("wal_sync_method = \"{expected}\": the server has {found}; remove it from server_settings");
            return Err(JobError::failed(what));
        }
        Ok(Some(format!("the server's wal_sync_method is {found}, read back from it")))
    }

    /// The web front, started where the setup has one. It and its connections end before the server does.
    fn front(&self) -> Result<Option<Front>, JobError> {
        let Some(pool) = self.setup.front else { return Ok(None) };
        let network = self.server.namespace().map(Namespace::path);
        let order = Order { endpoint: self.server.endpoint(), pool, address: self.server.host(), network };
        let own = std::env::current_exe().map_err(|why| JobError::failed(format!("finding this program: {why}")))?;
        let mut command = Command::new(own);
        command.arg("shop-front");
        Front::start(command, &order, &self.setup.cpus).map(Some).map_err(JobError::failed)
    }

    /// One phase; `report` hears how far loading has come, where each phase loads.
    ///
    /// # Errors
    /// A load that failed, or a database that is not as it should be after it.
    fn once(&mut self, report: &mut dyn FnMut(Loading)) -> Result<JobRun, JobError> {
        let begun = Instant::now();
        self.begin(report)?;
        let before_ns = u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let read_back = self.read_back()?;
        let database = self.server.database();
        let front = self.front()?;
        let driven = front
            .as_ref()
            .map_or_else(|| self.server.database(), |front| self.server.reached(Box::new(front.browsers())));
        let (connections, names) = (self.setup.connections, self.workload.operations());
        let commits = Arc::<Commits>::default();
        let pipelined = Pipelined(&*driven);
        let sent: &dyn Database = if self.setup.pipeline { &pipelined } else { &*driven };
        let counted = Counted { database: sent, commits: Arc::clone(&commits) };
        let asked: &dyn Database = if self.setup.sites.is_some() { &counted } else { sent };
        let (server, mut disk, mut interface) = (&mut self.server, DiskCounters::open(), Interface::default());
        // Of steps with more and more connections there is no one rate.
        let counts = self.workload.counts_kernel_work() && self.utilization.is_none();
        let mut kernel = counts.then(|| KernelCounters::of(server.whose(), &self.setup.cpus));
        let mut marks = Vec::new();
        let mut meter = || {
            kernel.iter_mut().for_each(KernelCounters::mark);
            disk.mark();
            marks.push(Mark::now(&commits, server.replica().as_deref()));
            if let Some(namespace) = server.namespace() {
                interface.mark(namespace);
            }
            server.cpu_ns() + front.as_ref().map_or(0, Front::cpu_ns)
        };
        let (load, interrupt) = (&self.load, &*self.interrupt);
        let outcome = match self.utilization {
            None => self.workload.apply(asked, connections, load, &mut meter, interrupt).map(|one| (one, Vec::new())),
            Some(_) => stepped(&mut *self.workload, asked, connections, load, &mut meter, interrupt),
        };
        drop((driven, front));
        let (outcome, steps) = outcome.map_err(|why| match why {
            LoadError::Interrupted => JobError::Interrupted,
            failed @ LoadError::Failed { .. } => self.failed(&failed.to_string()),
        })?;
        if outcome.ended_in_time == 0 {
            return Err(self.failed("no transaction ended in the measured time"));
        }
        let checked = database.connect().and_then(|mut connection| self.workload.check(&mut *connection));
        let mut checks = match checked.map_err(|why| self.failed(&format!("checking the database: {why}")))? {
            Ok(checks) => checks,
            Err(broken) => {
                return Err(JobError::failed(format!("the database is inconsistent after the run: {broken}")));
            }
        };
        checks.extend(self.check_standby(&*database)?);
        let mut samples = self.workload.measured(&outcome);
        if let (Some(_), [first, .., last]) = (self.setup.sites, &marks[..]) {
            let way = self.server.replica().and_then(|replica| replica.way());
            samples.extend(sites::samples((*first, *last), outcome.ended_in_time, way));
        }
        drop(database);
        if !self.is_up {
            self.server.stop();
        }
        checks.extend(self.check_copies()?);
        samples.extend(self.workload.samples(&outcome));
        // Nor is there of what the disks did.
        let used = disk.used().filter(|_| self.utilization.is_none());
        samples.extend(used.map(|used| self.workload.disk_samples(&used)).unwrap_or_default());
        let mut flags = result::flags(&outcome, &self.load, self.in_memory);
        flags.extend(result::placement(&self.setup, &self.load));
        flags.extend(read_back);
        flags.extend(self.workload.flags(&outcome));
        if self.utilization.is_none() {
            samples.extend(interface.samples());
        }
        if let Some(kernel) = &kernel {
            samples.extend(kernel.samples());
            flags.extend(kernel.flags());
        }
        if self.setup.sites.is_some_and(|sites| sites.round_trip.is_some()) {
            flags.push("both sites are on this machine: they share its CPUs and its disk".to_owned());
        }
        if let Some(utilization) = self.utilization {
            samples.extend(equal_utilization::samples(&steps, utilization));
            flags.extend(equal_utilization::flag(&steps, utilization));
        }
        let bytes = self.kept.bytes().unwrap_or(0);
        let mut points = result::points(&outcome, names, self.workload.steps(), before_ns);
        let begin = before_ns + outcome.begin_ns;
        points.extend(self.workload.points((begin, begin + outcome.elapsed_ns)));
        Ok(JobRun {
            samples,
            checked: format!("{} transactions; {}", outcome.ended(), checks.join("; ")),
            flags,
            void: self.workload.void(&outcome),
            points,
            detail: Some(result::detail(&outcome, names, &self.setup, &self.version, bytes, checks)),
        })
    }
}

impl PreparedRun {
    /// Checks what the standby has once it has applied everything, as the first server is checked.
    fn check_standby(&mut self, primary: &dyn Database) -> Result<Option<String>, JobError> {
        let Some(standby) = self.server.standby() else { return Ok(None) };
        let interrupt = Arc::clone(&self.interrupt);
        let caught_up =
            self.server.replica().map_or(Ok(()), |replica| replica.catch_up(primary, &*standby, &interrupt));
        caught_up.map_err(|why| job_error(why, &interrupt))?;
        let checked = standby.connect().and_then(|mut connection| self.workload.check(&mut *connection));
        match checked.map_err(|why| JobError::failed(format!("checking the standby: {why}")))? {
            Ok(_) => Ok(Some("the standby holds the same".to_owned())),
            Err(broken) => Err(JobError::failed(format!("the standby is inconsistent after the run: {broken}"))),
        }
    }

    /// Compares the copies of a disk that was stopped.
    fn check_copies(&mut self) -> Result<Option<String>, JobError> {
        let compared = self.server.replica().map_or(Ok(None), sites::Replica::compare);
        match compared.map_err(|why| JobError::failed(format!("comparing the copies of the disk: {why}")))? {
            None => Ok(None),
            Some(Ok(equal)) => Ok(Some(format!("both copies of {equal} are equal"))),
            Some(Err(place)) => Err(JobError::failed(format!("the copies of the disk differ in {place}"))),
        }
    }
}

impl ReadyJob for PreparedRun {
    fn works_in_own_processes(&self) -> bool {
        // An embedded database is in this process.
        self.setup.external.is_none()
    }

    fn takes_turns(&mut self) {
        self.takes_turns = true;
        // Huge pages are reserved for one server, mostly: one that keeps them would leave the other side's none.
        self.stays_up = self.workload.continues() && !self.setup.huge_pages;
    }

    fn warm_up(&mut self) -> Result<(), JobError> {
        match (self.stays_up, self.takes_turns) {
            (true, _) => self.begin(&mut |_| ()),
            // The other site, which is prepared next, sees how much room is left next to this copy.
            (false, true) => self.copy_data().map_err(|why| job_error(why, &self.interrupt)),
            (false, false) => Ok(()),
        }
    }

    fn rest(&mut self) -> Result<(), JobError> {
        self.server.suspend(&self.interrupt).map_err(|why| job_error(why, &self.interrupt))
    }

    fn wake(&mut self) {
        self.server.resume();
    }

    fn resting_cpu_ns(&self) -> u64 {
        self.server.suspended_cpu_ns()
    }

    fn run(&mut self) -> Result<JobRun, JobError> {
        self.once(&mut |_| ())
    }

    fn resume(&mut self, _: &[serde_json::Value], report: &mut dyn FnMut(Update)) -> Result<JobRun, JobError> {
        self.once(&mut |loading| report(Update::Loading(loading)))
    }
}

/// Runs the load with more and more connections, which share its time. Returns the outcome of the fastest step, and all steps.
fn stepped(
    workload: &mut dyn Workload,
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
    workload: &dyn Workload,
    server: &mut Server,
    kept: &Kept,
    around: JobContext<'_>,
    report: &mut dyn FnMut(Loading),
) -> Result<(), ServerError> {
    // SQLite has one writer.
    let connections = server.address().map_or(1, |_| around.cpus.len().max(1));
    let database = server.database();
    let (report, interrupt) = (RefCell::new(report), &**around.interrupt);
    let report = &|loading| (report.borrow_mut())(loading);
    workload.load(&Loader { database: &*database, connections, report, interrupt })?;
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

/// A folder of kept data that cannot be made, or that others control.
fn unusable(why: KeptError) -> JobError {
    JobError::Missing {
        what: format!("the folder of loaded data cannot be used: {why}"),
        remedy: "or name another with the parameter data".to_owned(),
    }
}

fn job_error(why: ServerError, interrupt: &AtomicBool) -> JobError {
    match why {
        _ if interrupt.load(Ordering::Acquire) => JobError::Interrupted,
        ServerError::Service(why) => why.into(),
        ServerError::Network(why) => JobError::Missing {
            what: format!("network = \"lab\": {why}"),
            remedy: "run as the superuser, or set network = \"loopback\"".to_owned(),
        },
        ServerError::Disk(EngineError::Missing { what, remedy }) => JobError::Missing { what, remedy },
        ServerError::Kept(KeptError::Damaged(file)) => {
            let file: PathBuf = file;
            JobError::failed(format!("{} is not as it was loaded; it is loaded anew with the next run", file.display()))
        }
        other => JobError::failed(other),
    }
}
