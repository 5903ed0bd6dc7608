//! `baremark history`: the runs in the store, the latest first.

use crate::context::Context;
use crate::exit::{Exit, Refusal};
use crate::record;
use baremark_report::history::{self, HistoryRow};
use baremark_store::RunSummary;
use serde_json::json;

/// The runs as a table or as JSON. A store that is not there yet has no runs.
pub fn run(context: &Context) -> Result<(String, Exit), Refusal> {
    let runs = match context.store_path()?.exists() {
        true => record::open_existing(context)?.runs().map_err(Refusal::failure)?,
        false => Vec::new(),
    };
    let text = match context.json {
        true => format!(
            "{:#}\n",
            json!({ "format": "baremark-history/1", "runs": runs.iter().map(row).collect::<Vec<_>>() })
        ),
        false => table(&runs),
    };
    Ok((text, Exit::Success))
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

fn table(runs: &[RunSummary]) -> String {
    let rows: Vec<HistoryRow> = runs
        .iter()
        .map(|run| HistoryRow {
            id: run.id.to_string(),
            title: run.title.clone(),
            started: run.started,
            state: run.state.word().to_owned(),
            blocks: run.blocks,
            stop_reason: run.stop_reason.clone(),
        })
        .collect();
    history::render(&rows, &crate::watch::style())
}
