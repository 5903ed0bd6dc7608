//! The study's table: one factor down the side, one along the top, estimates with their ratios in the cells.
//!
//! A treatment to which a factor does not apply (native has no host backing, and is not divided among guests) is in
//! every row and every column that it agrees with, as the base does in a published table. What this machine cannot run
//! keeps its cell, with the reason below.

use crate::number::{self, Digits, fixed, ratio_decimals};
use crate::text::clean;
use crate::treatment::{ENVIRONMENT, Factors, list, phrase};
use crate::words::{self, Quantity, Tone, limits_of, ratio_of};
use baremark_model::document::{Document, EstimateRow, PredictionRow, RatioRow};
use baremark_model::environments;
use baremark_model::plan::{Contrast, Treatment};

/// The only column where the columns' factor applies to nothing.
const EVERYWHERE: &str = "all";

/// A table as data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Grid {
    /// What the numbers are.
    pub caption: String,
    /// Heads of the columns.
    pub columns: Vec<String>,
    /// The rows.
    pub rows: Vec<GridRow>,
    /// Reasons for what is not available, in the order of their numbers.
    pub reasons: Vec<String>,
}

/// One row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GridRow {
    /// Its levels in words.
    pub label: String,
    /// One cell for each column.
    pub cells: Vec<Cell>,
}

/// One cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Cell {
    /// The study does not ask for it, or there is no such value.
    Blank,
    /// This machine cannot run it: the reason's number, from 1.
    Absent(usize),
    /// This machine cannot run it, but its ratio is predicted.
    Predicted {
        /// The reason's number, from 1.
        reason: usize,
        /// The ratio with its interval.
        ratio: String,
    },
    /// It was measured.
    Measured {
        /// The estimate with its half-width.
        estimate: String,
        /// Its ratio, where one was requested.
        ratio: Option<RatioCell>,
    },
    /// It was to be measured and no trial counts.
    Nothing,
}

/// A ratio in a cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RatioCell {
    /// The estimate: `0.8475`.
    pub value: String,
    /// Its interval: `0.8440 to 0.8510`; empty where there is none.
    pub interval: String,
    /// Half of it: ` ± 0.0035`; empty where there is none.
    pub half_width: String,
    /// The verdict in words; empty for a contrast of page sizes.
    pub verdict: String,
    /// The verdict in a word or two.
    pub short: String,
    /// How it is to be taken.
    pub tone: Tone,
}

/// The number of a reason, from 1; one that is not among them is added.
pub(crate) fn numbered(reasons: &mut Vec<String>, reason: &str) -> usize {
    let known = reasons.iter().position(|text| text == reason);
    1 + known.unwrap_or_else(|| {
        reasons.push(reason.to_owned());
        reasons.len() - 1
    })
}

/// The table of one metric; `None` where nothing was measured and nothing is absent.
pub(crate) fn grid(document: &Document, metric: &str) -> Option<Grid> {
    let layout = Layout::of(document);
    if layout.columns.is_empty() {
        return None;
    }
    let mut reasons: Vec<String> = Vec::new();
    let rows = layout
        .rows
        .iter()
        .map(|row| GridRow {
            label: list(&layout.factors.levels(row, &[])),
            cells: layout.columns.iter().map(|column| layout.cell((metric, 1.0), row, column, &mut reasons)).collect(),
        })
        .collect();
    Some(Grid { caption: caption(document, metric), columns: layout.heads(), rows, reasons })
}

