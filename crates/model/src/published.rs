//! Published values as data: the tables of `reference/`, built into the program.
//!
//! Cells are kept as the text that was printed, so that no digit is lost or made up; one that was not printed is empty. A cell is a number (`0.01842`,
//! `66.5K`), a bound (`> 510`, `< 5`, `up to 500`, `about 470`), or words where a direction alone was printed (`equal`). Ratios are worked out again from the
//! cells and are shown next to the printed ones, which are rounded. The values are of other hardware: a report that shows them
//! says so.

use crate::metric::Better;
use crate::problem::nearest;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::OnceLock;

/// The files, each with the name by which studies call it.
const FILES: &[(&str, &str)] = &[
    ("hpc-memory-2010", include_str!("../../../reference/hpc-memory-2010.toml")),
    ("mmu-assist-2009", include_str!("../../../reference/mmu-assist-2009.toml")),
    ("order-entry", include_str!("../../../reference/order-entry.toml")),
    ("web-farm", include_str!("../../../reference/web-farm.toml")),
    ("network-offloads", include_str!("../../../reference/network-offloads.toml")),
    ("storage-provisioning", include_str!("../../../reference/storage-provisioning.toml")),
    ("stretched-cluster", include_str!("../../../reference/stretched-cluster.toml")),
    ("gpu-mixed", include_str!("../../../reference/gpu-mixed.toml")),
    ("monster-vms", include_str!("../../../reference/monster-vms.toml")),
    ("fault-tolerance", include_str!("../../../reference/fault-tolerance.toml")),
    ("management-database", include_str!("../../../reference/management-database.toml")),
];

/// What publications were called in plans that earlier versions stored, and what they are called now.
const RENAMED: &[(&str, &str)] = &[("order-entry-2017", "order-entry")];

/// One publication.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Publication {
    /// What it is about.
    pub title: String,
    /// When it appeared: a year, or years where it has no date.
    pub when: String,
    /// The shipped studies that measure the same here; the first is what the publication's name runs.
    pub studies: Vec<String>,
    /// Why no shipped study measures it, where none does.
    #[serde(default)]
    pub blank: Option<String>,
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
    /// Which values of a run fill it; nothing where none do.
    #[serde(default)]
    pub ours: Option<Ours>,
    /// Why no run fills it, where none does.
    #[serde(default)]
    pub blank: Option<String>,
    /// Its rows.
    pub row: Vec<Row>,
}

/// Which values of a run are those of a published table.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ours {
    /// The workload's kind, of every row that names none of its own.
    #[serde(default)]
    pub workload: String,
    /// The metric of every row that names none of its own.
    #[serde(default)]
    pub metric: Option<String>,
    /// One for each head.
    pub columns: Vec<OurColumn>,
    /// What is otherwise here by intent, such as a size.
    #[serde(default)]
    pub note: Option<String>,
    /// Parameters on which the size of an effect depends, as published. With others only signs and orders compare.
    #[serde(default)]
    pub at: BTreeMap<String, String>,
}

/// Which treatments a column is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OurColumn {
    /// Levels that a treatment must have.
    #[serde(default)]
    pub levels: BTreeMap<String, String>,
    /// For a column of gains in percent, or of ratios without a unit, the levels of what they are over.
    #[serde(default)]
    pub over: BTreeMap<String, String>,
    /// The MMU virtualization that must have been at work: `nested` or `shadow`.
    #[serde(default)]
    pub mmu: Option<String>,
    /// Why no run fills it, where none does.
    #[serde(default)]
    pub blank: Option<String>,
}

/// Which values of a run a row is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OurRow {
    /// The workload's kind.
    #[serde(default)]
    pub workload: Option<String>,
    /// Its metric.
    #[serde(default)]
    pub metric: Option<String>,
    /// An observed quantity in place of a metric (see [`crate::quantity`]).
    #[serde(default)]
    pub quantity: Option<String>,
    /// Whether that is observed inside the guest instead of on the machine that carries it.
    #[serde(default)]
    pub inside: bool,
    /// Levels that a treatment must have.
    #[serde(default)]
    pub levels: BTreeMap<String, String>,
    /// For a row of gains or ratios, the levels of what it is over, in addition to those of the column.
    #[serde(default)]
    pub over: BTreeMap<String, String>,
    /// For a row of gains: the metric is a time, so that the gain is what the base takes over what it takes.
    #[serde(default)]
    pub inverse: bool,
    /// Why no run fills it, where none does.
    #[serde(default)]
    pub blank: Option<String>,
}

