//! The histogram of the workload `wakeup`, by powers of four, and what ended the search of the workload `density`.
//!
//! What a version of a detail does not have is left out.

use crate::grid::{Cell, Grid, GridRow};
use crate::number::fixed;
use crate::text::clean;
use crate::treatment::Factors;
use baremark_model::document::{DetailRow, Document};
use baremark_model::units::Nanos;
use serde::Deserialize;

/// How the formats begin that are shown here.
const WAKEUP: &str = "baremark-wakeup/";
const DENSITY: &str = "baremark-density/";
/// Ends of the columns in nanoseconds, by powers of four; the last column has what is later.
const ENDS_NS: [u64; 8] = [1_024, 4_096, 16_384, 65_536, 262_144, 1_048_576, 4_194_304, 16_777_216];

/// The detail of `wakeup`, as far as it is shown.
#[derive(Deserialize)]
struct WakeUps {
    histogram: Vec<WakeUpBucket>,
}

/// Wake-ups up to a latency, from the end of the bucket before.
#[derive(Deserialize)]
struct WakeUpBucket {
    to_ns: u64,
    count: u64,
}

/// The detail of `density`, as far as it is shown.
#[derive(Deserialize)]
struct DensitySearch {
    result: String,
}

/// The share of wake-ups between the ends of columns, a row for each treatment; `None` of a document without wake-ups.
pub(crate) fn histogram(document: &Document) -> Option<Grid> {
    let factors = Factors::of(&document.run);
    let of = |detail: &DetailRow| Some(GridRow { label: factors.name(&detail.treatment), cells: cells(detail)? });
    let rows: Vec<GridRow> = details(document, WAKEUP).filter_map(of).collect();
    let within = |end: &u64| format!("to {:.0}", Nanos(*end));
    let columns = ENDS_NS.iter().map(within).chain(["later".to_owned()]).collect();
    let caption = "Wake-ups by latency, in % of those of the last phase".to_owned();
    (!rows.is_empty()).then(|| Grid { caption, columns, rows, reasons: Vec::new() })
}

#[expect(clippy::cast_precision_loss, reason = "a number of wake-ups")]
fn cells(detail: &DetailRow) -> Option<Vec<Cell>> {
    let mut counts = [0_u64; ENDS_NS.len() + 1];
    for bucket in WakeUps::deserialize(&detail.document).ok()?.histogram {
        // Buckets of the detail end at powers of two, so that none lies in two columns.
        let column = ENDS_NS.iter().position(|end| bucket.to_ns <= *end).unwrap_or(ENDS_NS.len());
        counts[column] += bucket.count;
    }
    let all = counts.iter().sum::<u64>().max(1) as f64;
    let cell = |count: u64| match count {
        0 => Cell::Blank,
        count => Cell::Measured { estimate: fixed(100.0 * count as f64 / all, 1), ratio: None },
    };
    Some(counts.into_iter().map(cell).collect())
}

/// What ended each search for the most copies, in a line for each treatment.
pub(crate) fn searches(document: &Document) -> Vec<String> {
    let factors = Factors::of(&document.run);
    let line = |detail: &DetailRow| {
        let search = DensitySearch::deserialize(&detail.document).ok()?;
        Some(format!("{}: {}.", factors.name(&detail.treatment), clean(&search.result)))
    };
    details(document, DENSITY).filter_map(line).collect()
}

fn details<'d>(document: &'d Document, format: &'static str) -> impl Iterator<Item = &'d DetailRow> {
    document.details.iter().filter(move |detail| detail.format.starts_with(format))
}

#[cfg(test)]
mod tests {
    use super::*;
    use baremark_model::plan::Treatment;
    use serde_json::json;

    #[test]
    fn a_histogram_has_the_share_of_each_column() {
        let rows = json!([{ "to_ns": 511, "count": 1 }, { "to_ns": 2047, "count": 6 }, { "to_ns": 4095, "count": 2 },
            { "to_ns": 33_554_431_u64, "count": 1 }]);
        let document = json!({ "histogram": rows, "missed": 0 });
        let detail =
            |document| DetailRow { treatment: Treatment::new(), block: 0, format: WAKEUP.to_owned(), document };
        let cells = cells(&detail(document)).expect("a histogram");
        let shown: Vec<&str> = cells
            .iter()
            .map(|cell| if let Cell::Measured { estimate, .. } = cell { estimate.as_str() } else { "" })
            .collect();
        assert_eq!(shown, ["10.0", "80.0", "", "", "", "", "", "", "10.0"]);
        assert_eq!(super::cells(&detail(json!({ "missed": 0 }))), None);
    }
}
