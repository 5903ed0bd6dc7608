//! The keeper: a process between an agent and the programs that it runs.
//!
//! It owns a private folder and everything that is started in it. It adopts what programs leave behind, so that daemons
//! are found; it ends when its input does, so that nothing outlives an agent, however that dies; and it reads the programs'
//! output as long as it comes, so that a flood fills neither memory nor a pipe. It times the programs itself: the agent
//! is not in the measurement, and neither is what the keeper does before a program's start and after its end.

use crate::heard::{Ear, Heard};
use crate::loader;
use baremark_model::units::Nanos;
use baremark_model::wire::{WireError, read_frame, write_frame};
use baremark_sys::launch::{Launch, Launched};
use baremark_sys::process::find_program;
use baremark_sys::registry::{self, Made, Record};
use baremark_sys::supervisor::{self, Guard, Half};
use baremark_sys::{point, process, removal, subreaper};
use regex_lite::Regex;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ffi::{CString, NulError};
use std::fs::{DirBuilder, File};
use std::io::{self, PipeWriter, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// How long processes that were killed may take to be gone.
const END_LIMIT: Duration = Duration::from_secs(10);
/// How long a stream may stay open in a stranger's hands when its program is gone.
const STREAM_LIMIT: Duration = Duration::from_secs(2);
const GLANCE: Duration = Duration::from_millis(2);
/// By how much a program's largest resident set must be above the keeper's own to be known as the program's.
const RSS_MARGIN: u64 = 256 << 10;
/// What is empty as an input and swallows any output.
const NULL: &str = "/dev/null";

/// What becomes of a program's standard output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stdout {
    /// It is read through a pipe, and its beginning and end are kept.
    #[default]
    Keep,
    /// It is `/dev/null`.
    Drop,
}

/// One program to run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Task {
    /// Program and arguments.
    pub argv: Vec<String>,
    /// Its whole environment.
    pub environment: BTreeMap<String, String>,
    /// How long it may take.
    pub timeout_ns: u64,
    /// The most that is kept of each stream.
    pub output_limit_bytes: u64,
    /// The CPUs that it may use; empty for all that the keeper may.
    pub cpus: Vec<usize>,
    /// Its working folder; the keeper's private one where there is none.
    pub directory: Option<PathBuf>,
    /// The file that it reads as its standard input, from its working folder; nothing where there is none.
    pub stdin: Option<PathBuf>,
    /// What becomes of its standard output.
    pub stdout: Stdout,
}

/// What an agent asks of its keeper.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToKeeper {
    /// Run this to its end; answered with [`FromKeeper::Done`].
    Run(Task),
    /// Start this and say when `ready` matches in its output; answered with [`FromKeeper::Ready`], or
    /// [`FromKeeper::Done`] when it ended or took too long. It is ended with the keeper.
    Beside {
        /// The program; its time-out is for becoming ready.
        task: Task,
        /// A regular expression; empty where it is ready at once.
        ready: String,
    },
}

baremark_model::frames!(ToKeeper, FromKeeper);

/// How a program ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "how")]
pub enum End {
    /// By itself.
    Exited {
        /// Its exit code.
        code: i32,
    },
    /// By a signal that was not ours.
    Signalled {
        /// Its number.
        signal: i32,
    },
    /// It was ended at its time-out.
    TimedOut,
    /// It could not be started.
    NotStarted {
        /// Why.
        why: String,
    },
}

/// What came of a program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    /// How it ended.
    pub end: End,
    /// From just before its start to its end.
    pub wall_ns: u64,
    /// What it and all that it waited for have used.
    pub used: Used,
    /// Its standard output.
    pub stdout: Heard,
    /// Its standard error.
    pub stderr: Heard,
    /// Names of the processes that it left running; they were ended.
    pub left: Vec<String>,
}