impl Ours {
    /// The workload's kind of a row.
    #[must_use]
    pub fn workload_of<'o>(&'o self, row: &'o OurRow) -> &'o str {
        row.workload.as_deref().unwrap_or(&self.workload)
    }
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
    /// The unit of its cells, where the table has none for all rows.
    #[serde(default)]
    pub unit: Option<String>,
    /// What to know of this row, such as a printed ratio that its cells do not give.
    #[serde(default)]
    pub note: Option<String>,
    /// Which values of a run it is, beyond what the table says.
    #[serde(default)]
    pub ours: OurRow,
}

impl Row {
    /// The unit of its cells: its own, or the table's; `None` where neither says.
    #[must_use]
    pub fn unit_in<'t>(&'t self, table: &'t Table) -> Option<&'t str> {
        self.unit.as_deref().or(Some(&table.unit)).filter(|unit| !unit.is_empty())
    }
}

/// How far a printed number binds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// It is the value, to its last digit.
    Exact,
    /// `about`: nearly the value.
    About,
    /// `<` or `up to`: the value lies below it.
    Below,
    /// `>`: the value lies above it.
    Above,
}

impl Bound {
    /// What precedes the number.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Bound::Exact => "",
            Bound::About => "about ",
            Bound::Below => "< ",
            Bound::Above => "> ",
        }
    }
}

/// A printed number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Value {
    /// What it says of the value.
    pub bound: Bound,
    /// The number, in the table's unit.
    pub number: f64,
}

impl Value {
    /// The number that `text` prints; `None` where it is empty or words alone.
    #[must_use]
    pub fn of(text: &str) -> Option<Value> {
        const WORDS: [(&str, Bound); 4] =
            [("about ", Bound::About), ("up to ", Bound::Below), ("< ", Bound::Below), ("> ", Bound::Above)];
        let marked = WORDS.iter().find_map(|&(words, bound)| Some((text.strip_prefix(words)?, bound)));
        let (digits, bound) = marked.unwrap_or((text, Bound::Exact));
        let number = match digits.strip_suffix('K') {
            Some(thousands) => 1e3 * thousands.parse::<f64>().ok()?,
            None => digits.parse().ok()?,
        };
        Some(Value { bound, number })
    }

    /// This value to `base`; `None` where the base is a bound, which bounds no ratio from both sides.
    #[must_use]
    pub fn over(self, base: Value) -> Option<Value> {
        let bound = match (self.bound, base.bound) {
            (_, Bound::Below | Bound::Above) => return None,
            (Bound::Exact, Bound::About) => Bound::About,
            (bound, _) => bound,
        };
        Some(Value { bound, number: self.number / base.number })
    }
}

/// A table with the publication that it is in.
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
    pub fn ratio(&self, row: usize, column: usize) -> Option<Value> {
        let cell = number(self.table.row.get(row)?, column)?;
        if let Some(base) = self.base() {
            let of_label = base.row.iter().find(|of| of.label == self.table.row[row].label)?;
            let head = self.table.heads.get(column)?;
            let at = base.heads.iter().position(|other| other == head)?;
            return cell.over(number(of_label, at)?);
        }
        let base = self.table.ratio_to.as_ref()?;
        let at = self.table.heads.iter().position(|head| head == base)?;
        (at != column).then(|| cell.over(number(&self.table.row[row], at)?)).flatten()
    }

    /// The ratio that was printed with a cell.
    #[must_use]
    pub fn printed(&self, row: usize, column: usize) -> Option<&'static str> {
        let text = self.table.row.get(row)?.printed.get(column)?;
        (!text.is_empty()).then_some(text.as_str())
    }
}

fn number(row: &Row, column: usize) -> Option<Value> {
    Value::of(row.cells.get(column)?)
}

