//! The heads of runs and loads: one short row each, with how much belongs to it.
//!
//! A head is all that a list needs, so that a list of ten thousand runs reads no document. It counts the rows that belong to
//! its run and sums up their checksums, as the one row of `tally` does for the heads: whoever reads a run knows whether a
//! row of it is missing.

use crate::checksum::{Checksum, Mismatch, compare};
use crate::run_id::RunId;
use rusqlite::{Connection, OptionalExtension, Row, params};
use std::cmp::Reverse;

/// The kind of a head that is a run of a study. That of a load is the format of its result.
pub(crate) const STUDY: &str = "study";

/// Outcomes: it came to its end, the user stopped it, nothing could be measured.
pub(crate) const COMPLETE: &str = "complete";
pub(crate) const INTERRUPTED: &str = "interrupted";
pub(crate) const FAILED: &str = "failed";

const COLUMNS: &str = "id, format, kind, title, study_file, version, cells, started_ns, ended_ns, outcome, stop_reason, \
                       trials, blocks, looks, imports, seconds, unverified, contents, checksum";
const VALUES: &str = "?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19";

/// The head of a run or load; times are nanoseconds since 1970.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub id: RunId,
    /// The format of the documents that belong to it.
    pub format: i64,
    pub kind: String,
    pub title: String,
    pub study_file: String,
    /// The version of baremark that began it.
    pub version: String,
    /// Trials in each block.
    pub cells: i64,
    pub started_ns: i64,
    pub ended_ns: Option<i64>,
    /// How it ended; `None` while it has not.
    pub outcome: Option<String>,
    pub stop_reason: Option<String>,
    pub trials: i64,
    /// Blocks that are complete.
    pub blocks: i64,
    pub looks: i64,
    pub imports: i64,
    pub seconds: i64,
    /// Rows of an earlier version, which have no checksum.
    pub unverified: i64,
    /// The sum of the checksums of all rows that belong to it, modulo 2^32.
    pub contents: u32,
}

/// A head as its row is read: with the checksum that is stored alongside it.
pub(crate) struct Found {
    pub head: Head,
    pub stored: Option<i64>,
}

/// Why a head is not what was written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unverified {
    #[error("its checksum is missing")]
    Missing,
    #[error(transparent)]
    Mismatch(#[from] Mismatch),
}

impl Found {
    /// The head, if it is as it was written. `checksummed` is whether rows of this file have checksums at all.
    pub(crate) fn verified(self, checksummed: bool) -> Result<Head, Unverified> {
        if checksummed {
            let stored = self.stored.ok_or(Unverified::Missing)?;
            compare(Some(stored), self.head.checksum())?;
        }
        Ok(self.head)
    }
}

impl Head {
    /// A head with nothing in it yet.
    pub(crate) fn empty(id: RunId) -> Head {
        Head {
            id,
            format: 0,
            kind: String::new(),
            title: String::new(),
            study_file: String::new(),
            version: String::new(),
            cells: 0,
            started_ns: 0,
            ended_ns: None,
            outcome: None,
            stop_reason: None,
            trials: 0,
            blocks: 0,
            looks: 0,
            imports: 0,
            seconds: 0,
            unverified: 0,
            contents: 0,
        }
    }

    /// Notes how it ended.
    pub(crate) fn end(&mut self, outcome: &str, ended_ns: Option<i64>, stop_reason: &str) {
        self.outcome = Some(outcome.to_owned());
        self.ended_ns = ended_ns;
        self.stop_reason = Some(stop_reason.to_owned());
    }

    /// Notes that it has not ended.
    pub(crate) fn reopen(&mut self) {
        (self.outcome, self.ended_ns, self.stop_reason) = (None, None, None);
    }

    /// Takes away the checksum of a row that no longer belongs to it.
    pub(crate) fn remove(&mut self, checksum: u32) {
        self.contents = self.contents.wrapping_sub(checksum);
    }

