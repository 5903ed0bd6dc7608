//! `baremark bundle` and `baremark verify`: a run in one file for others, and whether a file of others is what it says.
//!
//! What a bundle prints is worked out from what it holds: names are removed first, then the result is computed. Verifying does the same
//! computation and compares. A bundle of a stranger may be made to harm: what the archive's reader has let pass is looked at for references that
//! lead nowhere before anything is computed.

use crate::context::{Context, descriptors_of};
use crate::exit::{Exit, Refusal};
use crate::record;
use baremark_bundle::{Bundle, Redactor, differences, pack, secrets_in, unpack};
use baremark_lab::analysis::{self, Run};
use baremark_lab::tally::Finished;
use baremark_model::document::{Document, LookRow};
use baremark_model::event::TrialStatus;
use baremark_model::imported::Imported;
use baremark_model::machine::MachineFacts;
use baremark_model::plan::{Cell, Plan};
use baremark_model::units::{Nanos, UnixTime};
use baremark_model::wire::{TrialResult, TrialSpec};
use baremark_report::{Color, Style, terminal};
use baremark_store::{RunId, Store, StoredRun};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fs::File;
use std::io::Read;
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};

/// Longest file that is read; the archive's reader has a limit of its own.
const LONGEST: u64 = 512 << 20;
/// Most trials times pairs or arms of a bundle: what would be computed from them ends within seconds.
const MOST_WORK: usize = 50_000_000;
/// How the report is printed in a bundle.
const PLAIN: Style = Style { width: 100, color: Color::Never, unicode: true };

/// What to bundle and where to.
#[derive(clap::Args)]
pub struct Arguments {
    /// The run; a unique beginning will do [default: the latest one]
    run: Option<String>,
    /// The file to write [default: baremark-RUN.tar.gz]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Keep names of hosts and users, addresses, paths and environment variables
    #[arg(long)]
    identify: bool,
}

/// A run without its trials, as a bundle has it.
#[derive(Serialize, Deserialize)]
struct Head {
    id: String,
    /// The version of baremark that measured.
    version: String,
    /// The version of baremark that made the bundle.
    bundled_by: String,
    /// Whether names, addresses, paths and environment variables were removed.
    redacted: bool,
    study_file: String,
    study_text: String,
    started: UnixTime,
    ended: Option<UnixTime>,
    stop_reason: Option<String>,
    machine: MachineFacts,
    plan: Plan,
    looks: Vec<LookRow>,
    imported: Vec<Imported>,
}

/// A trial, as a bundle has it.
#[derive(Serialize, Deserialize)]
struct Trial {
    block: u64,
    cell: usize,
    place: u64,
    #[serde(flatten)]
    status: TrialStatus,
    elapsed: Nanos,
    spec: TrialSpec,
    result: Option<TrialResult>,
}

/// Writes a run as a bundle; the name of its file is printed.
pub fn bundle(context: &Context, arguments: &Arguments) -> Result<(String, Exit), Refusal> {
    let store = record::open_existing(context)?;
    let id = record::find(&store, arguments.run.as_deref())?;
    let packed = pack(&of_run(&store, &id, arguments.identify)?).map_err(Refusal::failure)?;
    let file = arguments.output.clone().unwrap_or_else(|| PathBuf::from(format!("baremark-{id}.tar.gz")));
    std::fs::write(&file, &packed).map_err(|why| Refusal::failure(format!("writing {}: {why}", file.display())))?;
    let text = match context.json {
        true => format!("{}\n", serde_json::json!({ "run": id.to_string(), "file": file, "bytes": packed.len() })),
        false => format!("{}\n", file.display()),
    };
    Ok((text, Exit::Success))
}

fn of_run(store: &Store, id: &RunId, identify: bool) -> Result<Bundle, Refusal> {
    let stored = store.load_intact(id).map_err(Refusal::failure)?;
    let (head, trials) = parts(stored, identify);
    let (head, trials) = if identify { (head, trials) } else { redacted(&head, &trials)? };
    let written =
        |what: &str, json: serde_json::Result<Vec<u8>>| json.map_err(|why| Refusal::failure(format!("{what}: {why}")));
    let (run, all) = (written("run", serde_json::to_vec(&head))?, written("trials", serde_json::to_vec(&trials))?);
    let document = computed(run_of(head, trials))?;
    let result = written("result", serde_json::to_vec(&document))?;
    Ok(Bundle { run, trials: all, result, report: terminal::render(&document, &PLAIN).into_bytes() })
}

