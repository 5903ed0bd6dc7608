//! Whether a trial counts, as figures mark it.

use baremark_model::document::TrialRow;
use baremark_model::event::TrialStatus;
use std::collections::BTreeSet;

/// Whether a trial counts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Mark {
    Counts,
    Flagged,
    Void,
}

impl Mark {
    pub(crate) fn of(trial: &TrialRow) -> Mark {
        match trial.status {
            TrialStatus::Ok if trial.flags.is_empty() => Mark::Counts,
            TrialStatus::Ok => Mark::Flagged,
            TrialStatus::Void { .. } | TrialStatus::Failed { .. } => Mark::Void,
        }
    }

    /// The class of the time of such a trial, and how a caption explains it; none of one that counts.
    pub(crate) fn shade(self) -> Option<(&'static str, &'static str)> {
        match self {
            Mark::Counts => None,
            Mark::Flagged => Some(("doubtful", "grey: trials with a flag")),
            Mark::Void => Some(("discarded", "shaded: trials that do not count")),
        }
    }
}

/// What shades mean, for those that a figure has: `; shaded: trials that do not count`.
pub(crate) fn shades_in_words(marks: impl Iterator<Item = Mark>) -> String {
    let found: BTreeSet<Mark> = marks.collect();
    found.into_iter().rev().filter_map(Mark::shade).map(|(_, says)| format!("; {says}")).collect()
}
