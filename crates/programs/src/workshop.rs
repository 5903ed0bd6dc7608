//! A private folder at the site in which programs run, kept by a [`keeper`](crate::keeper): the agent's end.

use crate::keeper::{End, FromKeeper, Outcome, Task, ToKeeper};
use baremark_model::command::EVERY_VARIABLE;
use baremark_model::job::JobError;
use baremark_model::scale;
use baremark_model::wire::{WireError, read_frame, write_frame};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

/// Lines of a program's output that an error shows.
const LAST_LINES: usize = 12;
/// The search path where the agent has none.
const USUAL_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// A folder and the keeper of its programs. Dropping it ends them and removes it.
pub struct Workshop {
    keeper: Child,
    to_keeper: Option<ChildStdin>,
    from_keeper: ChildStdout,
    folder: PathBuf,
}

impl Workshop {
    /// A new, empty folder.
    ///
    /// # Errors
    /// When the keeper cannot be started or cannot make its folder.
    pub fn open(keeper: &Path) -> Result<Self, JobError> {
        let started = Command::new(keeper).arg("keep").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child =
            started.map_err(|why| JobError::failed(format!("starting {} keep: {why}", keeper.display())))?;
        let (Some(to_keeper), Some(from_keeper)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(JobError::failed("the supervisor of programs has no streams"));
        };
        let mut workshop = Workshop { keeper: child, to_keeper: Some(to_keeper), from_keeper, folder: PathBuf::new() };
        match workshop.answer()? {
            FromKeeper::Here { folder } => workshop.folder = folder,
            other => return Err(out_of_turn(&other)),
        }
        Ok(workshop)
    }

    /// The folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Puts a file into the folder.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn put(&self, name: &str, bytes: &[u8]) -> Result<(), JobError> {
        let path = self.folder.join(name);
        let folder = path.parent().map_or(Ok(()), fs::create_dir_all);
        let written = folder.and_then(|()| fs::write(&path, bytes));
        // A file may be a script: whoever may read it may run it.
        let written = written.and_then(|()| fs::set_permissions(&path, fs::Permissions::from_mode(0o700)));
        written.map_err(|why| JobError::failed(format!("writing {}: {why}", path.display())))
    }

    /// Puts a copy of a file of this site into the folder, which can be executed if that one can.
    ///
    /// # Errors
    /// When it cannot be read or written.
    pub fn put_copy(&self, name: &str, of: &str) -> Result<(), JobError> {
        let path = self.folder.join(name);
        let folder = path.parent().map_or(Ok(()), fs::create_dir_all);
        let copied = folder.and_then(|()| fs::copy(of, &path));
        copied.map(drop).map_err(|why| JobError::failed(format!("copying {of} to {}: {why}", path.display())))
    }

    /// Runs a program to its end, which may be a bad one.
    ///
    /// # Errors
    /// When the keeper is lost or could not do it.
    pub fn run(&mut self, task: Task) -> Result<Outcome, JobError> {
        match self.ask(&ToKeeper::Run(task))? {
            FromKeeper::Done(outcome) => Ok(outcome),
            other => Err(out_of_turn(&other)),
        }
    }

    /// Starts a program that runs alongside the others until this is dropped, and waits until it is ready.
    ///
    /// # Errors
    /// When it ends or takes too long, with the last lines that it wrote.
    pub fn run_beside(&mut self, task: Task, ready: &str) -> Result<(), JobError> {
        let (name, timeout) = (name(&task), task.timeout_ns);
        match self.ask(&ToKeeper::Beside { task, ready: ready.to_owned() })? {
            FromKeeper::Ready => Ok(()),
            FromKeeper::Done(outcome) if outcome.end == End::TimedOut => {
                let seconds = Duration::from_nanos(timeout).as_secs_f64();
                let what = format!("{name}, which runs alongside the program, was not ready within {seconds} s");
                Err(JobError::Failed { what, log: last_words(&outcome) })
            }
            FromKeeper::Done(outcome) => {
                let what =
                    format!("{name}, which runs alongside the program, was not ready: {}", in_words(&outcome.end));
                Err(JobError::Failed { what, log: last_words(&outcome) })
            }
            other => Err(out_of_turn(&other)),
        }
    }

    fn ask(&mut self, what: &ToKeeper) -> Result<FromKeeper, JobError> {
        if let Some(to_keeper) = &mut self.to_keeper {
            write_frame(to_keeper, what).map_err(lost)?;
        }
        self.answer()
    }

    fn answer(&mut self) -> Result<FromKeeper, JobError> {
        match read_frame(&mut self.from_keeper).map_err(lost)? {
            FromKeeper::Failed { why } => Err(JobError::failed(why)),
            answer => Ok(answer),
        }
    }
}

