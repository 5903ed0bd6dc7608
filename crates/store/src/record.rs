//! What is stored, as the rest of the program sees it.

use crate::error::StoreError;
use crate::run_id::RunId;
use baremark_model::document::LookRow;
use baremark_model::event::TrialStatus;
use baremark_model::imported::Imported;
use baremark_model::machine::MachineFacts;
use baremark_model::plan::Plan;
use baremark_model::second_look::SecondLook;
use baremark_model::units::{Nanos, UnixTime};
use baremark_model::wire::{TrialResult, TrialSpec};

/// The format of a run's documents (plan, specification and result of a trial) that this version writes. To be raised when one
/// of them changes such that a run begun before cannot be gone on with: such a run is shown and compared, not resumed.
pub const FORMAT: i64 = 2;

/// The name of the document that has what was examined after a run's last block.
pub(crate) const EXAMINED: &str = "examined";

/// Everything that is known of a run when it begins.
#[derive(Clone, Debug, PartialEq)]
pub struct RunRecord {
    /// Its name; `None` lets the store draw one.
    pub id: Option<RunId>,
    /// The study file as the user named it.
    pub study_file: String,
    /// The study file's text.
    pub study_text: String,
    /// What was resolved from it.
    pub plan: Plan,
    /// The machine.
    pub machine: MachineFacts,
    /// The version of baremark.
    pub version: String,
    /// When it began.
    pub started: UnixTime,
}

/// A trial that is over, to be stored.
#[derive(Clone, Copy, Debug)]
pub struct TrialEntry<'t> {
    /// Its block, from 0.
    pub block: u64,
    /// Its cell in the plan.
    pub cell: usize,
    /// Its place in the run, from 0 and never given twice; after an interruption it continues from
    /// [`StoredRun::next_seq`].
    pub seq: u64,
    /// What was asked.
    pub spec: &'t TrialSpec,
    /// How it ended.
    pub status: &'t TrialStatus,
    /// What came back; `None` where nothing did.
    pub result: Option<&'t TrialResult>,
    /// When it began.
    pub started: UnixTime,
    /// How long it took, start of the agent included.
    pub elapsed: Nanos,
    /// Blocks of the run that are complete, with this trial.
    pub blocks_complete: u64,
}

/// A trial as it was stored.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredTrial {
    /// Its block, from 0.
    pub block: u64,
    /// Its cell in the plan.
    pub cell: usize,
    /// Its place in the run, from 0.
    pub seq: u64,
    /// What was asked.
    pub spec: TrialSpec,
    /// How it ended.
    pub status: TrialStatus,
    /// What came back.
    pub result: Option<TrialResult>,
    /// When it began.
    pub started: UnixTime,
    /// How long it took.
    pub elapsed: Nanos,
}

/// A trial whose row is there and is damaged: the file was changed by hand, or by a fault of the disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Torn {
    /// Its block, from 0.
    pub block: u64,
    /// Its cell in the plan.
    pub cell: usize,
    /// Its place in the run, from 0.
    pub seq: u64,
    /// That its checksum does not match, or which part cannot be read and why.
    pub why: String,
}

impl Torn {
    /// Which trial it is, such as `trial block 3 cell 1`: its block, from 0, and its cell in the plan.
    #[must_use]
    pub fn place(&self) -> String {
        format!("trial block {} cell {}", self.block, self.cell)
    }
}

/// A run with everything that was stored of it.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredRun {
    /// Its name.
    pub id: RunId,
    /// The study file as the user named it.
    pub study_file: String,
    /// The study file's text.
    pub study_text: String,
    /// What was resolved from it.
    pub plan: Plan,
    /// The machine.
    pub machine: MachineFacts,
    /// The version of baremark that began it.
    pub version: String,
    /// When it began.
    pub started: UnixTime,
    /// The format of its documents.
    pub format: i64,
    /// When it ended; `None` while it has not.
    pub ended: Option<UnixTime>,
    /// Why it ended; `None` while it has not.
    pub stop_reason: Option<String>,
    /// The trials in the order in which they ran.
    pub trials: Vec<StoredTrial>,
    /// The trials that are damaged, which are not among the others.
    pub torn: Vec<Torn>,
    /// What else is damaged: trials, looks or imports that are missing.
    pub damage: Vec<String>,
    /// Trials that an earlier version stored, without a checksum.
    pub unverified: u64,
    /// The looks at the estimates, in order.
    pub looks: Vec<LookRow>,
    /// What was examined after its last block.
    pub examined: Option<SecondLook>,
    /// What other programs observed meanwhile, as imported.
    pub imported: Vec<Imported>,
    /// What was reported while trials were under way, in order: seconds of a load, windows of a search.
    pub progress: Vec<serde_json::Value>,
}

