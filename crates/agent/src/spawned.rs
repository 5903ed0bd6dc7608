//! Programs that the lab has started at this site, and the folder of their files.
//!
//! A tender is between the agent and each of them: this program as `baremark tend`, which adopts whatever the program
//! leaves behind and ends all of it when the agent says so or is gone, however that dies; one more removes the folder then, and
//! is there before the folder is.
//! Without a tender a program has a process group of its own and the kernel kills it with the agent; what leaves the group on
//! purpose gets away then, and the folder of an agent that was killed is removed by the next one. Whether an agent lives is seen by the lock of its
//! folder ([`PrivateFolder`]): agents in containers of one root folder all have the number 1, and one folder may be seen from several machines.

use baremark_model::spawned::{LONGEST_PIECE, PutFile, Spawn, SpawnLimits, Spawned, Used};
use baremark_sys::confine::{self, Held, Limits, MemoryLimit, SIGKILL, SIGTERM};
use baremark_sys::log_tail::LogTail;
use baremark_sys::private_folder::PrivateFolder;
use baremark_sys::{ending, process_tree, subreaper};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// How the names of agents' folders begin; the agent's process number and another number follow.
const FOLDER: &str = "baremark-files-";
/// This program itself, as this machine or this container has it.
const THIS_PROGRAM: &str = "/proc/self/exe";
/// How long the last words of a program that has ended may take to arrive.
const LAST_WORDS: Duration = Duration::from_millis(200);
/// How long a tender may take to end what it tends.
const TENDER_LIMIT: Duration = Duration::from_secs(10);
/// How often a program that shall end is looked at.
const GLANCE: Duration = Duration::from_millis(5);

/// Why an errand could not be done.
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    /// A name is unfit.
    #[error("invalid file name: '{0}'; write one without / that is not . or ..")]
    Name(String),
    /// The piece is too long.
    #[error("a piece of {0} bytes is more than {LONGEST_PIECE}; send it in several")]
    TooLong(usize),
    /// The name is taken.
    #[error("a program called {0} runs already; stop it first")]
    Taken(String),
    /// Nobody has that name.
    #[error("no program is called {0}; spawn it first")]
    Unknown(String),
    /// The operating system refused.
    #[error("{what}: {source}")]
    Io {
        /// What was tried.
        what: String,
        /// What it said.
        source: io::Error,
    },
}

/// Everything that was put and started; it is ended and removed when this is dropped.
#[derive(Default)]
pub struct SpawnedPrograms {
    tender: Option<PathBuf>,
    /// Removed before its guard is ended.
    folder: Option<PrivateFolder>,
    guard: Option<Guard>,
    programs: BTreeMap<String, Running>,
}

/// Removes the folder if this process cannot.
struct Guard(Child);

impl Drop for Guard {
    fn drop(&mut self) {
        ending::kill(&mut self.0);
    }
}

struct Running {
    child: Child,
    /// Whether it is a tender, which ends what is left itself.
    tended: bool,
    ended: Option<ExitStatus>,
    log: LogTail,
    held: Held,
    /// What it had used when it was last seen alive.
    used: Used,
}

impl SpawnedPrograms {
    /// Nothing yet. `tender` is run as `tender tend -- PROGRAM ARGUMENTS` and as `tender tend --folder FOLDER --of PID`.
    #[must_use]
    pub fn new(tender: Option<PathBuf>) -> Self {
        SpawnedPrograms { tender, folder: None, guard: None, programs: BTreeMap::new() }
    }

    /// Writes a file, or the next piece of one; its path at this site.
    ///
    /// # Errors
    /// When the name is unfit, the piece too long, or it cannot be written.
    pub fn put(&mut self, file: &PutFile) -> Result<String, SpawnError> {
        let mut parts = Path::new(&file.name).components();
        if !matches!((parts.next(), parts.next()), (Some(Component::Normal(_)), None)) || file.name.ends_with('/') {
            return Err(SpawnError::Name(file.name.clone()));
        }
        if file.content.len() > LONGEST_PIECE {
            return Err(SpawnError::TooLong(file.content.len()));
        }
        let path = self.folder()?.join(&file.name);
        let write = || {
            let mut open = File::options();
            let mut to = open.create(true).append(file.append).write(true).truncate(!file.append).open(&path)?;
            to.set_permissions(fs::Permissions::from_mode(if file.executable { 0o700 } else { 0o600 }))?;
            to.write_all(&file.content)
        };
        write().map_err(|source| SpawnError::Io { what: format!("writing {}", path.display()), source })?;
        Ok(path.to_string_lossy().into_owned())
    }

