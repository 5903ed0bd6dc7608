//! The result of a run or a study as one HTML page that needs nothing else: no network, no script.

use crate::document::{Document, LoadRow, Users};
use crate::study::{self, ArmRow, StudyDocument};
use crate::words;
use baremark_model::maximum;
use std::fmt::Write as _;

const STYLE: &str = "body{font:16px/1.5 system-ui,sans-serif;max-width:62rem;margin:2rem auto;padding:0 1rem;color:#1b1f24;background:#fff}\
h1{font-size:1.5rem}h2{font-size:1.15rem;margin-top:2rem}table{border-collapse:collapse;font-size:.85rem;display:block;overflow-x:auto}\
td,th{padding:.2rem .6rem;text-align:right;border-bottom:1px solid #d8dee4}td,th{white-space:nowrap}td:first-child,th:first-child{text-align:left}\
pre{overflow-x:auto;font-size:.8rem;background:#f6f8fa;padding:.8rem}.void{color:#b3261e;font-weight:600}.answer{font-size:1.15rem}\
svg{width:100%;max-width:40rem;height:auto}svg.ratio{width:15rem}details{margin:.5rem 0}figure{margin:1rem 0}figcaption{font-size:.85rem;color:#57606a}\
@media(prefers-color-scheme:dark){body{color:#e6edf3;background:#0d1117}pre{background:#161b22}td,th{border-color:#30363d}figcaption{color:#8b949e}.void{color:#ff7b72}}";

/// The page of a run.
#[must_use]
pub fn render(document: &Document) -> String {
    let mut text = head(&document.title);
    for why in &document.void {
        let _ = writeln!(text, "<p class=\"void\">Void: {}</p>", escape(why));
    }
    let _ = writeln!(text, "<p class=\"answer\">{}</p>", escape(&words::headline(document)));
    let alone = document.applications.len() == 1;
    for row in &document.applications {
        if !alone {
            let _ = writeln!(text, "<h2>{}</h2>", escape(&row.name));
        }
        if let Some(search) = &row.search {
            knee(&mut text, search, document.users.as_ref().filter(|_| alone));
        }
        if let Some(load) = &row.load {
            operations(&mut text, load);
            course(&mut text, load);
        }
    }
    let _ = writeln!(text, "<h2>Everything in words</h2><pre>{}</pre>", escape(&words::describe(document)));
    text + "</body></html>\n"
}

/// The page of a study.
#[must_use]
pub fn render_study(document: &StudyDocument) -> String {
    let mut text = head(&document.title);
    let first = document.arms.first().map_or("", |arm| arm.name.as_str());
    let _ = writeln!(
        text,
        "<p class=\"answer\">{} of each arm, and its ratio to {} over blocks of random order</p>",
        escape(&document.metric),
        escape(first)
    );
    ratios(&mut text, document);
    for run in document.runs.iter().filter(|run| !run.result.void.is_empty()) {
        let _ = writeln!(
            text,
            "<p class=\"void\">Void: {} in block {}: {}</p>",
            escape(&run.arm),
            run.block + 1,
            escape(&run.result.void.join("; "))
        );
    }
    let _ = writeln!(text, "<h2>Everything in words</h2><pre>{}</pre>", escape(&study::describe(document)));
    for run in &document.runs {
        let _ = writeln!(
            text,
            "<details><summary>{}, block {}</summary><pre>{}</pre></details>",
            escape(&run.arm),
            run.block + 1,
            escape(&words::describe(&run.result))
        );
    }
    text + "</body></html>\n"
}

fn head(title: &str) -> String {
    let title = escape(title);
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <meta name=\"color-scheme\" content=\"light dark\"><meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\
         <title>{title}</title><style>{STYLE}</style></head><body><h1>{title}</h1>\n"
    )
}

/// Each arm's value, and its ratio to the first with the interval drawn: the line is where nothing is lost or won.
fn ratios(text: &mut String, document: &StudyDocument) {
    let ends =
        |arm: &ArmRow| arm.ratio.map(|ratio| (ratio.low.unwrap_or(ratio.ratio), ratio.high.unwrap_or(ratio.ratio)));
    let highest = document.arms.iter().filter_map(ends).map(|(_, high)| high).fold(1.0, f64::max).min(10.0);
    let at = |ratio: f64| 10.0 + 220.0 * ratio.clamp(0.0, highest) / highest;
    let _ = writeln!(
        text,
        "<table><tr><th>arm</th><th>{}</th><th>ratio</th><th>interval</th><th>0 to {highest:.2}</th></tr>",
        escape(&document.metric)
    );
    for arm in &document.arms {
        let known: Vec<f64> = arm.values.iter().flatten().copied().collect();
        let value = if known.is_empty() {
            "-".to_owned()
        } else {
            format!("{:.0}", known.iter().sum::<f64>() / known.len() as f64)
        };
        let (ratio, interval) = match (arm.ratio, &arm.absent) {
            (Some(ratio), _) => (
                format!("{:.3}", ratio.ratio),
                ratio.low.zip(ratio.high).map_or("none yet".to_owned(), |(low, high)| format!("{low:.3} to {high:.3}")),
            ),
            (None, Some(_)) => ("-".to_owned(), "not available here".to_owned()),
            (None, None) => ("-".to_owned(), String::new()),
        };
        let drawn = arm.ratio.zip(ends(arm)).map_or(String::new(), |(ratio, (low, high))| {
            format!(
                "<line x1=\"{:.1}\" x2=\"{:.1}\" y1=\"10\" y2=\"10\" stroke=\"#2f81f7\" stroke-width=\"2\"/><circle cx=\"{:.1}\" cy=\"10\" r=\"3.5\" fill=\"#2f81f7\"/>",
                at(low),
                at(high),
                at(ratio.ratio)
            )
        });
        let _ = writeln!(
            text,
            "<tr><td>{}</td><td>{value}</td><td>{ratio}</td><td>{interval}</td><td><svg class=\"ratio\" viewBox=\"0 0 240 20\" role=\"img\" aria-label=\"{ratio}\">\
             <line x1=\"{:.1}\" x2=\"{:.1}\" y1=\"0\" y2=\"20\" stroke=\"currentColor\" opacity=\".4\"/>{drawn}</svg></td></tr>",
            escape(&arm.name),
            at(1.0),
            at(1.0)
        );
    }
    let _ = writeln!(text, "</table>");
}