    /// Adds the checksum of a row that belongs to it from now on.
    pub(crate) fn add(&mut self, checksum: u32) {
        self.contents = self.contents.wrapping_add(checksum);
    }

    fn checksum(&self) -> u32 {
        let texts = [self.id.as_str(), &self.kind, &self.title, &self.study_file, &self.version];
        let numbers = [
            self.format,
            self.cells,
            self.started_ns,
            self.trials,
            self.blocks,
            self.looks,
            self.imports,
            self.seconds,
        ];
        let sum = texts.into_iter().fold(Checksum::of("run"), Checksum::text);
        let sum = numbers.into_iter().fold(sum, Checksum::number);
        sum.maybe_number(self.ended_ns)
            .maybe_text(self.outcome.as_deref())
            .maybe_text(self.stop_reason.as_deref())
            .number(self.unverified)
            .number(i64::from(self.contents))
            .done()
    }

    fn from_row(row: &Row<'_>) -> rusqlite::Result<Found> {
        let id: String = row.get(0)?;
        let odd = |why| rusqlite::Error::FromSqlConversionFailure(0, rusqlite::types::Type::Text, Box::new(why));
        let head = Head {
            id: id.parse().map_err(odd)?,
            format: row.get(1)?,
            kind: row.get(2)?,
            title: row.get(3)?,
            study_file: row.get(4)?,
            version: row.get(5)?,
            cells: row.get(6)?,
            started_ns: row.get(7)?,
            ended_ns: row.get(8)?,
            outcome: row.get(9)?,
            stop_reason: row.get(10)?,
            trials: row.get(11)?,
            blocks: row.get(12)?,
            looks: row.get(13)?,
            imports: row.get(14)?,
            seconds: row.get(15)?,
            unverified: row.get(16)?,
            contents: row.get(17)?,
        };
        Ok(Found { head, stored: row.get(18)? })
    }

    /// Writes the row of a head that is new, and counts it.
    pub(crate) fn insert(&self, connection: &Connection) -> rusqlite::Result<()> {
        self.write(connection, &format!("INSERT INTO run ({COLUMNS}) VALUES ({VALUES})"))?;
        Tally::read(connection)?.change(connection, 1, Tally::share(&self.id))
    }

    /// Writes the row of a head that is there.
    pub(crate) fn update(&self, connection: &Connection) -> rusqlite::Result<()> {
        self.write(connection, &format!("UPDATE run SET ({COLUMNS}) = ({VALUES}) WHERE id = ?1"))
    }

    fn write(&self, connection: &Connection, sql: &str) -> rusqlite::Result<()> {
        let row = params![
            self.id.as_str(),
            self.format,
            self.kind,
            self.title,
            self.study_file,
            self.version,
            self.cells,
            self.started_ns,
            self.ended_ns,
            self.outcome,
            self.stop_reason,
            self.trials,
            self.blocks,
            self.looks,
            self.imports,
            self.seconds,
            self.unverified,
            self.contents,
            self.checksum(),
        ];
        connection.execute(sql, row).map(drop)
    }

    /// Deletes its row.
    pub(crate) fn delete(&self, connection: &Connection) -> rusqlite::Result<()> {
        connection.execute("DELETE FROM run WHERE id = ?1", [self.id.as_str()])?;
        Tally::read(connection)?.change(connection, -1, Tally::share(&self.id).wrapping_neg())
    }
}

/// The head of one run or load; `None` where there is none of that name.
pub(crate) fn one(connection: &Connection, id: &RunId) -> rusqlite::Result<Option<Found>> {
    let sql = format!("SELECT {COLUMNS} FROM run WHERE id = ?1");
    connection.query_row(&sql, [id.as_str()], Head::from_row).optional()
}

/// What a list of all heads came to.
pub(crate) struct All {
    /// Those that are as they were written, the latest first.
    pub heads: Vec<Head>,
    /// Of the others: the name, where it could be read, and what is wrong.
    pub damaged: Vec<(Option<RunId>, String)>,
}

