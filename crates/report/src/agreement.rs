//! How far a run agrees with a published table, cell by cell: in sign, in order and in size.
//!
//! A sign and a size are those of a cell's ratio to the table's base; the order is that among the cells of a row and, where
//! all rows have one unit, of a column. Two values are ordered where their intervals are apart. The published values are of other hardware,
//! so that agreement is described and nothing is judged by it. A cell that the run does not fill keeps its place with the reason.

use crate::grid::{Cell, Grid, GridRow, RatioCell, numbered};
use crate::number::{self, Digits, fixed, ratio_decimals};
use crate::observed_at::{host_of, is_at};
use crate::text::clean;
use crate::treatment::ENVIRONMENT;
use crate::words::{Tone, limits_of, ratio_of};
use baremark_model::codes::Translation;
use baremark_model::document::{Document, RatioRow};
use baremark_model::environments;
use baremark_model::plan::Treatment;
use baremark_model::published::{Bound, OurColumn, OurRow, Ours, Published, Table, Value, find};
use baremark_model::unit::comparable;
use baremark_model::units::Share;
use std::collections::BTreeMap;

/// What the words of the agreement mean, for the notes below its tables.
pub(crate) const EXPLAINED: &str = "Agreement: the sign and the size are those of a cell's ratio, the order is that among the cells of its row and column; \
     what the intervals here leave open is named. The hardware is other hardware, so that this judges neither.";

/// One value here: the estimate, and its interval where it has one.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Measured {
    value: f64,
    limits: Option<(f64, f64)>,
}

impl Measured {
    /// In a unit of which one is so many of its own.
    fn times(self, factor: f64) -> Measured {
        let limits = self.limits.map(|(lo, hi)| (lo * factor, hi * factor));
        Measured { value: self.value * factor, limits }
    }

    /// The ratio to `base` with limits that hold for any values within both intervals.
    fn over(self, base: Measured) -> Measured {
        let limits = self.limits.zip(base.limits).filter(|(_, base)| base.0 > 0.0);
        Measured {
            value: self.value / base.value,
            limits: limits.map(|((lo, hi), (base_lo, base_hi))| (lo / base_hi, hi / base_lo)),
        }
    }

    /// Whether it lies above (`Some(true)`) or below `other`; `None` where the intervals do not say.
    fn above(self, other: Measured) -> Option<bool> {
        let ((lo, hi), (other_lo, other_hi)) = self.limits.zip(other.limits)?;
        match () {
            () if lo > other_hi => Some(true),
            () if hi < other_lo => Some(false),
            () => None,
        }
    }
}

/// A cell as this run has it.
#[derive(Clone, Debug, PartialEq)]
struct Ourselves {
    value: Measured,
    ratio: Option<Measured>,
    /// What of its setting is otherwise than in the published table, in words: then only sign and order compare.
    otherwise: Option<String>,
}

/// The published ratio of what a ratio of a run compares.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Counterpart {
    /// The ratio.
    pub value: Value,
    /// What of the setting is otherwise here, in words.
    pub otherwise: Option<String>,
}

impl Counterpart {
    /// `published 0.848 (other hardware)`
    pub(crate) fn words(&self) -> String {
        let otherwise = self.otherwise.as_ref().map(|words| format!("; {words}")).unwrap_or_default();
        format!("published {}{} (other hardware{otherwise})", self.value.bound.words(), fixed(self.value.number, 3))
    }
}

/// The published ratio of the cell that a ratio fills, in the table that the run names; `None` where it fills none, and where the run does not
/// record that it does.
pub(crate) fn counterpart(document: &Document, row: &RatioRow) -> Option<Counterpart> {
    let published = find(document.run.published.as_deref()?)?;
    let table = published.table;
    let ours = table.ours.as_ref()?;
    let of_cell = |(at, column): (usize, usize)| {
        let of = &table.row[at].ours;
        let metric = of.metric.as_ref().or(ours.metric.as_ref())?;
        let blank = of.blank.is_some() || ours.columns[column].blank.is_some() || of.quantity.is_some() || of.inverse;
        if blank || *metric != row.metric || ours.workload_of(of) != document.run.workload {
            return None;
        }
        let (treatment, _) = look(document, ours, of, &ours.columns[column], None).ok()?;
        let (base, _) = look(document, ours, of, &base_of(&published, ours, at, column)?, None).ok()?;
        let value =
            ratio_there(&published, at, column).filter(|_| *treatment == row.treatment && *base == row.relative_to)?;
        Some(Counterpart { value, otherwise: otherwise(document, treatment, ours) })
    };
    let cells = (0..table.row.len()).flat_map(|row| (0..table.heads.len()).map(move |column| (row, column)));
    cells.into_iter().find_map(of_cell)
}

