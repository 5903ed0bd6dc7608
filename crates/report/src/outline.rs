//! What a report of a run says, before anybody lays it out.

use crate::grid::{Grid, estimated, grid, members, others, predicted_ratio, ratio_cell};
use crate::latency;
use crate::number::{self, count};
use crate::per_workload::{Part, parts};
use crate::provenance::{self, blocks, settings};
use crate::published::{Beside, with_agreement};
use crate::text::clean;
use crate::treatment::{ENVIRONMENT, Factors};
use crate::words::{Headline, Quantity, Tone, headline, limits_of};
use baremark_model::codes::Hindrance;
use baremark_model::command;
use baremark_model::distinct::{distinct, grouped};
use baremark_model::document::{
    Document, ExplanationRow, Grade, METHOD, PredictionRow, RatioRow, Reliability, RunHead, UsedEnvironment,
};
use baremark_model::environments;
use baremark_model::event::TrialStatus;
use baremark_model::plan::Treatment;
use std::collections::{BTreeMap, BTreeSet};
use std::iter;

/// A report's parts, in the order in which they are to be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Outline {
    /// The study's question.
    pub title: String,
    /// Workload, place, size and name of the run, in one line.
    pub context: String,
    /// What a reader must know before any number.
    pub cautions: Vec<String>,
    /// What was found, workload by workload.
    pub parts: Vec<Found>,
    /// What the outcomes mean and do not mean.
    pub notes: Vec<String>,
    /// What should be known alongside the numbers.
    pub flags: Vec<String>,
    /// Trials that do not count, by reason.
    pub discarded: Vec<String>,
    /// Where the numbers come from: a word and what it says.
    pub provenance: Vec<(&'static str, String)>,
}

/// What was found of one workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    /// The workload, where there are several.
    pub name: Option<String>,
    /// The outcomes in words.
    pub headlines: Vec<Headline>,
    /// The headline metric's table, then those of other metrics that the study asks for.
    pub grids: Vec<Grid>,
    /// What else was measured: the other metrics, and what each member of an ensemble had alone.
    pub more: Vec<Grid>,
    /// The published values that the study names, to be next to its own.
    pub beside: Option<Beside>,
    /// Contrasts of page sizes, which are not a cost of virtualization.
    pub contrasts: Vec<Headline>,
    /// Predicted ratios alongside the measured ones, and in the place of those that cannot be had here.
    pub predicted: Vec<String>,
    /// What was counted while it was measured, and what follows from it.
    pub why: Vec<String>,
}

impl Outline {
    /// The parts of which `of` is not empty, with it.
    pub(crate) fn having<T>(&self, of: impl Fn(&Found) -> &[T]) -> Vec<(&Found, &[T])> {
        self.parts.iter().map(|part| (part, of(part))).filter(|(_, items)| !items.is_empty()).collect()
    }
}

/// The outline of a document.
pub(crate) fn outline(document: &Document) -> Outline {
    let found = |part: &Part<'_>| found(part.name, &part.document);
    Outline {
        title: clean(&document.run.study),
        context: context(document),
        cautions: cautions(document),
        parts: parts(document).iter().map(found).collect(),
        notes: notes(document),
        flags: flags(document),
        discarded: discarded(document),
        provenance: provenance::lines(document),
    }
}

fn found(name: Option<&str>, document: &Document) -> Found {
    let of = |explaining: bool| -> Vec<Headline> {
        let wanted = document.ratios.iter().filter(|row| row.metric == document.run.metric);
        wanted.filter(|row| row.contrast.explains() == explaining).map(|row| headline(document, row)).collect()
    };
    let mut headlines = of(false);
    if headlines.is_empty() {
        headlines = without_ratios(document);
    }
    let (grids, more) = grids(document);
    Found {
        name: name.map(clean),
        headlines,
        grids,
        more,
        beside: to_stand_beside(document),
        contrasts: of(true),
        predicted: predicted(document),
        why: why(document),
    }
}

