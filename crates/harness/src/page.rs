//! The result of a run or a study as one HTML page that needs nothing else: no network, no script.

use crate::chart::{Chart, Join, Mark};
use crate::document::{Document, LoadRow, SecondRow, Users};
use crate::study::{self, ArmRow, StudyDocument};
use crate::words;
use baremark_model::maximum;
use std::fmt::Write as _;

const STYLE: &str = "\
:root{color-scheme:light dark;--text:#1b1f24;--back:#fff;--soft:#57606a;--rule:#d8dee4;--code:#f6f8fa;--blue:#0969da;--red:#b3261e}\
@media(prefers-color-scheme:dark){:root{--text:#e6edf3;--back:#0d1117;--soft:#8b949e;--rule:#30363d;--code:#161b22;--blue:#4493f8;--red:#ff7b72}}\
*{box-sizing:border-box}body{font:16px/1.5 system-ui,sans-serif;max-width:62rem;margin:2rem auto;padding:0 1rem;color:var(--text);background:var(--back)}\
h1{font-size:1.5rem;margin-bottom:.5rem}h2{font-size:1.15rem;margin-top:2rem}\
table{border-collapse:collapse;font-size:.85rem;display:block;overflow-x:auto;font-variant-numeric:tabular-nums}\
td,th{padding:.25rem .6rem;text-align:right;border-bottom:1px solid var(--rule);white-space:nowrap}td:first-child,th:first-child{text-align:left}\
td.why{white-space:normal;text-align:left;color:var(--soft)}\
pre{overflow-x:auto;font-size:.8rem;background:var(--code);padding:.8rem;border-radius:6px}.void{color:var(--red);font-weight:600}.answer{font-size:1.15rem}\
.charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(26rem,100%),1fr));gap:1rem;margin:1rem 0}figure{margin:0}figcaption{font-size:.85rem;color:var(--soft)}\
svg{width:100%;height:auto;display:block}svg.ratio{width:15rem}svg text{font-size:12px;fill:var(--soft)}\
.grid{stroke:var(--rule)}.axis{stroke:var(--soft);fill:none}.line{stroke:var(--blue);stroke-width:2;fill:none;stroke-linejoin:round}.dot{fill:var(--blue)}\
.band{fill:var(--blue);opacity:.15}.mark{stroke:var(--text);stroke-dasharray:4 3}details{margin:.5rem 0}summary{cursor:pointer}";

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
            course(&mut text, load);
            operations(&mut text, load);
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
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\
         <title>{title}</title><style>{STYLE}</style></head><body><h1>{title}</h1>\n"
    )
}

/// Each arm's value, and its ratio to the first with the interval drawn: the line is where nothing is lost or won.
fn ratios(text: &mut String, document: &StudyDocument) {
    let highest = document.arms.iter().filter_map(ends).map(|(_, high)| high).fold(1.0, f64::max).min(10.0);
    // Above the highest there is air.
    let highest = 1.1 * highest;
    let _ = writeln!(
        text,
        "<table><tr><th>arm</th><th>{}</th><th>ratio</th><th>interval</th><th>0 to {highest:.2}</th></tr>",
        escape(&document.metric)
    );
    for arm in &document.arms {
        let _ = write!(text, "<tr><td>{}</td><td>{}</td>", escape(&arm.name), study::mean(arm));
        let _ = match (arm.ratio, &arm.absent) {
            (Some(ratio), _) => {
                let interval = ratio.low.zip(ratio.high);
                let interval = interval.map_or("none yet".to_owned(), |(low, high)| format!("{low:.3} to {high:.3}"));
                let drawn = drawn(ratio.ratio, ends(arm), highest);
                writeln!(text, "<td>{:.3}</td><td>{interval}</td><td>{drawn}</td></tr>", ratio.ratio)
            }
            (None, Some(why)) => {
                writeln!(text, "<td class=\"why\" colspan=\"3\">not available here: {}</td></tr>", escape(why))
            }
            (None, None) if arm.emulated => {
                writeln!(
                    text,
                    "<td class=\"why\" colspan=\"3\">emulated: no measure, so that it has no ratio</td></tr>"
                )
            }
            (None, None) => {
                writeln!(text, "<td class=\"why\" colspan=\"3\">{}</td></tr>", first_or_none(document, arm))
            }
        };
    }
    let _ = writeln!(text, "</table>");
}