/// What a program and all that it waited for have used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Used {
    /// Processor time in user mode.
    pub user_ns: u64,
    /// Processor time in the kernel.
    pub system_ns: u64,
    /// The largest resident set that one of them had; `None` where it was no larger than the keeper's, from which the kernel
    /// counts on.
    pub peak_rss_bytes: Option<u64>,
    /// Context switches, voluntary or not.
    pub context_switches: u64,
    /// Page faults, with or without a disk.
    pub page_faults: u64,
    /// Page faults that read from a disk.
    pub major_faults: u64,
}

impl Used {
    /// Of a program that a process with this largest resident set has started.
    fn new(used: &subreaper::Used, floor_bytes: u64) -> Self {
        Used {
            user_ns: Nanos::from(used.user).0,
            system_ns: Nanos::from(used.system).0,
            peak_rss_bytes: Some(used.peak_rss_bytes).filter(|&peak| peak > floor_bytes + RSS_MARGIN),
            context_switches: used.voluntary_switches + used.involuntary_switches,
            page_faults: used.minor_faults + used.major_faults,
            major_faults: used.major_faults,
        }
    }
}

/// What a keeper says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FromKeeper {
    /// Its folder is made; always first.
    Here {
        /// The folder.
        folder: PathBuf,
    },
    /// The program alongside is ready.
    Ready,
    /// A program has ended.
    Done(Outcome),
    /// It could not do what was asked.
    Failed {
        /// Why, with the remedy where there is one.
        why: String,
    },
}

/// Why a keeper ended before its agent did.
#[derive(Debug, thiserror::Error)]
pub enum KeeperError {
    /// Its agent spoke out of turn.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// The operating system refused.
    #[error("{what}: {source}")]
    Io {
        /// What was tried.
        what: String,
        /// What it said.
        #[source]
        source: io::Error,
    },
}

fn trying<T>(what: impl Into<String>, result: io::Result<T>) -> Result<T, KeeperError> {
    result.map_err(|source| KeeperError::Io { what: what.into(), source })
}

/// Keeps programs for the agent at the other end of standard input and output, until that input ends.
///
/// # Errors
/// When it cannot begin, or its agent is none.
pub fn keep() -> Result<(), KeeperError> {
    // The guard removes it where the worker does not live to do so.
    let folder = Folder::create();
    // What a program's largest resident set is counted from shall be small: a copy of this process has no file's pages.
    let guard = match supervisor::divide() {
        Ok(Half::Guard(status)) if status.success() => return Ok(()),
        Ok(Half::Guard(status)) => {
            let source = io::Error::other(status.to_string());
            return Err(KeeperError::Io { what: "keeping programs".to_owned(), source });
        }
        Ok(Half::Worker(guard)) => Some(guard),
        Err(_) => None,
    };
    let mut output = trying("reserving standard output", process::take_stdout())?;
    trying("becoming the parent of orphans", subreaper::adopt_orphans())?;
    let folder = match folder {
        Ok(folder) => folder,
        Err(why) => {
            let base = std::env::temp_dir();
            let why =
                format!("making a folder in {}: {why}; set TMPDIR to a folder that can be written", base.display());
            return Ok(write_frame(&mut output, &FromKeeper::Failed { why })?);
        }
    };
    write_frame(&mut output, &FromKeeper::Here { folder: folder.path.clone() })?;
    let gone = Arc::new(AtomicBool::new(false));
    let asked = listen(Arc::clone(&gone));
    if let Some(guard) = guard {
        end_with(guard, Arc::clone(&gone), folder.path.clone());
    }
    let mut keeper = Keeper { folder, beside: Vec::new(), gone };
    let result = keeper.serve(&asked, &mut output);
    // Whatever is left, alongside or daemon, before the folder goes.
    let ended = subreaper::end_all_but(&[], END_LIMIT);
    drop(keeper);
    result?;
    ended.map(drop).or_else(|why| trying("ending remaining processes", Err(why)))
}

