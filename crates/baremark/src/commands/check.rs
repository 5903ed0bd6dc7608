//! `baremark check`: has it become slower than a baseline? For scripts, which read the exit code.

use crate::commands::compare::{self, CompareArgs};
use crate::context::Context;
use crate::exit::{Exit, Refusal};
use crate::{record, sides};
use baremark_lab::comparison::Chosen;
use baremark_model::comparison::Answer;
use baremark_model::plan::Treatment;
use baremark_model::units::Share;
use baremark_report::comparison as report;
use baremark_store::{RunState, RunSummary};
use std::path::Path;

/// Shown by `--help`.
pub const EXAMPLES: &str = "\
Examples:
  baremark check --against 7f3a,91c0,aa01
  baremark check --against old new --margin '3 %' --summary summary.md";

/// The newest runs among which those to be checked are looked for.
const NEWEST: usize = 50;

/// Compares the named runs, or all that were measured since, with the baseline; the exit code says what came out.
pub fn run(
    context: &Context,
    against: &str,
    named: Option<&str>,
    margin: Share,
    summary: Option<&Path>,
    args: &CompareArgs,
) -> Result<(String, Exit), Refusal> {
    let baseline = sides::find(context, against)?;
    let checked = match named {
        Some(named) => sides::find(context, named)?,
        None => since(context, &baseline)?,
    };
    let comparison = compare::of(&baseline, &checked, args, Some(margin))?;
    let mut text = compare::show(context, &comparison, &compare::names([&baseline, &checked]))?;
    let Some(gate) = &comparison.gate else { return Ok((text, Exit::Undecided)) };
    if let Some(path) = summary {
        let markdown = report::gate_markdown(&comparison, gate);
        std::fs::write(path, markdown)
            .map_err(|why| Refusal::failure(format!("writing {}: {why}; name another file", path.display())))?;
    }
    if !context.json {
        text.push_str(&report::gate(&comparison, gate, &crate::watch::style()));
    }
    Ok((text, exit_of(gate.answer)))
}

/// The exit code of a gate's answer.
pub(super) fn exit_of(answer: Answer) -> Exit {
    match answer {
        Answer::Loss => Exit::Regression,
        Answer::Passed => Exit::Success,
        Answer::Undecided => Exit::Undecided,
    }
}

/// The finished runs of the same study that began after the last run of the baseline and are like the latest of them: of
/// the same version and with the same parameters. Quick runs and self-checks are compared with their like alone.
fn since(context: &Context, baseline: &Chosen) -> Result<Chosen, Refusal> {
    let store = record::open_existing(context)?;
    let last = baseline.documents.iter().map(|document| document.run.started.as_str()).max().unwrap_or_default();
    let first = baseline.documents.first().map(|document| &document.run);
    let study = first.map(|run| run.study.as_str()).unwrap_or_default();
    let runs = store.runs().map_err(Refusal::failure)?;
    let own = |run: &&RunSummary| baseline.documents.iter().any(|document| document.run.id == run.id.as_str());
    // Documents in files have whole seconds alone.
    let last_ns = runs.iter().filter(own).map(|run| run.started.0).max();
    let later = |run: &RunSummary| match last_ns {
        Some(last_ns) => run.started.0 > last_ns,
        None => run.started.to_string().as_str() > last,
    };
    let mut documents = Vec::new();
    for run in runs.iter().filter(|run| run.title == study && run.state == RunState::Finished).take(NEWEST) {
        if !later(run) || own(&run) {
            continue;
        }
        let document = sides::stored(&store, run.id.as_str())?;
        if first.is_none_or(|run| run.mode == document.run.mode) {
            documents.push(document);
        }
    }
    let Some(latest) = documents.first().map(|document| document.run.clone()) else {
        return Err(Refusal::bad_input(format!(
            "no run of the study '{study}' was finished after the baseline; run it, or name the runs to check"
        )));
    };
    documents.retain(|document| {
        let run = &document.run;
        run.version == latest.version && run.parameters == latest.parameters
    });
    Ok(Chosen { documents, levels: Treatment::clone(&baseline.levels) })
}
