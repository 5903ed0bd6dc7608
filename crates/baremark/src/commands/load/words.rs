//! The result of a load in words and tables.

use baremark_load::document::{Document, Ended, Verdict};
use baremark_load::latency::Summary;
use baremark_load::load::Progress;
use baremark_model::units::Nanos;
use std::fmt::Write as _;
use std::io::{Write as _, stderr};

/// A second as it passes; a terminal or pipe that is gone ends nothing.
pub(super) fn show(progress: &Progress, live: bool) {
    let latencies = progress.part.histogram().ok();
    let p99 = latencies.as_ref().and_then(|all| all.percentile(0.99));
    let p50 = latencies.as_ref().and_then(|all| all.percentile(0.5));
    let text = format!(
        "{:>5} s  {:>9} answered  {:>7} failed  p50 {:>9}  p99 {:>9}",
        progress.second + 1,
        progress.part.answered,
        progress.part.failed,
        time(p50),
        time(p99)
    );
    let mut out = stderr().lock();
    drop(if live { write!(out, "\r\x1b[K{text}") } else { writeln!(out, "{text}") });
    drop(out.flush());
}

pub(super) fn time(ns: Option<u64>) -> String {
    ns.map_or("-".to_owned(), |ns| format!("{:.2}", Nanos(ns)))
}

/// The result in words and a table.
pub(super) fn describe(document: &Document, unicode: bool) -> String {
    let mut text = String::new();
    if document.ended == Ended::Interrupted {
        let _ = writeln!(text, "INTERRUPTED: what follows is partial, the first {:.1} s.\n", document.elapsed_s);
    }
    let verdict = match document.generator.verdict {
        Verdict::KeptUp => "the generator kept up",
        Verdict::Busy => "the generator was busy: latencies may be coloured by it",
        Verdict::WasTheLimit => "THE GENERATOR WAS THE LIMIT: these figures are not the server's",
    };
    let achieved = &document.achieved;
    let _ = writeln!(
        text,
        "{}: {:.0} requests/s for {:.1} s; {verdict}",
        document.scenario, achieved.requests_per_s, document.elapsed_s
    );
    if let (Some(asked), Some(share)) = (document.asked.operations_per_s, achieved.share_of_asked) {
        let _ = writeln!(text, "asked {asked:.0} operations/s, {:.2} % of them ended in time", 100.0 * share);
    }
    for reason in &document.generator.reasons {
        let _ = writeln!(text, "  - {reason}");
    }
    table(&mut text, document);
    for (kind, count) in &document.failures {
        let _ = writeln!(text, "failed: {count} {kind}");
    }
    for example in &document.failure_examples {
        let _ = writeln!(text, "  such as at {example}");
    }
    let lag = document.generator.send_lag.as_ref();
    let _ = writeln!(
        text,
        "generator: CPU {:.0} %, send lag p50 {}, p99 {}",
        100.0 * document.generator.busiest_cpu_share,
        time(lag.and_then(|lag| lag.p50_ns)),
        time(lag.and_then(|lag| lag.p99_ns))
    );
    if document.series.len() > 1 && unicode {
        let rates: Vec<u64> = document.series.iter().map(|second| second.answered).collect();
        let _ = writeln!(text, "requests/s by second: {}", bars(&rates));
    }
    text
}

fn table(text: &mut String, document: &Document) {
    let corrected = document.latency.corrected.is_some();
    let from = if corrected { "from the intended start" } else { "from the send: a closed loop has no intended start" };
    let _ = writeln!(text, "\nlatency {from}");
    let _ = writeln!(
        text,
        "{:<20} {:>9} {:>7} {:>10} {:>10} {:>10} {:>10} {:>10}",
        "operation", "done", "failed", "p50", "p95", "p99", "p99.9", "largest"
    );
    let line = |text: &mut String, name: &str, done: u64, failed: u64, summary: Option<&Summary>| {
        let at = |pick: fn(&Summary) -> Option<u64>| time(summary.and_then(pick));
        let _ = writeln!(
            text,
            "{name:<20} {done:>9} {failed:>7} {:>10} {:>10} {:>10} {:>10} {:>10}",
            at(|all| all.p50_ns),
            at(|all| all.p95_ns),
            at(|all| all.p99_ns),
            at(|all| all.p999_ns),
            at(|all| Some(all.max_ns))
        );
    };
    for row in &document.operations {
        let summary = if corrected { row.corrected.as_ref() } else { row.raw.as_ref() };
        line(text, &row.name, row.succeeded, row.failed, summary.or(row.raw.as_ref()));
        if let Some(delay) = &row.delay {
            line(text, "  delay", delay.samples, 0, Some(delay));
        }
    }
    if let (true, Some(raw)) = (corrected, &document.latency.raw) {
        line(text, "uncorrected, all", raw.samples, 0, Some(raw));
    }
}

/// One column for each value, or for several where they are many.
fn bars(values: &[u64]) -> String {
    const LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let each = values.len().div_ceil(60).max(1);
    let sums: Vec<u64> = values.chunks(each).map(|some| some.iter().sum::<u64>() / some.len() as u64).collect();
    let most = sums.iter().max().copied().unwrap_or(0).max(1);
    sums.iter().map(|sum| LEVELS[usize::try_from(sum * 7 / most).unwrap_or(0).min(7)]).collect()
}