/// The table of agreement; `None` where no run fills the published one.
pub(crate) fn agreement(document: &Document, published: &Published) -> Option<Grid> {
    let table = published.table;
    let ours = table.ours.as_ref()?;
    let found: Vec<Vec<Result<Ourselves, Absence>>> = (0..table.row.len())
        .map(|row| (0..table.heads.len()).map(|column| cell_here(document, published, ours, row, column)).collect())
        .collect();
    let mut reasons: Vec<String> = Vec::new();
    let mut cell = |row: usize, column: usize| match &found[row][column] {
        Err(Absence::Unpublished) => Cell::Blank,
        Err(Absence::Because(reason)) => Cell::Absent(numbered(&mut reasons, reason)),
        Ok(here) => shown(here, published, &found, (row, column), document.run.design.delta.0),
    };
    let rows = rows_of(table, &document.run.workload).into_iter();
    let rows = rows
        .map(|row| GridRow {
            label: table.row[row].label.clone(),
            cells: (0..table.heads.len()).map(|column| cell(row, column)).collect(),
        })
        .collect();
    Some(Grid {
        caption: format!("{}: here, and its agreement with the published table", table.title),
        columns: table.heads.iter().map(|head| column(table, head)).collect(),
        rows,
        reasons,
    })
}

/// The rows of a table that are of a workload, where its rows name workloads of their own; else all, and so where none is of this one.
pub(crate) fn rows_of(table: &Table, workload: &str) -> Vec<usize> {
    let is_own = |row: &usize| table.row[*row].ours.workload.as_deref().is_none_or(|of| of == workload);
    let own: Vec<usize> = (0..table.row.len()).filter(is_own).collect();
    if own.is_empty() { (0..table.row.len()).collect() } else { own }
}

/// The metrics of a workload whose values are next to the table's cells, each with the cells' unit; those of gains and ratios have none.
pub(crate) fn units<'t>(table: &'t Table, workload: &str) -> Vec<(&'t str, &'t str)> {
    let Some(ours) = &table.ours else { return Vec::new() };
    let gains = ours.columns.iter().any(|column| !column.over.is_empty());
    let of_row = |row: &'t baremark_model::published::Row| {
        let own = ours.workload_of(&row.ours) == workload && row.ours.over.is_empty() && row.ours.quantity.is_none();
        let metric = row.ours.metric.as_ref().or(ours.metric.as_ref()).filter(|_| own && !gains)?;
        row.unit_in(table).map(|unit| (metric.as_str(), unit))
    };
    table.row.iter().filter_map(of_row).collect()
}

/// Whether the table has a cell that this run fills.
pub(crate) fn fills(grid: &Grid) -> bool {
    grid.rows.iter().flat_map(|row| &row.cells).any(|cell| matches!(cell, Cell::Measured { .. }))
}

/// Why a run has nothing of a cell.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Absence {
    /// Nothing was published either.
    Unpublished,
    /// For this reason, which is printed below the table.
    Because(String),
}

impl Absence {
    fn because(reason: impl Into<String>) -> Absence {
        Absence::Because(reason.into())
    }
}

