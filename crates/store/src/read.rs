//! Reading runs back.

use crate::comments;
use crate::error::StoreError;
use crate::heads::{self, Head};
use crate::lock;
use crate::record::{EXAMINED, FORMAT, Listing, RunSummary, StoredRun, StoredTrial, Torn};
use crate::rows;
use crate::run_id::RunId;
use crate::store::Store;
use crate::tally::{self, Rows, moment, state_of};
use baremark_model::codes::Decision;
use baremark_model::document::LookRow;
use baremark_model::imported::Imported;
use baremark_model::plan::Plan;
use baremark_model::renamed;
use baremark_model::units::{Nanos, UnixTime};
use baremark_model::wire::{ArmSpec, TrialResult, TrialSpec};
use rusqlite::{Connection, OptionalExtension, Row};
use serde::de::DeserializeOwned;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

impl Store {
    /// A run with everything that was stored of it. A trial that is damaged does not hide the others: it is in
    /// [`StoredRun::torn`]; that rows are missing is in [`StoredRun::damage`].
    ///
    /// # Errors
    /// When the run is unknown, or of a newer version, or its plan is damaged or cannot be read, or the file is damaged.
    pub fn load(&self, run: &RunId) -> Result<StoredRun, StoreError> {
        let snapshot = self.connection.unchecked_transaction().map_err(|why| self.fail("read the run", why))?;
        let head = self.head(&snapshot, run)?;
        let mut tally = Rows::default();
        let mut stored = self.stored(&snapshot, &head, &mut tally)?;
        // What SQLite cannot read of one run is that run's damage, and no other's.
        let fail = |what: &str, why: rusqlite::Error| match self.fail("read the run", why) {
            StoreError::Corrupt { what: why, .. } => self.damaged(format!("run {run}, its {what}"), why),
            StoreError::Sqlite { why, .. } => self.damaged(format!("run {run}, its {what}"), why.to_string()),
            other => other,
        };
        trials(&snapshot, &mut stored, &mut tally).map_err(|why| fail("trials", why))?;
        stored.looks = looks(&snapshot, run, &mut tally).map_err(|why| fail("looks", why))?;
        stored.imported = imported(&snapshot, run, &mut tally).map_err(|why| fail("imports", why))?;
        stored.progress = tally::seconds(&snapshot, run, &mut tally).map_err(|why| fail("progress", why))?;
        stored.unverified = tally.trials_without;
        if self.checksummed {
            stored.damage = tally.verdict(&head);
        }
        Ok(stored)
    }

    /// A run with everything that was stored of it, of which nothing is damaged.
    ///
    /// # Errors
    /// As [`Store::load`], and the first thing that is damaged, with how much else is.
    pub fn load_intact(&self, run: &RunId) -> Result<StoredRun, StoreError> {
        let stored = self.load(run)?;
        let damage = stored.all_damage();
        let Some((what, why)) = damage.first() else { return Ok(stored) };
        let what = if what.is_empty() { format!("run {run}") } else { format!("run {run}, {what}") };
        let more = if damage.len() > 1 { format!(", and {} more", damage.len() - 1) } else { String::new() };
        Err(self.damaged(what, format!("{why}{more}")))
    }

    /// A run without its trials and looks: its plan, its machine, when and by what.
    ///
    /// # Errors
    /// When the run is unknown, its plan is damaged or cannot be read, or the file is damaged.
    pub fn load_head(&self, run: &RunId) -> Result<StoredRun, StoreError> {
        let head = self.head(&self.connection, run)?;
        self.stored(&self.connection, &head, &mut Rows::default())
    }

    /// All runs of studies, the latest first.
    ///
    /// # Errors
    /// When the file cannot be read, or a run is damaged.
    pub fn runs(&self) -> Result<Vec<RunSummary>, StoreError> {
        let list = self.list()?;
        list.intact().map(|list| list.runs)
    }