    /// Starts a program in the folder.
    ///
    /// # Errors
    /// When its name is taken or it cannot be started.
    pub fn spawn(&mut self, asked: &Spawn) -> Result<Spawned, SpawnError> {
        if let Some(running) = self.programs.get_mut(&asked.name)
            && running.look().is_none()
        {
            return Err(SpawnError::Taken(asked.name.clone()));
        }
        let folder = self.folder()?;
        let (program, mut command) = self.command(asked);
        command.envs(&asked.environment).current_dir(folder);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let trying = |source| SpawnError::Io { what: format!("starting {program}"), source };
        // A tender outlives the agent for as long as it takes to end the rest.
        let at_death = if self.tender.is_some() { 0 } else { SIGKILL };
        let held = confine::hold(&mut command, &limits(&asked.limits), at_death).map_err(trying)?;
        let mut child = subreaper::start(&mut command).map_err(trying)?;
        if self.tender.is_none() {
            drop(child.stdin.take());
        }
        let mut log = LogTail::default();
        if let Some(stream) = child.stdout.take() {
            log.read(stream);
        }
        if let Some(stream) = child.stderr.take() {
            log.read(stream);
        }
        self.programs.insert(
            asked.name.clone(),
            Running { child, tended: self.tender.is_some(), ended: None, log, held, used: Used::default() },
        );
        self.tell(&asked.name)
    }

    /// The program's name in messages, and how it is started.
    fn command(&self, asked: &Spawn) -> (String, Command) {
        let program = asked.program.clone().unwrap_or_else(|| THIS_PROGRAM.to_owned());
        let mut command = match &self.tender {
            Some(tender) => {
                let mut command = Command::new(tender);
                command.arg("tend").arg("--").arg(&program);
                command
            }
            None => Command::new(&program),
        };
        command.args(&asked.arguments);
        (program, command)
    }

    /// How a program is doing.
    ///
    /// # Errors
    /// When nobody has that name.
    pub fn tell(&mut self, name: &str) -> Result<Spawned, SpawnError> {
        let running = self.programs.get_mut(name).ok_or_else(|| SpawnError::Unknown(name.to_owned()))?;
        let ended = running.look().map(|status| status.to_string());
        let (log, lines) = running.log.lines_and_count();
        let memory_held = match running.held.memory {
            MemoryLimit::None => String::new(),
            held => held.label().to_owned(),
        };
        Ok(Spawned {
            name: name.to_owned(),
            pid: running.child.id(),
            ended,
            log,
            lines,
            used: running.used,
            memory_held,
        })
    }

    /// Ends a program: asks it to, and kills it with its group when it has not after `grace`.
    ///
    /// # Errors
    /// When nobody has that name.
    pub fn stop(&mut self, name: &str, grace: Duration) -> Result<Spawned, SpawnError> {
        let running = self.programs.get_mut(name).ok_or_else(|| SpawnError::Unknown(name.to_owned()))?;
        running.end(grace);
        self.tell(name)
    }

    fn folder(&mut self) -> Result<PathBuf, SpawnError> {
        if let Some(made) = &self.folder {
            return Ok(made.path().to_owned());
        }
        // A site made of this program alone has no folder for temporary files yet.
        let parent = std::env::temp_dir();
        let trying = |source| SpawnError::Io { what: format!("making a folder in {}", parent.display()), source };
        fs::create_dir_all(&parent).map_err(trying)?;
        drop(PrivateFolder::orphans(&parent, FOLDER));
        // First: whatever the moment at which this process is killed, somebody is there who removes the folder, or the next start does.
        let made = PrivateFolder::create_after(&parent, FOLDER, |path| self.guard_of(path));
        let (folder, guard) = made.map_err(trying)?;
        let path = folder.path().to_owned();
        (self.folder, self.guard) = (Some(folder), guard);
        Ok(path)
    }

