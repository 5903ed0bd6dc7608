//! The result of a load in words and tables.

use baremark_load::document::{Document, Ended, SecondRow, Verdict};
use baremark_load::latency::Summary;
use baremark_model::units::Nanos;
use baremark_report::Style;
use baremark_report::plot::{Curve, draw};
use std::fmt::Write as _;

pub(super) fn time(ns: Option<u64>) -> String {
    ns.map_or("-".to_owned(), |ns| format!("{:.2}", Nanos(ns)))
}

/// The result in words and a table.
pub(super) fn describe(document: &Document, style: &Style) -> String {
    let mut text = String::new();
    for site in &document.sites {
        if let Some(why) = &site.lost {
            let _ = writeln!(
                text,
                "SITE LOST after {} s: {}: {why}\nNothing that it measured is in the figures below.\n",
                site.seconds, site.name
            );
        }
    }
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
    if document.sites.len() > 1 {
        let names: Vec<&str> =
            document.sites.iter().filter(|site| site.lost.is_none()).map(|site| site.name.as_str()).collect();
        let most = document.sites.iter().map(|site| site.begin_error_ns).max();
        let _ = writeln!(text, "sites: {}; begun together to within {}", names.join(", "), time(most));
    }
    text.push_str(&pictures(document, style));
    text
}

/// The course of the run and latency by percentile, drawn.
fn pictures(document: &Document, style: &Style) -> String {
    let seconds = |value: f64| format!("{value:.0} s");
    let plain = |value: f64| format!("{value:.0}");
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from u64")]
    let ns = |value: f64| time(Some(value.round() as u64));
    let rates: Vec<(f64, f64)> =
        document.series.iter().map(|second| (second.at_s as f64, second.answered as f64)).collect();
    let late: Vec<(f64, f64)> =
        document.series.iter().filter_map(|second| Some((second.at_s as f64, p99_of(second)? as f64))).collect();
    let mut text = String::new();
    let mut add = |points: &[(f64, f64)], title: &str, y: &dyn Fn(f64) -> String, logarithmic| {
        if points.len() > 2 {
            text.push('\n');
            text.push_str(&draw(&Curve { points, x: &seconds, y, title, logarithmic }, 6, style));
        }
    };
    add(&rates, "requests/s", &plain, false);
    add(&late, "p99 by second", &ns, true);
    let curve = percentile_curve(document);
    if curve.len() > 2 {
        let share = |nines: f64| format!("p{}", (1e4 * (1.0 - 10_f64.powf(-nines))).round() / 100.0);
        let title = "latency by percentile, more nines to the right";
        text.push('\n');
        text.push_str(&draw(&Curve { points: &curve, x: &share, y: &ns, title, logarithmic: true }, 8, style));
    }
    text
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
