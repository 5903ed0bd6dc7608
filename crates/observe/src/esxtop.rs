//! What esxtop wrote in batch mode (`esxtop -b`): one line of headings such as `\\host\Physical Cpu(_Total)\% Util Time`, then
//! one line of values for each moment, thousands of columns wide.
//!
//! The file is read record by record and only chosen columns are kept, so that its size does not matter. esxtop is killed
//! more often than it ends: a row that was cut off is taken as far as it goes. Values are esxtop's own; what is made of
//! them is the sum over adapters and ports that a report of ours shows, and nothing else.

mod heading;
mod sums;
mod time;

use crate::points::Points;
use baremark_model::imported::{Imported, ImportedSeries};
use baremark_model::observation::Values;
use csv::{ByteRecord, ReaderBuilder};
use heading::{Heading, is_usual};
use std::collections::BTreeMap;
use std::io::{self, Read};
use std::time::Duration;

/// The most columns that are kept at once; each has its points in memory.
const MOST_COLUMNS: usize = 4096;
/// A line longer than this is not a line of esxtop's.
const LONGEST_LINE: usize = 64 << 20;
const MARK: &[u8] = b"(PDH-CSV 4.0)";

/// What of a file is requested.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Choice {
    /// Columns whose heading contains one of these, whatever the case, in addition to the usual ones.
    pub containing: Vec<String>,
    /// Nanoseconds to add to every time in the file.
    pub shift_ns: i64,
}

/// Why a file could not be imported.
#[derive(Debug, thiserror::Error)]
pub enum EsxtopError {
    /// It is something else.
    #[error("this is not a batch output of esxtop: {what}; {remedy}")]
    Foreign {
        /// What was found.
        what: String,
        /// What would be right.
        remedy: &'static str,
    },
    /// None of its columns is requested.
    #[error(
        "none of the {columns} columns is selected; the file has {objects}; name some with --counter, or see --list"
    )]
    NoColumn {
        /// How many there are.
        columns: usize,
        /// The objects that it has.
        objects: String,
    },
    /// Too many of its columns are requested.
    #[error("{wanted} columns were selected, at most {MOST_COLUMNS} are possible; name fewer with --counter")]
    TooMany {
        /// How many.
        wanted: usize,
    },
    /// It has no row that can be read.
    #[error("no row can be read{why}")]
    NoRow {
        /// What was wrong with the first.
        why: String,
    },
    /// Another file was written behind it.
    #[error("row {row} is a heading with other columns: two files became one; split it there")]
    SecondHeading {
        /// Which row, the first heading being 1.
        row: u64,
    },
    /// It could not be read.
    #[error("row {row}: {why}")]
    Read {
        /// Which row, the first heading being 1.
        row: u64,
        /// Why.
        why: String,
    },
}

/// Whether a file that begins with these bytes is batch output of esxtop.
#[must_use]
pub fn recognises(head: &[u8]) -> bool {
    let text = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head);
    text.strip_prefix(b"\"").unwrap_or(text).starts_with(MARK)
}

/// The objects of a file with their counters, and how many columns each counter has.
///
/// # Errors
/// When it is no such file.
pub fn list(input: impl Read) -> Result<Vec<(String, usize)>, EsxtopError> {
    let (_, heading) = open(input)?;
    let mut counters: BTreeMap<String, usize> = BTreeMap::new();
    for heading in heading.iter().skip(1).filter_map(Heading::read) {
        *counters.entry(format!("{}\\{}", heading.object, heading.counter)).or_default() += 1;
    }
    Ok(counters.into_iter().collect())
}

/// Reads a file.
///
/// # Errors
/// When it is no such file, nothing of it is requested, or no row of it can be read. A bad row is skipped and reported.
pub fn read(input: impl Read, choice: &Choice) -> Result<Imported, EsxtopError> {
    let (mut reader, heading) = open(input)?;
    let headings: Vec<Option<Heading>> = heading.iter().map(Heading::read).collect();
    let columns = choose(&headings, choice)?;
    let host = headings.iter().flatten().next().map(|heading| heading.host.clone()).unwrap_or_default();
    let bias_s = time::bias(heading.get(0).unwrap_or_default());
    let mut taking = Taking::new(columns, headings.len());
    let mut record = ByteRecord::new();
    let mut row = 1;
    loop {
        row += 1;
        match reader.read_byte_record(&mut record) {
            Ok(false) => break,
            Ok(true) => taking.row(row, &record, &heading, bias_s)?,
            // What was read before a disk or a pipe failed is worth having; a file that fails at once is not.
            Err(why) if taking.rows > 0 => {
                taking.notes.push(format!("rows from {row} on could not be read: {why}"));
                break;
            }
            Err(why) => return Err(EsxtopError::Read { row, why: why.to_string() }),
        }
    }
    taking.end(host, choice.shift_ns)
}