fn parts(stored: StoredRun, identify: bool) -> (Head, Vec<Trial>) {
    let trials = stored.trials.into_iter().map(|trial| Trial {
        block: trial.block,
        cell: trial.cell,
        place: trial.seq,
        status: trial.status,
        elapsed: trial.elapsed,
        spec: trial.spec,
        result: trial.result,
    });
    let trials = trials.collect();
    let head = Head {
        id: stored.id.to_string(),
        version: stored.version,
        bundled_by: env!("CARGO_PKG_VERSION").to_owned(),
        redacted: !identify,
        study_file: stored.study_file,
        study_text: stored.study_text,
        started: stored.started,
        ended: stored.ended,
        stop_reason: stored.stop_reason,
        machine: stored.machine,
        plan: stored.plan,
        looks: stored.looks,
        imported: stored.imported,
    };
    (head, trials)
}

/// The same without what identifies a machine and its user.
fn redacted(head: &Head, trials: &[Trial]) -> Result<(Head, Vec<Trial>), Refusal> {
    let odd = |why: serde_json::Error| {
        Refusal::failure(format!("removing names: {why}; --identify bundles the run as it is stored"))
    };
    let mut run = serde_json::to_value(head).map_err(odd)?;
    let mut all = serde_json::to_value(trials).map_err(odd)?;
    let mut secrets = secrets_in(&run);
    let environment = ["USER", "LOGNAME", "HOSTNAME"].map(|name| std::env::var(name).ok());
    let home = std::env::var("HOME").ok();
    let account = home.as_deref().and_then(|home| home.rsplit('/').next()).map(str::to_owned);
    secrets.extend(environment.into_iter().flatten().chain(account));
    secrets.extend(baremark_sys::machine::this().hostname);
    let mut redactor = Redactor::new(&secrets);
    let study = redactor.study(&head.study_text);
    // A folder is of this machine; the file's name says which study it was.
    let file = head.study_file.rsplit('/').next().map(|name| redactor.text(name));
    redactor.value(&mut run);
    redactor.value(&mut all);
    run["study_text"] = Value::String(study);
    run["study_file"] = Value::String(file.unwrap_or_default());
    Ok((serde_json::from_value(run).map_err(odd)?, serde_json::from_value(all).map_err(odd)?))
}

fn run_of(head: Head, trials: Vec<Trial>) -> Run {
    let finished = |trial: Trial| Finished {
        block: trial.block,
        cell: trial.cell,
        place: trial.place,
        spec: trial.spec,
        status: trial.status,
        result: trial.result,
        elapsed_ns: trial.elapsed.0,
    };
    Run {
        id: head.id,
        file: head.study_file,
        plan: head.plan,
        machine: head.machine,
        version: head.version,
        started: head.started,
        ended: head.ended,
        stop_reason: head.stop_reason,
        trials: trials.into_iter().map(finished).collect(),
        looks: head.looks,
        imported: head.imported,
        notes: Vec::new(),
    }
}

/// The document of a run. Predictions are not part of it: they come from this machine's calibration, which a bundle has not.
fn computed(run: Run) -> Result<Document, Refusal> {
    let descriptors = descriptors_of(&run)?;
    Ok(analysis::document(&run, &descriptors))
}

/// Computes a bundle's numbers again and compares them with those that it holds.
pub fn verify(context: &Context, file: &Path) -> Result<(String, Exit), Refusal> {
    Ok(told(context, &verified(file)?))
}

/// What a bundle holds, computed here, and where what it prints differs.
pub fn verified(file: &Path) -> Result<Verified, Refusal> {
    let name = file.display();
    let bad = |why: String| Refusal::bad_input(format!("{name}: {why}"));
    let packed = read(file).map_err(|why| bad(why.to_string()))?;
    let bundle = unpack(&packed).map_err(|why| bad(why.to_string()))?;
    drop(packed);
    let parsed =
        |what: &str, why: serde_json::Error| bad(format!("{what}: {why}; the bundle is damaged or of another version"));
    let head: Head = serde_json::from_slice(&bundle.run).map_err(|why| parsed("run.json", why))?;
    let trials: Vec<Trial> = serde_json::from_slice(&bundle.trials).map_err(|why| parsed("trials.json", why))?;
    let printed: Value = serde_json::from_slice(&bundle.result).map_err(|why| parsed("result.json", why))?;
    let is_name =
        |text: &str| text.len() <= 64 && text.bytes().all(|b| b.is_ascii_alphanumeric() || b".-+".contains(&b));
    if !is_name(&head.id) || !is_name(&head.bundled_by) {
        return Err(bad("run.json: the name of the run or a version is not one; the bundle is damaged".to_owned()));
    }
    fits(&head.plan, &trials).map_err(|why| bad(format!("{why}; the bundle is damaged")))?;
    let (id, count, version) = (head.id.clone(), trials.len(), head.bundled_by.clone());
    let document = quietly(|| computed(run_of(head, trials)))
        .ok_or_else(|| bad("its trials do not fit its plan; the bundle is damaged".to_owned()))??;
    let expected = serde_json::to_value(&document).map_err(Refusal::failure)?;
    let mut found = differences(&expected, &printed);
    let report = quietly(|| terminal::render(&document, &PLAIN)).unwrap_or_default();
    if found.is_empty() && report.as_bytes() != bundle.report {
        found.push("report.txt: another report follows from the trials".to_owned());
    }
    Ok(Verified { id, count, version, document, found })
}

