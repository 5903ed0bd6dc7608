//! The rows of a run's answer: what each comparison gave, with both values, their unit and number, and the published ratio of the same.
//! The first screens of every format lay these out.

use crate::agreement::{Counterpart, counterpart};
use crate::grid::{estimated, readable};
use crate::number::count;
use crate::per_workload::Part;
use crate::text::clean;
use crate::treatment::{ENVIRONMENT, Factors, join, list};
use crate::words::{limits_of, ratio_of};
use baremark_model::document::{Document, EstimateRow, Outcome, RatioRow};
use baremark_model::environments;
use baremark_model::order;
use baremark_model::plan::{Contrast, Treatment};
use std::cmp::Ordering;

/// A row of the answer.
pub(crate) struct Compared<'d> {
    /// The treatment, as far as it varies.
    pub label: String,
    /// The document of its workload.
    pub document: &'d Document,
    /// What was compared; `None` of a treatment that stands alone.
    pub ratio: Option<&'d RatioRow>,
    /// The values; `None` where no trial counts.
    pub evidence: Option<Evidence<'d>>,
}

/// What a row is read from.
pub(crate) struct Evidence<'d> {
    /// What the two sides are called, the reference first; equal where they are one.
    pub sides: [String; 2],
    /// The reference's value and its estimate; `None` where there is none.
    pub reference: Option<(String, &'d EstimateRow)>,
    /// The value and its estimate.
    pub value: (String, &'d EstimateRow),
    /// The unit of both.
    pub unit: String,
    /// Blocks of a ratio, else trials.
    pub n: usize,
    /// The published ratio of the same, and what differs from it.
    pub published: Option<Counterpart>,
}

impl<'d> Evidence<'d> {
    fn of_ratio(document: &'d Document, row: &RatioRow) -> Option<Self> {
        let of = |treatment: &Treatment| document.estimate_of(&row.metric, treatment);
        let above = of(&row.treatment)?;
        let below = of(&row.relative_to).filter(|_| row.treatment != row.relative_to);
        let (per, unit) = readable(&clean(&above.unit), below.into_iter().chain([above]).map(|row| row.estimate));
        Some(Evidence {
            sides: sides(document, row),
            reference: below.map(|below| (estimated(below, per), below)),
            value: (estimated(above, per), above),
            unit,
            n: row.blocks,
            published: counterpart(document, row),
        })
    }

    fn of_value(document: &Document, row: &'d EstimateRow) -> Self {
        let (per, unit) = readable(&clean(&row.unit), [row.estimate].into_iter());
        let name = Factors::of(&document.run).name(&row.treatment);
        let value = (estimated(row, per), row);
        Evidence { sides: [name.clone(), name], reference: None, value, unit, n: row.n, published: None }
    }

    /// `native 0.0761 ± 0.0015, microvm 0.0757 ± 0.0012 GUP/s; n=7`
    pub(crate) fn words(&self) -> String {
        let reference = self.reference.as_ref().map(|(value, _)| format!("{} {value}, ", self.sides[0]));
        let unit = if self.unit.is_empty() { String::new() } else { format!(" {}", self.unit) };
        let (reference, n) = (reference.unwrap_or_default(), self.n);
        let published = self.published.as_ref().map(|of| format!("; {}", of.words())).unwrap_or_default();
        format!("{reference}{} {}{unit}; n={n}{published}", self.sides[1], self.value.0)
    }
}

/// What a ratio is read from; `None` where its value is not known.
pub(crate) fn evidence<'d>(document: &'d Document, row: &RatioRow) -> Option<Evidence<'d>> {
    Evidence::of_ratio(document, row)
}

/// What distinguishes the reference of a ratio, and what it is compared with: their environments, or else the levels that differ.
fn sides(document: &Document, row: &RatioRow) -> [String; 2] {
    let (above, below) = places(row);
    if above != below {
        return [below, above].map(clean);
    }
    let factors = Factors::of(&document.run);
    let shared: Vec<&str> = row
        .treatment
        .iter()
        .filter(|(key, level)| row.relative_to.get(*key) == Some(*level))
        .map(|(key, _)| key.as_str())
        .collect();
    [&row.relative_to, &row.treatment].map(|of| match factors.levels(of, &shared) {
        levels if levels.is_empty() => factors.name(of),
        levels => join(&levels),
    })
}

/// The environment in which all ran that was measured, where that is one.
pub(crate) fn only_place(document: &Document) -> Option<&str> {
    let mut places = document.estimates.iter().map(|row| environments::of(&row.treatment));
    let first = places.next()?;
    places.all(|other| other == first).then_some(first)
}

