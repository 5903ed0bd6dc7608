//! A program to be run in the guest: built like a [`std::process::Command`], waited for with what was counted.

use crate::counters::Counters;
use crate::error::{Activity, Error, Stand};
use crate::options::{Options, RUNNER_NAME};
use crate::record::Record;
use crate::shared::{Count, Doing};
use baremark_model::page_size::PageSize;
use baremark_sys::process_tree;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{ChildStderr, ChildStdout, ExitStatus, Stdio};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// How often progress is looked at, within a limit.
const LOOKS: u32 = 10;
/// The exit code of a runner that has no microVM.
const EXIT_FAILED: i32 = 125;
const EXIT_NOT_FOUND: i32 = 127;

/// A program, how it is started and how its guest is built.
///
/// ```no_run
/// use baremark_guest_program::Command;
/// # fn demo() -> Result<(), baremark_guest_program::Error> {
/// let report = Command::new("sha256sum").arg("data.bin").status()?;
/// println!("{}: {} calls forwarded", report.status, report.counters.calls);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Command {
    program: OsString,
    arguments: Vec<OsString>,
    process: std::process::Command,
    runner: PathBuf,
    options: Options,
    stall_limit: Option<Duration>,
    time_limit: Option<Duration>,
}

/// A program that runs in the guest.
#[derive(Debug)]
pub struct Child {
    process: std::process::Child,
    record: Record,
    runner: PathBuf,
    stall_limit: Option<Duration>,
    time_limit: Option<Duration>,
    began: Instant,
}

/// How a program ended, and what was counted.
#[derive(Clone, Debug)]
pub struct Report {
    /// Its exit status, as a native program's.
    pub status: ExitStatus,
    /// What was counted in all of its processes.
    pub counters: Counters,
    /// From the start of the runner to the program's end.
    pub wall: Duration,
    /// Why a runner of one of its processes could not continue, if one could not.
    pub failure: Option<String>,
}

/// A program's output, with its report.
#[derive(Clone, Debug)]
pub struct Output {
    /// How it ended.
    pub report: Report,
    /// Its standard output.
    pub stdout: Vec<u8>,
    /// Its standard error.
    pub stderr: Vec<u8>,
}

impl Command {
    /// `program`, looked up in PATH unless it has a slash, in a guest with leaf entries of 2 MiB.
    pub fn new(program: impl AsRef<OsStr>) -> Self {
        let runner = PathBuf::from("/proc/self/exe");
        Command {
            program: program.as_ref().into(),
            arguments: Vec::new(),
            process: std::process::Command::new(&runner),
            runner,
            options: Options::default(),
            stall_limit: None,
            time_limit: None,
        }
    }

    /// Adds an argument.
    pub fn arg(&mut self, argument: impl AsRef<OsStr>) -> &mut Self {
        self.arguments.push(argument.as_ref().into());
        self
    }

    /// Adds arguments.
    pub fn args<A: AsRef<OsStr>>(&mut self, arguments: impl IntoIterator<Item = A>) -> &mut Self {
        self.arguments.extend(arguments.into_iter().map(|argument| argument.as_ref().into()));
        self
    }

