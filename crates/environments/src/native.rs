//! This machine itself: the agent is a child process of the lab.
//!
//! The child has a process group of its own, so that an interrupt typed at the terminal reaches the lab alone and the
//! lab decides what becomes of the trial; and it is killed by the kernel when the lab dies, however that happens.

use crate::log_tail::LogTail;
use baremark_model::site::{Environment, Link, Missing, Site, SiteError};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// The native environment: starts `program agent`.
pub struct Native {
    program: PathBuf,
    variables: Vec<(&'static str, String)>,
}

impl Native {
    /// With this program as the agent, usually the one that is running.
    #[must_use]
    pub fn new(program: PathBuf) -> Self {
        Native { program, variables: Vec::new() }
    }

    /// The same, with an environment variable that its agents get.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: String) -> Self {
        self.variables.push((name, value));
        self
    }
}

impl Environment for Native {
    fn name(&self) -> &'static str {
        "native"
    }

    fn probe(&self) -> Result<(), Missing> {
        if self.program.is_file() {
            return Ok(());
        }
        Err(Missing {
            what: format!("the agent's program {} is not there", self.program.display()),
            remedy: "install baremark again; it runs itself as its agent".to_owned(),
        })
    }

    fn start(&self) -> Result<Box<dyn Site>, SiteError> {
        self.probe()?;
        let mut command = Command::new(&self.program);
        command.arg("agent").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        let lab = std::process::id();
        // SAFETY: between fork and exec only async-signal-safe functions may run; prctl, getppid and the creation of an
        // error from a number allocate nothing.
        unsafe { command.pre_exec(move || die_with(lab)) };
        let what = || format!("starting {}", self.program.display());
        let mut child = command.spawn().map_err(|source| SiteError::Io { what: what(), source })?;
        let log = child.stderr.take().map(LogTail::of);
        Ok(Box::new(NativeSite { child, log }))
    }
}

/// Asks the kernel to kill this process when its parent dies, and checks that it has not died already.
fn die_with(parent: u32) -> io::Result<()> {
    // SAFETY: PR_SET_PDEATHSIG takes a signal number and touches no memory.
    let rc = unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
    if rc != 0 {
        return Err(io::Error::last_os_error());
    }
    if std::os::unix::process::parent_id() != parent {
        return Err(io::Error::from_raw_os_error(libc::ESRCH));
    }
    Ok(())
}

struct NativeSite {
    child: Child,
    log: Option<LogTail>,
}

impl Site for NativeSite {
    fn link(&mut self) -> Option<Link> {
        let from_agent = Box::new(self.child.stdout.take()?);
        let to_agent = Box::new(self.child.stdin.take()?);
        Some(Link { from_agent, to_agent })
    }

    fn kill(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
        if let Some(log) = &mut self.log {
            log.finish();
        }
    }

    fn log(&self) -> Vec<String> {
        self.log.as_ref().map(LogTail::lines).unwrap_or_default()
    }
}

impl Drop for NativeSite {
    fn drop(&mut self) {
        self.kill();
    }
}
