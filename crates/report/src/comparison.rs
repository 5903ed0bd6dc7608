//! A comparison of two sides as a terminal shows it: what changed, then what else differs and could be the cause.

use crate::around::label;
use crate::live::short;
use crate::number::{Digits, count, estimate, fixed, ratio_decimals};
use crate::terminal::{INDENT, Page};
use crate::text::{Paint, Style, clean, left, width};
use crate::treatment::{ENVIRONMENT, join, phrase};
use baremark_model::comparison::{Change, Comparison, ComparisonRow, Difference, Method, ObservedComparison, Side};
use baremark_model::observation::THIS_MACHINE;
use baremark_model::plan::Treatment;
use baremark_model::tables::WORKLOAD;

/// The comparison as text.
#[must_use]
pub fn render(comparison: &Comparison, style: &Style) -> String {
    let mut page = Page { style: *style, text: String::new() };
    page.paragraph(Paint::Strong, 0, INDENT, &format!("Comparison: {}", clean(&comparison.study)));
    page.paragraph(Paint::Faint, 0, INDENT, &method(comparison));
    page.head("Sides");
    page.hanging("base ", &side(&comparison.base));
    page.hanging("other", &side(&comparison.other));
    page.head("Verdict: other against base");
    let common = common(&comparison.rows);
    for row in &comparison.rows {
        page.paragraph(paint(row.change), INDENT, INDENT, &sentence(comparison, row, &common));
    }
    if !common.is_empty() {
        let levels: Vec<(&str, &str)> = common.iter().map(|(key, label)| (key.as_str(), label.as_str())).collect();
        page.paragraph(Paint::Faint, INDENT, INDENT, &format!("All with {}.", join(&levels)));
    }
    around(&mut page, &comparison.observed, &common);
    differences(
        &mut page,
        "Confounded: this differs between the sides as well, and may be the cause",
        &comparison.confounded,
    );
    differences(&mut page, "Declared to be what is varied", &comparison.declared);
    differences(&mut page, "Not the same among the runs of a side", &comparison.mixed);
    page.text
}

fn method(comparison: &Comparison) -> String {
    let level = fixed(comparison.confidence * 100.0, 1).trim_end_matches(".0").to_owned();
    let how = match comparison.method {
        Method::Paired => "block by block within one run",
        Method::Unpaired => "run by run: runs share no block, so that the spread between runs judges",
    };
    let rows = match comparison.rows.len() {
        0 | 1 => String::new(),
        rows => format!(", so that over the {rows} rows 95 % hold"),
    };
    format!(
        "{}, {how}; intervals of {level} %{rows}; differences from {} on matter",
        clean(&comparison.workload),
        comparison.delta
    )
}

fn side(side: &Side) -> String {
    let machines: Vec<String> = side.machines.iter().map(|machine| clean(machine)).collect();
    let levels: Vec<String> = side.levels.iter().map(|(key, label)| phrase(key, label)).collect();
    let levels = if levels.is_empty() { String::new() } else { format!(" ({})", levels.join(", ")) };
    let runs: Vec<String> = side.runs.iter().map(|run| clean(run)).collect();
    format!("{}{levels} on {}", runs.join(", "), machines.join("; "))
}

/// The levels that all rows share: they are said once. Where a row stands stays in its sentence.
fn common(rows: &[ComparisonRow]) -> Treatment {
    let mut all = rows.iter().flat_map(|row| std::iter::once(&row.treatment).chain(&row.relative_to));
    let mut common = all.next().cloned().unwrap_or_default();
    for other in all {
        common.retain(|key, label| other.get(key) == Some(label));
    }
    common.remove(ENVIRONMENT);
    common
}

/// What a row's values are: a rate's unit says it, unless another metric has the same.
fn noun(row: &ComparisonRow, rows: &[ComparisonRow]) -> String {
    let (metric, unit) = (clean(&row.metric), clean(&row.unit));
    let shared = rows.iter().any(|other| other.unit == row.unit && other.metric != row.metric);
    match (row.relative_to.is_some(), row.unit.contains('/') && !shared) {
        (true, _) => String::new(),
        (_, true) => format!(" {unit}"),
        _ if unit.is_empty() => format!(" ({metric})"),
        _ => format!(" {unit} ({metric})"),
    }
}

