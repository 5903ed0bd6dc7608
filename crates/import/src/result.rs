//! What a file holds, and what is wrong with one that is damaged.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

/// Which way a metric is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    /// Throughputs.
    Higher,
    /// Times and costs.
    Lower,
}

/// One metric.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Metric {
    /// Its key, with its unit as a suffix where the program names none.
    pub key: String,
    /// The unit, as printed.
    pub unit: String,
    /// Which way is better.
    pub better: Better,
}

impl Metric {
    /// A metric of which more is better.
    pub(crate) fn higher(key: &str, unit: &str) -> Metric {
        Metric { key: key.to_owned(), unit: unit.to_owned(), better: Better::Higher }
    }

    /// A metric of which less is better.
    pub(crate) fn lower(key: &str, unit: &str) -> Metric {
        Metric { better: Better::Lower, ..Metric::higher(key, unit) }
    }
}

/// The values of one metric of one benchmark.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// The benchmark, job or test; empty where the file has only one and does not name it.
    pub benchmark: String,
    /// The metric.
    pub metric: Metric,
    /// The values, in the order measured, at least one; each is positive.
    pub values: Vec<f64>,
}

/// What one file holds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Imported {
    /// The format by which it was read.
    pub format: &'static str,
    /// The program, with its version where the file has it.
    pub program: String,
    /// The machine's name, where the file has it.
    pub host: Option<String>,
    /// Its CPUs, where the file has them.
    pub cpus: Option<u64>,
    /// When it was measured, in seconds since 1970, where the file has it.
    pub unix_s: Option<u64>,
    /// What says which work was done: only runs with the same can be compared.
    pub parameters: BTreeMap<String, String>,
    /// Whether the names of benchmarks are free texts, such as commands, so that two files with one each can be compared whatever
    /// their names are.
    pub free_names: bool,
    /// The values.
    pub measured: Vec<Measured>,
    /// What a reader should know: values that were left out, and why.
    pub notes: Vec<String>,
}

impl Imported {
    /// The names of its benchmarks, in order.
    #[must_use]
    pub fn benchmarks(&self) -> Vec<&str> {
        let mut seen = BTreeSet::new();
        self.measured.iter().map(|of| of.benchmark.as_str()).filter(|name| seen.insert(*name)).collect()
    }

    /// Its metrics, in order.
    #[must_use]
    pub fn metrics(&self) -> Vec<&Metric> {
        let mut seen = BTreeSet::new();
        self.measured.iter().map(|of| &of.metric).filter(|metric| seen.insert(metric.key.as_str())).collect()
    }
}

/// Where in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// A line, from 1.
    Line(u64),
    /// A line and a column, from 1.
    Column(u64, u64),
    /// A byte, from 0.
    Byte(u64),
    /// The file as a whole.
    Whole,
}

/// What is wrong with a file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Damage {
    /// Where.
    pub place: Place,
    /// What, and what would help.
    pub what: String,
}

impl Damage {
    pub(crate) fn at(place: Place, what: impl Into<String>) -> Damage {
        Damage { place, what: what.into() }
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.place {
            Place::Line(line) => write!(f, "line {line}: {}", self.what),
            Place::Column(line, column) => write!(f, "line {line}, column {column}: {}", self.what),
            Place::Byte(byte) => write!(f, "byte {byte}: {}", self.what),
            Place::Whole => f.write_str(&self.what),
        }
    }
}

/// A column of a CSV file: `NAME` for a label, `NAME:higher` or `NAME:lower` for a metric, with a unit after another colon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Its heading.
    pub name: String,
    /// What it measures; `None` for a label, which names what a row is of.
    pub metric: Option<Metric>,
}

/// A text that is not a column.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not a column; write NAME, NAME:lower or NAME:higher, and :UNIT after that")]
pub struct ColumnError(pub String);

impl FromStr for Column {
    type Err = ColumnError;

    fn from_str(text: &str) -> Result<Column, ColumnError> {
        let wrong = || ColumnError(text.to_owned());
        let mut parts = text.splitn(3, ':');
        let name = parts.next().filter(|name| !name.trim().is_empty()).ok_or_else(wrong)?.trim();
        let metric = match (parts.next(), parts.next().unwrap_or_default()) {
            (None, _) => None,
            (Some("higher"), unit) => Some(Metric::higher(name, unit)),
            (Some("lower"), unit) => Some(Metric::lower(name, unit)),
            _ => return Err(wrong()),
        };
        Ok(Column { name: name.to_owned(), metric })
    }
}
