//! Loads in the store: ordinary runs, with what they report while they run, as they are written and read again.

use super::args::{Factor, LoadArgs};
use super::study;
use super::summary;
use crate::context::Context;
use crate::exit::{Exit, Refusal};
use crate::record::{self, Record};
use crate::source::Source;
use crate::watch;
use baremark_agent::job::{Observing, OwnPhase};
use baremark_lab::conduct::{Ending, RunLog as _};
use baremark_lab::host_observer::placed;
use baremark_lab::schedule;
use baremark_lab::trials::{Finished, Percentiles, status_of};
use baremark_load::document::{Document, FORMAT, SecondRow};
use baremark_load::record::Part;
use baremark_load::workload::reported;
use baremark_model::codes::Origin;
use baremark_model::job::JobRun;
use baremark_model::maximum;
use baremark_model::observation::THIS_MACHINE;
use baremark_model::plan::Plan;
use baremark_model::seam::Sample;
use baremark_model::wire::Detail;
use baremark_store::{LoadSummary, RunId, RunLock, RunSummary, Store, StoredLoad, StoredRun};
use serde::Deserialize;
use serde_json::Value;

/// What writes a load down; does nothing where no record is requested.
pub(super) struct Recorder<'s> {
    to: Option<Recording<'s>>,
}

struct Recording<'s> {
    record: Record<'s>,
    plan: Plan,
    /// Trials of blocks before it are stored.
    next_block: u64,
    /// This machine, until the load or the search from a fresh start ends.
    observing: Observing,
    /// Whether anything was measured since.
    measured: bool,
    /// What was observed of each that has ended.
    ended: Vec<OwnPhase>,
}

/// The store of a load; `None` where no record is requested.
pub(super) fn store(context: &Context, args: &LoadArgs) -> Result<Option<Store>, Refusal> {
    (!args.no_record).then(|| context.open_store().map_err(without)).transpose()
}

/// What can be done where there is no store.
fn without(why: Refusal) -> Refusal {
    match why.exit {
        Exit::Failure => Refusal { message: format!("{}; --no-record does without the store", why.message), ..why },
        _ => why,
    }
}

