//! The result of a load in words and tables.

use super::summary;
use baremark_load::document::{Document, Ended, OperationRow, SecondRow};
use baremark_load::latency::Summary;
use baremark_report::plot::{Curve, draw};
use baremark_report::{Style, beside};
use std::fmt::Write as _;

/// A time to three digits; `-` where it is not known.
pub(super) fn time(ns: Option<u64>) -> String {
    ns.map_or("-".to_owned(), summary::time)
}

/// The result: failures first, then the summary, latencies, limits and the generator, tables and pictures.
pub(super) fn describe(document: &Document, style: &Style) -> String {
    let mut text = String::new();
    let mut say = |sentence: &str| text.push_str(&beside("", &clean(sentence), style));
    for site in &document.sites {
        if let Some(why) = &site.lost {
            let (name, seconds) = (&site.name, site.seconds);
            say(&format!("SITE LOST after {seconds} s: {name}: {why}; its measurements are not in the figures"));
        }
    }
    if document.ended == Ended::Interrupted {
        say(&format!("INTERRUPTED: partial result of the first {:.1} s", document.elapsed_s));
    }
    if let Some(headline) = summary::failed(document) {
        say(&headline);
        summary::hints(document).into_iter().for_each(|hint| say(&format!("hint: {hint}")));
    }
    say(&summary::summary(document));
    text.push('\n');
    rows(&mut text, document, style);
    table(&mut text, document);
    text.push_str(&pictures(document, style));
    text
}

/// Width of the first column of [`rows`].
const LABEL: usize = 33;
/// Failures shown as examples.
const EXAMPLES: usize = 3;

/// What was measured, a line for each.
fn rows(text: &mut String, document: &Document, style: &Style) {
    let latency = &document.latency;
    let uncorrected = latency.raw.as_ref().filter(|_| latency.corrected.is_some());
    let first = latency.corrected.as_ref().or(latency.raw.as_ref()).map(|all| (summary::latency_from(document), all));
    for (mut label, all) in first.into_iter().chain(uncorrected.map(|raw| ("latency from the send", raw))) {
        for line in filled(&summary::percentiles(all), style.width.saturating_sub(LABEL + 2)) {
            let _ = writeln!(text, "  {:<LABEL$}{line}", std::mem::take(&mut label));
        }
    }
    let mut row = |label: &str, says: &str| {
        text.push_str(&beside(&format!("  {:<LABEL$}", clean(label)), &clean(says), style));
    };
    for limit in &document.limits {
        let (label, verdict) = summary::limit(limit);
        row(&label, &verdict);
    }
    row("generator", &summary::generator(document));
    document.generator.reasons.iter().for_each(|reason| row("", reason));
    if document.sites.len() > 1 {
        let names: Vec<&str> =
            document.sites.iter().filter(|site| site.lost.is_none()).map(|site| site.name.as_str()).collect();
        let most = document.sites.iter().map(|site| site.begin_error_ns).max().unwrap_or(0);
        row("sites", &format!("{}; began within {} of each other", names.join(", "), summary::time(most)));
    }
    let mut label = "first failures";
    for example in document.failure_examples.iter().take(EXAMPLES) {
        row(std::mem::take(&mut label), example);
    }
}

/// Items two blanks apart, in lines of at most `width` where they fit.
fn filled(items: &[String], width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for item in items {
        match lines.last_mut() {
            Some(line) if line.len() + 2 + item.len() <= width => {
                line.push_str("  ");
                line.push_str(item);
            }
            _ => lines.push(item.clone()),
        }
    }
    lines
}

/// Without characters that a terminal would obey: names and reasons are those of others.
pub(super) fn clean(text: &str) -> String {
    text.chars().map(|one| if one.is_control() { ' ' } else { one }).collect()
}

/// The fewest points that a picture of a result has.
const LEAST: usize = 3;

