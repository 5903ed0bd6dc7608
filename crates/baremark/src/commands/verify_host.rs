//! `baremark verify-host`: which parts of baremark work on this machine, each tried by a short study of its own.
//!
//! A part is one study in the folder of this module and one line of [`PARTS`]. Each is run as a user would run it, by this program in a
//! process of its own and with a store of its own, so that a part that hangs or dies costs its own rows alone.

use crate::changes;
use crate::context::{Context, limits};
use crate::data;
use crate::exit::{Exit, Refusal};
use crate::json::document as document_of;
use crate::watch;
use baremark_host::{Feature, Host, HostError, Tried};
use baremark_model::document::{Document, EstimateRow};
use baremark_model::environments;
use baremark_model::plan::Treatment;
use baremark_programs::verified;
use baremark_report::beside;
use baremark_sys::confine::{self, Limits, SIGKILL, SIGTERM};
use baremark_sys::ending;
use baremark_sys::private_folder::PrivateFolder;
use serde::Serialize;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Shown by `--help`.
pub const EXAMPLES: &str = "\
Examples:
  baremark verify-host
  baremark verify-host --only disks";

/// How long a part that was asked to end has for removing what it made.
const GRACE: Duration = Duration::from_secs(20);

/// A part of baremark that a machine may lack.
struct Part {
    /// The name, for rows and for `--only`.
    name: &'static str,
    /// A study that runs nowhere without it. `{host}` is replaced by the machine that `--ssh` names.
    study: &'static str,
    /// Longest time, in seconds: several times what it takes where everything is emulated.
    limit_s: u64,
}

/// Every part, in the order in which they are tried.
const PARTS: &[Part] = &[
    Part { name: "kernels", study: include_str!("verify_host/kernels.toml"), limit_s: 60 },
    Part { name: "microvm", study: include_str!("verify_host/microvm.toml"), limit_s: 60 },
    Part { name: "exits", study: include_str!("verify_host/exits.toml"), limit_s: 60 },
    Part { name: "programs", study: include_str!("verify_host/programs.toml"), limit_s: 60 },
    Part { name: "sandbox", study: include_str!("verify_host/sandbox.toml"), limit_s: 60 },
    Part { name: "containers", study: include_str!("verify_host/containers.toml"), limit_s: 120 },
    Part { name: "guests", study: include_str!("verify_host/guests.toml"), limit_s: 240 },
    Part { name: "ssh", study: include_str!("verify_host/ssh.toml"), limit_s: 120 },
    Part { name: "clusters", study: include_str!("verify_host/clusters.toml"), limit_s: 120 },
    Part { name: "disks", study: include_str!("verify_host/disks.toml"), limit_s: 60 },
    Part { name: "networks", study: include_str!("verify_host/networks.toml"), limit_s: 60 },
    Part { name: "databases", study: include_str!("verify_host/databases.toml"), limit_s: 120 },
    Part { name: "application", study: include_str!("verify_host/application.toml"), limit_s: 120 },
];

/// Which parts are tried.
#[derive(clap::Args)]
pub struct Arguments {
    /// Try this part alone (repeat for several)
    #[arg(long, value_name = "PART", value_parser = names())]
    only: Vec<String>,
    /// Another machine for the part ssh, as in [environments.ssh]
    #[arg(long, value_name = "HOST", value_parser = host)]
    ssh: Option<String>,
    /// Try the host's features, too: set each to another level, read it back and undo it
    #[arg(long)]
    allow_host_changes: bool,
    /// Instead: note what `make verify-kvm` has found, by which results are labelled: passed or failed
    #[arg(long, value_name = "RESULT", hide = true, value_parser = ["passed", "failed"])]
    kvm: Option<String>,
}

fn names() -> clap::builder::PossibleValuesParser {
    PARTS.iter().map(|part| part.name).collect::<Vec<_>>().into()
}

/// A name that can be written into a study.
fn host(text: &str) -> Result<String, String> {
    let plain = |of: char| of.is_ascii_alphanumeric() || "@.:-_[]".contains(of);
    match !text.is_empty() && text.chars().all(plain) {
        true => Ok(text.to_owned()),
        false => Err("not the name of a machine; write HOST or USER@HOST".to_owned()),
    }
}