/// Frames from the agent; when it is gone, everything that runs is killed at once, and whoever waits for it wakes up.
fn listen(gone: Arc<AtomicBool>) -> Receiver<ToKeeper> {
    let (sender, asked) = channel();
    thread::spawn(move || {
        while let Ok(frame) = read_frame(&mut io::stdin().lock()) {
            if sender.send(frame).is_err() {
                return;
            }
        }
        gone.store(true, Ordering::Release);
        drop(sender);
        // Again and again: a program may just be starting.
        loop {
            subreaper::kill_all_but(&[]);
            thread::sleep(GLANCE);
        }
    });
    asked
}

/// Ends everything, and this process, when its guard is gone: nobody would be left who ends what a killed worker leaves.
fn end_with(guard: Guard, gone: Arc<AtomicBool>, folder: PathBuf) {
    thread::spawn(move || {
        guard.wait_for_its_end();
        gone.store(true, Ordering::Release);
        drop(subreaper::end_all_but(&[], END_LIMIT));
        drop(removal::remove_path(&folder));
        #[expect(clippy::exit, reason = "the other threads wait for an agent that may have nothing to say")]
        std::process::exit(1);
    });
}

/// A private folder, recorded, and removed when dropped.
struct Folder {
    path: PathBuf,
    record: Option<Box<dyn Record>>,
}

impl Folder {
    fn create() -> io::Result<Self> {
        let (base, pid) = (std::env::temp_dir(), std::process::id());
        for number in 0_u32.. {
            let path = base.join(format!("baremark-work-{pid}-{number}"));
            // Where nothing can be recorded, as by a user without a home, a kill of all processes leaves it.
            let record = registry::record(Made::Folder(&path)).ok().flatten();
            point::reached("work-folder-recorded");
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => {
                    point::reached("work-folder-made");
                    return Ok(Folder { path, record });
                }
                Err(why) => {
                    record.into_iter().for_each(Record::gone);
                    if why.kind() != io::ErrorKind::AlreadyExists {
                        return Err(why);
                    }
                }
            }
        }
        Err(io::Error::other("every name is taken"))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(removal::remove_path(&self.path));
        if !self.path.exists() {
            self.record.take().into_iter().for_each(Record::gone);
        }
    }
}

struct Keeper {
    folder: Folder,
    beside: Vec<u32>,
    gone: Arc<AtomicBool>,
}

/// A program that runs, and what it says.
struct Running {
    launched: Launched,
    /// The keeper's largest resident set at the start.
    floor_bytes: u64,
    streams: [Option<Stream>; 2],
}

/// An output of a program.
struct Stream {
    /// The program's end, held until the program is gone, so that its end wakes nobody but who times it.
    to: Option<PipeWriter>,
    ear: Arc<Mutex<Ear>>,
    reader: JoinHandle<()>,
}

impl Keeper {
    fn serve(&mut self, asked: &Receiver<ToKeeper>, output: &mut File) -> Result<(), KeeperError> {
        while let Ok(asked) = asked.recv() {
            let answer = match asked {
                ToKeeper::Run(task) => self.run(&task).map(FromKeeper::Done),
                ToKeeper::Beside { task, ready } => self.start_beside(&task, &ready),
            };
            if self.gone.load(Ordering::Acquire) {
                return Ok(());
            }
            let answer = answer.unwrap_or_else(|why| FromKeeper::Failed { why: why.to_string() });
            write_frame(output, &answer)?;
        }
        Ok(())
    }

