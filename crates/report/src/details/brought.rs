//! What a workload shows by itself ([`Shown`]): its sentences and its table, laid out as those of the kinds that reports know.

use super::reported::{Reported, alike};
use super::says::{text, time};
use crate::grid::{Cell, Grid, GridRow};
use crate::section::Group;
use crate::text::clean;
use baremark_model::shown::{Shown, ShownCell, ShownRow};
use serde::Deserialize;

/// A detail that brings how it is shown.
#[derive(Deserialize)]
struct Bringing {
    shown: Shown,
}

/// The section of details of one format. What is of another form is left out, and cells without a column.
pub(super) fn group(reported: &[Reported<'_>]) -> Option<Group> {
    let shown = |of: &Reported<'_>| Some((of.name.clone(), Bringing::deserialize(&of.row.document).ok()?.shown));
    let all: Vec<(String, Shown)> = reported.iter().filter_map(shown).collect();
    let (_, first) = all.first()?;
    let columns: Vec<String> = first.columns.iter().map(|column| clean(column)).collect();
    let most = all.iter().map(|(_, shown)| shown.facts.len()).max().unwrap_or(0);
    let of_each =
        |at: usize| alike(all.iter().filter_map(|(name, shown)| Some((name.as_str(), shown.facts.get(at)?.as_str()))));
    let row = |name: &str, row: &ShownRow| {
        let cells = row.cells.iter().map(cell).chain(std::iter::repeat(Cell::Blank)).take(columns.len());
        GridRow { label: format!("{name}, {}", clean(&row.what)), cells: cells.collect() }
    };
    let rows: Vec<GridRow> =
        all.iter().flat_map(|(name, shown)| shown.rows.iter().map(move |of| row(name, of))).collect();
    let lines: Vec<String> = (0..most).flat_map(of_each).collect();
    let (head, caption) = (clean(&first.head), clean(&first.caption));
    let grid = (!rows.is_empty()).then(|| Grid { caption, columns: columns.clone(), rows, reasons: Vec::new() });
    (!lines.is_empty() || grid.is_some()).then(|| Group { head, lines, grids: grid.into_iter().collect() })
}

fn cell(cell: &ShownCell) -> Cell {
    match cell {
        ShownCell::Blank => Cell::Blank,
        ShownCell::Count(count) => text(count.to_string()),
        ShownCell::Nanoseconds(ns) => time(Some(*ns)),
        ShownCell::Text(words) => text(clean(words)),
    }
}
