//! `baremark bundle`: a run in one file for others.
//!
//! What a bundle prints is worked out from what it holds: names are removed first, then the result is computed. Verifying does the same
//! computation and compares.

use crate::context::{Context, descriptors_of};
use crate::exit::{Exit, Refusal};
use crate::record;
use baremark_bundle::{Bundle, REDERIVE, Redactor, check, pack, secrets_in, sign};
use baremark_lab::analysis::{self, Run};
use baremark_lab::tally::{Finished, Percentiles};
use baremark_model::document::{Document, LookRow};
use baremark_model::event::TrialStatus;
use baremark_model::imported::Imported;
use baremark_model::machine::MachineFacts;
use baremark_model::plan::Plan;
use baremark_model::second_look::SecondLook;
use baremark_model::units::{Nanos, UnixTime};
use baremark_model::wire::{TrialResult, TrialSpec};
use baremark_report::{Color, Style, terminal};
use baremark_store::{RunId, Store, StoredRun};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// Shown by `--help`.
pub const EXAMPLES: &str = "\
Examples:
  baremark bundle 7f3a -o run.tar.gz
  baremark bundle 7f3a --identify       # names of hosts and paths stay
  baremark bundle 7f3a --sign id_ed25519";

/// How the report is printed in a bundle.
pub(super) const PLAIN: Style = Style { width: 100, color: Color::Never, unicode: true };

/// What to bundle and where to.
#[derive(clap::Args)]
pub struct Arguments {
    /// Run ID or unique prefix [default: the latest one]
    run: Option<String>,
    /// The file to write [default: baremark-RUN.tar.gz]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Keep names of hosts and users, addresses, paths and environment variables
    #[arg(long)]
    identify: bool,
    /// Sign with this SSH key; a public key, or one with a passphrase, through the agent (SSH_AUTH_SOCK)
    #[arg(long, value_name = "KEY")]
    sign: Option<PathBuf>,
}

/// A run without its trials, as a bundle has it.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Head {
    pub(super) id: String,
    /// The version of baremark that measured.
    pub(super) version: String,
    /// The version of baremark that made the bundle.
    pub(super) bundled_by: String,
    /// Whether names, addresses, paths and environment variables were removed.
    pub(super) redacted: bool,
    pub(super) study_file: String,
    pub(super) study_text: String,
    pub(super) started: UnixTime,
    pub(super) ended: Option<UnixTime>,
    pub(super) stop_reason: Option<String>,
    pub(super) machine: MachineFacts,
    pub(super) plan: Plan,
    pub(super) looks: Vec<LookRow>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) examined: Option<SecondLook>,
    pub(super) imported: Vec<Imported>,
}

/// A trial, as a bundle has it.
#[derive(Serialize, Deserialize)]
pub(super) struct Trial {
    pub(super) block: u64,
    pub(super) cell: usize,
    pub(super) place: u64,
    #[serde(flatten)]
    pub(super) status: TrialStatus,
    pub(super) elapsed: Nanos,
    pub(super) spec: TrialSpec,
    pub(super) result: Option<TrialResult>,
}

/// Writes a run as a bundle; the name of its file is printed.
pub fn bundle(context: &Context, arguments: &Arguments) -> Result<(String, Exit), Refusal> {
    let store = record::open_existing(context)?;
    let id = record::find(&store, arguments.run.as_deref())?;
    let mut bundle = of_run(&store, &id, arguments.identify)?;
    let signer = arguments.sign.as_ref().map(|key| signed(&mut bundle, key)).transpose()?;
    let packed = pack(&bundle).map_err(Refusal::failure)?;
    let file = arguments.output.clone().unwrap_or_else(|| PathBuf::from(format!("baremark-{id}.tar.gz")));
    std::fs::write(&file, &packed).map_err(|why| Refusal::failure(format!("writing {}: {why}", file.display())))?;
    let text = match context.json {
        true => crate::json::document(
            "baremark-bundle-file/1",
            serde_json::json!({
                "run": id.to_string(), "file": file, "bytes": packed.len(), "redacted": !arguments.identify, "signed_by": signer,
            }),
        ),
        false => {
            let signed = signer.map(|key| format!(": signed by {key}")).unwrap_or_default();
            format!("{}{signed}\n", file.display())
        }
    };
    Ok((text, Exit::Success))
}

/// Signs a bundle; type and fingerprint of the key.
fn signed(bundle: &mut Bundle, key: &Path) -> Result<String, Refusal> {
    let agent = std::env::var_os("SSH_AUTH_SOCK").filter(|socket| !socket.is_empty()).map(PathBuf::from);
    let manifest = bundle.manifest().map_err(Refusal::failure)?;
    let signature = sign(&manifest, key, agent.as_deref()).map_err(|why| Refusal::bad_input(why.to_string()))?;
    let by = check(&signature, &manifest).map_err(Refusal::failure)?.name;
    bundle.signature = Some(signature);
    Ok(by)
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
    let script = REDERIVE.as_bytes().to_vec();
    let report = terminal::render(&document, &PLAIN).into_bytes();
    Ok(Bundle { script, run, trials: all, result, report, signature: None })
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
        examined: stored.examined,
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
    // What a run is continued with is of no use to others, and limits that a user typed are texts.
    if let Some(plan) = run["plan"].as_object_mut() {
        plan.retain(|key, _| !["search", "injected"].contains(&key.as_str()));
    }
    let mut all = serde_json::to_value(trials).map_err(odd)?;
    let mut secrets = secrets_in(&run);
    let environment = ["USER", "LOGNAME", "HOSTNAME"].map(|name| std::env::var(name).ok());
    let home = std::env::var("HOME").ok();
    let account = home.as_deref().and_then(|home| home.rsplit('/').next()).map(str::to_owned);
    secrets.extend(environment.into_iter().flatten().chain(account));
    secrets.extend(baremark_sys::machine::this().hostname);
    let mut redactor = Redactor::new(&secrets);
    redactor.value(&mut run);
    redactor.value(&mut all);
    // A study's strings are those of its plan, which are known by now.
    let study = redactor.study(&head.study_text);
    // A folder is of this machine; the file's name says which study it was.
    let file = head.study_file.rsplit('/').next().map(|name| redactor.text(name));
    run["study_text"] = Value::String(study);
    run["study_file"] = Value::String(file.unwrap_or_default());
    Ok((serde_json::from_value(run).map_err(odd)?, serde_json::from_value(all).map_err(odd)?))
}

pub(super) fn run_of(head: Head, trials: Vec<Trial>) -> Run {
    let finished = |trial: Trial| Finished {
        block: trial.block,
        cell: trial.cell,
        place: trial.place,
        spec: trial.spec,
        status: trial.status,
        result: trial.result,
        elapsed_ns: trial.elapsed.0,
        percentiles: Percentiles::default(),
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
        examined: head.examined,
        imported: head.imported,
        notes: Vec::new(),
    }
}

/// The document of a run. Predictions are not part of it: they come from this machine's calibration, which a bundle has not.
pub(super) fn computed(run: Run) -> Result<Document, Refusal> {
    let descriptors = descriptors_of(&run)?;
    Ok(analysis::document(&run, &descriptors))
}
