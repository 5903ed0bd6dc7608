//! Results and trials as comma-separated values (RFC 4180), one observation a line, every factor a column of its own.

use baremark_model::distinct::distinct;
use baremark_model::document::{Document, Outcome};
use baremark_model::event::TrialStatus;
use baremark_model::plan::Treatment;
use baremark_model::seam::Sample;
use baremark_model::wire::Series;

/// Estimates, those of the members of ensembles and how evenly they fared, and ratios: one line each. Members count from 1, as on the page.
#[must_use]
pub fn results(document: &Document) -> String {
    let factors = factors(document);
    let fixed = ["kind", "metric", "unit"];
    let rest = ["relative_to", "n", "value", "lo", "hi", "confidence", "outcome", "member"];
    let mut text = line(fixed.into_iter().chain(factors.iter().map(String::as_str)).chain(rest));
    let none = String::new;
    for row in &document.estimates {
        let head = ["estimate", &row.metric, &row.unit].map(str::to_owned);
        let [n, value, lo, hi, confidence] = estimated(row.n, row.estimate, [row.lo, row.hi]);
        let tail = [none(), n, value, lo, hi, confidence, none(), none()];
        text.push_str(&joined(&head, &levels(&factors, &row.treatment), &tail));
    }
    for row in &document.members {
        let head = ["member", &row.metric, &row.unit].map(str::to_owned);
        let [n, value, lo, hi, confidence] = estimated(row.n, row.estimate, [row.lo, row.hi]);
        let tail = [none(), n, value, lo, hi, confidence, none(), (row.member + 1).to_string()];
        text.push_str(&joined(&head, &levels(&factors, &row.treatment), &tail));
    }
    for row in &document.fairness {
        let head = ["fairness", &row.metric, "1"].map(str::to_owned);
        let [n, value, lo, hi, confidence] = estimated(row.n, row.estimate, [row.lo, row.hi]);
        let tail = [none(), n, value, lo, hi, confidence, none(), none()];
        text.push_str(&joined(&head, &levels(&factors, &row.treatment), &tail));
    }
    for row in &document.ratios {
        let unit = "1".to_owned();
        let head = ["ratio".to_owned(), row.metric.clone(), unit];
        let below: Vec<String> = row.relative_to.iter().map(|(key, label)| format!("{key}={label}")).collect();
        let tail = [
            below.join(" "),
            row.blocks.to_string(),
            number(row.ratio),
            number(row.lo),
            number(row.hi),
            number(Some(row.confidence)),
            outcome(row.outcome).to_owned(),
            none(),
        ];
        text.push_str(&joined(&head, &levels(&factors, &row.treatment), &tail));
    }
    text
}

/// An estimate with its 95 % interval, as fields.
fn estimated(n: usize, value: f64, [lo, hi]: [Option<f64>; 2]) -> [String; 5] {
    let confidence = if lo.is_some() { "0.95".to_owned() } else { String::new() };
    [n.to_string(), number(Some(value)), number(lo), number(hi), confidence]
}

/// Every value of every trial: one line for each trial, arm, metric and, of an ensemble, member. Trials that do not count
/// say so and why.
#[must_use]
pub fn trials(document: &Document) -> String {
    trials_with_series(document, &[])
}

/// Columns of the parts of phases.
const PARTS: [&str; 4] = ["phase", "part", "begin_ns", "end_ns"];

/// The same; `series` are those of each trial of the document, in its order. Where their phases have parts (seconds and operations
/// of a load, tiers of an application), these have lines too, and each phase's own values: `phase` counts from 1, `part` is its name
/// and empty for the whole phase, times count from the beginning of the trial's first phase.
#[must_use]
pub fn trials_with_series(document: &Document, series: &[&[Series]]) -> String {
    let factors = factors(document);
    let fixed = ["block", "cell", "status", "arm"];
    let rest = ["metric", "value", "elapsed_ns", "flags", "member"];
    let have_parts =
        series.iter().copied().flatten().any(|phase| phase.points.iter().any(|point| !point.samples.is_empty()));
    let parts = if have_parts { &PARTS[..] } else { &[] };
    let heads = fixed.into_iter().chain(factors.iter().map(String::as_str)).chain(rest);
    let mut text = line(heads.chain(parts.iter().copied()));
    for (trial, series) in document.trials.iter().zip(series.iter().copied().chain(std::iter::repeat(&[][..]))) {
        let status = match &trial.status {
            TrialStatus::Ok => "ok".to_owned(),
            TrialStatus::Void { reasons } => format!("invalid: {}", reasons.join("; ")),
            TrialStatus::Failed { reason } => format!("failed: {reason}"),
        };
        let (elapsed, flags) = (trial.elapsed_ns.to_string(), trial.flags.join("; "));
        let head = |arm: String| [trial.block.to_string(), trial.cell.to_string(), status.clone(), arm];
        let tail = |metric: &str, value: String, member: String, part: [String; 4]| {
            let part = part.into_iter().take(parts.len());
            [metric.to_owned(), value, elapsed.clone(), flags.clone(), member]
                .into_iter()
                .chain(part)
                .collect::<Vec<_>>()
        };
        let none = || tail("", String::new(), String::new(), Default::default());
        for (index, arm) in trial.arms.iter().enumerate() {
            let levels = levels(&factors, &arm.treatment);
            let mut row = |tail: &[String]| text.push_str(&joined(&head(index.to_string()), &levels, tail));
            let together = arm.medians.iter().map(|sample| (sample, String::new()));
            let alone = (1..).zip(&arm.members).flat_map(|(member, samples): (usize, &Vec<Sample>)| {
                samples.iter().map(move |sample| (sample, member.to_string()))
            });
            for (sample, member) in together.chain(alone) {
                row(&tail(&sample.metric, number(Some(sample.value)), member, Default::default()));
            }
            if arm.medians.is_empty() {
                row(&none());
            }
            for (sample, part) in series.iter().filter(|phase| phase.arm == index).flat_map(parts_of) {
                row(&tail(&sample.metric, number(Some(sample.value)), String::new(), part));
            }
        }
        if trial.arms.is_empty() {
            text.push_str(&joined(&head(String::new()), &levels(&factors, &Treatment::new()), &none()));
        }
    }
    text
}