    fn run(&self, task: &Task) -> Result<Outcome, KeeperError> {
        let running = match self.start(task)? {
            Ok(running) => running,
            Err(why) => return Ok(not_started(&why)),
        };
        let Launched { pid, began } = running.launched;
        let deadline = began + Duration::from_nanos(task.timeout_ns);
        let ended = trying("waiting for a program", subreaper::wait(pid, deadline))?;
        let (ended, timed_out) = match ended {
            Some(ended) => (ended, false),
            None => (self.end(pid)?, true),
        };
        let floor_bytes = running.floor_bytes;
        let left = trying("ending processes that a program left", subreaper::end_all_but(&self.beside, END_LIMIT))?;
        let [stdout, stderr] = running.heard();
        let end = match (ended.status.code(), ended.status.signal()) {
            _ if timed_out => End::TimedOut,
            (Some(code), _) => End::Exited { code },
            (None, signal) => End::Signalled { signal: signal.unwrap_or(0) },
        };
        Ok(Outcome {
            end,
            wall_ns: Nanos::from(ended.at.saturating_duration_since(began)).0,
            used: Used::new(&ended.used, floor_bytes),
            stdout,
            stderr,
            left,
        })
    }

    /// Kills a child and waits for it.
    fn end(&self, pid: u32) -> Result<subreaper::Ended, KeeperError> {
        subreaper::kill_all_but(&self.beside);
        let ended = trying("waiting for a killed program", subreaper::wait(pid, Instant::now() + END_LIMIT))?;
        ended.map_or_else(|| trying("killing a program", Err(io::Error::from(io::ErrorKind::TimedOut))), Ok)
    }

    fn start_beside(&mut self, task: &Task, ready: &str) -> Result<FromKeeper, KeeperError> {
        let running = match self.start(task)? {
            Ok(running) => running,
            Err(why) => return Ok(FromKeeper::Done(not_started(&why))),
        };
        let ready = Regex::new(ready).map_err(|why| KeeperError::Io {
            what: format!("'{ready}' is not a regular expression"),
            source: io::Error::other(why.to_string()),
        })?;
        let Launched { pid, began } = running.launched;
        let deadline = began + Duration::from_nanos(task.timeout_ns);
        loop {
            if running.said().iter().any(|heard| ready.is_match(&heard.text)) {
                self.beside.push(pid);
                return Ok(FromKeeper::Ready);
            }
            let ended = trying("waiting for a program", subreaper::wait(pid, Instant::now() + GLANCE))?;
            let end = match ended.map(|ended| ended.status) {
                None if Instant::now() < deadline => continue,
                None => {
                    self.end(pid)?;
                    End::TimedOut
                }
                Some(status) => match status.code() {
                    Some(code) => End::Exited { code },
                    None => End::Signalled { signal: status.signal().unwrap_or(0) },
                },
            };
            let [stdout, stderr] = running.heard();
            return Ok(FromKeeper::Done(Outcome { end, stdout, stderr, ..not_started("") }));
        }
    }

    /// Starts a program; the inner error says why it cannot be.
    fn start(&self, task: &Task) -> Result<Result<Running, String>, KeeperError> {
        let Some(name) = task.argv.first() else {
            return Ok(Err("no program is named".to_owned()));
        };
        let folder = task.directory.as_deref().unwrap_or(&self.folder.path);
        let program = found(name, folder, &task.environment);
        let words = match Words::of(task, &program, folder) {
            Ok(words) => words,
            Err(why) => return Ok(Err(format!("{name}: {why}"))),
        };
        let null = trying("opening /dev/null", File::options().read(true).write(true).open(NULL))?;
        let input = match task.stdin.as_ref().map(|input| folder.join(input)) {
            Some(path) => match File::open(&path) {
                Ok(input) => Some(input),
                Err(why) => return Ok(Err(format!("its input {}: {why}", path.display()))),
            },
            None => None,
        };
        let stdout = match task.stdout {
            Stdout::Keep => Some(trying("making a pipe", Stream::open(task.output_limit_bytes))?),
            Stdout::Drop => None,
        };
        let streams = [stdout, Some(trying("making a pipe", Stream::open(task.output_limit_bytes))?)];
        let [stdout, stderr] = [0, 1].map(|stream| streams[stream].as_ref().and_then(Stream::to));
        let floor_bytes = trying("asking for the memory used", process::peak_rss_bytes())?;
        let launch = Launch {
            program: &words.program,
            arguments: &words.arguments,
            environment: &words.environment,
            folder: &words.folder,
            streams: [
                input.as_ref().unwrap_or(&null).as_fd(),
                stdout.unwrap_or_else(|| null.as_fd()),
                stderr.unwrap_or_else(|| null.as_fd()),
            ],
            cpus: &task.cpus,
        };
        Ok(match launch.start() {
            Ok(launched) => Ok(Running { launched, floor_bytes, streams }),
            Err(why) => Err(loader::missing(&program).unwrap_or_else(|| format!("{name}: {why}"))),
        })
    }
}

