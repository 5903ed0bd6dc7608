//! One run of a job: its folder, and the programs that it runs there one after the other.

use crate::keeper::{Outcome, Task};
use crate::workshop::{self, Workshop, ended_well};
use baremark_model::arm::ResolvedArm;
use baremark_model::command::TIMEOUT;
use baremark_model::descriptor::Value;
use baremark_model::job::{JobError, Surroundings};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// What is kept of each stream of a program.
const OUTPUT_LIMIT: u64 = 1 << 20;

/// How long a program of a job may take.
#[must_use]
pub fn timeout_ns(arm: &ResolvedArm) -> u64 {
    match arm.parameters.get(TIMEOUT.key) {
        Some(Value::TimeNs(timeout)) => timeout.0,
        _ => 600_000_000_000,
    }
}

/// A parameter's text.
#[must_use]
pub fn text<'a>(arm: &'a ResolvedArm, key: &str) -> &'a str {
    match arm.parameters.get(key) {
        Some(Value::Text(text) | Value::Choice(text)) => text,
        _ => "",
    }
}

/// A parameter's words.
#[must_use]
pub fn words(arm: &ResolvedArm, key: &str) -> Vec<String> {
    match arm.parameters.get(key) {
        Some(Value::Words(words)) => words.clone(),
        _ => Vec::new(),
    }
}

/// A parameter's number.
#[must_use]
pub fn count(arm: &ResolvedArm, key: &str) -> Option<u64> {
    match arm.parameters.get(key) {
        Some(Value::Count(count)) => Some(*count),
        Some(Value::SizeBytes(size)) => Some(size.0),
        Some(Value::TimeNs(time)) => Some(time.0),
        _ => None,
    }
}

/// A fresh folder and what its programs have in common.
pub struct Stage {
    /// The folder.
    pub workshop: Workshop,
    environment: BTreeMap<String, String>,
    cpus: Vec<usize>,
    timeout_ns: u64,
}

impl Stage {
    /// A fresh folder at this site.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn open(arm: &ResolvedArm, around: Surroundings<'_>) -> Result<Self, JobError> {
        let workshop = Workshop::open(around.keeper)?;
        let environment = workshop::environment(workshop.folder(), &[], []);
        Ok(Stage { workshop, environment, cpus: around.cpus.to_vec(), timeout_ns: timeout_ns(arm) })
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
pub fn found_at_site(path: &str, remedy: &str) -> Result<PathBuf, JobError> {
    Path::new(path).canonicalize().map_err(|why| JobError::Missing {
        what: format!("{path} cannot be had at the site: {why}"),
        remedy: remedy.to_owned(),
    })
}
