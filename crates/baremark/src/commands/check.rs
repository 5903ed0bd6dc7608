//! `baremark check`: has it become slower than a baseline? For scripts, which read the exit code.

use crate::commands::compare::{self, CompareArgs};
use crate::commands::run;
use crate::context::{Context, descriptors_of};
use crate::exit::{Exit, Refusal};
use crate::source::Source;
use crate::watch::say;
use crate::{record, sides};
use baremark_lab::analysis;
use baremark_lab::comparison::Chosen;
use baremark_lab::gates::{CONFIRMED, CONFIRMED_BASE, CONFIRMING, confirmed};
use baremark_model::codes::Origin;
use baremark_model::comparison::{Answer, Comparison, Method};
use baremark_model::document::Document;
use baremark_model::order;
use baremark_model::plan::{Mode, Treatment};
use baremark_model::units::Share;
use baremark_report::comparison as report;
use baremark_store::{RunState, RunSummary};
use std::path::Path;

/// Shown by `--help`.
pub const EXAMPLES: &str = "\
Examples:
  baremark check --against 7f3a,91c0,aa01
  baremark check --against old new --margin '3 %' --summary summary.md
  baremark check --against 7f3a,91c0,aa01 --confirm";

/// The newest runs among which those to be checked are looked for.
const NEWEST: usize = 50;

/// Compares the named runs, or all that were measured since, with the baseline; the exit code says what came out.
pub fn run(
    context: &Context,
    against: &str,
    named: Option<&str>,
    margin: Share,
    (summary, confirm): (Option<&Path>, bool),
    args: &CompareArgs,
) -> Result<(String, Exit), Refusal> {
    let baseline = sides::find(context, against)?;
    let checked = match named {
        Some(named) => sides::find(context, named)?,
        None => since(context, &baseline)?,
    };
    let first = compare::of(&baseline, &checked, args, (Some(margin), None))?;
    // A job that cannot confirm is to know before it has an alarm.
    let study = match confirm {
        true if first.method == Method::Paired => {
            let what =
                "--confirm: these are levels of one run; run its study again, and check the levels of the new run";
            return Err(Refusal::bad_input(what));
        }
        true => Some(study_of(context, &checked)?),
        false => None,
    };
    let answer = first.gate.as_ref().map(|gate| gate.answer);
    let alarm = shown(context, &first, [&baseline, &checked], summary)?;
    let (Some((source, mode)), Some(Answer::Loss)) = (study, answer) else {
        return Ok((alarm, answer.map_or(Exit::Undecided, exit_of)));
    };
    let again = match again(context, &source, mode) {
        Ok(documents) => Chosen { documents, levels: checked.levels.clone() },
        Err(why) => {
            say(format_args!("error: {}", why.message));
            return Ok((alarm, why.exit));
        }
    };
    let mut second = compare::of(&baseline, &again, args, (Some(margin), None))?;
    let mut all = checked.clone();
    all.documents.extend(again.documents.iter().cloned());
    let together = compare::of(&newest(&baseline, CONFIRMED_BASE), &all, args, (Some(margin), Some(CONFIRMED)))?;
    let answer = confirmed(&first, &second, &together);
    second.gate.iter_mut().for_each(|gate| gate.answer = answer);
    let text = shown(context, &second, [&baseline, &again], summary)?;
    let said = match (context.json, answer) {
        (true, _) => "",
        (false, Answer::Loss) => "\nFurther runs confirm the loss.\n",
        (false, Answer::Passed) => "\nFurther runs do not confirm the loss: the alarm was false.\n",
        (false, Answer::Undecided) => {
            "\nFurther runs neither confirm the loss nor exclude one of the margin; a baseline of six runs or more makes both surer.\n"
        }
    };
    // Of two documents the one that decides.
    let alarm = if context.json { String::new() } else { alarm };
    Ok((format!("{alarm}{text}{said}"), exit_of(answer)))
}

/// A comparison with its gate, as text or JSON; the summary is written where one is requested.
fn shown(
    context: &Context,
    comparison: &Comparison,
    sides: [&Chosen; 2],
    summary: Option<&Path>,
) -> Result<String, Refusal> {
    let mut text = compare::show(context, comparison, &compare::names(sides))?;
    let Some(gate) = &comparison.gate else { return Ok(text) };
    if let Some(path) = summary {
        let markdown = report::gate_markdown(comparison, gate);
        std::fs::write(path, markdown)
            .map_err(|why| Refusal::failure(format!("writing {}: {why}; name another file", path.display())))?;
    }
    if !context.json {
        text.push_str(&report::gate(comparison, gate, &crate::watch::style()));
    }
    Ok(text)
}

/// The same side with so many of its runs, the newest.
fn newest(side: &Chosen, most: usize) -> Chosen {
    let mut newest = side.clone();
    order::by(&mut newest.documents, |one, two| two.run.started.cmp(&one.run.started));
    newest.documents.truncate(most);
    newest
}

/// The study of the checked runs, which can be run again here.
fn study_of(context: &Context, checked: &Chosen) -> Result<(Source, Mode), Refusal> {
    let runs = checked.documents.iter().map(|document| &document.run);
    let latest = runs.max_by(|one, two| one.started.cmp(&two.started));
    let Some(latest) = latest else { return Err(Refusal::bad_input("--confirm: no run is checked")) };
    let refuse = |why: &str| Refusal::bad_input(format!("--confirm: run {} {why}", latest.id));
    let store = record::open_existing(context)?;
    let unknown = |_| refuse("is not in the store; check runs that were measured here");
    let id = record::find(&store, Some(&latest.id)).map_err(unknown)?;
    let stored = store.load_head(&id).map_err(Refusal::failure)?;
    if matches!(Origin::of(&stored.study_file), Origin::Load | Origin::Import(_)) {
        return Err(refuse("was not measured by a study; measure again, and check the new runs"));
    }
    if baremark_sys::machine::at_once().fingerprint() != stored.machine.fingerprint() {
        return Err(refuse("was measured on another machine; check it there"));
    }
    // Nobody has been asked for what overwrites a disk or a file, or changes the host.
    run::may_be_repeated(context, &stored.plan).map_err(|why| {
        refuse(&format!(
            "is of a study that may not be run unasked ({}); run it again, and check the new runs",
            why.message
        ))
    })?;
    Ok((Source::new(stored.study_file, stored.study_text.into_bytes()), stored.plan.mode))
}

/// Runs a study as often as runs are needed to be compared.
fn again(context: &Context, source: &Source, mode: Mode) -> Result<Vec<Document>, Refusal> {
    say(format_args!("a loss is shown; its study is run {CONFIRMING} times to confirm it"));
    let mut documents = Vec::new();
    for _ in 0..CONFIRMING {
        let (measured, ended) = run::once(context, source, mode)?;
        let ended = run::answered(ended, &measured);
        if ended != Exit::Success {
            let message =
                format!("--confirm: run {} was not finished; the loss is neither confirmed nor excluded", measured.id);
            return Err(Refusal { exit: ended, message });
        }
        documents.push(analysis::document(&measured, &descriptors_of(&measured)?));
    }
    Ok(documents)
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
