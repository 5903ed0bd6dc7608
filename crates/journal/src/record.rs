//! Lines of a journal file: a checksum and a JSON value, ended by a line feed.
//!
//! A line is on the disk before its change is made, so that an unfinished last line represents no change. Any other line that does not
//! agree with its checksum is damage.

use crate::change::Change;
use crate::owner::Owner;
use serde::{Deserialize, Serialize};
use std::num::ParseIntError;
use std::str::Utf8Error;

/// Number of the format.
pub(crate) const FORMAT: u32 = 2;
/// What is read of one file at most.
pub(crate) const LONGEST: u64 = 16 << 20;

/// What is wrong with a line.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RecordError {
    /// It is not text.
    #[error("not UTF-8: {0}")]
    NotUtf8(#[from] Utf8Error),
    /// Nothing stands before its JSON value.
    #[error("no checksum")]
    NoChecksum,
    /// Its checksum is not a number.
    #[error("checksum: {0}")]
    Checksum(#[from] ParseIntError),
    /// Its checksum is that of another text.
    #[error("the checksum does not match")]
    Mismatch,
    /// Its value is none of a record.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    /// The first line is damaged.
    #[error("line 1: {0}")]
    First(#[source] Box<RecordError>),
    /// The first line is none that says whose the file is.
    #[error("line 1 names no owner: {0}")]
    Unowned(#[source] serde_json::Error),
    /// The first line is another record.
    #[error("line 1 names no owner")]
    NoOwner,
    /// It is of another format.
    #[error("its format is {0}, and this version reads {FORMAT}")]
    OtherFormat(u32),
    /// The owner is named again.
    #[error("a second owner")]
    SecondOwner,
    /// A change is recorded that is recorded already.
    #[error("change {0} is recorded twice")]
    Twice(u64),
}

/// One line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Record {
    /// The first line: whose file it is.
    Owner { format: u32, owner: Owner },
    /// A change that is about to be made.
    Make { id: u64, change: Change },
    /// It is undone, or left for good.
    Undone { id: u64 },
}

impl Record {
    /// The line with its line feed.
    pub(crate) fn line(&self) -> String {
        // Strings and numbers: serialising cannot fail.
        let json = serde_json::to_string(self).unwrap_or_default();
        format!("{:08x} {json}\n", crc32fast::hash(json.as_bytes()))
    }

    fn parse(line: &[u8]) -> Result<Record, RecordError> {
        Ok(serde_json::from_str(checked(line)?)?)
    }
}

/// The JSON text of a line, which agrees with its checksum.
fn checked(line: &[u8]) -> Result<&str, RecordError> {
    let text = std::str::from_utf8(line)?;
    let (sum, json) = text.split_once(' ').ok_or(RecordError::NoChecksum)?;
    let sum = u32::from_str_radix(sum, 16)?;
    if crc32fast::hash(json.as_bytes()) == sum { Ok(json) } else { Err(RecordError::Mismatch) }
}

/// Whose file it is, by its first line: no other is obeyed, for nobody knows what the records of another format mean.
fn owner_of(line: &[u8]) -> Result<Owner, RecordError> {
    #[derive(Deserialize)]
    struct Numbered {
        format: u32,
    }
    #[derive(Deserialize)]
    struct First {
        owner: Numbered,
    }
    let damaged = |why| RecordError::First(Box::new(why));
    let json = checked(line).map_err(damaged)?;
    let First { owner: Numbered { format } } = serde_json::from_str(json).map_err(RecordError::Unowned)?;
    if format != FORMAT {
        return Err(RecordError::OtherFormat(format));
    }
    match Record::parse(line).map_err(damaged)? {
        Record::Owner { owner, .. } => Ok(owner),
        _ => Err(RecordError::NoOwner),
    }
}

/// What a file says.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Contents {
    /// Its owner.
    pub(crate) owner: Owner,
    /// Changes that were recorded and not undone, oldest first.
    pub(crate) open: Vec<(u64, Change)>,
    /// What is wrong with it, by line.
    pub(crate) damage: Vec<String>,
    /// Bytes up to the end of the last whole line.
    pub(crate) whole: u64,
}

impl Contents {
    /// What a file holds; `None` for one whose first line is not complete: no change was recorded after it.
    ///
    /// # Errors
    /// Why it is not obeyed.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Option<Contents>, RecordError> {
        let mut rest = bytes;
        let mut line = || {
            let end = rest.iter().position(|byte| *byte == b'\n')?;
            let line = &rest[..end];
            rest = &rest[end + 1..];
            Some(line)
        };
        let Some(first) = line() else { return Ok(None) };
        let mut contents = Contents { owner: owner_of(first)?, open: Vec::new(), damage: Vec::new(), whole: 0 };
        let mut number = 1;
        while let Some(line) = line() {
            number += 1;
            if let Err(why) = Record::parse(line).and_then(|record| contents.take(record)) {
                contents.damage.push(format!("line {number}: {why}"));
            }
        }
        contents.whole = (bytes.len() - rest.len()) as u64;
        Ok(Some(contents))
    }

    fn take(&mut self, record: Record) -> Result<(), RecordError> {
        match record {
            Record::Owner { .. } => return Err(RecordError::SecondOwner),
            Record::Make { id, .. } if self.open.iter().any(|(other, _)| *other == id) => {
                return Err(RecordError::Twice(id));
            }
            Record::Make { id, change } => self.open.push((id, change)),
            // It may be the end of a change whose own line is damaged.
            Record::Undone { id } => self.open.retain(|(other, _)| *other != id),
        }
        Ok(())
    }
}