/// Metrics of which no ratio was requested in one table, a row for each and its levels; `None` where nothing of them was
/// measured.
pub(crate) fn others(document: &Document, metrics: &[&str]) -> Option<Grid> {
    let layout = Layout::of(document);
    let mut reasons = Vec::new();
    let mut rows = Vec::new();
    for metric in metrics {
        let values = document.estimates.iter().filter(|row| row.metric == *metric).map(|row| row.estimate);
        let (per, unit) = readable(&Quantity::of(document, metric).unit, values);
        for row in &layout.rows {
            let cells: Vec<Cell> =
                layout.columns.iter().map(|column| layout.cell((metric, per), row, column, &mut reasons)).collect();
            if cells.iter().any(|cell| matches!(cell, Cell::Measured { .. })) {
                let levels = list(&layout.factors.levels(row, &[]));
                let levels = if levels.is_empty() { levels } else { format!(", {levels}") };
                let unit = if unit.is_empty() { String::new() } else { format!(" ({unit})") };
                rows.push(GridRow { label: format!("{}{unit}{levels}", clean(metric)), cells });
            }
        }
    }
    let mut grid =
        Grid { caption: "Other metrics (value ± 95 % interval)".to_owned(), columns: layout.heads(), rows, reasons };
    // What nothing was measured of is in the headline's table, with the reason.
    let measured = |column: usize| grid.rows.iter().any(|row| matches!(row.cells[column], Cell::Measured { .. }));
    let kept: Vec<bool> = (0..grid.columns.len()).map(measured).collect();
    let mut keep = kept.iter();
    grid.columns.retain(|_| keep.next() == Some(&true));
    for row in &mut grid.rows {
        let mut keep = kept.iter();
        row.cells.retain(|_| keep.next() == Some(&true));
    }
    let refers = grid
        .rows
        .iter()
        .flat_map(|row| &row.cells)
        .any(|cell| matches!(cell, Cell::Absent(_) | Cell::Predicted { .. }));
    if !refers {
        grid.reasons.clear();
    }
    (!grid.rows.is_empty()).then_some(grid)
}

/// What the members of each ensemble had alone, alongside all of them together: one table for each treatment.
pub(crate) fn members(document: &Document) -> Vec<Grid> {
    let factors = Factors::of(&document.run);
    let mut treatments: Vec<&Treatment> = document.members.iter().map(|row| &row.treatment).collect();
    treatments.dedup();
    treatments.into_iter().map(|treatment| members_of(document, &factors, treatment)).collect()
}

fn members_of(document: &Document, factors: &Factors<'_>, treatment: &Treatment) -> Grid {
    let own: Vec<_> = document.members.iter().filter(|row| row.treatment == *treatment).collect();
    let count = own.iter().map(|row| row.member + 1).max().unwrap_or(0);
    let mut metrics: Vec<(&str, &str, &str)> =
        own.iter().map(|row| (row.metric.as_str(), row.unit.as_str(), row.together.as_str())).collect();
    metrics.dedup();
    let row = |(metric, unit, together): (&str, &str, &str)| {
        let (per, unit) = readable(&clean(unit), own.iter().filter(|row| row.metric == metric).map(|row| row.estimate));
        let cell = |found: Option<(f64, Option<f64>, Option<f64>)>| match found {
            Some((value, lo, hi)) => Cell::Measured {
                estimate: number::estimate(value / per, lo.map(|lo| lo / per), hi.map(|hi| hi / per)),
                ratio: None,
            },
            None => Cell::Blank,
        };
        let of = |member: usize| {
            let found = own.iter().find(|row| row.metric == metric && row.member == member);
            cell(found.map(|row| (row.estimate, row.lo, row.hi)))
        };
        let all = document.estimate_of(metric, treatment);
        let together_cell = cell(all.map(|row| (row.estimate, row.lo, row.hi)));
        let unit = if unit.is_empty() { String::new() } else { format!(" ({unit})") };
        GridRow {
            label: format!("{}{unit}; together: {}", clean(metric), clean(together)),
            cells: (0..count).map(of).chain([together_cell]).collect(),
        }
    };
    Grid {
        caption: format!("Members of {}, each alone, and together", factors.name(treatment)),
        columns: (1..=count).map(|member| format!("member {member}")).chain(["together".to_owned()]).collect(),
        rows: metrics.into_iter().map(row).chain(fairness(document, treatment, count)).collect(),
        reasons: Vec::new(),
    }
}

/// How evenly the members fared, in the column of what they came to together.
fn fairness(document: &Document, treatment: &Treatment, count: usize) -> Option<GridRow> {
    let row = document.fairness.iter().find(|row| row.treatment == *treatment)?;
    let index = Cell::Measured { estimate: number::estimate(row.estimate, row.lo, row.hi), ratio: None };
    let alone = std::iter::repeat_with(|| Cell::Blank).take(count);
    Some(GridRow {
        label: format!("fairness of {} (Jain's index; 1 is even)", clean(&row.metric)),
        cells: alone.chain([index]).collect(),
    })
}