/// What verifying found.
pub struct Verified {
    id: String,
    count: usize,
    version: String,
    /// What follows from the trials.
    pub document: Document,
    /// Where the bundle says otherwise.
    pub found: Vec<String>,
}

fn told(context: &Context, verified: &Verified) -> (String, Exit) {
    let Verified { id, count, version, document, found } = verified;
    let exit = if found.is_empty() { Exit::Success } else { Exit::Regression };
    let (ratios, estimates) = (document.ratios.len(), document.estimates.len());
    if context.json {
        let value = serde_json::json!({
            "run": id, "verified": found.is_empty(), "trials": count, "ratios": ratios, "estimates": estimates,
            "bundled_by": version, "differences": found,
        });
        return (format!("{value:#}\n"), exit);
    }
    if found.is_empty() {
        let text = format!(
            "verified: run {id}: {estimates} estimates and {ratios} ratios follow from its {count} trials\n\
             This shows that the numbers follow from the trials, not who measured them.\n"
        );
        return (baremark_report::printable(&text, Color::Never).into_owned(), exit);
    }
    let own = env!("CARGO_PKG_VERSION");
    let other =
        if version == own { String::new() } else { format!(" (bundled by version {version}, verified by {own})") };
    let lines: String = found.iter().map(|what| format!("  {what}\n")).collect();
    let text = format!("NOT verified: run {id}{other}\n{lines}");
    (baremark_report::printable(&text, Color::Never).into_owned(), exit)
}

fn read(file: &Path) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(file)?.take(LONGEST).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Whether every reference in a plan and its trials leads somewhere, and computing ends soon.
fn fits(plan: &Plan, trials: &[Trial]) -> Result<(), String> {
    let (arms, pairs, cells) = (plan.arms.len(), plan.pairs.len(), plan.cells.len());
    if (arms.max(pairs).max(cells)).saturating_mul(trials.len().max(1)) > MOST_WORK {
        return Err(format!("{arms} arms, {pairs} pairs and {} trials are more than any run has", trials.len()));
    }
    if plan.pairs.iter().any(|pair| pair.numerator >= arms || pair.denominator >= arms) {
        return Err("run.json: a pair names an arm that does not exist".to_owned());
    }
    let known = |cell: &Cell| match *cell {
        Cell::Pair(pair) => pair < pairs,
        Cell::Single(arm) => arm < arms,
    };
    if !plan.cells.iter().all(known) {
        return Err("run.json: a cell names an arm or pair that does not exist".to_owned());
    }
    let of = |trial: &Trial| -> bool {
        let Some(&cell) = plan.cells.get(trial.cell) else { return false };
        let most = plan.arms_of(cell).len();
        let result = trial.result.as_ref();
        trial.spec.schedule.iter().all(|&arm| arm < most)
            && result
                .is_none_or(|result| result.arms.len() <= most && result.series.iter().all(|phase| phase.arm < most))
    };
    match trials.iter().position(|trial| !of(trial)) {
        Some(index) => Err(format!("trials.json: trial {index} names a cell or arm that does not exist")),
        None => Ok(()),
    }
}

/// What `work` gives; `None` where a stranger's numbers made it panic, of which nothing is printed.
fn quietly<T>(work: impl FnOnce() -> T) -> Option<T> {
    let usual = panic::take_hook();
    panic::set_hook(Box::new(|_| {}));
    let done = panic::catch_unwind(AssertUnwindSafe(work));
    panic::set_hook(usual);
    done.ok()
}
