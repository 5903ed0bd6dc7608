//! `baremark verify`: whether a bundle of others is what it says.
//!
//! The result is computed again from the trials, the trials' requests from the plan, the plan from the study's text; what differs is
//! named, and what nothing can be compared with is said to be the sender's statement. A bundle may be made to harm: sizes and the memory
//! of values are limited before anything is read, and references are followed only after it is known that they lead somewhere.

mod derived;
mod signer;

use crate::bundled::{Head, Trial, run_of};
use crate::commands::bundle::{PLAIN, computed};
use crate::context::Context;
use crate::exit::{Exit, Refusal};
use baremark_bundle::{Bundle, MOST_COMPRESSED, REDERIVE, differences, unpack};
use baremark_model::document::Document;
use baremark_model::plan::{Cell, Plan};
use baremark_model::wire::Series;
use baremark_report::{Color, terminal};
use derived::{Derived, requests, study};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use signer::Signer;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufReader, Write};
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};

/// Shown by `--help`.
pub const EXAMPLES: &str = "\
Examples:
  baremark verify run.tar.gz
  baremark verify run.tar.gz --allowed-signers allowed_signers";

/// What to verify.
#[derive(clap::Args)]
pub struct Arguments {
    /// The bundle
    bundle: PathBuf,
    /// Demand a signature by one of these keys, in the format of `ssh-keygen -Y verify`
    #[arg(long, value_name = "FILE")]
    allowed_signers: Option<PathBuf>,
}

/// What the values of the run, of its trials and of its result may take in memory.
const RUN_MEMORY: u64 = 32 << 20;
const TRIALS_MEMORY: u64 = 128 << 20;
const RESULT_MEMORY: u64 = 64 << 20;
/// Most trials times pairs or arms of a bundle: what would be computed from them ends within seconds.
const MOST_WORK: usize = 50_000_000;
/// This version.
const OWN: &str = env!("CARGO_PKG_VERSION");

/// What a bundle's sender states, and nothing in it proves.
const STATED: [&str; 5] = [
    "what was measured (trials.json)",
    "the machine, the program's versions, and when and why the run began and ended",
    "the interim analyses and what other programs observed",
    "how often the run was extended",
    "the study's text and the name of its file",
];

/// Computes a bundle's numbers again and compares them with those that it holds.
pub fn run(context: &Context, arguments: &Arguments) -> Result<(String, Exit), Refusal> {
    let allowed = arguments.allowed_signers.as_deref().map(signer::allowed).transpose()?;
    let mut verified = verified(&arguments.bundle)?;
    if let Some(allowed) = allowed {
        verified.signer.demand(&allowed);
    }
    Ok(shown(context, &verified))
}

/// What verifying found.
pub struct Verified {
    id: String,
    count: usize,
    /// The version that made the bundle.
    bundled_by: String,
    /// What follows from the trials.
    pub document: Document,
    /// Where the bundle says otherwise, and what of it is not baremark's.
    found: Vec<String>,
    /// What could not be verified, besides what no bundle proves.
    unverified: Vec<String>,
    /// Who signed it.
    signer: Signer,
}

impl Verified {
    /// Whether everything is as the bundle says.
    pub fn holds(&self) -> bool {
        self.found.is_empty() && self.signer.refused().is_none()
    }
}

/// What a bundle holds, computed here, and where what it prints differs.
pub fn verified(file: &Path) -> Result<Verified, Refusal> {
    let name = file.display();
    let bad = |why: String| Refusal::bad_input(format!("{name}: {why}"));
    let opened = File::open(file).map_err(|why| bad(why.to_string()))?;
    if opened.metadata().is_ok_and(|about| about.len() > MOST_COMPRESSED) {
        return Err(bad(format!("longer than {} MiB; a bundle this long is not supported", MOST_COMPRESSED >> 20)));
    }
    let mut bundle = unpack(BufReader::new(opened)).map_err(|why| bad(why.to_string()))?;
    let signer = Signer::of(&bundle).map_err(|why| bad(why.to_string()))?;
    let unfit = |why: Unfit| bad(why.to_string());
    let head: Head = parsed("run.json", &bundle.run, RUN_MEMORY).map_err(unfit)?;
    let trials: Vec<Trial> = parsed("trials.json", &bundle.trials, TRIALS_MEMORY).map_err(unfit)?;
    let is_name =
        |text: &str| text.len() <= 64 && text.bytes().all(|b| b.is_ascii_alphanumeric() || b".-+".contains(&b));
    if !is_name(&head.id) || !is_name(&head.bundled_by) {
        return Err(bad("run.json: the name of the run or a version is not one; the bundle is damaged".to_owned()));
    }
    fits(&head.plan, &trials).map_err(|why| bad(format!("{why}; the bundle is damaged")))?;
    let (mut found, mut unverified) = (foreign(&bundle, &head, &trials), Vec::new());
    match quietly(|| requests(&head, &trials)).unwrap_or(Derived::Unknown("the plan cannot be scheduled".to_owned())) {
        Derived::Follows => {}
        Derived::Differs(what) => found.extend(what),
        Derived::Unknown(why) => unverified.push(format!("the trials' requests: {why}")),
    }
    match quietly(|| study(&head)).unwrap_or(Derived::Unknown("the study cannot be planned".to_owned())) {
        Derived::Follows => {}
        Derived::Differs(what) => found.extend(what),
        Derived::Unknown(why) => unverified.push(format!("the plan: {why}")),
    }
    (bundle.run, bundle.trials) = (Vec::new(), Vec::new());
    let (id, count, bundled_by) = (head.id.clone(), trials.len(), head.bundled_by.clone());
    let document = quietly(|| computed(run_of(head, trials)))
        .ok_or_else(|| bad("its trials do not fit its plan; the bundle is damaged".to_owned()))??;
    found.extend(result(&document, &bundle).map_err(unfit)?);
    Ok(Verified { id, count, bundled_by, document, found, unverified, signer })
}