/// The course of the run and latency by percentile, drawn.
fn pictures(document: &Document, style: &Style) -> String {
    let points = percentile_curve(document);
    let share = |nines: f64| format!("p{}", (1e4 * (1.0 - 10_f64.powf(-nines))).round() / 100.0);
    let title = "latency distribution (percentile)";
    let curve = Curve { points: &points, x: &share, y: &ns, title, logarithmic: true };
    let by_percentile = if points.len() < LEAST { String::new() } else { draw(&curve, 8, style) };
    let course = course(&document.series, "p99 by second", (LEAST, 6), style);
    let pictures = course.into_iter().chain([by_percentile]).filter(|picture| !picture.is_empty());
    pictures.map(|picture| format!("\n{picture}")).collect()
}

/// Requests by second and, under a title of its own, the p99 by second, drawn in so many rows each; nothing of fewer than `least` points.
pub(super) fn course(
    series: &[SecondRow],
    title_of_p99: &str,
    (least, rows): (usize, usize),
    style: &Style,
) -> [String; 2] {
    let seconds = |value: f64| format!("{value:.0} s");
    let plain = |value: f64| format!("{value:.0}");
    let drawn = |value: fn(&SecondRow) -> Option<u64>, y: &dyn Fn(f64) -> String, title: &str, logarithmic| {
        let points: Vec<(f64, f64)> =
            series.iter().filter_map(|row| Some((row.at_s as f64, value(row)? as f64))).collect();
        let curve = Curve { points: &points, x: &seconds, y, title, logarithmic };
        if points.len() < least { String::new() } else { draw(&curve, rows, style) }
    };
    [drawn(|row| Some(row.answered), &plain, "requests/s", false), drawn(p99_of, &ns, title_of_p99, true)]
}

/// A time on an axis.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from u64")]
fn ns(value: f64) -> String {
    time(Some(value.round() as u64))
}

/// The 99th percentile of a second, or what is known below it.
pub(super) fn p99_of(second: &SecondRow) -> Option<u64> {
    second.latency.as_ref().and_then(|all| all.p99_ns.or(all.p95_ns).or(all.p50_ns))
}

/// Latency over -log10(1 - share): 1 is p90, 2 is p99. Corrected where there is one.
fn percentile_curve(document: &Document) -> Vec<(f64, f64)> {
    let latency = &document.latency;
    let curve = if latency.corrected.is_some() { &latency.corrected_curve } else { &latency.raw_curve };
    curve.iter().map(|(share, ns)| (nines(*share), *ns as f64)).collect()
}

/// How many nines a share has.
pub(super) fn nines(share: f64) -> f64 {
    -(1.0 - share).log10()
}

/// What a table shows of operations.
pub(super) const COLUMNS: [&str; 8] = ["operation", "done", "failed", "p50", "p95", "p99", "p99.9", "max"];

/// An operation in these columns, by its latencies from the intended starts where the load has such.
pub(super) fn operation(document: &Document, row: &OperationRow) -> [String; 8] {
    let corrected = row.corrected.as_ref().filter(|_| document.latency.corrected.is_some());
    cells(&row.name, (row.succeeded, row.failed), corrected.or(row.raw.as_ref()))
}

fn cells(name: &str, (done, failed): (u64, u64), all: Option<&Summary>) -> [String; 8] {
    let at = |pick: fn(&Summary) -> Option<u64>| time(all.and_then(pick));
    [
        clean(name),
        done.to_string(),
        failed.to_string(),
        at(|all| all.p50_ns),
        at(|all| all.p95_ns),
        at(|all| all.p99_ns),
        at(|all| all.p999_ns),
        at(|all| Some(all.max_ns)),
    ]
}

/// One line for each operation, where there are several or delays are measured.
fn table(text: &mut String, document: &Document) {
    let several = document.operations.len() > 1;
    if !several && document.operations.iter().all(|row| row.delay.is_none()) {
        return;
    }
    text.push('\n');
    let mut line = |[name, done, failed, p50, p95, p99, p999, max]: [String; 8]| {
        let _ = writeln!(text, "  {name:<17} {done:>8} {failed:>7} {p50:>8} {p95:>8} {p99:>8} {p999:>8} {max:>8}");
    };
    line(COLUMNS.map(str::to_owned));
    for row in &document.operations {
        line(operation(document, row));
        if let Some(delay) = &row.delay {
            line(cells("  delay", (delay.samples, 0), Some(delay)));
        }
    }
}
