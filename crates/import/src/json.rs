//! JSON documents: what is missing or of another type is refused with its line and column.

use crate::result::{Damage, Place};
use serde::de::DeserializeOwned;

/// What the values of a document may take, in bytes of memory.
const MOST_BYTES: u64 = 128 << 20;

/// Reads the document that begins at the first line that opens an object. Some programs print warnings before it.
pub(crate) fn read<T: DeserializeOwned>(text: &str) -> Result<T, Damage> {
    let lines = text.split_inclusive('\n');
    let mut at = (0, 0);
    for line in lines {
        if line.trim_start().starts_with(['{', '[']) {
            break;
        }
        at = (at.0 + 1, at.1 + line.len());
    }
    if at.1 == text.len() {
        return Err(Damage::at(Place::Byte(0), "has no JSON object"));
    }
    line(&text[at.1..], at.0)
}

/// Reads one line of a file of JSON lines; `before` are the lines before it.
pub(crate) fn line<T: DeserializeOwned>(text: &str, before: u64) -> Result<T, Damage> {
    baremark_json::read(text.as_bytes(), MOST_BYTES).map_err(|why| damage(&why, before))
}

fn damage(why: &serde_json::Error, before: u64) -> Damage {
    let text = why.to_string();
    let what = text.split(" at line ").next().unwrap_or_default();
    let cut = if why.is_eof() { "; the file was cut off" } else { "" };
    Damage::at(Place::Column(before + why.line() as u64, why.column() as u64), format!("{what}{cut}"))
}
