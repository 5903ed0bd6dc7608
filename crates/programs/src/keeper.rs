//! The keeper: a process between an agent and the programs that it runs.
//!
//! It owns a private folder and everything that is started in it. It adopts what programs leave behind, so that daemons
//! are found; it ends when its input does, so that nothing outlives an agent, however that dies; and it reads the programs'
//! output as long as it comes, so that a flood fills neither memory nor a pipe. It times the programs itself: the agent
//! is not in the measurement.

use crate::heard::{Ear, Heard};
use baremark_model::wire::{WireError, read_frame, write_frame};
use baremark_sys::{affinity, offspring, process};
use regex_lite::Regex;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File};
use std::io::{self, Read};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
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

/// One program to run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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
}

/// What an agent asks of its keeper.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "type")]
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
    /// Processor time of it and of all that it waited for.
    pub cpu_ns: u64,
    /// The largest resident set that one of them had.
    pub peak_rss_bytes: u64,
    /// Its standard output.
    pub stdout: Heard,
    /// Its standard error.
    pub stderr: Heard,
    /// Names of the processes that it left running; they were ended.
    pub left: Vec<String>,
}

/// What a keeper says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "type")]
pub enum FromKeeper {
    /// Its folder is made; always first.
    Here {
        /// The folder.
        folder: PathBuf,
    },
    /// The program beside is ready.
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
    let mut output = trying("setting standard output apart", process::take_stdout())?;
    trying("becoming the parent of orphans", offspring::adopt_orphans())?;
    let folder = match Folder::create() {
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
    let mut keeper = Keeper { folder, beside: Vec::new(), gone };
    let result = keeper.serve(&asked, &mut output);
    // Whatever is left, beside or daemon, before the folder goes.
    let ended = offspring::end_all_but(&[], END_LIMIT);
    drop(keeper);
    result?;
    ended.map(drop).or_else(|why| trying("ending what was left", Err(why)))
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
            offspring::kill_all_but(&[]);
            thread::sleep(GLANCE);
        }
    });
    asked
}

/// A private folder, removed when dropped.
struct Folder {
    path: PathBuf,
}

impl Folder {
    fn create() -> io::Result<Self> {
        let (base, pid) = (std::env::temp_dir(), std::process::id());
        for number in 0_u32.. {
            let path = base.join(format!("baremark-work-{pid}-{number}"));
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Ok(Folder { path }),
                Err(why) if why.kind() == io::ErrorKind::AlreadyExists => {}
                Err(why) => return Err(why),
            }
        }
        Err(io::Error::other("every name is taken"))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.path));
    }
}

struct Keeper {
    folder: Folder,
    beside: Vec<u32>,
    gone: Arc<AtomicBool>,
}