/// What this run has of a cell, or why it has nothing.
fn cell_here(
    document: &Document,
    published: &Published,
    ours: &Ours,
    row: usize,
    column: usize,
) -> Result<Ourselves, Absence> {
    let table = published.table;
    if table.row[row].cells[column].is_empty() && published.printed(row, column).is_none() {
        return Err(Absence::Unpublished);
    }
    if let Some(reason) = table.row[row].ours.blank.as_ref().or(ours.columns[column].blank.as_ref()) {
        return Err(Absence::because(reason));
    }
    let of = &table.row[row].ours;
    let workload = ours.workload_of(of);
    if document.run.workload != workload {
        return Err(Absence::because(format!("this run does not measure {workload}")));
    }
    let unit = table.row[row].unit_in(table).filter(|_| !is_gain(published, row, column));
    let (treatment, value) = look(document, ours, of, &ours.columns[column], unit)?;
    let base = base_of(published, ours, row, column);
    let ratio = base.and_then(|base| look(document, ours, of, &base, unit).ok());
    let ratio = ratio.map(|(base, measured)| ratio_here(document, ours, of, (treatment, value), (base, measured)));
    Ok(Ourselves { value, ratio, otherwise: otherwise(document, treatment, ours) })
}

/// The settings of a treatment that are otherwise than those at which the table was measured: `n = 1000, published 40000`.
fn otherwise(document: &Document, treatment: &Treatment, ours: &Ours) -> Option<String> {
    let own = |key: &str| treatment.get(key).or_else(|| document.run.parameters.get(key));
    let differs = ours.at.iter().filter_map(|(key, there)| {
        let here = own(key).filter(|here| *here != there)?;
        Some(format!("{key} = {}, published {there}", clean(here)))
    });
    let words: Vec<String> = differs.collect();
    (!words.is_empty()).then(|| words.join("; "))
}

/// The column to which this one's ratio is: one of the same table, one of the table that has the base, or that of a gain.
fn base_of(published: &Published, ours: &Ours, row: usize, column: usize) -> Option<OurColumn> {
    let table = published.table;
    if is_gain(published, row, column) {
        let mut levels = ours.columns[column].over.clone();
        levels.extend(table.row[row].ours.over.clone());
        return Some(OurColumn { levels, ..OurColumn::default() });
    }
    if let Some(base) = published.base() {
        let at = base.heads.iter().position(|head| *head == table.heads[column])?;
        return base.ours.as_ref()?.columns.get(at).cloned();
    }
    let at = table.heads.iter().position(|head| Some(head) == table.ratio_to.as_ref())?;
    (at != column).then(|| ours.columns[at].clone())
}

/// The treatment of a row and a column, with its value in the published unit; in its own where cells are gains.
fn look<'d>(
    document: &'d Document,
    ours: &Ours,
    row: &OurRow,
    column: &OurColumn,
    unit: Option<&str>,
) -> Result<(&'d Treatment, Measured), Absence> {
    let wanted: Levels = row.levels.iter().chain(&column.levels).map(|(k, l)| (k.as_str(), l.as_str())).collect();
    let is_it = |treatment: &&Treatment| wanted.iter().all(|(key, label)| has(document, treatment, key, label));
    let measured = document.estimates.iter().map(|row| &row.treatment);
    let Some(treatment) = measured.clone().find(is_it) else {
        let absent = document.absent.iter().find(|absent| is_it(&&absent.treatment));
        let reason = absent.map_or_else(|| lacks(document, &wanted), |absent| clean(&absent.reason));
        return Err(Absence::Because(reason));
    };
    if let Some(mode) = &column.mmu {
        is_mode(document, treatment, mode)?;
    }
    let value = match &row.quantity {
        Some(quantity) => observed(document, treatment, quantity, row.inside),
        None => {
            let metric = row.metric.as_ref().or(ours.metric.as_ref());
            let of = |of: &&_| estimate_is(of, treatment, metric);
            let found = document.estimates.iter().find(of);
            found.map(|row| (Measured { value: row.estimate, limits: row.lo.zip(row.hi) }, row.unit.as_str()))
        }
    };
    let (value, own) = value.ok_or_else(|| Absence::because("no trial of it counts"))?;
    let Some(unit) = unit else { return Ok((treatment, value)) };
    match comparable(own, unit) {
        Some(factor) => Ok((treatment, value.times(factor))),
        None => Err(Absence::because(format!("its unit here is {}, published {unit}", clean(own)))),
    }
}

type Levels<'t> = BTreeMap<&'t str, &'t str>;