/// A task's texts as the kernel takes them.
struct Words {
    program: CString,
    arguments: Vec<CString>,
    environment: Vec<CString>,
    folder: CString,
}

impl Words {
    fn of(task: &Task, program: &Path, folder: &Path) -> Result<Self, NulError> {
        let path = |path: &Path| CString::new(path.as_os_str().as_bytes());
        Ok(Words {
            program: path(program)?,
            arguments: task.argv.iter().map(|word| CString::new(word.as_str())).collect::<Result<_, _>>()?,
            environment: task
                .environment
                .iter()
                .map(|(name, value)| CString::new(format!("{name}={value}")))
                .collect::<Result<_, _>>()?,
            folder: path(folder)?,
        })
    }
}

/// A program whose name has a `/` is looked for from the folder, any other along the search path of its environment.
fn found(program: &str, folder: &Path, environment: &BTreeMap<String, String>) -> PathBuf {
    if program.contains('/') {
        return folder.join(program);
    }
    find_program(program, environment.get("PATH").map_or("", String::as_str)).unwrap_or_else(|| program.into())
}

impl Running {
    fn said(&self) -> [Heard; 2] {
        [0, 1].map(|stream| self.streams[stream].as_ref().map(Stream::heard).unwrap_or_default())
    }

    /// All that it said, once it is gone.
    fn heard(mut self) -> [Heard; 2] {
        for stream in self.streams.iter_mut().flatten() {
            stream.to = None;
        }
        let deadline = Instant::now() + STREAM_LIMIT;
        let open = |stream: &Stream| !stream.reader.is_finished();
        while self.streams.iter().flatten().any(open) && Instant::now() < deadline {
            thread::sleep(GLANCE / 8);
        }
        self.said()
    }
}

impl Stream {
    /// A pipe that is read from now on.
    fn open(limit_bytes: u64) -> io::Result<Self> {
        let (from, to) = io::pipe()?;
        let ear = Arc::new(Mutex::new(Ear::new(limit_bytes)));
        let reader = read(from, &ear);
        Ok(Stream { to: Some(to), ear, reader })
    }

    /// The program's end.
    fn to(&self) -> Option<BorrowedFd<'_>> {
        self.to.as_ref().map(AsFd::as_fd)
    }

    fn heard(&self) -> Heard {
        self.ear.lock().unwrap_or_else(PoisonError::into_inner).heard()
    }
}

fn read(mut stream: impl Read + Send + 'static, ear: &Arc<Mutex<Ear>>) -> JoinHandle<()> {
    let ear = Arc::clone(ear);
    thread::spawn(move || {
        let mut chunk = vec![0_u8; 1 << 16];
        loop {
            match stream.read(&mut chunk) {
                Ok(0) => return,
                Ok(count) => ear.lock().unwrap_or_else(PoisonError::into_inner).take(&chunk[..count]),
                Err(why) if why.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return,
            }
        }
    })
}

fn not_started(why: &str) -> Outcome {
    Outcome {
        end: End::NotStarted { why: why.to_owned() },
        wall_ns: 0,
        used: Used::default(),
        stdout: Heard::default(),
        stderr: Heard::default(),
        left: Vec::new(),
    }
}