/// The unit in which all of these values can be read, and how many of their own it is: 100000000 ns are 100 ms.
pub(crate) fn readable(unit: &str, values: impl Iterator<Item = f64>) -> (f64, String) {
    let least = values.map(f64::abs).fold(f64::INFINITY, f64::min);
    match (unit, least) {
        ("s", 1e-12..1e-4) => (1e-6, "us".to_owned()),
        ("s", 1e-4..0.1) => (1e-3, "ms".to_owned()),
        ("ns", 1e9..1e18) => (1e9, "s".to_owned()),
        ("ns", 1e5..1e9) => (1e6, "ms".to_owned()),
        _ => (1.0, unit.to_owned()),
    }
}

fn caption(document: &Document, metric: &str) -> String {
    let quantity = Quantity::of(document, metric);
    let ratios = document.ratios.iter().any(|row| row.metric == metric && !row.contrast.explains());
    let below = if ratios { "; below it the ratio" } else { "" };
    format!("{} (value ± 95 % interval{below})", quantity.caption())
}

struct Layout<'d> {
    document: &'d Document,
    factors: Factors<'d>,
    columns: Vec<String>,
    rows: Vec<Treatment>,
}

impl<'d> Layout<'d> {
    fn of(document: &'d Document) -> Self {
        let factors = Factors::of(&document.run);
        let along = document.run.columns.as_str();
        let measured = document.estimates.iter().map(|row| &row.treatment);
        let tried = document.trials.iter().flat_map(|trial| trial.arms.iter().map(|arm| &arm.treatment));
        let all: Vec<&Treatment> =
            measured.chain(document.absent.iter().map(|row| &row.treatment)).chain(tried).collect();
        let mut columns: Vec<String> = Vec::new();
        let mut rows: Vec<Treatment> = Vec::new();
        for treatment in all {
            if let Some(label) = column_of(treatment, along)
                && !columns.iter().any(|column| column == label)
            {
                columns.push(label.to_owned());
            }
            let rest = factors.levels(treatment, &[along]);
            let row: Treatment = rest.iter().map(|(key, label)| ((*key).to_owned(), (*label).to_owned())).collect();
            if !rows.contains(&row) {
                rows.push(row);
            }
        }
        baremark_model::order::by_key(&mut columns, |label| factors.rank(along, label));
        if columns.is_empty() && !rows.is_empty() {
            columns.push(EVERYWHERE.to_owned());
        }
        let whole = rows.clone();
        rows.retain(|row| !whole.iter().any(|other| other.len() > row.len() && agrees(row, other)));
        let down = document.run.rows.as_deref();
        baremark_model::order::by_key(&mut rows, |row| order(&factors, row, down));
        Layout { document, factors, columns, rows }
    }

    fn heads(&self) -> Vec<String> {
        let along = &self.document.run.columns;
        let head = |column: &String| if column == EVERYWHERE { column.clone() } else { phrase(along, column) };
        self.columns.iter().map(head).collect()
    }

    /// The cell of a metric, in units of which one is so many of its own.
    fn cell(&self, (metric, per): (&str, f64), row: &Treatment, column: &str, reasons: &mut Vec<String>) -> Cell {
        let along = self.document.run.columns.as_str();
        let here = |treatment: &Treatment| {
            let rest = treatment.iter().filter(|(key, _)| *key != along);
            column_of(treatment, along).is_none_or(|own| own == column)
                && rest.clone().all(|(k, label)| row.get(k).is_none_or(|l| l == label))
        };
        let document = self.document;
        if let Some(found) = document.estimates.iter().find(|row| row.metric == metric && here(&row.treatment)) {
            let of_it = |ratio: &&RatioRow| ratio.metric == metric && ratio.treatment == found.treatment;
            let wanted = document.ratios.iter().filter(of_it).find(|ratio| !ratio.contrast.explains());
            return measured(document, found, per, wanted);
        }
        if let Some(absent) = document.absent.iter().find(|absent| here(&absent.treatment)) {
            let reason = numbered(reasons, &clean(&absent.reason));
            let of_it = |row: &&PredictionRow| row.metric == metric && row.treatment == absent.treatment;
            return match document.predictions.iter().find(of_it) {
                Some(row) => Cell::Predicted { reason, ratio: predicted_ratio(row) },
                None => Cell::Absent(reason),
            };
        }
        // What other metrics have a value of has none of this one: packets that a stream cannot lose.
        if document.estimates.iter().any(|row| here(&row.treatment)) {
            return Cell::Blank;
        }
        let tried = document.trials.iter().any(|trial| trial.arms.iter().any(|arm| here(&arm.treatment)));
        if tried { Cell::Nothing } else { Cell::Blank }
    }
}

