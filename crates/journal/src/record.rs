//! Lines of a journal file: a checksum and a JSON value, ended by a line feed.
//!
//! A line is on the disk before its change is made, so that an unfinished last line represents no change. Any other line that does not
//! agree with its checksum is damage.

use crate::change::Change;
use crate::owner::Owner;
use serde::{Deserialize, Serialize};

/// Number of the format.
pub(crate) const FORMAT: u32 = 1;
/// What is read of one file at most.
pub(crate) const LONGEST: u64 = 16 << 20;

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

    fn parse(line: &[u8]) -> Result<Record, String> {
        let text = std::str::from_utf8(line).map_err(|why| format!("not UTF-8: {why}"))?;
        let (sum, json) = text.split_once(' ').ok_or("no checksum")?;
        let sum = u32::from_str_radix(sum, 16).map_err(|why| format!("checksum: {why}"))?;
        if crc32fast::hash(json.as_bytes()) != sum {
            return Err("the checksum does not match".to_owned());
        }
        serde_json::from_str(json).map_err(|why| why.to_string())
    }
}

/// What a file says.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Contents {
    /// Its owner; `None` for a file that holds no change or has lost its first line.
    pub(crate) owner: Option<Owner>,
    /// Changes that were recorded and not undone, oldest first.
    pub(crate) open: Vec<(u64, Change)>,
    /// What is wrong with it, by line.
    pub(crate) damage: Vec<String>,
    /// Bytes up to the end of the last whole line.
    pub(crate) whole: u64,
}

impl Contents {
    pub(crate) fn parse(bytes: &[u8]) -> Contents {
        let mut contents = Contents::default();
        let mut rest = bytes;
        let mut number = 0;
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            number += 1;
            match Record::parse(&rest[..end]).and_then(|record| contents.take(record, number)) {
                Ok(()) => {}
                Err(why) => contents.damage.push(format!("line {number}: {why}")),
            }
            rest = &rest[end + 1..];
        }
        contents.whole = (bytes.len() - rest.len()) as u64;
        contents
    }

    fn take(&mut self, record: Record, number: usize) -> Result<(), String> {
        match record {
            Record::Owner { format, owner } if number == 1 && format == FORMAT => self.owner = Some(owner),
            Record::Owner { format, .. } if number == 1 => return Err(format!("format {format} is not known")),
            Record::Owner { .. } => return Err("a second owner".to_owned()),
            Record::Make { id, .. } if self.open.iter().any(|(other, _)| *other == id) => {
                return Err(format!("change {id} is recorded twice"));
            }
            Record::Make { id, change } => self.open.push((id, change)),
            // It may be the end of a change whose own line is damaged.
            Record::Undone { id } => self.open.retain(|(other, _)| *other != id),
        }
        Ok(())
    }
}