    /// Sets a variable of the environment.
    pub fn env(&mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> &mut Self {
        self.process.env(name, value);
        self
    }

    /// Removes a variable of the environment.
    pub fn env_remove(&mut self, name: impl AsRef<OsStr>) -> &mut Self {
        self.process.env_remove(name);
        self
    }

    /// Starts with an empty environment.
    pub fn env_clear(&mut self) -> &mut Self {
        self.process.env_clear();
        self
    }

    /// The folder in which the program starts.
    pub fn current_dir(&mut self, folder: impl AsRef<Path>) -> &mut Self {
        self.process.current_dir(folder);
        self
    }

    /// The program's standard input.
    pub fn stdin(&mut self, stream: impl Into<Stdio>) -> &mut Self {
        self.process.stdin(stream);
        self
    }

    /// The program's standard output.
    pub fn stdout(&mut self, stream: impl Into<Stdio>) -> &mut Self {
        self.process.stdout(stream);
        self
    }

    /// The program's standard error.
    pub fn stderr(&mut self, stream: impl Into<Stdio>) -> &mut Self {
        self.process.stderr(stream);
        self
    }

    /// Everything else that a process can be started with, such as its group or a function before it executes.
    pub fn process(&mut self) -> &mut std::process::Command {
        &mut self.process
    }

    /// Page size of the guest's leaf entries; 2 MiB by default.
    pub fn guest_page(&mut self, page: PageSize) -> &mut Self {
        self.options.page = page;
        self
    }

    /// Page size by which the host backs the program's memory; by default the kernel's and the program's own choice, as natively. What the program
    /// requests by `madvise` for its own mappings holds; with small pages it does from Linux 6.18 on.
    pub fn host_backing(&mut self, page: PageSize) -> &mut Self {
        self.options.backing = Some(page);
        self
    }

    /// The most virtual processors of one process, at least 1; as many as KVM gives by default. A program may have more
    /// threads than that.
    pub fn most_vcpus(&mut self, most: u32) -> &mut Self {
        self.options.vcpus = most.max(1);
        self
    }

    /// Has a polling thread answer those system calls whose effect does not depend on the calling thread and that wait for nobody, without
    /// an exit; off by default. Each process of the program has such a thread, which keeps a processor busy while calls come.
    pub fn exitless(&mut self, exitless: bool) -> &mut Self {
        self.options.exitless = exitless;
        self
    }

    /// Has the host give the program private anonymous memory when it is mapped, not when it is first touched; off by default. It is part
    /// of the program's time as before. Left as natively: stacks, memory that is mapped without reserve or cannot be written when it is mapped,
    /// and a mapping larger than the memory that is available.
    pub fn prefault(&mut self, prefault: bool) -> &mut Self {
        self.options.prefault = prefault;
        self
    }

    /// Kills the program, and reports where its threads stood, when for this long no process of it has used processor time
    /// or left the guest. Without a limit, which is the default, a program may wait as long as it likes.
    pub fn stall_limit(&mut self, limit: Duration) -> &mut Self {
        self.stall_limit = Some(limit);
        self
    }

    /// Kills the program, and reports where its threads stood, when it has not ended after so long. Without a limit, which is the default,
    /// a program may take as long as it likes.
    pub fn time_limit(&mut self, limit: Duration) -> &mut Self {
        self.time_limit = Some(limit);
        self
    }

    /// Starts the program.
    ///
    /// # Errors
    /// When the counters or the process cannot be made. That there is no microVM here, or no such program, is known when the
    /// program is waited for.
    pub fn spawn(&mut self) -> Result<Child, Error> {
        let (process, record, began) = self.start()?;
        let (stall_limit, time_limit) = (self.stall_limit, self.time_limit);
        Ok(Child { process, record, runner: self.runner.clone(), stall_limit, time_limit, began })
    }

    /// Starts a protected program: `snapshot` is its record, `image` what it continues from, `prepare` runs before the exec.
    pub(crate) fn protected_process(
        &mut self,
        snapshot: RawFd,
        image: Option<RawFd>,
        prepare: impl FnMut() -> io::Result<()> + Send + Sync + 'static,
    ) -> Result<(std::process::Child, Record), Error> {
        (self.options.snapshot, self.options.restored) = (Some(snapshot), image);
        // SAFETY: the function makes system calls and allocates nothing, as its callers promise.
        unsafe { self.process.pre_exec(prepare) };
        self.start().map(|(process, record, _)| (process, record))
    }

    fn start(&mut self) -> Result<(std::process::Child, Record, Instant), Error> {
        self.check()?;
        let record = Record::new().map_err(Error::Counters)?;
        let fd = record.fd();
        self.options.counters = Some(fd);
        let inherit = move || {
            // SAFETY: takes a flag off a descriptor of this process, which is about to execute the runner.
            match unsafe { libc::fcntl(fd, libc::F_SETFD, 0) } {
                0 => Ok(()),
                _ => Err(io::Error::last_os_error()),
            }
        };
        self.arrange();
        // SAFETY: the function makes one system call and allocates nothing.
        unsafe { self.process.pre_exec(inherit) };
        let began = Instant::now();
        let source = |source| Error::Start { runner: self.runner.display().to_string(), source };
        let process = self.process.spawn().map_err(source)?;
        Ok((process, record, began))
    }

    /// Replaces this process by the program, without counters. Comes back only when that fails.
    pub fn exec(&mut self) -> Error {
        if let Err(error) = self.check() {
            return error;
        }
        self.options.counters = None;
        self.arrange();
        let source = self.process.exec();
        Error::Start { runner: self.runner.display().to_string(), source }
    }

    /// Runs the program to its end.
    ///
    /// # Errors
    /// As [`Command::spawn`] and [`Child::wait`].
    pub fn status(&mut self) -> Result<Report, Error> {
        self.spawn()?.wait()
    }

    /// Runs the program to its end and collects what it writes.
    ///
    /// # Errors
    /// As [`Command::spawn`] and [`Child::wait`].
    pub fn output(&mut self) -> Result<Output, Error> {
        self.stdout(Stdio::piped()).stderr(Stdio::piped());
        self.spawn()?.wait_with_output()
    }

    /// Refuses a polling thread without a processor.
    fn check(&self) -> Result<(), Error> {
        let allowed = baremark_sys::affinity::allowed_cpus().map_or(1, |cpus| cpus.len());
        match allowed {
            _ if !self.options.exitless => Ok(()),
            0 | 1 => Err(Error::NoCpuToPoll { allowed }),
            _ => Ok(()),
        }
    }

    /// The runner's own arguments before the program's.
    fn arrange(&mut self) {
        self.process.arg0(RUNNER_NAME).arg(self.options.to_string()).arg(&self.program).arg(&self.program);
        self.process.args(&self.arguments);
    }
}

impl Child {
    /// The program's process.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// The program's standard output, where that is a pipe.
    pub fn take_stdout(&mut self) -> Option<ChildStdout> {
        self.process.stdout.take()
    }

