//! The result of a run as one HTML page that needs nothing else: no network, no script.

use crate::document::{Document, LoadRow};
use crate::words;
use baremark_model::maximum;
use std::fmt::Write as _;

const STYLE: &str = "body{font:16px/1.5 system-ui,sans-serif;max-width:62rem;margin:2rem auto;padding:0 1rem;color:#1b1f24;background:#fff}\
h1{font-size:1.5rem}h2{font-size:1.15rem;margin-top:2rem}table{border-collapse:collapse;font-size:.85rem;display:block;overflow-x:auto}\
td,th{padding:.2rem .6rem;text-align:right;border-bottom:1px solid #d8dee4}td:first-child,th:first-child{text-align:left}\
pre{overflow-x:auto;font-size:.8rem;background:#f6f8fa;padding:.8rem}.void{color:#b3261e;font-weight:600}.answer{font-size:1.15rem}\
svg{width:100%;max-width:40rem;height:auto}figure{margin:1rem 0}figcaption{font-size:.85rem;color:#57606a}\
@media(prefers-color-scheme:dark){body{color:#e6edf3;background:#0d1117}pre{background:#161b22}td,th{border-color:#30363d}figcaption{color:#8b949e}.void{color:#ff7b72}}";

/// The page.
#[must_use]
pub fn render(document: &Document) -> String {
    let mut text = String::new();
    let title = escape(&document.title);
    let _ = write!(
        text,
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <meta name=\"color-scheme\" content=\"light dark\"><meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\
         <title>{title}</title><style>{STYLE}</style></head><body><h1>{title}</h1>\n"
    );
    for why in &document.void {
        let _ = writeln!(text, "<p class=\"void\">Void: {}</p>", escape(why));
    }
    let _ = writeln!(text, "<p class=\"answer\">{}</p>", escape(&words::headline(document)));
    for row in &document.applications {
        if document.applications.len() > 1 {
            let _ = writeln!(text, "<h2>{}</h2>", escape(&row.name));
        }
        if let Some(search) = &row.search {
            knee(&mut text, search);
        }
        if let Some(load) = &row.load {
            operations(&mut text, load);
            course(&mut text, load);
        }
    }
    let _ = writeln!(text, "<h2>Everything in words</h2><pre>{}</pre>", escape(&words::describe(document)));
    text + "</body></html>\n"
}

fn knee(text: &mut String, search: &maximum::Document) {
    let points = |of: fn(&maximum::KneeRow) -> Option<f64>| -> Vec<(f64, f64)> {
        search.knee.iter().filter_map(|row| Some((row.level, of(row)?))).collect()
    };
    chart(text, "Operations per second over users", &points(|row| Some(row.achieved_per_s)), "operations/s");
    chart(text, "99th percentile of latency over users", &points(|row| row.p99_ns.map(|ns| ns as f64 / 1e6)), "ms");
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
    chart(text, "Users over time", &points(|row| Some(row.users)), "users");
    chart(text, "99th percentile of latency over time", &points(|row| row.p99_ns.map(|ns| ns as f64 / 1e6)), "ms");
    if load.elasticity.is_some() {
        chart(text, "App servers over time", &points(|row| Some(row.apps as f64)), "servers");
    }
}

/// A line through points, from 0 upward.
fn chart(text: &mut String, caption: &str, points: &[(f64, f64)], unit: &str) {
    let most = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).fold(0.0, f64::max);
    let (right, top) = (most(|point| point.0), most(|point| point.1));
    if points.len() < 2 || right <= 0.0 || top <= 0.0 {
        return;
    }
    let at = |(x, y): &(f64, f64)| (50.0 + 420.0 * x / right, 170.0 - 150.0 * y / top);
    let line = points.iter().map(at).map(|(x, y)| format!("{x:.1},{y:.1}")).collect::<Vec<_>>().join(" ");
    let dots = points.iter().map(at).fold(String::new(), |dots, (x, y)| {
        dots + &format!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"2.5\" fill=\"#0969da\"/>")
    });
    let _ = writeln!(
        text,
        "<figure><svg viewBox=\"0 0 480 200\" role=\"img\" aria-label=\"{caption}\"><path d=\"M50 20V170H470\" fill=\"none\" stroke=\"currentColor\" opacity=\".4\"/>\
         <polyline points=\"{line}\" fill=\"none\" stroke=\"#0969da\" stroke-width=\"1.5\"/>{dots}\
         <g font-size=\"10\" fill=\"currentColor\"><text x=\"46\" y=\"24\" text-anchor=\"end\">{top:.0}</text><text x=\"46\" y=\"172\" text-anchor=\"end\">0</text>\
         <text x=\"470\" y=\"184\" text-anchor=\"end\">{right:.0}</text></g></svg><figcaption>{caption} ({unit})</figcaption></figure>"
    );
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
