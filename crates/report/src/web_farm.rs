//! What the workload `web-farm` reports alongside its metrics: both limits in words, latency and CPU use against the number of servers.
//!
//! What a version of the detail does not have is blank.

use crate::grid::{Cell, Grid, GridRow};
use crate::number::{fixed, percent};
use crate::section::Group;
use crate::text::clean;
use crate::treatment::Factors;
use baremark_model::document::{DetailRow, Document};
use baremark_model::units::Nanos;
use serde::Deserialize;

/// How the format begins that is shown here.
const FORMAT: &str = "baremark-web-farm/";
const COLUMNS: [&str; 7] = ["requested/s", "pages/s", "failed", "p50", "p95", "CPU", "generator"];

/// What the searches of a document's farms found, a sentence for each treatment.
pub(crate) fn found(document: &Document) -> Vec<String> {
    let factors = Factors::of(&document.run);
    let shown = document.details.iter().filter(|detail| detail.format.starts_with(FORMAT));
    let found = shown.map(|detail| (factors.name(&detail.treatment), results(detail)));
    found.filter(|(_, lines)| !lines.is_empty()).map(|(name, lines)| format!("{name}: {}", lines.join(" "))).collect()
}

/// Both limits in words.
fn results(detail: &DetailRow) -> Vec<String> {
    Farm::of(detail).results.iter().map(|line| format!("{}.", clean(line))).collect()
}

/// The farms of a document, by treatment.
pub(crate) fn groups(document: &Document) -> Vec<Group> {
    let factors = Factors::of(&document.run);
    let shown = document.details.iter().filter(|detail| detail.format.starts_with(FORMAT));
    shown.map(|detail| group(&factors.name(&detail.treatment), detail)).collect()
}

fn group(name: &str, detail: &DetailRow) -> Group {
    let (lines, rows) =
        (results(detail), Farm::of(detail).levels.into_iter().filter_map(row).collect::<Vec<GridRow>>());
    let grid = Grid {
        caption: "Latency and CPU use by the number of servers".to_owned(),
        columns: COLUMNS.map(str::to_owned).to_vec(),
        rows,
        reasons: Vec::new(),
    };
    let grids = if grid.rows.is_empty() { Vec::new() } else { vec![grid] };
    Group { head: format!("Web farm: {name}, block {}", detail.block + 1), lines, grids }
}

/// The detail, as far as it is shown.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Farm {
    results: Vec<String>,
    levels: Vec<FarmLevel>,
}

impl Farm {
    /// Nothing of a detail that is of another form.
    fn of(detail: &DetailRow) -> Farm {
        Farm::deserialize(&detail.document).unwrap_or_default()
    }
}

/// One number of servers; what a version does not have is blank.
#[derive(Default, Deserialize)]
#[serde(default)]
struct FarmLevel {
    servers: Option<u64>,
    requested_per_s: Option<f64>,
    requests_per_s: Option<f64>,
    failed_share: Option<f64>,
    p50_ns: Option<u64>,
    p95_ns: Option<u64>,
    cpu_share: Option<f64>,
    generator_share: Option<f64>,
}

fn row(level: FarmLevel) -> Option<GridRow> {
    let rate = |rate: Option<f64>| rate.map(|rate| fixed(rate, 0));
    let time = |time: Option<u64>| time.map(|ns| format!("{:.2}", Nanos(ns)));
    let cells = [
        rate(level.requested_per_s),
        rate(level.requests_per_s),
        level.failed_share.map(percent),
        time(level.p50_ns),
        time(level.p95_ns),
        level.cpu_share.map(percent),
        level.generator_share.map(percent),
    ];
    let cell = |text: Option<String>| text.map_or(Cell::Blank, |estimate| Cell::Measured { estimate, ratio: None });
    Some(GridRow { label: format!("{} servers", level.servers?), cells: cells.into_iter().map(cell).collect() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use baremark_model::plan::Treatment;
    use serde_json::json;

    #[test]
    fn levels_are_rows_and_what_is_unknown_is_blank() {
        let levels = json!([{ "servers": 32, "requested_per_s": 800.0, "requests_per_s": 799.6, "failed_share": 0.0, "p50_ns": 1_200_000, "p95_ns": 3_000_000,
            "cpu_share": 0.41, "generator_share": 0.3 }, { "servers": 64, "cpu_share": 0.8 }, { "x": 1 }]);
        let document = json!({ "results": ["p95 up to 100 ms: 70 servers"], "levels": levels });
        let detail = DetailRow { treatment: Treatment::new(), block: 1, format: FORMAT.to_owned(), document };
        let group = group("rate 25", &detail);
        assert_eq!(
            (group.head.as_str(), group.lines),
            ("Web farm: rate 25, block 2", vec!["p95 up to 100 ms: 70 servers.".to_owned()])
        );
        let shown = |row: &GridRow| {
            let text = |cell: &Cell| {
                if let Cell::Measured { estimate, .. } = cell { estimate.clone() } else { "-".to_owned() }
            };
            (row.label.clone(), row.cells.iter().map(text).collect::<Vec<_>>().join(" | "))
        };
        let rows: Vec<_> = group.grids[0].rows.iter().map(shown).collect();
        assert_eq!(rows.len(), 2);
        assert_eq!(rows[0].0, "32 servers");
        assert!(rows[0].1.starts_with("800 | 800 | ") && rows[0].1.contains("1.20 ms | 3.00 ms | 41"), "{rows:?}");
        assert!(rows[1].1.starts_with("- | - | - | - | - | 80"), "{rows:?}");
    }
}