    /// The program's standard error, where that is a pipe.
    pub fn take_stderr(&mut self) -> Option<ChildStderr> {
        self.process.stderr.take()
    }

    /// What has been counted so far.
    #[must_use]
    pub fn counters(&self) -> Counters {
        Counters::read(self.record.shared())
    }

    /// Kills the program and everything that it has started.
    ///
    /// # Errors
    /// When the program's own process cannot be killed.
    pub fn kill(&mut self) -> io::Result<()> {
        for pid in self.processes() {
            // A process that is gone needs no signal.
            drop(baremark_sys::confine::send(pid.cast_signed(), libc::SIGKILL));
        }
        self.process.kill()
    }

    /// Waits for the program's end. Processes that it has left behind are not waited for; what they have counted by now is
    /// in the report.
    ///
    /// # Errors
    /// When the program did not run: no microVM, no such program; or when it made no progress within its limit.
    pub fn wait(mut self) -> Result<Report, Error> {
        drop(self.process.stdin.take());
        let status = self.wait_for_end()?;
        self.report(status)
    }

    /// As [`Child::wait`], collecting what the program writes to pipes meanwhile.
    ///
    /// # Errors
    /// As [`Child::wait`].
    pub fn wait_with_output(mut self) -> Result<Output, Error> {
        fn collect(stream: Option<impl io::Read + Send + 'static>) -> std::thread::JoinHandle<Vec<u8>> {
            std::thread::spawn(move || {
                let mut bytes = Vec::new();
                if let Some(mut stream) = stream {
                    // What came before an error is the output.
                    drop(stream.read_to_end(&mut bytes));
                }
                bytes
            })
        }
        let (stdout, stderr) = (collect(self.take_stdout()), collect(self.take_stderr()));
        let report = self.wait();
        let (stdout, stderr) = (stdout.join().unwrap_or_default(), stderr.join().unwrap_or_default());
        Ok(Output { report: report?, stdout, stderr })
    }

    fn wait_for_end(&mut self) -> Result<ExitStatus, Error> {
        let Some(look) = [self.stall_limit, self.time_limit].into_iter().flatten().min() else {
            return self.process.wait().map_err(Error::Wait);
        };
        let end = end_of(self.process.id()).map_err(Error::Wait)?;
        let (mut last, mut since) = (self.progress(), Instant::now());
        while !is_readable(&end, look / LOOKS).map_err(Error::Wait)? {
            let now = self.progress();
            if now != last {
                (last, since) = (now, Instant::now());
            }
            if let Some(limit) = self.stall_limit.filter(|limit| since.elapsed() >= *limit) {
                return Err(Error::NoProgress { limit, stood: self.ended_where() });
            }
            if let Some(limit) = self.time_limit.filter(|limit| self.began.elapsed() >= *limit) {
                return Err(Error::TimeLimit { limit, stood: self.ended_where() });
            }
        }
        self.process.wait().map_err(Error::Wait)
    }

