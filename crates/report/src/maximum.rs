//! A search for a maximum as text: the answer in words first, then what limited it, then the knee.

use crate::number::fixed;
use crate::plot::{Curve, draw};
use crate::terminal::{INDENT, Page};
use crate::text::{Paint, Style, clean, left, right};
use baremark_model::maximum::{Basis, Document, Ended, KneeRow, Said};
use baremark_model::units::{Nanos, Share};

/// How a window is judged, as `baremark load` says of a limit.
#[must_use]
pub fn said(said: Said) -> &'static str {
    match said {
        Said::Pass => "met",
        Said::Fail => "exceeded",
        Said::Insufficient => "too few samples",
    }
}

/// The result.
#[must_use]
pub fn render(document: &Document, style: &Style) -> String {
    let mut page = Page { style: *style, text: String::new() };
    page.paragraph(Paint::Strong, 0, INDENT, &clean(&document.title));
    let limits: Vec<String> = document.qos.limits.iter().map(ToString::to_string).collect();
    let wanted = format!("to be kept: {}", clean(&limits.join(", ")));
    page.paragraph(Paint::Faint, 0, INDENT, &wanted);
    page.head("Maximum");
    page.paragraph(paint(document), INDENT, INDENT, &answer(document));
    for note in notes(document) {
        page.paragraph(Paint::Plain, INDENT, INDENT, &note);
    }
    if !document.knee.is_empty() {
        page.head("Knee");
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
        Ended::Interrupted => "INTERRUPTED, this is partial. ",
        Ended::Broken => "BROKEN OFF, this is partial. ",
        Ended::TimeOver => "The time was over. ",
        _ => "",
    };
    let Some(maximum) = document.maximum else {
        let what = match document.ended {
            Ended::PassesAll => {
                format!("Even {} {factor} keep every limit; search higher (--between).", level(document.plan.highest))
            }
            Ended::FailsAll => {
                format!("Even {} {factor} break a limit; search lower (--between).", level(document.plan.lowest))
            }
            Ended::Insufficient => {
                "The windows hold too few samples for these limits: take longer windows (--window), more of \
                 them, or a percentile further from 100."
                    .to_owned()
            }
            Ended::Interrupted | Ended::Broken | Ended::TimeOver | Ended::Found => {
                "No maximum is known yet.".to_owned()
            }
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
    let trials = document.trials.iter().filter(|trial| trial.maximum.is_some()).count();
    let basis = match maximum.basis {
        Basis::FreshTrials => format!("over {trials} trials from a fresh start"),
        Basis::Bracket => {
            "between levels that kept the limits and levels that broke them: not a confidence interval".to_owned()
        }
        Basis::WithinRun => "within one run: differences between starts are not included".to_owned(),
    };
    format!("{cut}{least}{} {factor}{interval}, {basis}.", level(maximum.level))
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
    if let Some(shown) = document.shown_level {
        let alpha = percent(1.0 - document.plan.confidence);
        notes.push(format!(
            "Every limit is shown to be kept at {} {} (one-sided, at most {alpha} of such claims are wrong).",
            level(shown),
            document.factor
        ));
    }
    if let Some(other) = document.maximum.and_then(|maximum| maximum.isotonic_level) {
        notes.push(format!("By the other estimator (isotonic regression): {}.", level(other)));
    }
    if let Some(remembered) = document.hysteresis.filter(|value| value.abs() > 0.03) {
        let share = percent(remembered.exp_m1().abs());
        let word = if remembered < 0.0 { "lower" } else { "higher" };
        notes.push(format!("Reached from above the maximum is {share} {word} than from below: hysteresis."));
    }
    notes
}

fn table(page: &mut Page, document: &Document) {
    let with_cpu = document.knee.iter().any(|row| row.utilization.contains_key("cpu"));
    let mut head = format!(
        "{} {} {} {} {} {}",
        right("asked", 10),
        right("done/s", 10),
        right("failed", 8),
        right("p50", 10),
        right("p95", 10),
        right("p99", 10)
    );
    if with_cpu {
        head.push_str(&right("cpu", 6));
    }
    head.push_str("  verdict");
    let indent = " ".repeat(INDENT);
    page.text.push_str(&format!("{indent}{}\n", page.style.paint(Paint::Faint, &head)));
    for row in &document.knee {
        let mut line = format!(
            "{} {} {} {} {} {}",
            right(&level(row.level), 10),
            right(&level(row.achieved_per_s), 10),
            right(&percent(row.failed_share), 8),
            right(&time(row.p50_ns), 10),
            right(&time(row.p95_ns), 10),
            right(&time(row.p99_ns), 10)
        );
        if with_cpu {
            line.push_str(&right(&row.utilization.get("cpu").map_or("-".to_owned(), |share| percent(*share)), 6));
        }
        let said = page.style.paint(tone(row), &left(&row.verdict, 12));
        page.text.push_str(format!("{indent}{line}  {said}").trim_end());
        page.text.push('\n');
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
    let title = format!("p99 (or the highest known percentile) by {}", document.factor);
    draw(&Curve { points: &points, x: &level, y: &of_time, title: &title, logarithmic: true }, 8, style)
}

fn time(ns: Option<u64>) -> String {
    ns.map_or("-".to_owned(), |ns| format!("{:.2}", Nanos(ns)))
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