/// A program that runs, and what it says.
struct Running {
    pid: u32,
    began: Instant,
    ears: [Arc<Mutex<Ear>>; 2],
    readers: Vec<JoinHandle<()>>,
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
        let deadline = running.began + Duration::from_nanos(task.timeout_ns);
        let ended = trying("waiting for a program", offspring::wait(running.pid, deadline))?;
        let (ended, timed_out) = match ended {
            Some(ended) => (ended, false),
            None => (self.end(running.pid)?, true),
        };
        let left = trying("ending what a program left", offspring::end_all_but(&self.beside, END_LIMIT))?;
        let [stdout, stderr] = running.heard();
        let end = match (ended.status.code(), ended.status.signal()) {
            _ if timed_out => End::TimedOut,
            (Some(code), _) => End::Exited { code },
            (None, signal) => End::Signalled { signal: signal.unwrap_or(0) },
        };
        Ok(Outcome {
            end,
            wall_ns: nanos(ended.at.saturating_duration_since(running.began)),
            cpu_ns: nanos(ended.cpu),
            peak_rss_bytes: ended.peak_rss_bytes,
            stdout,
            stderr,
            left,
        })
    }

    /// Kills a child and waits for it.
    fn end(&self, pid: u32) -> Result<offspring::Ended, KeeperError> {
        offspring::kill_all_but(&self.beside);
        let ended = trying("waiting for a killed program", offspring::wait(pid, Instant::now() + END_LIMIT))?;
        ended.map_or_else(|| trying("killing a program", Err(io::Error::from(io::ErrorKind::TimedOut))), Ok)
    }

    fn start_beside(&mut self, task: &Task, ready: &str) -> Result<FromKeeper, KeeperError> {
        let running = match self.start(task)? {
            Ok(running) => running,
            Err(why) => return Ok(FromKeeper::Done(not_started(&why))),
        };
        let ready = Regex::new(ready).map_err(|why| KeeperError::Io {
            what: format!("'{ready}' is no regular expression"),
            source: io::Error::other(why.to_string()),
        })?;
        let deadline = running.began + Duration::from_nanos(task.timeout_ns);
        loop {
            if running.said().iter().any(|heard| ready.is_match(&heard.text)) {
                self.beside.push(running.pid);
                return Ok(FromKeeper::Ready);
            }
            let ended = trying("waiting for a program", offspring::wait(running.pid, Instant::now() + GLANCE))?;
            let end = match ended.map(|ended| ended.status) {
                None if Instant::now() < deadline => continue,
                None => {
                    self.end(running.pid)?;
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
        let Some((program, arguments)) = task.argv.split_first() else {
            return Ok(Err("no program is named".to_owned()));
        };
        let mut command = Command::new(found(program, &self.folder.path, &task.environment));
        command.args(arguments).env_clear().envs(&task.environment).current_dir(&self.folder.path);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let all = trying("asking which CPUs may be used", affinity::allowed_cpus())?;
        if !task.cpus.is_empty() {
            trying("keeping a program to its CPUs", affinity::restrict_current_thread(&task.cpus))?;
        }
        let started = offspring::spawn(&mut command);
        if !task.cpus.is_empty() {
            trying("using all CPUs again", affinity::restrict_current_thread(&all))?;
        }
        let (mut child, began) = match started {
            Ok(started) => started,
            Err(why) => return Ok(Err(format!("{program}: {why}"))),
        };
        let ears = [(); 2].map(|()| Arc::new(Mutex::new(Ear::new(task.output_limit_bytes))));
        let mut readers = Vec::new();
        readers.extend(child.stdout.take().map(|stream| read(stream, &ears[0])));
        readers.extend(child.stderr.take().map(|stream| read(stream, &ears[1])));
        Ok(Ok(Running { pid: child.id(), began, ears, readers }))
    }
}

/// A program whose name has a `/` is looked for from the folder, any other along the search path of its environment.
fn found(program: &str, folder: &Path, environment: &BTreeMap<String, String>) -> PathBuf {
    if program.contains('/') {
        return folder.join(program);
    }
    find_program(program, environment.get("PATH").map_or("", String::as_str)).unwrap_or_else(|| program.into())
}

/// Where `program` is along `path`.
#[must_use]
pub fn find_program(program: &str, path: &str) -> Option<PathBuf> {
    use std::os::unix::fs::PermissionsExt;
    let runs = |file: &PathBuf| fs::metadata(file).is_ok_and(|it| it.is_file() && it.permissions().mode() & 0o111 != 0);
    if program.contains('/') {
        return Some(PathBuf::from(program)).filter(runs);
    }
    path.split(':').filter(|part| !part.is_empty()).map(|part| Path::new(part).join(program)).find(runs)
}

impl Running {
    fn said(&self) -> [Heard; 2] {
        [0, 1].map(|stream| self.ears[stream].lock().unwrap_or_else(PoisonError::into_inner).heard())
    }

    /// All that it said, once it is gone.
    fn heard(&self) -> [Heard; 2] {
        let deadline = Instant::now() + STREAM_LIMIT;
        while self.readers.iter().any(|reader| !reader.is_finished()) && Instant::now() < deadline {
            thread::sleep(GLANCE / 8);
        }
        self.said()
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
        cpu_ns: 0,
        peak_rss_bytes: 0,
        stdout: Heard::default(),
        stderr: Heard::default(),
        left: Vec::new(),
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
