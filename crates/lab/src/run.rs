//! A run as it is analysed, and what its plan says of an arm.

use crate::trials::Finished;
use baremark_model::descriptor::Descriptor;
use baremark_model::document::LookRow;
use baremark_model::imported::Imported;
use baremark_model::machine::MachineFacts;
use baremark_model::metric::Better;
use baremark_model::plan::Plan;
use baremark_model::second_look::SecondLook;
use baremark_model::units::UnixTime;

/// A run as stored.
#[derive(Clone, Debug)]
pub struct Run {
    /// Its name.
    pub id: String,
    /// The study file as the user named it.
    pub file: String,
    /// The plan.
    pub plan: Plan,
    /// The machine.
    pub machine: MachineFacts,
    /// The version of baremark that measured.
    pub version: String,
    /// When it began.
    pub started: UnixTime,
    /// When it ended.
    pub ended: Option<UnixTime>,
    /// Why it ended.
    pub stop_reason: Option<String>,
    /// Its trials, in the order measured.
    pub trials: Vec<Finished>,
    /// Its looks.
    pub looks: Vec<LookRow>,
    /// What was examined after its last block.
    pub examined: Option<SecondLook>,
    /// What other programs observed meanwhile.
    pub imported: Vec<Imported>,
    /// What a reader must know of how it was stored, each with the number of trials that it concerns; 0 for the run.
    pub notes: Vec<(String, usize)>,
}

/// For each arm of the plan: the places (trial, arm in the trial) at which it was executed and counted.
pub(crate) fn places<'t>(plan: &Plan, trials: &'t [Finished], arm: usize) -> Vec<(&'t Finished, usize)> {
    let mut found = Vec::new();
    for trial in trials.iter().filter(|trial| trial.counted().is_some()) {
        let arms = plan.arms_of(plan.cells[trial.cell]);
        found.extend(arms.iter().enumerate().filter(|(_, of)| **of == arm).map(|(index, _)| (trial, index)));
    }
    found
}

/// The descriptor of what an arm runs; `None` where this version has no such workload.
pub(crate) fn workload_of<'w>(plan: &Plan, workloads: &[&'w Descriptor], arm: usize) -> Option<&'w Descriptor> {
    workloads.iter().find(|workload| workload.kind == plan.workload_of(arm)).copied()
}

/// Which way the headline's metric of an arm is better.
pub(crate) fn better(plan: &Plan, workloads: &[&Descriptor], arm: usize) -> Option<Better> {
    workload_of(plan, workloads, arm)?.metric(plan.metric_of(arm)).map(|metric| metric.better)
}
