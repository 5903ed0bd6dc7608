//! `baremark import`: results of other programs as runs of the store, and monitoring data of other programs of a run.

mod esxtop;
mod plan;

use crate::context::Context;
use crate::exit::{Exit, Refusal};
use crate::record;
use crate::source::Source;
use baremark_import::{Column, FORMATS, Imported};
use baremark_lab::schedule;
use baremark_model::event::TrialStatus;
use baremark_model::machine::MachineFacts;
use baremark_model::units::{Nanos, UnixTime};
use baremark_store::{RunId, Store, TrialEntry};
use baremark_sys::clock;
use clap::builder::PossibleValuesParser;
use serde_json::json;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{Read, stdin};
use std::path::{Path, PathBuf};

/// What `--help` shows at its end.
pub const EXAMPLES: &str = "\
Examples:
  baremark import old1.json old2.json old3.json --as old
  baremark import new1.json new2.json new3.json --as new
  baremark compare old new
  baremark check --against old new --margin '3 %'
  baremark import times.csv --columns 'test,seconds:lower:s'
  baremark import night.csv --run RUN                # esxtop -b, added to a run";

/// The longest file of results: what a program prints, or its log of transactions.
const LONGEST_FILE: u64 = 512 << 20;

/// The study file of imported runs is this with their name.
const STUDY_FILE: &str = "import ";

/// The command's arguments.
#[derive(clap::Args)]
pub struct ImportArgs {
    /// Files of results, each of which becomes a run; - for standard input
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Format of the files [default: recognised]
    #[arg(long, value_name = "FORMAT", value_parser = format_names())]
    format: Option<String>,
    /// Name for these runs, by which compare and check find all of them [default: the file's name]
    #[arg(long = "as", value_name = "NAME", value_parser = run_name)]
    name: Option<String>,
    /// Columns of a CSV file: labels, and metrics as NAME:lower:UNIT or NAME:higher:UNIT
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',')]
    columns: Vec<Column>,
    /// Import benchmarks whose name contains TEXT
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// Import this metric (repeat for several)
    #[arg(long, value_name = "METRIC")]
    metric: Vec<String>,
    #[command(flatten)]
    monitoring: esxtop::Options,
}

fn format_names() -> PossibleValuesParser {
    let names: Vec<&str> = FORMATS.iter().map(|format| format.name).chain([esxtop::NAME]).collect();
    PossibleValuesParser::new(names)
}

/// A name that cannot be taken for a list of runs or for levels.
fn run_name(text: &str) -> Result<String, String> {
    match text.is_empty() || text.contains([',', ':', '=', '/']) {
        true => Err("write a name without ',', ':', '=' and '/'".to_owned()),
        false => Ok(text.to_owned()),
    }
}

/// The name by which the run of this study file was imported; `None` of any other run.
pub fn imported_name(study_file: &str) -> Option<&str> {
    study_file.strip_prefix(STUDY_FILE)
}

/// Imports.
pub fn run(context: &Context, args: &ImportArgs) -> Result<(String, Exit), Refusal> {
    let mut found = Vec::new();
    let mut seen: Vec<(String, Vec<u8>)> = Vec::new();
    for path in &args.files {
        let name = path.display().to_string();
        let mut input = open(path)?;
        let head = esxtop::head(&mut input).map_err(|why| Refusal::bad_input(format!("reading {name}: {why}")))?;
        let named = args.format.as_deref();
        if named == Some(esxtop::NAME) || (named.is_none() && args.columns.is_empty() && esxtop::recognises(&head)) {
            only_one(args)?;
            return esxtop::run(context, &args.monitoring, &name, head.chain(input));
        }
        let bytes = bounded(head.chain(input), &name)?;
        let imported = baremark_import::read(&bytes, named, &args.columns);
        if let Some((same, _)) = seen.iter().find(|(_, of)| *of == bytes) {
            return Err(Refusal::bad_input(format!(
                "{name}: the same as {same}; a run counts once, name each file once"
            )));
        }
        seen.push((name.clone(), bytes));
        found.push((
            name.clone(),
            chosen(imported.map_err(|why| Refusal::bad_input(format!("{name}: {why}")))?, args, &name)?,
        ));
    }
    if args.monitoring.any() {
        return Err(Refusal::bad_input(
            "--run, --counter, --shift and --list are for monitoring data: --format esxtop",
        ));
    }
    stored(context, args, &found)
}

fn open(path: &Path) -> Result<Box<dyn Read>, Refusal> {
    if path.as_os_str() == "-" {
        return Ok(Box::new(stdin().lock()));
    }
    let file = File::open(path).map_err(|why| Refusal::bad_input(format!("reading {}: {why}", path.display())))?;
    Ok(Box::new(file))
}

fn only_one(args: &ImportArgs) -> Result<(), Refusal> {
    if args.files.len() > 1 || args.name.is_some() || args.only.is_some() || !args.metric.is_empty() {
        let what = "esxtop's files are imported one at a time, without --as, --only and --metric: they are monitoring data, not results";
        return Err(Refusal::bad_input(what));
    }
    Ok(())
}