impl Drop for Workshop {
    fn drop(&mut self) {
        // The end of its input is the keeper's sign to leave; it bounds its own time.
        self.to_keeper = None;
        drop(self.keeper.wait());
    }
}

fn lost(why: WireError) -> JobError {
    JobError::failed(format!("the supervisor of programs ended: {why}"))
}

fn out_of_turn(answer: &FromKeeper) -> JobError {
    JobError::failed(format!("unexpected answer of the supervisor of programs: {answer:?}"))
}

/// The environment of a program: a search path, the folder as its home and for temporary files, the C locale, what is
/// inherited by name, and what is set. Where everything is inherited, everything is as the agent has it.
#[must_use]
pub fn environment(
    folder: &Path,
    inherit: &[String],
    set: impl IntoIterator<Item = (String, String)>,
) -> BTreeMap<String, String> {
    let folder = folder.to_string_lossy().into_owned();
    let mut all = BTreeMap::from([
        ("PATH".to_owned(), search_path()),
        ("HOME".to_owned(), folder.clone()),
        ("TMPDIR".to_owned(), folder),
        ("LC_ALL".to_owned(), "C".to_owned()),
    ]);
    if inherit.iter().any(|name| name == EVERY_VARIABLE) {
        let text = |(name, value): (OsString, OsString)| Some((name.into_string().ok()?, value.into_string().ok()?));
        let own = std::env::vars_os().filter_map(text).filter(|(name, _)| name != scale::VARIABLE);
        all = BTreeMap::from([("PATH".to_owned(), search_path())]);
        all.extend(own);
    }
    all.extend(inherit.iter().filter_map(|name| Some((name.clone(), std::env::var(name).ok()?))));
    all.extend(set);
    all
}

/// The agent's search path.
#[must_use]
pub fn search_path() -> String {
    std::env::var("PATH").ok().filter(|path| !path.is_empty()).unwrap_or_else(|| USUAL_PATH.to_owned())
}

/// The last lines of a program's streams, its complaints last.
#[must_use]
pub fn last_words(outcome: &Outcome) -> Vec<String> {
    let complaints = outcome.stderr.last_lines(LAST_LINES);
    let mut lines = outcome.stdout.last_lines(LAST_LINES.saturating_sub(complaints.len()).max(LAST_LINES / 3));
    lines.extend(complaints);
    lines
}

const SIGILL: i32 = 4;

/// How a program ended, in words.
#[must_use]
pub fn in_words(end: &End) -> String {
    match end {
        End::Exited { code } => format!("it ended with exit code {code}"),
        End::Signalled { signal: SIGILL } => {
            "SIGILL: an instruction that this processor does not have ended it".to_owned()
        }
        End::Signalled { signal } => format!("signal {signal} ended it"),
        End::TimedOut => "it was ended at its time-out".to_owned(),
        End::NotStarted { why } => format!("it could not be started: {why}"),
    }
}

/// The outcome of a program that must end well.
///
/// # Errors
/// How it ended instead, with the last lines that it wrote.
pub fn ended_well(name: &str, timeout_ns: u64, outcome: Outcome) -> Result<Outcome, JobError> {
    if outcome.end == (End::Exited { code: 0 }) {
        return Ok(outcome);
    }
    Err(badly_ended(name, timeout_ns, &outcome))
}

/// How a program ended that should have ended otherwise.
#[must_use]
pub fn badly_ended(name: &str, timeout_ns: u64, outcome: &Outcome) -> JobError {
    let what = match &outcome.end {
        End::TimedOut => {
            let seconds = Duration::from_nanos(timeout_ns).as_secs_f64();
            format!("{name} did not end within {seconds} s and was ended with all that it had started")
        }
        end => format!("{name}: {}", in_words(end)),
    };
    JobError::Failed { what, log: last_words(outcome) }
}

/// The name of a task's program.
#[must_use]
pub fn name(task: &Task) -> String {
    task.argv.first().cloned().unwrap_or_default()
}
