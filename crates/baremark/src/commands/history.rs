//! `baremark history`: the runs in the store, the latest first.

use crate::context::Context;
use crate::exit::{Exit, Refusal};
use crate::watch::say;
use crate::{record, sides};
use baremark_lab::history::{Recorded, Series, series};
use baremark_model::codes::Origin;
use baremark_model::order;
use baremark_report::history::{self, ChangeRow, HistoryRow, SeriesRow};
use baremark_store::{LoadSummary, RunState, RunSummary};
use serde_json::json;

/// Shown by `--help`.
pub const EXAMPLES: &str = "\
Examples:
  baremark history
  baremark history --changes            # from which run on values differ";

/// The runs as a table or as JSON. A store that does not exist yet has no runs. Runs that are damaged are named on standard
/// error, and the exit code says that the list is not complete.
pub fn run(context: &Context, changes: bool) -> Result<(String, Exit), Refusal> {
    if changes {
        return of_changes(context);
    }
    let (runs, loads, damaged) = match context.store_path()?.exists() {
        true => {
            let list = record::open_existing(context)?.list().map_err(Refusal::failure)?;
            (list.runs, list.loads, list.damaged)
        }
        false => Default::default(),
    };
    let text = match context.json {
        true => format!(
            "{:#}\n",
            json!({
                "format": "baremark-history/1",
                "runs": runs.iter().map(row).collect::<Vec<_>>(),
                "loads": loads.iter().map(load_row).collect::<Vec<_>>(),
            })
        ),
        false => table(&runs, &loads),
    };
    Ok((text, say_left_out(&damaged)))
}

/// From which run on the quantities of each study are different. Of runs that cannot be shown the reasons are printed on standard error, and the exit
/// code says that the series are not complete.
fn of_changes(context: &Context) -> Result<(String, Exit), Refusal> {
    let store = record::open_existing(context)?;
    let list = store.list().map_err(Refusal::failure)?;
    let mut left_out: Vec<String> = list.damaged.iter().map(ToString::to_string).collect();
    let mut recorded = Vec::new();
    for run in list.runs.iter().filter(|run| run.state == RunState::Finished) {
        match sides::stored(&store, run.id.as_str()) {
            Ok(document) => recorded.push(Recorded::of(&document)),
            Err(why) => left_out.push(why.message),
        }
    }
    let found = series(&recorded);
    let text = match context.json {
        true => format!("{:#}\n", json!({ "format": "baremark-changes/1", "series": found })),
        false => history::changes(&found.iter().map(changed).collect::<Vec<_>>(), &crate::watch::style()),
    };
    Ok((text, say_left_out(&left_out)))
}

/// Names what is left out of a list on standard error; gives the exit code.
fn say_left_out(left_out: &[impl std::fmt::Display]) -> Exit {
    left_out.iter().for_each(|why| say(format_args!("error: {why}")));
    if left_out.is_empty() { Exit::Success } else { Exit::Failure }
}

/// A series as the report shows it.
pub fn changed(series: &Series) -> SeriesRow<'_> {
    SeriesRow {
        study: &series.study,
        quick: series.quick,
        metric: &series.metric,
        treatment: &series.treatment,
        relative_to: series.relative_to.as_ref(),
        runs: series.runs,
        changes: series.changes.as_ref().map(|changes| {
            let row = |of: &baremark_lab::history::Change| ChangeRow {
                run: of.run.clone(),
                started: of.started.clone(),
                ratio: [of.ratio, of.lo, of.hi],
                p_value: of.p_value,
            };
            changes.iter().map(row).collect()
        }),
    }
}

fn row(run: &RunSummary) -> serde_json::Value {
    json!({
        "id": run.id.as_str(),
        "study": run.title,
        "file": run.study_file,
        "started": run.started.to_string(),
        "ended": run.ended.map(|time| time.to_string()),
        "stop_reason": run.stop_reason,
        "trials": run.trials,
        "blocks": run.blocks,
        "state": run.state.word(),
    })
}

fn load_row(load: &LoadSummary) -> serde_json::Value {
    json!({
        "id": load.id.as_str(),
        "title": load.title,
        "kind": load.kind,
        "started": load.started.to_string(),
        "ended": load.ended.map(|time| time.to_string()),
        "stop_reason": load.stop_reason,
        "state": load.state.word(),
    })
}

fn table(runs: &[RunSummary], loads: &[LoadSummary]) -> String {
    let mut rows: Vec<HistoryRow> = runs
        .iter()
        .map(|run| HistoryRow {
            id: run.id.to_string(),
            title: match Origin::of(&run.study_file).import() {
                Some(name) => format!("{} (imported: {name})", run.title),
                None => run.title.clone(),
            },
            started: run.started,
            state: run.state.word().to_owned(),
            blocks: run.blocks,
            stop_reason: run.stop_reason.clone(),
        })
        .collect();
    rows.extend(loads.iter().map(|load| HistoryRow {
        id: load.id.to_string(),
        title: format!("load: {}", load.title),
        started: load.started,
        state: load.state.word().to_owned(),
        blocks: 0,
        stop_reason: load.stop_reason.clone(),
    }));
    order::by_key(&mut rows, |row| std::cmp::Reverse(row.started.0));
    history::render(&rows, &crate::watch::style())
}