    /// Starts who removes a folder that need not be there yet; nobody without a tender.
    fn guard_of(&self, folder: &Path) -> io::Result<Option<Guard>> {
        let Some(tender) = &self.tender else { return Ok(None) };
        let mut command = Command::new(tender);
        command.arg("tend").arg("--folder").arg(folder).arg("--of").arg(std::process::id().to_string());
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let named = |why: io::Error| io::Error::new(why.kind(), format!("starting {} tend: {why}", tender.display()));
        command.spawn().map(|child| Some(Guard(child))).map_err(named)
    }
}

impl Drop for SpawnedPrograms {
    fn drop(&mut self) {
        for running in self.programs.values_mut() {
            running.end(Duration::ZERO);
        }
    }
}

impl Running {
    /// How it ended, if it has.
    fn look(&mut self) -> Option<ExitStatus> {
        if self.ended.is_none() {
            self.note_usage();
            self.ended = self.child.try_wait().ok().flatten();
            if self.ended.is_some() {
                // What it has forked is still of its group; the group's number is nobody else's as long as that is so.
                if !self.tended {
                    self.kill_group();
                }
                self.log.finish(LAST_WORDS);
            }
        }
        self.ended
    }

    fn end(&mut self, grace: Duration) {
        if self.look().is_none() && !grace.is_zero() {
            self.signal_group(SIGTERM);
            self.wait(grace);
        }
        if self.child.stdin.take().is_some() {
            // The tender takes that for the end and ends everything first.
            self.wait(TENDER_LIMIT);
        }
        if self.look().is_none() {
            self.kill_group();
            self.ended = self.child.wait().ok();
        }
    }

    /// Waits for its end, at most `limit`.
    fn wait(&mut self, limit: Duration) {
        let deadline = Instant::now() + limit;
        while self.look().is_none() && Instant::now() < deadline {
            thread::sleep(GLANCE);
        }
    }

    fn note_usage(&mut self) {
        let of = if self.tended { process_tree::usage_of_tended } else { process_tree::usage };
        let now = of(self.child.id()).unwrap_or_default();
        // A process that has ended and was not waited for takes its time with it.
        let cpu_ns = now.cpu_ns.max(self.used.cpu_ns);
        self.used = Used { cpu_ns, resident_bytes: now.resident_bytes, processes: now.processes };
    }

    fn kill_group(&self) {
        self.signal_group(SIGKILL);
    }

    /// A group that has no member any more is as good.
    fn signal_group(&self, signal: i32) {
        if let Ok(group) = i32::try_from(self.child.id()) {
            drop(confine::send(-group, signal));
        }
    }
}

fn limits(asked: &SpawnLimits) -> Limits {
    Limits { cpus: asked.cpus.clone(), memory_bytes: asked.memory_bytes, open_files: asked.open_files }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where nobody can be started who would remove the folder, there is none: it is made after them.
    #[test]
    fn no_folder_is_made_before_there_is_somebody_who_removes_it() {
        let mut programs = SpawnedPrograms::new(Some(PathBuf::from("/nowhere/tender")));
        let file = PutFile { name: "file".to_owned(), append: false, executable: false, content: b"x".to_vec() };
        let why = programs.put(&file).expect_err("there is no such program").to_string();
        assert!(why.contains(": starting /nowhere/tender tend: "), "{why}");
        let own = format!("{FOLDER}{}-", std::process::id());
        let names = fs::read_dir(std::env::temp_dir()).expect("it is there").flatten().map(|entry| entry.file_name());
        let left: Vec<_> = names.filter(|name| name.to_string_lossy().starts_with(&own)).collect();
        assert!(left.is_empty(), "{left:?} are left if this process is killed now");
    }

    /// Two agents have one process number where each is the first process of a container, and both containers have one folder as their root: the second
    /// removed what the first had.
    #[test]
    fn an_agent_with_the_number_of_another_leaves_that_ones_files_alone() {
        let file = PutFile { name: "file".to_owned(), append: false, executable: false, content: b"x".to_vec() };
        let (mut first, mut second) = (SpawnedPrograms::new(None), SpawnedPrograms::new(None));
        let [ones, others] = [&mut first, &mut second].map(|agent| agent.put(&file).expect("it is written"));
        assert_ne!(ones, others);
        assert!(Path::new(&ones).exists(), "the first still needs it");
        drop(second);
        assert!(Path::new(&ones).exists() && !Path::new(&others).exists());
        drop(first);
        assert!(!Path::new(&ones).parent().expect("a folder").exists());
    }
}
