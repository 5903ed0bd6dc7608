//! `baremark auction run`: the application, its load and what became of both.

use crate::context::Context;
use crate::exit::{Exit, Refusal};
use crate::places;
use baremark_harness::cluster::ClusterError;
use baremark_harness::conduct::{Event, Ground, RunError, run as conduct};
use baremark_harness::document::Document;
use baremark_harness::study::{self, ArmRow, Study, StudyDocument};
use baremark_harness::topology::{QUICK, resolve};
use baremark_harness::words;
use baremark_lab::search::Step;
use baremark_services::service::ServiceError;
use std::io::{IsTerminal, stderr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A run of the application.
#[derive(clap::Args)]
pub struct RunArgs {
    /// A topology or study, or the name of a shipped one (auction-places, -bursts, -elastic, -databases, -tiers); without one the
    /// defaults: one app server on SQLite, and the most users are searched
    file: Option<PathBuf>,
    /// A first answer in under two minutes: little data, short windows, one trial
    #[arg(long)]
    quick: bool,
    /// Set a key over the file, such as database.service=postgres or web.service=nginx; may be given again
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Write the report as one HTML page
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Where the run keeps its databases and logs while it runs [default: the system's temporary folder]
    #[arg(long, value_name = "FOLDER")]
    folder: Option<PathBuf>,
    /// Print every key with its default, and run nothing
    #[arg(long)]
    defaults: bool,
}

/// Runs it.
pub fn run(context: &Context, args: &RunArgs) -> Result<(String, Exit), Refusal> {
    if args.defaults {
        return Ok((baremark_harness::topology::DEFAULTS.to_owned(), Exit::Success));
    }
    let (name, text) = match &args.file {
        Some(path) => source(path)?,
        None => ("the defaults".to_owned(), String::new()),
    };
    let mut levels: Vec<String> = args.set.iter().map(|text| level(text)).collect::<Result<_, _>>()?;
    if args.quick {
        levels.push(QUICK.to_owned());
    }
    let study = study::read(&name, &text, &levels).map_err(Refusal::bad_input)?;
    let topology = resolve(&name, &text, &levels).map_err(Refusal::bad_input)?;
    let quiet = context.json && !stderr().is_terminal();
    let mut watch = |event: &Event| {
        if !quiet {
            show(event);
        }
    };
    let mut ground = Ground {
        program: places::program()?,
        folder: args.folder.clone().unwrap_or_else(std::env::temp_dir),
        interrupt: Arc::clone(&context.interrupt),
        places: crate::auction_places::make,
        watch: &mut watch,
    };
    if let Some(study) = study {
        return compare(context, (&name, &text), &study, (&levels, args.html.as_deref()), &mut ground);
    }
    let document = conduct(topology, &mut ground).map_err(|why| refusal(context, &why))?;
    keep_page(args.html.as_deref(), || baremark_harness::page::render(&document))?;
    let text = if context.json {
        serde_json::to_string_pretty(&document).map_err(Refusal::failure)? + "\n"
    } else {
        words::describe(&document)
    };
    Ok((text, exit(context, &document)))
}

fn keep_page(path: Option<&Path>, page: impl FnOnce() -> String) -> Result<(), Refusal> {
    let Some(path) = path else { return Ok(()) };
    std::fs::write(path, page()).map_err(|why| Refusal::failure(format!("writing {}: {why}", path.display())))
}

fn exit(context: &Context, document: &Document) -> Exit {
    if context.interrupt.load(Ordering::Relaxed) {
        Exit::Interrupted
    } else if !document.valid {
        Exit::Failure
    } else if document.no_level_verified() {
        Exit::Regression
    } else {
        Exit::Success
    }
}

/// A study: arm by arm.
fn compare(
    context: &Context,
    (name, text): (&str, &str),
    study: &Study,
    (levels, html): (&[String], Option<&Path>),
    ground: &mut Ground<'_>,
) -> Result<(String, Exit), Refusal> {
    let document = study::conduct(name, text, study, levels, ground).map_err(|why| refusal(context, &why))?;
    keep_page(html, || baremark_harness::page::render_study(&document))?;
    let valid = document.runs.iter().all(|run| run.result.valid);
    let text = if context.json {
        serde_json::to_string_pretty(&document).map_err(Refusal::failure)? + "\n"
    } else {
        study::describe(&document)
    };
    let exit = match () {
        () if context.interrupt.load(Ordering::Relaxed) => Exit::Interrupted,
        () if document.runs.is_empty() => Exit::Missing,
        () if !valid => Exit::Failure,
        () if document.arms.iter().any(|arm| nothing_verified(&document, arm)) => Exit::Regression,
        () => Exit::Success,
    };
    Ok((text, exit))
}

/// Whether an arm has no value because no level of it was verified in any block.
fn nothing_verified(document: &StudyDocument, arm: &ArmRow) -> bool {
    let mut runs = document.runs.iter().filter(|run| run.arm == arm.name).peekable();
    runs.peek().is_some() && runs.all(|run| run.result.no_level_verified())
}

/// A file, or a shipped study by its name.
fn source(path: &Path) -> Result<(String, String), Refusal> {
    let shipped = study::SHIPPED.iter().find(|(name, _)| Path::new(name) == path);
    match shipped {
        Some((name, text)) if !path.exists() => Ok(((*name).to_owned(), (*text).to_owned())),
        _ => Ok((path.display().to_string(), read(path)?)),
    }
}

fn read(path: &Path) -> Result<String, Refusal> {
    std::fs::read_to_string(path).map_err(|why| Refusal::bad_input(format!("{}: {why}", path.display())))
}

/// `app.count=2` as a line of TOML; what is neither number, switch, list nor quoted is text.
fn level(text: &str) -> Result<String, Refusal> {
    let Some((key, value)) = text.split_once('=') else {
        return Err(Refusal::bad_input(format!("--set {text}: it has no '='; write KEY=VALUE")));
    };
    let value = value.trim();
    let plain =
        value.parse::<i64>().is_ok() || matches!(value, "true" | "false") || value.starts_with(['"', '[', '{', '\'']);
    let value = if plain { value.to_owned() } else { format!("'{}'", value.replace('\'', "")) };
    Ok(format!("{} = {value}", key.trim()))
}

fn refusal(context: &Context, why: &RunError) -> Refusal {
    let exit = match why {
        RunError::Problems(_) | RunError::Cluster(ClusterError::Cpus(_)) => Exit::BadInput,
        // Whatever it was doing has failed because of that.
        _ if context.interrupt.load(Ordering::Relaxed) => {
            let message = "interrupted before the first window: nothing was measured".to_owned();
            return Refusal { exit: Exit::Interrupted, message };
        }
        RunError::Cluster(ClusterError::Missing(_) | ClusterError::Service(ServiceError::Missing { .. })) => {
            Exit::Missing
        }
        RunError::Cluster(ClusterError::Place { .. }) => Exit::Missing,
        RunError::Cluster(ClusterError::Service(ServiceError::Taken { .. } | ServiceError::Refused { .. })) => {
            Exit::BadInput
        }
        _ => Exit::Failure,
    };
    Refusal { exit, message: why.to_string() }
}

/// A terminal or pipe that is gone ends nothing.
fn show(event: &Event) {
    let line = match event {
        Event::Step(text) => text.clone(),
        Event::Search(step) => match &**step {
            Step::Window { trial, level, said, reading } => format!(
                "trial {}: {level:.0} users: {:.0} operations/s, p99 {}: {}",
                trial + 1,
                reading.achieved_per_s,
                reading.p99_ns.map_or("-".to_owned(), |ns| format!("{:.1} ms", ns as f64 / 1e6)),
                baremark_report::maximum::said(*said)
            ),
            Step::Trial { trial, so_far } => match so_far.maximum {
                Some(maximum) => format!("trial {}: at most {:.0} users", trial + 1, maximum.level),
                None => format!("trial {}: no maximum found", trial + 1),
            },
        },
        Event::Second(row) => format!(
            "{:>5.0} s  {:>6.0} users  {} app  {} web  {:>7} answered  {:>4} failed",
            row.at_s, row.users, row.apps, row.webs, row.answered, row.failed
        ),
    };
    crate::watch::say(line);
}
