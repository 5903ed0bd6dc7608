//! `baremark import`: results of other programs as runs of the store, and monitoring data of other programs of a run.

mod esxtop;
mod plan;

use crate::context::Context;
use crate::exit::{Exit, Refusal};
use crate::record;
use crate::source::Source;
use crate::watch::say;
use baremark_bundle::Digest;
use baremark_import::{Column, FORMATS, ImportError, Imported, Measured, Options};
use baremark_lab::schedule;
use baremark_model::codes::Origin;
use baremark_model::event::TrialStatus;
use baremark_model::machine::MachineFacts;
use baremark_model::plan::Plan;
use baremark_model::units::{Nanos, UnixTime};
use baremark_store::{Batch, RunId, RunState, Store, TrialEntry};
use baremark_sys::private_folder::PrivateFolder;
use baremark_sys::{point, wall};
use clap::builder::PossibleValuesParser;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
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

/// Values that are stored at once: a fraction of a second, in which nobody else writes to the store.
const BATCH: usize = 5_000;
/// After so many values progress is shown.
const SHOWN: usize = 100_000;
/// Most values of all files of a command.
const MOST_VALUES: usize = 2 * baremark_import::MOST_VALUES;

/// Why an imported run that did not come to its end is not compared.
pub const INCOMPLETE: &str = "its import did not come to an end, and values are missing; import the file again";