/// A predicted ratio with its interval: `0.85 (0.78 to 0.89)`.
pub(crate) fn predicted_ratio(row: &PredictionRow) -> String {
    let decimals = ratio_decimals(row.ratio, Some((row.lo, row.hi)), 1.0, Digits::Two);
    format!("{} ({} to {})", fixed(row.ratio, decimals), fixed(row.lo, decimals), fixed(row.hi, decimals))
}

fn measured(document: &Document, row: &EstimateRow, per: f64, ratio: Option<&RatioRow>) -> Cell {
    Cell::Measured { estimate: estimated(row, per), ratio: ratio.and_then(|ratio| ratio_cell(document, ratio)) }
}

/// An estimate in units of which one is so many of its own, with the number of its trials where that is smaller than its row's.
pub(crate) fn estimated(row: &EstimateRow, per: f64) -> String {
    let value = number::estimate(row.estimate / per, row.lo.map(|lo| lo / per), row.hi.map(|hi| hi / per));
    if row.over.is_some() { format!("{value}, n = {}", row.n) } else { value }
}

/// A ratio as a table shows it; `None` where no block counts.
pub(crate) fn ratio_cell(document: &Document, row: &RatioRow) -> Option<RatioCell> {
    let ratio = ratio_of(row)?;
    let limits = limits_of(row);
    let places = ratio_decimals(ratio, limits, 1.0, Digits::Two);
    let interval = limits.map(|(lo, hi)| format!("{} to {}", fixed(lo, places), fixed(hi, places)));
    let half_width = limits.map(|(lo, hi)| match number::is_skewed(ratio, lo, hi) {
        true => format!(" ({})", number::range(lo, hi, ratio)),
        false => format!(" ± {}", fixed((hi - lo) / 2.0, places)),
    });
    let (verdict, short) = match row.contrast {
        Contrast::PageSize | Contrast::Frames => (String::new(), String::new()),
        Contrast::SelfCheck => {
            let found = match limits {
                Some((lo, hi)) if (lo..=hi).contains(&1.0) => "no difference found",
                Some(_) => "differs from itself",
                None => "too few blocks",
            };
            (found.to_owned(), found.to_owned())
        }
        _ => (words::outcome(document, row), words::short(document, row)),
    };
    Some(RatioCell {
        value: fixed(ratio, places),
        interval: interval.unwrap_or_default(),
        half_width: half_width.unwrap_or_default(),
        verdict,
        short,
        tone: words::tone(row),
    })
}

/// A treatment's level of the columns' factor, where that applies to it. Native is what runs where no environment varies.
fn column_of<'t>(treatment: &'t Treatment, along: &str) -> Option<&'t str> {
    let level = treatment.get(along).map(String::as_str);
    level.or_else(|| (along == ENVIRONMENT).then_some(environments::NATIVE))
}

/// Whether `row` says nothing that `other` does not.
fn agrees(row: &Treatment, other: &Treatment) -> bool {
    row.iter().all(|(key, label)| other.get(key) == Some(label))
}

fn order(factors: &Factors<'_>, row: &Treatment, first: Option<&str>) -> Vec<usize> {
    let mut levels = factors.levels(row, &[]);
    baremark_model::order::by_key(&mut levels, |(key, _)| Some(*key) != first);
    levels.iter().map(|(key, label)| factors.rank(key, label)).collect()
}

#[cfg(test)]
mod tests {
    use super::readable;

    #[test]
    fn times_are_shown_in_units_that_can_be_read() {
        let of = |unit: &str, values: &[f64]| readable(unit, values.iter().copied());
        assert_eq!(of("ns", &[8.3e7, 1.0e8]), (1e6, "ms".to_owned()));
        assert_eq!(of("s", &[0.0071, 0.0305]), (1e-3, "ms".to_owned()));
        assert_eq!(of("s", &[0.5, 3.0]), (1.0, "s".to_owned()));
        assert_eq!(of("ns", &[8.3e9]), (1e9, "s".to_owned()));
        assert_eq!(of("ns", &[812.0, 1.0e8]), (1.0, "ns".to_owned()), "the shortest must stay readable, too");
        assert_eq!(of("MB/s", &[1.0e8]), (1.0, "MB/s".to_owned()));
        assert_eq!(of("ns", &[]), (1.0, "ns".to_owned()));
    }
}