    /// All runs and loads, the latest first, and what is damaged among them.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn list(&self) -> Result<Listing, StoreError> {
        let all = heads::all(&self.connection, self.checksummed).map_err(|why| self.fail("list the runs", why))?;
        let live = lock::held(&self.path);
        let (runs, loads) = all.heads.into_iter().partition::<Vec<Head>, _>(|head| head.kind == heads::STUDY);
        let what = |id: Option<RunId>| id.map_or_else(|| "the list of runs".to_owned(), |id| format!("run {id}"));
        Ok(Listing {
            runs: runs.into_iter().map(|head| summary(head, &live)).collect(),
            loads: loads.into_iter().map(|head| tally::load_summary(head, &live)).collect(),
            damaged: all.damaged.into_iter().map(|(id, why)| self.damaged(what(id), why)).collect(),
        })
    }

    /// The latest run.
    ///
    /// # Errors
    /// When the file cannot be read, or a run is damaged.
    pub fn latest(&self) -> Result<Option<RunSummary>, StoreError> {
        Ok(self.runs()?.into_iter().next())
    }

    /// The latest run that has not come to its end and on which nobody works: the one to resume.
    ///
    /// # Errors
    /// When the file cannot be read, or a run is damaged.
    pub fn latest_unfinished(&self) -> Result<Option<RunSummary>, StoreError> {
        Ok(self.runs()?.into_iter().find(|run| run.state.can_be_resumed()))
    }

    /// The run that is meant by `name`: its whole name, the beginning of it, or that of its last part.
    ///
    /// # Errors
    /// When no run or more than one may be meant, or, unless `name` is a whole one, when any run is damaged.
    pub fn resolve(&self, name: &str) -> Result<RunId, StoreError> {
        let list = self.list()?;
        if let Some(run) = list.runs.iter().find(|run| run.id.as_str() == name) {
            return Ok(run.id.clone());
        }
        let runs = list.intact()?.runs;
        let found = meant(runs.iter().map(|run| &run.id), name)?;
        found.ok_or_else(|| StoreError::unknown(name, &runs.iter().map(|run| run.id.as_str()).collect::<Vec<_>>()))
    }

    pub(crate) fn no_such(&self, run: &RunId) -> StoreError {
        match self.runs() {
            Ok(runs) => StoreError::unknown(run.as_str(), &runs.iter().map(|run| run.id.as_str()).collect::<Vec<_>>()),
            Err(why) => why,
        }
    }

    /// The head of a run or load, as it was written.
    pub(crate) fn head(&self, connection: &Connection, run: &RunId) -> Result<Head, StoreError> {
        let found = heads::one(connection, run).map_err(|why| self.fail("read the run", why))?;
        let head = found.ok_or_else(|| self.no_such(run))?.verified(self.checksummed);
        let head = head.map_err(|why| self.damaged(format!("run {run}"), why.to_string()))?;
        if head.format > FORMAT {
            let remedy = "use the newer baremark";
            let (run, found) = (run.clone(), head.format);
            return Err(StoreError::Format { run, found, does: "reads up to", known: FORMAT, remedy });
        }
        Ok(head)
    }

    pub(crate) fn damaged(&self, what: String, why: String) -> StoreError {
        StoreError::Damaged { path: self.path.clone(), what, why }
    }

    /// A document of a run; `None` where it has none of that name.
    pub(crate) fn document(
        &self,
        connection: &Connection,
        owner: &RunId,
        part: &'static str,
        tally: &mut Rows,
    ) -> Result<Option<String>, StoreError> {
        let sql = "SELECT text, checksum FROM document WHERE owner = ?1 AND part = ?2";
        let read = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?));
        let found: Option<(String, Option<i64>)> =
            connection
                .query_row(sql, [owner.as_str(), part], read)
                .optional()
                .map_err(|why| self.damaged(format!("run {owner}, its {part}"), why.to_string()))?;
        let Some((text, stored)) = found else { return Ok(None) };
        let checked = tally.take(stored, rows::document(owner, part, &text));
        checked.map_err(|why| self.damaged(format!("run {owner}, its {part}"), why.to_string()))?;
        Ok(Some(text))
    }

    /// A run without its trials; its documents must be there and as they were written.
    fn stored(&self, connection: &Connection, head: &Head, tally: &mut Rows) -> Result<StoredRun, StoreError> {
        let mut text = |part| {
            let found = self.document(connection, &head.id, part, tally)?;
            found.ok_or_else(|| self.damaged(format!("run {}, its {part}", head.id), "it does not exist".to_owned()))
        };
        let (study_text, plan, machine) = (text("study")?, text("plan")?, text("machine")?);
        let garbled = |what, why: serde_json::Error| {
            let (run, why) = (head.id.clone(), why.to_string());
            StoreError::Garbled { run, what, why }
        };
        let examined = self.document(connection, &head.id, EXAMINED, tally);
        let examined =
            examined.and_then(|text| text.map(|text| part(&text).map_err(|why| garbled(EXAMINED, why))).transpose());
        let examined = match examined {
            Ok(found) => found,
            // The comparison stands without it.
            Err(StoreError::Damaged { why, .. } | StoreError::Garbled { why, .. }) => {
                tally.noted.push(format!("{EXAMINED}: {why}"));
                None
            }
            Err(other) => return Err(other),
        };
        let mut plan: Plan = part(&plan).map_err(|why| garbled("plan", why))?;
        let study_text = comments::into_plan(&study_text, &mut plan);
        renamed::plan(&mut plan);
        Ok(StoredRun {
            id: head.id.clone(),
            plan,
            machine: part(&machine).map_err(|why| garbled("machine", why))?,
            study_file: head.study_file.clone(),
            study_text,
            version: head.version.clone(),
            started: moment(head.started_ns),
            format: head.format,
            ended: head.ended_ns.map(moment),
            stop_reason: head.stop_reason.clone(),
            trials: Vec::new(),
            torn: Vec::new(),
            damage: Vec::new(),
            unverified: 0,
            looks: Vec::new(),
            examined,
            imported: Vec::new(),
            progress: Vec::new(),
        })
    }
}

