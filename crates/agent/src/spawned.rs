//! Programs that the lab has started at this site, and the folder of their files.
//!
//! Each has a process group of its own, so that what it forks ends with it, and the kernel kills it when the agent dies. A
//! program that leaves its group on purpose gets away; where that matters, the site itself must end.

use baremark_model::spawned::{LONGEST_PIECE, PutFile, Spawn, Spawned};
use baremark_sys::log_tail::LogTail;
use baremark_sys::{confine, offspring};
use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Component, Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// How the names of agents' folders begin; the agent's process number follows.
const FOLDER: &str = "baremark-files-";
const SIGKILL: i32 = 9;
const SIGTERM: i32 = 15;
/// How long the last words of a program that has ended may take to arrive.
const LAST_WORDS: Duration = Duration::from_millis(200);
/// How often a program that shall end is looked at.
const GLANCE: Duration = Duration::from_millis(5);

/// Why an errand could not be done.
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    /// A name is unfit.
    #[error("'{0}' is no name of a file; write one without / that is not . or ..")]
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
pub struct Errands {
    folder: Option<PathBuf>,
    programs: BTreeMap<String, Running>,
}

struct Running {
    child: Child,
    ended: Option<ExitStatus>,
    log: LogTail,
}

impl Errands {
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
        let program = asked.program.as_deref().unwrap_or("/proc/self/exe");
        let mut command = Command::new(program);
        command.args(&asked.arguments).envs(&asked.environment).current_dir(self.folder()?);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let started = offspring::spawn(&mut command);
        let mut child = started.map_err(|source| SpawnError::Io { what: format!("starting {program}"), source })?;
        let mut log = LogTail::default();
        if let Some(stream) = child.stdout.take() {
            log.read(stream);
        }
        if let Some(stream) = child.stderr.take() {
            log.read(stream);
        }
        self.programs.insert(asked.name.clone(), Running { child, ended: None, log });
        self.tell(&asked.name)
    }

    /// How a program is doing.
    ///
    /// # Errors
    /// When nobody has that name.
    pub fn tell(&mut self, name: &str) -> Result<Spawned, SpawnError> {
        let running = self.programs.get_mut(name).ok_or_else(|| SpawnError::Unknown(name.to_owned()))?;
        let ended = running.look().map(|status| status.to_string());
        let log = running.log.lines();
        Ok(Spawned { name: name.to_owned(), pid: running.child.id(), ended, log })
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
            return Ok(made.clone());
        }
        // A site made of this program alone has no folder for temporary files yet.
        let parent = std::env::temp_dir();
        remove_orphans(&parent);
        let path = parent.join(format!("{FOLDER}{}", std::process::id()));
        let made = fs::create_dir_all(&parent).and_then(|()| DirBuilder::new().mode(0o700).create(&path));
        made.map_err(|source| SpawnError::Io { what: format!("making {}", path.display()), source })?;
        self.folder = Some(path.clone());
        Ok(path)
    }
}

impl Drop for Errands {
    fn drop(&mut self) {
        for running in self.programs.values_mut() {
            running.end(Duration::ZERO);
        }
        drop(self.folder.take().map(fs::remove_dir_all));
    }
}

impl Running {
    /// How it ended, if it has.
    fn look(&mut self) -> Option<ExitStatus> {
        if self.ended.is_none() {
            self.ended = self.child.try_wait().ok().flatten();
            if self.ended.is_some() {
                // What it has forked is still of its group; the group's number is nobody else's as long as that is so.
                self.kill_group();
                self.log.finish(LAST_WORDS);
            }
        }
        self.ended
    }

    fn end(&mut self, grace: Duration) {
        if self.look().is_none() && !grace.is_zero() {
            self.signal_group(SIGTERM);
            let deadline = Instant::now() + grace;
            while self.look().is_none() && Instant::now() < deadline {
                thread::sleep(GLANCE);
            }
        }
        if self.look().is_none() {
            self.kill_group();
            self.ended = self.child.wait().ok();
        }
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

/// Removes the folders of agents that were killed; those of other users cannot be.
fn remove_orphans(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let pid = name.to_str().and_then(|name| name.strip_prefix(FOLDER)?.parse::<u32>().ok());
        if pid.is_some_and(|pid| pid == std::process::id() || !Path::new(&format!("/proc/{pid}")).exists()) {
            drop(fs::remove_dir_all(entry.path()));
        }
    }
}
