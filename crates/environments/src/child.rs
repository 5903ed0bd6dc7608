//! A child process of the lab: the agent itself, or the program that leads to it.
//!
//! It has a process group of its own, so that an interrupt typed at the terminal reaches the lab alone and the lab
//! decides what becomes of the trial; and it is killed by the kernel when the lab dies, however that happens. The kernel
//! means the thread that forked it, so that one thread forks all children and lives as long as the lab.

use baremark_model::site::{Link, Missing, SiteError};
use baremark_sys::log_tail::LogTail;
use baremark_sys::{ending, process, subreaper};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::ptr;
use std::sync::OnceLock;
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::Duration;

/// How long a dead child's log may stay open in somebody else's hands before it is left to them.
const LOG_LIMIT: Duration = Duration::from_secs(2);

/// For how long a program of Go's that has passed a message on goes on working: its runtime looks after a thread that waits for the kernel for 10 ms
/// (`retake` in runtime/proc.go).
pub(crate) const GO_RELAY: Duration = Duration::from_millis(12);

/// A child with all three streams piped; its standard error is its log. It is ended when this is dropped.
pub struct Piped {
    child: Child,
    log: Option<LogTail>,
    /// How long it may take to end what it has launched elsewhere; `None` of one that is killed at once.
    grace: Option<Duration>,
}

impl Piped {
    /// Starts `command`.
    pub fn spawn(command: &mut Command) -> Result<Self, SiteError> {
        Piped::started(command, None)
    }

    /// Starts a launcher, which is asked to end, also when the lab dies, so that it can end what it has launched elsewhere. That may take `grace`.
    pub fn launch(command: &mut Command, grace: Duration) -> Result<Self, SiteError> {
        Piped::started(command, Some(grace))
    }

    fn started(command: &mut Command, grace: Option<Duration>) -> Result<Self, SiteError> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = spawn(command, if grace.is_some() { libc::SIGTERM } else { libc::SIGKILL })?;
        let log = child.stderr.take().map(LogTail::of);
        Ok(Piped { child, log, grace })
    }

    /// Its process number.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// From and to the child, once; `program` is its name in the error.
    pub fn streams(&mut self, program: &str) -> Result<(ChildStdout, ChildStdin), SiteError> {
        let taken = self.child.stdout.take().zip(self.child.stdin.take());
        let source = io::Error::from(io::ErrorKind::NotConnected);
        taken.ok_or_else(|| SiteError::Io { what: format!("piping to {program}"), source })
    }

    /// The streams as an agent's.
    pub fn link(&mut self) -> Option<Link> {
        let (from_agent, to_agent) = self.streams("the agent").ok()?;
        Some(Link { from_agent: Box::new(from_agent), to_agent: Box::new(to_agent) })
    }

    /// Waits for the child's own end, at most `limit`.
    pub fn ends_within(&mut self, limit: Duration) -> bool {
        matches!(ending::wait(&mut self.child, limit), Ok(Some(_)))
    }

    /// Whether the child has ended by itself, without a complaint.
    pub fn ended_well(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(Some(status)) if status.success())
    }

    /// Kills the child and waits until it is gone; a launcher is asked to end first.
    pub fn kill(&mut self) {
        end(&mut self.child, self.grace);
        if let Some(log) = &mut self.log {
            log.finish(LOG_LIMIT);
        }
    }

    /// The last lines of its standard error.
    pub fn log(&self) -> Vec<String> {
        self.log.as_ref().map(LogTail::lines).unwrap_or_default()
    }
}

impl Drop for Piped {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Says that the program that is started as the agent is not there.
///
/// # Errors
/// That it is not, with the remedy.
pub fn has_its_program(program: &Path) -> Result<(), Missing> {
    if program.is_file() {
        return Ok(());
    }
    let what = format!("the agent's program {} does not exist", program.display());
    Err(Missing { what, remedy: "install baremark again; it runs itself as its agent".to_owned() })
}

/// What a short command did.
#[derive(Debug)]
pub struct Ran {
    /// How it ended; `None` when it had to be stopped at its limit.
    pub status: Option<ExitStatus>,
    /// The last lines of its output and of its complaints.
    pub said: Vec<String>,
}

impl Ran {
    /// Whether it ended well.
    pub fn well(&self) -> bool {
        self.status.is_some_and(|status| status.success())
    }

    /// How it failed, in words, with the last thing that it said.
    pub fn failure(&self) -> String {
        let says = |line: &&String| line.contains(char::is_alphanumeric);
        let last = self.said.iter().rev().find(says).map(|line| format!(": {line}"));
        let how = self.status.map_or_else(|| "did not end in time".to_owned(), |status| status.to_string());
        format!("{how}{}", last.unwrap_or_default())
    }
}

/// Runs a short command without input to its end, at most `limit`.
pub fn run(command: &mut Command, limit: Duration) -> Result<Ran, SiteError> {
    run_until(command, limit, None)
}

/// The same with a launcher, which is asked to end at `limit` and may then take `grace` to end what it has launched.
pub fn run_launcher(command: &mut Command, limit: Duration, grace: Duration) -> Result<Ran, SiteError> {
    run_until(command, limit, Some(grace))
}

fn run_until(command: &mut Command, limit: Duration, grace: Option<Duration>) -> Result<Ran, SiteError> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = spawn(command, libc::SIGKILL)?;
    let mut tails: Vec<LogTail> = Vec::new();
    tails.extend(child.stdout.take().map(LogTail::of));
    tails.extend(child.stderr.take().map(LogTail::of));
    let ended = ending::wait(&mut child, limit);
    if !matches!(ended, Ok(Some(_))) {
        end(&mut child, grace);
    }
    let mut said = Vec::new();
    for tail in &mut tails {
        tail.finish(LOG_LIMIT);
        said.extend(tail.lines());
    }
    let status = ended.map_err(SiteError::io(format!("waiting for {}", program(command))))?;
    Ok(Ran { status, said })
}