/// The command's arguments.
#[derive(clap::Args)]
pub struct ImportArgs {
    /// Files of results, each of which becomes a run; - for standard input
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Format of the files [default: what is recognised in each]
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

/// Imports.
pub fn run(context: &Context, args: &ImportArgs) -> Result<(String, Exit), Refusal> {
    let mut found: Vec<(String, Imported)> = Vec::new();
    let mut seen: BTreeMap<String, String> = BTreeMap::new();
    for path in &args.files {
        let name = path.display().to_string();
        let mut input = open(path)?;
        let head = esxtop::head(&mut input).map_err(|why| Refusal::bad_input(format!("reading {name}: {why}")))?;
        let named = args.format.as_deref();
        if named == Some(esxtop::NAME) || (named.is_none() && args.columns.is_empty() && esxtop::recognises(&head)) {
            only_one(args)?;
            return esxtop::run(context, &args.monitoring, &name, head.chain(input));
        }
        let mut input = Digesting { from: head.chain(input), digest: Digest::default() };
        let now_unix_s = wall::unix_time_ns() / 1_000_000_000;
        let options = Options { format: named, columns: &args.columns, now_unix_s };
        let imported = baremark_import::read(&mut input, &options);
        let imported = imported.map_err(|why| Refusal::bad_input(format!("{name}: {why}")))?;
        if let Some(same) = seen.insert(input.digest.hex(), name.clone()) {
            return Err(Refusal::bad_input(format!(
                "{name}: the same as {same}; a run counts once, name each file once"
            )));
        }
        let chosen = chosen(imported, args, &name)?;
        found.push((name, chosen));
        if found.iter().map(|(_, imported)| values_of(imported)).sum::<usize>() > MOST_VALUES {
            return Err(Refusal::bad_input(format!(
                "the files have more than {MOST_VALUES} values; import some at a time"
            )));
        }
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

/// A file whose digest is made while it is read.
struct Digesting<R> {
    from: R,
    digest: Digest,
}

impl<R: Read> Read for Digesting<R> {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let count = self.from.read(into)?;
        self.digest.add(&into[..count]);
        Ok(count)
    }
}

/// Values of a file.
pub fn values_of(imported: &Imported) -> usize {
    imported.measured.iter().map(|of| of.values.len()).sum()
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

/// Warns of runs that already have one of these names: compare and check take them as well.
fn named_before(store: &Store, names: &BTreeSet<String>) {
    // Of a list that is damaged the rest is enough.
    let runs = store.list().map_or_else(|_| Vec::new(), |list| list.runs);
    let whole = || runs.iter().filter(|run| run.state == RunState::Finished);
    for name in names {
        let count = whole().filter(|run| Origin::of(&run.study_file).import() == Some(name.as_str())).count();
        if count > 0 {
            say(format_args!(
                "warning: {name}: {} imported under this name before; compare and check take all of them, and a file \
                 that is among them twice",
                counted(count)
            ));
        }
    }
}

/// `a run was`, `3 runs were`.
pub fn counted(runs: usize) -> String {
    if runs == 1 { "a run was".to_owned() } else { format!("{runs} runs were") }
}

/// Stores one run for each file.
fn stored(context: &Context, args: &ImportArgs, found: &[(String, Imported)]) -> Result<(String, Exit), Refusal> {
    let store = context.open_store()?;
    let name_of = |file: &'_ String| -> String {
        let short = Path::new(file).file_name().and_then(|name| name.to_str()).unwrap_or(file);
        args.name.as_deref().unwrap_or(short).to_owned()
    };
    named_before(&store, &found.iter().map(|(file, _)| name_of(file)).collect());
    let mut rows = Vec::new();
    for (file, imported) in found {
        let id = store_run(context, &store, &name_of(file), file, imported)?;
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
        let values = values_of(imported);
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

/// A store of one run that is gone when this is dropped.
pub struct Apart {
    pub store: Store,
    pub id: RunId,
    _folder: PrivateFolder,
}

/// Why a file is not read for a store of its own.
pub enum NotApart {
    /// No program's format is recognised.
    Unknown,
    /// It does not hold what its format says, or too much.
    Damaged(String),
}

/// What another program wrote, of so many values at most, for a store of its own ([`apart`]).
pub fn read_apart(mut from: impl Read, most_values: usize) -> Result<Imported, NotApart> {
    let options = Options { format: None, columns: &[], now_unix_s: wall::unix_time_ns() / 1_000_000_000 };
    let imported = baremark_import::read(&mut from, &options).map_err(|why| match why {
        ImportError::Unknown => NotApart::Unknown,
        why => NotApart::Damaged(why.to_string()),
    })?;
    let values = values_of(&imported);
    if values > most_values {
        let what = format!("{values} values, more than the {most_values} that the files of a side may still have");
        let remedy = "import it with `baremark import` and --only or --metric, and name its run";
        return Err(NotApart::Damaged(format!("{what}; {remedy}")));
    }
    Ok(imported)
}

/// Imports what another program wrote to `path` into a store of its own.
pub fn apart(context: &Context, path: &Path, imported: &Imported) -> Result<Apart, Refusal> {
    let folder = PrivateFolder::create(&std::env::temp_dir(), "baremark-import-").map_err(Refusal::failure)?;
    let store = Store::open(folder.path().join("baremark.db")).map_err(Refusal::failure)?;
    let file = path.display().to_string();
    let short = path.file_name().map_or(file.as_str(), |name| name.to_str().unwrap_or(&file));
    let id = store_run(context, &store, short, &file, imported)?;
    Ok(Apart { store, id, _folder: folder })
}

fn store_run(context: &Context, store: &Store, name: &str, file: &str, imported: &Imported) -> Result<RunId, Refusal> {
    let plan = plan::of(imported);
    let text = format!("# Imported from {file} ({}).\n", imported.program);
    let source = Source::new(format!("{}{name}", Origin::IMPORT), text.into_bytes());
    let mut machine = MachineFacts { hostname: imported.host.clone(), ..MachineFacts::default() };
    machine.cpu.logical_cpus = imported.cpus;
    let started =
        UnixTime(imported.unix_s.map_or_else(wall::unix_time_ns, |seconds| seconds.saturating_mul(1_000_000_000)));
    let (id, lock) = record::begin_elsewhere(store, &source, &plan, machine, started)?;
    point::reached("import-begun");
    add_values(context, store, &id, &Import { plan: &plan, imported, started })?;
    let reason = format!("imported from {file} ({})", imported.program);
    store.finish(&id, started, &reason).map_err(Refusal::failure)?;
    drop(lock);
    Ok(id)
}

/// What is stored of a file.
struct Import<'i> {
    plan: &'i Plan,
    imported: &'i Imported,
    started: UnixTime,
}

/// Stores the values, each as a trial. A run whose import is killed has no end, and is not compared.
fn add_values(context: &Context, store: &Store, id: &RunId, import: &Import<'_>) -> Result<(), Refusal> {
    let measured = &import.imported.measured;
    let total = values_of(import.imported);
    let blocks_complete = measured.iter().map(|of| of.values.len()).min().unwrap_or(0) as u64;
    let of_cell =
        |(cell, of): (usize, &'_ Measured)| (0_u64..).zip(0..of.values.len()).map(move |(block, at)| (cell, block, at));
    let mut values = (0..).zip(measured.iter().enumerate().flat_map(of_cell));
    let mut stored = 0;
    while stored < total {
        let add = |batch: &mut Batch<'_>| {
            values.by_ref().take(BATCH).try_for_each(|(seq, (cell, block, at))| {
                let of = &measured[cell];
                let spec = schedule::trial(import.plan, block, cell);
                let result = plan::trial(&import.plan.arms[cell].arm, of, of.values[at], import.imported, seq == 0);
                batch.add_trial(&TrialEntry {
                    block,
                    cell,
                    seq,
                    spec: &spec,
                    status: &TrialStatus::Ok,
                    result: Some(&result),
                    started: import.started,
                    elapsed: Nanos(0),
                    blocks_complete,
                })
            })
        };
        store.batch(id, add).map_err(Refusal::failure)?;
        point::reached("import-stored");
        stored = total.min(stored + BATCH);
        if stored.is_multiple_of(SHOWN) && stored < total && !context.quiet {
            say(format_args!("{stored} of {total} values are stored"));
        }
    }
    Ok(())
}