/// The headline metric's table and those of metrics with ratios of their own; then the other metrics in one, and the members
/// of ensembles.
fn grids(document: &Document) -> (Vec<Grid>, Vec<Grid>) {
    let asked = |metric: &&str| {
        *metric == document.run.metric
            || document.ratios.iter().any(|row| row.metric == *metric && !row.contrast.explains())
    };
    let (own, mut rest): (Vec<&str>, Vec<&str>) = metrics(document).into_iter().partition(asked);
    // Percentiles have a table of their own.
    let percentiles = latency::metrics(document);
    rest.retain(|metric| !percentiles.iter().any(|known| known == metric));
    let grids = own.iter().filter_map(|metric| grid(document, metric)).collect();
    (grids, others(document, &rest).into_iter().chain(members(document)).collect())
}

/// The published values, where there is something measured to be next to: a self-check measures no such thing.
fn to_stand_beside(document: &Document) -> Option<Beside> {
    let measured = !document.estimates.is_empty() && !document.run.mode.self_check;
    document.run.published.as_deref().filter(|_| measured).and_then(|name| with_agreement(name, document))
}

/// The headline's metric, then the others as they come.
fn metrics(document: &Document) -> Vec<&str> {
    let others = document.estimates.iter().map(|row| &row.metric);
    distinct(iter::once(&document.run.metric).chain(others).map(String::as_str))
}

fn context(document: &Document) -> String {
    let run = &document.run;
    let blocks = count(blocks(document), "block");
    format!("{} on {} · {blocks} · run {}", clean(&run.workload), clean(&run.native_means), clean(&run.id))
}

pub(crate) fn cautions(document: &Document) -> Vec<String> {
    let run = &document.run;
    let mut cautions = Vec::new();
    if run.mode.quick {
        cautions.push("Quick run: reduced sizes and few repetitions. Run without --quick for a result.");
    }
    let resumed;
    if run.ended.is_none() {
        cautions.push(match &run.stop_reason {
            None => "This run has not ended; the figures below may change.",
            Some(why) => {
                let held = if document.ratios.iter().any(|row| row.lo.is_some()) {
                    " Intervals hold where their result was no reason to stop."
                } else {
                    ""
                };
                resumed = format!("Stopped: {}; `baremark resume {}` continues it.{held}", clean(why), clean(&run.id));
                &resumed
            }
        });
    }
    if run.mode.self_check {
        cautions.push(
            "Self-check: every treatment against itself. Whatever differs here is noise or a fault of the method.",
        );
    }
    cautions.into_iter().map(str::to_owned).chain(conditions(document)).collect()
}

/// How good the conditions were where that is not good, and what to do: "Reliability: poor: other programs used 79 % of the CPUs (cc1 61 %). `--wait-quiet`
/// begins when they are idle."
pub(crate) fn conditions(document: &Document) -> Option<String> {
    let found = document.reliability.as_ref().filter(|found| found.grade != Grade::Good)?;
    let remedies = remedies(found, document.run.metric == command::WALL.key);
    Some([reliability(found)].into_iter().chain(remedies.into_iter().map(str::to_owned)).collect::<Vec<_>>().join(" "))
}

/// "Reliability: good".
pub(crate) fn reliability(found: &Reliability) -> String {
    match found.reasons.as_slice() {
        [] => format!("Reliability: {}", found.grade),
        reasons => format!("Reliability: {}: {}.", found.grade, clean(&reasons.join("; "))),
    }
}

