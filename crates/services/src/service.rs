//! The seam of a service: what an adapter says of its program, and of each of its instances, from the private folder to the end.
//!
//! Programs that we start as the superuser run as another user, each that of its package or nobody; without one nothing is started. Their
//! environment is made for them: what this program has in its own, secrets among it, is not handed on. Whatever happens to the caller, the kernel tells the program by its death signal; what is dropped is killed with all its
//! processes.

use crate::card::{Card, Install, Tier};
use crate::error::{self, ServiceError};
use crate::exchange;
use crate::order::{Order, Upstream};
use crate::place::{Control, Place};
use crate::recipe::{Ready, Recipe, Reload, Step};
use crate::remote_site::{self, Answer, Told};
use crate::statistics::Statistics;
use crate::users;
use baremark_model::job::ServerProgram;
use baremark_model::knob::Knob;
use baremark_sys::confine::{self, Held, Limits, MemoryLimit};
use baremark_sys::ending;
use baremark_sys::kill_tree::Family;
use baremark_sys::log_tail::LogTail;
use baremark_sys::private_folder::directory::Directory;
use baremark_sys::process_tree::{Process, Usage, Waits};
use baremark_sys::registry::Record;
use baremark_sys::stall_group::{StallGroup, Stalls};
use baremark_sys::subreaper;
use baremark_sys::suspended::{self, Suspended};
use std::fs;
use std::io::{self, Read};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// How often a waiting caller looks again.
const GLANCE: Duration = Duration::from_millis(10);
/// How long a command of preparation may take.
const STEP_LIMIT: Duration = Duration::from_secs(300);
/// How long its processes may take to be gone once they are killed.
const KILL_LIMIT: Duration = Duration::from_secs(5);
/// How long its processes may take to stop where they are: as long as what they wait for from a disk.
const SUSPEND_LIMIT: Duration = Duration::from_secs(10);
/// How long the log of a dead program may stay open in somebody else's hands.
const LOG_LIMIT: Duration = Duration::from_secs(2);

/// A program that serves a tier. An adapter starts nothing: it says what is to be done.
pub trait Service: Sync {
    /// What stands of it once for all.
    fn card(&self) -> &'static Card;

    /// Its name in a topology.
    fn kind(&self) -> &'static str {
        self.card().kind
    }

    /// Tiers that it can serve.
    fn tiers(&self) -> &'static [Tier] {
        self.card().tiers
    }

    /// Its typed settings.
    fn knobs(&self) -> &'static [Knob] {
        self.card().knobs
    }

    /// Where its program comes from.
    fn install(&self) -> Install {
        self.card().install
    }

    /// The fingerprint of the source that decides what a new instance's data holds, before anybody puts rows into it: data that is kept is of one such source.
    fn source(&self) -> &'static str {
        ""
    }

    /// Files, commands and readiness of one instance.
    ///
    /// # Errors
    /// When these settings cannot be together.
    fn configure(&self, order: &Order) -> Result<Recipe, ServiceError>;

    /// What it tells of itself while it runs.
    ///
    /// # Errors
    /// When it does not answer.
    fn statistics(&self, instance: &Instance) -> Result<Statistics, ServiceError>;

    /// Lets it send requests to just these servers from now on, without failing one.
    ///
    /// # Errors
    /// When it cannot do that, or did not do it in time.
    fn rewire(&self, instance: &mut Instance, upstreams: &[Upstream]) -> Result<(), ServiceError> {
        let _ = upstreams;
        Err(ServiceError::Refused {
            name: instance.name().to_owned(),
            what: format!("{} has no servers behind it that could change", self.kind()),
            remedy: "put a balancer or a web server before the tier".to_owned(),
        })
    }
}

/// The program of a service, as planning looks for it: the level of `parameter` that chooses the service, and what a study writes to do without.
#[must_use]
pub fn sought(service: &dyn Service, parameter: &'static str, instead: Option<&'static str>) -> ServerProgram {
    let Install { programs: files, package, .. } = service.install();
    ServerProgram { parameter, name: service.kind(), files, package, instead }
}

