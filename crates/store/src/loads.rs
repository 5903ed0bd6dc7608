//! What runs report while a trial is under way, and the loads of earlier versions, which were not runs.
//!
//! `baremark load` writes an ordinary run. Before, a load had no plan and no trials: its result is a document of its own. Such
//! loads are still read; none is written. Rows of progress are the JSON that the load engine and the search write.

use crate::error::StoreError;
use crate::heads::Head;
use crate::read::{Rows, moment, state_of};
use crate::record::RunState;
use crate::run_id::RunId;
use crate::store::Store;
use crate::{lock, rows};
use baremark_model::machine::MachineFacts;
use baremark_model::units::UnixTime;
use rusqlite::{Connection, params};
use serde_json::Value;
use std::collections::BTreeSet;

/// The part of a load that is its result.
const RESULT: &str = "result";

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
    /// Whether it continues, was killed, or has ended.
    pub state: RunState,
}

/// A stored load.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredLoad {
    /// Its line.
    pub summary: LoadSummary,
    /// The machine that asked.
    pub machine: MachineFacts,
    /// By which version.
    pub version: String,
    /// Its result; `None` when it never came to its end.
    pub document: Option<Value>,
    /// What was stored while it ran, in order: all that a killed one leaves.
    pub seconds: Vec<Value>,
}

impl Store {
    /// Stores what a run reports while a trial of it is under way: a second of a load, a window of a search.
    ///
    /// # Errors
    /// When the run is unknown or damaged, or the file cannot be written.
    pub fn add_progress(&self, run: &RunId, row: &Value) -> Result<(), StoreError> {
        let row = row.to_string();
        self.append(run, format!("progress of run {run}"), |connection, head| {
            let checksum = rows::second(run, head.seconds, &row);
            connection.execute(
                "INSERT INTO second (run, seq, row, checksum) VALUES (?1, ?2, ?3, ?4)",
                params![run.as_str(), head.seconds, row, checksum],
            )?;
            head.seconds += 1;
            Ok(checksum)
        })
    }

    /// All loads, the latest first. A store of an earlier version has none.
    ///
    /// # Errors
    /// When the file cannot be read, or anything in the list is damaged.
    pub fn loads(&self) -> Result<Vec<LoadSummary>, StoreError> {
        self.list()?.intact().map(|list| list.loads)
    }

    /// The load that is meant by `name`: its whole name, the beginning of it, or its last part; `None` when none is.
    ///
    /// # Errors
    /// When more than one may be meant, the file cannot be read, or, unless `name` is a whole one, anything in the list is
    /// damaged.
    pub fn find_load(&self, name: &str) -> Result<Option<RunId>, StoreError> {
        let list = self.list()?;
        if let Some(whole) = list.loads.iter().find(|load| load.id.as_str() == name) {
            return Ok(Some(whole.id.clone()));
        }
        // A whole name of a run is meant for that, whatever else is damaged.
        if list.runs.iter().any(|run| run.id.as_str() == name) {
            return Ok(None);
        }
        let loads = list.intact()?.loads;
        let meant = |id: &RunId| !name.is_empty() && (id.as_str().starts_with(name) || id.tail() == name);
        let found: Vec<&RunId> = loads.iter().map(|load| &load.id).filter(|id| meant(id)).collect();
        match found[..] {
            [] => Ok(None),
            [one] => Ok(Some(one.clone())),
            _ => {
                let candidates = found.iter().map(ToString::to_string).collect();
                Err(StoreError::Ambiguous { name: name.to_owned(), candidates })
            }
        }
    }

    /// A load with everything that was stored of it.
    ///
    /// # Errors
    /// When it is unknown, damaged, or cannot be read.
    pub fn read_load(&self, load: &RunId) -> Result<StoredLoad, StoreError> {
        let snapshot = self.connection.unchecked_transaction().map_err(|why| self.fail("read the load", why))?;
        let head = self.head(&snapshot, load)?;
        let mut tally = Rows::default();
        let mut document = |part| self.document(&snapshot, load, part, &mut tally);
        let garbled =
            |what| move |why: serde_json::Error| StoreError::Garbled { run: load.clone(), what, why: why.to_string() };
        let (_asked, machine, result) = (document("asked")?, document("machine")?, document(RESULT)?);
        let machine =
            machine.ok_or_else(|| self.damaged(format!("load {load}, its machine"), "it does not exist".into()))?;
        let seconds = seconds(&snapshot, load, &mut tally)
            .map_err(|why| self.damaged(format!("load {load}, its seconds"), why.to_string()))?;
        if let Some(why) = tally.verdict(&head).into_iter().next().filter(|_| self.checksummed) {
            return Err(self.damaged(format!("load {load}"), why));
        }
        Ok(StoredLoad {
            machine: serde_json::from_str(&machine).map_err(garbled("machine"))?,
            version: head.version.clone(),
            document: result.map(|text| serde_json::from_str(&text)).transpose().map_err(garbled("result"))?,
            seconds,
            summary: summary(head, &lock::held(&self.path)),
        })
    }
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

pub(crate) fn summary(head: Head, live: &BTreeSet<String>) -> LoadSummary {
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