impl StoredRun {
    /// Everything that is damaged: what, where it has a name, and what is wrong with it.
    #[must_use]
    pub fn all_damage(&self) -> Vec<(String, String)> {
        let torn = self.torn.iter().map(|torn| (torn.place(), torn.why.clone()));
        torn.chain(self.damage.iter().map(|why| (String::new(), why.clone()))).collect()
    }

    /// The place in the run of the next trial.
    #[must_use]
    pub fn next_seq(&self) -> u64 {
        let last = self.trials.iter().map(|t| t.seq).chain(self.torn.iter().map(|t| t.seq)).max();
        last.map_or(0, |seq| seq + 1)
    }
}

/// Whether a run continues, went to its end, or neither.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunState {
    /// A living process holds its lock.
    Live,
    /// The process that worked on it is gone without a word; it can be resumed.
    Killed,
    /// The user stopped it; it can be resumed.
    Interrupted,
    /// Nothing could be measured; it can be resumed when the cause is gone.
    Failed,
    /// It ended.
    Finished,
}

impl RunState {
    /// The state in one word.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            RunState::Live => "live",
            RunState::Killed => "killed",
            RunState::Interrupted => "interrupted",
            RunState::Failed => "failed",
            RunState::Finished => "finished",
        }
    }

    /// Whether `resume` continues with such a run.
    #[must_use]
    pub fn can_be_resumed(self) -> bool {
        matches!(self, RunState::Killed | RunState::Interrupted | RunState::Failed)
    }
}

/// A run in one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunSummary {
    /// Its name.
    pub id: RunId,
    /// Its question.
    pub title: String,
    /// The study file as the user named it.
    pub study_file: String,
    /// When it began.
    pub started: UnixTime,
    /// When it ended; `None` while it has not.
    pub ended: Option<UnixTime>,
    /// Why it ended; `None` while it has not.
    pub stop_reason: Option<String>,
    /// Trials that were stored, void and failed ones included.
    pub trials: u64,
    /// Blocks of which every cell has a trial.
    pub blocks: u64,
    /// The sum of the checksums of its rows: another one with every row that is added.
    pub contents: u32,
    /// Whether it continues.
    pub state: RunState,
}

/// A stored load in a line.
#[derive(Clone, Debug, PartialEq)]
pub struct LoadSummary {
    /// Its name.
    pub id: RunId,
    /// Its document's format.
    pub kind: String,
    /// What was loaded.
    pub title: String,
    /// When it began.
    pub started: UnixTime,
    /// When it ended.
    pub ended: Option<UnixTime>,
    /// How.
    pub stop_reason: Option<String>,
    /// Whether it goes on, was killed, or has ended.
    pub state: RunState,
}

/// All runs and loads, the latest first.
#[derive(Debug)]
pub struct Listing {
    /// The runs of studies.
    pub runs: Vec<RunSummary>,
    /// The loads.
    pub loads: Vec<LoadSummary>,
    /// What is damaged: runs that are not among the others, or the list itself.
    pub damaged: Vec<StoreError>,
}

impl Listing {
    /// The list, if nothing of it is damaged.
    ///
    /// # Errors
    /// The first thing that is damaged.
    pub fn intact(self) -> Result<Listing, StoreError> {
        match self.damaged.into_iter().next() {
            Some(why) => Err(why),
            None => Ok(Listing { damaged: Vec::new(), ..self }),
        }
    }
}
