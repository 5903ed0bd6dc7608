//! Published values alongside those measured here: the same layout, and a label that says what may be compared.

use crate::agreement::{EXPLAINED, agreement, column, fills, rows_of};
use crate::grid::{Cell, Grid, GridRow, RatioCell};
use crate::number::fixed;
use crate::words::Tone;
use baremark_model::document::Document;
use baremark_model::metric::Better;
use baremark_model::published::{Published, Row, Table, find};

/// Published tables, ready to be laid out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Beside {
    /// What they are, and what of them compares.
    pub head: String,
    /// The tables.
    pub grids: Vec<Grid>,
    /// Where they come from, and what to know.
    pub notes: Vec<String>,
}

/// What is to be next to a run of a workload that names `name`; `None` where this version has no such table.
pub(crate) fn beside(name: &str, workload: &str) -> Option<Beside> {
    let published = find(name)?;
    let (publication, table) = (published.publication, published.table);
    let base = published.base().map(|table| grid(&Published { publication, table }, workload));
    let mut notes = vec![format!("{} ({}): {}.", publication.title, publication.when, publication.machine)];
    notes.extend(published.base().map(|base| format!("{}: {}.", base.title, base.setup)));
    notes.push(format!("{}: {}.", table.title, table.setup));
    notes.extend(table.notes.iter().cloned());
    let of_row = |row: &Row| Some(format!("{}: {}.", row.label, row.note.as_ref()?));
    notes.extend(table.row.iter().filter_map(of_row));
    Some(Beside {
        head: "Published, on other hardware: method and layout compare, not values".to_owned(),
        grids: base.into_iter().chain([grid(&published, workload)]).collect(),
        notes,
    })
}

/// As [`beside`], with the agreement of a run cell by cell: of the table that it names, of that table's base, and of what else it
/// fills of the same publication.
pub(crate) fn with_agreement(name: &str, document: &Document) -> Option<Beside> {
    let workload = &document.run.workload;
    let mut beside = beside(name, workload)?;
    let published = find(name)?;
    let publication = published.publication;
    let named = |table: &Table| table.name == published.table.name;
    let base = |table: &Table| published.base().is_some_and(|base| base.name == table.name);
    let mut explained = false;
    for table in &publication.table {
        let of = Published { publication, table };
        let found = agreement(document, &of).filter(|grid| named(table) || fills(grid));
        let Some(found) = found else {
            if named(table) {
                beside.notes.extend(table.blank.as_ref().map(|why| format!("{}: not compared: {why}.", table.title)));
            }
            continue;
        };
        if !named(table) && !base(table) {
            beside.grids.push(grid(&of, workload));
            beside.notes.push(format!("{}: {}.", table.title, table.setup));
            beside.notes.extend(table.notes.iter().cloned());
        }
        beside.grids.push(found);
        beside.notes.extend(table.ours.iter().filter_map(|ours| Some(format!("Here: {}", ours.note.as_ref()?))));
        explained = true;
    }
    beside.notes.extend(explained.then(|| EXPLAINED.to_owned()));
    Some(beside)
}

fn grid(published: &Published, workload: &str) -> Grid {
    let table = published.table;
    let cell = |row: usize, column: usize| {
        let measured = |estimate: String| Cell::Measured { estimate, ratio: ratio(published, row, column) };
        match (table.row[row].cells[column].as_str(), published.printed(row, column), &table.ratio_to) {
            ("", Some(alone), Some(base)) => measured(format!("{alone} of {base}")),
            ("", ..) => Cell::Blank,
            (printed, ..) => measured(printed.to_owned()),
        }
    };
    Grid {
        caption: caption(table),
        columns: table.heads.iter().map(|head| column(table, head)).collect(),
        rows: rows_of(table, workload)
            .into_iter()
            .map(|row| GridRow {
                label: table.row[row].label.clone(),
                cells: (0..table.heads.len()).map(|column| cell(row, column)).collect(),
            })
            .collect(),
        reasons: Vec::new(),
    }
}

fn caption(table: &Table) -> String {
    let better = table.better.map(|better| match better {
        Better::Higher => "higher is better",
        Better::Lower => "lower is better",
    });
    let ratio = match (&table.ratio_to, &table.ratio_to_table) {
        (None, None) => None,
        (Some(_), _) => Some("below it the ratio, from the cells"),
        (None, Some(_)) => Some("below it the ratio to the table above, from the cells"),
    };
    let unit = Some(table.unit.as_str()).filter(|unit| !unit.is_empty());
    let values: Vec<&str> = [unit, better].into_iter().flatten().collect();
    let words: Vec<String> = [values.join(", "), ratio.unwrap_or_default().to_owned()]
        .into_iter()
        .filter(|words| !words.is_empty())
        .collect();
    let words = if words.is_empty() { String::new() } else { format!(" ({})", words.join("; ")) };
    format!("{}, published{words}", table.title)
}

fn ratio(published: &Published, row: usize, column: usize) -> Option<RatioCell> {
    let ratio = published.ratio(row, column)?;
    let printed = published.printed(row, column).map(|text| format!("printed {text}"));
    Some(RatioCell {
        value: format!("{}{}", ratio.bound.words(), fixed(ratio.number, 4)),
        half_width: printed.as_ref().map(|text| format!(" ({text})")).unwrap_or_default(),
        interval: printed.unwrap_or_default(),
        verdict: String::new(),
        short: String::new(),
        tone: Tone::Plain,
    })
}
