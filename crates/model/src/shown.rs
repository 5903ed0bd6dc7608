//! What a workload has to say of a phase, as data that every report lays out: sentences and a table.
//!
//! A workload that reports alongside its metrics puts this into its detail, under the key `shown`, next to whatever programs read there. So
//! a new workload brings its section with itself, and a report of an old run says what the workload of that time said.

use serde::{Deserialize, Serialize};

/// Sentences and a table of one phase.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Shown {
    /// The head of the section: what reports, such as `Redis`.
    pub head: String,
    /// Facts, each of which is said once for all treatments that have it alike; without a full stop.
    pub facts: Vec<String>,
    /// What the numbers of the table are.
    pub caption: String,
    /// Heads of the table's columns.
    pub columns: Vec<String>,
    /// Its rows; a row has a cell for each column.
    pub rows: Vec<ShownRow>,
}

/// A row of the table.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ShownRow {
    /// What it is of.
    pub what: String,
    /// Its cells.
    pub cells: Vec<ShownCell>,
}

/// A cell of the table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ShownCell {
    /// There is no such value.
    Blank,
    /// A number of things.
    Count(u64),
    /// A time in nanoseconds.
    Nanoseconds(u64),
    /// Words, or a number with its unit.
    Text(String),
}

impl From<Option<u64>> for ShownCell {
    /// A time in nanoseconds, where there is one.
    fn from(nanoseconds: Option<u64>) -> ShownCell {
        nanoseconds.map_or(ShownCell::Blank, ShownCell::Nanoseconds)
    }
}
