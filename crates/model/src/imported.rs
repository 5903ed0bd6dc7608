//! Observations that another program made and that were imported, and runs whose results another program measured.

use serde::{Deserialize, Serialize};

/// The environment of a run whose results were imported: its machine is only known as far as the file names it, and its values
/// have no order in common that would pair them.
pub const PLACE: &str = "imported";

/// The setting of [`PLACE`] that names the program which measured.
pub const PROGRAM: &str = "program";

/// What one file holds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Imported {
    /// The program that wrote it, such as `esxtop`.
    pub program: String,
    /// The machine that it observed, as it calls itself.
    pub host: String,
    /// The file as the user named it.
    pub file: String,
    /// Rows that were taken.
    pub rows: u64,
    /// When the first of them was written, nanoseconds since 1970, shifted as the user asked.
    pub began_unix_ns: u64,
    /// Seconds from the first to the last.
    pub seconds: f64,
    /// Its columns that were chosen, and what was made of them.
    pub series: Vec<ImportedSeries>,
    /// What a reader should know: rows that were skipped, and why.
    pub notes: Vec<String>,
}

/// One quantity of an imported file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ImportedSeries {
    /// A view's key where it is one of ours, else the program's name, a dot and its own words.
    pub quantity: String,
    /// Of which of many; empty for the machine as a whole.
    pub instance: String,
    /// The unit, as far as the program tells it.
    pub unit: String,
    /// Values that there were.
    pub n: u64,
    /// Their mean.
    pub mean: f64,
    /// The least.
    pub min: f64,
    /// The largest.
    pub max: f64,
    /// Pairs of seconds since the first row and value; where there were too many, neighbours are one.
    pub points: Vec<[f64; 2]>,
}