/// The program of a service on this machine.
///
/// # Errors
/// [`ServiceError::Missing`] with the command that installs it.
pub fn program(service: &dyn Service) -> Result<PathBuf, ServiceError> {
    program_below(&sought(service, "", None), Path::new("/"))
}

/// A server's program among the files of another system, which are in this folder.
///
/// # Errors
/// As [`program`].
pub fn program_below(sought: &ServerProgram, root: &Path) -> Result<PathBuf, ServiceError> {
    let below = |path: &&str| root.join(path.trim_start_matches('/')).display().to_string();
    let files: Vec<String> = sought.files.iter().map(below).collect();
    let found = files.iter().find_map(|pattern| expand(pattern));
    found.ok_or_else(|| ServiceError::Missing { kind: sought.name, program: files.join(", "), package: sought.package })
}

/// The file that a pattern with at most one `*` leads to; the last in numerical order of several.
fn expand(pattern: &str) -> Option<PathBuf> {
    let Some((before, after)) = pattern.split_once('*') else {
        return Some(PathBuf::from(pattern)).filter(|path| path.is_file());
    };
    let mut names: Vec<String> = std::fs::read_dir(Path::new(before))
        .ok()?
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    baremark_model::order::by_key(&mut names, |name| (name.parse::<u64>().unwrap_or(0), name.clone()));
    names.iter().rev().map(|name| PathBuf::from(format!("{before}{name}{after}"))).find(|path| path.is_file())
}

/// A service that has been started.
pub struct Instance {
    service: &'static dyn Service,
    order: Order,
    recipe: Recipe,
    place: Box<dyn Place>,
    limits: Limits,
    running: Option<Running>,
    /// Processor time of earlier lives.
    spent_ns: u64,
    prepared: bool,
}

struct Running {
    child: Child,
    program: PathBuf,
    log: LogTail,
    held: Held,
    /// Counts its stalls, where it runs here and the kernel does.
    stalls: Option<StallGroup>,
    /// What it had used when it was last seen alive.
    seen: Usage,
    /// While it is suspended.
    suspended: Option<Suspended>,
    /// That it may be found suspended, once it was.
    record: Option<Box<dyn Record>>,
    /// The processes that it had then.
    recorded: Vec<Process>,
}

impl Instance {
    /// Configures and starts an instance. It is not ready then.
    ///
    /// # Errors
    /// A setting that cannot be, a taken port, a full disk, a program that is not there.
    pub fn start(
        service: &'static dyn Service,
        order: Order,
        limits: &Limits,
        place: Box<dyn Place>,
    ) -> Result<Instance, ServiceError> {
        let mut instance = Instance::configured(service, order, limits, place)?;
        instance.run()?;
        Ok(instance)
    }

    /// Configures an instance whose data its caller puts into its folder: nothing is prepared, and it runs once [`Instance::restart`] is
    /// called.
    ///
    /// # Errors
    /// A setting that cannot be, a full disk.
    pub fn prepared(
        service: &'static dyn Service,
        order: Order,
        limits: &Limits,
        place: Box<dyn Place>,
    ) -> Result<Instance, ServiceError> {
        let mut instance = Instance::configured(service, order, limits, place)?;
        instance.prepared = true;
        Ok(instance)
    }

    fn configured(
        service: &'static dyn Service,
        mut order: Order,
        limits: &Limits,
        place: Box<dyn Place>,
    ) -> Result<Instance, ServiceError> {
        order.owner = place.owner(&order, service.card())?;
        let recipe = match place.control() {
            Some(control) => remote_site::recipe(control),
            None => service.configure(&order)?,
        };
        let instance = Instance {
            service,
            order,
            recipe,
            place,
            limits: limits.clone(),
            running: None,
            spent_ns: 0,
            prepared: false,
        };
        instance.make_folder().map_err(|why| instance.io("making its folder", why))?;
        for (name, text) in instance.recipe.files.clone() {
            instance.write(&name, &text)?;
        }
        Ok(instance)
    }