/// What became of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Outcome {
    /// It was measured.
    Works,
    /// It is here, and was not tried.
    Untried,
    /// The machine lacks something for it.
    NotAvailable,
    /// It should work, and does not.
    Failed,
}

impl Outcome {
    fn words(self) -> &'static str {
        match self {
            Outcome::Works => "works",
            Outcome::Untried => "untried",
            Outcome::NotAvailable => "not available",
            Outcome::Failed => "FAILED",
        }
    }
}

/// One thing that was tried.
#[derive(Debug, Serialize)]
struct Row {
    part: &'static str,
    /// What distinguishes it within the part; empty where the part is one thing.
    what: String,
    outcome: Outcome,
    /// What was measured, or why nothing was.
    detail: String,
}

/// Tries the parts and prints a row for each thing that was tried.
pub fn run(context: &Context, arguments: &Arguments) -> Result<(String, Exit), Refusal> {
    if let Some(result) = &arguments.kvm {
        verified::note(result == "passed").map_err(Refusal::failure)?;
        return Ok((String::new(), Exit::Success));
    }
    let wanted = |part: &&Part| arguments.only.is_empty() || arguments.only.iter().any(|name| name == part.name);
    let mut rows = Vec::new();
    for part in PARTS.iter().filter(wanted) {
        if !context.quiet {
            watch::say(format_args!("Trying {} (at most {} s)", part.name, part.limit_s));
        }
        rows.extend(tried(context, part, arguments.ssh.as_deref())?);
        if context.interrupt.load(Ordering::Relaxed) {
            return Ok((shown(context, &rows), Exit::Interrupted));
        }
    }
    if arguments.only.is_empty() {
        rows.extend(untried());
    }
    if arguments.allow_host_changes {
        rows.extend(features_tried()?);
    } else if arguments.only.is_empty() {
        rows.extend(features_untried()?);
    }
    let is = |outcome| rows.iter().any(|row| row.outcome == outcome);
    let exit = match (is(Outcome::Failed), is(Outcome::Works)) {
        (true, _) => Exit::Failure,
        (false, true) => Exit::Success,
        (false, false) => Exit::Missing,
    };
    Ok((shown(context, &rows), exit))
}

fn tried(context: &Context, part: &'static Part, ssh: Option<&str>) -> Result<Vec<Row>, Refusal> {
    let row = |outcome, detail| vec![Row { part: part.name, what: String::new(), outcome, detail }];
    let study = match (part.study.contains("{host}"), ssh) {
        (true, None) => return Ok(row(Outcome::Untried, "no machine is named; name one with --ssh HOST".to_owned())),
        (true, Some(host)) => part.study.replace("{host}", host),
        (false, _) => part.study.to_owned(),
    };
    let failed = |why: std::io::Error| Refusal::failure(format!("trying {}: {why}", part.name));
    let folder = PrivateFolder::create(&std::env::temp_dir(), "baremark-verify-host-").map_err(failed)?;
    let ended = run_study(context, folder.path(), &study, Duration::from_secs(part.limit_s)).map_err(failed)?;
    let said = fs::read_to_string(folder.path().join("said")).unwrap_or_default();
    let printed = fs::read(folder.path().join("printed")).unwrap_or_default();
    let Ok(document) = serde_json::from_slice::<Document>(&printed) else {
        let last = said.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("it printed nothing");
        return Ok(match ended {
            None => row(Outcome::Failed, format!("it had not ended after {} s", part.limit_s)),
            Some(status) if status.code() == Some(i32::from(Exit::Missing.code())) => {
                row(Outcome::NotAvailable, last.trim_start_matches("error: ").to_owned())
            }
            Some(status) => row(Outcome::Failed, format!("{status}: {last}")),
        });
    };
    Ok(rows_of(part.name, &document))
}

