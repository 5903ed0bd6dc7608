//! Known costs and what was found of them, as a table.

use crate::number::{count, fixed, percent};
use crate::terminal::{INDENT, Page};
use crate::text::{Paint, Style, clean, left, right, width};
use baremark_model::scale::{ScaleDocument, ScaleRow};

/// The share of true scales that would be called untrue.
const SUSPICIOUS: f64 = 0.01;

/// What the intervals say of the method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// As many cover what was injected as those of a calibrated method do.
    Calibrated,
    /// So few cover it that the method must be off.
    Off,
    /// There is none.
    Undecided,
}

/// The outcome.
#[must_use]
pub fn outcome(document: &ScaleDocument) -> Outcome {
    match document.intervals {
        0 => Outcome::Undecided,
        _ if document.chance < SUSPICIOUS => Outcome::Off,
        _ => Outcome::Calibrated,
    }
}

/// The table with what it means.
#[must_use]
pub fn render(document: &ScaleDocument, style: &Style) -> String {
    let mut page = Page { style: *style, text: String::new() };
    page.paragraph(Paint::Strong, 0, INDENT, "Known overheads in blinded arms: are they recovered?");
    let blocks = count(document.blocks, "block");
    let context = format!(
        "{} on {}, against itself · {blocks} · run {}",
        clean(&document.workload),
        clean(&document.native_means),
        clean(&document.run)
    );
    page.paragraph(Paint::Faint, 0, INDENT, &context);
    page.head("Result");
    let (paint, sentence) = verdict(document);
    page.paragraph(paint, INDENT, INDENT, &sentence);
    page.paragraph(Paint::Plain, INDENT, INDENT, &resolved(document));
    page.head("Injected and recovered");
    table(&mut page, document);
    page.text.push('\n');
    let note = "Costs are repetitions that ran inside the timed region and were not counted. The arms carried random \
                labels; they were opened after the intervals had been worked out.";
    page.paragraph(Paint::Faint, INDENT, 0, note);
    page.text
}

fn verdict(document: &ScaleDocument) -> (Paint, String) {
    let (covered, intervals) = (document.covered, document.intervals);
    let level = fixed(document.confidence * 100.0, 0);
    let found = format!("{covered} of {intervals} intervals of {level} % cover the cost that was injected");
    match outcome(document) {
        Outcome::Undecided => (
            Paint::Caution,
            "No result: no arm has an interval. The budget ended too early; try without --quick, or with a study \
             whose trials are shorter."
                .to_owned(),
        ),
        Outcome::Off => {
            let chance = percent(document.chance);
            let sentence =
                format!("{found}. A calibrated method would do this badly with p = {chance}: this one is off.");
            (Paint::Caution, sentence)
        }
        Outcome::Calibrated => (Paint::Strong, format!("{found}: as a calibrated method does.")),
    }
}

/// What could be told from no cost at all: what this machine resolves, in so many blocks.
fn resolved(document: &ScaleDocument) -> String {
    let mut costs: Vec<f64> = document.rows.iter().map(|row| row.asked).collect();
    costs.dedup();
    let of_cost = |&cost: &f64| {
        let rows = document.rows.iter().filter(|row| row.asked.to_bits() == cost.to_bits());
        let told = rows.clone().filter(|row| row.told_from_none == Some(true)).count();
        format!("{told} of {} at {}", rows.count(), percent(cost))
    };
    let all: Vec<String> = costs.iter().map(of_cost).collect();
    format!("Told from no cost at all: {}.", all.join(", "))
}

fn table(page: &mut Page, document: &ScaleDocument) {
    let heads = ["injected", "recovered", "interval", "covers", "blocks", "label"].map(str::to_owned);
    let rows: Vec<[String; 6]> = document.rows.iter().map(cells).collect();
    let widths: Vec<usize> =
        (0..heads.len()).map(|at| rows.iter().chain([&heads]).map(|row| width(&row[at])).max().unwrap_or(0)).collect();
    for (index, row) in std::iter::once(&heads).chain(&rows).enumerate() {
        let padded = row.iter().zip(&widths).enumerate().map(|(at, (cell, &columns))| match at {
            3 | 5 => left(cell, columns),
            _ => right(cell, columns),
        });
        let line = format!("{}{}", " ".repeat(INDENT), padded.collect::<Vec<_>>().join("   "));
        let missed = index > 0 && document.rows[index - 1].covers == Some(false);
        let paint = match (index, missed) {
            (0, _) => Paint::Strong,
            (_, true) => Paint::Caution,
            _ => Paint::Plain,
        };
        page.line(paint, &line);
    }
}

fn cells(row: &ScaleRow) -> [String; 6] {
    let share = |share: f64| format!("{} %", fixed(share * 100.0, 2));
    let interval = match (row.lo, row.hi) {
        (Some(lo), Some(hi)) => format!("{} to {}", fixed(lo * 100.0, 2), share(hi)),
        _ => "none".to_owned(),
    };
    let covers = match row.covers {
        Some(true) => "yes",
        Some(false) => "no",
        None => "",
    };
    let recovered = row.recovered.map_or_else(|| "none".to_owned(), share);
    [share(row.injected), recovered, interval, covers.to_owned(), row.blocks.to_string(), clean(&row.label)]
}