/// The one of these that is meant by `name`; `None` where none is.
pub(crate) fn meant<'r>(ids: impl Iterator<Item = &'r RunId> + Clone, name: &str) -> Result<Option<RunId>, StoreError> {
    let found = RunId::meant(ids, name);
    match found[..] {
        [] => Ok(None),
        [one] => Ok(Some(one.clone())),
        _ => {
            let candidates = found.iter().map(ToString::to_string).collect();
            Err(StoreError::Ambiguous { name: name.to_owned(), candidates })
        }
    }
}

fn summary(head: Head, live: &BTreeSet<String>) -> RunSummary {
    RunSummary {
        state: state_of(&head, live),
        title: head.title,
        study_file: head.study_file,
        started: moment(head.started_ns),
        ended: head.ended_ns.map(moment),
        stop_reason: head.stop_reason,
        trials: head.trials.unsigned_abs(),
        blocks: head.blocks.unsigned_abs(),
        contents: head.contents,
        id: head.id,
    }
}

/// Reads the trials of a run; those that are damaged are set apart.
fn trials(snapshot: &Connection, stored: &mut StoredRun, tally: &mut Rows) -> rusqlite::Result<()> {
    let mut select = snapshot.prepare(
        "SELECT block, cell, seq, spec, status, result, started_ns, elapsed_ns, checksum
         FROM trial WHERE run = ?1 ORDER BY seq",
    )?;
    let mut rows = select.query([stored.id.as_str()])?;
    let mut arms: BTreeMap<usize, Arc<[ArmSpec]>> = BTreeMap::new();
    while let Some(row) = rows.next()? {
        tally.trials += 1;
        match trial(&stored.id, row, tally)? {
            Ok(mut trial) => {
                // A run of 100,000 imported values has as many trials that differ in little else.
                let known = arms.entry(trial.cell).or_insert_with(|| Arc::clone(&trial.spec.arms));
                if *known == trial.spec.arms {
                    trial.spec.arms = Arc::clone(known);
                }
                stored.trials.push(trial);
            }
            Err(torn) => stored.torn.push(torn),
        }
    }
    Ok(())
}

