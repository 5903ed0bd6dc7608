//! What runs report while a trial is under way, and the loads of earlier versions, which were not runs.
//!
//! `baremark load` writes an ordinary run. Before, a load had no plan and no trials: its result is a document of its own. Such
//! loads are still read; none is written. Rows of progress are the JSON that the load engine and the search write.

use crate::error::StoreError;
use crate::read::meant;
pub use crate::record::LoadSummary;
use crate::run_id::RunId;
use crate::store::Store;
use crate::tally::{Rows, load_summary, seconds};
use crate::{lock, rows};
use baremark_model::machine::MachineFacts;
use rusqlite::params;
use serde_json::Value;

/// The part of a load that is its result.
const RESULT: &str = "result";

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

    /// The load that is meant by `name`: its whole name, the beginning of it, or that of its last part; `None` when none is.
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
        meant(loads.iter().map(|load| &load.id), name)
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
            machine: serde_json::from_slice(machine.as_bytes()).map_err(garbled("machine"))?,
            version: head.version.clone(),
            document: result
                .map(|text| serde_json::from_slice(text.as_bytes()))
                .transpose()
                .map_err(garbled("result"))?,
            seconds,
            summary: load_summary(head, &lock::held(&self.path)),
        })
    }
}