/// All publications by name.
pub fn all() -> impl Iterator<Item = (&'static str, &'static Publication)> {
    FILES.iter().enumerate().map(|(index, (name, _))| (*name, read(index)))
}

/// The publication of this name.
#[must_use]
pub fn of(name: &str) -> Option<&'static Publication> {
    FILES.iter().position(|(of, _)| *of == name).map(read)
}

/// One of the files, which is read when it is first asked for: most commands need none of them, or one. That all can be read is tested.
fn read(index: usize) -> &'static Publication {
    static READ: [OnceLock<Publication>; FILES.len()] = [const { OnceLock::new() }; FILES.len()];
    let (name, text) = FILES[index];
    READ[index].get_or_init(|| toml::from_str(text).unwrap_or_else(|why| panic!("reference/{name}.toml: {why}")))
}

/// The names of all tables, as a study's `published` takes them.
#[must_use]
pub fn names() -> Vec<String> {
    let of = |(name, publication): (&str, &'static Publication)| -> Vec<String> {
        publication.table.iter().map(|table| format!("{name}/{}", table.name)).collect()
    };
    all().flat_map(of).collect()
}

/// The table that a study calls by `name`, written `publication/table`.
#[must_use]
pub fn find(name: &str) -> Option<Published> {
    let (publication, table) = name.split_once('/')?;
    let publication = RENAMED.iter().find(|(old, _)| *old == publication).map_or(publication, |(_, now)| now);
    let publication = of(publication)?;
    let table = publication.table.iter().find(|of| of.name == table)?;
    Some(Published { publication, table })
}

