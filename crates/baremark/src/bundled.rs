//! A run as a bundle has it: between the store and an analysis, which sees stored and bundled runs alike.

use baremark_lab::analysis::Run;
use baremark_lab::trials::{Finished, Percentiles};
use baremark_model::document::LookRow;
use baremark_model::event::TrialStatus;
use baremark_model::imported::Imported;
use baremark_model::machine::MachineFacts;
use baremark_model::plan::Plan;
use baremark_model::second_look::SecondLook;
use baremark_model::units::{Nanos, UnixTime};
use baremark_model::wire::{TrialResult, TrialSpec};
use baremark_store::StoredRun;
use serde::{Deserialize, Serialize};

/// A run without its trials, as a bundle has it.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Head {
    pub id: String,
    /// The version of baremark that measured.
    pub version: String,
    /// The version of baremark that made the bundle.
    pub bundled_by: String,
    /// Whether names, addresses, paths and environment variables were removed.
    pub redacted: bool,
    pub study_file: String,
    pub study_text: String,
    pub started: UnixTime,
    pub ended: Option<UnixTime>,
    pub stop_reason: Option<String>,
    pub machine: MachineFacts,
    pub plan: Plan,
    pub looks: Vec<LookRow>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub examined: Option<SecondLook>,
    pub imported: Vec<Imported>,
}

/// A trial, as a bundle has it.
#[derive(Serialize, Deserialize)]
pub struct Trial {
    pub block: u64,
    pub cell: usize,
    pub place: u64,
    #[serde(flatten)]
    pub status: TrialStatus,
    pub elapsed: Nanos,
    pub spec: TrialSpec,
    pub result: Option<TrialResult>,
}

/// A stored run as it is bundled: its head, and its trials.
pub fn parts(stored: StoredRun, identify: bool) -> (Head, Vec<Trial>) {
    let trials = stored.trials.into_iter().map(|trial| Trial {
        block: trial.block,
        cell: trial.cell,
        place: trial.seq,
        status: trial.status,
        elapsed: trial.elapsed,
        spec: trial.spec,
        result: trial.result,
    });
    let trials = trials.collect();
    let head = Head {
        id: stored.id.to_string(),
        version: stored.version,
        bundled_by: env!("CARGO_PKG_VERSION").to_owned(),
        redacted: !identify,
        study_file: stored.study_file,
        study_text: stored.study_text,
        started: stored.started,
        ended: stored.ended,
        stop_reason: stored.stop_reason,
        machine: stored.machine,
        plan: stored.plan,
        looks: stored.looks,
        examined: stored.examined,
        imported: stored.imported,
    };
    (head, trials)
}

/// The run of which these are the head and the trials.
pub fn run_of(head: Head, trials: Vec<Trial>) -> Run {
    let finished = |trial: Trial| Finished {
        block: trial.block,
        cell: trial.cell,
        place: trial.place,
        spec: trial.spec,
        status: trial.status,
        result: trial.result,
        elapsed_ns: trial.elapsed.0,
        percentiles: Percentiles::default(),
    };
    Run {
        id: head.id,
        file: head.study_file,
        plan: head.plan,
        machine: head.machine,
        version: head.version,
        started: head.started,
        ended: head.ended,
        stop_reason: head.stop_reason,
        trials: trials.into_iter().map(finished).collect(),
        looks: head.looks,
        examined: head.examined,
        imported: head.imported,
        notes: Vec::new(),
    }
}
