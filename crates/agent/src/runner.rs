//! The one way to run a trial of anything: a specification in, series out.
//!
//! A trial has arms, a schedule of phases and parameters, whatever its workload is. What comes back is one [`Series`] for
//! each phase, with samples, parts of the phase and the workload's own detail. Two runners share all of it: [`Kernel`]
//! enters a loop over memory many times, [`Whole`] runs a job from its beginning to its end once a phase. Which kinds
//! there are is decided by the program that makes the agent.
//!
//! [`Series`]: baremark_model::wire::Series

use crate::progress::Progress;
use crate::trial::{self, TrialError};
use crate::{job, trial::crowds};
use baremark_model::command;
use baremark_model::descriptor::Descriptor;
use baremark_model::job::Job;
use baremark_model::metric::{Aggregate, Metric};
use baremark_model::seam::Workload;
use baremark_model::wire::{TrialResult, TrialSpec};
use std::collections::BTreeMap;

/// Runs trials of one kind of workload.
pub trait Runner {
    /// The table of its parameters and metrics.
    fn descriptor(&self) -> &'static Descriptor;

    /// Runs a trial; `progress` hears of each phase.
    ///
    /// # Errors
    /// When it could not be run to its end; what ran but was not as requested comes back as a void result instead.
    fn run(&self, spec: &TrialSpec, progress: &mut dyn Progress) -> Result<TrialResult, TrialError>;
}

/// A kernel: a loop over memory that executors enter once in each phase, and whose result is verified.
pub struct Kernel(pub &'static dyn Workload);

/// A job that runs as a whole in each phase: a program, a load, an application.
pub struct Whole(pub &'static dyn Job);

impl Runner for Kernel {
    fn descriptor(&self) -> &'static Descriptor {
        self.0.descriptor()
    }

    fn run(&self, spec: &TrialSpec, progress: &mut dyn Progress) -> Result<TrialResult, TrialError> {
        if spec.duet.is_some() {
            return Err(TrialError::spec(format!("{} runs one arm at a time", spec.workload)));
        }
        trial::run(self.0, spec, progress)
    }
}

impl Runner for Whole {
    fn descriptor(&self) -> &'static Descriptor {
        self.0.descriptor()
    }

    fn run(&self, spec: &TrialSpec, progress: &mut dyn Progress) -> Result<TrialResult, TrialError> {
        job::run(spec, self.0, progress)
    }
}

/// The kinds of workloads that an agent can run.
#[derive(Clone, Copy, Default)]
pub struct Runners {
    /// Kernels.
    pub workloads: &'static [&'static dyn Workload],
    /// Jobs.
    pub jobs: &'static [&'static [&'static dyn Job]],
}

impl Runners {
    /// The runner of the workload `kind`.
    #[must_use]
    pub fn find(&self, kind: &str) -> Option<Box<dyn Runner>> {
        let kernel = self.workloads.iter().find(|workload| workload.descriptor().kind == kind);
        if let Some(&kernel) = kernel {
            return Some(Box::new(Kernel(kernel)));
        }
        let job = self.jobs.iter().copied().flatten().find(|job| job.descriptor().kind == kind);
        job.map(|&job| Box::new(Whole(job)) as Box<dyn Runner>)
    }

    /// The tables of all kinds, kernels first.
    #[must_use]
    pub fn descriptors(&self) -> Vec<&'static Descriptor> {
        let kernels = self.workloads.iter().map(|workload| workload.descriptor());
        kernels.chain(self.jobs.iter().copied().flatten().map(|job| job.descriptor())).collect()
    }

    /// Runs a trial of the kind that `spec` names.
    ///
    /// # Errors
    /// A kind that is not among these, or why the trial did not come to its end.
    pub fn run(&self, spec: &TrialSpec, progress: &mut dyn Progress) -> Result<TrialResult, TrialError> {
        let lacks = || TrialError::spec(format!("this agent has no workload '{}'", spec.workload));
        self.find(&spec.workload).ok_or_else(lacks)?.run(spec, progress)
    }

    /// How the members of an ensemble join in each metric of what `spec` runs.
    pub(crate) fn together(&self, spec: &TrialSpec) -> BTreeMap<String, Aggregate> {
        // A study's own program brings its own metrics.
        let own = crowds(spec).ok().and_then(|arms| command::of_arm(arms.first()?.0)).map(command::descriptor);
        let table = own.or_else(|| self.find(&spec.workload).map(|runner| runner.descriptor()));
        let rule = |metric: &Metric| (metric.key.to_owned(), metric.together);
        table.map_or(&[][..], |table| table.metrics).iter().map(rule).collect()
    }
}
