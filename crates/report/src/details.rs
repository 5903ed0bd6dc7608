//! What workloads report alongside their metrics, of the last phase of each treatment: a file for each kind, with the struct that it is read
//! into. What a version does not have is blank.

mod block;
mod databases;
mod guest_operations;
mod load;
mod provision;
mod says;

use crate::answer::labelled;
use crate::grid::{Grid, GridRow};
use crate::part::Part;
use crate::section::Group;
use crate::text::clean;
use baremark_model::document::{DetailRow, Document};
use says::{LATENCIES, Says};
use std::borrow::Cow;

/// A kind of detail: the head of its section, how its format begins, and how those of a document are shown.
struct Known {
    head: &'static str,
    format: &'static str,
    show: fn(&[Reported<'_>]) -> Shown,
}

/// Facts in sentences, and a table.
type Shown = (Vec<String>, Option<Grid>);

const KINDS: &[Known] = &[
    Known { head: "Databases", format: "baremark-databases/", show: show::<databases::Detail> },
    Known { head: "Block I/O", format: "baremark-block/", show: show::<block::Detail> },
    Known { head: "LUNs", format: "baremark-provision/", show: show::<provision::Detail> },
    Known { head: "HTTP load", format: "baremark-load/", show: show::<load::Detail> },
    Known {
        head: "Operations on guests",
        format: "baremark-guest-operations/",
        show: show::<guest_operations::Detail>,
    },
];

/// The detail of a treatment.
struct Reported<'d> {
    name: String,
    row: &'d DetailRow,
}

/// The facts of all treatments, and their rows in one table. What is of another form is left out.
fn show<D: Says>(reported: &[Reported<'_>]) -> Shown {
    let details = reported.iter().filter_map(|of| Some((of.name.as_str(), D::deserialize(&of.row.document).ok()?)));
    let details: Vec<(&str, D)> = details.collect();
    let facts: Vec<(&str, Vec<String>)> = details.iter().map(|(name, detail)| (*name, detail.facts())).collect();
    let most = facts.iter().map(|(_, facts)| facts.len()).max().unwrap_or(0);
    let of_each = |at: usize| alike(facts.iter().filter_map(|(name, facts)| Some((*name, facts.get(at)?.as_str()))));
    let rows = details.iter().flat_map(|(name, detail)| {
        detail.rows().into_iter().map(move |(what, cells)| GridRow { label: format!("{name}, {what}"), cells })
    });
    let latencies = if D::LATENCIES { &LATENCIES[..] } else { &[] };
    let columns = D::COLUMNS.iter().chain(latencies).map(|column| (*column).to_owned()).collect();
    let grid = Grid { caption: D::CAPTION.to_owned(), columns, rows: rows.collect(), reasons: Vec::new() };
    ((0..most).flat_map(of_each).collect(), (!grid.rows.is_empty()).then_some(grid))
}

/// The details of a document, by kind.
pub(crate) fn groups(document: &Document) -> Vec<Group> {
    let part = Part { name: None, document: Cow::Borrowed(document) };
    let group = |kind: &Known| {
        let own = document.details.iter().filter(|detail| detail.format.starts_with(kind.format));
        let rows: Vec<Reported<'_>> = own.map(|row| Reported { name: labelled(&part, &row.treatment), row }).collect();
        let last = rows.iter().map(|of| of.row.block + 1).max()?;
        let (lines, grid) = (kind.show)(&rows);
        let head = format!("{}: the last phase of each treatment (block {last})", kind.head);
        (!lines.is_empty() || grid.is_some()).then(|| Group { head, lines, grids: grid.into_iter().collect() })
    };
    KINDS.iter().filter_map(group).collect()
}

/// Lines of treatments, those that are alike with all their names.
fn alike<'t>(lines: impl Iterator<Item = (&'t str, &'t str)>) -> Vec<String> {
    let mut known: Vec<(&str, Vec<&str>)> = Vec::new();
    for (name, says) in lines.filter(|(_, says)| !says.is_empty()) {
        match known.iter_mut().find(|(same, _)| *same == says) {
            Some((_, names)) => names.push(name),
            None => known.push((says, vec![name])),
        }
    }
    known
        .into_iter()
        .map(|(says, names)| format!("{}: {}.", names.join("; "), clean(says.trim_end_matches('.'))))
        .collect()
}

#[cfg(test)]
mod tests;
