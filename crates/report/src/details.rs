//! What workloads report alongside their metrics, of the last phase of each treatment. A detail brings how it is shown
//! ([`brought`]); of kinds that do not yet there is a file each, with the struct that it is read into. What a version does not have is blank.

mod block;
mod brought;
mod databases;
mod guest_operations;
mod load;
mod provision;
mod reported;
mod says;

use crate::answer::labelled;
use crate::grid::{Grid, GridRow};
use crate::per_workload::Part;
use crate::section::Group;
use baremark_model::document::Document;
use reported::{Reported, alike};
use says::{LATENCIES, Says};
use std::borrow::Cow;
use std::collections::BTreeSet;

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

/// The details of a document, by kind: those that reports know, then those that bring how they are shown.
pub(crate) fn groups(document: &Document) -> Vec<Group> {
    let part = Part { name: None, document: Cow::Borrowed(document) };
    let reported = |own: &dyn Fn(&str) -> bool| -> Vec<Reported<'_>> {
        let rows = document.details.iter().filter(|detail| own(&detail.format));
        rows.map(|row| Reported { name: labelled(&part, &row.treatment), row }).collect()
    };
    let headed = |rows: &[Reported<'_>], group: Group| {
        let last = rows.iter().map(|of| of.row.block + 1).max()?;
        Some(Group { head: format!("{}: the last phase of each treatment (block {last})", group.head), ..group })
    };
    let known = |kind: &Known| {
        let rows = reported(&|format| format.starts_with(kind.format));
        let (lines, grid) = (kind.show)(&rows);
        let group = Group { head: kind.head.to_owned(), lines, grids: grid.into_iter().collect() };
        (!group.lines.is_empty() || !group.grids.is_empty()).then(|| headed(&rows, group))?
    };
    let formats: BTreeSet<&str> = document.details.iter().map(|detail| detail.format.as_str()).collect();
    let others = formats.into_iter().filter(|format| !KINDS.iter().any(|kind| format.starts_with(kind.format)));
    let brought = others.filter_map(|format| {
        let rows = reported(&|of| of == format);
        headed(&rows, brought::group(&rows)?)
    });
    KINDS.iter().filter_map(known).chain(brought).collect()
}

#[cfg(test)]
mod tests;
