//! The seam of jobs: work that needs an operating system and is run as a whole.
//!
//! A [`Workload`](crate::seam::Workload) is a loop over memory that an executor enters; a job is programs, processes and
//! sockets. It is run once in each phase of a trial and times itself at the site, so that neither its preparation nor the
//! agent's own work counts. The executor `direct` runs all jobs; a program (`command`) can run in the microVM, too, with the
//! host's kernel behind it.

use crate::arm::{ExecutorKind, ResolvedArm};
use crate::descriptor::Descriptor;
use crate::knob::InvalidValue;
use crate::loading::Loading;
use crate::placement::Placed;
use crate::seam::{ExecutorFacts, Sample, Verification, WorkloadError};
use crate::wire::{ArmRecord, Detail, PagesSeen, Point};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// What a job finds at its site.
#[derive(Clone, Copy, Debug)]
pub struct JobContext<'s> {
    /// The program that keeps the job's processes, called with the argument `keep`: this one.
    pub keeper: &'s Path,
    /// The CPUs that the job may use.
    pub cpus: &'s [usize],
    /// Seed of every random choice.
    pub seed: u64,
    /// How long a job lasts that can choose.
    pub phase: Duration,
    /// Block devices that the job may overwrite: those that the user has named for it. A job writes to no other.
    pub overwritable: &'s [PathBuf],
    /// Set when nobody wants the result any more; see [`Descriptor::stops_on_interrupt`].
    pub interrupt: &'s Arc<AtomicBool>,
}

/// One run of a job.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct JobRun {
    /// Its metrics.
    pub samples: Vec<Sample>,
    /// What was checked, in words.
    pub checked: String,
    /// What a reader should know though the run counts.
    pub flags: Vec<String>,
    /// Reasons for which the trial does not count though the run came to its end.
    pub void: Vec<String>,
    /// Parts of the run: seconds, operations.
    pub points: Vec<Point>,
    /// What only this job reports.
    pub detail: Option<Detail>,
}

/// Why a job gave no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JobError {
    /// A parameter is out of the range that the job can do.
    #[error(transparent)]
    Parameter(#[from] WorkloadError),
    /// The site lacks something.
    #[error("{what}; {remedy}")]
    Missing {
        /// What it lacks.
        what: String,
        /// What would help.
        remedy: String,
    },
    /// It ran and did not do what it should have.
    #[error("{what}{}", said(log))]
    Failed {
        /// What went wrong.
        what: String,
        /// The last lines that it wrote, oldest first.
        log: Vec<String>,
    },
    /// It was told to end before it had a result.
    #[error("interrupted")]
    Interrupted,
}

impl From<InvalidValue> for JobError {
    fn from(misfit: InvalidValue) -> Self {
        JobError::Parameter(misfit.into())
    }
}

impl JobError {
    /// A failure without a log.
    pub fn failed(what: impl ToString) -> Self {
        JobError::Failed { what: what.to_string(), log: Vec::new() }
    }
}

fn said(log: &[String]) -> String {
    if log.is_empty() { String::new() } else { format!("; its last words:\n    {}", log.join("\n    ")) }
}

/// A server's program that a job starts where it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerProgram {
    /// The parameter that chooses it.
    pub parameter: &'static str,
    /// Its name: that parameter's level.
    pub name: &'static str,
    /// Files that it may be; a `*` represents one folder's name, the last in order is taken.
    pub files: &'static [&'static str],
    /// Debian's package that has it.
    pub package: &'static str,
    /// What a study writes to do without a server, such as `database = "sqlite"`; `None` where it cannot.
    pub instead: Option<&'static str>,
}

/// Work that is run as a whole.
pub trait Job: Sync {
    /// Its parameters, metrics and needs.
    fn descriptor(&self) -> &'static Descriptor;

    /// The server that an arm has started where it runs, so that planning looks for its program there; `None` where it starts none.
    fn server(&self, arm: &ResolvedArm) -> Option<ServerProgram> {
        let _ = arm;
        None
    }