/// A file's records, of which the first bytes were looked at.
type Records<R> = csv::Reader<Lines<io::Chain<io::Cursor<Vec<u8>>, R>>>;

/// The file's reader behind its heading.
fn open<R: Read>(input: R) -> Result<(Records<R>, ByteRecord), EsxtopError> {
    let unreadable = |why: String| EsxtopError::Read { row: 1, why };
    let mut input = input;
    let mut first = Vec::new();
    input.by_ref().take(32).read_to_end(&mut first).map_err(|why| unreadable(why.to_string()))?;
    let foreign = |what: &str, remedy: &'static str| Err(EsxtopError::Foreign { what: what.to_owned(), remedy });
    let text = first.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&first).to_vec();
    match text.as_slice() {
        [] => return foreign("it is empty", "write it with esxtop -b -d 5 -n 60 > FILE"),
        [0x1f, 0x8b, ..] => return foreign("it is compressed", "gunzip -c FILE | baremark import -"),
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => {
            return foreign("it is UTF-16", "convert it with iconv -f UTF-16 -t UTF-8");
        }
        text if !text.strip_prefix(b"\"").unwrap_or(text).starts_with(MARK) => {
            let begins = String::from_utf8_lossy(text).escape_debug().to_string();
            return foreign(&format!("it begins with '{begins}'"), "its first line begins with \"(PDH-CSV 4.0)");
        }
        _ => {}
    }
    let lines = Lines { inner: io::Cursor::new(text).chain(input), since: 0 };
    let mut reader = ReaderBuilder::new().has_headers(false).flexible(true).buffer_capacity(1 << 20).from_reader(lines);
    let mut heading = ByteRecord::new();
    match reader.read_byte_record(&mut heading) {
        Ok(true) if heading.len() > 1 => Ok((reader, heading)),
        Ok(_) => foreign("its heading names no column", "write it with esxtop -b -d 5 -n 60 > FILE"),
        Err(why) => Err(unreadable(why.to_string())),
    }
}

/// Refuses a line that does not end: it is some other file, and would fill the memory.
struct Lines<R> {
    inner: R,
    since: usize,
}

impl<R: Read> Read for Lines<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let got = self.inner.read(buffer)?;
        match buffer[..got].iter().rposition(|byte| *byte == b'\n') {
            Some(at) => self.since = got - at,
            None => self.since += got,
        }
        if self.since > LONGEST_LINE {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "a line does not end; the file is not esxtop's"));
        }
        Ok(got)
    }
}

/// The columns that are requested: place in a record and heading.
fn choose(headings: &[Option<Heading>], choice: &Choice) -> Result<Vec<(usize, Heading)>, EsxtopError> {
    let wanted: Vec<String> = choice.containing.iter().map(|text| text.to_lowercase()).collect();
    let mut columns: Vec<(usize, Heading)> = Vec::new();
    for (index, heading) in headings.iter().enumerate().skip(1) {
        let Some(heading) = heading else { continue };
        let words = heading.words().to_lowercase();
        let chosen = is_usual(heading) || wanted.iter().any(|text| words.contains(text.as_str()));
        // Where two columns have one heading, the first is taken.
        if chosen && !columns.iter().any(|(_, other)| other == heading) {
            columns.push((index, heading.clone()));
        }
        if columns.len() > MOST_COLUMNS {
            let more = headings[index..].iter().flatten().filter(|heading| {
                is_usual(heading) || wanted.iter().any(|text| heading.words().to_lowercase().contains(text.as_str()))
            });
            return Err(EsxtopError::TooMany { wanted: MOST_COLUMNS + more.count() });
        }
    }
    if columns.is_empty() {
        let mut objects: Vec<String> = headings.iter().flatten().map(|heading| heading.object.clone()).collect();
        objects.sort();
        objects.dedup();
        objects.truncate(20);
        let objects = if objects.is_empty() { "no object that is known".to_owned() } else { objects.join(", ") };
        return Err(EsxtopError::NoColumn { columns: headings.len() - 1, objects });
    }
    Ok(columns)
}

/// Values of one series so far.
#[derive(Clone, Copy, Debug)]
struct Spread {
    n: u64,
    sum: f64,
    min: f64,
    max: f64,
}

/// Rows as they come.
struct Taking {
    columns: Vec<(usize, Heading)>,
    width: usize,
    sums: sums::Sums,
    points: Points,
    spreads: BTreeMap<String, Spread>,
    began: Option<i64>,
    last: i64,
    last_point: f64,
    step: f64,
    rows: u64,
    skipped: BTreeMap<&'static str, (u64, u64)>,
    notes: Vec<String>,
}

impl Taking {
    fn new(columns: Vec<(usize, Heading)>, width: usize) -> Self {
        let sums = sums::Sums::of(&columns);
        Taking {
            columns,
            width,
            sums,
            points: Points::default(),
            spreads: BTreeMap::new(),
            began: None,
            last: i64::MIN,
            last_point: 0.0,
            step: 0.0,
            rows: 0,
            skipped: BTreeMap::new(),
            notes: Vec::new(),
        }
    }

