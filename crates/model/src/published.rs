//! Published values as data: the tables of `reference/`, built into the program.
//!
//! Cells are kept as the text that was printed, so that no digit is lost or made up; one that was not printed is empty. Ratios are worked out again from the
//! cells and stand beside the printed ones, which are rounded. The values are of other hardware: a report that shows them
//! says so.

use crate::descriptor::Better;
use crate::problem::nearest;
use serde::Deserialize;
use std::sync::OnceLock;

/// The files, each with the name by which studies call it.
const FILES: &[(&str, &str)] = &[
    ("hpc-memory-2010", include_str!("../../../reference/hpc-memory-2010.toml")),
    ("order-entry-2017", include_str!("../../../reference/order-entry-2017.toml")),
];

/// One publication.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Publication {
    /// What it is about.
    pub title: String,
    /// When it appeared.
    pub year: u16,
    /// On what it was measured.
    pub machine: String,
    /// Its tables.
    pub table: Vec<Table>,
}

/// One table as it was printed.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Table {
    /// Its name within the publication.
    pub name: String,
    /// What was measured.
    pub title: String,
    /// The unit of every cell; empty where the rows have units of their own, in their labels.
    #[serde(default)]
    pub unit: String,
    /// Which way is better; nothing where that depends on the row.
    #[serde(default)]
    pub better: Option<Better>,
    /// Sizes, threads, machines.
    pub setup: String,
    /// What the columns differ in.
    pub columns: String,
    /// The heads of the columns.
    pub heads: Vec<String>,
    /// The head of the column to which the ratios are.
    #[serde(default)]
    pub ratio_to: Option<String>,
    /// The table of this publication to whose cells, row by row and head by head, the ratios are.
    #[serde(default)]
    pub ratio_to_table: Option<String>,
    /// What a reader should know of it.
    pub notes: Vec<String>,
    /// Its rows.
    pub row: Vec<Row>,
}

/// One row of a table.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// Its label.
    pub label: String,
    /// A cell for each column, as printed, with K for thousands; empty where none was.
    pub cells: Vec<String>,
    /// The ratio printed with each cell, or in its place; empty where none was.
    #[serde(default)]
    pub printed: Vec<String>,
}

/// A table with the publication that it stands in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Published {
    /// The publication.
    pub publication: &'static Publication,
    /// The table.
    pub table: &'static Table,
}

impl Published {
    /// The table to whose cells this one's ratios are, where that is another.
    #[must_use]
    pub fn base(&self) -> Option<&'static Table> {
        let name = self.table.ratio_to_table.as_deref()?;
        self.publication.table.iter().find(|table| table.name == name)
    }

    /// The ratio of a cell, worked out from the cells; `None` for the base itself and where there is none.
    #[must_use]
    pub fn ratio(&self, row: usize, column: usize) -> Option<f64> {
        let cell = number(self.table.row.get(row)?, column)?;
        if let Some(base) = self.base() {
            let of_label = base.row.iter().find(|of| of.label == self.table.row[row].label)?;
            let head = self.table.heads.get(column)?;
            let at = base.heads.iter().position(|other| other == head)?;
            return Some(cell / number(of_label, at)?);
        }
        let base = self.table.ratio_to.as_ref()?;
        let at = self.table.heads.iter().position(|head| head == base)?;
        (at != column).then_some(cell / number(&self.table.row[row], at)?)
    }

    /// The ratio that was printed with a cell.
    #[must_use]
    pub fn printed(&self, row: usize, column: usize) -> Option<&'static str> {
        let text = self.table.row.get(row)?.printed.get(column)?;
        (!text.is_empty()).then_some(text.as_str())
    }
}

fn number(row: &Row, column: usize) -> Option<f64> {
    let text = row.cells.get(column)?;
    match text.strip_suffix('K') {
        Some(thousands) => thousands.parse::<f64>().ok().map(|number| 1e3 * number),
        None => text.parse().ok(),
    }
}