/// Every comparison of the headline's metrics, workload by workload; where nothing is compared, every value of them.
pub(crate) fn compared<'d>(parts: &'d [Part<'d>]) -> Vec<Compared<'d>> {
    let ratios = || parts.iter().flat_map(|part| headline(&part.document).map(move |row| (part, row)));
    if ratios().next().is_none() {
        let rows = parts.iter().flat_map(|part| {
            let document: &Document = &part.document;
            let own = document.estimates.iter().filter(|row| row.metric == document.run.metric);
            own.map(move |row| Compared {
                label: labelled(part, &row.treatment),
                document,
                ratio: None,
                evidence: Some(Evidence::of_value(document, row)),
            })
        });
        return rows.collect();
    }
    let with_place = !one_place(parts);
    let mut all = ratios().map(|(_, row)| differing(row));
    let first = all.next();
    // Where all rows compare the same two levels, these are heads of columns.
    let between =
        first.filter(|first| !first.contains(&ENVIRONMENT) && all.all(|other| other == *first)).unwrap_or_default();
    let labels: Vec<String> = ratios().map(|(part, row)| name_without(part, row, with_place, &between)).collect();
    let distinct = labels.iter().enumerate().all(|(at, label)| !label.is_empty() && !labels[..at].contains(label));
    let rows = ratios().zip(labels).map(|((part, row), label)| Compared {
        label: if distinct { label } else { name(part, row, with_place) },
        document: &part.document,
        ratio: Some(row),
        evidence: Evidence::of_ratio(&part.document, row),
    });
    rows.collect()
}

/// The factors whose levels differ between the sides of a ratio.
fn differing(row: &RatioRow) -> Vec<&str> {
    let differs = |key: &&String| row.treatment.get(*key) != row.relative_to.get(*key);
    row.treatment.keys().filter(differs).map(String::as_str).collect()
}

/// As [`name`], without the levels of these factors; empty where that leaves none.
fn name_without(part: &Part<'_>, row: &RatioRow, with_place: bool, without: &[&str]) -> String {
    let levels = levels(part, row, with_place).into_iter().filter(|(key, _)| !without.contains(key));
    let levels = list(&levels.collect::<Vec<_>>());
    match part.name.map(clean) {
        Some(name) if levels.is_empty() => name,
        Some(name) => format!("{name}, {levels}"),
        None => levels,
    }
}

/// A treatment with its workload, where there are several. Where all that was measured ran in one environment, its other levels say which it is.
pub(crate) fn labelled(part: &Part<'_>, treatment: &Treatment) -> String {
    let factors = Factors::of(&part.document.run);
    let rest = list(&factors.levels(treatment, &[ENVIRONMENT]));
    let label = if only_place(&part.document).is_some() && !rest.is_empty() { rest } else { factors.name(treatment) };
    match part.name.map(clean).filter(|name| *name != label) {
        Some(name) => format!("{name}, {label}"),
        None => label,
    }
}

/// How soon a ratio should be seen: losses, the worst first; what is open, the widest first; gains, the largest first; what is alike, and what has
/// no interval.
pub(crate) fn urgency(row: Option<&RatioRow>) -> (u8, f64) {
    let Some(row) = row else { return (5, 0.0) };
    let size = ratio_of(row).map_or(0.0, |ratio| ratio.ln().abs());
    let length = limits_of(row).map_or(0.0, |(lo, hi)| (hi / lo).ln());
    match row.outcome {
        Outcome::SlowerByMore | Outcome::Slower => (0, -size),
        Outcome::NoLarger => (1, -length),
        Outcome::FasterByMore | Outcome::Faster => (2, -size),
        Outcome::Equivalent => (3, 0.0),
        Outcome::NotEnough | Outcome::Emulated => (4, 0.0),
    }
}

/// How many of these rows are shown, the first of them, and the others counted: at most so many, and of those that have no value none where
/// others have one. They stay in the study's order where all fit that have a value.
pub(crate) fn shown<R>(rows: &mut [R], most: usize, of: impl Fn(&R) -> Option<&RatioRow>) -> usize {
    let is_empty = |row: &R| of(row).is_some_and(|ratio| ratio_of(ratio).is_none());
    let valued = rows.iter().filter(|row| !is_empty(row)).count();
    let valued = if valued == 0 { rows.len() } else { valued };
    if valued <= most {
        order::by_key(rows, |row| is_empty(row));
    } else {
        order::by(rows, |one, two| urgency(of(one)).partial_cmp(&urgency(of(two))).unwrap_or(Ordering::Equal));
    }
    valued.min(most)
}

/// What rows come to that are not shown one by one: `2 worse, 3 inconclusive, 7 equivalent`.
pub(crate) fn counted<'r>(rows: impl Iterator<Item = Option<&'r RatioRow>>) -> String {
    const CLASSES: [&str; 6] =
        ["worse", "inconclusive", "better", "equivalent", "without enough data", "without a ratio"];
    let mut counts = [0_u64; CLASSES.len()];
    rows.for_each(|row| counts[usize::from(urgency(row).0)] += 1);
    let named = counts.iter().zip(CLASSES).filter(|(count, _)| **count > 0);
    named.map(|(count, class)| format!("{count} {class}")).collect::<Vec<_>>().join(", ")
}

