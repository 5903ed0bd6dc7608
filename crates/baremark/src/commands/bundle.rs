//! `baremark bundle`: a run in one file for others.
//!
//! What a bundle prints is worked out from what it holds: names are removed first, then the result is computed. Verifying does the same
//! computation and compares.

use crate::bundled::{Head, Trial, parts, run_of};
use crate::context::{Context, descriptors_of};
use crate::exit::{Exit, Refusal};
use crate::record;
use baremark_bundle::{Bundle, REDERIVE, Redactor, check, pack, secrets_in, sign};
use baremark_lab::analysis::{self, Run};
use baremark_model::document::Document;
use baremark_report::{Color, Style, terminal};
use baremark_store::{RunId, Store};
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
                "run": id.to_string(), "file": file.display().to_string(), "bytes": packed.len(), "redacted": !arguments.identify, "signed_by": signer,
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

/// The same without what identifies a machine and its user.
fn redacted(head: &Head, trials: &[Trial]) -> Result<(Head, Vec<Trial>), Refusal> {
    let odd = |why: serde_json::Error| {
        Refusal::failure(format!("removing names: {why}; --identify bundles the run as it is stored"))
    };
    let mut run = serde_json::to_value(head).map_err(odd)?;
    // What a run is continued with is of no use to others, and limits that a user typed are texts.
    if let Some(plan) = run["plan"].as_object_mut() {
        plan.retain(|key, _| !["search", "load", "injected"].contains(&key.as_str()));
    }
    let mut all = serde_json::to_value(trials).map_err(odd)?;
    let mut secrets = secrets_in(&run);
    let environment = ["USER", "LOGNAME", "HOSTNAME"].map(|name| std::env::var(name).ok());
    let home = std::env::var("HOME").ok();
    let account = home.as_deref().and_then(|home| home.rsplit('/').next()).map(str::to_owned);
    secrets.extend(environment.into_iter().flatten().chain(account));
    secrets.extend(baremark_sys::machine::at_once().hostname);
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

/// The document of a run. Predictions are not part of it: they come from this machine's calibration, which a bundle has not.
pub(super) fn computed(run: Run) -> Result<Document, Refusal> {
    let descriptors = descriptors_of(&run)?;
    Ok(analysis::document(&run, &descriptors))
}
