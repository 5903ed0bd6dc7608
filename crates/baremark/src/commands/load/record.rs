//! Loads in the store: written second by second while they run, shown again by `baremark report`.

use super::{LoadArgs, find_max, page, words};
use crate::commands::report::{Form, write_page};
use crate::context::Context;
use crate::exit::{Exit, Refusal};
use crate::watch;
use baremark_load::document::{Document, FORMAT, SecondRow};
use baremark_model::units::UnixTime;
use baremark_store::{LoadRecord, RunId, RunLock, Store, StoredLoad};
use baremark_sys::{clock, machine};
use serde_json::{Value, json};
use std::fmt::Write as _;

/// What writes a load down; does nothing where no record is requested.
pub(super) struct Recorder {
    to: Option<(Store, RunId, RunLock)>,
}

impl Recorder {
    /// Begins a record. The request is stored without headers and scenario text, which may hold secrets.
    pub(super) fn begin(context: &Context, args: &LoadArgs, kind: &str, title: &str) -> Result<Recorder, Refusal> {
        if args.no_record {
            return Ok(Recorder { to: None });
        }
        let refused = |why: String| Refusal::failure(format!("{why}; --no-record does without the store"));
        let store = context.open_store().map_err(|why| refused(why.message))?;
        let started = now();
        let id = RunId::generate(started);
        let lock = store.lock(&id).map_err(|why| refused(why.to_string()))?;
        let record = LoadRecord {
            id: id.clone(),
            kind: kind.to_owned(),
            // A query may hold a token.
            title: title.split('?').next().unwrap_or_default().to_owned(),
            asked: json!({ "threads": args.threads, "seed": args.seed, "sites": args.site }),
            machine: machine::this(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            started,
        };
        store.create_load(&record).map_err(|why| refused(why.to_string()))?;
        Ok(Recorder { to: Some((store, id, lock)) })
    }

    /// Writes a second or a window; when that fails, the load goes on without a record, and that is said once.
    pub(super) fn second(&mut self, row: &Value) {
        let Some((store, id, _)) = &self.to else { return };
        if let Err(why) = store.add_load_second(id, row) {
            watch::say(format_args!("warning: {why}; the load goes on without a record"));
            self.to = None;
        }
    }

    /// Writes the result.
    pub(super) fn end(self, reason: &str, document: &Value) {
        let Some((store, id, _lock)) = &self.to else { return };
        let mut kept = document.clone();
        if let Some(title) = kept.get_mut("scenario").or(None)
            && let Some(text) = title.as_str()
        {
            *title = Value::String(text.split('?').next().unwrap_or_default().to_owned());
        }
        if let Err(why) = store.finish_load(id, now(), reason, &kept) {
            watch::say(format_args!("warning: {why}; the result is not in the store"));
        }
    }
}

fn now() -> UnixTime {
    UnixTime(clock::unix_time_ns())
}

/// A stored load as text, JSON, comma-separated seconds or a page.
pub fn show(context: &Context, stored: &StoredLoad, form: &Form) -> Result<(String, Exit), Refusal> {
    if form.csv.is_some() {
        return Ok((csv(&rows(stored)), Exit::Success));
    }
    if let Some(file) = &form.html {
        let page = baremark_report::load::html(&page::of(stored)?);
        write_page(file, &page)?;
        if !context.json {
            return Ok((format!("{}\n", file.display()), Exit::Success));
        }
    }
    let Some(document) = &stored.document else {
        return Ok((unfinished(context, stored), Exit::Success));
    };
    if context.json {
        return Ok((format!("{document:#}\n"), Exit::Success));
    }
    let text = if stored.summary.kind == FORMAT {
        let described = words::describe(&document_of(stored)?, &watch::style());
        format!("{} ({})\n{described}", words::clean(&stored.summary.title), stored.summary.started)
    } else {
        find_max::shown(&maximum_of(stored)?)
    };
    Ok((text, Exit::Success))
}

/// The result of a load.
pub(super) fn document_of(stored: &StoredLoad) -> Result<Document, Refusal> {
    serde_json::from_value(result(stored)).map_err(|why| unreadable(stored, &why))
}

/// The result of a search.
pub(super) fn maximum_of(stored: &StoredLoad) -> Result<baremark_model::maximum::Document, Refusal> {
    serde_json::from_value(result(stored)).map_err(|why| unreadable(stored, &why))
}

fn result(stored: &StoredLoad) -> Value {
    stored.document.clone().unwrap_or(Value::Null)
}

fn unreadable(stored: &StoredLoad, why: &serde_json::Error) -> Refusal {
    Refusal::failure(format!("the result of load {} cannot be read: {why}", stored.summary.id))
}

/// The seconds of a load as they were stored.
pub(super) fn rows(stored: &StoredLoad) -> Vec<SecondRow> {
    stored.seconds.iter().filter_map(|row| serde_json::from_value(row.clone()).ok()).collect()
}

/// A load that runs still, or was killed: its seconds are all there is.
fn unfinished(context: &Context, stored: &StoredLoad) -> String {
    let summary = &stored.summary;
    if context.json {
        let partial = json!({
            "format": "baremark-load-partial/1",
            "id": summary.id.as_str(),
            "title": summary.title,
            "kind": summary.kind,
            "state": summary.state.word(),
            "seconds": stored.seconds,
        });
        return format!("{partial:#}\n");
    }
    let mut text = format!(
        "{}\n{}: it has no result; what it told until then, second by second:\n",
        summary.title,
        summary.state.word()
    );
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

fn csv(rows: &[SecondRow]) -> String {
    let mut text = "at_s,intended,answered,failed,received_bytes,p50_ns,p99_ns\n".to_owned();
    for row in rows {
        let number = |ns: Option<u64>| ns.map_or_else(String::new, |ns| ns.to_string());
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
