//! Results of other programs, read from the files that they write: metrics with their values, and the parameters that say which
//! work was done.
//!
//! A format is one file in `formats` and one line of [`FORMATS`]. Values are taken as the program wrote them, times in the unit
//! that the metric's key names. Nothing is guessed: what is damaged is refused with its place in the file, and a program that
//! reports its own failure has no result.
#![forbid(unsafe_code)]

mod format;
mod formats;
mod json;
mod lines;
mod number;
mod result;

pub use format::Format;
pub use formats::FORMATS;
pub use result::{Better, Column, Damage, Imported, Measured, Metric, Place};

use thiserror::Error;

/// Bytes of a file that are looked at to find its format.
const HEAD: usize = 64 << 10;

/// Why a file gave no result.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ImportError {
    /// No format of that name.
    #[error("no format '{name}'; write one of {}", names())]
    NoSuchFormat {
        /// The name as typed.
        name: String,
    },
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
}

fn names() -> String {
    FORMATS.iter().map(|format| format.name).collect::<Vec<_>>().join(", ")
}

/// Reads the results in `bytes`, of the format `named` or of the one that is recognised. `columns` are those of a CSV file.
///
/// # Errors
/// When the format is not known, or the file is damaged: the place is in the error.
pub fn read(bytes: &[u8], named: Option<&str>, columns: &[Column]) -> Result<Imported, ImportError> {
    let format = match (named, columns) {
        (Some(name), _) => {
            let found = FORMATS.iter().find(|format| format.name == name);
            found.ok_or_else(|| ImportError::NoSuchFormat { name: name.to_owned() })?
        }
        (None, [_, ..]) => &formats::CSV,
        (None, []) => {
            let head = String::from_utf8_lossy(&bytes[..bytes.len().min(HEAD)]);
            FORMATS.iter().find(|format| (format.recognises)(&head)).ok_or(ImportError::Unknown)?
        }
    };
    let damaged = |damage| ImportError::Damaged { format: format.name, damage };
    let text = std::str::from_utf8(bytes).map_err(|why| {
        damaged(Damage::at(Place::Byte(why.valid_up_to() as u64), "is not UTF-8; convert it with iconv -t UTF-8"))
    })?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if text.trim().is_empty() {
        return Err(damaged(Damage::at(Place::Byte(0), "the file is empty")));
    }
    let imported = (format.read)(text, columns).map_err(damaged)?;
    let last_line = text.lines().count().max(1) as u64;
    imported.checked(last_line).map(|imported| Imported { format: format.name, ..imported }).map_err(damaged)
}
