//! A process that Open MPI has launched, on this machine or where its host list says.
//!
//! The agent is rank 0 of the job: its streams are mpirun's own. The other ranks leave at
//! once; their slots are there for what the agent starts. mpirun is asked to end before it is killed, for only so does it
//! end what it has launched on other machines. What Open MPI keeps in files here while it runs is in a folder of the site's, which
//! goes with it, for mpirun leaves that behind when it is killed.

pub(crate) mod study;

use crate::child::{self, Piped};
use crate::folder::Folder;
use crate::interruptible::receive;
use crate::ready_line::agent_in;
use baremark_model::site::{Environment, Link, Missing, Site, SiteError};
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

/// How long mpirun may take to run the program's `--version`.
const PROBE_LIMIT: Duration = Duration::from_secs(30);
/// How long mpirun may take to end its job once it is asked to.
const END_LIMIT: Duration = Duration::from_secs(5);

/// Variables that say where mpirun itself keeps its sessions: of Open MPI up to 4, and from 5 on (PRRTE). Daemons on other
/// machines keep theirs where they do.
const SESSION_BASES: [&str; 2] = ["OMPI_MCA_orte_local_tmpdir_base", "PRTE_MCA_prte_local_tmpdir_base"];

/// How jobs are launched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Ranks; the agent is the first.
    pub ranks: usize,
    /// The hosts and their slots, as mpirun's `--hostfile` takes them; this machine, or the batch system's, when `None`.
    pub hosts: Option<PathBuf>,
    /// Further arguments for mpirun, as they are.
    pub arguments: Vec<String>,
    /// How long a job may take until its agent is there.
    pub start_limit: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Settings { ranks: 1, hosts: None, arguments: Vec::new(), start_limit: Duration::from_secs(60) }
    }
}

/// The mpi environment: one `mpirun` for each site.
pub struct Mpi {
    program: PathBuf,
    settings: Settings,
    probed: OnceLock<Result<(), Missing>>,
}

impl Mpi {
    /// With this program as the agent, which must be at the same path on all hosts.
    #[must_use]
    pub fn new(program: PathBuf, settings: Settings) -> Self {
        Mpi { program, settings, probed: OnceLock::new() }
    }

    /// `mpirun` up to the program, its session in `folder`. Binding is left to the agent, which pins its own threads.
    fn command(&self, ranks: usize, folder: &Folder) -> Command {
        let mut command = Command::new("mpirun");
        if !self.has_its_own_folder() {
            command.envs(SESSION_BASES.map(|variable| (variable, folder.inner())));
        }
        command.args(["-np", &ranks.to_string(), "--stdin", "0", "--bind-to", "none"]);
        if let Some(hosts) = &self.settings.hosts {
            command.arg("--hostfile").arg(hosts);
        }
        command.args(&self.settings.arguments).arg(&self.program);
        command
    }

    /// Whether the user has said where sessions are; Open MPI refuses to be told twice.
    fn has_its_own_folder(&self) -> bool {
        let told = |text: &str| text.contains("tmpdir_base");
        let mut variables = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
        self.settings.arguments.iter().any(|argument| told(argument))
            || variables.any(|name| (name.starts_with("OMPI_MCA_") || name.starts_with("PRTE_MCA_")) && told(&name))
    }

    fn try_out(&self) -> Result<(), Missing> {
        let ran = Folder::create("mpi")
            .and_then(|folder| child::run(self.command(1, &folder).arg("--version"), PROBE_LIMIT))
            .map_err(|why| Missing {
                what: format!("Open MPI cannot be used: {why}"),
                remedy: "install it (openmpi-bin on Debian)".to_owned(),
            })?;
        if ran.well() {
            return Ok(());
        }
        let refuses_root = ran.said.iter().any(|line| line.contains("--allow-run-as-root"));
        let (what, remedy) = if refuses_root {
            let remedy = "run as another user, or write arguments = [\"--allow-run-as-root\"] in [environments.mpi]";
            ("Open MPI does not run as root unless OMPI_ALLOW_RUN_AS_ROOT is set".to_owned(), remedy.to_owned())
        } else {
            let remedy = "see whether `mpirun -np 1 hostname` works with the same arguments".to_owned();
            (format!("mpirun cannot run this program: {}", ran.failure()), remedy)
        };
        Err(Missing { what, remedy })
    }
}

impl Environment for Mpi {
    fn name(&self) -> &'static str {
        "mpi"
    }

    /// Runs the program's `--version` once.
    fn probe(&self) -> Result<(), Missing> {
        self.probed.get_or_init(|| self.try_out()).clone()
    }

    fn start(&self, interrupt: &AtomicBool) -> Result<Box<dyn Site>, SiteError> {
        self.probe()?;
        drop(Folder::orphans("mpi"));
        let folder = Folder::create("mpi")?;
        let mut command = self.command(self.settings.ranks, &folder);
        let mut mpirun = Piped::launch(command.args(["agent", "--announce"]), END_LIMIT)?;
        let (from, to_agent) = mpirun.streams("mpirun")?;
        let limit = self.settings.start_limit;
        let heard = receive(&agent_in(from), Instant::now() + limit, interrupt)?;
        let what = match heard {
            Ok(from_agent) => {
                let link = Some(Link { from_agent, to_agent: Box::new(to_agent) });
                return Ok(Box::new(MpiSite { mpirun, link, _folder: folder }));
            }
            Err(RecvTimeoutError::Disconnected) => "mpirun ended before its agent was there".to_owned(),
            Err(RecvTimeoutError::Timeout) => {
                format!("the agent did not connect within {} s of the start of mpirun", limit.as_secs())
            }
        };
        mpirun.kill();
        Err(SiteError::NotReady { what, log: mpirun.log() })
    }
}

struct MpiSite {
    mpirun: Piped,
    link: Option<Link>,
    /// Dropped last, when mpirun is gone.
    _folder: Folder,
}

impl Site for MpiSite {
    fn link(&mut self) -> Option<Link> {
        self.link.take()
    }

    fn kill(&mut self) {
        self.mpirun.kill();
    }

    fn log(&self) -> Vec<String> {
        self.mpirun.log()
    }
}
