//! `baremark auction run`: the short form of a study of the auction, which is run, stored and reported like any other.

use crate::commands::form::write_page;
use crate::commands::run as study;
use crate::context::{Context, descriptors_of};
use crate::exit::{Exit, Refusal};
use crate::planning;
use crate::predicted;
use crate::source::{self, Source};
use crate::watch::{say, style};
use baremark_harness::cluster::ClusterError;
use baremark_harness::convert::{Converted, Request, convert, is_study};
use baremark_harness::document::{self, ApplicationRow, Document};
use baremark_harness::topology::{DEFAULTS, Topology};
use baremark_harness::workload;
use baremark_lab::analysis::Run;
use baremark_model::event::TrialStatus;
use baremark_model::literal::quoted;
use baremark_model::plan::Mode;
use serde::Deserialize as _;
use std::path::{Path, PathBuf};

/// The name of the study file of a run that this command has made.
const NAME: &str = "baremark auction run";

const EXAMPLES: &str = "\
Examples:
  baremark auction run --quick          # most users within the limits
  baremark auction run --set limits.latency='500 ms'   # p99 of every operation
  baremark auction run --set load.users=200 --set database.service=postgres
  baremark auction run --set app.on=container --print-study   # as a study
  baremark run auction                  # native against container";

/// A run of the application.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct RunArgs {
    /// Topology file: which tiers, users and limits [default: one app server on SQLite, search for the most users]
    file: Option<PathBuf>,
    /// First answer in under two minutes: little data, short windows
    #[arg(long)]
    quick: bool,
    /// Set a key over the file, such as database.service=postgres or load.users=100; repeat for several
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Number of blocks, each from a fresh start; an interval needs 4
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    blocks: u64,
    /// Write the report as one HTML page
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Folder for databases and logs while the run lasts [default: the system's temporary folder]
    #[arg(long, value_name = "FOLDER")]
    folder: Option<PathBuf>,
    /// Keep logs and configurations of each trial in this folder
    #[arg(long, value_name = "FOLDER")]
    keep: Option<PathBuf>,
    /// Print every key with its default, and run nothing
    #[arg(long)]
    defaults: bool,
    /// Print the study, for `baremark run`, and run nothing; converts a topology file
    #[arg(long)]
    print_study: bool,
}

/// Runs the study that the command line describes.
pub fn run(context: &Context, args: &RunArgs) -> Result<(String, Exit), Refusal> {
    if args.defaults {
        return Ok((DEFAULTS.to_owned(), Exit::Success));
    }
    let Converted { study: text, topology, renamed } = described(args)?;
    renamed.iter().for_each(say);
    if args.print_study {
        return Ok((text, Exit::Success));
    }
    check(&topology)?;
    let source = Source::new(NAME.to_owned(), text.into_bytes());
    let plan = planning::of(&source, Mode::default(), &context.interrupt)?;
    let (run, ended) = study::of_plan(context, &source, &plan)?;
    let document = predicted::document(context, &run, &descriptors_of(&run)?);
    if let Some(file) = &args.html {
        write_page(file, &baremark_report::html::render(&document))?;
    }
    let mut shown = study::show(context, &run, false)?;
    if !context.json {
        shown.push_str(&baremark_report::terminal::applications(&document, &style()));
    }
    let exit = if ended == Exit::Success { exit_of(&run) } else { ended };
    Ok((shown, exit))
}

/// The study of the command line.
fn described(args: &RunArgs) -> Result<Converted, Refusal> {
    let (name, text) = match &args.file {
        Some(path) => file(path)?,
        None => (NAME.to_owned(), String::new()),
    };
    let levels: Vec<String> = args.set.iter().map(|text| level(text)).collect::<Result<_, _>>()?;
    let absolute = |path: &PathBuf| std::path::absolute(path).unwrap_or_else(|_| path.clone()).display().to_string();
    let (folder, keep) = (args.folder.as_ref().map(absolute), args.keep.as_ref().map(absolute));
    let request = Request {
        file: &name,
        text: &text,
        levels: &levels,
        quick: args.quick,
        blocks: args.blocks,
        folder: folder.as_deref(),
        keep: keep.as_deref(),
    };
    convert(&request).map_err(Refusal::bad_input)
}