/// All heads. `checksummed` is whether rows of this file have checksums.
pub(crate) fn all(connection: &Connection, checksummed: bool) -> rusqlite::Result<All> {
    let mut all = All { heads: Vec::new(), damaged: Vec::new() };
    let mut select = connection.prepare(&format!("SELECT {COLUMNS} FROM run"))?;
    let mut rows = select.query(())?;
    let (mut count, mut ids) = (0, 0_u32);
    while let Some(row) = rows.next()? {
        count += 1;
        match Head::from_row(row) {
            Ok(found) => {
                let id = found.head.id.clone();
                ids = ids.wrapping_add(Tally::share(&id));
                match found.verified(checksummed) {
                    Ok(head) => all.heads.push(head),
                    Err(why) => all.damaged.push((Some(id), why.to_string())),
                }
            }
            Err(why) => all.damaged.push((None, why.to_string())),
        }
    }
    if checksummed {
        match Tally::read(connection)? {
            tally if !tally.sound => {
                all.damaged.push((None, "the count of runs does not match its checksum".to_owned()))
            }
            tally if tally.runs != count => {
                all.damaged.push((None, format!("{count} of {} runs are present", tally.runs)));
            }
            tally if tally.ids != ids && all.damaged.is_empty() => {
                all.damaged.push((None, "the names of the runs do not match their checksum".to_owned()));
            }
            _ => {}
        }
    }
    all.heads.sort_by_cached_key(|head| Reverse((head.started_ns, head.id.clone())));
    Ok(all)
}

/// How many heads there are, and the sum of what each adds.
struct Tally {
    runs: i64,
    ids: u32,
    sound: bool,
}

impl Tally {
    fn share(id: &RunId) -> u32 {
        Checksum::of("id").text(id.as_str()).done()
    }

    fn checksum(runs: i64, ids: u32) -> u32 {
        Checksum::of("tally").number(runs).number(i64::from(ids)).done()
    }

    fn read(connection: &Connection) -> rusqlite::Result<Tally> {
        connection.query_row("SELECT runs, ids, checksum FROM tally", (), |row| {
            let (runs, ids, stored): (i64, u32, i64) = (row.get(0)?, row.get(1)?, row.get(2)?);
            Ok(Tally { runs, ids, sound: compare(Some(stored), Tally::checksum(runs, ids)).is_ok() })
        })
    }

    fn change(&self, connection: &Connection, runs: i64, ids: u32) -> rusqlite::Result<()> {
        // A count that was damaged stays damaged: a new checksum must not hide it.
        if !self.sound {
            return Ok(());
        }
        let (runs, ids) = (self.runs + runs, self.ids.wrapping_add(ids));
        connection.execute(
            "UPDATE tally SET runs = ?1, ids = ?2, checksum = ?3",
            params![runs, ids, Tally::checksum(runs, ids)],
        )?;
        Ok(())
    }
}

/// Gives the heads of an earlier version their checksums, and counts them.
pub(crate) fn seal(connection: &Connection) -> rusqlite::Result<()> {
    let found = all(connection, false)?;
    if let Some((_, why)) = found.damaged.into_iter().next() {
        let odd = std::io::Error::other(why);
        return Err(rusqlite::Error::FromSqlConversionFailure(0, rusqlite::types::Type::Text, Box::new(odd)));
    }
    for head in &found.heads {
        head.update(connection)?;
    }
    let ids = found.heads.iter().map(|head| Tally::share(&head.id)).fold(0, u32::wrapping_add);
    let runs = i64::try_from(found.heads.len()).unwrap_or(i64::MAX);
    connection.execute(
        "INSERT INTO tally (runs, ids, checksum) VALUES (?1, ?2, ?3)",
        params![runs, ids, Tally::checksum(runs, ids)],
    )?;
    Ok(())
}
