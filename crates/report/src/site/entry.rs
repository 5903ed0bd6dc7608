//! What a site shows of a run; its document is not needed any more.

use crate::answer::{Compared, compared, counted, urgency};
use crate::number::{self, Digits};
use crate::per_workload::parts;
use crate::summary::hardware;
use crate::text::clean;
use crate::treatment::Factors;
use crate::words::{Tone, limits_of, ratio_of, short, tone};
use baremark_model::document::{Document, EstimateRow, RatioRow};
use baremark_model::plan::Treatment;
use std::cmp::Ordering;

/// Quantities of a run that can be compared with those of another; of a study with more the first.
const MOST_QUANTITIES: usize = 64;
/// Characters of a text that is cut in rows.
const MOST_CHARACTERS: usize = 160;

/// A run's part of the site.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Entry {
    /// Its name.
    pub(super) id: String,
    /// The file of its report.
    pub(super) page: String,
    /// Where it comes from, such as `store` or `bundle, verified`.
    pub(super) source: String,
    /// Whether it measures.
    pub(super) live: bool,
    /// The study's question, by which runs are grouped.
    pub(super) title: String,
    /// The same as it is shown: cut, and with how it was run.
    pub(super) study: String,
    /// What kind of work it does.
    pub(super) kind: String,
    /// The machine, without what an update changes.
    pub(super) machine: String,
    /// When it began, RFC 3339.
    pub(super) started: String,
    /// The version of baremark.
    pub(super) version: String,
    /// What matters most in it.
    pub(super) answer: Highlight,
    /// Everything that can be compared with other runs.
    pub(super) quantities: Vec<Quantity>,
}

/// What matters most in a run: of several comparisons the worst.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Highlight {
    /// What the value and the ratio are of.
    pub of: String,
    /// The value with its unit.
    pub value: String,
    /// The ratio with its interval; empty where nothing is compared.
    pub ratio: String,
    /// The outcome in a few words.
    pub verdict: String,
    /// The class of its colour.
    pub tone: &'static str,
    /// What the other comparisons came to; empty where there are none.
    pub others: String,
    /// The name of the quantity whose history is drawn.
    pub drawn: String,
}

/// A value or a ratio.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Quantity {
    /// What it is of: the same in all runs of a study.
    pub name: String,
    /// The unit; empty for a ratio.
    pub unit: String,
    pub value: f64,
    pub limits: Option<(f64, f64)>,
}

impl Entry {
    /// Of a run whose report is in the file `page`, alongside the index; `source` is where the run comes from.
    #[must_use]
    pub fn of(document: &Document, page: &str, source: &str, live: bool) -> Entry {
        let run = &document.run;
        let quick = if run.mode.quick { " (quick)" } else { "" };
        Entry {
            id: clean(&run.id),
            page: page.to_owned(),
            source: source.to_owned(),
            live,
            title: clean(&run.study),
            study: format!("{}{quick}{}", cut(&run.study), if run.mode.self_check { " (A/A)" } else { "" }),
            kind: kind(document),
            machine: cut(&hardware(document)),
            started: clean(&run.started),
            version: clean(&run.version),
            answer: answer(document),
            quantities: quantities(document),
        }
    }
}

impl Entry {
    /// The run's name.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The file of its report.
    #[must_use]
    pub fn page(&self) -> &str {
        &self.page
    }
}

fn kind(document: &Document) -> String {
    match document.run.workloads.len() {
        0 => clean(&document.run.workload),
        several => format!("{several} workloads"),
    }
}

fn cut(text: &str) -> String {
    let text = clean(text);
    match text.char_indices().nth(MOST_CHARACTERS) {
        Some((at, _)) => format!("{}\u{2026}", &text[..at]),
        None => text,
    }
}

