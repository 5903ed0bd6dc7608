//! A file as it is read: its beginning, by which the format is found, and the rest, which comes in pieces and is limited.

use crate::result::{Damage, Place};
use std::cell::Cell;
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::rc::Rc;

/// Bytes of a file by which its format is found.
const HEAD: u64 = 64 << 10;
/// The longest file: a log of transactions.
pub const LONGEST_FILE: u64 = 512 << 20;
/// The longest file of a format that is held in memory: one document, or what a program prints.
pub const LONGEST_DOCUMENT: u64 = 32 << 20;
/// The longest line of a log, and the longest row of a table.
pub(crate) const LONGEST_LINE: u64 = 4 << 20;

const BYTE_ORDER_MARK: &[u8] = &[0xef, 0xbb, 0xbf];

/// What is known of the bytes that were read.
#[derive(Debug, Default)]
pub(crate) struct Passed {
    bytes: Cell<u64>,
    lines: Cell<u64>,
    /// The last two bytes but for carriage returns, the last one second.
    last: Cell<[u8; 2]>,
}

impl Passed {
    fn take(&self, bytes: &[u8]) {
        self.bytes.set(self.bytes.get() + bytes.len() as u64);
        let mut last = self.last.get();
        let mut lines = 0;
        for &byte in bytes {
            lines += u64::from(byte == b'\n');
            if byte != b'\r' {
                last = [last[1], byte];
            }
        }
        self.last.set(last);
        self.lines.set(self.lines.get() + lines);
    }

    /// How many.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.get()
    }

    /// Whether the last line has its end.
    pub(crate) fn ends_a_line(&self) -> bool {
        self.last.get()[1] == b'\n'
    }

    /// Whether the last line is empty.
    pub(crate) fn ends_with_an_empty_line(&self) -> bool {
        self.last.get() == [b'\n', b'\n']
    }

    /// The lines that were begun, at least 1.
    pub(crate) fn lines(&self) -> u64 {
        (self.lines.get() + u64::from(!self.ends_a_line())).max(1)
    }
}

/// A source that notes what passes, and has an end.
struct Source<'r> {
    head: Cursor<Vec<u8>>,
    rest: &'r mut dyn Read,
    passed: Rc<Passed>,
}

impl Read for Source<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let mut count = self.head.read(into)?;
        if count == 0 {
            count = self.rest.read(into)?;
        }
        self.passed.take(&into[..count]);
        match self.passed.bytes.get() > LONGEST_FILE {
            true => Err(io::Error::other(format!("longer than {} MiB; import a part of it", LONGEST_FILE >> 20))),
            false => Ok(count),
        }
    }
}

/// A file.
pub(crate) struct Text<'r> {
    head: String,
    from: BufReader<Source<'r>>,
    passed: Rc<Passed>,
}

impl<'r> Text<'r> {
    /// Reads the beginning.
    pub(crate) fn open(from: &'r mut dyn Read) -> Result<Text<'r>, Damage> {
        let mut head = Vec::new();
        from.take(HEAD).read_to_end(&mut head).map_err(|why| unreadable(Place::Byte(0), &why))?;
        if head.starts_with(BYTE_ORDER_MARK) {
            head.drain(..BYTE_ORDER_MARK.len());
        }
        let text = String::from_utf8_lossy(&head).into_owned();
        let passed = Rc::new(Passed::default());
        let source = Source { head: Cursor::new(head), rest: from, passed: passed.clone() };
        Ok(Text { head: text, from: BufReader::new(source), passed })
    }

    /// The beginning, where bytes that are not UTF-8 are replaced.
    pub(crate) fn head(&self) -> &str {
        &self.head
    }

    /// The first line, as far as it is in the beginning.
    pub(crate) fn first_line(&self) -> &str {
        self.head.lines().next().unwrap_or_default()
    }

    /// Whether nothing but blanks is in it.
    pub(crate) fn is_empty(&self) -> bool {
        (self.head.len() as u64) < HEAD && self.head.trim().is_empty()
    }

    /// The lines that were read.
    pub(crate) fn lines(&self) -> u64 {
        self.passed.lines()
    }

    /// All of it.
    pub(crate) fn whole(&mut self) -> Result<String, Damage> {
        let mut bytes = Vec::new();
        let read = (&mut self.from).take(LONGEST_DOCUMENT + 1).read_to_end(&mut bytes);
        read.map_err(|why| unreadable(Place::Line(self.lines()), &why))?;
        if bytes.len() as u64 > LONGEST_DOCUMENT {
            let what = format!("longer than {} MiB; import a part of it", LONGEST_DOCUMENT >> 20);
            return Err(Damage::at(Place::Whole, what));
        }
        String::from_utf8(bytes).map_err(|why| not_utf8(Place::Byte(why.utf8_error().valid_up_to() as u64)))
    }

    /// The next line with its number, from 1, without blanks at its ends; `None` behind the last one. A last line that does not end is
    /// refused.
    pub(crate) fn line<'b>(&mut self, buffer: &'b mut Vec<u8>, number: u64) -> Result<Option<&'b str>, Damage> {
        let place = Place::Line(number);
        buffer.clear();
        let read = (&mut self.from).take(LONGEST_LINE + 1).read_until(b'\n', buffer);
        match read.map_err(|why| unreadable(place, &why))? {
            0 => return Ok(None),
            _ if buffer.ends_with(b"\n") => {}
            length if length as u64 > LONGEST_LINE => return Err(Damage::at(place, too_long("line"))),
            _ => return Err(Damage::at(place, NO_END)),
        }
        std::str::from_utf8(buffer).map(|line| Some(line.trim())).map_err(|_why| not_utf8(place))
    }

    /// The rest as bytes, for a reader of tables, and what passes.
    pub(crate) fn bytes(&mut self) -> (&mut (dyn Read + 'r), Rc<Passed>) {
        (&mut self.from, self.passed.clone())
    }
}

/// What is wrong with a last line that does not end.
pub(crate) const NO_END: &str = "the last line has no line feed: the file was cut off; add one if the line is complete";

/// That a line or row is too long.
pub(crate) fn too_long(what: &str) -> String {
    format!("the {what} is longer than {} MiB", LONGEST_LINE >> 20)
}

fn not_utf8(place: Place) -> Damage {
    Damage::at(place, "is not UTF-8; convert it with iconv -t UTF-8")
}

fn unreadable(place: Place, why: &io::Error) -> Damage {
    Damage::at(place, why.to_string())
}