fn bounded(input: impl Read, name: &str) -> Result<Vec<u8>, Refusal> {
    let mut bytes = Vec::new();
    let read = input.take(LONGEST_FILE + 1).read_to_end(&mut bytes);
    read.map_err(|why| Refusal::bad_input(format!("reading {name}: {why}")))?;
    match bytes.len() as u64 > LONGEST_FILE {
        true => Err(Refusal::bad_input(format!("{name}: longer than {} MiB; import a part of it", LONGEST_FILE >> 20))),
        false => Ok(bytes),
    }
}

/// What the options choose of a file.
fn chosen(mut imported: Imported, args: &ImportArgs, file: &str) -> Result<Imported, Refusal> {
    let have = |names: Vec<&str>| names.join(", ");
    let (benchmarks, metrics) =
        (have(imported.benchmarks()), have(imported.metrics().into_iter().map(|metric| metric.key.as_str()).collect()));
    if let Some(text) = &args.only {
        imported.measured.retain(|of| of.benchmark.contains(text));
        if imported.measured.is_empty() {
            return Err(Refusal::bad_input(format!(
                "{file}: no benchmark contains '{text}'; the file has {benchmarks}"
            )));
        }
    }
    if let Some(unknown) = args.metric.iter().find(|key| imported.measured.iter().all(|of| of.metric.key != **key)) {
        return Err(Refusal::bad_input(format!("{file}: no metric '{unknown}'; the file has {metrics}")));
    }
    imported.measured.retain(|of| args.metric.is_empty() || args.metric.contains(&of.metric.key));
    Ok(imported)
}

/// Stores one run for each file.
fn stored(context: &Context, args: &ImportArgs, found: &[(String, Imported)]) -> Result<(String, Exit), Refusal> {
    let store = context.open_store()?;
    let mut rows = Vec::new();
    for (file, imported) in found {
        let short = Path::new(file).file_name().map_or(file.as_str(), |name| name.to_str().unwrap_or(file));
        let id = store_run(&store, args.name.as_deref().unwrap_or(short), file, imported)?;
        rows.push((id, file, imported));
    }
    if context.json {
        let runs = rows.iter().map(|(id, file, imported)| {
            json!({
                "id": id.as_str(), "file": file, "format": imported.format, "program": imported.program,
                "benchmarks": imported.benchmarks(),
                "metrics": imported.metrics().iter().map(|metric| &metric.key).collect::<Vec<_>>(),
                "notes": imported.notes,
            })
        });
        let document = json!({ "name": args.name, "runs": runs.collect::<Vec<_>>() });
        return Ok((crate::json::document("baremark-import/1", document), Exit::Success));
    }
    let mut text = String::new();
    for (id, file, imported) in rows {
        let values: usize = imported.measured.iter().map(|of| of.values.len()).sum();
        let metrics: Vec<&str> = imported.metrics().into_iter().map(|metric| metric.key.as_str()).collect();
        let _ = writeln!(
            text,
            "run {id}: {file} ({}), values: {values}, metrics: {}",
            imported.program,
            metrics.join(", ")
        );
        for note in &imported.notes {
            let _ = writeln!(text, "    {note}");
        }
    }
    Ok((text, Exit::Success))
}

fn store_run(store: &Store, name: &str, file: &str, imported: &Imported) -> Result<RunId, Refusal> {
    let plan = plan::of(imported);
    let source = Source {
        name: format!("{STUDY_FILE}{name}"),
        bytes: format!("# Imported from {file} ({}).\n", imported.program).into_bytes(),
    };
    let mut machine = MachineFacts { hostname: imported.host.clone(), ..MachineFacts::default() };
    machine.cpu.logical_cpus = imported.cpus;
    let started =
        UnixTime(imported.unix_s.map_or_else(clock::unix_time_ns, |seconds| seconds.saturating_mul(1_000_000_000)));
    let (id, lock) = record::begin_elsewhere(store, &source, &plan, machine, started)?;
    let mut seq = 0;
    for (cell, of) in imported.measured.iter().enumerate() {
        for (block, value) in (0..).zip(&of.values) {
            let spec = schedule::trial(&plan, block, cell);
            let result = plan::trial(&plan.arms[cell].arm, of, *value, imported, seq == 0);
            let entry = TrialEntry {
                block,
                cell,
                seq,
                spec: &spec,
                status: &TrialStatus::Ok,
                result: Some(&result),
                started,
                elapsed: Nanos(0),
                blocks_complete: imported.measured.iter().map(|of| of.values.len()).min().unwrap_or(0) as u64,
            };
            store.add_trial(&id, &entry).map_err(Refusal::failure)?;
            seq += 1;
        }
    }
    let reason = format!("imported from {file} ({})", imported.program);
    store.finish(&id, started, &reason).map_err(Refusal::failure)?;
    drop(lock);
    Ok(id)
}
