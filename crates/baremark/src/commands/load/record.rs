//! Loads in the store: ordinary runs, with what they report while they run, shown again by `baremark report`. Loads that earlier
//! versions stored are shown likewise.

use super::find_max::Factor;
use super::study::{self, Secrets};
use super::{LoadArgs, find_max, page, words};
use crate::commands::form::{Form, Rows, write_page};
use crate::context::Context;
use crate::exit::{Exit, Refusal};
use crate::record::{self, Others};
use crate::watch;
use baremark_agent::job::{CpuUseOfOthers, of_one_phase};
use baremark_lab::schedule;
use baremark_load::document::{Document, FORMAT, SecondRow};
use baremark_load::record::Part;
use baremark_load::workload::reported;
use baremark_model::codes::Origin;
use baremark_model::event::TrialStatus;
use baremark_model::job::JobRun;
use baremark_model::machine::MachineFacts;
use baremark_model::maximum::{self, SearchRequest};
use baremark_model::plan::Plan;
use baremark_model::seam::Sample;
use baremark_model::units::{Nanos, UnixTime};
use baremark_model::wire::{Detail, Disturbance};
use baremark_store::{RunId, RunLock, Store, StoreError, StoredLoad, StoredRun, TrialEntry};
use baremark_sys::{point, wall};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::time::Instant;

/// What writes a load down; does nothing where no record is requested.
pub(super) struct Recorder {
    to: Option<Record>,
}

struct Record {
    store: Store,
    id: RunId,
    plan: Plan,
    others: Others,
    started: UnixTime,
    began: Instant,
    /// Who else uses the CPUs, until the load ends.
    beside: Option<CpuUseOfOthers>,
    _lock: RunLock,
}

/// How a load ended, for its run.
pub(super) enum End {
    /// It came to its end.
    Complete(String),
    /// The user stopped it.
    Interrupted,
}

impl Recorder {
    /// Begins a run. The request is stored without headers and query, which may hold secrets.
    pub(super) fn begin(context: &Context, args: &LoadArgs) -> Result<Recorder, Refusal> {
        Recorder::begin_as(context, args, None)
    }

    /// Begins the run of a search, whose request is stored with its plan.
    pub(super) fn begin_search(
        context: &Context,
        args: &LoadArgs,
        request: &SearchRequest,
    ) -> Result<Recorder, Refusal> {
        Recorder::begin_as(context, args, Some(request.clone()))
    }

    fn begin_as(context: &Context, args: &LoadArgs, search: Option<SearchRequest>) -> Result<Recorder, Refusal> {
        if args.no_record {
            return Ok(Recorder { to: None });
        }
        let without = |why: Refusal| match why.exit {
            Exit::Failure => Refusal { message: format!("{}; --no-record does without the store", why.message), ..why },
            _ => why,
        };
        let (source, plan) = study::plan(context, args, Secrets::LeftOut)?;
        let plan = Plan { search, ..plan };
        let store = context.open_store().map_err(without)?;
        let turn = record::turn(context, &store)?;
        let (id, lock) = record::begin(&store, &source, &plan).map_err(without)?;
        drop(turn);
        Ok(Recorder { to: Some(Record::new(store, id, plan, lock)) })
    }

    /// Continues a run that was interrupted or killed.
    pub(super) fn take_up(store: Store, id: RunId, started: UnixTime, plan: Plan) -> Result<Recorder, Refusal> {
        let lock = record::hold(&store, &id)?;
        store.reopen(&id).map_err(Refusal::failure)?;
        wall::follow(started.0);
        Ok(Recorder { to: Some(Record::new(store, id, plan, lock)) })
    }

    /// Writes a second or a window; when that fails, the load continues without a record, and that is said once.
    pub(super) fn second(&mut self, row: &Value) {
        let Some(Record { store, id, .. }) = &self.to else { return };
        if let Err(why) = store.add_progress(id, row) {
            watch::say(format_args!("warning: {why}; the load continues without a record"));
            self.to = None;
        }
        point::reached("progress-stored");
    }

    /// Writes the result of a load as the run's only trial.
    pub(super) fn end(self, end: &End, document: &Document, part: &Part) {
        let mut run = reported(document.clone(), part, 0);
        run.detail = serde_json::to_value(document).ok().map(|value| detail(FORMAT, value));
        let void = match end {
            End::Interrupted => Some("interrupted: the result is partial".to_owned()),
            End::Complete(_) => super::summary::failed(document),
        };
        self.finish(end, vec![(run, void)]);
    }