/// What to do against what lowers it. CPU time is what a program used, whoever else had the CPUs.
fn remedies(found: &Reliability, of_wall_time: bool) -> Vec<&'static str> {
    let has = |hindrance| found.hindrances.contains(&hindrance);
    let others = has(Hindrance::OtherPrograms);
    let of_cpus = [Hindrance::OtherPrograms, Hindrance::Stolen, Hindrance::Throttled, Hindrance::Queued];
    let all = [
        (of_wall_time && of_cpus.into_iter().any(has), "--by cpu_s compares CPU time, which others change less."),
        (others, "--wait-quiet begins when other programs are idle."),
        (has(Hindrance::InMemory), "--set path=FOLDER measures the disk of another folder."),
        (has(Hindrance::Throttled), "Raise the CPU quota (cpu.max of the control group)."),
        // Where others have the CPUs, measured threads wait for these.
        (has(Hindrance::Queued) && !others, "Fewer ranks than CPUs leave others a CPU."),
    ];
    all.into_iter().filter(|(applies, _)| *applies).map(|(_, remedy)| remedy).collect()
}

/// What can be said where no ratio was requested, or none could be had.
fn without_ratios(document: &Document) -> Vec<Headline> {
    let factors = Factors::of(&document.run);
    let quantity = Quantity::of(document, &document.run.metric);
    let plain = |sentence: String| Headline { caution: None, sentence, sensitivity: None, tone: Tone::Plain };
    let rows: Vec<_> = document.estimates.iter().filter(|row| row.metric == document.run.metric).collect();
    let values = match rows.as_slice() {
        [] => None,
        [row] => {
            let (value, trials) = (estimated(row, 1.0), count(row.n as u64, "trial"));
            Some(format!("{}: {value} {} ({trials}).", factors.name(&row.treatment), quantity.unit))
        }
        // The table below has each: none is printed twice.
        several => Some(format!("{} without a ratio.", count(several.len() as u64, "value"))),
    };
    let mut said: Vec<Headline> = missing(document).into_iter().chain(values).map(plain).collect();
    // Of what this machine cannot have natively no trial was awaited.
    let left_out = document.absent.iter().any(|of| environments::of(&of.treatment) == environments::NATIVE);
    if document.estimates.is_empty() && !(left_out && document.trials.is_empty()) {
        said.push(plain(nothing(document).to_owned()));
    }
    said
}

/// Why a run has no value.
pub(crate) fn nothing(document: &Document) -> &'static str {
    match (document.trials.is_empty(), document.run.ended.is_none()) {
        (true, true) => "No trial has ended yet.",
        (true, false) => "No trial had ended when the run did.",
        (false, _) => "Nothing was measured: every trial was discarded.",
    }
}

/// What could not be compared for lack of it, by environment, and why where that is one reason.
pub(crate) fn missing(document: &Document) -> Option<String> {
    let labels = document.absent.iter().map(|absent| absent.treatment.get(ENVIRONMENT));
    let place = |label: Option<&String>| label.map_or_else(|| "a treatment".to_owned(), |label| clean(label));
    let places = distinct(labels.map(place));
    let first = document.absent.first()?;
    let one = document.absent.iter().all(|absent| absent.reason == first.reason);
    let why = if one { clean(&first.reason) } else { "the table says why".to_owned() };
    Some(format!("Nothing could be compared with {}: {}.", places.join(", "), why.trim_end_matches('.')))
}

fn notes(document: &Document) -> Vec<String> {
    let mut notes = Vec::new();
    let named: BTreeSet<&str> = document.estimates.iter().map(|row| environments::of(&row.treatment)).collect();
    let named = || named.iter().map(|name| (clean(name), document.run.can(name)));
    let bounds = named().filter(|(_, can)| can.virtual_machine && !can.devices);
    notes.extend(bounds.map(|(name, _)| format!("{name}: CPU and MMU part only: a lower bound on the cost of a VM.")));
    let idle = named().filter(|(_, can)| !can.runs_work());
    notes.extend(idle.map(|(name, _)| format!("{name}: no-op; it measures the harness overhead.")));
    let own = document.run.environments.iter().filter(|own| own.name != own.place);
    notes.extend(own.map(|own| own_environment(&document.run, own)));
    notes.extend(turns(document));
    notes.extend(intervals(document));
    notes
}

