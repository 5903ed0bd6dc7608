//! A stored load as the data of its page.

use super::record::{result, rows};
use super::summary;
use super::words::{COLUMNS, nines, operation, p99_of, time};
use crate::exit::Refusal;
use crate::record::machine_line;
use baremark_load::document::{Document, FORMAT, SecondRow};
use baremark_model::maximum;
use baremark_report::load::{Chart, LoadPage};
use baremark_store::{LoadSummary, StoredLoad};

/// The page of a load or a search; of one that was killed, its course alone.
pub(super) fn of(stored: &StoredLoad) -> Result<LoadPage, Refusal> {
    let LoadSummary { id, title, kind, started, stop_reason, state, .. } = &stored.summary;
    let state = state.word();
    let mut page = LoadPage {
        title: title.clone(),
        context: format!("{started} · {} · {id}", machine_line(&stored.machine)),
        provenance: vec![
            ("record".to_owned(), id.to_string()),
            ("machine".to_owned(), machine_line(&stored.machine)),
            ("began".to_owned(), started.to_string()),
            ("program".to_owned(), format!("baremark {}", stored.version)),
            ("ended".to_owned(), stop_reason.clone().unwrap_or_else(|| state.to_owned())),
        ],
        ..LoadPage::default()
    };
    if stored.document.is_none() {
        page.cautions.push(format!("{state}: no result was stored; the figures show what was measured until then."));
        page.charts = course(&rows(stored));
    } else if kind == FORMAT {
        load(&mut page, &result(stored)?);
    } else {
        search(&mut page, &result(stored)?);
    }
    Ok(page)
}

fn load(page: &mut LoadPage, document: &Document) {
    for site in &document.sites {
        let lost = site.lost.as_ref().map(|why| format!("Site {} was lost: {why}", site.name));
        page.cautions.extend(lost);
    }
    if let Some(headline) = summary::failed(document) {
        page.cautions.push(headline);
        page.cautions.extend(summary::hints(document).into_iter().map(|hint| format!("Hint: {hint}.")));
    }
    page.cautions.extend(document.generator.reasons.iter().cloned());
    page.sentences.push(format!("{}.", summary::summary(document)));
    page.sentences.extend(document.limits.iter().map(|row| {
        let (name, verdict) = summary::limit(row);
        format!("{name}: {verdict}.")
    }));
    page.sentences.push(format!("generator: {}.", summary::generator(document)));
    let rows = document.operations.iter().map(|row| operation(document, row).to_vec());
    let heads = COLUMNS.map(str::to_owned).to_vec();
    page.table = Some((summary::latency_from(document).to_owned(), heads, rows.collect()));
    let mut curves = Vec::new();
    for (name, curve) in
        [("corrected", &document.latency.corrected_curve), ("uncorrected", &document.latency.raw_curve)]
    {
        if !curve.is_empty() {
            curves.push((name.to_owned(), curve.iter().map(|(share, ns)| (nines(*share), ms(*ns))).collect()));
        }
    }
    let last =
        curves.iter().flat_map(|(_, points): &(String, Vec<(f64, f64)>)| points).map(|(x, _)| *x).fold(0.0, f64::max);
    let ticks = [(0.5, "p50"), (0.9, "p90"), (0.99, "p99"), (0.999, "p99.9"), (0.9999, "p99.99")];
    let shown = ticks.into_iter().map(|(share, name)| (nines(share), name.to_owned()));
    let ticks = shown.filter(|(at, _)| *at <= last + 1e-9).collect();
    let across = "percentile (each nine takes the same room)";
    page.charts.push(Chart { ticks, ..chart("Latency by percentile".to_owned(), across, ("ms", true), curves) });
    page.charts.extend(course(&document.series));
}

/// Curves of values in a unit, drawn logarithmically or not, over what the axis below shows.
fn chart(
    caption: String,
    across: &str,
    (unit, logarithmic): (&str, bool),
    curves: Vec<(String, Vec<(f64, f64)>)>,
) -> Chart {
    Chart { caption, across: across.to_owned(), ticks: Vec::new(), unit: unit.to_owned(), logarithmic, curves }
}

fn course(series: &[SecondRow]) -> Vec<Chart> {
    let by_second = |pick: &dyn Fn(&SecondRow) -> Option<f64>| -> Vec<(f64, f64)> {
        series.iter().filter_map(|row| Some((row.at_s as f64, pick(row)?))).collect()
    };
    let answered = ("answered".to_owned(), by_second(&|row| Some(row.answered as f64)));
    let failed = ("failed".to_owned(), by_second(&|row| Some(row.failed as f64)));
    let p50 = ("p50".to_owned(), by_second(&|row| row.latency.as_ref()?.p50_ns.map(ms)));
    let p99 = ("p99".to_owned(), by_second(&|row| p99_of(row).map(ms)));
    let across = "time (s)";
    vec![
        chart("Requests by second".to_owned(), across, ("1/s", false), vec![answered, failed]),
        chart("Latency by second".to_owned(), across, ("ms", true), vec![p99, p50]),
    ]
}

fn search(page: &mut LoadPage, document: &maximum::Document) {
    page.sentences.push(baremark_report::maximum::answer(document));
    for one in document.limited_by.iter().take(3) {
        page.sentences.push(format!("Limited by {} in {:.0} % of the failed windows.", one.what, 100.0 * one.share));
    }
    if document.generator_was_the_limit {
        page.cautions.push("The load generator was a limit: the server may be capable of more.".to_owned());
    }
    let heads = ["requested", "done/s", "failed", "p50", "p95", "p99", "verdict"].map(str::to_owned).to_vec();
    let rows = document.knee.iter().map(|row| {
        vec![
            format!("{:.1}", row.level),
            format!("{:.1}", row.achieved_per_s),
            format!("{:.2} %", 100.0 * row.failed_share),
            time(row.p50_ns),
            time(row.p95_ns),
            time(row.p99_ns),
            baremark_report::maximum::judged(row).to_owned(),
        ]
    });
    page.table = Some((format!("The knee, by {}", document.factor), heads, rows.collect()));
    let by_level = |pick: &dyn Fn(&maximum::KneeRow) -> Option<f64>| -> Vec<(f64, f64)> {
        document.knee.iter().filter_map(|row| Some((row.level, pick(row)?))).collect()
    };
    let by_factor = |caption: &str, unit: &str, name: &str, points| {
        let caption = format!("{caption} by {}", document.factor);
        chart(caption, &document.factor, (unit, false), vec![(name.to_owned(), points)])
    };
    let cpu = by_level(&|row| row.utilization.get("cpu").map(|share| 100.0 * share));
    page.search = Some(document.clone());
    page.charts = vec![
        by_factor("Throughput", "1/s", "done", by_level(&|row| Some(row.achieved_per_s))),
        by_factor("Processor of this machine", "%", "cpu", cpu),
    ];
}

fn ms(ns: u64) -> f64 {
    ns as f64 / 1e6
}