/// All publications by name.
///
/// # Panics
/// Never: what is built in is read by a test.
pub fn all() -> &'static [(&'static str, Publication)] {
    static ALL: OnceLock<Vec<(&'static str, Publication)>> = OnceLock::new();
    ALL.get_or_init(|| {
        let read = |text| toml::from_str(text).unwrap_or_else(|why| panic!("reference/: {why}"));
        FILES.iter().map(|&(name, text)| (name, read(text))).collect()
    })
}

/// The names of all tables, as a study's `published` takes them.
#[must_use]
pub fn names() -> Vec<String> {
    let of = |(name, publication): &(&str, Publication)| -> Vec<String> {
        publication.table.iter().map(|table| format!("{name}/{}", table.name)).collect()
    };
    all().iter().flat_map(of).collect()
}

/// The table that a study calls by `name`, written `publication/table`.
#[must_use]
pub fn find(name: &str) -> Option<Published> {
    let (publication, table) = name.split_once('/')?;
    let (_, publication) = all().iter().find(|(name, _)| *name == publication)?;
    let table = publication.table.iter().find(|of| of.name == table)?;
    Some(Published { publication, table })
}

/// What would be right instead of `name`.
#[must_use]
pub fn like(name: &str) -> String {
    let names = names();
    nearest(name, &names.iter().map(String::as_str).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_table_is_whole() {
        for (publication, found) in all() {
            for table in &found.table {
                let name = format!("{publication}/{}", table.name);
                let published = find(&name).expect("found by its name");
                for (index, row) in table.row.iter().enumerate() {
                    assert_eq!(row.cells.len(), table.heads.len(), "{name}: {}", row.label);
                    assert!(row.printed.is_empty() || row.printed.len() == row.cells.len(), "{name}: {}", row.label);
                    for column in 0..row.cells.len() {
                        let there = number(row, column);
                        match row.cells[column].as_str() {
                            "" => assert_eq!(there, None, "{name}: {}", row.label),
                            _ => assert!(there.is_some_and(|value| value > 0.0), "{name}: {}", row.label),
                        }
                        let wanted = match (&table.ratio_to, &table.ratio_to_table) {
                            (None, None) => false,
                            (Some(base), _) => *base != table.heads[column],
                            (None, Some(_)) => true,
                        };
                        let wanted = wanted && there.is_some();
                        assert_eq!(published.ratio(index, column).is_some(), wanted, "{name}: {}", row.label);
                    }
                    assert!(row.cells.iter().any(|cell| !cell.is_empty()), "{name}: {} has no cell", row.label);
                }
                for column in 0..table.heads.len() {
                    let said = |row: usize| {
                        !table.row[row].cells[column].is_empty() || published.printed(row, column).is_some()
                    };
                    assert!((0..table.row.len()).any(said), "{name}: nothing was printed of {}", table.heads[column]);
                }
            }
        }
    }

    /// A printed ratio is a rounding of what its cells give, to one unit of its last digit. One without cells has nothing to
    /// agree with.
    #[test]
    fn printed_ratios_agree_with_their_cells() {
        let (mut printed, mut alone) = (0, 0);
        for published in names().iter().filter_map(|name| find(name)) {
            for row in 0..published.table.row.len() {
                for column in 0..published.table.heads.len() {
                    let Some(text) = published.printed(row, column) else { continue };
                    let said = text.parse::<f64>().expect("a number");
                    if published.table.row[row].cells[column].is_empty() {
                        alone += 1;
                        continue;
                    }
                    let ratio = published.ratio(row, column).expect("a ratio");
                    let decimals = text.split_once('.').map_or(0, |(_, digits)| digits.len());
                    let unit = 0.1_f64.powi(i32::try_from(decimals).expect("few"));
                    assert!((said - ratio).abs() <= unit, "{}: printed {text}, cells {ratio}", published.table.name);
                    printed += 1;
                }
            }
        }
        assert_eq!((printed, alone), (9, 1));
    }

    #[test]
    fn the_known_figures_are_there() {
        let random = find("hpc-memory-2010/star-random-access").expect("a table");
        assert_eq!(random.ratio(0, 1).map(|ratio| format!("{ratio:.4}")), Some("0.8474".to_owned()));
        assert_eq!((random.printed(0, 1), random.ratio(0, 0)), (Some("0.848"), None));
        let stream = find("hpc-memory-2010/stream-virtual").expect("a table");
        let largest = stream.ratio(2, 1).expect("add on 4 threads");
        assert_eq!(format!("{largest:.3}"), "1.126");
        assert_eq!(stream.base().map(|table| table.name.as_str()), Some("stream-native"));
        let host = find("order-entry-2017/host").expect("a table");
        assert_eq!(host.ratio(0, 1).map(|ratio| format!("{ratio:.4}")), Some("0.8947".to_owned()));
        assert_eq!((host.ratio(0, 2), host.printed(0, 2)), (None, Some("0.70")), "a ratio without cells");
        assert_eq!(find("hpc-memory-2010"), None);
        assert_eq!(like("hpc-memory-2010/hlp"), "did you mean 'hpc-memory-2010/hpl'?");
    }
}