    fn tell(&mut self, what: &'static str, row: u64) {
        self.skipped.entry(what).or_insert((0, row)).0 += 1;
    }

    fn row(&mut self, row: u64, record: &ByteRecord, heading: &ByteRecord, bias_s: i64) -> Result<(), EsxtopError> {
        let first = record.get(0).unwrap_or_default();
        if first.starts_with(MARK) {
            return if record == heading { Ok(()) } else { Err(EsxtopError::SecondHeading { row }) };
        }
        let Some(at) = time::unix_ms(first).map(|ms| ms + bias_s * 1000) else {
            self.tell("have no time of the form 11/21/2026 06:51:42 and are skipped", row);
            return Ok(());
        };
        if at <= self.last {
            self.tell("are no later than the row before and are skipped: the clock was set back", row);
            return Ok(());
        }
        // The last field of a row that was cut may be half a number.
        let whole = if record.len() < self.width { record.len() - 1 } else { record.len() };
        if record.len() != self.width {
            let what = if record.len() < self.width {
                "have too few fields and are taken as far as they go"
            } else {
                "have too many fields, of which the last are left out"
            };
            self.tell(what, row);
        }
        let mut values = Values::new();
        let mut odd = false;
        for (index, heading) in &self.columns {
            let Some(field) = record.get(*index).filter(|_| *index < whole) else { continue };
            match std::str::from_utf8(field).ok().and_then(|text| text.trim().parse::<f64>().ok()) {
                Some(value) if value.is_finite() => drop(values.insert(heading.key(), value)),
                _ => odd = true,
            }
        }
        if odd {
            self.tell("have a field that is not a number, which is left out", row);
        }
        self.sums.add(&mut values);
        self.take(at, values);
        Ok(())
    }

    fn take(&mut self, at: i64, values: Values) {
        let began = *self.began.get_or_insert(at);
        self.last = at;
        self.rows += 1;
        for (key, value) in &values {
            let none = Spread { n: 0, sum: 0.0, min: f64::INFINITY, max: f64::NEG_INFINITY };
            let spread = self.spreads.entry(key.clone()).or_insert(none);
            spread.n += 1;
            spread.sum += value;
            spread.min = spread.min.min(*value);
            spread.max = spread.max.max(*value);
        }
        #[expect(clippy::cast_precision_loss, reason = "milliseconds of an observation")]
        let seconds = (at - began) as f64 / 1e3;
        if self.rows == 2 {
            self.step = seconds;
        }
        // Where points became fewer, rows between them are left out of the line; the means above have them all.
        if self.rows == 1 || seconds - self.last_point >= self.step * f64::from(self.points.stretch()) * 0.99 {
            self.points.add(seconds, &values);
            self.last_point = seconds;
        }
    }

    fn end(mut self, host: String, shift_ns: i64) -> Result<Imported, EsxtopError> {
        let counted = |(what, (rows, first)): (&&'static str, &(u64, u64))| match rows {
            1 => format!("row {first}: 1 row of those that {what}"),
            _ => format!("{rows} rows, the first of them row {first}, {what}"),
        };
        let skipped: Vec<String> = self.skipped.iter().map(counted).collect();
        let Some(began) = self.began else {
            let why = skipped
                .first()
                .map_or_else(|| ": there are no rows after the heading".to_owned(), |why| format!(": {why}"));
            return Err(EsxtopError::NoRow { why });
        };
        self.notes.splice(0..0, skipped);
        if self.points.stretch() > 1 {
            self.notes.push(format!("lines show every {}th row; means are over all", self.points.stretch()));
        }
        #[expect(clippy::cast_precision_loss, reason = "milliseconds and counts of an observation")]
        let seconds = (self.last - began) as f64 / 1e3;
        let series = self.points.series(Duration::from_secs(1));
        let mut lines = series.values;
        let columns = &self.columns;
        let of = |(key, spread): (&String, &Spread)| {
            let points = lines.remove(key).unwrap_or_default();
            let points = series.at_s.iter().zip(points).filter_map(|(at, value)| Some([*at, value?])).collect();
            let (quantity, instance, unit) = heading::named(key, columns);
            #[expect(clippy::cast_precision_loss, reason = "rows of an observation")]
            let mean = spread.sum / spread.n as f64;
            ImportedSeries { quantity, instance, unit, n: spread.n, mean, min: spread.min, max: spread.max, points }
        };
        let series = self.spreads.iter().map(of).collect();
        let began_ns = i128::from(began) * 1_000_000 + i128::from(shift_ns);
        let began_unix_ns = u64::try_from(began_ns.max(0)).unwrap_or(u64::MAX);
        let program = "esxtop".to_owned();
        let file = String::new();
        Ok(Imported { program, host, file, rows: self.rows, began_unix_ns, seconds, series, notes: self.notes })
    }
}