/// A topology file; a study is run by another command.
fn file(path: &Path) -> Result<(String, String), Refusal> {
    let name = path.display().to_string();
    let Source { bytes, .. } = source::find(&name)?;
    let text = String::from_utf8(bytes).map_err(|why| {
        Refusal::bad_input(format!("{name} is not UTF-8 text ({}); save it as UTF-8", why.utf8_error()))
    })?;
    match is_study(&text) {
        true => Err(Refusal::bad_input(format!("{name} is a study; run it with `baremark run {name}`"))),
        false => Ok((name, text)),
    }
}

/// `app.count=2` as a line of TOML; what is neither number, switch, list nor quoted is text.
fn level(text: &str) -> Result<String, Refusal> {
    let Some((key, value)) = text.split_once('=') else {
        return Err(Refusal::bad_input(format!("--set {text}: it has no '='; write KEY=VALUE")));
    };
    let (key, value) = (key.trim(), value.trim());
    let plain =
        value.parse::<i64>().is_ok() || matches!(value, "true" | "false") || value.starts_with(['"', '[', '{', '\'']);
    let value = match value {
        // Topology files have a 0 for it.
        workload::MOST if key == "load.users" => "0".to_owned(),
        plain_value if plain => plain_value.to_owned(),
        other => quoted(other),
    };
    Ok(format!("{key} = {value}"))
}

/// Refuses CPUs and programs that this machine does not have, before anything is stored.
fn check(topology: &Topology) -> Result<(), Refusal> {
    workload::check(topology).map_err(|why| Refusal {
        exit: if matches!(why, ClusterError::Cpus(_)) { Exit::BadInput } else { Exit::Missing },
        message: why.to_string(),
    })
}

/// Whether in a trial, be it invalid, every level that was verified exceeded a limit.
fn refuted(run: &Run) -> bool {
    let series = run.trials.iter().filter_map(|trial| trial.result.as_ref()).flat_map(|result| &result.series);
    let details = series.filter_map(|phase| phase.detail.as_ref()).filter(|detail| detail.format == document::FORMAT);
    let documents = details.filter_map(|detail| Document::deserialize(&detail.document).ok());
    documents.into_iter().any(|document| document.applications.iter().any(ApplicationRow::no_level_verified))
}

/// The exit code of a run that came to its end: nothing measured, limits exceeded, or all well.
fn exit_of(run: &Run) -> Exit {
    let counted = || run.trials.iter().filter_map(|trial| trial.counted());
    let exceeded = |metric: &str, value: f64| metric == "limits_exceeded" && value > 0.0;
    let mut samples = counted().flat_map(|result| &result.series).flat_map(|phase| &phase.samples);
    let mut reasons: Vec<&str> = Vec::new();
    let mut failed = false;
    for trial in &run.trials {
        match &trial.status {
            TrialStatus::Ok => {}
            TrialStatus::Void { reasons: why } => reasons.extend(why.iter().map(String::as_str)),
            TrialStatus::Failed { reason } => {
                failed = true;
                reasons.push(reason);
            }
        }
    }
    reasons.dedup();
    reasons.iter().for_each(|why| say(format_args!("error: {why}")));
    if refuted(run) || samples.any(|one| exceeded(&one.metric, one.value)) {
        Exit::Regression
    } else if counted().next().is_some() {
        Exit::Success
    } else if failed {
        Exit::Failure
    } else {
        Exit::Undecided
    }
}

#[cfg(test)]
mod tests {
    use super::level;

    #[test]
    fn a_value_keeps_its_quotation_marks() {
        let of = |text: &str| level(text).map_err(|refusal| refusal.message);
        assert_eq!(of("limits.latency=500 ms").as_deref(), Ok("limits.latency = \"500 ms\""));
        assert_eq!(of("title=Ann's \"site\"").as_deref(), Ok("title = \"Ann's \\\"site\\\"\""));
        assert_eq!(of("load.users=most").as_deref(), Ok("load.users = 0"));
        assert_eq!(of("app.cpus=[1, 2]").as_deref(), Ok("app.cpus = [1, 2]"));
        assert!(of("load.users").is_err_and(|why| why.contains("write KEY=VALUE")));
    }
}
