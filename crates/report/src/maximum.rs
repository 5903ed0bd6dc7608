//! A search for a maximum as text: the answer in words first, then what limited it, then the knee.

use crate::commands::brief;
pub use crate::knee::{judged, said};
use crate::number::fixed;
use crate::plot::{Curve, draw};
use crate::terminal::{INDENT, Page};
use crate::text::{Paint, Style, clean, right};
use baremark_model::maximum::{Basis, Document, Ended, KneeRow};
use baremark_model::units::Share;

/// Blanks between columns.
const GAP: usize = 2;

/// The result.
#[must_use]
pub fn render(document: &Document, style: &Style) -> String {
    let mut page = Page { style: *style, text: String::new() };
    page.paragraph(Paint::Strong, 0, INDENT, &clean(&document.title));
    let limits: Vec<String> = document.qos.limits.iter().map(ToString::to_string).collect();
    let wanted = format!("limits: {}", clean(&limits.join(", ")));
    page.paragraph(Paint::Faint, 0, INDENT, &wanted);
    page.head("Maximum");
    page.paragraph(paint(document), INDENT, INDENT, &answer(document));
    for note in notes(document) {
        page.paragraph(Paint::Plain, INDENT, INDENT, &note);
    }
    if !document.knee.is_empty() {
        page.head("Levels");
        table(&mut page, document);
        page.text.push_str(&picture(document, style));
    }
    page.text
}

fn paint(document: &Document) -> Paint {
    let sure = document.maximum.is_some_and(|maximum| maximum.basis == Basis::FreshTrials);
    if sure && !document.generator_was_the_limit { Paint::Strong } else { Paint::Caution }
}

/// The answer in a sentence.
#[must_use]
pub fn answer(document: &Document) -> String {
    let factor = &document.factor;
    let cut = match document.ended {
        Ended::Interrupted => "Interrupted; partial result. ",
        Ended::Broken => "Ended early by an error; partial result. ",
        Ended::TimeOver => "The time limit was reached. ",
        _ => "",
    };
    let Some(maximum) = document.maximum else {
        let what = match document.ended {
            Ended::PassesAll => {
                format!("Even {} {factor} meet every limit; search higher (--between).", level(document.plan.highest))
            }
            Ended::FailsAll => {
                format!("Even {} {factor} exceed a limit; search lower (--between).", level(document.plan.lowest))
            }
            Ended::Insufficient => {
                "Windows that count hold too few samples for these limits: use longer windows (--window) or a lower percentile, or end \
                 other programs where they used the CPUs."
                    .to_owned()
            }
            Ended::Interrupted | Ended::Broken | Ended::TimeOver | Ended::Found => so_far(document),
        };
        return format!("{cut}{what}");
    };
    let least = if document.generator_was_the_limit { "at least " } else { "" };
    let interval = match (maximum.low, maximum.high) {
        (Some(low), Some(high)) if maximum.basis == Basis::Bracket => format!(", [{}, {}]", level(low), level(high)),
        (Some(low), Some(high)) => {
            format!(", {} interval [{}, {}]", Share(maximum.confidence), level(low), level(high))
        }
        _ => String::new(),
    };
    let found = document.trials.iter().filter(|trial| trial.ended == Ended::Found && trial.maximum.is_some());
    let trials = found.count();
    let basis = match maximum.basis {
        Basis::FreshTrials => format!("over {trials} trials from a fresh start"),
        Basis::Bracket => {
            "between levels that met the limits and levels that exceeded them: not a confidence interval".to_owned()
        }
        Basis::WithinRun => "within one run: differences between starts are not included".to_owned(),
    };
    format!("{cut}{least}{} {factor}{interval}, {basis}.", level(maximum.level))
}

/// What the levels say of a search that has no answer yet.
fn so_far(document: &Document) -> String {
    let factor = &document.factor;
    let of =
        |verdict: &'static str| document.knee.iter().filter(move |row| row.verdict == verdict).map(|row| row.level);
    match (of("pass").reduce(f64::max), of("fail").reduce(f64::min)) {
        (Some(most), Some(least)) if most < least => {
            format!(
                "Between {} and {} {factor}: the first met every limit, the second exceeded one.",
                level(most),
                level(least)
            )
        }
        (Some(most), Some(least)) => {
            format!("No maximum yet: {} {factor} met every limit, and {} exceeded one.", level(most), level(least))
        }
        (Some(most), None) => format!("At least {} {factor}: so many met every limit.", level(most)),
        (None, Some(least)) => format!("Fewer than {} {factor}: so many exceeded a limit.", level(least)),
        (None, None) => format!("No level of {factor} was decided."),
    }
}

