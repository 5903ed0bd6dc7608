//! What happens during a run, as data. Terminal, store and replay are readers of it; nothing flows back.

use crate::document::LookRow;
pub use crate::document::TrialStatus;
use crate::loading::Loading;
use crate::plan::Treatment;
use serde::{Deserialize, Serialize};

/// One thing that happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "event")]
pub enum Event {
    /// The run began, or went on after an interruption.
    Started {
        /// The run.
        run: String,
        /// Its question.
        title: String,
        /// Trials in each block.
        trials_per_block: usize,
        /// Blocks that an earlier process had finished.
        blocks_done: u64,
        /// How long the trials of earlier processes took: a part of the budget.
        spent_ns: u64,
        /// Their last analysis, unless the run was extended since.
        look: Option<LookRow>,
    },
    /// A trial begins.
    TrialStarted {
        /// Its block, from 0.
        block: u64,
        /// Its cell.
        cell: usize,
        /// Its arms.
        treatments: Vec<Treatment>,
    },
    /// Data is being loaded for the current trial, at all its sites together.
    Loading(Loading),
    /// A phase of the current trial is over.
    Phase {
        /// Its place, from 0.
        position: usize,
        /// How many the trial has.
        of: usize,
    },
    /// A trial is over and stored.
    TrialEnded {
        /// Its block.
        block: u64,
        /// Its cell.
        cell: usize,
        /// How it ended.
        status: TrialStatus,
        /// How long it took, start of the agent included.
        elapsed_ns: u64,
    },
    /// The estimates were looked at.
    Looked(LookRow),
    /// Runs of two arms are examined, which are part of no ratio.
    Examining {
        /// The arms.
        treatments: Vec<Treatment>,
        /// How long that takes at most.
        most_ns: u64,
    },
    /// Something that the user should know now.
    Warning {
        /// In words.
        text: String,
    },
    /// No further block will be run.
    Stopped {
        /// Why.
        reason: String,
        /// Blocks that were finished.
        blocks: u64,
        /// How long this process measured.
        elapsed_ns: u64,
    },
}