    /// Ends the program; where its threads stood just before.
    fn ended_where(&mut self) -> Vec<Stand> {
        let stood = self.stands();
        drop(self.kill());
        drop(self.process.wait());
        stood
    }

    /// What grows while anything continues: exits, calls, and processor time in hundredths of a second.
    fn progress(&self) -> [u64; 3] {
        let counters = self.counters();
        let usage = process_tree::usage(self.process.id()).map_or(0, |usage| usage.cpu_ns / 10_000_000);
        [counters.exits, counters.calls, usage]
    }

    /// Where the threads of all processes stand.
    fn stands(&self) -> Vec<Stand> {
        let pages = self.record.shared().used_pages();
        let places = pages.flat_map(|page| page.places.iter().map(|place| (page.pid.load(Ordering::Relaxed), place)));
        let of = |(pid, place): (u32, &crate::shared::Place)| {
            let thread = place.thread.load(Ordering::Relaxed);
            let number = place.number.load(Ordering::Relaxed);
            let doing = match place.doing.load(Ordering::Relaxed) {
                doing if doing == Doing::Calling as u32 => Activity::Calls { number },
                doing if doing == Doing::Waiting as u32 => Activity::WaitsForVcpu,
                _ => Activity::Computes { since: number },
            };
            (thread != 0).then(|| Stand { pid, thread, doing, rip: place.rip.load(Ordering::Relaxed) })
        };
        places.filter_map(of).collect()
    }

    /// The program's processes, those that descend from the first and those that it has left behind.
    fn processes(&self) -> Vec<u32> {
        let known = self.record.shared().used_pages().map(|page| page.pid.load(Ordering::Relaxed));
        let descend = process_tree::pids(self.process.id()).unwrap_or_default();
        // A number may belong to somebody else by now: only runners are meant.
        let runner = std::fs::read_link(format!("/proc/{}/exe", self.process.id())).ok();
        let is_runner = |pid: &u32| std::fs::read_link(format!("/proc/{pid}/exe")).ok() == runner;
        let mut all: Vec<u32> = known.filter(|pid| *pid != 0).filter(is_runner).chain(descend).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    fn report(&self, status: ExitStatus) -> Result<Report, Error> {
        let shared = self.record.shared();
        let counters = Counters::read(shared);
        let failure = shared.failure();
        let runner = || self.runner.display().to_string();
        if shared.totals.get(Count::Images) + counters.images == 0 {
            return Err(match failure {
                Some((EXIT_FAILED, message)) => Error::Runner(message),
                Some((code, message)) => Error::NotExecutable { message, missing: code == EXIT_NOT_FOUND },
                None => Error::NotARunner { runner: runner() },
            });
        }
        let failure = failure.map(|(_, message)| message);
        match (failure, status.code()) {
            (Some(message), Some(EXIT_FAILED)) => Err(Error::Runner(message)),
            (failure, _) => Ok(Report { status, counters, wall: self.began.elapsed(), failure }),
        }
    }
}

/// A descriptor that becomes readable when a process ends.
fn end_of(pid: u32) -> io::Result<OwnedFd> {
    // SAFETY: makes a descriptor or fails; touches no memory.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    match i32::try_from(fd) {
        // SAFETY: the descriptor was made above and nobody else owns it.
        Ok(fd @ 0..) => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Waits for up to `limit` until `fd` is readable.
fn is_readable(fd: &OwnedFd, limit: Duration) -> io::Result<bool> {
    let mut poll = libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    let limit = i32::try_from(limit.as_millis()).unwrap_or(i32::MAX).max(1);
    // SAFETY: one structure, which lives through the call.
    match unsafe { libc::poll(&raw mut poll, 1, limit) } {
        1.. => Ok(true),
        0 => Ok(false),
        _ => match io::Error::last_os_error() {
            error if error.kind() == io::ErrorKind::Interrupted => Ok(false),
            error => Err(error),
        },
    }
}