fn estimate_is(row: &baremark_model::document::EstimateRow, treatment: &Treatment, metric: Option<&String>) -> bool {
    row.treatment == *treatment && metric.is_some_and(|metric| row.metric == *metric)
}

/// Whether a treatment has a level, as its own or as one that all arms have.
fn has(document: &Document, treatment: &Treatment, key: &str, label: &str) -> bool {
    if let Some(own) = treatment.get(key) {
        return own == label || (key == ENVIRONMENT && document.run.place_of(own) == label);
    }
    let run = &document.run;
    let all = run.factors.iter().find(|(name, levels)| name == key && levels.len() == 1);
    let all = all.map(|(_, levels)| &levels[0]).or_else(|| run.parameters.get(key));
    all.is_some_and(|all| all == label) || (key == ENVIRONMENT && label == environments::NATIVE && all.is_none())
}

/// `this run has no arm of environment qemu`.
fn lacks(document: &Document, wanted: &Levels<'_>) -> String {
    let none =
        |(key, label): &(&&str, &&str)| !document.estimates.iter().any(|row| has(document, &row.treatment, key, label));
    let missing: Vec<(&&str, &&str)> = wanted.iter().filter(none).collect();
    let named = if missing.is_empty() { wanted.iter().collect() } else { missing };
    let words: Vec<String> = named.iter().map(|(key, label)| format!("{key} = {label}")).collect();
    format!("this run has no arm with {}", words.join(", "))
}

/// Refuses a treatment whose trials ran under another MMU virtualization than the column's.
fn is_mode(document: &Document, treatment: &Treatment, mode: &str) -> Result<(), Absence> {
    let arms = document.trials.iter().flat_map(|trial| &trial.arms).filter(|arm| arm.treatment == *treatment);
    match arms.filter_map(|arm| Some((arm.translation()?, arm.mmu.as_deref()?))).next() {
        Some((found, _)) if found == Translation::of_words(mode) => Ok(()),
        Some((_, found)) => Err(Absence::because(format!("MMU virtualization here is {}", clean(found)))),
        None => Err(Absence::because("the run does not record which MMU virtualization was at work")),
    }
}

/// The mean of a quantity that was observed while a treatment ran.
fn observed<'d>(
    document: &'d Document,
    treatment: &Treatment,
    quantity: &str,
    inside: bool,
) -> Option<(Measured, &'d str)> {
    let environment = environments::of(treatment);
    let place = if inside { environment } else { host_of(document, treatment) };
    let of = |row: &&baremark_model::observation::ObservedRow| {
        row.treatment == *treatment && row.quantity == quantity && row.instance.is_empty() && is_at(row, place)
    };
    let found = document.observed.as_ref()?.rows.iter().find(of)?;
    Some((Measured { value: found.value, limits: found.lo.zip(found.hi) }, &found.unit))
}

/// A ratio of the run's own where it has one, whose blocks are paired; else that of the two values.
fn ratio_here(
    document: &Document,
    ours: &Ours,
    row: &OurRow,
    (treatment, value): (&Treatment, Measured),
    (base, of_base): (&Treatment, Measured),
) -> Measured {
    let metric = row.metric.as_ref().or(ours.metric.as_ref()).filter(|_| row.quantity.is_none());
    let paired = document.ratios.iter().find(|ratio| {
        metric.is_some_and(|metric| ratio.metric == *metric)
            && ratio.treatment == *treatment
            && ratio.relative_to == *base
    });
    let paired = paired.and_then(|row| Some(Measured { value: ratio_of(row)?, limits: limits_of(row) }));
    let one = Measured { value: 1.0, limits: Some((1.0, 1.0)) };
    match (paired, row.inverse) {
        (Some(ratio), true) => one.over(ratio),
        (Some(ratio), false) => ratio,
        (None, true) => of_base.over(value),
        (None, false) => value.over(of_base),
    }
}