/// Why an arm that ran has no ratio.
fn first_or_none(document: &StudyDocument, arm: &ArmRow) -> &'static str {
    let first = document.arms.first().is_some_and(|first| first.name == arm.name);
    if first { "what the others are compared with" } else { "no value that counts" }
}

/// Where a ratio's interval ends, or the ratio itself where there is none.
fn ends(arm: &ArmRow) -> Option<(f64, f64)> {
    arm.ratio.map(|ratio| (ratio.low.unwrap_or(ratio.ratio), ratio.high.unwrap_or(ratio.ratio)))
}

/// A ratio with its interval on a line from 0 to `highest`, and the place of 1.
fn drawn(ratio: f64, ends: Option<(f64, f64)>, highest: f64) -> String {
    let at = |ratio: f64| 10.0 + 220.0 * ratio.clamp(0.0, highest) / highest;
    let (low, high) = ends.unwrap_or((ratio, ratio));
    format!(
        "<svg class=\"ratio\" viewBox=\"0 0 240 20\" role=\"img\" aria-label=\"{ratio:.3}\"><path class=\"grid\" d=\"M10 10H230\"/>\
         <path class=\"mark\" d=\"M{:.1} 1V19\"/><path class=\"line\" d=\"M{:.1} 10H{:.1}\"/><circle class=\"dot\" cx=\"{:.1}\" cy=\"10\" r=\"4\"/></svg>",
        at(1.0),
        at(low),
        at(high),
        at(ratio)
    )
}

fn knee(text: &mut String, search: &maximum::Document, users: Option<&Users>) {
    let points = |of: fn(&maximum::KneeRow) -> Option<f64>| -> Vec<(f64, f64)> {
        search.knee.iter().filter_map(|row| Some((row.level, of(row)?))).collect()
    };
    let (rates, latencies) =
        (points(|row| Some(row.achieved_per_s)), points(|row| row.p99_ns.map(|ns| ns as f64 / 1e6)));
    let mark = users.map(|users| Mark {
        at: users.most,
        low: users.low.unwrap_or(users.most),
        high: users.high.unwrap_or(users.most),
    });
    let chart = |caption, up, points| Chart { caption, across: "users", up, points, join: Join::Straight, mark };
    text.push_str("<div class=\"charts\">");
    chart("Operations over users; the line is the most, the band its interval", "operations/s", &rates[..]).draw(text);
    chart("99th percentile of latency over users", "ms", &latencies[..]).draw(text);
    text.push_str("</div>\n");
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
    let points = |of: fn(&SecondRow) -> Option<f64>| -> Vec<(f64, f64)> {
        load.series.iter().filter_map(|row| Some((row.at_s, of(row)?))).collect()
    };
    let over_time = |caption, up, join, points: &[(f64, f64)], text: &mut String| {
        Chart { caption, across: "s", up, points, join, mark: None }.draw(text);
    };
    let latencies = points(|row| row.p99_ns.map(|ns| ns as f64 / 1e6));
    text.push_str("<div class=\"charts\">");
    over_time("Users over time", "users", Join::Steps, &points(|row| Some(row.users)), text);
    over_time("99th percentile of latency over time", "ms", Join::Straight, &latencies, text);
    if load.elasticity.is_some() {
        over_time("App servers over time", "servers", Join::Steps, &points(|row| Some(row.apps as f64)), text);
        over_time("Web servers over time", "servers", Join::Steps, &points(|row| Some(row.webs as f64)), text);
    }
    text.push_str("</div>\n");
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