/// Runs the study with what it prints in two files of the folder; `None` when it had to be ended.
fn run_study(context: &Context, folder: &Path, study: &str, limit: Duration) -> std::io::Result<Option<ExitStatus>> {
    let (file, store) = (folder.join("study.toml"), folder.join("store.db"));
    fs::write(&file, study)?;
    let mut command = Command::new("/proc/self/exe");
    command.args(["run", "--quick", "--json", "--quiet", "--store"]).arg(store).arg(file);
    command.stdin(Stdio::null());
    command.stdout(File::create(folder.join("printed"))?).stderr(File::create(folder.join("said"))?);
    // What it has made is removed when it dies, however that comes.
    let _held = confine::hold(&mut command, &Limits::default(), SIGKILL)?;
    let mut child = command.spawn()?;
    let deadline = Instant::now() + limit;
    let is_over = || Instant::now() >= deadline || context.interrupt.load(Ordering::Relaxed);
    let status = ending::wait_until(&mut child, is_over)?;
    if status.is_none() {
        ending::end(&mut child, SIGTERM, GRACE);
    }
    Ok(status)
}

/// A row for each treatment: those that were measured, those that cannot be, and those of which every trial failed. What others are
/// compared with has none where it runs natively: that is the part `kernels`.
fn rows_of(part: &'static str, document: &Document) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut seen: Vec<&Treatment> = Vec::new();
    for estimate in &document.estimates {
        if !seen.contains(&&estimate.treatment) {
            seen.push(&estimate.treatment);
            if estimate.treatment.get(environments::FACTOR).is_some_and(|name| name == environments::NATIVE) {
                continue;
            }
            let (what, detail) = (named(&estimate.treatment), figure(document, estimate));
            rows.push(Row { part, what, outcome: Outcome::Works, detail });
        }
    }
    for absent in &document.absent {
        let (what, detail) = (named(&absent.treatment), absent.reason.clone());
        rows.push(Row { part, what, outcome: Outcome::NotAvailable, detail });
    }
    for trial in &document.trials {
        let Some(reason) = trial.status.reason() else { continue };
        for arm in trial.arms.iter().filter(|arm| !measured(document, &arm.treatment)) {
            if !seen.contains(&&arm.treatment) {
                seen.push(&arm.treatment);
                let what = named(&arm.treatment);
                rows.push(Row { part, what, outcome: Outcome::Failed, detail: reason.clone() });
            }
        }
    }
    let unseen = |key: &str, level: &String| {
        let has = |treatment: &Treatment| treatment.get(key) == Some(level);
        !seen.iter().any(|treatment| has(treatment)) && !document.absent.iter().any(|absent| has(&absent.treatment))
    };
    for (key, level) in
        document.run.factors.iter().flat_map(|(key, levels)| levels.iter().map(move |level| (key, level)))
    {
        if unseen(key, level) {
            let (what, detail) = (level.clone(), "no trial of it was reached within the time".to_owned());
            rows.push(Row { part, what, outcome: Outcome::Untried, detail });
        }
    }
    rows
}

fn measured(document: &Document, treatment: &Treatment) -> bool {
    document.estimates.iter().any(|estimate| estimate.treatment == *treatment)
}

/// The levels that distinguish a treatment, the environment first and by itself.
fn named(treatment: &Treatment) -> String {
    let levels = treatment.iter().filter(|(key, _)| *key != "ranks").map(|(key, level)| match key.as_str() {
        "environment" | "database" | "access" | "path" => level.clone(),
        key => format!("{key} {level}"),
    });
    levels.collect::<Vec<_>>().join(", ")
}

/// What was measured: the value, and of which part of the first level of what the study compares, where that was measured, too.
fn figure(document: &Document, estimate: &EstimateRow) -> String {
    let columns = &document.run.columns;
    let first = document.run.factors.iter().find(|(key, _)| key == columns).and_then(|(_, levels)| levels.first());
    let base = first.and_then(|first| {
        let mut base = estimate.treatment.clone();
        base.insert(columns.clone(), first.clone());
        let of = |row: &&EstimateRow| row.metric == estimate.metric && row.treatment == base && row.estimate > 0.0;
        document.estimates.iter().filter(|_| base != estimate.treatment).find(of)
    });
    let value = format!("{} {}", baremark_report::estimate(estimate.estimate, None, None), estimate.unit);
    match base {
        Some(base) => format!("{value}, {:.2} of {}", estimate.estimate / base.estimate, named(&base.treatment)),
        None => value,
    }
}

