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
use baremark_lab::conduct::Ending;
use baremark_load::document::{Document, Ended, FORMAT};
use baremark_load::limits::Verdict;
use baremark_load::load::Engine;
use baremark_load::requirements::Requirements;
use baremark_store::{LoadSummary, RunId, Store, StoredLoad};
use baremark_sys::cpu_time::CpuTime;
use measure::failed;
use record::{Recorder, of_run, result, rows};
use serde_json::json;
use std::fmt::Write as _;
use std::sync::Arc;
use study::Secrets;
use view::View;

/// Runs the load and reports the result.
pub fn run(context: &Context, args: LoadArgs) -> Result<(String, Exit), Refusal> {
    if args.print_study {
        return Ok((study::left_out(&args) + &study::text(&args, Secrets::Shown), Exit::Success));
    }
    if let Some(factor) = args.search.find_max {
        return find_max::run(context, args, factor);
    }
    let (_, plan) = study::plan(context, &args, Secrets::Shown)?;
    let mut order = study::order(&args, &plan)?;
    let mut load = order.of_site(0, args.site.len().max(1) as u64).load().map_err(Refusal::bad_input)?;
    let required = Requirements::of(&load, &args.limit, args.error_limit).map_err(Refusal::bad_input)?;
    load.grace = required.grace(&load);
    order.grace_ns = Some(load.grace);
    // Whatever is wrong with it is said before anything is recorded.
    let engine = args.site.is_empty().then(|| Engine::new(load.clone(), Arc::clone(&context.interrupt)));
    let engine = engine.transpose().map_err(failed)?;
    crate::quiet::wait(context)?;
    let store = record::store(context, &args)?;
    let recorder = Recorder::begin(context, &args, store.as_ref(), None)?;
    let mut view = View::new(context, recorder);
    let before = CpuTime::now().ok();
    let measured = match &engine {
        Some(engine) => {
            let ran = engine.run(&mut |second| view.see(second.second, &second.part)).map_err(failed);
            ran.map(|part| (Document::new(engine.load(), &part), part))
        }
        None => sites::run(context, (&args.site, args.ssh_config.as_deref()), &order, &load, &mut view),
    };
    let recorder = view.finish();
    let (mut document, part) = match measured {
        Ok(measured) => measured,
        Err(why) => return Err(recorder.fail(why)),
    };
    required.check(&mut document, &part, &load, before);
    let value = serde_json::to_value(&document).map_err(|why| Refusal::failure(format!("writing JSON: {why}")))?;
    let end = match document.ended {
        Ended::Complete => Ending::Complete("complete".to_owned()),
        Ended::Interrupted => Ending::Interrupted,
        Ended::SiteLost => Ending::Complete("a site was lost".to_owned()),
    };
    recorder.end(&end, &document, &part);
    let text = if context.json { format!("{value:#}\n") } else { words::describe(&document, &watch::style()) };
    Ok((text, exit_of(&document)))
}

/// The exit code of a load: a broken run before failures, failures before limits.
fn exit_of(document: &Document) -> Exit {
    let any =
        |verdict, stated| document.limits.iter().any(|row| row.verdict == verdict && (stated || !row.of_scenario));
    match document.ended {
        Ended::Interrupted => Exit::Interrupted,
        Ended::SiteLost => Exit::Failure,
        // Not one answer: nothing has been measured.
        Ended::Complete if document.counts.answered == 0 || document.has_failed() => Exit::Failure,
        Ended::Complete if any(Verdict::Exceeded, true) => Exit::Regression,
        // What only the scenario states is reported; too short a run is not refused for it.
        Ended::Complete if any(Verdict::Undecided, false) => Exit::Undecided,
        Ended::Complete => Exit::Success,
    }
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

/// What a load that was resumed came to, and its exit code: `ended` where that is no success.
pub fn resumed(context: &Context, store: &Store, id: &RunId, ended: Exit) -> Result<(String, Exit), Refusal> {
    let stored = of_run(store, id)?.ok_or_else(|| Refusal::failure(format!("run {id} is no load")))?;
    let exit = if ended == Exit::Success { exit_of(&result(&stored)?) } else { ended };
    Ok((text(context, &stored)?, exit))
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