/// The headline where nothing is compared: the values of the headline's metrics, or their range where they are many.
pub(crate) fn values(parts: &[Part<'_>]) -> Option<String> {
    /// Values that are named one by one.
    const MOST: usize = 3;
    let of_part = |part: &Part<'_>| {
        let document: &Document = &part.document;
        let shown = |row: &EstimateRow| {
            let evidence = Evidence::of_value(document, row);
            let value = format!("{} {}", evidence.value.0, evidence.unit).trim_end().to_owned();
            (value, row.estimate, labelled(part, &row.treatment), row.n)
        };
        let own = document.estimates.iter().filter(|row| row.metric == document.run.metric);
        let mut values: Vec<(String, f64, String, usize)> = own.map(shown).collect();
        let of = part.name.map(|name| format!("{}: ", clean(name))).unwrap_or_default();
        Some(match values.as_slice() {
            [] => return None,
            [(value, _, _, n)] => format!("{of}{value} ({})", count(*n as u64, "trial")),
            several if several.len() <= MOST => {
                let each: Vec<String> =
                    several.iter().map(|(value, _, label, _)| format!("{label}: {value}")).collect();
                each.join("; ")
            }
            _ => {
                order::by(&mut values, |one, two| one.1.total_cmp(&two.1));
                let (least, most) = (values.first()?, values.last()?);
                format!("{of}{} ({}) to {} ({})", least.0, least.2, most.0, most.2)
            }
        })
    };
    let found: Vec<String> = parts.iter().filter_map(of_part).collect();
    (!found.is_empty()).then(|| format!("{}.", found.join(". ")))
}

/// The ratios that answer the study. Those of page sizes explain others, and answer where there are no others.
pub(crate) fn headline(document: &Document) -> impl Iterator<Item = &RatioRow> {
    let of_metric = || document.ratios.iter().filter(|row| row.metric == document.run.metric);
    let pages_alone = of_metric().all(|row| row.contrast.explains());
    of_metric().filter(move |row| pages_alone || !row.contrast.explains())
}

/// Whether all ratios are of the same two environments.
pub(crate) fn one_place(parts: &[Part<'_>]) -> bool {
    let mut places = parts.iter().flat_map(|part| headline(&part.document)).map(places);
    let first = places.next();
    places.all(|other| Some(other) == first)
}

pub(crate) fn places(row: &RatioRow) -> (&str, &str) {
    [&row.treatment, &row.relative_to].map(environments::of).into()
}

/// "random-access, 4k pages"
pub(crate) fn name(part: &Part<'_>, row: &RatioRow, with_place: bool) -> String {
    let factors = Factors::of(&part.document.run);
    let levels = list(&levels(part, row, with_place));
    match (part.name.map(clean), levels.is_empty()) {
        (Some(name), true) => name,
        (Some(name), false) => format!("{name}, {levels}"),
        (None, false) => levels,
        (None, true) => factors.name(&row.treatment),
    }
}

/// The varying factors of a ratio's treatment with their levels.
pub(crate) fn levels<'r>(part: &Part<'_>, row: &'r RatioRow, with_place: bool) -> Vec<(&'r str, &'r str)> {
    let without: &[&str] = if with_place { &[] } else { &[ENVIRONMENT] };
    Factors::of(&part.document.run).levels(&row.treatment, without)
}

/// What the ratios are of, where that is the same for all: `microvm / native`.
pub(crate) fn heading(parts: &[Part<'_>], first: Option<&RatioRow>) -> String {
    match first.filter(|row| one_place(parts) && row.contrast == Contrast::Environment) {
        Some(row) => {
            let (above, below) = places(row);
            format!("{} / {}", clean(above), clean(below))
        }
        None => "ratio".to_owned(),
    }
}

pub(crate) fn headline_of<'p>(part: &'p Part<'_>) -> impl Iterator<Item = &'p RatioRow> {
    headline(&part.document).filter(|row| row.contrast != Contrast::SelfCheck)
}
