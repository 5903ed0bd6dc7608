//! Reading runs back.

use crate::error::StoreError;
use crate::lock;
use crate::record::{RunState, RunSummary, StoredRun, StoredTrial, Torn};
use crate::run_id::RunId;
use crate::store::Store;
use baremark_model::document::LookRow;
use baremark_model::imported::Imported;
use baremark_model::units::{Nanos, UnixTime};
use baremark_model::wire::TrialResult;
use rusqlite::{Connection, OptionalExtension, Row};
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;

impl Store {
    /// A run with everything that was stored of it. A trial that cannot be read does not hide the others: it is in
    /// [`StoredRun::torn`].
    ///
    /// # Errors
    /// When the run is unknown, its plan cannot be read, or the file is damaged.
    pub fn load(&self, run: &RunId) -> Result<StoredRun, StoreError> {
        let fail = |why| self.fail("read the run", why);
        let snapshot = self.connection.unchecked_transaction().map_err(fail)?;
        let mut stored = self.head(&snapshot, run)?;
        let mut select = snapshot
            .prepare(
                "SELECT block, cell, seq, spec, status, result, started_ns, elapsed_ns
                 FROM trial WHERE run = ?1 ORDER BY seq",
            )
            .map_err(fail)?;
        let mut rows = select.query([run.as_str()]).map_err(fail)?;
        while let Some(row) = rows.next().map_err(fail)? {
            match trial(row).map_err(fail)? {
                Ok(trial) => stored.trials.push(trial),
                Err(torn) => stored.torn.push(torn),
            }
        }
        stored.looks = looks(&snapshot, run).map_err(fail)?;
        stored.imported = imported(&snapshot, run).map_err(fail)?;
        Ok(stored)
    }

    /// A run without its trials and looks: its plan, its machine, when and by what.
    ///
    /// # Errors
    /// When the run is unknown, its plan cannot be read, or the file is damaged.
    pub fn load_head(&self, run: &RunId) -> Result<StoredRun, StoreError> {
        self.head(&self.connection, run)
    }

    /// All runs, the latest first.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn runs(&self) -> Result<Vec<RunSummary>, StoreError> {
        let fail = |why| self.fail("list the runs", why);
        let mut select = self
            .connection
            .prepare(
                "SELECT id, title, study_file, started_ns, ended_ns, stop_reason,
                        (SELECT count(*) FROM trial WHERE run = run.id),
                        (SELECT count(*) FROM (SELECT 1 FROM trial WHERE run = run.id
                                               GROUP BY block HAVING count(DISTINCT cell) >= run.cells))
                 FROM run ORDER BY started_ns DESC, id DESC",
            )
            .map_err(fail)?;
        let rows = select.query_map((), |row| self.summary(row)).map_err(fail)?;
        rows.collect::<rusqlite::Result<Vec<_>>>().map_err(fail)
    }

    /// The latest run.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn latest(&self) -> Result<Option<RunSummary>, StoreError> {
        Ok(self.runs()?.into_iter().next())
    }

    /// The latest run that has not ended and on which nobody works: the one to resume.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn latest_unfinished(&self) -> Result<Option<RunSummary>, StoreError> {
        Ok(self.runs()?.into_iter().find(|run| run.state == RunState::Killed))
    }

    /// The run that is meant by `name`: its whole name, the beginning of it, or its last part.
    ///
    /// # Errors
    /// When no run or more than one may be meant.
    pub fn resolve(&self, name: &str) -> Result<RunId, StoreError> {
        let ids = self.ids()?;
        let pick = |meant: &dyn Fn(&RunId) -> bool| ids.iter().filter(|id| meant(id)).cloned().collect::<Vec<_>>();
        let mut found = pick(&|id| id.as_str() == name);
        if found.is_empty() && !name.is_empty() {
            found = pick(&|id| id.as_str().starts_with(name) || id.tail() == name);
        }
        match found.len() {
            1 => Ok(found.remove(0)),
            0 => Err(StoreError::unknown(name, &ids.iter().map(RunId::as_str).collect::<Vec<_>>())),
            _ => {
                let candidates = found.iter().map(ToString::to_string).collect();
                Err(StoreError::Ambiguous { name: name.to_owned(), candidates })
            }
        }
    }

    pub(crate) fn no_such(&self, run: &RunId) -> StoreError {
        match self.ids() {
            Ok(ids) => StoreError::unknown(run.as_str(), &ids.iter().map(RunId::as_str).collect::<Vec<_>>()),
            Err(why) => why,
        }
    }

    /// All names, the latest first.
    fn ids(&self) -> Result<Vec<RunId>, StoreError> {
        let fail = |why| self.fail("list the runs", why);
        let mut select =
            self.connection.prepare("SELECT id FROM run ORDER BY started_ns DESC, id DESC").map_err(fail)?;
        let rows = select.query_map((), |row| id_of(row, 0)).map_err(fail)?;
        rows.collect::<rusqlite::Result<Vec<_>>>().map_err(fail)
    }

    fn head(&self, snapshot: &Connection, run: &RunId) -> Result<StoredRun, StoreError> {
        let sql = "SELECT plan, machine, study_file, study_text, version, started_ns, ended_ns, stop_reason
                   FROM run WHERE id = ?1";
        let read = |row: &Row<'_>| {
            let texts: [String; 5] = [row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?];
            Ok((texts, time(row, 5)?.unwrap_or_default(), time(row, 6)?, row.get(7)?))
        };
        let found = snapshot.query_row(sql, [run.as_str()], read).optional();
        let Some((texts, started, ended, stop_reason)) = found.map_err(|why| self.fail("read the run", why))? else {
            return Err(self.no_such(run));
        };
        let [plan, machine, study_file, study_text, version] = texts;
        let garbled = |what, why| StoreError::Garbled { run: run.clone(), what, why };
        Ok(StoredRun {
            id: run.clone(),
            plan: part(&plan).map_err(|why| garbled("plan", why))?,
            machine: part(&machine).map_err(|why| garbled("machine", why))?,
            study_file,
            study_text,
            version,
            started,
            ended,
            stop_reason,
            trials: Vec::new(),
            torn: Vec::new(),
            looks: Vec::new(),
            imported: Vec::new(),
        })
    }

    fn summary(&self, row: &Row<'_>) -> rusqlite::Result<RunSummary> {
        let id = id_of(row, 0)?;
        let ended = time(row, 4)?;
        let state = if lock::is_held(&self.path, &id) {
            RunState::Live
        } else if ended.is_some() {
            RunState::Finished
        } else {
            RunState::Killed
        };
        Ok(RunSummary {
            id,
            title: row.get(1)?,
            study_file: row.get(2)?,
            started: time(row, 3)?.unwrap_or_default(),
            ended,
            stop_reason: row.get(5)?,
            trials: count(row, 6)?,
            blocks: count(row, 7)?,
            state,
        })
    }
}