    /// Writes the result of a search: a trial for each search from a fresh start.
    pub(super) fn end_search(self, end: &End, document: &maximum::Document, metric: &str) {
        if matches!(end, End::Interrupted) {
            // Its windows are stored, and go into the result when it is taken up.
            return self.finish(end, Vec::new());
        }
        let whole = serde_json::to_value(document).ok().map(|value| detail(maximum::FORMAT, value));
        let trials = document.trials.iter().enumerate().map(|(at, trial)| {
            let sample = trial.maximum.map(|maximum| Sample::new(metric, maximum.level));
            let void = sample.is_none().then(|| "no level was found".to_owned());
            let run = JobRun {
                samples: sample.into_iter().collect(),
                checked: format!("{} windows", trial.windows.len()),
                flags: Vec::new(),
                void: Vec::new(),
                points: Vec::new(),
                detail: whole.clone().filter(|_| at == 0),
            };
            (run, void)
        });
        self.finish(end, trials.collect());
    }

    fn finish(self, end: &End, trials: Vec<(JobRun, Option<String>)>) {
        let Some(mut record) = self.to else { return };
        let found = record.beside.take().map(CpuUseOfOthers::end);
        let mut trials = trials.into_iter().enumerate();
        let written = trials.try_for_each(|(at, (run, void))| record.trial(at, run, void, found.clone()));
        let written = written.and_then(|()| {
            let ended = match end {
                End::Complete(reason) => record.store.finish(&record.id, now(), reason),
                End::Interrupted => record.store.interrupt(&record.id, "interrupted by the user"),
            };
            ended.map_err(|why: StoreError| why.to_string())
        });
        if let Err(why) = written {
            watch::say(format_args!("warning: {why}; the result is not in the store"));
        }
    }
}

impl Record {
    fn new(store: Store, id: RunId, plan: Plan, lock: RunLock) -> Self {
        let others = Others::of(&store, &id);
        let beside = Some(CpuUseOfOthers::begin());
        Record { store, id, plan, others, started: now(), began: Instant::now(), beside, _lock: lock }
    }