fn trial(run: &RunId, row: &Row<'_>, tally: &mut Rows) -> rusqlite::Result<Result<StoredTrial, Torn>> {
    let numbers: [i64; 5] = [row.get(2)?, row.get(0)?, row.get(1)?, row.get(6)?, row.get(7)?];
    let (spec, status, result) = (text(row, 3)?, text(row, 4)?, row.get_ref(5)?.as_str_or_null()?);
    let stored: Option<i64> = row.get(8)?;
    tally.trials_without += u64::from(stored.is_none());
    let checked = tally.take(stored, rows::trial(run, numbers, [status, spec], result));
    let [seq, block, cell, started, elapsed] = numbers.map(i64::unsigned_abs);
    let cell = usize::try_from(cell).unwrap_or(usize::MAX);
    let parts = || {
        checked.map_err(|why| why.to_string())?;
        Ok(StoredTrial {
            block,
            cell,
            seq,
            spec: part(spec).map(today).map_err(|why| format!("specification: {why}"))?,
            status: part(status).map_err(|why| format!("status: {why}"))?,
            result: result.map(part).transpose().map_err(|why| format!("result: {why}"))?.map(compact),
            started: UnixTime(started),
            elapsed: Nanos(elapsed),
        })
    };
    Ok(parts().map_err(|why: String| Torn { block, cell, seq, why }))
}

/// A request with its parameters as they are called today.
fn today(mut spec: TrialSpec) -> TrialSpec {
    renamed::request(&mut spec);
    spec
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

fn looks(snapshot: &Connection, run: &RunId, tally: &mut Rows) -> rusqlite::Result<Vec<LookRow>> {
    let mut select = snapshot.prepare(
        "SELECT seq, blocks, half_width, independent, decision, checksum FROM look WHERE run = ?1 ORDER BY seq",
    )?;
    let mut rows = select.query([run.as_str()])?;
    let mut looks = Vec::new();
    while let Some(row) = rows.next()? {
        let (seq, blocks, independent): (i64, i64, i64) = (row.get(0)?, row.get(1)?, row.get(3)?);
        let (half_width, decision): (Option<f64>, String) = (row.get(2)?, row.get(4)?);
        tally.looks += 1;
        tally.note("look", seq, row.get(5)?, rows::look(run, [seq, blocks, independent], half_width, &decision));
        let (blocks, correlated, step) = (blocks.unsigned_abs(), independent == 0, Decision::of_sentence(&decision));
        looks.push(LookRow { blocks, half_width, correlated, decision, step });
    }
    Ok(looks)
}

/// What was imported. What is as it was written and cannot be read any more is left out: it can be imported again.
fn imported(snapshot: &Connection, run: &RunId, tally: &mut Rows) -> rusqlite::Result<Vec<Imported>> {
    let mut select =
        snapshot.prepare("SELECT seq, program, data, checksum FROM imported WHERE run = ?1 ORDER BY seq")?;
    let mut rows = select.query([run.as_str()])?;
    let mut imported = Vec::new();
    while let Some(row) = rows.next()? {
        let (seq, program, data): (i64, String, String) = (row.get(0)?, row.get(1)?, row.get(2)?);
        tally.imports += 1;
        tally.note("import", seq, row.get(3)?, rows::imported(run, seq, &program, &data));
        imported.extend(part(&data).ok());
    }
    Ok(imported)
}

fn part<T: DeserializeOwned>(text: &str) -> serde_json::Result<T> {
    serde_json::from_slice(text.as_bytes())
}