/// The row that should be seen first, with a value where one has any.
fn answer(document: &Document) -> Highlight {
    let parts = parts(document);
    let rows = compared(&parts);
    let rank = |row: &&Compared<'_>| (row.evidence.is_none(), urgency(row.ratio));
    let first = rows.iter().min_by(|one, two| rank(one).partial_cmp(&rank(two)).unwrap_or(Ordering::Equal));
    let Some(first) = first else {
        let verdict = if document.estimates.is_empty() { "no result" } else { "no value of the headline's metric" };
        return Highlight { verdict: verdict.to_owned(), tone: "open", ..Highlight::default() };
    };
    let others = rows.iter().filter(|row| !std::ptr::eq(*row, first));
    let others = match (rows.len(), first.ratio) {
        (1, _) => String::new(),
        (_, Some(_)) => counted(others.map(|row| row.ratio)),
        (several, None) => format!("{} more", number::count(several as u64 - 1, "value")),
    };
    let value = first.evidence.as_ref().map(|found| format!("{} {}", found.value.0, found.unit).trim_end().to_owned());
    let mut answer = Highlight { value: value.unwrap_or_default(), others, ..Highlight::default() };
    let several = has_several(document);
    match first.ratio {
        Some(row) => {
            answer.of = name_of(first.document, several, &row.metric, &row.treatment, Some(&row.relative_to));
            answer.ratio = ratio_text(row).unwrap_or_default();
            answer.verdict = cut(&short(first.document, row));
            answer.tone = match tone(row) {
                Tone::Plain => "",
                Tone::Differs => "differs",
                Tone::Alike => "alike",
                Tone::Open => "open",
            };
        }
        None => {
            let name = |row: &EstimateRow| name_of(first.document, several, &row.metric, &row.treatment, None);
            answer.of = first.evidence.as_ref().map(|of| name(of.value.1)).unwrap_or_default();
        }
    }
    answer.drawn = answer.of.clone();
    answer
}

/// `0.95 (0.93 to 0.97)`
fn ratio_text(row: &RatioRow) -> Option<String> {
    let (ratio, limits) = (ratio_of(row)?, limits_of(row));
    let places = number::ratio_decimals(ratio, limits, 1.0, Digits::Two);
    let fixed = |value| number::fixed(value, places);
    let interval = limits.map(|(lo, hi)| format!(" ({} to {})", fixed(lo), fixed(hi)));
    Some(format!("{}{}", fixed(ratio), interval.unwrap_or_default()))
}

/// "gups: microvm with 4k pages / native with 4k pages"; of several workloads with its own in front.
fn name_of(part: &Document, several: bool, metric: &str, above: &Treatment, below: Option<&Treatment>) -> String {
    let factors = Factors::of(&part.run);
    let workload = if several { format!("{}, ", clean(&part.run.workload)) } else { String::new() };
    let below = below.map(|below| format!(" / {}", factors.name(below))).unwrap_or_default();
    cut(&format!("{workload}{}: {}{below}", clean(metric), factors.name(above)))
}

/// Whether a study has several workloads, whose names distinguish its quantities.
fn has_several(document: &Document) -> bool {
    !document.run.workloads.is_empty()
}

/// The ratios and values of the headlines' metrics.
fn quantities(document: &Document) -> Vec<Quantity> {
    let (parts, several) = (parts(document), has_several(document));
    let (mut ratios, mut values) = (Vec::new(), Vec::new());
    for part in &parts {
        let of: &Document = &part.document;
        let own = of.ratios.iter().filter(|row| row.metric == of.run.metric && !row.contrast.explains());
        ratios.extend(own.filter_map(|row| {
            Some(Quantity {
                name: name_of(of, several, &row.metric, &row.treatment, Some(&row.relative_to)),
                unit: String::new(),
                value: ratio_of(row)?,
                limits: limits_of(row),
            })
        }));
        let own = of.estimates.iter().filter(|row| row.metric == of.run.metric && row.estimate.is_finite());
        values.extend(own.map(|row| Quantity {
            name: name_of(of, several, &row.metric, &row.treatment, None),
            unit: clean(&row.unit),
            value: row.estimate,
            limits: row.lo.zip(row.hi),
        }));
    }
    ratios.into_iter().chain(values).take(MOST_QUANTITIES).collect()
}