    /// Whether it measures disks, so that a hypervisor's own counts of them belong to its phases.
    fn measures_disks(&self) -> bool {
        false
    }

    /// Looks whether it can run at this site and makes ready what all its runs share.
    ///
    /// # Errors
    /// What is missing, or which parameter cannot be.
    fn prepare<'s>(&self, arm: &'s ResolvedArm, around: JobContext<'s>) -> Result<Box<dyn ReadyJob + 's>, JobError>;

    /// As [`Job::prepare`]; a job that loads data reports how far that has come.
    ///
    /// # Errors
    /// As [`Job::prepare`].
    fn prepare_reporting<'s>(
        &self,
        arm: &'s ResolvedArm,
        around: JobContext<'s>,
        report: &mut dyn FnMut(Loading),
    ) -> Result<Box<dyn ReadyJob + 's>, JobError> {
        let _ = report;
        self.prepare(arm, around)
    }
}

/// What a run reports while it is under way.
#[derive(Clone, Debug, PartialEq)]
pub enum Update {
    /// A part of the run has ended; it is stored, so that a run that is interrupted can be taken up after it.
    Part(Value),
    /// Data is being loaded.
    Loading(Loading),
}

/// A job that can be run. Dropping it leaves no process and no file behind.
pub trait ReadyJob {
    /// Its runs take turns with those of another site: what it starts may run from one of them to the next, for [`ReadyJob::rest`] is called between them.
    /// Called once, before [`ReadyJob::warm_up`].
    fn takes_turns(&mut self) {}

    /// Stops what it has started where it is, and has written what is new in its files, so that nothing of it runs until [`ReadyJob::wake`]; that has taken
    /// effect when this returns. Called after the warm-up and after each run of a job that takes turns.
    ///
    /// # Errors
    /// When it cannot be.
    fn rest(&mut self) -> Result<(), JobError> {
        Ok(())
    }

    /// Lets it go on after [`ReadyJob::rest`]: its next run follows.
    fn wake(&mut self) {}

    /// CPU time in ns that its processes have used since their start, while it rests: what it grows by was not at rest.
    fn resting_cpu_ns(&self) -> u64 {
        0
    }

    /// Does what is to be done before the first of its runs in a trial, unmeasured; most jobs need nothing.
    ///
    /// # Errors
    /// When it cannot be.
    fn warm_up(&mut self) -> Result<(), JobError> {
        Ok(())
    }

    /// Whether all its work is done by programs that this one has started, so that whatever else uses the CPUs meanwhile disturbs it.
    fn works_in_own_processes(&self) -> bool {
        true
    }

    /// Runs it once, from the same state each time.
    ///
    /// # Errors
    /// When it did not come to a result that is right.
    fn run(&mut self) -> Result<JobRun, JobError>;

    /// Runs it once, and reports how far it has come. `stored` are the parts that an interrupted run of the same phase reported. A run
    /// without such parts is run from its beginning.
    ///
    /// # Errors
    /// As [`ReadyJob::run`].
    fn resume(&mut self, stored: &[Value], report: &mut dyn FnMut(Update)) -> Result<JobRun, JobError> {
        let _ = (stored, report);
        self.run()
    }
}

/// What is recorded of an arm that a job ran: it has no memory of the agent's, and nothing is entered to run it.
#[must_use]
pub fn record(arm: &ResolvedArm, cpus: &[usize], detail: String) -> ArmRecord {
    ArmRecord {
        executor: ExecutorFacts {
            name: arm.executor.to_string(),
            ranks: cpus.len(),
            cpus: cpus.to_vec(),
            runs_body: true,
            virtual_machine: arm.executor == ExecutorKind::Microvm,
            mmu: None,
            translation: None,
            notes: BTreeMap::new(),
        },
        pages_before: PagesSeen::default(),
        pages_after: PagesSeen::default(),
        placed: Placed { cpus: cpus.to_vec(), ..Placed::default() },
        counters: BTreeMap::new(),
        grown: BTreeMap::new(),
        verification: Verification::Passed { detail },
        verified: None,
        empty_run_ns: 0.0,
    }
}