/// The published ratio of a cell: from the cells, as printed without cells, or, where the column names what it is over, the cell itself: a gain
/// in percent, else a ratio.
fn ratio_there(published: &Published, row: usize, column: usize) -> Option<Value> {
    let table = published.table;
    if is_gain(published, row, column) {
        let cell = Value::of(&table.row[row].cells[column])?;
        let ratio = if table.unit == "%" { 1.0 + cell.number / 100.0 } else { cell.number };
        return Some(Value { number: ratio, ..cell });
    }
    published.ratio(row, column).or_else(|| Value::of(published.printed(row, column)?))
}

fn shown(
    here: &Ourselves,
    published: &Published,
    found: &[Vec<Result<Ourselves, Absence>>],
    (row, column): (usize, usize),
    delta: f64,
) -> Cell {
    let order = order(published, found, row, column);
    let there = ratio_there(published, row, column);
    let (value, words) = match here.ratio.zip(there) {
        Some((ours, theirs)) => {
            let value = format!("{}; published {}{}", ratio_text(ours), theirs.bound.words(), fixed(theirs.number, 3));
            let size = match &here.otherwise {
                Some(otherwise) => format!("size not compared: {otherwise}"),
                None => format!("size {}", size(ours, theirs, delta)),
            };
            (value, [Some(format!("sign {}", sign(ours, theirs))), order, Some(size)])
        }
        // In words, or without a number: nothing to agree with but the order.
        None => (here.ratio.map(ratio_text).unwrap_or_default(), [None, order, None]),
    };
    let words: Vec<String> = words.into_iter().flatten().collect();
    let Measured { value: estimate, limits } = in_cells(here, published, row, column);
    let estimate = number::estimate(estimate, limits.map(|of| of.0), limits.map(|of| of.1));
    let (value, verdict) = if value.is_empty() { (words.join("; "), String::new()) } else { (value, words.join("; ")) };
    let ratio = (!value.is_empty()).then(|| RatioCell {
        value,
        interval: String::new(),
        half_width: String::new(),
        short: verdict.clone(),
        verdict,
        tone: Tone::Plain,
    });
    Cell::Measured { estimate, ratio }
}

/// What stands under the published cell's head: a gain in percent or a ratio where that is what the cells are, else the value.
fn in_cells(here: &Ourselves, published: &Published, row: usize, column: usize) -> Measured {
    match here.ratio.filter(|_| is_gain(published, row, column)) {
        Some(ratio) if published.table.unit == "%" => {
            let gain = |ratio: f64| 100.0 * (ratio - 1.0);
            Measured { value: gain(ratio.value), limits: ratio.limits.map(|(lo, hi)| (gain(lo), gain(hi))) }
        }
        Some(ratio) => ratio,
        None => here.value,
    }
}

fn ratio_text(ratio: Measured) -> String {
    fixed(ratio.value, ratio_decimals(ratio.value, ratio.limits, 1.0, Digits::Two))
}

/// Whether both ratios are on one side of 1.
fn sign(ours: Measured, theirs: Value) -> &'static str {
    let here = ours.limits.and_then(|(lo, hi)| match () {
        () if lo > 1.0 => Some(true),
        () if hi < 1.0 => Some(false),
        () => None,
    });
    // `> 1` is above 1, though 1 itself is not.
    let there = (theirs.number > 1.0 || (theirs.bound == Bound::Above && theirs.number >= 1.0), theirs.bound);
    match (here, there) {
        (None, _) => "open here",
        // A bound on the far side of 1 leaves its own sign open.
        (_, (true, Bound::Below) | (false, Bound::Above)) => "open there",
        (Some(here), (there, _)) if here == there => "same",
        _ => "opposite",
    }
}

/// Whether the ratio here is as large as the published one: the same where the whole interval is within `delta` of it, and not
/// distinguishable where an interval holds it and is wider.
fn size(ours: Measured, theirs: Value, delta: f64) -> String {
    let Some((lo, hi)) = ours.limits else { return "open here".to_owned() };
    let (least, most) = (theirs.number / (1.0 + delta), theirs.number * (1.0 + delta));
    let words = match theirs.bound {
        Bound::Below if hi < theirs.number => "within the bound",
        Bound::Below if lo > theirs.number => "beyond the bound",
        Bound::Above if lo > theirs.number => "within the bound",
        Bound::Above if hi < theirs.number => "beyond the bound",
        Bound::Below | Bound::Above => "open here",
        Bound::Exact | Bound::About if least <= lo && hi <= most => return format!("the same within {}", Share(delta)),
        Bound::Exact | Bound::About if (lo..=hi).contains(&theirs.number) => "not distinguishable here",
        Bound::Exact | Bound::About => {
            let (here, there) = (ours.value.ln(), theirs.number.ln());
            match () {
                () if here * there < 0.0 && !(lo..=hi).contains(&1.0) => "other",
                () if here.abs() < there.abs() => "smaller",
                () => "larger",
            }
        }
    };
    words.to_owned()
}