/// What is not tried on any machine, or not without being asked for.
fn untried() -> [Row; 2] {
    [
        Row {
            part: "mmu",
            what: baremark_microvm::mmu_virtualization().to_string(),
            outcome: Outcome::Untried,
            detail:
                "the only mode that was tried; the factor host.mmu changes it where KVM's module can be loaded again"
                    .to_owned(),
        },
        Row {
            part: "kubernetes",
            what: String::new(),
            outcome: Outcome::Untried,
            detail: "a study must name an image; see [environments.kubernetes] in `baremark list keys`".to_owned(),
        },
    ]
}

/// A feature of the host as reports call it.
fn short(feature: &Feature) -> &'static str {
    feature.key.trim_start_matches("host.")
}

/// The host's features that are not available, and how the others are tried.
fn features_untried() -> Result<Vec<Row>, Refusal> {
    let absent = limits(data::usual())?.absent;
    let (mut rows, mut settable) = (Vec::new(), Vec::new());
    for feature in baremark_host::FEATURES {
        match absent.get(feature.key) {
            Some(reason) => rows.push(of_host(feature, Outcome::NotAvailable, reason.clone())),
            None => settable.push(short(feature)),
        }
    }
    let detail = format!("--allow-host-changes tries them: {}", settable.join(", "));
    rows.push(Row { part: "host", what: format!("{} features", settable.len()), outcome: Outcome::Untried, detail });
    Ok(rows)
}

fn of_host(feature: &Feature, outcome: Outcome, detail: String) -> Row {
    Row { part: "host", what: short(feature).to_owned(), outcome, detail }
}

/// Each of the host's features, set and undone.
fn features_tried() -> Result<Vec<Row>, Refusal> {
    let mut rows = Vec::new();
    for feature in baremark_host::FEATURES {
        let journal = changes::journal().map_err(Refusal::failure)?;
        let (outcome, detail) = match baremark_host::tried(feature, journal, &Host::this(data::usual())) {
            Ok(Tried::Works(level)) => (Outcome::Works, format!("set to {level}, read back and undone")),
            Ok(Tried::Alone) => (Outcome::Untried, "it has one level only".to_owned()),
            Ok(Tried::NotUndone { path, found, before }) => {
                (Outcome::Failed, format!("{} is '{found}' and was '{before}'; set it by hand", path.display()))
            }
            Err(why @ HostError::Absent { .. }) => (Outcome::NotAvailable, reason(&why)),
            Err(why @ (HostError::InUse { .. } | HostError::ModuleInUse { .. })) => (Outcome::Untried, reason(&why)),
            Err(why) => (Outcome::Failed, reason(&why)),
        };
        rows.push(of_host(feature, outcome, detail));
    }
    Ok(rows)
}

/// Why, without the key that the row has already.
fn reason(why: &HostError) -> String {
    match why {
        HostError::Absent { source, .. } => source.to_string(),
        other => other.to_string(),
    }
}

fn shown(context: &Context, rows: &[Row]) -> String {
    if context.json {
        let machine = baremark_sys::machine::this();
        return document_of("baremark-verify-host/1", serde_json::json!({ "rows": rows, "machine": machine }));
    }
    let mut text = String::new();
    let style = watch::style();
    let mut part = "";
    for row in rows {
        if row.part != part {
            part = row.part;
            let _ = writeln!(text, "{part}");
        }
        let what = if row.what.is_empty() { part } else { &row.what };
        text.push_str(&beside(&format!("  {:<14} {what:<20} ", row.outcome.words()), &row.detail, &style));
    }
    let count = |outcome| rows.iter().filter(|row| row.outcome == outcome).count();
    let _ = writeln!(
        text,
        "\n{} work, {} failed, {} are not available here, {} were not tried.\nThe figures are of one or two blocks: they show that a part works, not how fast it is.",
        count(Outcome::Works),
        count(Outcome::Failed),
        count(Outcome::NotAvailable),
        count(Outcome::Untried)
    );
    text
}
