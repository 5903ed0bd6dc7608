//! A comparison of two sides as a terminal shows it: what changed, then what else differs and could be the cause.

use crate::activity::label;
use crate::live::short;
use crate::number::{Digits, count, duration, estimate, fixed, percent, ratio_decimals};
use crate::terminal::{INDENT, Page};
use crate::text::{Paint, Style, clean, left, width};
use crate::treatment::{ENVIRONMENT, join, phrase};
use baremark_model::comparison::{
    Answer, Comparison, ComparisonRow, Difference, Gate, GateRow, Method, ObservedComparison, Side,
};
use baremark_model::document::Outcome;
use baremark_model::joined::JoinedFact;
use baremark_model::observation::THIS_MACHINE;
use baremark_model::plan::Treatment;
use baremark_model::tables::WORKLOAD;
use std::collections::BTreeMap;

/// Names by which runs were imported, by their IDs.
pub type Names = BTreeMap<String, String>;

/// The comparison as text.
#[must_use]
pub fn render(comparison: &Comparison, names: &Names, style: &Style) -> String {
    let mut page = Page { style: *style, text: String::new() };
    page.paragraph(Paint::Strong, 0, INDENT, &format!("Comparison: {}", clean(&comparison.study)));
    page.paragraph(Paint::Faint, 0, INDENT, &method(comparison));
    page.head("Sides");
    page.hanging("base ", &side(&comparison.base, names));
    page.hanging("other", &side(&comparison.other, names));
    page.head("Result: other / base");
    let common = common_of(comparison);
    for row in &comparison.rows {
        page.paragraph(paint(row.outcome), INDENT, INDENT, &sentence(comparison, row, &common));
    }
    if by_values(comparison) {
        page.paragraph(
            Paint::Faint,
            INDENT,
            INDENT,
            "n counts values of the imported files: how one file differs from another of its side is not in the intervals.",
        );
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
    differences(&mut page, "Declared as varied", &comparison.declared);
    differences(&mut page, "Not the same among the runs of a side", &comparison.mixed);
    page.text
}

fn method(comparison: &Comparison) -> String {
    let level = fixed(comparison.confidence * 100.0, 1).trim_end_matches(".0").to_owned();
    let how = match comparison.method {
        Method::Paired => "block by block within one run",
        Method::Unpaired if by_values(comparison) => "value by value, judged by the spread of the values",
        Method::Unpaired => "run by run, judged by the spread between runs",
    };
    if comparison.gate.is_some() {
        return format!(
            "{}, {how}; limits of one-sided tests with 5 % false alarms over all rows",
            clean(&comparison.workload)
        );
    }
    let levels = if level == "95" { "95 %".to_owned() } else { format!("95 to {level} %") };
    let rows = match comparison.rows.len() {
        0 | 1 => String::new(),
        rows => format!(" (the {rows} rows are judged together)"),
    };
    format!(
        "{}, {how}; intervals of {levels}{rows}; smallest difference of interest: {}",
        clean(&comparison.workload),
        comparison.delta
    )
}

/// Whether the units are values within runs, which is so of few imported runs.
fn by_values(comparison: &Comparison) -> bool {
    let runs = comparison.base.runs.len().max(comparison.other.runs.len());
    comparison.method == Method::Unpaired
        && comparison.rows.iter().any(|row| row.base_units.max(row.other_units) > runs)
}

fn side(side: &Side, names: &Names) -> String {
    let machines: Vec<String> = side.machines.iter().map(|machine| clean(machine)).collect();
    let levels: Vec<String> = side.levels.iter().map(|(key, label)| phrase(key, label)).collect();
    let levels = if levels.is_empty() { String::new() } else { format!(" ({})", levels.join(", ")) };
    let run = |run: &String| match names.get(run) {
        Some(name) => format!("{} ({})", clean(run), clean(name)),
        None => clean(run),
    };
    let runs: Vec<String> = side.runs.iter().map(run).collect();
    format!("{}{levels} on {}", runs.join(", "), machines.join("; "))
}

fn common_of(comparison: &Comparison) -> Treatment {
    common(comparison.rows.iter().flat_map(|row| std::iter::once(&row.treatment).chain(&row.relative_to)))
}

/// The levels that all treatments share: they are said once. Where a row stands stays in its sentence.
pub(crate) fn common<'t>(mut all: impl Iterator<Item = &'t Treatment>) -> Treatment {
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

/// What a row compares: a treatment's value, or a ratio within each run.
fn subject(comparison: &Comparison, row: &ComparisonRow, common: &Treatment) -> String {
    let name = |treatment: &Treatment| name(treatment, common).unwrap_or_else(|| clean(&comparison.workload));
    match &row.relative_to {
        None => name(&row.treatment),
        Some(below) => format!("ratio of {} to {}", name(&row.treatment), name(below)),
    }
}

/// "native with 4k pages: 0.0184 -> 0.0190 GUP/s, 1.034 times (1.012 to 1.057): faster by more than 1 %."
fn sentence(comparison: &Comparison, row: &ComparisonRow, common: &Treatment) -> String {
    let what = subject(comparison, row, common);
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
    let units = match row.base_units == row.other_units {
        true => row.base_units.to_string(),
        false => format!("{} and {}", row.base_units, row.other_units),
    };
    format!("{what}: {times}{interval}: {} [n = {units}].", clean(&row.words))
}

/// What observers saw that differs; where nothing does, how much was compared.
fn around(page: &mut Page, rows: &[ObservedComparison], common: &Treatment) {
    if rows.is_empty() {
        return;
    }
    page.head("System activity that differs");
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
    let rest = match judged {
        0 => "No interval: three runs a side are needed, or four trials of each.".to_owned(),
        judged => format!("{told} of {judged} observed values differ by more than their interval and delta."),
    };
    page.paragraph(Paint::Faint, INDENT, INDENT, &rest);
}

/// A treatment in words; `None` where it has nothing that is not said elsewhere.
pub(crate) fn name(treatment: &Treatment, common: &Treatment) -> Option<String> {
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

/// How a terminal shows an outcome.
pub(crate) fn paint(outcome: Outcome) -> Paint {
    match outcome {
        Outcome::SlowerByMore | Outcome::Slower | Outcome::NoLarger | Outcome::NotEnough => Paint::Caution,
        Outcome::FasterByMore | Outcome::Faster | Outcome::Equivalent | Outcome::Emulated => Paint::Good,
    }
}

/// A list of facts under a head; nothing where there is none.
fn differences(page: &mut Page, head: &str, rows: &[Difference]) {
    let of_two =
        |row: &Difference| JoinedFact { fact: row.fact.clone(), values: vec![row.base.clone(), row.other.clone()] };
    facts(page, head, &rows.iter().map(of_two).collect::<Vec<_>>());
}

/// A list of facts of several sides under a head, the base's value first; nothing where there is none.
pub(crate) fn facts(page: &mut Page, head: &str, rows: &[JoinedFact]) {
    if rows.is_empty() {
        return;
    }
    page.head(head);
    let label = rows.iter().map(|row| width(&row.fact)).max().unwrap_or(0).min(page.style.width / 2);
    for row in rows {
        let mut values: Vec<String> = row.values.iter().map(|value| clean(value)).collect();
        if row.values.iter().all(|value| Some(value) == row.values.first()) {
            values.truncate(1);
        }
        page.hanging(&left(&clean(&row.fact), label), &values.join(" -> "));
    }
}

/// The lines of a gate, and its answer in the last one.
#[must_use]
pub fn gate(comparison: &Comparison, gate: &Gate, style: &Style) -> String {
    let mut page = Page { style: *style, text: String::new() };
    page.head(&format!("Gate: a loss of {} must not go unnoticed", gate.margin));
    let common = common_of(comparison);
    for (row, answer) in comparison.rows.iter().zip(&gate.rows) {
        let line = format!(
            "{}: {}",
            subject(comparison, row, &common),
            answered(answer, row, gate, (comparison.method, by_values(comparison)))
        );
        page.paragraph(
            if answer.answer == Answer::Passed { Paint::Good } else { Paint::Caution },
            INDENT,
            INDENT,
            &line,
        );
    }
    page.text.push('\n');
    page.paragraph(Paint::Strong, 0, INDENT, &gate_line(gate));
    page.text
}

/// The answer of a gate in a line, with the exit code.
fn gate_line(gate: &Gate) -> String {
    let of = |answer: Answer| gate.rows.iter().filter(|row| row.answer == answer).count() as u64;
    let rows = count(gate.rows.len() as u64, "comparison");
    let (losses, open) = (of(Answer::Loss), of(Answer::Undecided));
    match gate.answer {
        Answer::Loss => format!("{losses} of {rows} {} worse (exit 4)", if losses == 1 { "is" } else { "are" }),
        Answer::Passed => format!("0 of {rows} are worse (exit 0)"),
        // Of a confirmation that did not confirm.
        Answer::Undecided if losses > 0 => {
            format!("{losses} of {rows} worse in these runs, which is not confirmed (exit 5)")
        }
        Answer::Undecided => format!("0 of {rows} are shown to be worse, {open} undecided (exit 5)"),
    }
}

/// A gate as Markdown, for the summary of a job in continuous integration: the answer, then a table with a line for each comparison.
#[must_use]
pub fn gate_markdown(comparison: &Comparison, gate: &Gate) -> String {
    let common = common_of(comparison);
    let cell = |text: &str| clean(text).replace('|', "\\|");
    let mut text = format!(
        "### {}: {}\n\n| comparison | base | other | ratio | interval | power | answer |\n|---|---:|---:|---:|---:|---:|---|\n",
        cell(&comparison.study),
        gate_line(gate),
    );
    for (row, answer) in comparison.rows.iter().zip(&gate.rows) {
        let shown = |value: Option<f64>| value.map_or_else(String::new, |value| estimate(value, None, None));
        let (ratio, interval) = ratio_and_interval(row);
        let power = answer.power.map_or_else(String::new, |power| format!("{} %", fixed(100.0 * power, 0)));
        let metric = format!("{} ({})", subject(comparison, row, &common), row.metric);
        let (base, other) = (shown(row.base_value), shown(row.other_value));
        let unit = if row.relative_to.is_some() { String::new() } else { format!(" {}", row.unit) };
        let says = match answer.answer {
            Answer::Loss => format!("**FAIL**: {}", row.words),
            Answer::Passed => format!("ok: {}", row.words),
            Answer::Undecided => format!("undecided: {}", row.words),
        };
        let cells = [metric, format!("{base}{unit}"), format!("{other}{unit}"), ratio, interval, power, says];
        let cells: Vec<String> = cells.iter().map(|text| cell(text)).collect();
        text.push_str(&format!("| {} |\n", cells.join(" | ")));
    }
    let runs = |side: &Side| side.runs.iter().map(|run| cell(run)).collect::<Vec<_>>().join(", ");
    text.push_str(&format!("\nBase: {}. Other: {}.\n", runs(&comparison.base), runs(&comparison.other)));
    if !comparison.confounded.is_empty() {
        text.push_str("\nThis differs between the sides as well, and may be the cause:\n\n");
        for row in &comparison.confounded {
            text.push_str(&format!("- `{}`: {} -> {}\n", cell(&row.fact), cell(&row.base), cell(&row.other)));
        }
    }
    text
}

/// The ratio and its interval with as many digits as the interval supports.
fn ratio_and_interval(row: &ComparisonRow) -> (String, String) {
    let Some(ratio) = row.ratio else { return (String::new(), String::new()) };
    let limits = row.lo.zip(row.hi);
    let places = ratio_decimals(ratio, limits, 1.0, Digits::Two);
    let interval = limits.map(|(lo, hi)| format!("{} to {}", fixed(lo, places), fixed(hi, places)));
    (fixed(ratio, places), interval.unwrap_or_default())
}

/// "ok; a loss of 5 % would have been found (power 97 %, smallest 2.1 %)"
fn answered(row: &GateRow, of: &ComparisonRow, gate: &Gate, (method, values): (Method, bool)) -> String {
    let margin = gate.margin;
    let smallest = row.smallest_detectable.map(|loss| format!("smallest detectable loss {}", percent(loss)));
    let power = row.power.map(|power| format!("power {} %", fixed(100.0 * power, 0)));
    let known = [power, smallest].into_iter().flatten().collect::<Vec<_>>().join(", ");
    let settle = match (row.needed, row.seconds) {
        (Some(units), Some(seconds)) => {
            format!("; {} in all would settle it ({} more)", units_of(units, method, values), brief(seconds))
        }
        (Some(units), None) => format!("; {} in all would settle it", units_of(units, method, values)),
        (None, _) => String::new(),
    };
    match row.answer {
        Answer::Loss => format!("FAIL: {}", clean(&of.words)),
        Answer::Passed => format!("ok; a loss of {margin} would have been found ({known})"),
        Answer::Undecided if known.is_empty() => clean(&of.words),
        Answer::Undecided => format!("undecided: a loss of {margin} could have been missed ({known}){settle}"),
    }
}

fn units_of(units: u32, method: Method, values: bool) -> String {
    match method {
        Method::Paired => format!("{units} blocks"),
        Method::Unpaired if values => format!("{units} values a side"),
        Method::Unpaired => format!("{units} runs a side"),
    }
}

fn brief(seconds: f64) -> String {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a time in nanoseconds; saturates")]
    let nanoseconds = (seconds * 1e9) as u64;
    duration(nanoseconds)
}