    fn run(&mut self) -> Result<(), ServiceError> {
        if self.place.is_here() {
            self.port_is_free()?;
        }
        if let Some(control) = self.place.control() {
            let text = remote_site::text(&self.order, self.service.kind(), &*self.place, control)
                .map_err(|why| self.io("writing the configuration of the remote instance", why))?;
            self.write(remote_site::FILE, &text)?;
        }
        if !self.prepared {
            for step in &self.recipe.prepare {
                self.output(&self.place.dress(&self.order, step.clone())?)?;
            }
        }
        let step = self.place.dress(&self.order, self.recipe.run.clone())?;
        let mut command = self.command(&step);
        let said = logged(&mut command).map_err(|why| self.io("making a pipe", why))?;
        let death_signal = self.place.death_signal(self.recipe.death_signal);
        let held = confine::hold(&mut command, &self.place.held_here(&self.limits), death_signal)
            .map_err(|why| self.io("setting its limits", why))?;
        let child = subreaper::start(&mut command)
            .map_err(|why| self.io(&format!("starting {}", step.program.display()), why))?;
        // Of a container the engine's client alone would be in it.
        let stalls = self.place.is_here().then(|| StallGroup::of(child.id())).flatten();
        // The command keeps the pipe's writing ends.
        drop(command);
        let log = LogTail::with_error(said, error::is_error);
        let (program, seen) = (step.program, Usage::default());
        let (suspended, record, recorded) = (None, None, Vec::new());
        self.running = Some(Running { child, program, log, held, stalls, seen, suspended, record, recorded });
        Ok(())
    }

    /// Waits until it serves.
    ///
    /// # Errors
    /// [`ServiceError::Failed`] when it ends, or is not ready within its limit, or `interrupt` is raised.
    pub fn wait_ready(&mut self, interrupt: &AtomicBool) -> Result<(), ServiceError> {
        self.wait_ready_within(self.recipe.ready_limit, interrupt)
    }

    /// The same within another limit.
    ///
    /// # Errors
    /// As [`Instance::wait_ready`].
    pub fn wait_ready_within(&mut self, limit: Duration, interrupt: &AtomicBool) -> Result<(), ServiceError> {
        let deadline = Instant::now() + limit;
        loop {
            if !self.is_running() {
                return Err(self.ended("ended before it was ready"));
            }
            if self.is_ready() {
                break;
            }
            if interrupt.load(Ordering::Relaxed) {
                return Err(self.failed("was not ready yet when the run was interrupted"));
            }
            if Instant::now() >= deadline {
                return Err(self.failed(format!("was not ready within {} s", limit.as_secs())));
            }
            thread::sleep(GLANCE);
        }
        if !self.prepared {
            for step in &self.recipe.after {
                self.output(step)?;
            }
            self.prepared = true;
        }
        Ok(())
    }