fn notes(document: &Document) -> Vec<String> {
    let mut notes = Vec::new();
    if document.generator_was_the_limit {
        notes.push(
            "The load generator was a limit: give it more threads (--threads), more CPUs or more sites; the server may be capable of more."
                .to_owned(),
        );
    }
    let reasons = document.limited_by.iter().take(3);
    let reasons: Vec<String> =
        reasons.map(|one| format!("{} ({} of the failed windows)", clean(&one.what), percent(one.share))).collect();
    if !reasons.is_empty() {
        notes.push(format!("Limited by: {}.", reasons.join("; ")));
    }
    if let Some(row) = &document.at_answer {
        notes.push(format!("Measured there: {}.", measured(row)));
    }
    if let Some(shown) = document.shown_level {
        let alpha = percent(1.0 - document.plan.confidence);
        notes.push(format!(
            "Every limit is met at {} {} with {alpha} risk of error (one-sided).",
            level(shown),
            document.factor
        ));
    }
    if let Some(other) = document.maximum.and_then(|maximum| maximum.isotonic_level) {
        notes.push(format!("Estimate by isotonic regression: {}.", level(other)));
    }
    if let Some(remembered) = document.hysteresis.filter(|value| value.abs() > 0.03) {
        let share = percent(remembered.exp_m1().abs());
        let word = if remembered < 0.0 { "lower" } else { "higher" };
        notes.push(format!("Reached from above the maximum is {share} {word} than from below: hysteresis."));
    }
    notes
}

/// What a level showed: "499/s done, 0 % failed, p50 707 us, p99 47 ms, CPU 81 %".
fn measured(row: &KneeRow) -> String {
    let time_of = |(name, ns): (&str, Option<u64>)| ns.map(|ns| format!("{name} {}", time(Some(ns))));
    let times = [("p50", row.p50_ns), ("p95", row.p95_ns), ("p99", row.p99_ns)].into_iter().filter_map(time_of);
    let cpu = row.utilization.get("cpu").map(|share| format!("CPU {}", percent(*share)));
    let counts = [format!("{}/s done", level(row.achieved_per_s)), format!("{} failed", percent(row.failed_share))];
    counts.into_iter().chain(times).chain(cpu).collect::<Vec<_>>().join(", ")
}

/// Columns of the table of levels, and those that go first where the line is too narrow for all.
const COLUMNS: [&str; 8] = ["requested", "done/s", "failed", "p50", "p95", "p99", "CPU", "result"];
const OPTIONAL: [&str; 5] = ["p95", "done/s", "p50", "CPU", "failed"];

/// One row a level. Columns are as wide as what they hold; what does not fit the style's width is left out by column.
fn table(page: &mut Page, document: &Document) {
    let cells = |row: &KneeRow| {
        [
            level(row.level),
            level(row.achieved_per_s),
            percent(row.failed_share),
            time(row.p50_ns),
            time(row.p95_ns),
            time(row.p99_ns),
            row.utilization.get("cpu").map_or("-".to_owned(), |share| percent(*share)),
            judged(row).to_owned(),
        ]
    };
    let rows: Vec<[String; 8]> = document.knee.iter().map(cells).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0).max(COLUMNS[column].len());
    let with_cpu = document.knee.iter().any(|row| row.utilization.contains_key("cpu"));
    let mut shown: Vec<usize> = (0..COLUMNS.len()).filter(|&column| with_cpu || COLUMNS[column] != "CPU").collect();
    for name in OPTIONAL {
        if INDENT + shown.iter().map(|&column| width(column) + GAP).sum::<usize>() - GAP > page.style.width {
            shown.retain(|&column| COLUMNS[column] != name);
        }
    }
    let (result, numbers) = (COLUMNS.len() - 1, &shown[..shown.len() - 1]);
    let indent = " ".repeat(INDENT);
    let mut line = |cells: &dyn Fn(usize) -> String, paint: Paint, all: bool| {
        let numbers: Vec<String> = numbers.iter().map(|&column| right(&cells(column), width(column))).collect();
        let numbers = numbers.join(&" ".repeat(GAP));
        let numbers = if all { page.style.paint(paint, &numbers) } else { numbers };
        let last = page.style.paint(paint, &cells(result));
        page.text.push_str(&format!("{indent}{numbers}{}{last}\n", " ".repeat(GAP)));
    };
    line(&|column| COLUMNS[column].to_owned(), Paint::Faint, true);
    for (row, cells) in document.knee.iter().zip(&rows) {
        line(&|column| cells[column].clone(), tone(row), false);
    }
    page.text.push('\n');
}

fn tone(row: &KneeRow) -> Paint {
    match row.verdict.as_str() {
        "pass" => Paint::Good,
        "fail" => Paint::Caution,
        _ => Paint::Faint,
    }
}

fn picture(document: &Document, style: &Style) -> String {
    let points: Vec<(f64, f64)> = document
        .knee
        .iter()
        .filter_map(|row| Some((row.level, row.p99_ns.or(row.p95_ns).or(row.p50_ns)? as f64)))
        .collect();
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a median of u64")]
    let of_time = |ns: f64| time(Some(ns as u64));
    let known = if document.knee.iter().all(|row| row.p99_ns.is_some()) { "p99" } else { "p99, p95 or p50" };
    let title = format!("{known} by {}", document.factor);
    draw(&Curve { points: &points, x: &level, y: &of_time, title: &title, logarithmic: true }, 8, style)
}

/// A time with three significant digits: `7.55 ms`, `707 us`.
#[expect(clippy::cast_precision_loss, reason = "three digits")]
fn time(ns: Option<u64>) -> String {
    ns.map_or("-".to_owned(), |ns| brief(ns as f64 / 1e9))
}

fn percent(share: f64) -> String {
    format!("{:.1}", Share(share)).replace(".0 %", " %")
}

/// A level to four digits.
fn level(value: f64) -> String {
    let places = if value >= 1000.0 {
        0
    } else if value >= 100.0 {
        1
    } else {
        2
    };
    fixed(value, places)
}