fn trial(row: &Row<'_>) -> rusqlite::Result<Result<StoredTrial, Torn>> {
    let (block, seq) = (count(row, 0)?, count(row, 2)?);
    let cell = usize::try_from(count(row, 1)?).unwrap_or(usize::MAX);
    let (spec, status, result) = (text(row, 3)?, text(row, 4)?, row.get_ref(5)?.as_str_or_null()?);
    let (started, elapsed) = (time(row, 6)?.unwrap_or_default(), Nanos(count(row, 7)?));
    let parts = || {
        Ok(StoredTrial {
            block,
            cell,
            seq,
            spec: part(spec).map_err(|why| format!("specification: {why}"))?,
            status: part(status).map_err(|why| format!("status: {why}"))?,
            result: result.map(part).transpose().map_err(|why| format!("result: {why}"))?.map(compact),
            started,
            elapsed,
        })
    };
    Ok(parts().map_err(|why: String| Torn { block, cell, seq, why }))
}

/// A column's text where it lies: results are long, and nobody keeps them as text.
fn text<'r>(row: &'r Row<'_>, column: usize) -> rusqlite::Result<&'r str> {
    Ok(row.get_ref(column)?.as_str()?)
}

/// The same result in the memory that it needs: a run's trials are all held at once, and what grew while it was read
/// has room for more than it holds.
fn compact(mut result: TrialResult) -> TrialResult {
    for phase in &mut result.series {
        phase.samples.shrink_to_fit();
        phase.members.iter_mut().for_each(|member| member.samples.shrink_to_fit());
        for half in &mut phase.runs {
            half.samples.shrink_to_fit();
            half.times.shrink_to_fit();
            refill(&mut half.audit.counters);
        }
    }
    result.arms.iter_mut().for_each(|arm| refill(&mut arm.counters));
    for observation in &mut result.observations {
        refill(&mut observation.whole);
        observation.arms.iter_mut().for_each(|arm| refill(&mut arm.values));
    }
    result
}

/// A map that was filled key by key has nodes half full; made of sorted pairs it has full ones.
fn refill<T>(map: &mut BTreeMap<String, T>) {
    *map = std::mem::take(map).into_iter().collect();
}

fn looks(snapshot: &Connection, run: &RunId) -> rusqlite::Result<Vec<LookRow>> {
    let mut select =
        snapshot.prepare("SELECT blocks, half_width, independent, decision FROM look WHERE run = ?1 ORDER BY seq")?;
    let rows = select.query_map([run.as_str()], |row| {
        Ok(LookRow { blocks: count(row, 0)?, half_width: row.get(1)?, independent: row.get(2)?, decision: row.get(3)? })
    })?;
    rows.collect()
}

/// What was imported; nothing of a file that an earlier version wrote and that is only read. What cannot be read any more is
/// left out: it can be imported again.
fn imported(snapshot: &Connection, run: &RunId) -> rusqlite::Result<Vec<Imported>> {
    let sql = "SELECT count(*) FROM sqlite_schema WHERE name = 'imported'";
    if snapshot.query_row(sql, (), |row| row.get::<_, i64>(0))? == 0 {
        return Ok(Vec::new());
    }
    let mut select = snapshot.prepare("SELECT data FROM imported WHERE run = ?1 ORDER BY seq")?;
    let texts = select.query_map([run.as_str()], |row| row.get::<_, String>(0))?;
    let texts = texts.collect::<rusqlite::Result<Vec<_>>>()?;
    Ok(texts.iter().filter_map(|text| part(text).ok()).collect())
}

fn part<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    serde_json::from_str(text).map_err(|why| why.to_string())
}

fn id_of(row: &Row<'_>, column: usize) -> rusqlite::Result<RunId> {
    let text: String = row.get(column)?;
    let id = text.parse::<RunId>();
    id.map_err(|why| rusqlite::Error::FromSqlConversionFailure(column, rusqlite::types::Type::Text, Box::new(why)))
}

/// A count or a time: SQLite's numbers are signed, ours are not.
fn count(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    let number: i64 = row.get(column)?;
    u64::try_from(number).or(Err(rusqlite::Error::IntegralValueOutOfRange(column, number)))
}

fn time(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<UnixTime>> {
    match row.get::<_, Option<i64>>(column)? {
        None => Ok(None),
        Some(_) => count(row, column).map(|nanoseconds| Some(UnixTime(nanoseconds))),
    }
}