/// `order 2 of 3, 1 open`: with how many of the cells in its row and column it is in the published order; `None` where there
/// are none to compare with.
fn order(
    published: &Published,
    found: &[Vec<Result<Ourselves, Absence>>],
    row: usize,
    column: usize,
) -> Option<String> {
    let table = published.table;
    let number = |(row, column): (usize, usize)| {
        let value = Value::of(&table.row[row].cells[column])?;
        (!matches!(value.bound, Bound::Below | Bound::Above)).then_some(value.number)
    };
    let in_row = (0..table.heads.len()).filter(|&other| other != column).map(|other| (row, other));
    let one_unit = !table.unit.is_empty();
    let in_column = (0..table.row.len()).filter(|&other| one_unit && other != row).map(|other| (other, column));
    let (mut same, mut open, mut all) = (0, 0, 0);
    for other in in_row.chain(in_column) {
        let Some((there, other_there)) = number((row, column)).zip(number(other)) else { continue };
        let (Ok(here), Ok(other_here)) = (&found[row][column], &found[other.0][other.1]) else { continue };
        if (there - other_there).abs() < f64::EPSILON * there {
            continue;
        }
        let key = |of: &Ourselves| of.ratio.filter(|_| is_gain(published, row, column)).unwrap_or(of.value);
        all += 1;
        match key(here).above(key(other_here)) {
            None => open += 1,
            Some(above) if above == (there > other_there) => same += 1,
            Some(_) => {}
        }
    }
    let open = if open > 0 { format!(", {open} open") } else { String::new() };
    (all > 0).then(|| format!("order {same} of {all}{open}"))
}

/// Whether a cell is a gain or a ratio itself, so that ratios are what is ordered.
fn is_gain(published: &Published, row: usize, column: usize) -> bool {
    let of_column = |ours: &Ours| !ours.columns[column].over.is_empty();
    !published.table.row[row].ours.over.is_empty() || published.table.ours.as_ref().is_some_and(of_column)
}

