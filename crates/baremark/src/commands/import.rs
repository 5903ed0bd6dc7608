//! `baremark import`: what other programs observed, shown by itself or put alongside a run.

use crate::context::Context;
use crate::exit::{Exit, Refusal};
use crate::record;
use baremark_model::imported::Imported;
use baremark_model::units::{Nanos, UnixTime};
use baremark_observe::esxtop::{self, Choice, EsxtopError};
use std::fmt::Write;
use std::fs::File;
use std::io::{Read, stdin};
use std::path::PathBuf;

/// What is imported.
#[derive(clap::Subcommand)]
pub enum Import {
    /// Batch output of esxtop: esxtop -b -d 5 -n 60 > FILE
    Esxtop(EsxtopArgs),
}

/// A file of esxtop's.
#[derive(clap::Args)]
pub struct EsxtopArgs {
    /// The file; - for standard input
    file: PathBuf,
    /// Put it alongside this run, whose reports show it from then on; a unique prefix is enough
    #[arg(long, value_name = "RUN")]
    run: Option<String>,
    /// Take the columns whose heading contains TEXT as well, such as '% Ready' or ':web01'
    #[arg(long, value_name = "TEXT")]
    counter: Vec<String>,
    /// Add this to every time in the file, such as '-2 h' where its clock was two hours ahead
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = shift, default_value = "0 s")]
    shift: i64,
    /// List what the file has instead
    #[arg(long)]
    list: bool,
}

/// A time with a sign.
fn shift(text: &str) -> Result<i64, String> {
    let (sign, time) = match text.strip_prefix('-') {
        Some(time) => (-1, time),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    let time: Nanos = time.trim().parse().map_err(|why| format!("{why}"))?;
    i64::try_from(time.0).map(|time| sign * time).map_err(|why| why.to_string())
}

/// Imports.
pub fn run(context: &Context, import: &Import) -> Result<(String, Exit), Refusal> {
    let Import::Esxtop(args) = import;
    let name = args.file.display().to_string();
    let input: Box<dyn Read> = match name.as_str() {
        "-" => Box::new(stdin().lock()),
        _ => Box::new(File::open(&args.file).map_err(|why| Refusal::bad_input(format!("reading {name}: {why}")))?),
    };
    let wrong = |why: EsxtopError| Refusal::bad_input(format!("{name}: {why}"));
    if args.list {
        return Ok((listed(&esxtop::list(input).map_err(wrong)?, context.json), Exit::Success));
    }
    let choice = Choice { containing: args.counter.clone(), shift_ns: args.shift };
    let mut imported = esxtop::read(input, &choice).map_err(wrong)?;
    imported.file.clone_from(&name);
    if let Some(run) = &args.run {
        return Ok((attach(context, run, &imported)?, Exit::Success));
    }
    let text = match context.json {
        true => serde_json::to_string(&imported).map(|text| text + "\n").map_err(Refusal::failure)?,
        false => baremark_report::import::render(&imported, &crate::watch::style()),
    };
    Ok((text, Exit::Success))
}

fn listed(counters: &[(String, usize)], json: bool) -> String {
    if json {
        let rows: Vec<_> =
            counters.iter().map(|(name, columns)| serde_json::json!({ "counter": name, "columns": columns })).collect();
        return format!("{}\n", serde_json::Value::from(rows));
    }
    let mut text = String::new();
    for (name, columns) in counters {
        let _ = writeln!(text, "{columns:>6}  {name}");
    }
    text
}

/// Puts it alongside a run that it overlaps.
fn attach(context: &Context, run: &str, imported: &Imported) -> Result<String, Refusal> {
    let store = context.open_store()?;
    let id = record::find(&store, Some(run))?;
    let run = record::load(&store, &id)?;
    let (began, seconds) = (imported.began_unix_ns, imported.seconds.max(0.0));
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "seconds of an observation")]
    let ended = began.saturating_add((seconds * 1e9) as u64);
    let lasted: u64 = run.trials.iter().map(|trial| trial.elapsed_ns).sum();
    let end_of_run = run.ended.map_or(run.started.0.saturating_add(lasted), |ended| ended.0);
    if ended < run.started.0 || began > end_of_run {
        return Err(Refusal::bad_input(format!(
            "the file holds {} to {}, and run {id} lasted from {} to {}; where a clock was wrong or in another zone, say \
             so with --shift",
            UnixTime(began),
            UnixTime(ended),
            run.started,
            UnixTime(end_of_run)
        )));
    }
    store.add_imported(&id, imported).map_err(Refusal::failure)?;
    let (rows, series) = (imported.rows, imported.series.len());
    Ok(format!("{rows} rows of {series} quantities were added to run {id}; `baremark report {id}` shows them\n"))
}
