//! What is read of a run or a load, held against its head.

use crate::checksum::{Mismatch, compare};
use crate::heads::{self, Head};
use crate::record::{LoadSummary, RunState};
use crate::rows;
use crate::run_id::RunId;
use baremark_model::units::UnixTime;
use rusqlite::Connection;
use serde_json::Value;
use std::collections::BTreeSet;

/// The rows of a run as they are read, to be held against what its head says of them.
#[derive(Default)]
pub(crate) struct Rows {
    pub(crate) trials: i64,
    pub(crate) looks: i64,
    pub(crate) imports: i64,
    pub(crate) seconds: i64,
    pub(crate) trials_without: u64,
    pub(crate) without: i64,
    pub(crate) contents: u32,
    pub(crate) damaged: bool,
    /// The damaged rows, but for trials.
    pub(crate) noted: Vec<String>,
}

impl Rows {
    /// Counts a row; its checksum must match, where it has one.
    pub(crate) fn take(&mut self, stored: Option<i64>, computed: u32) -> Result<(), Mismatch> {
        match stored {
            Some(_) => self.contents = self.contents.wrapping_add(computed),
            None => self.without += 1,
        }
        let compared = compare(stored, computed);
        self.damaged |= compared.is_err();
        compared
    }

    /// Counts a row of which there are many, and notes when its checksum does not match.
    pub(crate) fn note(&mut self, what: &str, seq: i64, stored: Option<i64>, computed: u32) {
        if let Err(why) = self.take(stored, computed) {
            self.noted.push(format!("{what} {seq}: {why}"));
        }
    }

    /// What is not as the head says that it should be.
    pub(crate) fn verdict(self, head: &Head) -> Vec<String> {
        let there =
            |what: &str, found: i64, of: i64| (found != of).then(|| format!("{found} of {of} {what} are present"));
        let missing = [
            there("trials", self.trials, head.trials),
            there("looks", self.looks, head.looks),
            there("imports", self.imports, head.imports),
            there("seconds", self.seconds, head.seconds),
        ];
        let mut damage: Vec<String> = self.noted.into_iter().chain(missing.into_iter().flatten()).collect();
        let alike = self.contents == head.contents && self.without == head.unverified;
        if damage.is_empty() && !self.damaged && !alike {
            damage.push("its rows differ from those that were written".to_owned());
        }
        damage
    }
}

/// The state of a run or load, of which those in `live` are held by a process.
pub(crate) fn state_of(head: &Head, live: &BTreeSet<String>) -> RunState {
    match head.outcome.as_deref() {
        _ if live.contains(head.id.as_str()) => RunState::Live,
        None => RunState::Killed,
        Some(heads::INTERRUPTED) => RunState::Interrupted,
        Some(heads::FAILED) => RunState::Failed,
        Some(_) => RunState::Finished,
    }
}

pub(crate) fn moment(ns: i64) -> UnixTime {
    UnixTime(ns.unsigned_abs())
}

/// What was stored of a load while it ran. A row that is as it was written and cannot be read does not hide the others.
pub(crate) fn seconds(snapshot: &Connection, load: &RunId, tally: &mut Rows) -> rusqlite::Result<Vec<Value>> {
    let mut select = snapshot.prepare("SELECT seq, row, checksum FROM second WHERE run = ?1 ORDER BY seq")?;
    let mut rows = select.query([load.as_str()])?;
    let mut seconds = Vec::new();
    while let Some(row) = rows.next()? {
        let (seq, text): (i64, String) = (row.get(0)?, row.get(1)?);
        tally.seconds += 1;
        tally.note("second", seq, row.get(2)?, rows::second(load, seq, &text));
        seconds.extend(serde_json::from_str::<Value>(&text));
    }
    Ok(seconds)
}

/// The line of a load.
pub(crate) fn load_summary(head: Head, live: &BTreeSet<String>) -> LoadSummary {
    LoadSummary {
        state: state_of(&head, live),
        id: head.id,
        kind: head.kind,
        title: head.title,
        started: moment(head.started_ns),
        ended: head.ended_ns.map(moment),
        stop_reason: head.stop_reason,
    }
}