/// The values of a phase that has parts, and of these, each with the columns [`PARTS`].
fn parts_of(phase: &Series) -> Vec<(&Sample, [String; 4])> {
    if phase.points.iter().all(|point| point.samples.is_empty()) {
        return Vec::new();
    }
    let part = |name: &str, begin: u64, end: u64| {
        [(phase.phase + 1).to_string(), name.to_owned(), begin.to_string(), end.to_string()]
    };
    let whole = phase.samples.iter().map(|sample| (sample, part("", phase.begin_ns, phase.end_ns)));
    let parts = phase.points.iter().flat_map(|point| {
        let part = part(&point.name, phase.begin_ns + point.begin_ns, phase.begin_ns + point.end_ns);
        point.samples.iter().map(move |sample| (sample, part.clone()))
    });
    whole.chain(parts).collect()
}

/// What was observed: one line for each treatment, place and quantity.
#[must_use]
pub fn observations(document: &Document) -> String {
    let factors = factors(document);
    let fixed = ["place", "quantity", "instance", "unit"];
    let rest = ["n", "value", "lo", "hi"];
    let mut text = line(fixed.into_iter().chain(factors.iter().map(String::as_str)).chain(rest));
    for row in document.observed.iter().flat_map(|observed| &observed.rows) {
        let head = [&row.place, &row.quantity, &row.instance, &row.unit].map(Clone::clone);
        let tail = [row.n.to_string(), number(Some(row.value)), number(row.lo), number(row.hi)];
        text.push_str(&joined(&head, &levels(&factors, &row.treatment), &tail));
    }
    text
}

/// What was observed over time: one line for each point.
#[must_use]
pub fn series(document: &Document) -> String {
    let mut text = line(["place", "quantity", "instance", "unit", "seconds", "value"]);
    for series in document.observed.iter().flat_map(|observed| &observed.series) {
        for [at, value] in &series.points {
            let fields = [&series.place, &series.quantity, &series.instance, &series.unit].map(String::as_str);
            let point = [number(Some(*at)), number(Some(*value))];
            text.push_str(&line(fields.into_iter().chain(point.iter().map(String::as_str))));
        }
    }
    text
}

/// The study's factors, and those that a treatment has in addition to them.
fn factors(document: &Document) -> Vec<String> {
    let of_study = document.run.factors.iter().map(|(key, _)| key);
    let of_trials = document.trials.iter().flat_map(|trial| &trial.arms).map(|arm| &arm.treatment);
    let treatments = document.estimates.iter().map(|row| &row.treatment).chain(of_trials);
    distinct(of_study.chain(treatments.flat_map(Treatment::keys)).cloned())
}

fn levels(factors: &[String], treatment: &Treatment) -> Vec<String> {
    factors.iter().map(|key| treatment.get(key).cloned().unwrap_or_default()).collect()
}

fn joined(head: &[String], levels: &[String], tail: &[String]) -> String {
    line([head, levels, tail].into_iter().flatten())
}

/// A line of fields.
pub fn line<F: AsRef<[u8]>>(fields: impl IntoIterator<Item = F>) -> String {
    let mut writer = csv::WriterBuilder::new().terminator(csv::Terminator::CRLF).from_writer(Vec::new());
    // A vector takes everything.
    let _ = writer.write_record(fields);
    String::from_utf8(writer.into_inner().unwrap_or_default()).unwrap_or_default()
}

/// A number in full; nothing where there is none.
fn number(value: Option<f64>) -> String {
    value.filter(|value| value.is_finite()).map(|value| value.to_string()).unwrap_or_default()
}

fn outcome(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Equivalent => "equivalent",
        Outcome::SlowerByMore => "slower_by_more",
        Outcome::FasterByMore => "faster_by_more",
        Outcome::Slower => "slower",
        Outcome::Faster => "faster",
        Outcome::NoLarger => "no_larger",
        Outcome::NotEnough => "not_enough",
        Outcome::Emulated => "emulated",
    }
}
