//! A publication as a page of Markdown: its tables as they were printed, with the ratios that their cells give.

use crate::number::fixed;
use baremark_model::published::{Publication, Published, Row, Table};
use std::collections::BTreeSet;
use std::fmt::Write;

/// The page of a publication that studies call `name`.
#[must_use]
pub fn published_page(name: &str, publication: &'static Publication) -> String {
    let mut page = format!(
        "# {}\n\n<!-- Generated from `reference/{name}.toml`; edit that, not this page. -->\n\nPublished {}. Machine: {}.\n\n\
         The values are of other hardware: method, layout and direction compare, not values.\n\n",
        publication.title, publication.when, publication.machine
    );
    let run: Vec<String> = publication.studies.iter().map(|study| format!("`baremark run {study}`")).collect();
    page.push_str(&match (run.as_slice(), &publication.blank) {
        ([], Some(why)) => format!("No shipped study measures this: {why}.\n"),
        ([], None) => "No shipped study measures this.\n".to_owned(),
        ([only], _) => format!("Measured here by {only}{}.\n", alias(name, publication)),
        ([first, others @ ..], _) => {
            format!("Measured here by {first}{}; in parts also by {}.\n", alias(name, publication), others.join(", "))
        }
    });
    for table in &publication.table {
        // A `String` takes whatever is written to it.
        let _ = one(&mut page, name, &Published { publication, table });
    }
    page
}

/// The publication's own name, where the study that it runs has another.
fn alias(name: &str, publication: &Publication) -> String {
    let same = publication.studies.first().is_some_and(|study| study == name);
    if same { String::new() } else { format!(" (or `baremark run {name}`)") }
}

/// Which cells a run fills, or why none does.
fn filled(table: &Table) -> String {
    match (&table.ours, &table.blank) {
        (Some(ours), _) => {
            let blank =
                ours.columns.iter().zip(&table.heads).filter_map(|(column, head)| Some((head, column.blank.as_ref()?)));
            let blank: String = blank.map(|(head, why)| format!(" Blank here: {head}: {why}.")).collect();
            let note = ours.note.as_ref().map(|note| format!(" {note}")).unwrap_or_default();
            let of_rows =
                table.row.iter().filter(|row| row.ours.blank.is_none()).map(|row| ours.workload_of(&row.ours));
            let kinds: Vec<String> =
                of_rows.map(|kind| format!("`{kind}`")).collect::<BTreeSet<_>>().into_iter().collect();
            let workloads = if kinds.len() == 1 { "workload" } else { "workloads" };
            let kinds = kinds.join(", ");
            let of_row = |row: &Row| Some(format!(" Blank here: {}: {}.", row.label, row.ours.blank.as_ref()?));
            let rows: String = table.row.iter().filter_map(of_row).collect();
            format!(
                "Filled by runs of the {workloads} {kinds}, with the agreement of sign, order and size by cell.{note}{blank}{rows}"
            )
        }
        (None, Some(why)) => format!("Not filled here: {why}."),
        (None, None) => String::new(),
    }
}

fn one(page: &mut String, name: &str, published: &Published) -> std::fmt::Result {
    let table = published.table;
    write!(page, "\n## {}\n\n", table.title)?;
    writeln!(page, "`published = \"{name}/{}\"`. {}.{}\n", table.name, table.setup, unit(table))?;
    writeln!(page, "| | {} |", table.heads.join(" | "))?;
    writeln!(page, "|---|{}", "---|".repeat(table.heads.len()))?;
    for (index, row) in table.row.iter().enumerate() {
        let cells: Vec<String> = (0..table.heads.len()).map(|column| cell(published, index, column)).collect();
        writeln!(page, "| {} | {} |", row.label, cells.join(" | "))?;
    }
    let filled = filled(table);
    if !filled.is_empty() {
        writeln!(page, "\n{filled}")?;
    }
    let of_row = |row: &Row| Some(format!("{}: {}.", row.label, row.note.as_ref()?));
    let notes: Vec<String> = table.notes.iter().cloned().chain(table.row.iter().filter_map(of_row)).collect();
    if !notes.is_empty() {
        writeln!(page)?;
    }
    notes.iter().try_for_each(|note| writeln!(page, "- {note}"))
}

fn unit(table: &Table) -> String {
    match (&table.ratio_to, &table.ratio_to_table, table.unit.as_str()) {
        (None, None, "") => String::new(),
        (None, None, unit) => format!(" Unit: {unit}."),
        (Some(base), _, "") => format!(" In brackets the ratio to {base}."),
        (Some(base), _, unit) => format!(" Unit: {unit}; in brackets the ratio to {base}."),
        (None, Some(base), unit) => format!(" Unit: {unit}; in brackets the ratio to the table {base}."),
    }
}

/// What was printed, the ratio that the cells give, and the printed one.
fn cell(published: &Published, row: usize, column: usize) -> String {
    let text = &published.table.row[row].cells[column];
    let from_cells = published.ratio(row, column);
    let from_cells = from_cells.map(|ratio| format!("{}{}", ratio.bound.words(), fixed(ratio.number, 4)));
    let printed = published.printed(row, column).map(|printed| format!("printed {printed}"));
    let ratios: Vec<String> = from_cells.into_iter().chain(printed).collect();
    if ratios.is_empty() { text.clone() } else { format!("{text} ({})", ratios.join("; ")).trim_start().to_owned() }
}