fn knee(text: &mut String, search: &maximum::Document, users: Option<&Users>) {
    let points = |of: fn(&maximum::KneeRow) -> Option<f64>| -> Vec<(f64, f64)> {
        search.knee.iter().filter_map(|row| Some((row.level, of(row)?))).collect()
    };
    let mark = users.map(|users| (users.most, users.low.unwrap_or(users.most), users.high.unwrap_or(users.most)));
    let rates = points(|row| Some(row.achieved_per_s));
    chart(
        text,
        "Operations per second over users; the line is the most, the band its interval",
        &rates,
        "operations/s",
        mark,
    );
    let latencies = points(|row| row.p99_ns.map(|ns| ns as f64 / 1e6));
    chart(text, "99th percentile of latency over users", &latencies, "ms", mark);
}

fn operations(text: &mut String, load: &LoadRow) {
    let _ = writeln!(
        text,
        "<h2>{:.0} users, operation by operation</h2><table><tr><th>operation</th><th>done</th><th>failed</th><th>mix</th><th>p50</th><th>p99</th><th>limit</th></tr>",
        load.users
    );
    for row in load.operations.iter().filter(|row| row.succeeded + row.failed > 0) {
        let summary = row.corrected.as_ref().or(row.raw.as_ref());
        let _ = writeln!(
            text,
            "<tr><td>{}</td><td>{}</td><td>{}</td><td>{:.2} %</td><td>{}</td><td>{}</td><td>{}</td></tr>",
            escape(&row.name),
            row.succeeded,
            row.failed,
            100.0 * row.mix_share.unwrap_or(0.0),
            words::time(summary.and_then(|all| all.p50_ns)),
            words::time(summary.and_then(|all| all.p99_ns)),
            words::time(row.limit_ns)
        );
    }
    text.push_str("</table>\n");
}

fn course(text: &mut String, load: &LoadRow) {
    let points = |of: fn(&crate::document::SecondRow) -> Option<f64>| -> Vec<(f64, f64)> {
        load.series.iter().filter_map(|row| Some((row.at_s, of(row)?))).collect()
    };
    chart(text, "Users over time", &points(|row| Some(row.users)), "users", None);
    chart(
        text,
        "99th percentile of latency over time",
        &points(|row| row.p99_ns.map(|ns| ns as f64 / 1e6)),
        "ms",
        None,
    );
    if load.elasticity.is_some() {
        chart(text, "App servers over time", &points(|row| Some(row.apps as f64)), "servers", None);
    }
}

/// A line through points, from 0 upward; `mark` is a place on the horizontal axis with the band about it.
fn chart(text: &mut String, caption: &str, points: &[(f64, f64)], unit: &str, mark: Option<(f64, f64, f64)>) {
    let most = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).fold(0.0, f64::max);
    let (right, top) = (most(|point| point.0), most(|point| point.1));
    if points.len() < 2 || right <= 0.0 || top <= 0.0 {
        return;
    }
    let at = |(x, y): &(f64, f64)| (50.0 + 420.0 * x / right, 170.0 - 150.0 * y / top);
    let line = points.iter().map(at).map(|(x, y)| format!("{x:.1},{y:.1}")).collect::<Vec<_>>().join(" ");
    let dots = points.iter().map(at).fold(String::new(), |dots, (x, y)| {
        dots + &format!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"2.5\" fill=\"#2f81f7\"/>")
    });
    let across = |x: f64| 50.0 + 420.0 * (x / right).clamp(0.0, 1.0);
    let marked = mark.map_or(String::new(), |(most, low, high)| {
        format!(
            "<rect x=\"{:.1}\" y=\"20\" width=\"{:.1}\" height=\"150\" fill=\"#2f81f7\" opacity=\".15\"/>\
             <path d=\"M{2:.1} 20V170\" stroke=\"currentColor\" stroke-dasharray=\"4 3\"/>\
             <text x=\"{2:.1}\" y=\"16\" font-size=\"10\" fill=\"currentColor\" text-anchor=\"middle\">{most:.0}</text>",
            across(low),
            across(high) - across(low),
            across(most)
        )
    });
    let _ = writeln!(
        text,
        "<figure><svg viewBox=\"0 0 480 200\" role=\"img\" aria-label=\"{caption}\"><path d=\"M50 20V170H470\" fill=\"none\" stroke=\"currentColor\" opacity=\".4\"/>{marked}\
         <polyline points=\"{line}\" fill=\"none\" stroke=\"#2f81f7\" stroke-width=\"1.5\"/>{dots}\
         <g font-size=\"10\" fill=\"currentColor\"><text x=\"46\" y=\"24\" text-anchor=\"end\">{top:.0}</text><text x=\"46\" y=\"172\" text-anchor=\"end\">0</text>\
         <text x=\"470\" y=\"184\" text-anchor=\"end\">{right:.0}</text></g></svg><figcaption>{caption} ({unit})</figcaption></figure>"
    );
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