/// The study that a publication's name runs; `None` where there is no such publication or no study measures it.
#[must_use]
pub fn study_of(name: &str) -> Option<&'static str> {
    of(name)?.studies.first().map(String::as_str)
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
                    (0..row.cells.len()).for_each(|column| one_cell(&published, index, column));
                    let said = row.cells.iter().chain(&row.printed).any(|text| !text.is_empty());
                    assert!(said, "{name}: the publication has no value for {}", row.label);
                }
                for (column, head) in table.heads.iter().enumerate() {
                    let said = |row: usize| {
                        !table.row[row].cells[column].is_empty() || published.printed(row, column).is_some()
                    };
                    let base = table.ratio_to.as_ref() == Some(head);
                    assert!(base || (0..table.row.len()).any(said), "{name}: the publication has no value for {head}");
                }
            }
        }
    }

    /// Every cell of a table is filled by a run, or has a reason why none fills it.
    #[test]
    fn every_table_is_filled_or_says_why_not() {
        for (name, publication) in all() {
            assert_eq!(publication.studies.is_empty(), publication.blank.is_some(), "{name}: a study or a reason");
            for table in &publication.table {
                let place = format!("{name}/{}", table.name);
                let Some(ours) = &table.ours else {
                    assert!(table.blank.is_some() || publication.blank.is_some(), "{place} is blank without a reason");
                    continue;
                };
                assert!(table.blank.is_none() && publication.blank.is_none(), "{place} is filled and blank");
                assert_eq!(ours.columns.len(), table.heads.len(), "{place}: a column for each head");
                for column in &ours.columns {
                    let by_row = table.row.iter().all(|row| row.ours.blank.is_some() || !row.ours.levels.is_empty());
                    assert!(column.blank.is_some() || !column.levels.is_empty() || by_row, "{place}: {column:?}");
                }
                for row in &table.row {
                    let of = &row.ours;
                    assert!(
                        of.blank.is_some() || !ours.workload_of(of).is_empty(),
                        "{place}: {}: no workload",
                        row.label
                    );
                    let named = of.metric.is_some() || of.quantity.is_some() || ours.metric.is_some();
                    assert!(of.blank.is_some() || named, "{place}: {}: no metric and no reason", row.label);
                }
            }
        }
    }

    /// A cell is a positive number, perhaps a bound, or words without a digit; it has a ratio where the table has a base.
    fn one_cell(published: &Published, row: usize, column: usize) {
        let table = published.table;
        let text = table.row[row].cells[column].as_str();
        let there = number(&table.row[row], column);
        let place = format!("{}: {}: '{text}'", table.name, table.row[row].label);
        match there {
            Some(value) => assert!(value.number > 0.0, "{place}"),
            None => assert!(!text.chars().any(|of| of.is_ascii_digit()), "{place} is neither a number nor words"),
        }
        let based = match (&table.ratio_to, &table.ratio_to_table) {
            (None, None) => false,
            (Some(base), _) => *base != table.heads[column],
            (None, Some(_)) => true,
        };
        assert_eq!(published.ratio(row, column).is_some(), based && there.is_some(), "{place}");
    }

    #[test]
    fn bounds_are_read_and_carried_into_ratios() {
        let read = |text| Value::of(text).map(|value| (value.bound, value.number));
        assert_eq!(read("66.5K"), Some((Bound::Exact, 66_500.0)));
        assert_eq!(read("up to 500"), Some((Bound::Below, 500.0)));
        assert_eq!(read("about 29"), Some((Bound::About, 29.0)));
        assert_eq!((read("equal"), read(""), read("> many")), (None, None, None));
        let farm = find("web-farm/consolidation").expect("a table");
        let ratio = farm.ratio(0, 1).expect("a ratio");
        assert_eq!((ratio.bound, format!("{:.3}", ratio.number)), (Bound::Above, "1.085".to_owned()));
        assert_eq!(Value::of("5").and_then(|cell| cell.over(Value::of("< 2")?)), None, "a bound as the base");
    }

    /// A printed ratio is a rounding of what its cells give, to one unit of its last digit, or its row says that it is not. One
    /// without cells has nothing to agree with.
    #[test]
    fn printed_ratios_agree_with_their_cells() {
        let (mut agree, mut noted, mut alone) = (0, 0, 0);
        for published in names().iter().filter_map(|name| find(name)) {
            for (row, of) in published.table.row.iter().enumerate() {
                for column in 0..published.table.heads.len() {
                    let Some(text) = published.printed(row, column) else { continue };
                    let said = Value::of(text).expect("a number").number;
                    let Some(ratio) = published.ratio(row, column) else {
                        assert!(
                            of.cells[column].is_empty(),
                            "{}: {text} has a cell and no ratio",
                            published.table.name
                        );
                        alone += 1;
                        continue;
                    };
                    let decimals = text.split_once('.').map_or(0, |(_, digits)| digits.len());
                    let unit = 0.1_f64.powi(i32::try_from(decimals).expect("few"));
                    let agrees = (said - ratio.number).abs() <= unit;
                    assert!(agrees || of.note.is_some(), "{}: printed {text}, cells {ratio:?}", published.table.name);
                    if agrees { agree += 1 } else { noted += 1 }
                }
            }
        }
        assert_eq!((agree, noted, alone), (11, 7, 3));
    }

    #[test]
    fn the_known_figures_are_there() {
        let random = find("hpc-memory-2010/star-random-access").expect("a table");
        assert_eq!(random.ratio(0, 1).map(|ratio| format!("{:.4}", ratio.number)), Some("0.8474".to_owned()));
        assert_eq!((random.printed(0, 1), random.ratio(0, 0)), (Some("0.848"), None));
        let stream = find("hpc-memory-2010/stream-virtual").expect("a table");
        let largest = stream.ratio(2, 1).expect("add on 4 threads");
        assert_eq!(format!("{:.3}", largest.number), "1.126");
        assert_eq!(stream.base().map(|table| table.name.as_str()), Some("stream-native"));
        let host = find("order-entry-2017/host").expect("a table under the name that earlier versions stored");
        assert_eq!(Some(host), find("order-entry/host"));
        assert_eq!(host.ratio(0, 1).map(|ratio| format!("{:.4}", ratio.number)), Some("0.8947".to_owned()));
        assert_eq!((host.ratio(0, 2), host.printed(0, 2)), (None, Some("0.70")), "a ratio without cells");
        assert_eq!(find("hpc-memory-2010"), None);
        assert_eq!(like("hpc-memory-2010/hlp"), "did you mean 'hpc-memory-2010/hpl'?");
    }
}