/// "native with 4k pages: 0.0184 -> 0.0190 GUP/s, 1.034 times (1.012 to 1.057): differs by more than 1 %, better."
fn sentence(comparison: &Comparison, row: &ComparisonRow, common: &Treatment) -> String {
    let name = |treatment: &Treatment| name(treatment, common).unwrap_or_else(|| clean(&comparison.workload));
    let what = match &row.relative_to {
        None => name(&row.treatment),
        Some(below) => format!("ratio of {} to {}", name(&row.treatment), name(below)),
    };
    let noun = noun(row, &comparison.rows);
    let shown = |value| estimate(value, None, None);
    let values = row.base_value.zip(row.other_value);
    let values = values.map(|(base, other)| format!("{} -> {}{noun}", shown(base), shown(other)));
    let Some((ratio, limits)) = row.ratio.map(|ratio| (ratio, row.lo.zip(row.hi))) else {
        let so_far = values.map(|values| format!(" (so far {values})")).unwrap_or_default();
        return format!("{what}: {}{so_far}.", clean(&row.words));
    };
    let places = ratio_decimals(ratio, limits, 1.0, Digits::Two);
    let interval =
        limits.map(|(lo, hi)| format!(" ({} to {})", fixed(lo, places), fixed(hi, places))).unwrap_or_default();
    let values = values.map(|values| format!("{values}, ")).unwrap_or_default();
    let times = format!("{values}{} times", fixed(ratio, places));
    let meaning = match row.change {
        Change::Worse => ", worse",
        Change::Better => ", better",
        Change::NotWorse | Change::Unknown => "",
    };
    let units = match row.base_units == row.other_units {
        true => row.base_units.to_string(),
        false => format!("{} and {}", row.base_units, row.other_units),
    };
    format!("{what}: {times}{interval}: {}{meaning} [n = {units}].", clean(&row.words))
}

/// What observers saw that differs; where nothing does, how much was compared.
fn around(page: &mut Page, rows: &[ObservedComparison], common: &Treatment) {
    if rows.is_empty() {
        return;
    }
    page.head("Around the work: what differs");
    for row in rows.iter().filter(|row| row.differs) {
        let whose = name(&row.treatment, common).unwrap_or_else(|| "all arms".to_owned());
        let place = if row.place == THIS_MACHINE { String::new() } else { format!(" in {}", clean(&row.place)) };
        let unit = if row.unit.is_empty() { String::new() } else { format!(" {}", clean(&row.unit)) };
        let line = format!(
            "{whose}: {}{place} {} -> {}{unit}, by {}{unit}.",
            label(&row.quantity, "", ""),
            short(row.base_value),
            short(row.other_value),
            estimate(row.difference, row.lo, row.hi),
        );
        page.paragraph(Paint::Plain, INDENT, INDENT, &line);
    }
    let (told, judged) =
        (rows.iter().filter(|row| row.differs).count(), rows.iter().filter(|row| row.lo.is_some()).count());
    let values = |number: usize| count(number as u64, "observed value");
    let rest = match (judged, told) {
        (0, _) => "Nothing of it has an interval: that takes three runs a side, or three trials of each.".to_owned(),
        (judged, 0) => format!("None of {} differs by more than its interval and delta.", values(judged)),
        (judged, _) => format!("Of {} the others do not.", values(judged)),
    };
    page.paragraph(Paint::Faint, INDENT, INDENT, &rest);
}

/// A treatment in words; `None` where it has nothing that is not said elsewhere.
fn name(treatment: &Treatment, common: &Treatment) -> Option<String> {
    let rest: Vec<(&str, &str)> = treatment
        .iter()
        .filter(|(key, _)| ![ENVIRONMENT, WORKLOAD].contains(&key.as_str()) && !common.contains_key(*key))
        .map(|(key, label)| (key.as_str(), label.as_str()))
        .collect();
    let levels = match (treatment.get(ENVIRONMENT).map(|label| clean(label)), rest.is_empty()) {
        (Some(place), true) => Some(place),
        (Some(place), false) => Some(format!("{place} with {}", join(&rest))),
        (None, true) => None,
        (None, false) => Some(join(&rest)),
    };
    let workload = treatment.get(WORKLOAD).filter(|_| !common.contains_key(WORKLOAD)).map(|label| clean(label));
    let told: Vec<String> = workload.into_iter().chain(levels).collect();
    (!told.is_empty()).then(|| told.join(", "))
}

fn paint(change: Change) -> Paint {
    match change {
        Change::Worse | Change::Unknown => Paint::Caution,
        Change::Better | Change::NotWorse => Paint::Good,
    }
}

fn differences(page: &mut Page, head: &str, rows: &[Difference]) {
    if rows.is_empty() {
        return;
    }
    page.head(head);
    let label = rows.iter().map(|row| width(&row.fact)).max().unwrap_or(0).min(page.style.width / 2);
    for row in rows {
        let says = match row.base == row.other {
            true => clean(&row.base),
            false => format!("{} -> {}", clean(&row.base), clean(&row.other)),
        };
        page.hanging(&left(&clean(&row.fact), label), &says);
    }
}

/// What a guard says of a comparison, in one line.
#[must_use]
pub fn tally(comparison: &Comparison) -> String {
    let of = |change: Change| comparison.rows.iter().filter(|row| row.change == change).count() as u64;
    let (worse, unknown) = (of(Change::Worse), of(Change::Unknown));
    let rest = count(comparison.rows.len() as u64, "comparison");
    match (worse, unknown) {
        (0, 0) => format!("no regression: none of {rest} is worse by more than {}", comparison.delta),
        (0, _) => format!("undecided: {unknown} of {rest} cannot be told yet"),
        (_, 0) => format!("regression: {worse} of {rest} worse by more than {}", comparison.delta),
        (..) => {
            format!(
                "regression: {worse} of {rest} worse by more than {}, {unknown} cannot be told yet",
                comparison.delta
            )
        }
    }
}
