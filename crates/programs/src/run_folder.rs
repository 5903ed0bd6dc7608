//! One run of a job: its folder, and the programs that it runs there one after the other.

use crate::keeper::{Outcome, Task};
use crate::workshop::{self, Workshop, ended_well};
use baremark_model::arm::ResolvedArm;
use baremark_model::command::TIMEOUT;
use baremark_model::job::{JobContext, JobError};
use baremark_model::units::Nanos;
use baremark_sys::file_system;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// What is kept of each stream of a program.
const OUTPUT_LIMIT: u64 = 1 << 20;

/// A fresh folder and what its programs have in common.
pub struct Stage {
    /// The folder.
    pub workshop: Workshop,
    environment: BTreeMap<String, String>,
    cpus: Vec<usize>,
    timeout_ns: u64,
}

/// Where the stages of a job have made and removed their folders.
pub struct Written(Option<PathBuf>);

impl Written {
    /// Before the first stage.
    pub const NOTHING: Self = Written(None);

    /// Notes that of a stage.
    pub fn note(&mut self, stage: &Stage) {
        self.0 = stage.workshop.folder().parent().map(Path::to_owned);
    }

    /// Writes what is new in that file system, so that nothing of it is written when the other site has its turns.
    ///
    /// # Errors
    /// What syncing gives.
    pub fn sync(&self) -> Result<(), JobError> {
        let Some(place) = &self.0 else { return Ok(()) };
        file_system::sync(place).map_err(|why| JobError::failed(format!("syncing {}: {why}", place.display())))
    }
}

impl Stage {
    /// A fresh folder at this site.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn open(arm: &ResolvedArm, around: JobContext<'_>) -> Result<Self, JobError> {
        let workshop = Workshop::open(around.keeper)?;
        let environment = workshop::environment(workshop.folder(), &[], []);
        let Nanos(timeout_ns) = TIMEOUT.get(arm)?;
        Ok(Stage { workshop, environment, cpus: around.cpus.to_vec(), timeout_ns })
    }

    /// Runs a program in the folder, which must end well.
    ///
    /// # Errors
    /// How it ended instead, with the last lines that it wrote.
    pub fn run<T: AsRef<str>>(&mut self, argv: &[T]) -> Result<Outcome, JobError> {
        let task = self.task(argv);
        let name = workshop::name(&task);
        let outcome = self.workshop.run(task)?;
        ended_well(&name, self.timeout_ns, outcome)
    }

    fn task<T: AsRef<str>>(&self, argv: &[T]) -> Task {
        Task {
            argv: argv.iter().map(|word| word.as_ref().to_owned()).collect(),
            environment: self.environment.clone(),
            timeout_ns: self.timeout_ns,
            output_limit_bytes: OUTPUT_LIMIT,
            cpus: self.cpus.clone(),
            ..Task::default()
        }
    }

    /// The CPUs that its programs may use.
    #[must_use]
    pub fn cpus(&self) -> usize {
        self.cpus.len()
    }

    /// A file of the folder.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.workshop.folder().join(name)
    }

    /// A file of the folder as text.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn read(&self, name: &str) -> Result<String, JobError> {
        let path = self.path(name);
        std::fs::read(&path)
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            .map_err(|why| JobError::failed(format!("reading {}: {why}", path.display())))
    }
}

/// A path as the site has it, absolute.
///
/// # Errors
/// When there is nothing.
pub fn found_at_site(path: &Path, remedy: &str) -> Result<PathBuf, JobError> {
    path.canonicalize().map_err(|why| JobError::Missing {
        what: format!("{} cannot be had at the site: {why}", path.display()),
        remedy: remedy.to_owned(),
    })
}