/// `native and sandbox took turns phase by phase, each at a site of its own; whichever waited used at most 0.12 % of a CPU.`
fn turns(document: &Document) -> Option<String> {
    let (mut names, mut most) = (Vec::<String>::new(), 0.0_f64);
    let arms = document.trials.iter().filter(|trial| trial.status == TrialStatus::Ok).flat_map(|trial| &trial.arms);
    for arm in arms {
        let counted = |name: &str| arm.counters.get(name).copied();
        // Only of arms that took turns at two sites is this counted.
        let Some((idle_ns, cpu_ns)) = counted("idle_ns").zip(counted("idle_cpu_ns")) else { continue };
        let name = clean(environments::of(&arm.treatment));
        if !names.contains(&name) {
            names.push(name);
        }
        #[expect(clippy::cast_precision_loss, reason = "nanoseconds of a trial")]
        let share = cpu_ns as f64 / (idle_ns as f64).max(1.0);
        most = most.max(100.0 * share);
    }
    let (last, first) = names.split_last().filter(|(_, first)| !first.is_empty())?;
    let names = format!("{} and {last}", first.join(", "));
    let most = number::fixed(most, 2);
    Some(format!(
        "{names} took turns phase by phase, each at a site of its own; whichever waited used at most {most} % of a CPU."
    ))
}

/// `tuned: qemu with backing = 2m, pin = 0 1.`
fn own_environment(run: &RunHead, own: &UsedEnvironment) -> String {
    let settings = settings(run, own);
    match settings.is_empty() {
        true => format!("{}: {}.", clean(&own.name), clean(&own.place)),
        false => format!("{}: {} with {settings}.", clean(&own.name), clean(&own.place)),
    }
}

/// Whether a ratio is one that the study requests.
fn answers(document: &Document, row: &RatioRow) -> bool {
    row.metric == document.run.metric_of(&row.treatment) && !row.contrast.explains()
}

/// The confidence of these ratios' intervals: `95 %`, `95 to 98.3 %`.
pub(crate) fn confidence_of<'r>(rows: impl Iterator<Item = &'r RatioRow>) -> String {
    let level = |confidence: f64| number::fixed(confidence * 100.0, 1).trim_end_matches(".0").to_owned();
    let (least, most) =
        rows.fold((1.0, 0.0), |(least, most), row| (f64::min(least, row.confidence), f64::max(most, row.confidence)));
    match (level(least), level(most)) {
        (least, most) if least == most => format!("{most} %"),
        (least, most) => format!("{least} to {most} %"),
    }
}

/// The head of a column of intervals. Where they have another confidence than 95 %, as of a run that was extended or of several ratios of which one shows
/// a difference, that stands below.
pub(crate) fn interval_head<'d>(documents: impl IntoIterator<Item = &'d Document>) -> &'static str {
    let answering = |of: &'d Document| of.ratios.iter().filter(move |row| answers(of, row) && limits_of(row).is_some());
    let mut rows = documents.into_iter().flat_map(answering).peekable();
    if rows.peek().is_none() || confidence_of(rows) == "95 %" { "95 % interval" } else { "interval" }
}

/// That a run was extended, in words.
pub(crate) fn extended(times: usize) -> String {
    let times = if times == 1 { "once".to_owned() } else { format!("{times} times") };
    format!("extended {times} after a result could be seen")
}

/// What the intervals are.
fn intervals(document: &Document) -> Option<String> {
    let rows: Vec<_> =
        document.ratios.iter().filter(|row| answers(document, row) && limits_of(row).is_some()).collect();
    if rows.is_empty() {
        return None;
    }
    let levels = confidence_of(rows.iter().copied());
    let together = match document.run.extensions.as_slice() {
        [] if rows.len() > 1 && levels != "95 %" => {
            format!("; the {} ratios are judged together (false discovery rate 5 %)", rows.len())
        }
        [] => String::new(),
        extensions => format!("; {}", extended(extensions.len())),
    };
    let method = if document.method.is_empty() { METHOD.to_owned() } else { clean(&document.method) };
    let assumed = match rows.iter().any(|row| row.independence_assumed) {
        true => " Below 30 blocks successive ones are taken to be independent.",
        false => "",
    };
    Some(format!("Intervals: {levels} ({method}{together}).{assumed}"))
}