    fn trial(
        &mut self,
        at: usize,
        run: JobRun,
        void: Option<String>,
        found: Option<Disturbance>,
    ) -> Result<(), String> {
        let arm = self.plan.arms.first().ok_or("the study has no arm")?;
        let elapsed_ns = u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let mut result = of_one_phase(&arm.arm, &[], (elapsed_ns, found), run).map_err(|why| why.to_string())?;
        self.others.flag(&self.store, &self.id, &mut result);
        let status = void.map_or(TrialStatus::Ok, |reason| TrialStatus::Void { reasons: vec![reason] });
        let (block, spec) = (at as u64, schedule::trial(&self.plan, at as u64, 0));
        let entry = TrialEntry {
            block,
            cell: 0,
            seq: block,
            spec: &spec,
            status: &status,
            result: Some(&result),
            started: self.started,
            elapsed: Nanos(elapsed_ns),
            blocks_complete: block + 1,
        };
        self.store.add_trial(&self.id, &entry).map_err(|why| why.to_string())
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

fn now() -> UnixTime {
    UnixTime(wall::unix_time_ns())
}

/// A load as it is shown again.
pub struct Shown {
    pub(super) id: RunId,
    pub(super) title: String,
    /// The format of its document.
    pub(super) kind: String,
    pub(super) started: UnixTime,
    pub(super) stop_reason: Option<String>,
    pub(super) state: &'static str,
    pub(super) machine: MachineFacts,
    pub(super) version: String,
    /// `None` where it never came to its end.
    pub(super) document: Option<Value>,
    /// What was stored while it ran.
    pub(super) seconds: Vec<Value>,
}

impl From<StoredLoad> for Shown {
    fn from(stored: StoredLoad) -> Shown {
        let summary = stored.summary;
        Shown {
            id: summary.id,
            title: summary.title,
            kind: summary.kind,
            started: summary.started,
            stop_reason: summary.stop_reason,
            state: summary.state.word(),
            machine: stored.machine,
            version: stored.version,
            document: stored.document,
            seconds: stored.seconds,
        }
    }
}

/// The run of that name, if `baremark load` has recorded it.
pub fn of_run(store: &Store, id: &RunId) -> Result<Option<Shown>, Refusal> {
    let runs = store.list().map_err(Refusal::failure)?.runs;
    let Some(summary) = runs.into_iter().find(|run| run.id == *id && Origin::of(&run.study_file) == Origin::Load)
    else {
        return Ok(None);
    };
    let StoredRun { plan, machine, version, trials, progress, .. } = store.load_intact(id).map_err(Refusal::failure)?;
    let mut phases = trials.into_iter().filter_map(|trial| trial.result).flat_map(|result| result.series);
    let detail = phases.find_map(|phase| phase.detail);
    let searched = Factor::of_metric(&plan.metric).is_some();
    Ok(Some(Shown {
        id: id.clone(),
        title: summary.title.strip_prefix("load: ").unwrap_or(&summary.title).to_owned(),
        kind: detail
            .as_ref()
            .map_or_else(|| if searched { maximum::FORMAT } else { FORMAT }.to_owned(), |detail| detail.format.clone()),
        started: summary.started,
        stop_reason: summary.stop_reason,
        state: summary.state.word(),
        machine,
        version,
        document: detail.map(|detail| detail.document),
        seconds: progress,
    }))
}

/// A stored load as text, JSON, comma-separated seconds or windows, or a page; `None` where the form is that of any run.
pub fn show(context: &Context, stored: &Shown, form: &Form) -> Result<Option<(String, Exit)>, Refusal> {
    if let Some(rows) = form.csv {
        let own = rows == Rows::Results;
        return Ok(own.then(|| (csv(stored), Exit::Success)));
    }
    if let Some(file) = &form.html {
        let page = baremark_report::load::html(&page::of(stored)?);
        write_page(file, &page)?;
        if !context.json {
            return Ok(Some((format!("{}\n", file.display()), Exit::Success)));
        }
    }
    let Some(document) = &stored.document else {
        return Ok(Some((unfinished(context, stored), Exit::Success)));
    };
    if context.json {
        return Ok(Some((format!("{document:#}\n"), Exit::Success)));
    }
    let text = if stored.kind == FORMAT {
        let described = words::describe(&document_of(stored)?, &watch::style());
        format!("{} ({})\n{described}", words::clean(&stored.title), stored.started)
    } else {
        find_max::shown(&maximum_of(stored)?)
    };
    Ok(Some((text, Exit::Success)))
}

/// The result of a load.
pub(super) fn document_of(stored: &Shown) -> Result<Document, Refusal> {
    serde_json::from_value(result(stored)).map_err(|why| unreadable(stored, &why))
}

/// The result of a search.
pub(super) fn maximum_of(stored: &Shown) -> Result<maximum::Document, Refusal> {
    serde_json::from_value(result(stored)).map_err(|why| unreadable(stored, &why))
}

fn result(stored: &Shown) -> Value {
    stored.document.clone().unwrap_or(Value::Null)
}

fn unreadable(stored: &Shown, why: &serde_json::Error) -> Refusal {
    Refusal::failure(format!("the result of load {} cannot be read: {why}", stored.id))
}

/// The seconds of a load as they were stored.
pub(super) fn rows(stored: &Shown) -> Vec<SecondRow> {
    stored.seconds.iter().filter_map(|row| serde_json::from_value(row.clone()).ok()).collect()
}

/// A load that runs still, or was killed: its seconds are all there is.
fn unfinished(context: &Context, stored: &Shown) -> String {
    if context.json {
        let partial = json!({
            "format": "baremark-load-partial/1",
            "id": stored.id.as_str(),
            "title": stored.title,
            "kind": stored.kind,
            "state": stored.state,
            "seconds": stored.seconds,
        });
        return format!("{partial:#}\n");
    }
    let mut text = format!("{}\n{}: it has no result; its seconds until then:\n", stored.title, stored.state);
    if stored.kind != FORMAT {
        text = format!(
            "{}\n{}: it has no result; `baremark resume {}` continues after these windows:\n{}",
            stored.title,
            stored.state,
            stored.id,
            csv(stored)
        );
    }
    for row in rows(stored) {
        let p99 = words::time(words::p99_of(&row));
        let _ = writeln!(
            text,
            "{:>5} s  {:>9} answered  {:>7} failed  p99 {p99:>9}",
            row.at_s + 1,
            row.answered,
            row.failed
        );
    }
    text
}

fn csv(stored: &Shown) -> String {
    let number = |ns: Option<u64>| ns.map_or_else(String::new, |ns| ns.to_string());
    if stored.kind != FORMAT {
        let mut text = "trial,level,said,achieved_per_s,failed,p50_ns,p99_ns\n".to_owned();
        for row in &stored.seconds {
            let reading = &row["reading"];
            let said = row["said"].as_str().unwrap_or_default();
            let (p50, p99) = (number(reading["p50_ns"].as_u64()), number(reading["p99_ns"].as_u64()));
            let (trial, level) = (row["trial"].as_u64().unwrap_or(0) + 1, &row["level"]);
            let (done, failed) = (&reading["achieved_per_s"], &reading["failed"]);
            let _ = writeln!(text, "{trial},{level},{said},{done},{failed},{p50},{p99}");
        }
        return text;
    }
    let mut text = "at_s,intended,answered,failed,received_bytes,p50_ns,p99_ns\n".to_owned();
    for row in rows(stored) {
        let latency = row.latency.as_ref();
        let _ = writeln!(
            text,
            "{},{},{},{},{},{},{}",
            row.at_s,
            row.intended,
            row.answered,
            row.failed,
            row.received_bytes,
            number(latency.and_then(|all| all.p50_ns)),
            number(latency.and_then(|all| all.p99_ns))
        );
    }
    text
}