    /// Whether it answers as it should, now.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        match &self.recipe.ready {
            Ready::Answers { send, expect } if send.is_empty() && expect.is_empty() => {
                exchange::listens(self.order.plain())
            }
            Ready::Answers { send, expect } => exchange::beginning(self.order.plain(), send, expect.len())
                .is_ok_and(|answer| answer.starts_with(expect)),
            Ready::Command(step) => self.output(step).is_ok(),
            Ready::Carried(control) => remote_site::is_ready(*control, &self.order.secret),
        }
    }

    /// Whether its process lives.
    pub fn is_running(&mut self) -> bool {
        self.running.as_mut().is_some_and(|running| matches!(running.child.try_wait(), Ok(None)))
    }

    /// Stops its processes where they are until [`Instance::resume`]; when this returns, none of them runs. Whoever asks it something meanwhile waits.
    ///
    /// # Errors
    /// When it has ended, does not stop, has a process that is not below the one that was started, cannot be recorded though there could be a record, or runs where
    /// that cannot be done.
    pub fn suspend(&mut self) -> Result<(), ServiceError> {
        if self.running.as_ref().is_some_and(|running| running.suspended.is_some()) {
            return Ok(());
        }
        if !self.is_running() {
            return Err(self.ended("ended by itself"));
        }
        let root = self.pid().and_then(|started| self.place.processes(started));
        let Some(root) = root else { return Err(self.failed("cannot be suspended where it runs")) };
        self.record(root)?;
        let suspended = Suspended::of(root, SUSPEND_LIMIT).map_err(|why| self.io("suspending it", why))?;
        let mut family = Family::of(root, &self.recipe.run.program, &self.order.folder);
        let mut runs_on = family.members().map_err(|why| self.io("looking for its processes", why))?;
        runs_on.retain(|pid| !suspended.processes().iter().any(|process| process.pid == *pid));
        if !runs_on.is_empty() {
            return Err(self.failed(format!("cannot be suspended: not below its process {root} are {runs_on:?}")));
        }
        if let Some(running) = &mut self.running {
            running.suspended = Some(suspended);
        }
        Ok(())
    }

    /// Records that its processes may be found suspended, unless all that there are now are recorded already.
    fn record(&mut self, root: u32) -> Result<(), ServiceError> {
        let processes = suspended::processes(root).map_err(|why| self.io("suspending it", why))?;
        let Some(running) = &mut self.running else { return Ok(()) };
        if processes.iter().all(|process| running.recorded.contains(process)) {
            return Ok(());
        }
        // Nothing of it is suspended now.
        running.record.take().into_iter().for_each(Record::gone);
        match suspended::recorded(&processes) {
            Ok(record) => running.record = record,
            Err(why) if has_no_records(&why) => {}
            Err(why) => return Err(self.io("recording that it is suspended", why)),
        }
        running.recorded = processes;
        Ok(())
    }

    /// Lets it go on after [`Instance::suspend`].
    pub fn resume(&mut self) {
        if let Some(running) = &mut self.running {
            drop(running.suspended.take());
        }
    }

    /// CPU time of its processes since their start, in ns, while it is suspended; 0 while it is not.
    #[must_use]
    pub fn suspended_cpu_ns(&self) -> u64 {
        let suspended = self.running.as_ref().and_then(|running| running.suspended.as_ref());
        suspended.map_or(0, Suspended::cpu_ns)
    }

    /// Asks it to end and waits for that, at most `limit`; then it is killed.
    pub fn stop(&mut self, limit: Duration) {
        self.stop_unless(limit, &AtomicBool::new(false));
    }

    /// The same, and it is killed at once when `hurry` is raised.
    pub fn stop_unless(&mut self, limit: Duration, hurry: &AtomicBool) {
        self.resume();
        self.note_usage();
        // The number of one that has ended by itself may be somebody else's by now.
        if self.is_running()
            && let Some(running) = &mut self.running
        {
            let pid = self.place.target(running.child.id());
            drop(confine::send(pid.cast_signed(), self.recipe.stop_signal));
            let deadline = Instant::now() + limit;
            let is_over = || Instant::now() >= deadline || hurry.load(Ordering::Relaxed);
            drop(ending::wait_until(&mut running.child, is_over));
        }
        self.kill();
    }

    /// Kills it and all its processes, and waits until they are gone.
    pub fn kill(&mut self) {
        self.note_usage();
        let Some(mut running) = self.running.take() else { return };
        let root = running.child.id();
        // What cannot be killed within the limit hangs in the kernel; nobody could do more.
        drop(Family::of(root, &running.program, &self.order.folder).kill(KILL_LIMIT));
        drop(running.child.wait());
        running.record.take().into_iter().for_each(Record::gone);
        running.log.finish(LOG_LIMIT);
        self.spent_ns += running.seen.cpu_ns;
        self.place.clean(&self.order);
        drop(running.stalls);
        drop(running.held);
    }

    /// Starts it again on what it had in its folder.
    ///
    /// # Errors
    /// As [`Instance::start`].
    pub fn restart(&mut self) -> Result<(), ServiceError> {
        self.kill();
        self.run()
    }

    /// Lets it read its configuration again.
    ///
    /// # Errors
    /// When it cannot do that or is gone.
    pub fn reload(&mut self) -> Result<(), ServiceError> {
        if let Some(control) = self.place.control() {
            return self.tell(control, Told::Reload).map(drop);
        }
        let Reload::Signal(signal) = self.recipe.reload else {
            return Err(self.failed("cannot take a new configuration while it runs"));
        };
        let started = if self.is_running() { self.pid() } else { None };
        let Some(started) = started else { return Err(self.failed("is not running")) };
        let pid = self.place.target(started);
        confine::send(pid.cast_signed(), signal).map_err(|why| self.io("telling it to reload", why))
    }

    /// Sends requests to just these servers from now on.
    ///
    /// # Errors
    /// As [`Service::rewire`].
    pub fn rewire(&mut self, upstreams: &[Upstream]) -> Result<(), ServiceError> {
        let Some(control) = self.place.control() else { return self.service.rewire(self, upstreams) };
        self.tell(control, Told::Rewire(remote_site::reached(&*self.place, upstreams)))?;
        self.order.upstreams = upstreams.to_vec();
        Ok(())
    }

    /// What it reports about itself.
    ///
    /// # Errors
    /// When it does not answer.
    pub fn statistics(&self) -> Result<Statistics, ServiceError> {
        let Some(control) = self.place.control() else { return self.service.statistics(self) };
        match self.tell(control, Told::Statistics)? {
            Answer::Statistics(statistics) => Ok(statistics),
            Answer::Done | Answer::Failed(_) => Err(self.failed("answered something else than its statistics")),
        }
    }

    /// Tells whoever carries it out at its site what to do, and waits for that.
    fn tell(&self, control: Control, told: Told) -> Result<Answer, ServiceError> {
        let answer = remote_site::ask(control.here, &self.order.secret, told, remote_site::ANSWER);
        match answer.map_err(|why| self.io("talking to its agent at the remote site", why))? {
            Answer::Failed(why) => Err(self.failed(why)),
            good => Ok(good),
        }
    }

    /// What it and its processes have used since the start, this life and earlier ones.
    pub fn usage(&mut self) -> Usage {
        self.note_usage();
        let seen = self.running.as_ref().map(|running| running.seen).unwrap_or_default();
        Usage { cpu_ns: seen.cpu_ns + self.spent_ns, ..seen }
    }

    /// What the threads of its processes have waited for in this life; `None` when it is gone, or runs where that is not seen.
    #[must_use]
    pub fn waits(&self) -> Option<Waits> {
        self.place.waits(self.running.as_ref()?.child.id())
    }

    /// How long its processes stalled in this life; `None` when it is gone, or where that is not counted.
    #[must_use]
    pub fn stalls(&self) -> Option<Stalls> {
        self.running.as_ref()?.stalls.as_ref()?.stalls()
    }

    fn note_usage(&mut self) {
        if let Some(running) = &mut self.running {
            let now = self.place.usage(&self.order, running.child.id());
            // A process that was not waited for takes its time with it.
            running.seen = Usage { cpu_ns: now.cpu_ns.max(running.seen.cpu_ns), ..now };
        }
    }

    /// The last lines of its log, after its first error.
    #[must_use]
    pub fn log(&self) -> Vec<String> {
        let mut lines = self.running.as_ref().map(|running| running.log.lines()).unwrap_or_default();
        if let Some(file) = self.recipe.log_file {
            let text = fs::read(self.folder().join(file)).unwrap_or_default();
            let text = String::from_utf8_lossy(&text[text.len().saturating_sub(4096)..]).into_owned();
            lines.extend(text.lines().map(str::to_owned));
        }
        lines.iter().map(|line| self.without_secrets(line)).collect()
    }

    /// The lines that its process has written since `shown` of them were, which is set to how many there are now.
    pub(crate) fn lines_after(&self, shown: &mut u64) -> Vec<String> {
        let (lines, count) = self.running.as_ref().map(|running| running.log.lines_and_count()).unwrap_or_default();
        let new = usize::try_from(count.saturating_sub(*shown)).unwrap_or(usize::MAX).min(lines.len());
        *shown = count;
        lines[lines.len() - new..].iter().map(|line| self.without_secrets(line)).collect()
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.order.name
    }

    /// The service.
    #[must_use]
    pub fn service(&self) -> &'static dyn Service {
        self.service
    }

    /// Where it listens, as others reach it.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.order.address
    }

    /// Its private folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.order.folder
    }

    /// As it was requested.
    #[must_use]
    pub fn order(&self) -> &Order {
        &self.order
    }

    pub(crate) fn order_mut(&mut self) -> &mut Order {
        &mut self.order
    }

    /// What holds its memory.
    #[must_use]
    pub fn memory_limit(&self) -> MemoryLimit {
        let here = self.running.as_ref().map_or(MemoryLimit::None, |running| running.held.memory);
        self.place.holds(&self.order).unwrap_or(here)
    }

    /// Where it runs.
    #[must_use]
    pub fn place(&self) -> &dyn Place {
        &*self.place
    }

    /// Its process; `None` when it does not run.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        self.running.as_ref().map(|running| running.child.id())
    }

    /// Writes a file of its folder, whole or not at all.
    ///
    /// # Errors
    /// When the disk is full, or the folder is gone.
    pub fn write(&self, name: &str, text: &str) -> Result<(), ServiceError> {
        // The folder is its owner's, who may exchange what is in it: nothing is opened by a link.
        let written = Directory::of_others(self.folder())
            .and_then(|folder| folder.replace(Path::new(name), text.as_bytes(), self.order.owner));
        written.map_err(|why| self.io(&format!("writing {}", self.folder().join(name).display()), why))
    }

    fn make_folder(&self) -> io::Result<()> {
        let owner = self.order.owner;
        users::make_for(owner, self.folder())?;
        self.recipe
            .folders
            .iter()
            .try_for_each(|name| users::give(owner, &Directory::make_new(&self.folder().join(name))?))
    }

    fn port_is_free(&self) -> Result<(), ServiceError> {
        let (name, address) = (self.order.name.clone(), self.order.address);
        // The standard library's listener may take over a port in TIME_WAIT, as servers do.
        match TcpListener::bind(address) {
            Ok(_) => Ok(()),
            Err(why) if why.kind() == io::ErrorKind::AddrInUse => Err(ServiceError::Taken { name, address }),
            Err(why) => Err(self.io(&format!("listening on {address}"), why)),
        }
    }

    fn command(&self, step: &Step) -> Command {
        let mut command = Command::new(&step.program);
        // Elsewhere the place sees to that.
        if let Some(owner) = self.order.owner.filter(|_| self.place.is_here()) {
            command = users::as_user(&step.program, owner);
        }
        if self.place.has_own_environment() {
            users::own_environment(&mut command, self.folder());
        }
        command.args(&step.args).envs(step.env.iter().map(|(name, value)| (name, value))).current_dir(self.folder());
        command
    }

    /// Runs a command of the service's to its end and returns its output.
    ///
    /// # Errors
    /// When it fails or takes too long.
    pub fn output(&self, step: &Step) -> Result<String, ServiceError> {
        self.output_unless(step, &AtomicBool::new(false))
    }

    /// The same, and it is killed at once when `interrupt` is raised.
    pub(crate) fn output_unless(&self, step: &Step, interrupt: &AtomicBool) -> Result<String, ServiceError> {
        let mut command = self.command(step);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let program = step.program.display().to_string();
        let _held = confine::hold(&mut command, &Limits::default(), libc::SIGKILL)
            .map_err(|why| self.io("setting its limits", why))?;
        let mut child = subreaper::start(&mut command).map_err(|why| self.io(&format!("starting {program}"), why))?;
        // Held until its end: who tends a program elsewhere takes the end of its input for ours.
        let _input = child.stdin.take();
        let (Some(output), Some(errors)) = (child.stdout.take(), child.stderr.take()) else {
            return Err(self.failed("has no streams"));
        };
        let reader = thread::spawn(move || {
            let mut text = Vec::new();
            drop(output.take(64 << 20).read_to_end(&mut text));
            String::from_utf8_lossy(&text).into_owned()
        });
        let mut log = LogTail::of(errors);
        let deadline = Instant::now() + STEP_LIMIT;
        let is_over = || Instant::now() >= deadline || interrupt.load(Ordering::Relaxed);
        let status = ending::wait_until(&mut child, is_over);
        let status = status.map_err(|why| self.io(&format!("waiting for {program}"), why))?;
        if status.is_none() {
            // With what it has started: it leads a group of its own.
            drop(confine::send(-child.id().cast_signed(), libc::SIGKILL));
            ending::kill(&mut child);
        }
        log.finish(LOG_LIMIT);
        let text = reader.join().unwrap_or_default();
        match status {
            Some(status) if status.success() => Ok(text),
            Some(status) => Err(self.failed_with(format!("{program} ended with {status}"), log.lines())),
            None if interrupt.load(Ordering::Relaxed) => {
                Err(self.failed_with(format!("{program} had not ended when the run was interrupted"), log.lines()))
            }
            None => {
                Err(self.failed_with(format!("{program} did not end within {} s", STEP_LIMIT.as_secs()), log.lines()))
            }
        }
    }

    pub(crate) fn ask<T>(&self, question: impl FnOnce(SocketAddr) -> io::Result<T>) -> Result<T, ServiceError> {
        question(self.order.plain()).map_err(|why| self.io("asking for its statistics", why))
    }

    pub(crate) fn io(&self, what: &str, source: io::Error) -> ServiceError {
        ServiceError::Io { name: self.order.name.clone(), what: what.to_owned(), source }
    }

    pub(crate) fn failed(&self, what: impl Into<String>) -> ServiceError {
        self.failed_with(what.into(), self.log())
    }

    /// As [`Instance::failed`], once the last words of a program that has ended are read.
    pub(crate) fn ended(&mut self, what: &str) -> ServiceError {
        self.finish_log();
        self.failed(what)
    }

    fn finish_log(&mut self) {
        if let Some(running) = &mut self.running {
            running.log.finish(LOG_LIMIT);
        }
    }

    /// Why it does not run any more: its last lines, and its first error where that is above them. `None` while it runs.
    pub fn end(&mut self) -> Option<String> {
        if self.is_running() {
            return None;
        }
        self.finish_log();
        Some(format!("{} has ended{}", self.order.name, error::said(&self.log())))
    }

    fn failed_with(&self, what: String, log: Vec<String>) -> ServiceError {
        let log = log.iter().map(|line| self.without_secrets(line)).collect();
        ServiceError::Failed { name: self.order.name.clone(), what, log }
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Whether an error says that there is no folder for records that can be written. A container whose files cannot be written takes its processes with it; elsewhere
/// what is stopped in a session of its own waits for SIGCONT if this process is killed.
fn has_no_records(why: &io::Error) -> bool {
    matches!(why.kind(), io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem)
}

/// One pipe for what the program says, in whichever way. Its input is a pipe that ends when we do.
fn logged(command: &mut Command) -> io::Result<io::PipeReader> {
    let (said, writer) = io::pipe()?;
    command.stdin(Stdio::piped()).stdout(writer.try_clone()?).stderr(writer);
    Ok(said)
}

impl Instance {
    /// A line without the secrets that it may show.
    fn without_secrets(&self, line: &str) -> String {
        let line = without(line, &self.order.secret);
        self.order.database_secret.as_ref().map_or_else(|| line.clone(), |secret| without(&line, secret))
    }
}

/// A line without the secret that it may show.
fn without(line: &str, secret: &str) -> String {
    if secret.is_empty() { line.to_owned() } else { line.replace(secret, "***") }
}

#[cfg(test)]
mod tests {
    use super::has_no_records;
    use std::io;

    #[test]
    fn a_program_is_suspended_without_a_record_where_there_can_be_none_and_nowhere_else() {
        use io::ErrorKind::{NotFound, Other, PermissionDenied, ReadOnlyFilesystem, StorageFull};
        let without = |kind: io::ErrorKind| has_no_records(&kind.into());
        assert!([NotFound, PermissionDenied, ReadOnlyFilesystem].into_iter().all(without));
        assert!(![StorageFull, Other].into_iter().any(without));
    }
}
