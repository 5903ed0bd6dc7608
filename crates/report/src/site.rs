//! The index of a folder of reports: studies, machines and times in one table that can be sorted, with a link to each report.
//!
//! One row for each ratio that a study requests, or for each run that has none. The only script sorts the table; every text of a run is escaped.

use crate::grid::estimated;
use crate::outline::nothing;
use crate::page::head;
use crate::svg::escape;
use crate::treatment::Factors;
use crate::words::{limits_of, outcome, ratio_of};
use crate::{number, summary};
use baremark_model::document::{Document, RatioRow};
use std::borrow::Borrow;
use std::fmt::Write;

const SORT: &str = include_str!("site.js");

/// A run's part of the index. Its document is not needed any more.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// Its rows of the table, as HTML.
    rows: String,
    /// Whether it measures.
    live: bool,
}

impl Entry {
    /// Of a run whose report is in the file `page`, alongside the index; `source` is where the run comes from, such as `store` or
    /// `bundle, verified`.
    #[must_use]
    pub fn of(document: &Document, page: &str, source: &str, live: bool) -> Entry {
        let mut html = String::new();
        // A `String` takes whatever is written to it.
        let _ = rows(&mut html, document, page, source);
        Entry { rows: html, live }
    }
}

/// One row of the table, each text as it is shown with the value by which it is sorted.
struct Row {
    study: String,
    comparison: String,
    ratio: Option<(f64, String)>,
    outcome: String,
}

/// The index. `changes` says from which run on a study's values are different, as text; empty where nothing is known of that.
#[must_use]
pub fn render(entries: &[impl Borrow<Entry>], changes: &str) -> String {
    let entries: Vec<&Entry> = entries.iter().map(Borrow::borrow).collect();
    let mut page = String::new();
    // A `String` takes whatever is written to it.
    let _ = write(&mut page, &entries, changes);
    page
}

fn write(page: &mut String, entries: &[&Entry], changes: &str) -> std::fmt::Result {
    let count = counted(entries);
    page.push_str(&head(&format!("baremark: {count}"), true));
    writeln!(
        page,
        "<header><h1>{}</h1>\n\
         <p class=\"context\">Select a column's head to sort. Ratios are with their intervals; reports say what may be compared.</p></header>\n\
         <div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"runs\"><table class=\"grid\" id=\"runs\">\n<thead><tr>",
        escape(&count),
    )?;
    for head in ["study", "comparison", "ratio", "outcome", "machine", "began", "version", "source", "report"] {
        write!(page, "<th scope=\"col\" data-sort>{head}</th>")?;
    }
    writeln!(page, "</tr></thead>\n<tbody>")?;
    entries.iter().for_each(|entry| page.push_str(&entry.rows));
    writeln!(page, "</tbody>\n</table></div>")?;
    if !changes.is_empty() {
        writeln!(page, "<section><h2>Changes over time</h2>\n<pre>{}</pre>\n</section>", escape(changes))?;
    }
    writeln!(page, "<script>\n{SORT}</script>\n</main>\n</body>\n</html>")
}

/// `3 runs, 1 live`.
fn counted(entries: &[&Entry]) -> String {
    let runs = number::count(entries.len() as u64, "run");
    match entries.iter().filter(|entry| entry.live).count() {
        0 => runs,
        live => format!("{runs}, {live} live"),
    }
}

fn rows(html: &mut String, document: &Document, page: &str, source: &str) -> std::fmt::Result {
    let run = &document.run;
    for row in rows_of(document) {
        let (value, ratio) =
            row.ratio.map_or((String::new(), "–".to_owned()), |(value, text)| (value.to_string(), text));
        writeln!(
            html,
            "<tr><td>{}</td><td>{}</td><td data-value=\"{value}\">{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td>\
             <td><a href=\"{}\">{}</a></td></tr>",
            escape(&row.study),
            escape(&row.comparison),
            escape(&ratio),
            escape(&row.outcome),
            escape(&summary::machine(document)),
            escape(&run.started),
            escape(&run.version),
            escape(source),
            escape(page),
            escape(&run.id),
        )?;
    }
    Ok(())
}

fn rows_of(document: &Document) -> Vec<Row> {
    let factors = Factors::of(&document.run);
    let asked = |row: &&RatioRow| row.metric == document.run.metric_of(&row.treatment) && !row.contrast.explains();
    let row = |row: &RatioRow| Row {
        study: document.run.study.clone(),
        comparison: format!("{} against {}", factors.name(&row.treatment), factors.name(&row.relative_to)),
        ratio: ratio_of(row).map(|ratio| {
            let limits = limits_of(row);
            let places = number::ratio_decimals(ratio, limits, 1.0, number::Digits::Two);
            let fixed = |value| number::fixed(value, places);
            let interval = limits.map(|(lo, hi)| format!(" ({} to {})", fixed(lo), fixed(hi)));
            (ratio, format!("{}{}", fixed(ratio), interval.unwrap_or_default()))
        }),
        outcome: outcome(document, row),
    };
    let found: Vec<Row> = document.ratios.iter().filter(asked).map(row).collect();
    if !found.is_empty() {
        return found;
    }
    let values: Vec<_> = document.estimates.iter().filter(|row| row.metric == document.run.metric).collect();
    let outcome = match values.as_slice() {
        [] if document.estimates.is_empty() => nothing(document).trim_end_matches('.').to_owned(),
        [] => "no value of the headline's metric".to_owned(),
        [only] => format!("{} {}", estimated(only, 1.0), only.unit),
        several => format!("{} values without a ratio", several.len()),
    };
    let study = document.run.study.clone();
    vec![Row { study, comparison: String::new(), ratio: None, outcome }]
}
