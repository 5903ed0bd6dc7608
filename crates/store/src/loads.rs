//! Loads in the store: what `baremark load` did, second by second while it runs, and its result at its end.
//!
//! A load is no run of a study and has no trials; it shares the names and locks of runs, so that one list shows both. Its rows
//! are the JSON that the load engine and the search write: a later version can read what it knows of them.

use crate::error::StoreError;
use crate::lock;
use crate::record::RunState;
use crate::run_id::RunId;
use crate::store::Store;
use baremark_model::machine::MachineFacts;
use baremark_model::units::UnixTime;
use rusqlite::{OptionalExtension, Row, params};
use serde_json::Value;

/// A load that begins.
#[derive(Clone, Debug, PartialEq)]
pub struct LoadRecord {
    /// Its name.
    pub id: RunId,
    /// What kind of document its end brings: that document's format.
    pub kind: String,
    /// What is loaded, in a line.
    pub title: String,
    /// What was asked for.
    pub asked: Value,
    /// The machine that asks.
    pub machine: MachineFacts,
    /// The program's version.
    pub version: String,
    /// When.
    pub started: UnixTime,
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
    /// Begins a load.
    ///
    /// # Errors
    /// When one of that name is there, or the file cannot be written.
    pub fn create_load(&self, record: &LoadRecord) -> Result<(), StoreError> {
        let machine = text("the machine's facts", &record.machine)?;
        let inserted = self.connection.execute(
            "INSERT INTO load (id, kind, title, asked, machine, version, started_ns) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
            params![
                record.id.as_str(),
                record.kind,
                record.title,
                record.asked.to_string(),
                machine,
                record.version,
                signed(record.started),
            ],
        );
        inserted.map(drop).map_err(|why| self.fail("begin a load", why))
    }

    /// Stores one second, or one window, of a load.
    ///
    /// # Errors
    /// When the load is unknown or the file cannot be written.
    pub fn add_load_second(&self, load: &RunId, row: &Value) -> Result<(), StoreError> {
        let inserted = self.connection.execute(
            "INSERT INTO load_second (load, seq, row) VALUES (?1, (SELECT count(*) FROM load_second WHERE load = ?1), ?2)",
            params![load.as_str(), row.to_string()],
        );
        inserted.map(drop).map_err(|why| self.fail("add to the load", why))
    }

    /// Ends a load with its result.
    ///
    /// # Errors
    /// When the load is unknown or the file cannot be written.
    pub fn finish_load(&self, load: &RunId, ended: UnixTime, reason: &str, document: &Value) -> Result<(), StoreError> {
        let changed = self.connection.execute(
            "UPDATE load SET ended_ns = ?2, stop_reason = ?3, document = ?4 WHERE id = ?1",
            params![load.as_str(), signed(ended), reason, document.to_string()],
        );
        match changed.map_err(|why| self.fail("end the load", why))? {
            0 => Err(self.no_such(load)),
            _ => Ok(()),
        }
    }

    /// All loads, the latest first. A store of an earlier version has none.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn loads(&self) -> Result<Vec<LoadSummary>, StoreError> {
        let fail = |why| self.fail("list the loads", why);
        let there: i64 = self
            .connection
            .query_row("SELECT count(*) FROM sqlite_schema WHERE name = 'load'", (), |row| row.get(0))
            .map_err(fail)?;
        if there == 0 {
            return Ok(Vec::new());
        }
        let sql =
            "SELECT id, kind, title, started_ns, ended_ns, stop_reason FROM load ORDER BY started_ns DESC, id DESC";
        let mut select = self.connection.prepare(sql).map_err(fail)?;
        let rows = select.query_map((), |row| self.load_summary(row)).map_err(fail)?;
        rows.collect::<rusqlite::Result<Vec<_>>>().map_err(fail)
    }

    /// The load that is meant by `name`: its whole name, the beginning of it, or its last part; `None` when none is.
    ///
    /// # Errors
    /// When more than one may be meant, or the file cannot be read.
    pub fn find_load(&self, name: &str) -> Result<Option<RunId>, StoreError> {
        let ids: Vec<RunId> = self.loads()?.into_iter().map(|load| load.id).collect();
        if let Some(whole) = ids.iter().find(|id| id.as_str() == name) {
            return Ok(Some(whole.clone()));
        }
        let meant = |id: &&RunId| !name.is_empty() && (id.as_str().starts_with(name) || id.tail() == name);
        let found: Vec<&RunId> = ids.iter().filter(meant).collect();
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
    /// When it is unknown or cannot be read.
    pub fn read_load(&self, load: &RunId) -> Result<StoredLoad, StoreError> {
        let fail = |why| self.fail("read the load", why);
        let sql = "SELECT id, kind, title, started_ns, ended_ns, stop_reason, machine, version, document
                   FROM load WHERE id = ?1";
        let read = |row: &Row<'_>| {
            let texts: (String, String, Option<String>) = (row.get(6)?, row.get(7)?, row.get(8)?);
            Ok((self.load_summary(row)?, texts))
        };
        let found = self.connection.query_row(sql, [load.as_str()], read).optional().map_err(fail)?;
        let Some((summary, (machine, version, document))) = found else { return Err(self.no_such(load)) };
        let garbled =
            |what| move |why: serde_json::Error| StoreError::Garbled { run: load.clone(), what, why: why.to_string() };
        let mut select =
            self.connection.prepare("SELECT row FROM load_second WHERE load = ?1 ORDER BY seq").map_err(fail)?;
        let rows = select.query_map([load.as_str()], |row| row.get::<_, String>(0)).map_err(fail)?;
        // A row that cannot be read does not hide the others.
        let seconds = rows.filter_map(|row| serde_json::from_str(&row.ok()?).ok()).collect();
        Ok(StoredLoad {
            summary,
            machine: serde_json::from_str(&machine).map_err(garbled("machine"))?,
            version,
            document: document.map(|text| serde_json::from_str(&text)).transpose().map_err(garbled("result"))?,
            seconds,
        })
    }

    fn load_summary(&self, row: &Row<'_>) -> rusqlite::Result<LoadSummary> {
        let text: String = row.get(0)?;
        let broken = |why| rusqlite::Error::FromSqlConversionFailure(0, rusqlite::types::Type::Text, Box::new(why));
        let id: RunId = text.parse().map_err(broken)?;
        let time =
            |column| Ok::<_, rusqlite::Error>(row.get::<_, Option<i64>>(column)?.map(|ns| UnixTime(ns.unsigned_abs())));
        let ended = time(4)?;
        let state = match ended {
            _ if lock::is_held(&self.path, &id) => RunState::Live,
            Some(_) => RunState::Finished,
            None => RunState::Killed,
        };
        Ok(LoadSummary {
            id,
            kind: row.get(1)?,
            title: row.get(2)?,
            started: time(3)?.unwrap_or_default(),
            ended,
            stop_reason: row.get(5)?,
            state,
        })
    }
}

fn text(what: &str, value: &impl serde::Serialize) -> Result<String, StoreError> {
    let unwritable = |why: serde_json::Error| StoreError::Unwritable { what: what.to_owned(), why: why.to_string() };
    serde_json::to_string(value).map_err(unwritable)
}

fn signed(time: UnixTime) -> i64 {
    i64::try_from(time.0).unwrap_or(i64::MAX)
}