fn predicted(document: &Document) -> Vec<String> {
    let factors = Factors::of(&document.run);
    let line = |row: &PredictionRow| {
        let name = factors.name(&row.treatment);
        let how = format!("{} ({})", predicted_ratio(row), clean(&row.scheme));
        let measured = document.ratios.iter().find(|ratio| {
            ratio.metric == row.metric && ratio.treatment == row.treatment && ratio.relative_to == row.relative_to
        });
        match measured.and_then(|ratio| ratio_cell(document, ratio)) {
            Some(cell) => {
                let interval = if cell.interval.is_empty() { String::new() } else { format!(" ({})", cell.interval) };
                let far = if row.disagrees { "; beyond both intervals: not explained" } else { "" };
                format!("{name}: measured {}{interval}, predicted {how}{far}", cell.value)
            }
            None => format!("{name}: predicted {how}, not measured"),
        }
    };
    let mut lines: Vec<String> = document.predictions.iter().map(line).collect();
    let mut processors: Vec<&str> = document.predictions.iter().map(|row| row.processor.as_str()).collect();
    processors.dedup();
    lines.extend(processors.iter().map(|processor| format!("Simulated: {}.", clean(processor))));
    lines
}

/// What was counted, one line a quantity: of one treatment, or of all that it was counted of.
fn why(document: &Document) -> Vec<String> {
    let quantities = grouped(document.explanations.iter().map(|row| ((&row.what, &row.unit), row)));
    quantities.iter().map(|(_, rows)| quantity(document, rows)).collect()
}

fn quantity(document: &Document, rows: &[&ExplanationRow]) -> String {
    let factors = Factors::of(&document.run);
    let (what, unit) = (clean(&rows[0].what), clean(&rows[0].unit));
    let values = rows.iter().map(|row| {
        let value = number::estimate(row.value, Some(row.lo), Some(row.hi));
        format!("{} {value} {unit}", factors.name(&row.treatment))
    });
    let advised = rows.iter().filter(|row| !row.advice.is_empty());
    let told = grouped(advised.map(|row| (row.advice.as_str(), factors.name(&row.treatment))));
    // What follows for all is said once, what follows for some with their names.
    let follows = told.iter().map(|(advice, names)| match names.len() == rows.len() {
        true => format!(". {}", sentence_case(&clean(advice))),
        false => format!(". {}: {}", names.join(", "), clean(advice)),
    });
    let follows: String = follows.collect();
    format!("{what}: {}{follows}.", values.collect::<Vec<_>>().join("; "))
}

/// The same with a capital at its beginning.
pub(crate) fn sentence_case(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

fn flags(document: &Document) -> Vec<String> {
    let factors = Factors::of(&document.run);
    let line = |treatment: &Treatment, text: &str, trials: usize| {
        let place = if treatment.is_empty() { String::new() } else { format!("{}: ", factors.name(treatment)) };
        let often = if trials == 0 { String::new() } else { format!(" (in {})", count(trials as u64, "trial")) };
        format!("{place}{}{often}", clean(text))
    };
    document.flags.iter().map(|flag| line(&flag.treatment, &flag.text, flag.trials)).collect()
}

fn discarded(document: &Document) -> Vec<String> {
    let mut reasons: BTreeMap<String, u64> = BTreeMap::new();
    for trial in &document.trials {
        let why = match &trial.status {
            TrialStatus::Ok => continue,
            TrialStatus::Void { reasons } if reasons.is_empty() => "invalid: no reason was given".to_owned(),
            TrialStatus::Void { reasons } => format!("invalid: {}", clean(&reasons.join("; "))),
            TrialStatus::Failed { reason } => format!("failed: {}", clean(reason)),
        };
        *reasons.entry(why).or_default() += 1;
    }
    reasons.into_iter().map(|(why, n)| format!("{}, {why}", count(n, "trial"))).collect()
}