/// Why nothing can be computed of a bundle.
#[derive(Debug, thiserror::Error)]
enum Unfit {
    #[error("{file}: {source}; the bundle is damaged or of another version")]
    Unread { file: &'static str, source: serde_json::Error },
    #[error("result.json: {0}")]
    Unwritten(#[from] serde_json::Error),
    #[error("{arms} arms, {pairs} pairs and {trials} trials are more than any run has")]
    TooMany { arms: usize, pairs: usize, trials: usize },
    #[error("run.json: a pair names an arm that does not exist")]
    Pair,
    #[error("run.json: a cell names an arm or pair that does not exist")]
    Cell,
    #[error("trials.json: trial {0} names a cell or arm that does not exist")]
    Trial(usize),
    #[error("trials.json: trial {0} has more metrics or distributions than any run has")]
    Metrics(usize),
}

/// A file of the archive as what it should hold.
fn parsed<T: DeserializeOwned>(file: &'static str, text: &[u8], memory: u64) -> Result<T, Unfit> {
    baremark_json::read(text, memory).map_err(|source| Unfit::Unread { file, source })
}

/// What of a bundle is not baremark's: its script, and whatever this version would have written otherwise or not at all. What another version
/// writes is not known here.
fn foreign(bundle: &Bundle, head: &Head, trials: &[Trial]) -> Vec<String> {
    let mut found = Vec::new();
    if bundle.script != REDERIVE.as_bytes() {
        found.push(format!("rederive.py: not the script of baremark {OWN}; do not run it"));
    }
    if head.bundled_by == OWN {
        let other = |what: &str| format!("{what}: holds something else than baremark {OWN} writes");
        found.extend((!is_written(head, &bundle.run)).then(|| other("run.json")));
        found.extend((!is_written(&trials, &bundle.trials)).then(|| other("trials.json")));
    }
    found
}

/// Where the printed result and report are not those of `document`.
fn result(document: &Document, bundle: &Bundle) -> Result<Vec<String>, Unfit> {
    let mut found = Vec::new();
    if !is_written(document, &bundle.result) {
        // Processors round logarithms otherwise, so that a result of the same length or nearly so may be the same.
        let mut expected = Length(0);
        serde_json::to_writer(&mut expected, document)?;
        if bundle.result.len() > 2 * expected.0 {
            let (length, expected) = (bundle.result.len(), expected.0);
            return Ok(vec![format!("result.json: {expected} bytes follow from the trials, {length} are there")]);
        }
        let printed: Value = parsed("result.json", &bundle.result, RESULT_MEMORY)?;
        let mut expected = serde_json::to_value(document)?;
        leave_out_later_keys(&mut expected, &printed);
        found = differences(&expected, &printed);
    }
    let report = quietly(|| terminal::render(document, &PLAIN)).unwrap_or_default();
    if found.is_empty() && report.as_bytes() != bundle.report {
        found.push("report.txt: another report follows from the trials".to_owned());
    }
    Ok(found)
}

/// Takes what earlier versions did not write out of what follows from the trials, where the printed result has none of it: a bundle of such a
/// version is not false for that.
fn leave_out_later_keys(expected: &mut Value, printed: &Value) {
    let Some(document) = expected.as_object_mut() else { return };
    if printed.get("timelines").is_none() {
        document.remove("timelines");
    }
    let trials = document.get_mut("trials").and_then(Value::as_array_mut).into_iter().flatten();
    let printed = printed.get("trials").and_then(Value::as_array).into_iter().flatten();
    for (trial, printed) in trials.zip(printed) {
        if printed.get("observed_s").is_none() {
            trial.as_object_mut().map(|trial| trial.remove("observed_s"));
        }
    }
}

/// Whether `value` is written as `text`, letter by letter.
fn is_written(value: &impl Serialize, text: &[u8]) -> bool {
    let mut rest = Rest(text);
    serde_json::to_writer(&mut rest, value).is_ok() && rest.0.is_empty()
}

/// What is still to be written.
struct Rest<'t>(&'t [u8]);

impl Write for Rest<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 = self.0.strip_prefix(bytes).ok_or_else(|| io::Error::other("written otherwise"))?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The bytes that were written.
struct Length(usize);

impl Write for Length {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn shown(context: &Context, verified: &Verified) -> (String, Exit) {
    let Verified { id, count, bundled_by, document, found, unverified, signer } = verified;
    let exit = if verified.holds() { Exit::Success } else { Exit::Regression };
    let (ratios, estimates) = (document.ratios.len(), document.estimates.len());
    let found: Vec<&str> = signer.refused().into_iter().chain(found.iter().map(String::as_str)).collect();
    let stated = STATED.into_iter().chain(unverified.iter().map(String::as_str)).chain(signer.unproved());
    let stated: Vec<&str> = stated.collect();
    if context.json {
        let value = serde_json::json!({
            "run": id, "verified": verified.holds(), "trials": count, "ratios": ratios, "estimates": estimates,
            "bundled_by": bundled_by, "differences": found, "stated": stated, "signature": signer.json(),
        });
        return (crate::json::document("baremark-verification/1", value), exit);
    }
    let lines = |lines: &[&str]| lines.iter().map(|what| format!("  {what}\n")).collect::<String>();
    let text = if verified.holds() {
        let derived = match unverified.is_empty() {
            true => ", the trials' requests from the plan, the plan from the study's text",
            false => "",
        };
        let by = signer.line().map(|by| format!("signed by {by}\n")).unwrap_or_default();
        format!(
            "verified: run {id}: {estimates} estimates and {ratios} ratios follow from its {count} trials{derived}; rederive.py is \
             baremark's\n{by}Stated by the sender, not verified:\n{}",
            lines(&stated)
        )
    } else {
        let other = match bundled_by == OWN {
            true => String::new(),
            false => format!(" (bundled by version {bundled_by}, verified by {OWN})"),
        };
        format!("NOT verified: run {id}{other}\n{}", lines(&found))
    };
    (baremark_report::printable(&text, Color::Never).into_owned(), exit)
}

/// Whether every reference in a plan and its trials leads somewhere, and computing ends soon.
fn fits(plan: &Plan, trials: &[Trial]) -> Result<(), Unfit> {
    let (arms, pairs, cells) = (plan.arms.len(), plan.pairs.len(), plan.cells.len());
    if (arms.max(pairs).max(cells)).saturating_mul(trials.len().max(1)) > MOST_WORK {
        return Err(Unfit::TooMany { arms, pairs, trials: trials.len() });
    }
    if plan.pairs.iter().any(|pair| pair.numerator >= arms || pair.denominator >= arms) {
        return Err(Unfit::Pair);
    }
    let known = |cell: &Cell| match *cell {
        Cell::Pair(pair) => pair < pairs,
        Cell::Single(arm) => arm < arms,
    };
    if !plan.cells.iter().all(known) {
        return Err(Unfit::Cell);
    }
    let of = |trial: &Trial| -> bool {
        let Some(&cell) = plan.cells.get(trial.cell) else { return false };
        let most = plan.arms_of(cell).len();
        let result = trial.result.as_ref();
        trial.spec.schedule.iter().all(|&arm| arm < most)
            && result
                .is_none_or(|result| result.arms.len() <= most && result.series.iter().all(|phase| phase.arm < most))
    };
    if let Some(index) = trials.iter().position(|trial| !of(trial)) {
        return Err(Unfit::Trial(index));
    }
    match trials.iter().position(|trial| !is_limited(trial)) {
        Some(index) => Err(Unfit::Metrics(index)),
        None => Ok(()),
    }
}

/// Whether a phase has so few metrics, and a part of it belongs to so few distributions, that looking each up takes no time.
fn is_limited(trial: &Trial) -> bool {
    const MOST_METRICS: usize = 1000;
    const MOST_DISTRIBUTIONS: usize = 8;
    let phases = || trial.result.iter().flat_map(|result| &result.series);
    let members = |phase: &Series| phase.members.iter().map(|member| member.samples.len()).sum::<usize>();
    let metrics: BTreeSet<&str> =
        phases().flat_map(|phase| &phase.samples).map(|sample| sample.metric.as_str()).collect();
    metrics.len() <= MOST_METRICS
        && phases().all(|phase| {
            phase.samples.len() <= MOST_METRICS
                && members(phase) <= MOST_METRICS * phase.members.len().max(1)
                && phase.points.iter().all(|point| point.distributions.len() <= MOST_DISTRIBUTIONS)
        })
}

/// What `work` gives; `None` where a stranger's numbers made it panic, of which nothing is printed.
fn quietly<T>(work: impl FnOnce() -> T) -> Option<T> {
    let usual = panic::take_hook();
    panic::set_hook(Box::new(|_| {}));
    let done = panic::catch_unwind(AssertUnwindSafe(work));
    panic::set_hook(usual);
    done.ok()
}