/// A column's head; bare numbers are told what they count.
pub(crate) fn column(table: &Table, head: &str) -> String {
    match head.parse::<u64>() {
        Ok(1) => format!("1 {}", table.columns.trim_end_matches('s')),
        Ok(_) => format!("{head} {}", table.columns),
        Err(_) => head.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(value: f64, half: f64) -> Measured {
        Measured { value, limits: Some((value - half, value + half)) }
    }

    fn value(text: &str) -> Value {
        Value::of(text).expect("a number")
    }

    #[test]
    fn a_sign_is_that_of_a_whole_interval() {
        assert_eq!(sign(measured(0.95, 0.01), value("0.848")), "same");
        assert_eq!(sign(measured(1.05, 0.01), value("0.848")), "opposite");
        assert_eq!(sign(measured(0.99, 0.02), value("0.848")), "open here");
        assert_eq!(sign(Measured { value: 0.5, limits: None }, value("0.848")), "open here");
        assert_eq!(sign(measured(0.95, 0.01), value("< 1.05")), "open there");
        assert_eq!(sign(measured(1.2, 0.01), value("> 1.10")), "same");
        assert_eq!(sign(measured(1.2, 0.01), value("> 1")), "same");
        assert_eq!(sign(measured(0.9, 0.01), value("> 1")), "opposite");
        assert_eq!(sign(measured(0.9, 0.01), value("< 1")), "same");
    }

    #[test]
    fn a_size_is_compared_with_the_interval_and_with_bounds() {
        let size = |ours, theirs: Value| size(ours, theirs, 0.02);
        assert_eq!(size(measured(0.85, 0.01), value("0.848")), "the same within 2 %");
        assert_eq!(
            size(measured(0.9, 0.4), value("0.848")),
            "not distinguishable here",
            "an interval that holds anything agrees with nothing"
        );
        assert_eq!(size(measured(0.95, 0.01), value("0.848")), "smaller");
        assert_eq!(size(measured(0.70, 0.01), value("0.848")), "larger");
        assert_eq!(size(measured(1.20, 0.01), value("0.848")), "other");
        assert_eq!(size(measured(1.01, 0.02), value("0.848")), "smaller", "no difference is less than any");
        assert_eq!(size(measured(1.02, 0.01), value("< 1.05")), "within the bound");
        assert_eq!(size(measured(1.05, 0.01), value("< 1.05")), "open here");
        assert_eq!(size(measured(1.08, 0.01), value("< 1.05")), "beyond the bound");
        assert_eq!(size(measured(1.08, 0.01), value("> 1.10")), "beyond the bound");
    }

    /// A cell of a column that is over another is a gain where its unit is %, else a ratio.
    #[test]
    fn a_cell_over_another_is_a_gain_or_a_ratio() {
        let of = |table: &str| {
            let published = baremark_model::published::find(table).expect("a table");
            ratio_there(&published, 0, 0).expect("a ratio")
        };
        let (increase, total) = (of("gpu-mixed/increase"), of("gpu-mixed/total-time"));
        assert_eq!((increase.bound, format!("{:.2}", increase.number)), (Bound::Below, "1.05".to_owned()));
        assert_eq!((total.bound, format!("{:.2}", total.number)), (Bound::Below, "1.00".to_owned()));
    }

    #[test]
    fn a_cell_stands_in_the_published_unit() {
        let table = |name: &str| baremark_model::published::find(name).expect("a table");
        let packets = table("network-offloads/packets").table;
        let units: Vec<(&str, &str)> = units(packets, "stream-tcp");
        assert_eq!(units, [("packets_per_s", "packets/s"), ("packet_bytes", "KB")]);
        let size = measured(1490.0, 10.0).times(comparable("B", units[1].1).expect("both are sizes"));
        assert_eq!(format!("{:.4}", size.value), "1.4900");
        let here = Ourselves { value: measured(0.48, 0.01), ratio: Some(measured(1.25, 0.05)), otherwise: None };
        let gain = in_cells(&here, &table("network-offloads/efficiency"), 0, 0);
        assert_eq!((gain.value, gain.limits.map(|(lo, hi)| (lo.round(), hi.round()))), (25.0, Some((20.0, 30.0))));
        assert_eq!(in_cells(&here, &table("hpc-memory-2010/hpl"), 0, 1), here.value);
    }

    #[test]
    fn a_table_of_several_workloads_is_cut_to_the_one_that_ran() {
        let table = |name: &str| baremark_model::published::find(name).expect("a table").table;
        let gains = table("mmu-assist-2009/gains");
        let labels = |workload: &str| -> Vec<&str> {
            rows_of(gains, workload).into_iter().map(|row| gains.row[row].label.as_str()).collect()
        };
        assert_eq!(labels("compile"), ["compile of Apache, 4 vCPUs"]);
        assert_eq!(labels("oltp-hammer").len(), 2);
        assert_eq!(labels("stream").len(), gains.row.len(), "none is of it");
        let hpl = table("hpc-memory-2010/hpl");
        assert_eq!(rows_of(hpl, "hpl").len(), hpl.row.len());
    }

    #[test]
    fn a_ratio_of_two_values_is_as_wide_as_both_intervals_allow() {
        let ratio = measured(90.0, 9.0).over(measured(100.0, 10.0));
        let (lo, hi) = ratio.limits.expect("limits");
        assert_eq!(
            (format!("{:.4}", ratio.value), format!("{lo:.4} {hi:.4}")),
            ("0.9000".into(), "0.7364 1.1000".into())
        );
        assert_eq!(measured(1.0, 0.1).above(measured(2.0, 0.1)), Some(false));
        assert_eq!(measured(1.0, 0.6).above(measured(2.0, 0.6)), None);
    }
}
