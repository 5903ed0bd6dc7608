//! `baremark load`: requests to a server, by connections, a rate or users, and what became of them.

mod args;
pub mod find_max;
mod measure;
mod others;
mod page;
pub mod record;
mod sites;
mod study;
mod summary;
mod view;
mod words;

use crate::commands::form::{Form, Rows, write_page};
use crate::context::Context;
use crate::exit::{Exit, Refusal};
use crate::watch;
pub use args::LoadArgs;
use baremark_load::document::{Document, Ended, FORMAT};
use baremark_load::workload;
use baremark_model::plan::Plan;
use baremark_store::{LoadSummary, RunLock, Store, StoredLoad, StoredRun};
use measure::{Ready, told};
use record::{Recorder, of_run, result, rows};
use serde_json::json;
use std::fmt::Write as _;
use std::path::Path;
use study::Secrets;

/// Runs the load and reports the result.
pub fn run(context: &Context, args: LoadArgs) -> Result<(String, Exit), Refusal> {
    if args.print_study {
        return Ok((study::left_out(&args) + &study::text(&args, Secrets::Shown), Exit::Success));
    }
    if let Some(factor) = args.search.find_max {
        return find_max::run(context, args, factor);
    }
    let (source, plan, order) = study::plan(context, &args)?;
    let plan = Plan { load: study::request(&args, &order), ..plan };
    let sites = sites::named(&args.site, args.ssh_config.as_deref())?;
    // Whatever is wrong with it is said before anything is recorded.
    let ready = Ready::of(context, order, (&args.limit, args.error_limit), sites)?;
    crate::quiet::wait(context)?;
    let store = record::store(context, &args)?;
    let recorder = Recorder::begin(context, store.as_ref(), &source, plan)?;
    ready.measure(context, recorder)
}

/// Makes a load again that was interrupted or killed, as its command line said. This process holds its run.
pub fn resume(context: &Context, store: &Store, held: RunLock, stored: StoredRun) -> Result<(String, Exit), Refusal> {
    let id = stored.id.clone();
    let document = of_run(store, &id)?.and_then(|load| result::<Document>(&load).ok());
    if let Some(document) = document.filter(|document| document.ended != Ended::Interrupted) {
        // It was killed when its result was stored already.
        Recorder::resume(store, held, stored)?.close();
        return told(context, &document);
    }
    let gone = || Refusal::bad_input(format!("the request of run {id} is not stored; run the load again"));
    let request = stored.plan.load.clone().ok_or_else(gone)?;
    let arm = &stored.plan.arms.first().ok_or_else(gone)?.arm;
    let order = workload::order(arm).map_err(Refusal::bad_input)?;
    study::same_files(&id, &request, &order)?;
    let (limits, error_limit) = workload::stated(arm).map_err(Refusal::bad_input)?;
    let order = study::with(order, request.seed, &request.cpus);
    let sites = sites::named(&request.sites, request.ssh_config.as_deref().map(Path::new))?;
    let ready = Ready::of(context, order, (&limits, error_limit), sites)?;
    crate::quiet::wait(context)?;
    let recorder = Recorder::resume(store, held, stored)?;
    ready.measure(context, recorder)
}

/// A stored load as text, JSON, comma-separated seconds or windows, or a page; `None` where the form is that of any run.
pub fn show(context: &Context, stored: &StoredLoad, form: &Form) -> Result<Option<(String, Exit)>, Refusal> {
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
    Ok(Some((text(context, stored)?, Exit::Success)))
}

fn text(context: &Context, stored: &StoredLoad) -> Result<String, Refusal> {
    let Some(document) = &stored.document else { return Ok(unfinished(context, stored)) };
    if context.json {
        return Ok(format!("{document:#}\n"));
    }
    if stored.summary.kind != FORMAT {
        return Ok(baremark_report::maximum::render(&result(stored)?, &watch::style()));
    }
    let described = words::describe(&result(stored)?, &watch::style());
    Ok(format!("{} ({})\n{described}", words::clean(&stored.summary.title), stored.summary.started))
}

/// A load that runs still, or was killed: its seconds are all there is.
fn unfinished(context: &Context, stored: &StoredLoad) -> String {
    let LoadSummary { id, title, kind, state, .. } = &stored.summary;
    let state = state.word();
    if context.json {
        let partial = json!({
            "format": "baremark-load-partial/1",
            "id": id.as_str(),
            "title": title,
            "kind": kind,
            "state": state,
            "seconds": stored.seconds,
        });
        return format!("{partial:#}\n");
    }
    if kind != FORMAT {
        let windows = csv(stored);
        return format!(
            "{title}\n{state}: it has no result; `baremark resume {id}` continues after these windows:\n{windows}"
        );
    }
    let mut text = format!("{title}\n{state}: it has no result; its seconds until then:\n");
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

fn csv(stored: &StoredLoad) -> String {
    let number = |ns: Option<u64>| ns.map_or_else(String::new, |ns| ns.to_string());
    if stored.summary.kind != FORMAT {
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