impl<'s> Recorder<'s> {
    /// Begins a run of a study and its plan, which hold no secret; what of the request the study does not hold is in the plan.
    pub(super) fn begin(
        context: &Context,
        store: Option<&'s Store>,
        source: &Source,
        plan: Plan,
    ) -> Result<Recorder<'s>, Refusal> {
        let Some(store) = store else { return Ok(Recorder { to: None }) };
        let record = Record::create(context, store, source, &plan).map_err(without)?;
        Ok(Recorder::new(record, plan, 0))
    }

    /// Continues a run that was interrupted or killed, and that this process holds.
    pub(super) fn resume(store: &'s Store, lock: RunLock, stored: StoredRun) -> Result<Recorder<'s>, Refusal> {
        let plan = stored.plan.clone();
        let next_block = stored.trials.iter().map(|trial| trial.block + 1).max().unwrap_or(0);
        Ok(Recorder::new(Record::resume(store, lock, stored)?, plan, next_block))
    }

    fn new(record: Record<'s>, plan: Plan, next_block: u64) -> Recorder<'s> {
        let observing = Observing::begin(&plan.observe);
        Recorder { to: Some(Recording { record, plan, next_block, observing, measured: false, ended: Vec::new() }) }
    }

    /// Writes a second or a window; when that fails, the load continues without a record, and that is said once.
    pub(super) fn second(&mut self, row: &Value) {
        let Some(to) = &mut self.to else { return };
        to.measured = true;
        if let Err(why) = to.record.add_progress(row) {
            watch::say(format_args!("warning: {why}; the load continues without a record"));
            self.to = None;
        }
    }

    /// A load, or a search from a fresh start, is over. Of one that was measured before the run was resumed nothing was observed.
    pub(super) fn trial_ends(&mut self) {
        let Some(to) = &mut self.to else { return };
        let OwnPhase { elapsed_ns, disturbance, observation } =
            std::mem::replace(&mut to.observing, Observing::begin(&to.plan.observe)).end();
        let measured = std::mem::take(&mut to.measured);
        let observation = observation.filter(|_| measured).map(|seen| placed(seen, THIS_MACHINE));
        to.ended.push(OwnPhase { elapsed_ns, disturbance: disturbance.filter(|_| measured), observation });
    }

    /// Writes the result of a load as the run's only trial.
    pub(super) fn end(mut self, end: &Ending, document: &Document, part: &Part) {
        self.trial_ends();
        let mut run = reported(document.clone(), part, 0);
        run.detail = serde_json::to_value(document).ok().map(|value| detail(FORMAT, value));
        run.void = match end {
            Ending::Interrupted => vec!["interrupted: the result is partial".to_owned()],
            _ => summary::failed(document).into_iter().collect(),
        };
        // An interrupted load has left a partial result.
        let block = self.to.as_ref().map_or(0, |to| to.next_block);
        self.finish(end, vec![(block, run)]);
    }

    /// Writes the result of a search: a trial for each search from a fresh start.
    pub(super) fn end_search(self, end: &Ending, document: &maximum::Document, metric: &str) {
        if matches!(end, Ending::Interrupted) {
            // Its windows are stored, and go into the result when it is taken up.
            return self.finish(end, Vec::new());
        }
        let whole = serde_json::to_value(document).ok().map(|value| detail(maximum::FORMAT, value));
        let trials = document.trials.iter().zip(0..).map(|(trial, block)| {
            let sample = trial.maximum.map(|maximum| Sample::new(metric, maximum.level));
            let void = sample.is_none().then(|| "no level was found".to_owned());
            let run = JobRun {
                samples: sample.into_iter().collect(),
                void: void.into_iter().collect(),
                checked: format!("{} windows", trial.windows.len()),
                detail: whole.clone().filter(|_| block == 0),
                ..JobRun::default()
            };
            (block, run)
        });
        self.finish(end, trials.collect());
    }

    /// Ends a run of which nothing could be measured. Why is for its user alone, for it may name the host of a site: the store has its kind.
    pub(super) fn fail(self, why: Refusal) -> Refusal {
        let end = match why.exit {
            Exit::Interrupted => Ending::Interrupted,
            Exit::Missing => Ending::Failed("a site lacks what the load needs".to_owned()),
            Exit::BadInput => Ending::Failed("the load was refused".to_owned()),
            _ => Ending::Failed("the load could not begin, or broke off".to_owned()),
        };
        self.finish(&end, Vec::new());
        why
    }

    /// Ends a run whose result is stored already.
    pub(super) fn close(self) {
        self.finish(&Ending::Complete("complete".to_owned()), Vec::new());
    }

    fn finish(self, end: &Ending, trials: Vec<(u64, JobRun)>) {
        let Some(Recording { mut record, plan, next_block, ended, .. }) = self.to else { return };
        let mut new = trials.into_iter().zip(ended).filter(|((block, _), _)| *block >= next_block);
        let written = new.try_for_each(|((block, run), seen)| {
            let arm = &plan.arms.first().ok_or_else(|| record::unwritten("the study has no arm"))?.arm;
            let elapsed_ns = seen.elapsed_ns;
            let result = seen.result(arm, run).map_err(record::unwritten)?;
            record.trial(&Finished {
                block,
                cell: 0,
                place: block,
                spec: schedule::trial(&plan, block, 0),
                status: status_of(&result),
                result: Some(result),
                elapsed_ns,
                percentiles: Percentiles::default(),
            })
        });
        let written = written.and_then(|()| record.close(end).map_err(|why| record::unwritten(why.message)));
        if let Err(why) = written {
            watch::say(format_args!("warning: {why}; the result is not in the store"));
        }
    }
}

/// The load's own document as a trial's detail. The query of the URL may hold a token.
fn detail(format: &str, mut document: Value) -> Detail {
    for key in ["scenario", "title"] {
        if let Some(title) = document.get_mut(key)
            && let Some(text) = title.as_str()
        {
            *title = Value::String(study::without_query(text).to_owned());
        }
    }
    Detail { format: format.to_owned(), document }
}

/// The run of that name, if `baremark load` has recorded it, as a load that is shown again.
pub fn of_run(store: &Store, id: &RunId) -> Result<Option<StoredLoad>, Refusal> {
    let runs = store.list().map_err(Refusal::failure)?.runs;
    let own = |run: &RunSummary| run.id == *id && Origin::of(&run.study_file) == Origin::Load;
    let Some(RunSummary { title, started, ended, stop_reason, state, .. }) = runs.into_iter().find(own) else {
        return Ok(None);
    };
    let StoredRun { plan, machine, version, trials, progress, .. } = store.load_intact(id).map_err(Refusal::failure)?;
    let phases = trials.into_iter().filter_map(|trial| trial.result).flat_map(|result| result.series);
    // An interrupted load has a partial result before its own.
    let detail = phases.rev().find_map(|phase| phase.detail);
    let expected = if Factor::of_metric(&plan.metric).is_some() { maximum::FORMAT } else { FORMAT };
    let kind = detail.as_ref().map_or(expected, |detail| detail.format.as_str()).to_owned();
    let title = title.strip_prefix("load: ").unwrap_or(&title).to_owned();
    let summary = LoadSummary { id: id.clone(), kind, title, started, ended, stop_reason, state };
    let document = detail.map(|detail| detail.document);
    Ok(Some(StoredLoad { summary, machine, version, document, seconds: of_last(progress) }))
}

/// The seconds since a load was resumed, which begins again at its first one. Windows of a search are all kept.
fn of_last(rows: Vec<Value>) -> Vec<Value> {
    let second = |row: &Value| row["at_s"].as_u64();
    let begins = |pair: &[Value]| second(&pair[1]).is_some_and(|at_s| Some(at_s) <= second(&pair[0]));
    let first = rows.windows(2).rposition(begins).map_or(0, |at| at + 1);
    rows.into_iter().skip(first).collect()
}

/// The result of a load, or of a search.
pub(super) fn result<'s, D: Deserialize<'s>>(stored: &'s StoredLoad) -> Result<D, Refusal> {
    let result = stored.document.as_ref().unwrap_or(&Value::Null);
    let unreadable = |why: serde_json::Error| {
        Refusal::failure(format!("the result of load {} cannot be read: {why}", stored.summary.id))
    };
    D::deserialize(result).map_err(unreadable)
}

/// The seconds of a load: those of its result, or as they were stored where it has none.
pub(super) fn rows(stored: &StoredLoad) -> Vec<SecondRow> {
    let of_row = |row: &Value| SecondRow::deserialize(row).ok();
    result::<Document>(stored).map_or_else(|_| stored.seconds.iter().filter_map(of_row).collect(), |of| of.series)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn seconds_of_a_resumed_load_are_those_of_its_last_begin() {
        let seconds = |all: &[u64]| all.iter().map(|at_s| json!({ "at_s": at_s })).collect::<Vec<Value>>();
        assert_eq!(of_last(seconds(&[])), seconds(&[]));
        assert_eq!(of_last(seconds(&[0, 1, 2])), seconds(&[0, 1, 2]));
        assert_eq!(of_last(seconds(&[0, 1, 2, 0, 0, 1])), seconds(&[0, 1]));
        let windows = vec![json!({ "trial": 0, "level": 5.0 }), json!({ "trial": 0, "level": 2.5 })];
        assert_eq!(of_last(windows.clone()), windows);
    }
}
