//! `baremark report`: show a stored run again, worked out anew from its trials, or several runs joined.

use crate::commands::form::write_page;
pub use crate::commands::form::{Damage, Form, Rows, Tables};
use crate::commands::load;
use crate::commands::run::show;
use crate::context::{Context, descriptors_of};
use crate::exit::{Exit, Refusal};
use crate::predicted;
use crate::{record, sides};
use baremark_lab::analysis::Run;
use baremark_lab::joined;
use baremark_lab::trials::Finished;
use baremark_model::document::Document;
use baremark_model::wire::Series;
use baremark_report::check_document;
use baremark_store::{LoadSummary, RunId, Store};
use serde_json::json;
use std::mem::ManuallyDrop;

/// Shown by `--help`.
pub const EXAMPLES: &str = "\
Examples:
  baremark report                       # the latest run
  baremark report 7f3a --details
  baremark report 7f3a --html report.html
  baremark report 7f3a --csv=trials
  baremark report --join 7f3a 91c0      # two releases, two boots";

/// Shows the named run, or the latest. A page is written to its file, and its name is printed; with --json the document is,
/// from which the page is made.
pub fn run(context: &Context, named: Option<&str>, form: &Form, damage: &Damage) -> Result<(String, Exit), Refusal> {
    form.check(context)?;
    let store = record::open_existing(context)?;
    if let Some(load) = load_meant(&store, named)? {
        let load = store.read_load(&load).map_err(Refusal::failure)?;
        let none = || Refusal::bad_input("a load of an earlier version has no trials; --csv prints its seconds");
        return load::show(context, &load, form)?.ok_or_else(none);
    }
    // Never dropped: the program ends with this report, and freeing a run of a million values one by one takes a tenth of it.
    let id = record::find(&store, named)?;
    if !(form.verify_document || form.details)
        && let Some(load) = load::record::of_run(&store, &id)?
        && let Some(shown) = load::show(context, &load, form)?
    {
        return Ok(shown);
    }
    let load = if damage.without_damaged { record::load_without_damaged } else { record::load };
    let run = ManuallyDrop::new(load(&store, &id)?);
    let document = || Ok(predicted::document(context, &run, &descriptors_of(&run)?));
    if form.verify_document {
        return verified(context, &run, &document()?);
    }
    if let Some(rows) = form.csv {
        let document = document()?;
        let text = match rows {
            Rows::Results => baremark_report::csv::results(&document),
            Rows::Trials => {
                fn series_of(trial: &Finished) -> &[Series] {
                    trial.result.as_ref().map_or(&[], |result| &result.series)
                }
                let series: Vec<&[Series]> = run.trials.iter().map(series_of).collect();
                baremark_report::csv::trials_with_series(&document, &series)
            }
            Rows::Observations => baremark_report::csv::observations(&document),
            Rows::Series => baremark_report::csv::series(&document),
        };
        return Ok((text, Exit::Success));
    }
    if form.tables == Some(Tables::OrderEntry) {
        let text = baremark_report::terminal::order_entry(&document()?, &crate::watch::style());
        return Ok((text, Exit::Success));
    }
    let Some(file) = &form.html else {
        return Ok((show(context, &run, form.details)?, Exit::Success));
    };
    let document = document()?;
    write_page(file, &baremark_report::html::render(&document))?;
    match context.json {
        true => Ok((baremark_report::json::render(&document), Exit::Success)),
        false => Ok((format!("{}\n", file.display()), Exit::Success)),
    }
}

/// What breaks a rule that holds of every document, in the run's document and in what its trials report, one a line.
fn verified(context: &Context, run: &Run, document: &Document) -> Result<(String, Exit), Refusal> {
    let mut violations = check_document::check(document);
    for trial in run.trials.iter().filter(|trial| trial.counted().is_some()) {
        let arms = run.plan.cells.get(trial.cell).map_or_else(Vec::new, |cell| run.plan.arms_of(*cell));
        for phase in trial.result.iter().flat_map(|result| &result.series) {
            let place = format!("block {}, cell {}, phase {}", trial.block, trial.cell, phase.phase);
            let kind = arms.get(phase.arm).map_or("", |arm| run.plan.workload_of(*arm));
            violations.extend(check_document::check_phase(&place, kind, phase));
        }
    }
    let exit = if violations.is_empty() { Exit::Success } else { Exit::Regression };
    if context.json {
        let rows = violations.iter().map(|of| json!({ "where": of.place, "what": of.what, "expected": of.expected }));
        let document = json!({ "run": run.id, "violations": rows.collect::<Vec<_>>() });
        return Ok((crate::json::document("baremark-violations/1", document), exit));
    }
    let lines: Vec<String> = violations.iter().map(|of| format!("{of}\n")).collect();
    let checked = format!(
        "{} estimates, {} ratios and {} trials",
        document.estimates.len(),
        document.ratios.len(),
        run.trials.len()
    );
    let none = || format!("run {}: no violation in {checked}\n", run.id);
    Ok((if lines.is_empty() { none() } else { lines.concat() }, exit))
}

/// The ratios of each side divided by those of the first, as text or as JSON.
pub fn join(context: &Context, named: &[String]) -> Result<(String, Exit), Refusal> {
    let sides: Vec<_> = named.iter().map(|side| sides::find(context, side)).collect::<Result<_, _>>()?;
    let joined = joined::join(&sides).map_err(Refusal::bad_input)?;
    let text = match context.json {
        true => serde_json::to_string_pretty(&joined).map_err(Refusal::failure)? + "\n",
        false => baremark_report::joined::render(&joined, &crate::watch::style()),
    };
    Ok((text, Exit::Success))
}

/// The load that is meant: by its name, or because it is the latest of all.
fn load_meant(store: &Store, named: Option<&str>) -> Result<Option<RunId>, Refusal> {
    if let Some(name) = named {
        return store.find_load(name).map_err(Refusal::bad_input);
    }
    let load = store.loads().map_err(Refusal::failure)?.into_iter().next();
    let run = store.latest().map_err(Refusal::failure)?;
    let later = |load: &LoadSummary| run.as_ref().is_none_or(|run| load.started.0 > run.started.0);
    Ok(load.filter(later).map(|load| load.id))
}
