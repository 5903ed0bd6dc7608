//! Results of other programs, read from the files that they write: metrics with their values, and the parameters that say which
//! work was done.
//!
//! A format is one file in `formats` and one line of [`FORMATS`]. Values are taken as the program wrote them, times in the unit
//! that the metric's key names. Nothing is guessed: what is damaged is refused with its place in the file, and a program that
//! reports its own failure has no result.
//!
//! A file that was cut off is refused: a document by its own grammar, a printed text by the line that its program prints last, a
//! log by its last line, which must end. A log that was cut off at the end of a line is a shorter log, and nothing in it shows
//! that; the result of a format without an end mark therefore has a note that says so.
//!
//! Logs and tables are read as they come, documents are held in memory and limited. Files, lines, values and names are limited, so
//! that no file takes more than 256 MiB of memory, or time that grows faster than its size.
#![forbid(unsafe_code)]

mod format;
mod formats;
mod json;
mod lines;
mod number;
mod result;
mod results;
mod rows;
mod text;
mod xml;

pub use format::Format;
pub use formats::FORMATS;
pub use result::{Better, Column, ColumnError, Damage, Imported, Measured, Metric, Place};
pub use results::{MOST_SERIES, MOST_VALUES};
pub use text::{LONGEST_DOCUMENT, LONGEST_FILE};

use std::io::Read;
use text::Text;
use thiserror::Error;

/// Why a file gave no result.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ImportError {
    /// No format of that name.
    #[error("no format '{name}'; write one of {}", names())]
    NoSuchFormat {
        /// The name as typed.
        name: String,
    },
    /// Columns of a format that has none.
    #[error("--columns are of CSV files: the format is {0}; leave one of both out")]
    Columns(&'static str),
    /// No format is recognised.
    #[error("format not recognised; name it with --format: {}; for CSV name the columns with --columns", names())]
    Unknown,
    /// It does not hold what its format says.
    #[error("{format}: {damage}")]
    Damaged {
        /// The format.
        format: &'static str,
        /// What is wrong, and where.
        damage: Damage,
    },
    /// It cannot be read, or has nothing to find a format by.
    #[error("{0}")]
    Unreadable(Damage),
}

fn names() -> String {
    FORMATS.iter().map(|format| format.name).collect::<Vec<_>>().join(", ")
}

/// How a file is read.
#[derive(Clone, Copy, Debug)]
pub struct Options<'o> {
    /// Its format; `None` for the one that is recognised.
    pub format: Option<&'o str>,
    /// The columns of a CSV file.
    pub columns: &'o [Column],
    /// The time now, in seconds since 1970: a time in the file that is later by more than a day is not believed.
    pub now_unix_s: u64,
}

/// Reads a file of results.
///
/// # Errors
/// When the format is not known, or the file is damaged or exceeds a limit: the place is in the error.
pub fn read(from: &mut dyn Read, options: &Options<'_>) -> Result<Imported, ImportError> {
    let named = |name: &str| {
        let found = FORMATS.iter().find(|format| format.name == name);
        found.ok_or_else(|| ImportError::NoSuchFormat { name: name.to_owned() })
    };
    let named = options.format.map(named).transpose()?;
    let mut text = Text::open(from).map_err(ImportError::Unreadable)?;
    let format = match (named, options.columns) {
        (Some(format), [_, ..]) if format.name != formats::CSV.name => return Err(ImportError::Columns(format.name)),
        (Some(format), _) => format,
        (None, [_, ..]) => &formats::CSV,
        (None, []) => FORMATS.iter().find(|format| (format.recognises)(text.head())).ok_or(ImportError::Unknown)?,
    };
    let damaged = |damage| ImportError::Damaged { format: format.name, damage };
    if text.is_empty() {
        return Err(damaged(Damage::at(Place::Byte(0), "the file is empty")));
    }
    let results = (format.read)(&mut text, options.columns).map_err(damaged)?;
    results.finished(format.name, text.lines(), options.now_unix_s).map_err(damaged)
}