/// Ends a child and waits until it is gone; one with a grace is asked to first.
fn end(child: &mut Child, grace: Option<Duration>) {
    match grace {
        Some(grace) => ending::end(child, libc::SIGTERM, grace),
        None => ending::kill(child),
    }
}

/// Starts a child in a process group of its own and with no signal blocked, which gets the signal `at_death` when this process dies.
pub fn spawn(command: &mut Command, at_death: libc::c_int) -> Result<Child, SiteError> {
    command.process_group(0);
    let lab = std::process::id();
    // SAFETY: between fork and exec only async-signal-safe functions may run; prctl, getppid, pthread_sigmask and the creation of an
    // error from a number allocate nothing.
    unsafe { command.pre_exec(move || die_with(lab, at_death)) };
    fork(command).map_err(|source| SiteError::Io { what: format!("starting {}", program(command)), source })
}

/// A command to be started, and where it goes back to with what came of it.
type Order = (Command, Sender<(Command, io::Result<Child>)>);

/// Starts `command` from the thread that starts all children.
fn fork(command: &mut Command) -> io::Result<Child> {
    static ORDERS: OnceLock<Sender<Order>> = OnceLock::new();
    let orders = ORDERS.get_or_init(|| {
        let (sender, orders) = channel::<Order>();
        thread::spawn(move || {
            for (mut command, back) in orders {
                let started = subreaper::start(&mut command);
                // Whoever ordered it waits for it.
                drop(back.send((command, started)));
            }
        });
        sender
    });
    let (back, answer) = channel();
    let gone = |why: String| io::Error::other(format!("the thread that starts programs: {why}"));
    let given = std::mem::replace(command, Command::new(""));
    orders.send((given, back)).map_err(|why| gone(why.to_string()))?;
    let (given, started) = answer.recv().map_err(|why| gone(why.to_string()))?;
    *command = given;
    started
}

fn program(command: &Command) -> String {
    command.get_program().to_string_lossy().into_owned()
}

/// Unblocks all signals, asks the kernel for this one when the parent dies, and checks that it has not died already.
fn die_with(parent: u32, signal: libc::c_int) -> io::Result<()> {
    let mut none = MaybeUninit::uninit();
    // SAFETY: sigemptyset initialises the set, whose place lives through both calls.
    unsafe {
        libc::sigemptyset(none.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, none.as_ptr(), ptr::null_mut());
    }
    process::die_with(parent, signal)
}

/// Leaves a descriptor open in the child that `command` starts.
pub(crate) fn hand_over(command: &mut Command, socket: &impl AsRawFd) {
    let number = socket.as_raw_fd();
    // SAFETY: fcntl on a number is async-signal-safe; the descriptor is open in the child, whose copy alone it changes.
    unsafe { command.pre_exec(move || let_through(number)) };
}

fn let_through(descriptor: i32) -> io::Result<()> {
    // SAFETY: F_SETFD takes numbers alone.
    let rc = unsafe { libc::fcntl(descriptor, libc::F_SETFD, 0) };
    if rc == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_outlives_the_thread_that_asked_for_it() {
        let ask = || Piped::spawn(Command::new("cat").arg("-")).expect("cat starts");
        let mut child = thread::spawn(ask).join().expect("no panic");
        // The kernel would have killed it by now, or does so while it is waited for.
        assert!(!child.ends_within(Duration::from_millis(300)), "it ended with the thread");
        drop(child.streams("cat"));
        assert!(child.ends_within(Duration::from_secs(60)) && child.ended_well(), "it ends at the end of its input");
    }

    #[test]
    fn a_short_command_is_heard_and_a_long_one_is_stopped() {
        let ran = run(Command::new("sh").args(["-c", "echo out; echo err >&2; exit 3"]), Duration::from_secs(60));
        let ran = ran.expect("sh starts");
        assert_eq!(ran.said, ["out", "err"]);
        assert_eq!(ran.failure(), "exit status: 3: err");
        let ran = run(Command::new("sleep").arg("60"), Duration::from_millis(50)).expect("sleep starts");
        assert!(!ran.well() && ran.failure() == "did not end in time", "{ran:?}");
        let error = run(&mut Command::new("/nowhere/program"), Duration::from_secs(1)).expect_err("no such program");
        assert!(error.to_string().starts_with("starting /nowhere/program: "), "{error}");
    }
}
