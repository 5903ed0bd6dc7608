//! Rows of a table of separated values, one at a time: what is in memory is one row.

use crate::result::{Damage, Place};
use crate::text::{LONGEST_LINE, NO_END, Passed, Text, too_long};
use csv::{Error, ErrorKind, Reader, ReaderBuilder, StringRecord};
use std::cell::Cell;
use std::io::{self, Cursor, Read};
use std::rc::Rc;

/// A row behind the last one. Where it is not a row of its own, the file ends within a quoted field.
const SENTINEL: &[u8] = b"\x1eend of file\x1e\n";

/// The bytes of a file, of which a row may take so many.
struct Rationed<'t> {
    from: &'t mut dyn Read,
    passed: Rc<Passed>,
    left: Rc<Cell<u64>>,
    sentinel: Option<Cursor<&'static [u8]>>,
}

impl Read for Rationed<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if let Some(sentinel) = &mut self.sentinel {
            return sentinel.read(into);
        }
        let count = self.from.read(into)?;
        if count == 0 && !into.is_empty() {
            if !self.passed.ends_a_line() {
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, NO_END));
            }
            return self.sentinel.insert(Cursor::new(SENTINEL)).read(into);
        }
        let left = self.left.get().checked_sub(count as u64).ok_or_else(|| io::Error::other(too_long("row")))?;
        self.left.set(left);
        Ok(count)
    }
}

/// The rows of a table.
pub(crate) struct Rows<'t> {
    reader: Reader<Rationed<'t>>,
    passed: Rc<Passed>,
    left: Rc<Cell<u64>>,
    row: StringRecord,
}

impl<'t> Rows<'t> {
    /// Of a file whose fields are separated by `delimiter`.
    pub(crate) fn of(text: &'t mut Text<'_>, delimiter: u8) -> Rows<'t> {
        let (from, passed) = text.bytes();
        let left = Rc::new(Cell::new(LONGEST_LINE));
        let rationed = Rationed { from, passed: passed.clone(), left: left.clone(), sentinel: None };
        // Whether rows are of one length is for the format to say: the sentinel is of another.
        let reader = ReaderBuilder::new().delimiter(delimiter).has_headers(false).flexible(true).from_reader(rationed);
        Rows { reader, passed, left, row: StringRecord::new() }
    }

    /// The next row with its line, from 1; `None` behind the last one.
    pub(crate) fn next(&mut self) -> Result<Option<(u64, &StringRecord)>, Damage> {
        self.left.set(LONGEST_LINE);
        let lines = self.passed.lines();
        let found = self.reader.read_record(&mut self.row).map_err(|why| damage(&why, lines))?;
        let line = self.row.position().map_or(0, csv::Position::line);
        if found && self.reader.position().byte() <= self.passed.bytes() {
            return Ok(Some((line, &self.row)));
        }
        let alone = self.row.len() == 1 && self.row[0].as_bytes() == SENTINEL.trim_ascii_end();
        match alone {
            true => Ok(None),
            false => {
                let what = "a field has an opening quote and no closing one; the file was cut off";
                Err(Damage::at(Place::Line(line), what))
            }
        }
    }

    /// Whether the file ends with an empty line, once all rows were read.
    pub(crate) fn end_with_an_empty_line(&self) -> bool {
        self.passed.ends_with_an_empty_line()
    }
}

/// What is wrong with a row; `line` is the last one that was read.
pub(crate) fn damage(why: &Error, line: u64) -> Damage {
    let line = why.position().map_or(line, csv::Position::line);
    let what = match why.kind() {
        ErrorKind::Utf8 { .. } => "is not UTF-8; convert it with iconv -t UTF-8".to_owned(),
        ErrorKind::Deserialize { err, .. } => err.to_string(),
        ErrorKind::Io(why) => why.to_string(),
        other => format!("{other:?}"),
    };
    Damage::at(Place::Line(line), what)
}

/// That a row has too few fields or too many.
pub(crate) fn unequal(line: u64, found: usize, expected: usize) -> Damage {
    let what = format!("has {found} of {expected} columns; the file was cut off, or a field lacks its quotes");
    Damage::at(Place::Line(line), what)
}
